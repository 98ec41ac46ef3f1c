"""Batches: what each key adds up to in each pane, found inside the JVM.

Spark's own sum of doubles depends on the order of rows. So a double is cut into three whole numbers
first, whose sums lose nothing: it belongs to a *bucket* of 44 powers of two, in units of ``2**(44 *
bucket)``; a whole part of 32 bits, and two more parts of 32 bits each behind the point, hold all of
its 53 bits. Keys whose values span many powers of two have a few partial sums per pane.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from skyband.spark.families.totals.plan import TotalsQuestion
from skyband.spark.panes import AT, HALF, LABEL, SCORE, pane_number
from skyband.spark.state.shards import names_of

EXACT = "_sky_exact"
BUCKET = "bucket"
ROWS = "rows"
WIDTH = 44  # powers of two in a bucket
LOWEST, HIGHEST = -23, 23
"""Buckets of finite numbers; the ones beside them are those of the infinities."""
_BELOW = 12  # powers of two below one unit that a bucket holds
_PART = 1 << 32
_SAFE = 1e-9  # logarithms are rounded: a bucket may hold a little more, but not less


def layout(question: TotalsQuestion) -> StructType:
    """A partial: the newest time, the key, bucket (doubles only), rows (if they matter), parts."""
    count = {"rows": 0, "extremes": 1, "ints": 1, "longs": 2, "doubles": 3}[question.held]
    part = DoubleType() if question.held == "extremes" else LongType()
    counted = question.query.by in ("count", "mean")
    return StructType(
        [
            StructField(AT, LongType()),
            *(StructField(f"kept_{i}", own.travels) for i, own in enumerate(question.kept)),
            *([StructField(BUCKET, IntegerType())] if question.held == "doubles" else []),
            *([StructField(ROWS, LongType())] if counted else []),
            *(StructField(f"part_{i}", part) for i in range(count)),
        ]
    )


def partials(rows: DataFrame, question: TotalsQuestion) -> DataFrame:
    """A row per key and pane, of rows that have labels and shards: what its values come to.

    What tells shards apart, the number of the pane, then a partial.
    """
    key = [f"kept_{i}" for i in range(len(question.kept))]
    names = [*names_of(question), *key]
    bucket: list[str] = []
    if question.held == "doubles":
        rows, bucket = rows.withColumn(BUCKET, _bucket()), [BUCKET]
        rows = rows.withColumns(_cut())
    half = [HALF] if HALF in rows.columns else []
    ranked = F.col(SCORE).isNotNull()
    found = rows.groupBy(*names, LABEL, *half, *bucket).agg(
        F.max(F.when(ranked, F.col(AT))).alias(AT),
        F.count(SCORE).alias(ROWS),
        *(part.alias(f"part_{i}") for i, part in enumerate(_parts(question))),
    )
    return found.filter(F.col(ROWS) > 0).select(
        *names_of(question),
        pane_number(found, question).alias("pane"),
        *layout(question).names,
    )


def _parts(question: TotalsQuestion) -> list[Column]:
    exact = F.col(EXACT)
    if question.held == "rows":
        return []
    if question.held == "extremes":
        return [F.max(SCORE) if question.query.by == "max" else F.min(SCORE)]
    if question.held == "ints":  # 2**32 of 31 bits each fit a bigint
        return [F.sum(exact)]
    if question.held == "longs":
        return [F.sum(F.shiftright(exact, 32)), F.sum(exact.bitwiseAND(F.lit(_PART - 1)))]
    return [F.sum(f"cut_{i}") for i in range(3)]


def _bucket() -> Column:
    size = F.abs(SCORE)
    place = F.floor((F.log2(size) - F.lit(_SAFE) + F.lit(_BELOW)) / F.lit(WIDTH))
    usual = (size >= F.lit(2.0**-_BELOW)) & (size < F.lit(float(_PART)))
    infinite = F.when(F.col(SCORE) > 0, F.lit(HIGHEST + 1)).otherwise(F.lit(LOWEST - 1))
    return (
        F.when(usual | (size == 0) | size.isNull(), F.lit(0))
        .when(size == F.lit(math.inf), infinite)
        .otherwise(F.greatest(place, F.lit(LOWEST)))
        .cast("int")
    )


def _cut() -> dict[str, Column]:
    """Three whole numbers for each number, in units of its bucket; none of an infinity."""
    bucket = F.col(BUCKET)
    units = F.array(*(F.lit(math.ldexp(1.0, WIDTH * at)) for at in range(LOWEST, HIGHEST + 1)))
    scaled = F.when(bucket == 0, F.col(SCORE)).when(
        bucket.between(LOWEST, HIGHEST), F.col(SCORE) / F.get(units, bucket - F.lit(LOWEST))
    )
    scaled = F.coalesce(scaled, F.lit(0.0))
    first = scaled.cast("bigint")
    rest = (scaled - first.cast("double")) * F.lit(float(_PART))
    second = rest.cast("bigint")
    third = ((rest - second.cast("double")) * F.lit(float(_PART))).cast("bigint")
    return {"cut_0": first, "cut_1": second, "cut_2": third}
