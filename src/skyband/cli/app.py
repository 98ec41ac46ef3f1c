"""The commands and their options; each imports what it needs when it runs."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from skyband.cli.arguments import (
    Algorithm,
    AllTime,
    Also,
    Bounds,
    By,
    Combine,
    Cumulative,
    Emit,
    Engine,
    Every,
    File,
    Format,
    Full,
    Id,
    K,
    Key,
    Last,
    Length,
    Master,
    NamedAlgorithm,
    Offset,
    On,
    Option,
    Out,
    Outside,
    PartitionBy,
    RankBy,
    Repeats,
    Slide,
    Stream,
    Streams,
    Ties,
    Time,
    Total,
    Value,
    Where,
    flag,
    of_query,
    option,
)

app = typer.Typer(
    name="skyband",
    help="Continuous top-k queries over data streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def skyband(
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
) -> None:
    """Continuous top-k queries over data streams."""
    if version:
        import skyband

        print(f"skyband {skyband.__version__}")
        raise typer.Exit


@cache
def parser() -> Any:
    """What parses a command line, made once: to make it takes as long as to rank a small file."""
    return get_command(app)


def _rank(family: str, given: dict[str, Any]) -> None:
    """Rank a file as the options of a family's command say."""
    from skyband.cli.commands.rank import command

    command(family, given)


