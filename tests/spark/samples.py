"""Sample rows as a batch, as a stream, and through the oracle."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from skyband.spark import drain, top_k
from tests import oracle

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("seq", pa.int64()),
        ("id", pa.int64()),
        ("sector", pa.string()),
        ("price", pa.float64()),
    ]
)
DDL = "ts timestamp, seq bigint, id bigint, sector string, price double"
SCORES = [None, float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.0, 2.0, 3.0, 5.0, 8.0]


def rows(seed: int, count: int, gap: int = SECOND // 2) -> list[dict[str, Any]]:
    """Random rows in order of time: ties of score and time, odd scores, keys, a silent stretch."""
    chance = random.Random(seed)
    at = BASE + chance.randrange(SECOND)
    rows = []
    for i in range(count):
        at += chance.choice([0, 0, 1, gap, 2 * gap])
        if i == count // 2:
            at += 200 * gap
        rows.append(
            {
                "ts": at,
                "seq": i,
                "id": i * 7919 % 1009,
                "sector": chance.choice(["a", "b", "b", None]),
                "price": chance.choice(SCORES) if chance.random() < 0.5 else chance.random() * 9,
            }
        )
    return rows


def write(path: Path, parts: list[list[dict[str, Any]]]) -> str:
    """Each part as one file, read in this order."""
    path.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        file = path / f"part-{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist(part, SCHEMA), file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads the older first
    return str(path)


def split(rows: list[dict[str, Any]], count: int, seed: int) -> list[list[dict[str, Any]]]:
    """Cut rows at random, and shuffle each part."""
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(rows)), count - 1))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    for part in parts:
        chance.shuffle(part)
    return parts


def stream(spark: SparkSession, source: str) -> DataFrame:
    """The files of a directory, one per micro-batch, in order of name."""
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    return reader.option("latestFirst", "false").parquet(source)


def run_and_drain(spark: SparkSession, home: Path, source: str, **options: Any) -> list[Any]:
    """Run a stream to its end, drain it, and return what the sink holds."""
    marks = str(home / "marks")
    for ended in (False, True):
        if ended:
            drain(spark, marks)
        leaders = top_k(stream(spark, source), drain=marks, **options)
        run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


def run(leaders: DataFrame, home: Path) -> Any:
    """One bounded run into Parquet; returns the query."""
    writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def result_rows(rows: list[Any], *keys: str) -> list[tuple[Any, ...]]:
    """Result rows without changes as (key, end, rank, score, id), sorted."""
    return sorted(
        (*(str(row[key]) for key in keys), position(row.window.end), row["rank"], row.score, row.id)
        for row in rows
    )


def position(end: Any) -> int:
    """The end of a window as a whole number: microseconds if it is a time."""
    if isinstance(end, int):
        return end
    return int(end.timestamp()) * SECOND + end.microsecond


def expected(
    rows: list[dict[str, Any]], k: int, size: int, slide: int, offset: int = 0, key: str = ""
) -> list[tuple[Any, ...]]:
    """What the oracle says of time windows, in the layout of :func:`result_rows`."""
    answers: list[tuple[Any, ...]] = []
    for value in sorted({str(row[key]) for row in rows} if key else {""}):
        key_rows = [row for row in rows if not key or str(row[key]) == value]
        scores = [None if row["price"] is None else row["price"] + 0.0 for row in key_rows]
        windows = oracle.time_windows(
            scores,
            [row["ts"] for row in key_rows],
            size,
            slide,
            k,
            offset,
            [row["id"] for row in key_rows],
        )
        answers += oracle_rows(windows, *([value] if key else []))
    return sorted(answers)


def oracle_rows(windows: list[Any], *key: str) -> list[tuple[Any, ...]]:
    """Windows of the oracle in the layout of :func:`result_rows`."""
    return [
        (*key, window.end, rank, score, id)
        for window in windows
        for rank, (score, id) in enumerate(window.rows, start=1)
    ]


def reports(rows: list[Any], id: str = "id") -> list[tuple[int, dict[Any, tuple[int, int]]]]:
    """Result rows of changes as :func:`tests.oracle.changes` has them."""
    by_end: dict[int, dict[Any, tuple[int, int]]] = {}
    for row in rows:
        rank, previous = row["rank"] or 0, row.previous_rank or 0
        assert row.change == ("left" if not rank else "moved" if previous else "entered")
        entries = by_end.setdefault(position(row.window.end), {})
        assert row[id] not in entries
        entries[row[id]] = rank, previous
    return sorted(by_end.items())
