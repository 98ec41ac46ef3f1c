"""The commands and their options; each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband.cli import explain_command, file_commands

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
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Continuous top-k queries over data streams."""
    if version:
        import skyband

        print(f"skyband {skyband.__version__}")
        raise typer.Exit


app.command()(file_commands.top)
app.command()(file_commands.dominating)
app.command()(file_commands.incomplete)
app.command()(file_commands.totals)
app.command()(file_commands.workload)


@app.command()
def run(
    job: Annotated[
        str, typer.Argument(metavar="JOB.yaml", help="A job file: source, query, sink.")
    ],
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="MASTER",
            help="Where Spark runs, such as 'local[2]' or 'spark://host:7077'; wins over the job.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Take in what there is now, then end.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what is wrong.")] = False,
) -> None:
    """Run a job on Spark and watch it: leaderboard and health. Ctrl-C stops, a new run resumes."""
    from skyband.cli import run as command

    raise typer.Exit(command.run(job, master, once, quiet))


app.command()(explain_command.explain)


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
    rows: Annotated[
        str, typer.Option("--rows", metavar="N", help="How many rows: 1000, 1_000 or 1e3.")
    ],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="A .csv, .parquet or .jsonl file.")
    ],
    seed: Annotated[str, typer.Option("--seed", metavar="S", help="Same seed, same rows.")] = "0",
    rate: Annotated[
        str, typer.Option("--rate", metavar="even|bursty", help="How rows arrive in time.")
    ] = "even",
    dimensions: Annotated[
        str | None,
        typer.Option(
            "--dimensions", metavar="D", help="Attributes of ind, ant and cor; 4 of them."
        ),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option("--streams", metavar="N", help="Streams of sightings; 3 of them."),
    ] = None,
    xi: Annotated[
        float | None,
        typer.Option(
            "--xi",
            metavar="P",
            help="How likely a row of sightings is of an object that another stream has seen; 0.5.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="C", help="How many objects streams of sightings remember; 100."
        ),
    ] = None,
) -> None:
    """Write a data set to a file: seeded streams as in the papers, and small real data."""
    from skyband.cli import generate as command

    shape = {"dimensions": dimensions, "streams": streams, "xi": xi, "memory": memory}
    command.run(name, rows, seed, out, rate, **shape)


@app.command()
def demo(
    seconds: Annotated[
        str | None,
        typer.Option(
            "--seconds", metavar="S", help="How long to watch: 60, or 20 on the local engine."
        ),
    ] = None,
    seed: Annotated[str, typer.Option("--seed", metavar="N", help="Same seed, same market.")] = "0",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PLACE",
            help="Where answers are written: a directory, skyband-demo if left out; on the local "
            "engine a .parquet file.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="spark|local",
            envvar="SKYBAND_ENGINE",
            help="What ranks it: a stream on an embedded Spark, or this process.",
        ),
    ] = "spark",
) -> None:
    """Watch a lively stock market being ranked: the biggest trades of the last ten minutes."""
    from skyband.cli import demo as command

    command.run(seconds, seed, out, engine)


@app.command()
def bench(
    words: Annotated[
        list[str],
        typer.Argument(metavar="NAME [WHAT]...", help="scan, paper sap, paper mintopk, ..."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One array of flat records.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, under a minute.")] = False,
    rows: Annotated[
        int | None, typer.Option("--rows", help="Rows of the stream (spark only).")
    ] = None,
) -> None:
    """Run a benchmark of the repository, beside the papers' figures where there are any."""
    from skyband.cli import bench as command

    raise typer.Exit(command.run(words, quick, as_json, rows))


@app.command()
def kernels(
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete them; the next run compiles again.")
    ] = False,
) -> None:
    """Show where compiled kernels are kept, and how large they are."""
    from skyband.cli import kernels as command

    command.run(forget)
