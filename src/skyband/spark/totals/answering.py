"""The way of a query for totals: set aside, place, add up by pane and key, shards, merge."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructType

from skyband.query import TimeWindow
from skyband.spark import aggregation, draining, output, quarantine
from skyband.spark.candidates import Lives
from skyband.spark.sharded.merging import merged
from skyband.spark.sharded.panes import names_of
from skyband.spark.totals import blocks, processor
from skyband.spark.totals.partials import EXACT, partials
from skyband.spark.totals.processor import TotalsKept
from skyband.spark.totals.question import TotalsQuestion


def answer_totals(
    df: DataFrame, question: TotalsQuestion, counts: Observation | None = None
) -> DataFrame:
    """The k keys of each window with the largest totals.

    ``counts`` learns what was read of a batch and what could not be ranked.
    """
    exact = () if question.exact is None else (question.exact.alias(EXACT),)
    placed = aggregation.placed(df, question, more=exact)
    rows = quarantine.admitted(placed, question, counts)
    directory = question.asked.drain if df.isStreaming else None
    if directory is not None:
        rows = draining.drainable(rows, question, directory)
    rows = aggregation.labelled(rows, question)
    if directory is not None:
        rows = draining.without_mark(rows, question)
    if question.deduplicate:
        rows = aggregation.deduplicated(rows, question)
    added = partials(rows, question)
    kept = kept_of(question, added.schema)
    answers = processor.answered(blocks.cut(added, question), kept, names_of(question))
    return output.ranked(merged(answers, kept, len(question.keys)), question)


def kept_of(question: TotalsQuestion, partial: StructType) -> TotalsKept:
    """What the processor of a shard has to know of a query; ``partial`` is a key's in a pane."""
    window = question.query.window
    assert isinstance(window, TimeWindow), "totals have windows of time"
    return TotalsKept(
        replace(question.query, window=replace(window, unit="tick")),
        question.held,
        question.scale,
        Lives(window.size, window.slide),
        aggregation.clock(question),
        StructType(partial.fields[len(question.keys) + 2 :]),
        tuple(column.travels for column in question.kept),
        question.shards > 1,
        question.digest,
    )
