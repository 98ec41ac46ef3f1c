"""Rows that must not move the watermark, or cannot be ranked: set aside, and counted."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.spark.axis import Axis, TimeAxis
from skyband.spark.columns import COUNTS, POSITION, SCORE, moment_column
from skyband.spark.options import duration
from skyband.spark.plan import Plan


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
    ahead = None if skew is None else duration(skew, "skew", "1 hour")
    name = moment_column(df, time)
    dates = isinstance(df.schema[name].dataType, DateType)
    axis = TimeAxis(name, 0, local=True, skew=ahead, dates=dates)
    position = axis.position_sql()
    reason = F.when(position.isNull(), "no time")
    if skew is not None:
        reason = reason.when(axis.ahead_sql(position), "from the future")
    return df.withColumn("quarantine", reason).filter("quarantine IS NOT NULL")


def admitted(rows: DataFrame, plan: Plan, counts: Observation | None = None) -> DataFrame:
    """Count what was read and what cannot be ranked; let through what has a sound position.

    ``counts`` observes it, else a stream reports it with its progress.
    """
    position = F.col(POSITION)
    scores = [name for name in rows.columns if name.startswith(SCORE)]
    doubles = [name for name in scores if isinstance(rows.schema[name].dataType, DoubleType)]
    counted = rows.observe(
        counts or rows_metric(plan.digest),
        F.count(F.lit(1)).alias("rows"),
        F.count_if(position.isNull()).alias("no_time"),
        F.count_if(plan.base.axis.ahead_sql(position)).alias("future"),
        _sum(F.count_if(F.col(score).isNull()) for score in scores).alias("null_score"),
        _sum([F.count_if(F.isnan(score)) for score in doubles] or [F.lit(0)]).alias("nan_score"),
        *(column.alias(name) for name, column in plan.extra_counts.items()),
    )
    ranked = {score: F.nanvl(score, F.lit(None).cast("double")) for score in doubles}
    return sound(counted, plan.base.axis).withColumns(ranked)


def counted_by_tasks(rows: DataFrame, plan: Plan, counts: Observation | None = None) -> DataFrame:
    """Report what tasks have counted that read files; let through what has a position.

    They have set the rest aside.
    """
    names = rows.schema[COUNTS].dataType.names  # type: ignore[attr-defined]
    total = (F.coalesce(F.sum(F.col(COUNTS)[name]), F.lit(0)).alias(name) for name in names)
    counted = rows.observe(counts or rows_metric(plan.digest), *total)
    return counted.drop(COUNTS).filter(F.col(POSITION).isNotNull())


def sound(rows: DataFrame, axis: Axis) -> DataFrame:
    """The rows that have a position, and one that can be believed."""
    position = F.col(POSITION)
    return rows.filter(position.isNotNull() & ~axis.ahead_sql(position))


def rows_metric(digest: str) -> str:
    """The name under which a stream's progress reports the counts of a query."""
    return f"skyband rows {digest}"


def _sum(columns: Iterable[Column]) -> Column:
    return reduce(Column.__add__, columns)
