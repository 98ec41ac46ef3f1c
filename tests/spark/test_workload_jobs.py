"""Job files with a workload: ``skyband run`` and ``skyband explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark.families.workload.plan import WorkloadQuery
from skyband.spark.jobs.file import load, words
from tests import oracle
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.samples import SECOND

QUERIES = """name,k,window,slide,by
wide,2,20 seconds,10 seconds,
often,3,7 seconds,1 second,
cheap,1,30 seconds,15 seconds,-price
"""


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def job(folder: Path, workload: Any = "queries.csv", **more: Any) -> Path:
    query = {"by": "price", "time": "ts", "id": "id", "keep": "id", "delay": "0 seconds",
             "workload": workload}  # fmt: skip
    content = {
        "source": {"format": "parquet", "path": "rows"},
        "query": {**query, **more.pop("query", {})},
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        **more,
    }
    (folder / "rows").mkdir(exist_ok=True)
    (folder / "queries.csv").write_text(QUERIES)
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def rows(low: int, high: int) -> list[dict[str, Any]]:
    """A row a second."""
    return [
        {"ts": samples.BASE + i * SECOND, "seq": i, "id": i, "sector": "ab"[i % 2],
         "price": float(i * 37 % 101)}
        for i in range(low, high)
    ]  # fmt: skip


def test_a_job_names_its_queries(tmp_path: Path) -> None:
    loaded = load(job(tmp_path))
    assert isinstance(loaded.query, WorkloadQuery)
    assert dict(loaded.query.queries.by) == {"wide": "price", "often": "price", "cheap": "-price"}
    assert words(loaded) == (
        "3 queries: windows of 7 seconds to 30 seconds, slides of 1 second to 15 seconds, "
        "k of 1 to 3 by price or -price"
    )
    listed = load(job(tmp_path, [{"name": "a", "k": 2, "window": "1 minute"}]))
    assert isinstance(listed.query, WorkloadQuery)
    assert list(listed.query.queries) == ["a"]


@pytest.mark.parametrize(
    ("workload", "more", "message"),
    [
        ("none.csv", {}, "there is no file"),
        ([{"name": "a", "k": 2}], {}, "query 1 has no window"),
        ([{"name": "a", "k": 2, "window": 5}], {}, "windows that count rows as they arrive"),
        ([{"name": "a", "k": 2, "window": "5 s", "by": "now()"}], {}, "by uses 'now'"),
        ([{"name": "a", "k": 200_000, "window": "5 s"}], {}, "k of 'a' is 200,000"),
        ("queries.csv", {"query": {"k": 3}}, "query.k is not known"),
        (
            "queries.csv",
            {"query": {"emit": "some"}},
            "query.emit is 'some'; expected all, changes or",
        ),
        (5, {}, "query.workload is 5; expected a file of queries"),
    ],
)
def test_what_is_refused(tmp_path: Path, workload: Any, more: Any, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        load(job(tmp_path, workload, **more))
    assert message in str(caught.value)


@pytest.mark.spark
def test_a_job_goes_on_with_other_queries(run: Runner, spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "rows", [rows(0, 60)])
    first = run("run", job(tmp_path))
    assert first.code == 0, first.err
    assert "rows        60 read" in first.out
    assert "often" in first.out  # the leaderboard is tagged
    samples.write(tmp_path / "rows", [rows(0, 60), rows(60, 120)])
    (tmp_path / "more.csv").write_text(QUERIES.replace("cheap,1", "dear,4"))
    last = run("run", job(tmp_path, "more.csv", drain=True))
    assert last.code == 0, last.err
    assert "the stream is drained" in last.out
    leaders = spark.read.parquet(str(tmp_path / "out"))
    counts = {row["query"]: row["count"] for row in leaders.groupBy("query").count().collect()}
    assert counts["wide"] == 2 * 13
    assert counts["often"] == 3 * 122 + 2 * (1 + 2)  # fewer rows at both ends
    assert 0 < counts["cheap"] < 9
    assert 0 < counts["dear"] < 4 * 9


@pytest.mark.spark
def test_a_job_tells_changes(run: Runner, spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "rows", [rows(0, 60)])
    ran = run("run", job(tmp_path, query={"emit": "changes"}, drain=True))
    assert ran.code == 0, ran.err
    told = spark.read.parquet(str(tmp_path / "out")).filter("query = 'wide'").collect()
    prices = [row["price"] for row in rows(0, 60)]
    times = [row["ts"] for row in rows(0, 60)]
    windows = oracle.time_windows(prices, times, 20 * SECOND, 10 * SECOND, 2)
    assert samples.reports(told) == oracle.changes(windows, 10 * SECOND, 1 << 62)


@pytest.mark.spark
def test_explain_says_what_is_shared(run: Runner, tmp_path: Path) -> None:
    samples.write(tmp_path / "rows", [rows(0, 10)])
    file = job(tmp_path, query={"partition_by": "sector"})
    ran = run("explain", file)
    assert ran.code == 0, ran.err
    assert "panes               1 second each, 30 in 30 seconds" in ran.out
    assert "one aggregation, with the largest k of 3, and one processor per key" in ran.out
    assert "2 scores, in one pass: price, -price" in ran.out
    assert "about 11 open at a time, of 3 queries" in ran.out
    assert "each query for itself would keep" in ran.out
    (metrics,) = json.loads(run("explain", file, "--json").out)
    assert metrics["queries"] == 3
    assert metrics["independent_candidates_per_key"] >= metrics["candidates_per_key"]
