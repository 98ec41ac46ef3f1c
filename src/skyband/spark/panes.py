"""The native part of the pane path: the k best rows of each pane, found inside the JVM.

Raw rows never reach Python. A pane's label is the moment at which its windows can first be
answered; on a stream it is a timestamp and carries the watermark.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from skyband.spark.axis import Clock
from skyband.spark.columns import Carried, carried
from skyband.spark.plan import Question

ALL = "_sky_all"
LABEL = "_sky_label"
HALF = "_sky_half"
SCORE = "_sky_score"
AT = "_sky_at"
BEST = "_sky_best"


def clock(question: Question) -> Clock:
    """How Spark's watermark counts the windows of a query."""
    slide = question.query.window.slide
    return Clock(slide, question.offset, 1000 if question.timed else 1)


def key_names(question: Question) -> list[str]:
    """The key columns under our names; a query without keys has one constant."""
    return [f"key_{i}" for i in range(len(question.keys))] or [ALL]


def score_names(count: int) -> list[str]:
    """The columns of so many scores."""
    return [SCORE, *(f"{SCORE}_{i}" for i in range(1, count))]


def placed(
    df: DataFrame,
    question: Question,
    scores: tuple[Column, ...] | None = None,
    more: tuple[Column, ...] = (),
) -> DataFrame:
    """Only what the query needs, under our names: keys, score, place, ties, kept columns.

    ``scores`` stand for the query's own, where rows are ranked by several; ``more`` comes last.
    """
    scores = scores or (question.score,)
    at = F.col(quoted(question.at))
    if question.timed or question.arrival:
        at = F.unix_micros(at.cast("timestamp") if question.ntz else at)
    keys = [_key(column).alias(f"key_{i}") for i, column in enumerate(question.key_columns)]
    return df.select(
        *(keys or [F.lit(0).alias(ALL)]),
        *(score.alias(name) for score, name in zip(scores, score_names(len(scores)), strict=True)),
        at.cast("bigint").alias(AT),
        *(
            carried(name, df.schema[name].dataType).pack(F.col(quoted(name))).alias(f"tie_{i}")
            for i, name in enumerate(question.ties)
        ),
        *(
            column.pack(F.col(quoted(column.name))).alias(f"kept_{i}")
            for i, column in enumerate(question.kept)
        ),
        *(F.col(quoted(name)).alias(f"same_{i}") for i, name in enumerate(question.deduplicate)),
        *more,
    )


def _key(column: Carried) -> Column:
    """A key as it travels; -0.0 and 0.0 are one key, as for Spark's own groups."""
    packed = column.pack(F.col(quoted(column.name)))
    if isinstance(column.type, (DoubleType, FloatType)):
        return packed + F.lit(0.0).cast(column.type)
    return packed


def labelled(rows: DataFrame, question: Question) -> DataFrame:
    """Add the label of each row's pane; on a stream, the watermark that closes panes."""
    if question.arrival:
        return _by_arrival(rows, question)
    rows = numbered(rows, question)
    return watermarked(rows, question) if rows.isStreaming else rows


def numbered(rows: DataFrame, question: Question) -> DataFrame:
    """Add the label as a number, and whether a row lives longer than others of its step."""
    window = question.query.window
    inside = F.pmod(F.col(AT) - F.lit(question.offset), F.lit(window.slide))
    label = F.col(AT) - inside + F.lit(window.slide)
    if window.size % window.slide:
        rows = rows.withColumn(HALF, (inside >= window.slide - window.size % window.slide))
    return rows.withColumn(LABEL, label)


def watermarked(rows: DataFrame, question: Question) -> DataFrame:
    """Rows of a stream whose labels are moments, with the watermark that closes panes."""
    label = F.col(LABEL)
    moment = F.timestamp_micros(label) if question.timed else F.timestamp_millis(label)
    behind = -(-(question.query.window.slide + question.delay) // clock(question).per_ms)
    return rows.withColumn(LABEL, moment).withWatermark(LABEL, f"{behind} milliseconds")


def _by_arrival(rows: DataFrame, question: Question) -> DataFrame:
    """Rows are let in one by one, in order of time, as the watermark passes them."""
    rows = rows.withColumn(LABEL, F.timestamp_micros(AT))
    if not rows.isStreaming:
        return rows
    # a row at the watermark itself is late to Spark, but within the delay: hence one more
    return rows.withWatermark(LABEL, f"{-(-question.delay // 1000) + 1} milliseconds")


def deduplicated(rows: DataFrame, question: Question) -> DataFrame:
    """Each row once, by the columns that tell rows apart."""
    same = [f"same_{i}" for i in range(len(question.deduplicate))]
    if rows.isStreaming:
        return rows.dropDuplicatesWithinWatermark(same)
    return rows.dropDuplicates(same)


def panes(rows: DataFrame, question: Question) -> DataFrame:
    """The best rows of each pane: keys, label, pane number, an array of scores, kept arrays."""
    window = question.query.window
    split = window.size % window.slide > 0
    keys = key_names(question)
    kept = [f"kept_{i}" for i in range(len(question.kept))]
    order = F.struct(SCORE, AT, *(f"tie_{i}" for i in range(len(question.ties))))
    best = F.max_by(F.struct(SCORE, *kept), order, question.query.k)
    newest = [] if question.timed else [F.max(AT).alias(AT)]
    found = rows.groupBy(*keys, LABEL, *([HALF] if split else [])).agg(best.alias(BEST), *newest)
    ranked = F.filter(BEST, lambda row: row[SCORE].isNotNull())
    return found.withColumn(BEST, ranked).select(
        *keys,
        LABEL,
        pane_number(found, question).alias("pane"),
        F.col(BEST)[SCORE].alias("scores"),
        *(F.col(BEST)[name].alias(name) for name in kept),
        *([reached(F.col(AT), window.slide).alias("reached")] if newest else []),
    )


def all_reached(panes: DataFrame, rows: DataFrame, question: Question) -> DataFrame:
    """Panes of a batch by key, whose windows are completed by the rows of any key."""
    newest = rows.agg(F.max(AT)).scalar()
    return panes.withColumn("reached", reached(newest, question.query.window.slide))


def reached(newest: Column, slide: int) -> Column:
    """The last window that the newest row completes."""
    return F.call_function("div", reached_place(newest), F.lit(slide))


def reached_place(newest: Column) -> Column:
    """Windows over a sequence that end here or before are completed by the newest row."""
    return newest + F.lit(1)


def pane_number(found: DataFrame, question: Question) -> Column:
    """The pane number: twice the number of its first window, plus one if it lives longer."""
    label: Column = F.col(LABEL)
    if found.isStreaming:
        label = F.unix_micros(label) if question.timed else F.unix_millis(label)
    slide = question.query.window.slide
    half = F.col(HALF).cast("bigint") if HALF in found.columns else F.lit(0)
    # a label is a whole number of slides from the offset: the division leaves nothing
    return F.call_function("div", label - F.lit(question.offset), F.lit(slide)) * 2 + half


def quoted(name: str) -> str:
    """A column name as Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
