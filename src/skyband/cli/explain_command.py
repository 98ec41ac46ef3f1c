"""The command ``explain`` and its options: those of every query."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband.cli.arguments import (
    QUERY,
    Algorithm,
    Bounds,
    Combine,
    Emit,
    Full,
    K,
    Last,
    Length,
    Offset,
    Outside,
    PartitionBy,
    Repeats,
    Slide,
    Streams,
    Time,
)

_UNSEEN = (None, None, None, "sum", None, "error", "max")
"""Options of incomplete streams that were not given."""


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
        typer.Option(
            "--by",
            metavar="EXPRESSION",
            help="The score; with --key a total, such as 'sum(bytes)'.",
            rich_help_panel=QUERY,
        ),
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
            rich_help_panel=QUERY,
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="What tells the objects of incomplete streams apart, instead of a score.",
            rich_help_panel=QUERY,
        ),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            "--stream", metavar="COLUMN", help="The stream of a row.", rich_help_panel=QUERY
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="EXPRESSION", help="What a stream says.", rich_help_panel=QUERY
        ),
    ] = None,
    streams: Streams = None,
    combine: Combine = "sum",
    bounds: Bounds = None,
    outside: Outside = "error",
    repeats: Repeats = "max",
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMN",
            help="Of what totals are taken, instead of a score of each row.",
            rich_help_panel=QUERY,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="A workload: its queries in CSV or YAML, instead of one query's options.",
            rich_help_panel=QUERY,
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

    given = [by, last, time, window, slide, offset, full, partition_by, queries, on, id, key]
    seen = (stream, value, streams, combine, bounds, outside, repeats)
    plain = (k, emit, algorithm, *seen) == ("10", "all", "auto", *_UNSEEN)
    if command.is_job(file, physical, any(given) or not plain):
        from skyband.cli import explain_job

        explain_job.run(str(file), as_json, physical)
        return
    if on:
        from skyband.cli import dominating, explain_dominating

        options.none_beside("--on", by=by, queries=queries, id=id, key=key)
        span = options.window(last, time, window, slide, offset, full)
        wanted = dominating.asked(on, k, span, emit, time, partition_by, algorithm)
        explain_dominating.run(file, wanted, as_json)
        return
    if id or seen != _UNSEEN:
        from skyband.cli import explain_incomplete, incomplete

        options.none_beside("--id", by=by, queries=queries, key=key)
        span = options.window(last, time, window, slide, offset, full)
        parts = (id or [], stream, value, streams, combine, bounds or [], outside, repeats)
        explain_incomplete.run(
            file,
            incomplete.asked(
                incomplete.Words(*parts), k, span, emit, time, partition_by, algorithm
            ),
            as_json,
        )
        return
    if key:
        from skyband.cli import explain_totals, totals

        options.none_beside("--key", queries=queries)
        options.choice(algorithm, "--algorithm", ("auto",))
        span = options.window(last, time, window, slide, offset, full)
        explain_totals.run(file, totals.asked(by, key, k, span, emit, time, partition_by), as_json)
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
