"""Top-k over incomplete streams on Spark: a DataFrame in, or one per stream, ranked objects out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, overload

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.incomplete.query import Bounds, Repeats
from skyband.spark import draining, output, quarantine
from skyband.spark import panes as aggregation
from skyband.spark.families.incomplete.engine import IncompleteEngine
from skyband.spark.families.incomplete.options import IncompleteAsked
from skyband.spark.families.incomplete.plan import (
    CLIPPED,
    STREAM,
    IncompleteQuestion,
    incomplete_question,
)
from skyband.spark.families.incomplete.union_streams import as_united, united
from skyband.spark.families.top_k import check_store
from skyband.spark.options import Names
from skyband.spark.panes import SCORE
from skyband.spark.state import merge as merging
from skyband.spark.state import shards as panes
from skyband.spark.state.candidates import FOREVER, Lives
from skyband.spark.state.shard_engine import made_up
from skyband.spark.state.shard_state import ShardKept, answered

Transform = Callable[[DataFrame], DataFrame]
Frames = DataFrame | Mapping[str, DataFrame]


@overload
def top_k_incomplete(
    df: Frames,
    *,
    k: int,
    id: Names,
    value: str | Column,
    window: str | timedelta | int,
    streams: Sequence[str] | None = ...,
    stream: str | None = ...,
    combine: str | Sequence[float] = ...,
    bounds: Bounds | Mapping[str, Bounds] = ...,
    outside: str = ...,
    repeats: Repeats = ...,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
    partition_by: Names | None = ...,
    emit: str = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    algorithm: str = ...,
    options: Mapping[str, Any] | None = ...,
    full: bool = ...,
    drain: str | None = ...,
    shards: int | None = ...,
) -> DataFrame: ...


@overload
def top_k_incomplete(
    df: None = None,
    *,
    k: int,
    id: Names,
    value: str | Column,
    window: str | timedelta | int,
    streams: Sequence[str] | None = ...,
    stream: str | None = ...,
    combine: str | Sequence[float] = ...,
    bounds: Bounds | Mapping[str, Bounds] = ...,
    outside: str = ...,
    repeats: Repeats = ...,
    time: str | None = ...,
    slide: str | timedelta | int | None = ...,
    offset: str | timedelta | None = ...,
    sequence: str | None = ...,
    partition_by: Names | None = ...,
    emit: str = ...,
    delay: str | timedelta | int | None = ...,
    skew: Duration | None = ...,
    deduplicate_by: Names | None = ...,
    algorithm: str = ...,
    options: Mapping[str, Any] | None = ...,
    full: bool = ...,
    drain: str | None = ...,
    shards: int | None = ...,
) -> Transform: ...


def top_k_incomplete(
    df: Frames | None = None,
    *,
    k: int,
    id: Names,
    value: str | Column,
    window: str | timedelta | int,
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
    emit: str = "all",
    delay: str | timedelta | int | None = None,
    skew: Duration | None = "1 hour",
    deduplicate_by: Names | None = None,
    algorithm: str = "auto",
    options: Mapping[str, Any] | None = None,
    full: bool = False,
    drain: str | None = None,
    shards: int | None = None,
) -> DataFrame | Transform:
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
    the local engine, ``emit`` may be "changes" if there is one shard. Windows are of time, or count
    rows over a dense ``sequence``. The other parameters are those of :func:`top_k`.

    Returns what :func:`top_k` returns, with the columns of ``id``. Without a DataFrame, returns a
    function for ``df.transform``.

    Raises QueryError and DataError before any row is read.

    Example::

        fast = top_k_incomplete(passages, k=10, id="plate", stream="camera", value="speed",
                                streams=["north", "south"], bounds=(0, 300), time="ts",
                                window="1 hour", slide="1 minute")
    """
    if streams is None and not isinstance(df, Mapping):
        raise QueryError(
            "streams were not given", "the names of the streams", "write streams=['north', 'south']"
        )
    asked = IncompleteAsked(
        k=k,
        streams=list(df) if isinstance(df, Mapping) and streams is None else streams or (),
        id=id,
        value=value,
        window=window,
        stream=stream,
        time=time,
        slide=slide,
        offset=offset,
        sequence=sequence,
        combine=combine,
        bounds=bounds,
        outside=outside,
        repeats=repeats,
        partition_by=partition_by,
        emit=emit,
        delay=delay,
        skew=skew,
        deduplicate_by=deduplicate_by,
        algorithm=algorithm,
        options=options,
        full=full,
        drain=drain,
        shards=shards,
    )
    if df is None:
        asked.query()
        return lambda df: _answered(df, asked)
    return _answered(df, asked)


def _answered(df: DataFrame | Mapping[str, DataFrame], asked: IncompleteAsked) -> DataFrame:
    if isinstance(df, Mapping):
        asked.query()
        df, asked = united(df, asked), as_united(asked)
    return answer_incomplete(df, incomplete_question(df, asked))


def answer_incomplete(
    df: DataFrame, question: IncompleteQuestion, counts: Observation | None = None
) -> DataFrame:
    """The whole way: set aside, place, spread over shards, keep what may matter, merge.

    ``counts`` learns what was read of a batch and what could not be ranked.
    """
    if df.isStreaming:
        check_store(df)
    placed = aggregation.placed(df, question, more=question.more)
    clipped = {"clipped": F.count_if(CLIPPED)}
    rows = quarantine.admitted(placed, question, counts, clipped).drop(CLIPPED)
    directory = question.asked.drain if df.isStreaming else None
    if directory is not None:
        rows = draining.drainable(rows, question, directory)
    rows = aggregation.labelled(rows, question)
    if directory is not None:
        rows = draining.without_mark(rows, question)
    if question.deduplicate:
        rows = aggregation.deduplicated(rows, question)
    spread = panes.spread(rows, question, question.shards, question.partitions)
    kept = kept_of(question)
    answers = answered(spread, question, kept, [STREAM, SCORE])
    return output.ranked(merging.merged(answers, kept, len(question.keys)), question)


def kept_of(question: IncompleteQuestion) -> ShardKept:
    """What the processor of a shard has to know of a query."""
    window = question.query.window
    # values have been moved to their bounds before
    query = replace(question.query, window=made_up(window.size, window.slide), outside="clip")
    types = tuple(column.travels for column in question.kept)
    return ShardKept(
        IncompleteEngine(query, question.algorithm, dict(question.options)),
        Lives(window.size, window.slide),
        aggregation.clock(question),
        types,
        panes.is_whole(types),
        question.shards > 1,
        2,
        -(-window.size // window.slide) if getattr(window, "full", False) else -FOREVER,
    )
