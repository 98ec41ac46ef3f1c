"""The command ``explain`` and its options: those of every query."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband.cli.arguments import (
    QUERY,
    Algorithm,
    Emit,
    Full,
    K,
    Last,
    Length,
    Offset,
    PartitionBy,
    Slide,
    Time,
)


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
        typer.Option("--by", metavar="EXPRESSION", help="The score.", rich_help_panel=QUERY),
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
