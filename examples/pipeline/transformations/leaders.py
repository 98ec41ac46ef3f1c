"""Two tables of leaders: one that a stream adds to, one that each update computes anew."""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skyband.spark import top_k

TRADES = str(Path(__file__).resolve().parents[1] / "trades")
SCHEMA = "ts timestamp, symbol string, sector string, price double, volume bigint, side string"

spark = SparkSession.active()

# top_k looks at the columns before anything runs, and Spark does not answer such questions inside
# the functions below: so the queries are made here, and the functions return them.
_biggest = top_k(
    spark.readStream.schema(SCHEMA).parquet(TRADES),
    k=3,
    by="price * volume",
    time="ts",
    window="30 seconds",
    slide="10 seconds",
    keep=["symbol", "ts"],
    delay="5 seconds",
)
_by_sector = top_k(
    spark.read.schema(SCHEMA).parquet(TRADES),
    k=1,
    by="price * volume",
    time="ts",
    window="30 seconds",
    partition_by="sector",
    keep=["symbol", "ts"],
)


@dp.table
def biggest_trades() -> DataFrame:
    """A streaming table: each update adds the windows that new rows completed."""
    return _biggest


@dp.materialized_view
def best_of_sector() -> DataFrame:
    """A materialized view: a batch over all rows, with the windows that are still open."""
    return _by_sector
