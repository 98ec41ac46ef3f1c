"""Totals in job files, and in files on an embedded Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark import top_k
from skyband.spark.families.totals.plan import TotalsQuery
from skyband.spark.jobs.file import load, words
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.samples import SECOND

QUERY: dict[str, Any] = {
    "k": 3,
    "by": "sum(price)",
    "key": "sector",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
}


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def job(folder: Path, query: dict[str, Any] | None = None, **more: Any) -> Path:
    content = {
        "source": {"format": "parquet", "path": "rows"},
        "query": {**QUERY, **(query or {})},
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        **more,
    }
    (folder / "rows").mkdir(exist_ok=True)
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def test_a_job_names_its_key(tmp_path: Path) -> None:
    loaded = load(job(tmp_path, {"by": "AVG(price * 2)", "partition_by": "id"}))
    assert isinstance(loaded.query, TotalsQuery)
    assert loaded.query.options(str).query().by == "mean"
    assert words(loaded) == (
        "top 3 keys by mean of the last 25 seconds, every 10 seconds: "
        "AVG(price * 2) of each sector, for each id"
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"by": "price"}, "by is 'price' with key="),
        ({"by": "sum(now())"}, "by uses 'now'"),
        ({"by": "sum(price) + 1"}, "with key="),
        ({"by": "sum(reflect('java.lang.Math', 'random'))"}, "by uses 'reflect'"),
        ({"by": "stddev(price)"}, "by is 'stddev(price)' with key="),
        ({"key": []}, "query.key is a list"),
        ({"window": 100}, "query.window is 100; expected a duration"),
        ({"k": 200_000}, "query.k is 200,000"),
        ({"emit": "some"}, "query.emit is 'some'; expected all, changes or updates"),
        ({"keep": "price"}, "query.keep is not known"),
        ({"also": {"n": "price"}}, "also 'n' is 'price' with key="),
        ({"also": {"n": "sum(now())"}}, "uses 'now'"),
        ({"also": {"rank": "count(*)"}}, "also has a column called 'rank'"),
    ],
)
def test_what_is_wrong_is_reported_before_spark_starts(
    tmp_path: Path, query: dict[str, Any], message: str
) -> None:
    with pytest.raises(QueryError) as raised:
        load(job(tmp_path, query))
    assert message in str(raised.value)


@pytest.mark.spark
def test_a_job_is_explained_and_runs(spark: SparkSession, tmp_path: Path, run: Runner) -> None:
    rows = samples.rows(6, 120)
    samples.write(tmp_path / "rows", samples.split(rows, 2, 6))
    explained = run("explain", str(job(tmp_path, drain=True)))
    assert explained.code == 0, explained.err
    assert "2 shards: each sector is in one of them" in explained.out
    assert "then newer ts, then higher sector" in explained.out
    assert "rows whose price is NULL or NaN: counted" in explained.out
    plan = json.loads(run("explain", str(job(tmp_path, drain=True)), "--json").out)
    assert (plan[0]["shards"], plan[0]["total"]) == (2, "sum(price)")
    ran = run("run", str(job(tmp_path, {"by": "count(*)"}, drain=True)))
    assert ran.code == 0, ran.err
    counts: dict[tuple[int, Any], float] = {}
    for row in rows:
        end = row["ts"] // (10 * SECOND) * 10 * SECOND + 25 * SECOND  # of the last that holds it
        while end > row["ts"]:
            counts[end, row["sector"]] = counts.get((end, row["sector"]), 0.0) + 1
            end -= 10 * SECOND
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(samples.position(r.window.end), r.sector): r.score for r in leaders} == counts


@pytest.mark.spark
def test_a_job_carries_totals_beside_the_last_value(
    spark: SparkSession, tmp_path: Path, run: Runner
) -> None:
    samples.write(tmp_path / "rows", samples.split(samples.rows(6, 120), 2, 6))
    query = {"by": "last(price)", "also": {"orders": "count(*)", "spent": "sum(price)"}}
    explained = run("explain", str(job(tmp_path, query, drain=True)))
    assert explained.code == 0, explained.err
    assert "orders: count(*), rows, counted" in explained.out
    assert "each sector whose last price is NULL or NaN" in explained.out
    ran = run("run", str(job(tmp_path, query, drain=True)))
    assert ran.code == 0, ran.err
    result = spark.read.parquet(str(tmp_path / "out"))
    assert result.columns[-3:] == ["sector", "orders", "spent"]
    batch = top_k(spark.read.parquet(str(tmp_path / "rows")), **{**QUERY, **query})
    assert sorted(map(str, result.collect())) == sorted(map(str, batch.collect()))


@pytest.mark.spark
def test_a_job_tells_changes_of_shards(spark: SparkSession, tmp_path: Path, run: Runner) -> None:
    samples.write(tmp_path / "rows", samples.split(samples.rows(6, 120), 2, 6))
    query = {"by": "count(*)", "k": 2, "emit": "changes"}
    ran = run("run", str(job(tmp_path, query, drain=True)))
    assert ran.code == 0, ran.err
    told = samples.reports(spark.read.parquet(str(tmp_path / "out")).collect(), "sector")
    rows = spark.read.parquet(str(tmp_path / "rows"))
    batch = top_k(rows, **{**QUERY, **query}, shards=1)
    assert told == samples.reports(batch.collect(), "sector")


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        ["--last", 50, "--slide", 15, "--k", 4],
        ["--time", "tick", "--window", 30, "--slide", 12, "--offset", 5, "--k", 3],
        ["--last", 20, "--slide", 5, "--k", 2, "--partition-by", "city", "--emit", "changes"],
    ],
    ids=["counts", "ticks", "keys"],
)
def test_both_engines_print_the_same(tmp_path: Path, run: Runner, options: list[Any]) -> None:
    lines = ["tick,city,client,bytes"]
    for i, row in enumerate(samples.rows(7, 300)):
        value = "" if row["price"] is None else row["price"]
        lines.append(f"{row['seq'] // 3},{row['sector'] or ''},client {i * 7 % 11},{value}")
    file = tmp_path / "requests.csv"
    file.write_text("\n".join(lines) + "\n")
    command = ["totals", file, "--key", "client", "--by", "sum(bytes)", *options, "--format", "csv"]
    local = run(*command, "--engine", "local")
    assert local.code == 0, local.err
    assert len(local.rows) > 20
    assert "not ranked: " in local.err
    assert run(*command, "--engine", "spark") == local
