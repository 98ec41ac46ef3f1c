"""Of equal scores the oldest ranks first on Spark, where a query says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark import top_k
from tests import oracle
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.samples import SECOND

OPTIONS: dict[str, Any] = {"k": 3, "id": "id", "keep": ["id"], "ties": "oldest"}


def few_scores(seed: int, count: int) -> list[dict[str, Any]]:
    return [{**row, "price": float(row["seq"] * 7 % 3)} for row in samples.rows(seed, count)]


def expected(rows: list[dict[str, Any]], score: str, size: int, slide: int) -> list[Any]:
    windows = oracle.time_windows(
        [row[score] for row in rows],
        [row["ts"] for row in rows],
        size * SECOND,
        slide * SECOND,
        3,
        0,
        [row["id"] for row in rows],
        ties="oldest",
    )
    return sorted(samples.oracle_rows(windows))


@pytest.mark.parametrize("score", ["price", "bucket"])
def test_batches(spark: SparkSession, tmp_path: Path, score: str) -> None:
    rows = [{**row, "bucket": row["seq"] % 4} for row in few_scores(1, 120)]
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows[:60], rows[60:]]))
    frame = frame.selectExpr("*", "seq % 4 AS bucket")
    window = {"window": "7 seconds", "slide": "3 seconds", "time": "ts"}
    leaders = top_k(frame, by=score, **window, **OPTIONS)
    assert samples.result_rows(leaders.collect()) == expected(rows, score, 7, 3)


def test_count_windows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{**row, "ts": row["ts"] + row["seq"]} for row in few_scores(2, 90)]
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    ids = [row["id"] for row in rows]
    windows = oracle.count_windows([row["price"] for row in rows], 20, 5, 3, ids, ties="oldest")
    wanted = sorted(samples.oracle_rows(windows))
    leaders = top_k(frame, by="price", window=20, slide=5, sequence="seq", **OPTIONS)
    assert samples.result_rows(leaders.collect()) == wanted
    leaders = top_k(frame, by="price", window=20, slide=5, time="ts", **OPTIONS)
    assert [row[1:] for row in samples.result_rows(leaders.collect())] == [
        row[1:] for row in wanted
    ]


def test_a_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    rows = few_scores(3, 80)
    source = samples.write(tmp_path / "in", [rows[:40], rows[40:]])
    window = {"window": "8 seconds", "slide": "4 seconds", "time": "ts"}
    leaders = samples.run_and_drain(
        spark, tmp_path, source, by="price", delay="1 second", skew=None, **window, **OPTIONS
    )
    assert samples.result_rows(leaders) == expected(rows, "price", 8, 4)


def test_what_is_refused(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS ts")
    for by in ({"by": "id"}, {"by": "sum(id)", "key": "id"}):
        with pytest.raises(QueryError, match="ties is 'any'"):
            top_k(frame, k=1, **by, window="1 day", time="ts", ties="any")


def test_files(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Runner(capsys, monkeypatch)
    path = tmp_path / "equal.csv"
    lines = "".join(f"{at // 3},{at * 7 % 3},{at % 2}\n" for at in range(60))
    path.write_text("t,v,p\n" + lines)
    for more in ([], ["--partition-by", "p"]):
        for window in (["--last", 20, "--slide", 5], ["--time", "t", "--window", 7, "--slide", 3]):
            query = ["top", path, "--k", 3, "--by", "v", *window, *more, "--ties", "oldest"]
            local = run(*query, "--format", "csv", "--engine", "local")
            assert local.code == 0
            assert run(*query, "--format", "csv", "--engine", "spark") == local
