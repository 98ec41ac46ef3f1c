"""Rows that must not move the watermark, or cannot be ranked: set aside, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.spark.axis import END_OF_ROWS
from skyband.spark.panes import AT, SCORE, quoted
from skyband.spark.plan import Question, duration, moment_column

COUNTS = ("rows", "no_time", "future", "null_score", "nan_score")
"""What is counted of the rows that were read, by the names of the observed metrics."""


def quarantined(df: DataFrame, *, time: str, skew: Duration | None = "1 hour") -> DataFrame:
    """The rows that :func:`top_k` sets aside, with the reason in a column ``quarantine``.

    One row from the year 2100 would end every open window at once, for good; so rows further ahead
    of the clock than ``skew`` are never ranked, nor are rows without a time.

    Example::

        bad = quarantined(trades, time="ts", skew="1 hour")
        bad.writeStream.format("parquet").option("path", "bad").start()
    """
    if not isinstance(df, DataFrame):
        raise QueryError(f"df is {type(df).__name__}", "a DataFrame", "quarantined(df, time='ts')")
    name = moment_column(df, time)
    at = F.unix_micros(F.col(quoted(name)).cast("timestamp"))
    reason = F.when(at.isNull(), "no time")
    if skew is not None:
        reason = reason.when(_ahead(at, duration(skew, "skew", "1 hour")), "from the future")
    return df.withColumn("quarantine", reason).filter("quarantine IS NOT NULL")


def admitted(
    rows: DataFrame,
    question: Question,
    counts: Observation | str | None = None,
    more: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Count what was read and what cannot be ranked; let through what has a sound place.

    ``counts`` learns of it, or is the name under which a stream's progress tells it; ``more`` is
    what else is counted, by name.
    """
    at = F.col(AT)
    scores = [name for name in rows.columns if name.startswith(SCORE)]
    skew = question.skew if question.timed or question.arrival else None
    future = F.lit(False) if skew is None else _ahead(at, skew)
    if not question.timed and not question.arrival:
        future = at >= F.lit(END_OF_ROWS // 2)  # beyond is what a drained sequence has reached
    counted = rows.observe(
        counts or metric_name(question.digest),
        F.count(F.lit(1)).alias("rows"),
        F.count_if(at.isNull()).alias("no_time"),
        F.count_if(future).alias("future"),
        _sum(F.count_if(F.col(score).isNull()) for score in scores).alias("null_score"),
        _sum(F.count_if(F.isnan(score)) for score in scores).alias("nan_score"),
        *(column.alias(name) for name, column in (more or {}).items()),
    )
    ranked = {score: F.nanvl(score, F.lit(None).cast("double")) for score in scores}
    return counted.filter(at.isNotNull() & ~future).withColumns(ranked)


def _sum(columns: Iterable[Column]) -> Column:
    return reduce(Column.__add__, columns)


def metric_name(digest: str) -> str:
    """The name under which a stream's progress reports the counts of a query."""
    return f"skyband rows {digest}"


def _ahead(at: Column, skew: int) -> Column:
    return at > F.unix_micros(F.current_timestamp()) + F.lit(skew)
