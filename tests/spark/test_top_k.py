"""Batch = stream = oracle, on the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.spark import top_k
from tests import oracle
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

QUERIES = [
    pytest.param(3, 20, 10, 0, "", id="two panes"),
    pytest.param(4, 25, 10, 0, "sector", id="slide does not divide the window, keys"),
    pytest.param(50, 12, 5, 3, "", id="k beyond the window, offset"),
    pytest.param(1, 60, 1, 0, "sector", id="sixty panes"),
    pytest.param(5, 7, 7, 2, "sector", id="tumbling"),
]


def _query(k: int, size: int, slide: int, offset: int, key: str) -> dict[str, object]:
    return {
        "k": k,
        "by": "price",
        "time": "ts",
        "window": f"{size} seconds",
        "slide": f"{slide} seconds",
        "offset": f"{offset} seconds",
        "id": "id",
        "keep": ["id", "ts"],
        "partition_by": key or None,
    }


@pytest.mark.parametrize(("k", "size", "slide", "offset", "key"), QUERIES)
def test_a_batch_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, k: int, size: int, slide: int, offset: int, key: str
) -> None:
    rows = samples.rows(k, 300)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, k))
    found = top_k(spark.read.parquet(source), **_query(k, size, slide, offset, key)).collect()
    wanted = samples.expected(rows, k, size * SECOND, slide * SECOND, offset * SECOND, key)
    assert samples.result_rows(found, *([key] if key else [])) == wanted


@pytest.mark.parametrize(("k", "size", "slide", "offset", "key"), QUERIES)
def test_a_stream_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, k: int, size: int, slide: int, offset: int, key: str
) -> None:
    rows = samples.rows(k + 100, 200)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, k))
    query = _query(k, size, slide, offset, key) | {"delay": "10 minutes"}
    found = samples.run_and_drain(spark, tmp_path, source, **query)
    wanted = samples.expected(rows, k, size * SECOND, slide * SECOND, offset * SECOND, key)
    assert samples.result_rows(found, *([key] if key else [])) == wanted


@pytest.mark.parametrize("streaming", [False, True])
def test_a_sequence_column_makes_count_windows(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    rows = samples.rows(5, 157)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    query = {"k": 4, "by": "price", "sequence": "seq", "window": 25, "slide": 10, "keep": "id"}
    if streaming:
        found = samples.run_and_drain(spark, tmp_path, source, delay=200, **query)
    else:
        found = top_k(spark.read.parquet(source), **query).collect()
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    wanted = oracle.count_windows(scores, 25, 10, 4, [row["id"] for row in rows])
    assert samples.result_rows(found) == sorted(samples.oracle_rows(wanted))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_count_windows_by_arrival_follow_time(
    spark: SparkSession, tmp_path: Path, streaming: bool, emit: str
) -> None:
    rows = samples.rows(9, 157)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    query = {
        "k": 3,
        "by": "price",
        "time": "ts",
        "window": 12,
        "slide": 5,
        "id": "id",
        "keep": "id",
        "partition_by": "sector",
        "emit": emit,
    }
    if streaming:
        found = samples.run_and_drain(spark, tmp_path, source, delay="10 minutes", **query)
    else:
        found = top_k(spark.read.parquet(source), **query).collect()
    wanted: list[tuple[object, ...]] = []
    for key in ("None", "a", "b"):
        own = [row for row in rows if str(row["sector"]) == key]
        own.sort(key=lambda row: (row["ts"], row["id"]))
        scores = [None if row["price"] is None else row["price"] + 0.0 for row in own]
        windows = oracle.count_windows(scores, 12, 5, 3, [row["id"] for row in own])
        if emit == "all":
            wanted += samples.oracle_rows(windows, key)
            continue
        wanted += [
            (key, end, rank or None, before or None, id)
            for end, changes in oracle.changes(windows, 5)
            for id, (rank, before) in changes.items()
        ]
    if emit == "all":
        assert samples.result_rows(found, "sector") == sorted(wanted)
        return
    shown = [
        (str(row.sector), row.window.end, row["rank"], row.previous_rank, row.id) for row in found
    ]
    assert sorted(shown, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("streaming", [False, True])
def test_changes_say_what_entered_left_and_moved(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    rows = samples.rows(3, 150)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    query = _query(3, 25, 10, 0, "") | {"emit": "changes"}
    if streaming:
        found = samples.run_and_drain(spark, tmp_path, source, delay="10 minutes", **query)
    else:
        found = top_k(spark.read.parquet(source), **query).collect()
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    windows = oracle.time_windows(
        scores,
        [row["ts"] for row in rows],
        25 * SECOND,
        10 * SECOND,
        3,
        ids=[row["id"] for row in rows],
    )
    answers = [*windows, oracle.Answer(0, windows[-1].end + 10 * SECOND, ())]
    wanted = {
        (end, id, rank or None, before or None)
        for end, changes in oracle.changes(answers, 10 * SECOND)
        for id, (rank, before) in changes.items()
    }
    shown = [
        (
            int(row.window.end.timestamp()) * SECOND,
            row.id,
            row["rank"],
            row.previous_rank,
        )
        for row in found
    ]
    assert len(shown) == len(wanted)
    assert set(shown) == wanted
    for row in found:
        kind = "left" if row["rank"] is None else "moved" if row.previous_rank else "entered"
        assert row.change == kind
