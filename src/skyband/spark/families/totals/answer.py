"""The way of a query for totals: set aside, place, add up by pane and key, shards, merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DoubleType, FloatType, LongType, StructField, StructType

from skyband.spark import draining, output, quarantine
from skyband.spark import panes as aggregation
from skyband.spark.families.totals import partials, processor
from skyband.spark.families.totals.blocks import BLOCK, Cut
from skyband.spark.families.totals.partial_sums import Adding
from skyband.spark.families.totals.partials import EXACT
from skyband.spark.families.totals.plan import TotalsQuestion
from skyband.spark.families.totals.processor import TotalsKept
from skyband.spark.panes import AT, LABEL
from skyband.spark.state.candidates import Lives
from skyband.spark.state.merge import merged
from skyband.spark.state.shards import names_of, spread
from skyband.windows import TimeWindow


def answer_totals(
    df: DataFrame, question: TotalsQuestion, counts: Observation | None = None
) -> DataFrame:
    """The k keys of each window with the largest totals.

    ``counts`` learns what was read of a batch and what could not be ranked.
    """
    exact = () if question.exact is None else (question.exact.alias(EXACT),)
    placed = _one_zero(aggregation.placed(df, question, more=exact), question)
    rows = quarantine.admitted(placed, question, counts)
    if df.isStreaming and question.asked.drain is not None:
        rows = draining.drainable(rows, question, question.asked.drain)
    rows = spread(rows, question, question.shards, question.partitions)
    added = df.isStreaming and not question.deduplicate
    panes = _added_up(rows, question) if added else _added_by_spark(rows, question)
    answers = processor.answered(panes, kept_of(question), names_of(question))
    return output.ranked(merged(answers, kept_of(question), len(question.keys)), question)


def _one_zero(rows: DataFrame, question: TotalsQuestion) -> DataFrame:
    """Rows whose keys are equal where Spark's groups are: there is one zero, and one NaN."""
    floats = [
        (f"kept_{i}", column.type)
        for i, column in enumerate(question.kept)
        if isinstance(column.type, (DoubleType, FloatType))
    ]
    for name, type in floats:
        one_nan = F.nanvl(F.col(name), F.lit(float("nan")).cast(type))
        rows = rows.withColumn(name, one_nan + F.lit(0.0).cast(type))
    return rows


def _added_up(rows: DataFrame, question: TotalsQuestion) -> DataFrame:
    """Panes of a stream: added up by its tasks, closed by the watermark."""
    names, window = names_of(question), question.query.window
    key = [f"kept_{i}" for i in range(len(question.kept))]
    adding = Adding(
        tuple(names),
        tuple(key),
        question.held,
        question.query.by,
        window.slide,
        window.size % window.slide,
        question.offset,
    )
    blocks = _mapped(rows.select(*names, *key, AT, adding.value), adding, names)
    step = F.shiftright("pane", 1) * F.lit(window.slide) + F.lit(question.offset)
    panes = _without_mark(
        aggregation.watermarked(blocks.withColumn(LABEL, step), question), question
    )
    found = panes.groupBy(*names, LABEL, "pane").agg(F.collect_list(BLOCK).alias(BLOCK))
    return found.filter(F.size(BLOCK) > 0).select(*names, "pane", BLOCK)


def _added_by_spark(rows: DataFrame, question: TotalsQuestion) -> DataFrame:
    """Panes of a batch, or of a stream whose rows count once by what tells them apart."""
    rows = _without_mark(aggregation.labelled(rows, question), question)
    if question.deduplicate:
        rows = aggregation.deduplicated(rows, question)
    names = names_of(question)
    blocks = _mapped(partials.partials(rows, question), Cut(tuple(names)), names)
    return blocks.withColumn(BLOCK, F.array(BLOCK))


def _without_mark(rows: DataFrame, question: TotalsQuestion) -> DataFrame:
    """Rows or blocks that have moved the watermark, without the mark that ends a stream."""
    if rows.isStreaming and question.asked.drain is not None:
        return draining.without_mark(rows, question)
    return rows


def _mapped(rows: DataFrame, into: Adding | Cut, names: list[str]) -> DataFrame:
    """Blocks: what tells shards apart, the pane, and its bytes."""
    types = [StructField(name, rows.schema[name].dataType) for name in names]
    schema = StructType([*types, StructField("pane", LongType()), StructField(BLOCK, BinaryType())])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return into.blocks(batches)

    return rows.mapInArrow(run, schema)


def kept_of(question: TotalsQuestion) -> TotalsKept:
    """What the processor of a shard has to know of a query."""
    window = question.query.window
    assert isinstance(window, TimeWindow), "totals have windows of time"
    return TotalsKept(
        replace(question.query, window=replace(window, unit="tick")),
        question.held,
        question.scale,
        Lives(window.size, window.slide),
        aggregation.clock(question),
        partials.layout(question),
        tuple(column.travels for column in question.kept),
        question.shards > 1,
        question.digest,
    )
