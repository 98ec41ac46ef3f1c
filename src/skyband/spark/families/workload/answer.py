"""Workloads on Spark: a DataFrame of rows in, the ranked windows of many queries out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from os import PathLike
from typing import Any, overload

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructField, StructType

from skyband.durations import Duration
from skyband.spark import draining, quarantine
from skyband.spark import panes as aggregation
from skyband.spark.axis import Clock
from skyband.spark.families.top_k import check_store
from skyband.spark.families.workload import output, panes
from skyband.spark.families.workload.plan import SharedAsked, SharedQuestion, shared_question
from skyband.spark.families.workload.processor import (
    FOREVER,
    Asker,
    SharedKept,
    SharedProcessor,
    weight,
)
from skyband.spark.families.workload.restart import past
from skyband.spark.options import Names
from skyband.spark.state import batch as backfill
from skyband.spark.state.batch import Answers, Columns
from skyband.workload.queries import Workload

Transform = Callable[[DataFrame], DataFrame]


@overload
def top_k_workload(
    df: DataFrame,
    workload: Workload,
    *,
    time: str | None = ...,
    sequence: str | None = ...,
    partition_by: Names | None = ...,
    id: Names | None = ...,
    keep: Names | None = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    drain: str | None = ...,
    checkpoint: str | PathLike[str] | None = ...,
) -> DataFrame: ...


@overload
def top_k_workload(
    df: None = None,
    workload: Workload = ...,
    *,
    time: str | None = ...,
    sequence: str | None = ...,
    partition_by: Names | None = ...,
    id: Names | None = ...,
    keep: Names | None = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    drain: str | None = ...,
    checkpoint: str | PathLike[str] | None = ...,
) -> Transform: ...


def top_k_workload(
    df: DataFrame | None = None,
    workload: Workload | None = None,
    *,
    time: str | None = None,
    sequence: str | None = None,
    partition_by: Names | None = None,
    id: Names | None = None,
    keep: Names | None = None,
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    drain: str | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> DataFrame | Transform:
    """The best rows of each window of many queries, in one pass, on streams and batches alike.

    ``workload.by`` holds the SQL text of each query's score; queries without one rank by a column
    called ``score``. Windows are of time, or count rows over a dense ``sequence``. The other
    parameters are those of :func:`top_k`.

    ``checkpoint`` is for streams: where the stream keeps its checkpoint, if it is to go on after
    queries were added or removed. All others continue exactly; an added query is answered from the
    first window on that starts after all that earlier runs have seen. :func:`claim` records it.

    Returns ``query``, ``window`` (start, end), the partition columns, ``rank``, ``score`` and the
    kept columns. Without a DataFrame, returns a function for ``df.transform``.

    Raises QueryError and DataError before any row is read.

    Example::

        leaders = top_k_workload(trades, Workload.from_csv("queries.csv"), time="ts")
    """
    asked = SharedAsked(
        workload=workload,  # type: ignore[arg-type]  # checked there
        time=time,
        sequence=sequence,
        partition_by=partition_by,
        id=id,
        keep=keep,
        delay=delay,
        skew=skew,
        deduplicate_by=deduplicate_by,
        drain=drain,
        checkpoint=checkpoint,
    )
    if df is None:
        asked.check()
        return lambda df: answer_shared(df, checked(df, asked))
    return answer_shared(df, checked(df, asked))


def checked(df: DataFrame, asked: SharedAsked) -> SharedQuestion:
    """Check a workload against a DataFrame, and against the checkpoint that it goes on from."""
    asked.check()
    before = None
    if isinstance(df, DataFrame) and df.isStreaming and asked.checkpoint is not None:
        per_ms = 1 if asked.workload.counted else 1000
        before = past(df.sparkSession, asked.checkpoint, per_ms)
    return shared_question(df, asked, before)


def answer_shared(
    df: DataFrame, question: SharedQuestion, counts: Observation | None = None
) -> DataFrame:
    """The whole way: set aside, place, aggregate panes, keep candidates, rank.

    ``counts`` learns what was read of a batch and what could not be ranked.
    """
    if df.isStreaming:
        check_store(df)
    base = question.base
    placed = aggregation.placed(df, base, question.columns)
    name = quarantine.metric_name(question.digest)
    rows = quarantine.admitted(placed, base, counts or name)
    directory = base.asked.drain if df.isStreaming else None
    if directory is not None:
        rows = draining.drainable(rows, base, directory)
    rows = panes.labelled(rows, question)
    if directory is not None:
        rows = draining.without_mark(rows, base)
    if base.deduplicate:
        rows = aggregation.deduplicated(rows, base)
    best = panes.panes(rows, question)
    if not df.isStreaming and base.keys and not base.timed:
        best = panes.all_reached(best, placed)
    return output.ranked(_answered(best, question), question)


def _answered(best: DataFrame, question: SharedQuestion) -> DataFrame:
    """The windows of each key, answered from its panes."""
    kept = kept_of(question)
    names = aggregation.key_names(question.base)
    keys = [StructField(f"key_{i}", best.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *kept.output])
    if not best.isStreaming:
        return backfill.answered(best, names, _of_panes(kept), schema, weight)
    return best.groupBy(*names).transformWithState(
        statefulProcessor=SharedProcessor(kept, len(names)),
        outputStructType=schema,
        outputMode="append",
        timeMode="EventTime",
    )


def _of_panes(kept: SharedKept) -> Answers:
    """What answers all panes of a key."""

    def answers(columns: Columns) -> Iterator[tuple[Any, ...]]:
        found = list(zip(*columns, strict=True))
        return kept.new().rows(found, FOREVER, True)

    return answers


def kept_of(question: SharedQuestion) -> SharedKept:
    """What the processor has to know of a workload."""
    workload = question.workload
    askers = tuple(
        Asker(name, query, question.scores.index(workload.by[name]), question.since.get(name))
        for name, query in workload.queries.items()
    )
    types = tuple(column.travels for column in question.base.kept)
    return SharedKept(askers, len(question.scores), Clock(1, 0, question.per_ms), types)
