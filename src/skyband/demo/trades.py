"""A lively stock market as a stream, made up inside Spark: trade number n is always the same."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.datasets.stock import SECTORS

PER_SECOND = 50
"""Trades in a second of the market's time."""

MARKET = "All sectors"
"""The board of all trades; each sector has one of its own."""

START = 1_767_623_400_000_000  # Monday 2026-01-05, 14:30 UTC: New York opens
SYMBOLS = 440  # forty in each sector
_ODD = 0x9E3779B1


def market(numbers: DataFrame, seed: int = 0) -> DataFrame:
    """Trades by their numbers, in a column ``value``: time, trade, symbol, sector, price, volume.

    Sizes have a heavy tail; now and then there is news of a symbol, and for ten seconds its trades
    are many times as large. Trades come up to two seconds out of order.
    """
    number = F.col("value")
    chance = numbers.select(
        number.alias("trade"),
        F.xxhash64(number, F.lit(seed)).alias("a"),
        F.xxhash64(number, F.lit(seed + _ODD)).alias("b"),
    )
    listed = F.pmod(F.shiftright("a", 40), F.lit(SYMBOLS)).cast("int")
    at = (
        F.lit(START)
        + (F.col("trade") * F.lit(1_000_000 // PER_SECOND))
        - F.pmod(F.col("b"), F.lit(2_000_000))
    )
    drawn = chance.select("trade", "a", "b", listed.alias("listed"), at.alias("at"))
    slide = F.call_function("div", F.col("at"), F.lit(10_000_000))
    news = F.pmod(F.xxhash64("listed", slide, F.lit(seed)), F.lit(900))
    loud = F.when(news < 3, 10.0 + 10.0 * news).otherwise(1.0)
    tail = F.pow(1.0 - _share("a"), F.lit(-0.4))  # Pareto
    level = 20.0 + F.pmod(F.col("listed") * 7919, F.lit(400))
    wave = 1.0 + 0.03 * F.sin(F.col("at") / 9.1e7 + F.col("listed"))
    sectors = F.array(*(F.lit(sector) for sector in SECTORS))
    return drawn.select(
        F.timestamp_micros("at").alias("time"),
        "trade",
        _symbol().alias("symbol"),
        sectors[F.pmod("listed", F.lit(len(SECTORS)))].alias("sector"),
        F.round(level * wave * (1.0 + 0.001 * _share("b")), 2).alias("price"),
        F.least(F.lit(5_000_000), F.ceil(100.0 * loud * tail)).cast("bigint").alias("volume"),
    )


def on_boards(trades: DataFrame) -> DataFrame:
    """Each trade twice: on the ``board`` of the whole market, and on that of its sector."""
    boards = F.explode(F.array(F.lit(MARKET), F.col("sector")))
    return trades.withColumn("board", boards)


def _share(name: str) -> Column:
    """A number from 0 to 1 (exclusive) out of a hash."""
    return F.pmod(F.col(name), F.lit(1 << 32)) / F.lit(float(1 << 32))


def _symbol() -> Column:
    """Four letters for each listed company."""
    letters = F.lit("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    mixed = F.col("listed") * 1_103 + 77
    places = [
        F.pmod(F.call_function("div", mixed, F.lit(step)), F.lit(26)) for step in (1, 7, 91, 601)
    ]
    return F.concat(*(F.substring(letters, place + 1, F.lit(1)) for place in places))
