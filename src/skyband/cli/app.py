"""The commands and their options; each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="skyband",
    help="Continuous top-k queries over data streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_QUERY, _OUTPUT = "The query", "Where and how"

File = Annotated[
    str, typer.Argument(metavar="FILE", help="CSV, Parquet or JSON lines; - for standard input.")
]
K = Annotated[
    str, typer.Option("--k", metavar="K", help="How many of each window.", rich_help_panel=_QUERY)
]
Last = Annotated[
    str | None,
    typer.Option(
        "--last",
        metavar="N",
        help="A count window: the last N rows.",
        rich_help_panel=_QUERY,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="The time of a row: a column, or a SQL expression, of timestamps or whole numbers.",
        rich_help_panel=_QUERY,
    ),
]
Length = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="DURATION",
        help="A time window: '1 hour', '90 s', or a number in the time column's own unit.",
        rich_help_panel=_QUERY,
    ),
]
Slide = Annotated[
    str | None,
    typer.Option(
        "--slide",
        metavar="N|DURATION",
        help="How far apart windows are; the window itself if left out: no overlap.",
        rich_help_panel=_QUERY,
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        metavar="DURATION",
        help="Shift the ends of time windows.",
        rich_help_panel=_QUERY,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", help="Answer count windows only once they are full.", rich_help_panel=_QUERY
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        metavar="COLUMN",
        help="Rank each value of this column by itself; may be repeated.",
        rich_help_panel=_QUERY,
    ),
]
Emit = Annotated[
    str,
    typer.Option(
        "--emit",
        metavar="all|changes",
        help="Whole rankings, or what entered, left or moved since the window before.",
        rich_help_panel=_QUERY,
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help="auto, sap, sap-dynamic, sap-equal, mintopk, pretopk, sma, tma, kskyband, recompute.",
        rich_help_panel=_QUERY,
    ),
]
On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="ATTRIBUTE:min|max",
        help="A dimension and which way is better, such as 'price:min'; may be repeated. The "
        "attribute is a column or a SQL expression.",
        rich_help_panel=_QUERY,
    ),
]

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="spark|local",
        envvar="SKYBAND_ENGINE",
        help="What computes it: Spark on all cores, which needs Java and some seconds to "
        "start, or this process. Both print the same.",
        rich_help_panel=_OUTPUT,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="How much of this machine Spark takes, such as 'local[2]'; all of it if left out.",
        rich_help_panel=_OUTPUT,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="table|csv|json",
        help="A table of the last windows (default), or all of them, exactly.",
        rich_help_panel=_OUTPUT,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write to a file; .csv and .json set the format.",
        rich_help_panel=_OUTPUT,
    ),
]


@app.callback(invoke_without_command=True)
def skyband(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Continuous top-k queries over data streams."""
    if version:
        import skyband

        print(f"skyband {skyband.__version__}")
        raise typer.Exit


@app.command()
def top(
    file: File,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="EXPRESSION",
            help="The score: a SQL expression over the file's columns, such as 'price * volume'.",
            rich_help_panel=_QUERY,
        ),
    ],
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    emit: Emit = "all",
    algorithm: Algorithm = "auto",
    engine: Engine = "spark",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank the rows of a file: the k best scores of each window.

    Example: skyband top trades.parquet --k 3 --by 'price * volume' --last 1000 --slide 100
    """
    from skyband.cli import options
    from skyband.cli import top as command

    span = options.window(last, time, window, slide, offset, full)
    query = options.query(k, span, emit)
    asked = command.Asked(by, time, partition_by or [], options.algorithm(algorithm), query)
    command.run(file, asked, command.Engine(engine, master), format, out)


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
    full: Full = False,
    partition_by: PartitionBy = None,
    emit: Emit = "all",
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="auto, or the name of an algorithm.",
            rich_help_panel=_QUERY,
        ),
    ] = "auto",
    engine: Engine = "spark",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Find the k rows of each window that dominate the most others, without a scoring function.

    Example: skyband dominating homes.csv --k 3 --on price:min --on area:max --last 1000
    """
    from skyband.cli import dominating, options, top

    span = options.window(last, time, window, slide, offset, full)
    asked = dominating.asked(on, k, span, emit, time, partition_by, algorithm)
    dominating.run(file, asked, top.Engine(engine, master), format, out)


@app.command()
def workload(
    file: File,
    queries: Annotated[
        str,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="The queries: CSV with the columns name,k,window,slide, or YAML.",
            rich_help_panel=_QUERY,
        ),
    ],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="EXPRESSION",
            help="The score: a SQL expression over the file's columns, such as 'price * volume'.",
            rich_help_panel=_QUERY,
        ),
    ],
    time: Time = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="auto, mtopmerge, mtoplist, mtopband or independent.",
            rich_help_panel=_QUERY,
        ),
    ] = "auto",
    engine: Engine = "spark",
    master: Master = None,
    format: Format = None,
    out: Out = None,
) -> None:
    """Rank the rows of a file by many queries at once, which share their work.

    Example: skyband workload trades.parquet --queries queries.csv --by price --time ts
    """
    from skyband.cli import top, workload
    from skyband.workload import known

    known(algorithm)
    asked = workload.Asked(queries, by, time, algorithm)
    workload.run(file, asked, top.Engine(engine, master), format, out)


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


@app.command()
def explain(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A file to check the query against; or a job file, JOB.yaml, with its own query.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="EXPRESSION", help="The score.", rich_help_panel=_QUERY),
    ] = None,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    full: Full = False,
    partition_by: PartitionBy = None,
    emit: Emit = "all",
    algorithm: Algorithm = "auto",
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="ATTRIBUTE:min|max",
            help="A dimension of a top-k dominating query, instead of a score; may be repeated.",
            rich_help_panel=_QUERY,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="A workload: its queries in CSV or YAML, instead of one query's options.",
            rich_help_panel=_QUERY,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One array of flat records.")] = False,
    physical: Annotated[
        bool, typer.Option("--physical", help="Also the physical plan of Spark (job files).")
    ] = False,
) -> None:
    """Tell how a query would be answered: panes, algorithm and why, expected candidates."""
    from skyband.cli import explain as command
    from skyband.cli import options

    given = [by, last, time, window, slide, offset, full, partition_by, queries, on]
    if command.is_job(file, physical, any(given) or (k, emit, algorithm) != ("10", "all", "auto")):
        from skyband.cli import explain_job

        explain_job.run(str(file), as_json, physical)
        return
    if on:
        from skyband.cli import dominating, explain_dominating

        options.no_score_beside(by, queries)
        span = options.window(last, time, window, slide, offset, full)
        wanted = dominating.asked(on, k, span, emit, time, partition_by, algorithm)
        explain_dominating.run(file, wanted, as_json)
        return
    if queries is not None:
        from skyband.cli import explain_workload
        from skyband.cli.workload import Asked as Workload

        options.no_query_beside(last, window, slide, offset, partition_by, full, k, emit)
        explain_workload.run(file, Workload(queries, by, time, algorithm), as_json)
        return
    from skyband.cli.top import Asked

    span = options.window(last, time, window, slide, offset, full)
    query = options.query(k, span, emit)
    asked = Asked(by, time, partition_by or [], options.algorithm(algorithm), query)
    command.run(file, asked, as_json)


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
) -> None:
    """Write a data set to a file: seeded streams as in the papers, and small real data."""
    from skyband.cli import generate as command

    command.run(name, rows, seed, out, rate, dimensions)


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
