"""The commands that rank the rows of a file, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband.cli.arguments import (
    QUERY,
    Algorithm,
    Bounds,
    By,
    Combine,
    Emit,
    Engine,
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
    Repeats,
    Slide,
    Stream,
    Streams,
    Time,
    Total,
    Value,
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
    engine: Engine = "auto",
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
    algorithm: NamedAlgorithm = "auto",
    engine: Engine = "auto",
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
    full: Full = False,
    partition_by: PartitionBy = None,
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
    from skyband.cli import incomplete, options, top

    span = options.window(last, time, window, slide, offset, full)
    words = incomplete.Words(id, stream, value, streams, combine, bounds or [], outside, repeats)
    asked = incomplete.asked(words, k, span, emit, time, partition_by, algorithm, option)
    incomplete.run(file, asked, top.Engine(engine, master), format, out)


def totals(
    file: File,
    key: Key,
    by: Total,
    k: K = "10",
    last: Last = None,
    time: Time = None,
    window: Length = None,
    slide: Slide = None,
    offset: Offset = None,
    full: Full = False,
    partition_by: PartitionBy = None,
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
    from skyband.cli import options, top, totals

    span = options.window(last, time, window, slide, offset, full)
    asked = totals.asked(by, key, k, span, emit, time, partition_by)
    totals.run(file, asked, top.Engine(engine, master), format, out)


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
    engine: Engine = "auto",
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
