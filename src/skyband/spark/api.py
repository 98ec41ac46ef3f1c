"""The functions of :mod:`skyband.spark`: documented signatures, and nothing else.

Each checks its options as far as no DataFrame is needed, makes a plan for the DataFrame, and hands
both to the pipeline. ``df.transform(top_k, k=10, ...)`` passes keywords along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any

from pyspark.sql import Column, DataFrame

from skyband.dominating.query import Direction
from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.incomplete.query import Bounds, Repeats
from skyband.spark.columns import Names
from skyband.spark.pipeline import ask
from skyband.spark.scan.source import ParquetSource
from skyband.windows import Window
from skyband.workload.queries import Workload


def top_k(
    df: DataFrame | ParquetSource,
    *,
    k: int,
    by: str | Column,
    window: str | timedelta | int | Window,
    time: str | None = None,
    slide: str | timedelta | int | None = None,
    offset: str | timedelta | None = None,
    sequence: str | None = None,
    key: Names | None = None,
    partition_by: Names | None = None,
    where: str | Column | None = None,
    id: Names | None = None,
    keep: Names | None = None,
    emit: str = "all",
    open_windows: str = "all",
    ties: str = "newest",
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    algorithm: str = "auto",
    full: bool = False,
    drain: str | None = None,
    shards: int | None = None,
    rank_by: str = "row_number",
    also: Mapping[str, str | Column] | None = None,
) -> DataFrame:
    """The ``k`` best rows of each sliding window, on streaming and batch DataFrames alike.

    With ``key``, the ``k`` keys whose rows add up to the most: their largest sum, count, maximum,
    minimum or mean, or their first or last value, as ``by`` says. Totals are exact, whatever the
    order of rows. A key whose first (last) value is NULL is not ranked.

    Parameters
      ``by``               the score: a Column or SQL text; higher is better. With ``key``, an
                           aggregate: ``F.sum("bytes")``, ``"count(*)"``, max, min, avg, first
                           or last
      ``window, slide``    durations (with ``time``), or numbers of rows; or ``window`` alone, as
                           :func:`skyband.last` says it: ``last(time=100, slide=10)`` is in the
                           unit of a ``time`` of whole numbers, and so are its ``offset`` and
                           ``delay``; ``cumulative("1 day", every="1 minute")`` for each day so
                           far, ``all_time(every="1 minute")`` for all that came
      ``time``             when a row happened: a timestamp, a date, which is its midnight in UTC,
                           or a whole number; rows of equal score rank the newer first; on a
                           stream rows from before 1970, or below 0, are late
      ``sequence``         a dense number 0, 1, 2, ...: count windows over all rows, in parallel;
                           without it a count window holds the last rows of its key by ``time``
      ``offset``           shifts the window starts
      ``where``            a condition, a Column or SQL text: other rows are not there at all
      ``key``              columns: rows with equal ones are added up (windows of time only)
      ``partition_by``     columns: one ranking per combination. It, ``key`` and ``id`` may also
                           hold SQL text, as in ``"upper(sector)"`` or ``"a % 10 AS bucket"``
      ``id``               columns that tell rows of equal score and time apart, larger first;
                           without it all kept columns do
      ``ties``             which of equal scores ranks first: the "newest", then that with larger
                           ids, or the "oldest", then that with smaller ones
      ``rank_by``          how ranks count, as in SQL: "row_number", or "rank" or "dense_rank",
                           by which rows of equal score share a rank: then all rows of rank
                           ``k`` or less are in a window, which may be more than ``k``. With
                           ``key`` both are meant for keys of equal totals, by the newest row of
                           each
      ``keep``             columns to carry into the result; all of them unless named
      ``emit``             "all": whole rankings; "changes": what entered, left or moved;
                           "updates": the rankings so far of windows that are open, too, in every
                           micro-batch in which they change; a batch answers once and for all
      ``open_windows``     with updates: "all" that have begun, or the "current" one, which the
                           newest row's slide completes: the last hour so far
      ``delay``            how late rows may come; those are always counted (default 10 seconds,
                           or 0 rows of a sequence)
      ``skew``             rows further ahead of the clock are set aside, see :func:`quarantined`
      ``deduplicate_by``   columns: rows that repeat them within the delay count once
      ``algorithm``        for windows by arrival, one of the local engine's
      ``full``             count windows: answer only once they are full
      ``drain``            a directory in which :func:`drain` ends the stream
      ``shards``           with ``key``: how many tasks share the keys of a ranking (as many as
                           shuffle partitions, 16 at most; 1 with ``partition_by``)
      ``also``             with ``key``: further aggregates of each ranked key in the same window,
                           by the names of their columns: ``{"orders": "count(*)"}``

    Returns ``window`` (start, end), the partition columns, ``rank`` (1..k), ``score``, with
    changes ``change`` and ``previous_rank``, then the kept columns, or the key and what it has
    ``also``. With updates there are ``revision`` and ``final``: of a window and key the rows of the
    largest revision are its ranking, and ``final`` ones those that "all" gives.

    Raises QueryError and DataError before any row is read.

    Example::

        leaders = top_k(trades, k=10, by="price * volume", time="ts",
                        window="1 hour", slide="1 minute", partition_by="sector")
        busiest = top_k(requests, k=10, by=F.sum("bytes"), key="client", time="ts",
                        window="1 hour", slide="1 minute")
    """
    given = dict(locals())
    from skyband.spark.families import top_k as rows
    from skyband.spark.families.totals import plan as totals
    from skyband.spark.families.totals.aggregates import words_of
    from skyband.totals.aggregate import refuse_aggregate

    del given["df"]
    if key is not None:
        return ask(df, totals.FAMILY, totals.TotalsOptions(**given))
    refuse_aggregate(by if isinstance(by, str) else words_of(by))
    if shards is not None:
        raise QueryError(f"shards is {shards!r} without key=", "no shards", "leave shards out")
    if also is not None:
        raise QueryError(
            f"also is {also!r} without key=",
            "aggregates of keys; rows carry columns with keep=",
            "write key='client', or leave also out",
        )
    del given["key"], given["shards"], given["also"]
    return ask(df, rows.FAMILY, rows.TopKOptions(**given))


def top_k_workload(
    df: DataFrame | ParquetSource,
    workload: Workload,
    *,
    time: str | None = None,
    sequence: str | None = None,
    partition_by: Names | None = None,
    where: str | Column | None = None,
    id: Names | None = None,
    keep: Names | None = None,
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    drain: str | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> DataFrame:
    """The best rows of each window of many queries, in one pass, on streams and batches alike.

    ``workload.by`` holds the SQL text of each query's score; queries without one rank by a column
    called ``score``. Windows are of time, of any kind, or count rows over a dense ``sequence``.
    Each query has its own ``ties`` and ``rank_by``. Queries with ``emit="changes"`` tell what
    entered, left or moved. The other parameters are those of :func:`top_k`.

    ``checkpoint`` is for streams: where the stream keeps its checkpoint, if it is to go on after
    queries were added or removed. All others continue exactly; an added query is answered from the
    first window on that starts after all that earlier runs have seen. :func:`claim` records it.

    Returns ``query``, ``window`` (start, end), the partition columns, ``rank``, ``score``, for
    changes ``change`` and ``previous_rank``, and the kept columns.

    Raises QueryError and DataError before any row is read.

    Example::

        leaders = top_k_workload(trades, Workload.from_csv("queries.csv"), time="ts")
    """
    given = dict(locals())
    from skyband.spark.families.workload.plan import FAMILY, WorkloadOptions

    del given["df"]
    return ask(df, FAMILY, WorkloadOptions(**given))


def top_k_dominating(
    df: DataFrame | ParquetSource,
    *,
    k: int,
    dimensions: Sequence[tuple[str, Direction]],
    window: str | timedelta | int | Window,
    time: str | None = None,
    slide: str | timedelta | int | None = None,
    offset: str | timedelta | None = None,
    sequence: str | None = None,
    partition_by: Names | None = None,
    where: str | Column | None = None,
    id: Names | None = None,
    keep: Names | None = None,
    emit: str = "all",
    open_windows: str = "all",
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    algorithm: str = "auto",
    full: bool = False,
    drain: str | None = None,
    shards: int | None = None,
    ties: str = "newest",
    rank_by: str = "row_number",
) -> DataFrame:
    """The ``k`` rows of each window that dominate the most others, on streams and batches alike.

    ``dimensions`` are SQL texts, such as the names of columns, each with ``"min"`` or ``"max"``. A
    row dominates another if it is at least as good in all of them and better in one. Rows in which
    one of them is NULL or NaN are counted and left out.

    Without ``partition_by`` all rows are one ranking: rows are spread over ``shards`` (by default
    as many as shuffle partitions, 16 at most), each counts what the few possible answers dominate
    among its own rows, and the counts are summed. With it, each key runs the local engine:
    ``algorithm`` names one, and ``emit`` may be "changes". Windows are of time, or count rows over
    a dense ``sequence``. The other parameters are those of :func:`top_k`.

    Returns what :func:`top_k` returns; ``score`` is the number of rows dominated.

    Raises QueryError and DataError before any row is read.

    Example::

        best = top_k_dominating(hotels, k=10, dimensions=[("price", "min"), ("stars", "max")],
                                time="ts", window="1 hour", slide="1 minute")
    """
    given = dict(locals())
    from skyband.spark.families.dominating.plan import FAMILY, DominatingOptions

    del given["df"]
    return ask(df, FAMILY, DominatingOptions(**given))


def top_k_incomplete(
    df: DataFrame | ParquetSource | Mapping[str, DataFrame],
    *,
    k: int,
    id: Names,
    value: str | Column,
    window: str | timedelta | int | Window,
    streams: Sequence[str] | None = None,
    stream: str | None = None,
    combine: str | Sequence[float] = "sum",
    bounds: Bounds | Mapping[str, Bounds] = (0.0, 1.0),
    outside: str = "error",
    repeats: Repeats = "max",
    time: str | None = None,
    slide: str | timedelta | int | None = None,
    offset: str | timedelta | None = None,
    sequence: str | None = None,
    partition_by: Names | None = None,
    where: str | Column | None = None,
    emit: str = "all",
    open_windows: str = "all",
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    algorithm: str = "auto",
    options: Mapping[str, Any] | None = None,
    full: bool = False,
    drain: str | None = None,
    shards: int | None = None,
    ties: str = "newest",
    rank_by: str = "row_number",
) -> DataFrame:
    """The ``k`` objects of each window with the best scores, made of what was seen of each.

    Rows say one thing of one object: ``id`` names it, ``value`` (SQL text or a Column) is an
    attribute, and the column ``stream`` says which; ``streams`` are the names that it may have. Or
    pass a DataFrame per stream, by name. ``combine``, ``bounds``, ``outside`` and ``repeats`` are
    those of :class:`skyband.TopKIncomplete`. Rows whose value is NULL or NaN, or that have no id,
    are counted and left out; a stream that is not named, or a value beyond the bounds if they are
    not clipped, fails the query.

    Objects are spread over ``shards`` by their ids (by default as many as shuffle partitions, 16 at
    most; with ``partition_by`` one for each key); each keeps the objects that may still be answers
    among its own, and the best of all shards are merged. ``algorithm`` and ``options`` are those of
    the local engine. Windows are of time, or count rows over a dense ``sequence``. The other
    parameters are those of :func:`top_k`.

    Returns what :func:`top_k` returns, with the columns of ``id``.

    Raises QueryError and DataError before any row is read.

    Example::

        fast = top_k_incomplete(passages, k=10, id="plate", stream="camera", value="speed",
                                streams=["north", "south"], bounds=(0, 300), time="ts",
                                window="1 hour", slide="1 minute")
    """
    given: dict[str, Any] = dict(locals())
    from skyband.spark.families.incomplete.plan import FAMILY, IncompleteOptions, one_frame

    del given["df"]
    options_given = IncompleteOptions(**given)
    if isinstance(df, ParquetSource):
        return ask(df, FAMILY, options_given)
    rows, options_of_rows = one_frame(df, options_given)
    return ask(rows, FAMILY, options_of_rows)
