"""Top-k dominating on Spark: a DataFrame in, the rows that dominate the most others out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import overload

from pyspark.sql import DataFrame, Observation

from skyband.dominating.query import Direction
from skyband.durations import Duration
from skyband.spark import draining, output, quarantine
from skyband.spark import panes as aggregation
from skyband.spark.families.dominating import blocks, keyed, ranking, shards
from skyband.spark.families.dominating.plan import (
    DominatingAsked,
    DominatingQuestion,
    dominating_question,
)
from skyband.spark.families.dominating.shards import ShardKept
from skyband.spark.families.top_k import check_store
from skyband.spark.options import Names
from skyband.spark.state.candidates import Lives

Transform = Callable[[DataFrame], DataFrame]
Dimensions = Sequence[tuple[str, Direction]]


@overload
def top_k_dominating(
    df: DataFrame,
    *,
    k: int,
    dimensions: Dimensions,
    window: str | timedelta | int,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
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
def top_k_dominating(
    df: None = None,
    *,
    k: int,
    dimensions: Dimensions,
    window: str | timedelta | int,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
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


def top_k_dominating(
    df: DataFrame | None = None,
    *,
    k: int,
    dimensions: Dimensions,
    window: str | timedelta | int,
    time: str | None = None,
    slide: str | timedelta | int | None = None,
    offset: str | timedelta | None = None,
    sequence: str | None = None,
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
    """The ``k`` rows of each window that dominate the most others, on streams and batches alike.

    ``dimensions`` are SQL texts, such as the names of columns, each with ``"min"`` or ``"max"``. A
    row dominates another if it is at least as good in all of them and better in one. Rows in which
    one of them is NULL or NaN are counted and left out.

    Without ``partition_by`` all rows are one ranking: rows are spread over ``shards`` (by default
    as many as shuffle partitions, 16 at most), each counts what the few possible answers dominate
    among its own rows, and the counts are summed. With it, each key runs the local engine:
    ``algorithm`` names one, and ``emit`` may be "changes". Windows are of time, or count rows over
    a dense ``sequence``. The other parameters are those of :func:`top_k`.

    Returns what :func:`top_k` returns; ``score`` is the number of rows dominated. Without a
    DataFrame, returns a function for ``df.transform``.

    Raises QueryError and DataError before any row is read.

    Example::

        best = top_k_dominating(hotels, k=10, dimensions=[("price", "min"), ("stars", "max")],
                                time="ts", window="1 hour", slide="1 minute")
    """
    asked = DominatingAsked(
        k=k,
        dimensions=dimensions,
        window=window,
        time=time,
        slide=slide,
        offset=offset,
        sequence=sequence,
        partition_by=partition_by,
        id=id,
        keep=keep,
        emit=emit,
        delay=delay,
        skew=skew,
        deduplicate_by=deduplicate_by,
        algorithm=algorithm,
        full=full,
        drain=drain,
        shards=shards,
    )
    if df is None:
        asked.query()
        return lambda df: answer_dominating(df, dominating_question(df, asked))
    return answer_dominating(df, dominating_question(df, asked))


def answer_dominating(
    df: DataFrame, question: DominatingQuestion, counts: Observation | None = None
) -> DataFrame:
    """The whole way: set aside, place, cut into blocks or keys, count, rank.

    ``counts`` learns what was read of a batch and what could not be ranked.
    """
    if df.isStreaming:
        check_store(df)
    placed = aggregation.placed(df, question, more=question.points)
    rows = quarantine.admitted(placed, question, counts)
    if df.isStreaming and question.asked.drain is not None:
        rows = draining.drainable(rows, question, question.asked.drain)
    answers = _by_key(rows, question) if question.keys else _of_all(rows, question)
    return output.ranked(answers, question)


def _by_key(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    rows = _without_mark(aggregation.labelled(rows, question), question)
    if question.deduplicate:
        rows = aggregation.deduplicated(rows, question)
    return keyed.answered(rows, question)


def _of_all(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    if question.deduplicate:
        rows = aggregation.deduplicated(rows, question)
    cut = blocks.cut(aggregation.numbered(rows, question), question)
    panes = blocks.panes(_without_mark(cut, question), question)
    kept = kept_of(question)
    counted = shards.counted(panes, kept, question.shards)
    return ranking.ranked(counted, question.query.k, kept.types)


def _without_mark(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    """Rows or blocks that have moved the watermark, without the mark that ends a stream."""
    if rows.isStreaming and question.asked.drain is not None:
        return draining.without_mark(rows, question)
    return rows


def kept_of(question: DominatingQuestion) -> ShardKept:
    """What the processor of a shard has to know of a query."""
    window = question.query.window
    return ShardKept(
        question.query.k,
        len(question.points),
        Lives(window.size, window.slide),
        aggregation.clock(question),
        tuple(column.travels for column in question.kept),
        -(-window.size // window.slide) if getattr(window, "full", False) else -(1 << 62),
    )
