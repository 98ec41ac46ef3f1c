"""The commands that rank the rows of a file, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband.cli.arguments import (
    QUERY,
    Algorithm,
    By,
    Emit,
    Engine,
    File,
    Format,
    Full,
    K,
    Last,
    Length,
    Master,
    Offset,
    On,
    Out,
    PartitionBy,
    Slide,
    Time,
)


def top(
    file: File,
    by: By,
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
            rich_help_panel=QUERY,
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


def workload(
    file: File,
    queries: Annotated[
        str,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="The queries: CSV with the columns name,k,window,slide, or YAML.",
            rich_help_panel=QUERY,
        ),
    ],
    by: By,
    time: Time = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            metavar="NAME",
            help="auto, mtopmerge, mtoplist, mtopband or independent.",
            rich_help_panel=QUERY,
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
