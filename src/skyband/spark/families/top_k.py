"""The Spark main path: a DataFrame of rows in, a DataFrame of ranked windows out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, overload

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.types import StructField, StructType

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.spark import draining, output, quarantine
from skyband.spark import panes as aggregation
from skyband.spark.families import arrival as row_path
from skyband.spark.families.totals.aggregate import refuse_aggregate
from skyband.spark.families.totals.answer import answer_totals
from skyband.spark.families.totals.plan import TotalsAsked, totals_question
from skyband.spark.options import Asked, Names
from skyband.spark.plan import Question, question
from skyband.spark.sessions import SETTINGS
from skyband.spark.state import batch as backfill
from skyband.spark.state.candidates import Lives
from skyband.spark.state.processor import Kept, PaneProcessor

_STORE = "spark.sql.streaming.stateStore.providerClass"
Transform = Callable[[DataFrame], DataFrame]


@overload
def top_k(
    df: DataFrame,
    *,
    k: int,
    by: str | Column,
    window: str | timedelta | int,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
    key: Names | None = ...,
    partition_by: Names | None = ...,
    id: Names | None = ...,
    keep: Names | None = ...,
    emit: str = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    algorithm: str = ...,
    full: bool = ...,
    drain: str | None = ...,
    shards: int | None = ...,
) -> DataFrame: ...


@overload
def top_k(
    df: None = None,
    *,
    k: int,
    by: str | Column,
    window: str | timedelta | int,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
    key: Names | None = ...,
    partition_by: Names | None = ...,
    id: Names | None = ...,
    keep: Names | None = ...,
    emit: str = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    algorithm: str = ...,
    full: bool = ...,
    drain: str | None = ...,
    shards: int | None = ...,
) -> Transform: ...


def top_k(
    df: DataFrame | None = None,
    *,
    k: int,
    by: str | Column,
    window: str | timedelta | int,
    time: str | None = None,
    slide: str | timedelta | int | None = None,
    offset: str | timedelta | None = None,
    sequence: str | None = None,
    key: Names | None = None,
    partition_by: Names | None = None,
    id: Names | None = None,
    keep: Names | None = None,
    emit: str = "all",
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    algorithm: str = "auto",
    full: bool = False,
    drain: str | None = None,
    shards: int | None = None,
) -> DataFrame | Transform:
    """The ``k`` best rows of each sliding window, on streaming and batch DataFrames alike.

    With ``key``, the ``k`` keys whose rows add up to the most: their largest sum, count, maximum,
    minimum or mean, as ``by`` says. Totals are exact, whatever the order of rows.

    Parameters
      ``by``               the score: a Column or SQL text; higher is better. With ``key``, an
                           aggregate: ``F.sum("bytes")``, ``"count(*)"``, max, min or avg
      ``window, slide``    durations (with ``time``), or numbers of rows
      ``time``             when a row happened; rows of equal score rank the newer first; on a
                           stream rows from before 1970 are late
      ``sequence``         a dense number 0, 1, 2, ...: count windows over all rows, in parallel;
                           without it a count window holds the last rows of its key by ``time``
      ``offset``           shifts the window ends
      ``key``              columns: rows with equal ones are added up (windows of time only)
      ``partition_by``     columns: one ranking per combination
      ``id``               columns that tell rows of equal score and time apart, larger first;
                           without it all kept columns do
      ``keep``             columns to carry into the result; all of them unless named
      ``emit``             "all": whole rankings; "changes": what entered, left or moved
      ``delay``            how late rows may come; those are always counted (default 10 seconds,
                           or 0 rows of a sequence)
      ``skew``             rows further ahead of the clock are set aside, see :func:`quarantined`
      ``deduplicate_by``   columns: rows that repeat them within the delay count once
      ``algorithm``        for windows by arrival, one of the local engine's
      ``full``             count windows: answer only once they are full
      ``drain``            a directory in which :func:`drain` ends the stream
      ``shards``           with ``key``: how many tasks share the keys of a ranking (as many as
                           shuffle partitions, 16 at most; 1 with ``partition_by``)

    Returns ``window`` (start, end), the partition columns, ``rank`` (1..k), ``score``, with
    changes ``change`` and ``previous_rank``, then the kept columns, or the key. Without a
    DataFrame, returns a function for ``df.transform``.

    Raises QueryError and DataError before any row is read.

    Example::

        leaders = top_k(trades, k=10, by="price * volume", time="ts",
                        window="1 hour", slide="1 minute", partition_by="sector")
        busiest = top_k(requests, k=10, by=F.sum("bytes"), key="client", time="ts",
                        window="1 hour", slide="1 minute")
    """
    parts: dict[str, Any] = {
        "k": k,
        "by": by,
        "window": window,
        "time": time,
        "slide": slide,
        "offset": offset,
        "sequence": sequence,
        "partition_by": partition_by,
        "id": id,
        "keep": keep,
        "emit": emit,
        "delay": delay,
        "skew": skew,
        "deduplicate_by": deduplicate_by,
        "algorithm": algorithm,
        "full": full,
        "drain": drain,
    }
    if key is not None:
        totals = TotalsAsked(key=key, shards=shards, **parts)
        if df is None:
            totals.query()
            return lambda df: _answer_totals(df, totals)
        return _answer_totals(df, totals)
    refuse_aggregate(by)
    if shards is not None:
        raise QueryError(f"shards is {shards!r} without key=", "no shards", "leave shards out")
    asked = Asked(**parts)
    if df is None:
        asked.query()
        return lambda df: answer(df, question(df, asked))
    return answer(df, question(df, asked))


def _answer_totals(df: DataFrame, asked: TotalsAsked) -> DataFrame:
    found = totals_question(df, asked)
    if df.isStreaming:
        check_store(df)
    return answer_totals(df, found)


def answer(df: DataFrame, checked: Question, counts: Observation | None = None) -> DataFrame:
    """The whole way: set aside, place, aggregate panes, keep candidates, rank.

    ``counts`` learns what was read of a batch and what could not be ranked; a stream says it with
    its progress.
    """
    if df.isStreaming:
        check_store(df)
    rows = quarantine.admitted(aggregation.placed(df, checked), checked, counts)
    directory = checked.asked.drain if df.isStreaming else None
    if directory is not None:
        rows = draining.drainable(rows, checked, directory)
    rows = aggregation.labelled(rows, checked)
    if directory is not None:
        rows = draining.without_mark(rows, checked)
    if checked.deduplicate:
        rows = aggregation.deduplicated(rows, checked)
    if checked.arrival:
        answers = row_path.answered(rows, checked)
    else:
        panes = aggregation.panes(rows, checked)
        if not df.isStreaming and checked.keys and not checked.timed:
            panes = aggregation.all_reached(panes, aggregation.placed(df, checked), checked)
        answers = _answered(panes, checked)
    return output.ranked(answers, checked)


def check_store(df: DataFrame) -> None:
    """Spark keeps the state of processors in RocksDB only, and says so late."""
    found = df.sparkSession.conf.get(_STORE, "") or ""
    if "RocksDB" not in found:
        raise QueryError(
            f"{_STORE} is {found or 'not set'}",
            "Spark's RocksDB store, which stateful processors need",
            f"use skyband.spark.session(), or set it to {SETTINGS[_STORE]}",
        )


def _answered(panes: DataFrame, checked: Question) -> DataFrame:
    """The windows of each key, answered from its panes."""
    kept = kept_of(checked)
    names = aggregation.key_names(checked)
    keys = [StructField(f"key_{i}", panes.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *kept.output])
    if not panes.isStreaming:
        return backfill.answered(panes, names, backfill.of_panes(kept), schema)
    return panes.groupBy(*names).transformWithState(
        statefulProcessor=PaneProcessor(kept, len(names)),
        outputStructType=schema,
        outputMode="append",
        timeMode="EventTime",
    )


def kept_of(checked: Question) -> Kept:
    """What the processor has to know of a query."""
    window = checked.query.window
    return Kept(
        checked.query.k,
        Lives(window.size, window.slide),
        aggregation.clock(checked),
        tuple(column.travels for column in checked.kept),
        checked.query.emit == "changes",
        -(-window.size // window.slide) if getattr(window, "full", False) else -(1 << 62),
    )