@app.command()
def top(
    file: File,
    by: By,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    cumulative: Cumulative = None,
    all_time: AllTime = False,
    every: Every = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    where: Where = None,
    ties: Ties = "newest",
    rank_by: RankBy = "row_number",
    emit: Emit = "all",
    algorithm: Algorithm = "auto",
    engine: Engine = "auto",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank the rows of a file: the k best scores of each window.

    Example: skyband top trades.parquet --k 3 --by 'price * volume' --last 1000 --slide 100
    """
    _rank("top", locals())


@app.command()
def dominating(
    file: File,
    on: On,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    cumulative: Cumulative = None,
    all_time: AllTime = False,
    every: Every = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    where: Where = None,
    ties: Ties = "newest",
    rank_by: RankBy = "row_number",
    emit: Emit = "all",
    algorithm: NamedAlgorithm = "auto",
    engine: Engine = "auto",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Find the k rows of each window that dominate the most others, without a scoring function.

    Example: skyband dominating homes.csv --k 3 --on price:min --on area:max --last 1000
    """
    _rank("dominating", locals())


@app.command()
def incomplete(
    file: File,
    id: Id,
    stream: Stream,
    value: Value,
    streams: Streams = None,
    combine: Combine = "sum",
    bounds: Bounds = None,
    outside: Outside = "error",
    repeats: Repeats = "max",
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    cumulative: Cumulative = None,
    all_time: AllTime = False,
    every: Every = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    where: Where = None,
    ties: Ties = "newest",
    rank_by: RankBy = "row_number",
    emit: Emit = "all",
    algorithm: NamedAlgorithm = "auto",
    option: Option = None,
    engine: Engine = "auto",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank objects whose attributes come apart, each in its own stream, and may be missing.

    Example: skyband incomplete cars.csv --id plate --stream camera --value speed --bounds 0:250
    --time ts --window '10 minutes' --slide '1 minute'
    """
    _rank("incomplete", locals())


@app.command()
def totals(
    file: File,
    key: Key,
    by: Total,
    also: Also = None,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    cumulative: Cumulative = None,
    all_time: AllTime = False,
    every: Every = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    where: Where = None,
    ties: Ties = "newest",
    rank_by: RankBy = "row_number",
    emit: Emit = "all",
    engine: Engine = "auto",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank keys by the totals of their rows: the largest sums, counts, means of each window.

    Example: skyband totals requests.parquet --key client --by 'sum(bytes)' --time ts
    --window '1 hour' --slide '1 minute'
    """
    _rank("totals", locals())


@app.command()
def workload(
    file: File,
    queries: Annotated[
        str,
        of_query(
            "--queries", "FILE", "The queries: CSV with the columns name,k,window,slide, or YAML."
        ),
    ],
    by: By,
    time: Time = None,
    where: Where = None,
    emit: Emit = "all",
    algorithm: Annotated[
        str, of_query("--algorithm", "NAME", "auto, mtopmerge, mtoplist, mtopband or independent.")
    ] = "auto",
    engine: Engine = "auto",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank the rows of a file by many queries at once, which share their work.

    Example: skyband workload trades.parquet --queries queries.csv --by price --time ts
    """
    _rank("workload", locals())


@app.command()
def run(
    job: Annotated[
        str, typer.Argument(metavar="JOB.yaml", help="A job file: source, query, sink.")
    ],
    master: Annotated[
        str | None,
        option(
            "--master",
            "MASTER",
            "Where Spark runs, such as 'local[2]' or 'spark://host:7077'; wins over the job.",
        ),
    ] = None,
    once: Annotated[bool, flag("--once", "Take in what there is now, then end.")] = False,
    quiet: Annotated[bool, flag("--quiet", "Say nothing but what is wrong.")] = False,
    serve: Annotated[
        str | None,
        option("--serve", "[HOST:]PORT", "Serve a live page of the job; port 0 is any free one."),
    ] = None,
) -> None:
    """Run a job on Spark and watch it: leaderboard, progress. Ctrl-C stops, a new run resumes."""
    from skyband.cli.commands.run import run_job

    raise typer.Exit(run_job(job, master, once, quiet, serve))


@app.command()
def explain(
    file: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Files to check the query against; or a job file, JOB.yaml, with its own query.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        of_query("--by", "EXPRESSION", "The score; with --key a total, such as 'sum(bytes)'."),
    ] = None,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    cumulative: Cumulative = None,
    all_time: AllTime = False,
    every: Every = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    where: Where = None,
    ties: Ties = "newest",
    rank_by: RankBy = "row_number",
    emit: Emit = "all",
    algorithm: Algorithm = "auto",
    on: Annotated[
        list[str] | None,
        of_query(
            "--on",
            "ATTRIBUTE:min|max",
            "A dimension of a top-k dominating query, instead of a score; may be repeated.",
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        of_query(
            "--id",
            "COLUMN",
            "What tells the objects of incomplete streams apart, instead of a score.",
        ),
    ] = None,
    stream: Annotated[str | None, of_query("--stream", "COLUMN", "The stream of a row.")] = None,
    value: Annotated[str | None, of_query("--value", "EXPRESSION", "What a stream says.")] = None,
    streams: Streams = None,
    combine: Combine = "sum",
    bounds: Bounds = None,
    outside: Outside = "error",
    repeats: Repeats = "max",
    key: Annotated[
        list[str] | None,
        of_query("--key", "COLUMN", "Of what totals are taken, instead of a score of each row."),
    ] = None,
    also: Also = None,
    queries: Annotated[
        str | None,
        of_query(
            "--queries",
            "FILE",
            "A workload: its queries in CSV or YAML, instead of one query's options.",
        ),
    ] = None,
    as_json: Annotated[bool, flag("--json", "One array of flat records.")] = False,
    physical: Annotated[
        bool, flag("--physical", "Also the physical plan of Spark (job files).")
    ] = False,
) -> None:
    """Tell how a query would be answered: panes, algorithm and why, expected candidates."""
    given = locals()
    from skyband.cli.commands.explain import command

    command(given)


@app.command()
def generate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="time_u, time_r, stock, trip, planet, gmti, flights (real); of points: ind, ant, "
            "cor, cover, homes, network; incomplete: sightings, cameras, flows, worldcup.",
        ),
    ],
    rows: Annotated[str, option("--rows", "N", "How many rows: 1000, 1_000 or 1e3.")],
    out: Annotated[str, option("--out", "FILE", "A .csv, .parquet or .jsonl file.")],
    seed: Annotated[str, option("--seed", "S", "Same seed, same rows.")] = "0",
    rate: Annotated[str, option("--rate", "even|bursty", "How rows arrive in time.")] = "even",
    dimensions: Annotated[
        str | None, option("--dimensions", "D", "Attributes of ind, ant and cor; 4 of them.")
    ] = None,
    streams: Annotated[
        str | None, option("--streams", "N", "Streams of sightings; 3 of them.")
    ] = None,
    xi: Annotated[
        float | None,
        option(
            "--xi",
            "P",
            "How likely a row of sightings is of an object that another stream has seen; 0.5.",
        ),
    ] = None,
    memory: Annotated[
        str | None, option("--memory", "C", "How many objects streams of sightings remember; 100.")
    ] = None,
) -> None:
    """Write a data set to a file: seeded streams as in the papers, and small real data."""
    from skyband.cli.commands import tools

    shape = {"dimensions": dimensions, "streams": streams, "xi": xi, "memory": memory}
    tools.generate(name, rows, seed, out, rate, **shape)


@app.command()
def demo(
    seconds: Annotated[
        str | None,
        option(
            "--seconds",
            "S",
            "How long to watch: 60, or 20 on the local engine; 0 on Spark: until it is stopped.",
        ),
    ] = None,
    seed: Annotated[str, option("--seed", "N", "Same seed, same market.")] = "0",
    out: Annotated[
        str | None,
        option(
            "--out",
            "PLACE",
            "Where answers are written: a directory, skyband-demo if left out; on the local "
            "engine a .parquet file.",
        ),
    ] = None,
    engine: Annotated[
        str,
        option(
            "--engine",
            "spark|local",
            "What ranks it: a stream on an embedded Spark, or this process.",
            envvar="SKYBAND_ENGINE",
        ),
    ] = "spark",
    serve: Annotated[
        str | None,
        option("--serve", "[HOST:]PORT", "Serve a live page as well; port 0 is any free one."),
    ] = None,
) -> None:
    """Watch a lively stock market being ranked: the biggest trades of the last ten minutes."""
    from skyband.cli.commands import tools

    raise typer.Exit(tools.demo(seconds, seed, out, engine, serve))


@app.command()
def bench(
    words: Annotated[
        list[str],
        typer.Argument(metavar="NAME [WHAT]...", help="scan, paper sap, paper mintopk, ..."),
    ],
    as_json: Annotated[bool, flag("--json", "One array of flat records.")] = False,
    quick: Annotated[bool, flag("--quick", "Small sizes, a few minutes at most.")] = False,
    rows: Annotated[int | None, flag("--rows", "Rows of the stream (spark, peers).")] = None,
    server: Annotated[
        str | None, flag("--server", "A broker, host:port (spark-kafka only).")
    ] = None,
) -> None:
    """Run a benchmark of the repository, beside the papers' figures where there are any."""
    from skyband.cli.commands import tools

    raise typer.Exit(tools.bench(words, quick, as_json, rows, server))


@app.command()
def kernels(
    forget: Annotated[bool, flag("--forget", "Delete them; the next run compiles again.")] = False,
) -> None:
    """Show where compiled kernels are kept, and how large they are."""
    from skyband.cli.commands import tools

    tools.kernels(forget)
