"""Trades, two queries over them, and what the oracle says of both."""

from __future__ import annotations

import math
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.spark import top_k
from tests import oracle

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
SCHEMA = "ts timestamp, seq bigint, id bigint, sector string, price double"
ARROW = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("seq", pa.int64()),
        ("id", pa.int64()),
        ("sector", pa.string()),
        ("price", pa.float64()),
    ]
)
SECTORS = ("energy", "metals", "metals", "health", None)
ODD_PRICES = (None, math.nan, math.inf, -math.inf, 0.0, 5.0, 5.0, 5.0)

SIZE, SLIDE, OFFSET, DELAY = (s * SECOND for s in (20, 7, 3, 5))
TIMED = {
    "k": 3,
    "by": "price",
    "time": "ts",
    "window": f"{SIZE // SECOND} seconds",
    "slide": f"{SLIDE // SECOND} seconds",
    "offset": f"{OFFSET // SECOND} seconds",
    "delay": f"{DELAY // SECOND} seconds",
    "partition_by": "sector",
    "id": "id",
    "keep": "id",
}
COUNT, STEP, SWAP = 30, 10, 8
COUNTED = {
    "k": 4,
    "by": "price",
    "window": COUNT,
    "slide": STEP,
    "sequence": "seq",
    "delay": 2 * SWAP,
    "id": "id",
    "keep": "id",
    "emit": "changes",
}


def make_trades(seed, count, jumps=0.05):
    """Trades as they arrive: out of order within the delay, silent for up to 60 slides at times."""
    chance = random.Random(seed)
    at, trades = BASE + chance.randrange(SECOND), []
    for i in range(count):
        at += chance.choice((0, 1, SECOND // 3, SECOND, 2 * SECOND))
        if chance.random() < jumps:
            at += chance.randint(0, 60) * SLIDE
        price = chance.choice(ODD_PRICES) if chance.random() < 0.4 else chance.random() * 9
        trade = {
            "ts": at,
            "id": i * 7919 % 10_007,
            "sector": chance.choice(SECTORS),
            "price": price,
        }
        trades.append(trade)
    trades.sort(key=lambda trade: trade["ts"] + chance.randint(0, DELAY))
    order = sorted(range(count), key=lambda i: i + chance.random() * SWAP)
    for seq, i in enumerate(order):
        trades[i]["seq"] = seq
    return trades


def later_than(trades):
    """A trade so much later that all windows of these are answered; its own are not."""
    newest = max(row["ts"] for row in trades)
    return {"ts": newest + 1000 * SLIDE, "seq": -1, "id": -1, "sector": "later", "price": 0.0}


def cut(trades, parts, seed):
    """Cut trades into so many parts at random; those of a part come in any order."""
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(trades)), parts - 1))
    pieces = [trades[a:b] for a, b in zip([0, *cuts], [*cuts, len(trades)], strict=True)]
    for piece in pieces:
        chance.shuffle(piece)
    return pieces


def write(directory, parts, first=0):
    """One file per part; their times of change give the order in which Spark reads them."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts, start=first):
        file = directory / f"part-{number:03d}.parquet"
        staged = directory / f".{file.name}"
        pq.write_table(pa.Table.from_pylist(part, ARROW), staged)
        os.utime(staged, (1_600_000_000 + number, 1_600_000_000 + number))
        staged.rename(file)


def trade_stream(spark, directory):
    """The files of a directory as a stream, one per micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(directory))


def timed(spark, source, **options):
    return top_k(trade_stream(spark, source), **{**TIMED, **options})


def counted(spark, source, **options):
    return top_k(trade_stream(spark, source), **{**COUNTED, **options})


def overwriting(directory):
    """A sink for foreachBatch that may be given a batch again: one directory per batch."""

    def write_batch(batch, number):
        batch.write.mode("overwrite").parquet(f"{directory}/batch={number}")

    return write_batch


def start(leaders, here, sink=None):
    """Start a bounded run, with its checkpoint in ``here``, into a sink for foreachBatch."""
    writer = leaders.writeStream.foreachBatch(sink or overwriting(here / "out"))
    writer = writer.option("checkpointLocation", str(here / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def sink_rows(spark, here):
    """The rows in a sink of :func:`start`."""
    return spark.read.parquet(str(here / "out")).collect()


def micros(moment):
    return round(moment.timestamp()) * SECOND + moment.microsecond


def answers(rows):
    """Rankings in Spark's rows, as :func:`expected_answers` has them."""
    return sorted(
        (row["sector"] or "", micros(row["window"]["end"]), row["rank"], row["score"], row["id"])
        for row in rows
    )


def expected_answers(trades, size=SIZE):
    """(sector, window end, rank, score, id) of every window."""
    expected = []
    for sector in {row["sector"] for row in trades}:
        sector_trades = [row for row in trades if row["sector"] == sector]
        columns = ([row[name] for row in sector_trades] for name in ("price", "ts", "id"))
        prices, times, ids = columns
        for window in oracle.time_windows(prices, times, size, SLIDE, TIMED["k"], OFFSET, ids):
            for rank, (score, id) in enumerate(window.rows, start=1):
                expected.append((sector or "", window.end, rank, score, id))
    return sorted(expected)


def reports(rows):
    """Changes in Spark's rows, as :func:`expected_reports` has them."""
    return sorted(
        (row["window"]["end"], row["id"], row["rank"] or 0, row["previous_rank"] or 0)
        for row in rows
    )


def expected_reports(trades):
    """(window end, id, rank, previous rank) of what changed between windows over the sequence."""
    ordered = sorted(trades, key=lambda row: row["seq"])
    prices, ids = [row["price"] for row in ordered], [row["id"] for row in ordered]
    windows = oracle.count_windows(prices, COUNT, STEP, COUNTED["k"], ids)
    return sorted(
        (end, id, rank, previous)
        for end, changed in oracle.changes(windows, STEP)
        for id, (rank, previous) in changed.items()
    )
