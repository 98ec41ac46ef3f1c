"""Job files that ask for dominating rows: ``skyband run`` and ``skyband explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark.families.dominating.plan import DominatingQuery
from skyband.spark.jobs.file import load, words
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.test_dominating import OPTIONS, expected_rows

QUERY = {
    "k": 3,
    "dominating": {"price": "min", "seq % 5": "max", "id % 4": "min"},
    **{name: OPTIONS[name] for name in ("time", "window", "slide", "offset", "id", "keep")},
}


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


EXAMPLE = Path(__file__).parents[2] / "examples" / "jobs" / "attacks.yaml"


def test_the_example_is_sound(tmp_path: Path) -> None:
    file = tmp_path / EXAMPLE.name
    file.write_bytes(EXAMPLE.read_bytes())
    assert words(load(file)) == (
        "top 5 dominating of the last 20 seconds, every 5 seconds, "
        "by most bandwidth, most connections and most destinations"
    )


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


def test_a_job_names_its_attributes(tmp_path: Path) -> None:
    loaded = load(job(tmp_path, {"partition_by": "sector"}))
    assert isinstance(loaded.query, DominatingQuery)
    assert words(loaded) == (
        "top 3 dominating of the last 25 seconds, every 10 seconds, shifted by 3 seconds, "
        "by least price, most seq % 5 and least id % 4, for each sector"
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dominating": {}}, "query.dominating is a group of nothing; expected attributes"),
        ({"dominating": {"price": "less"}}, "query.dominating.price is 'less'; expected attrib"),
        ({"dominating": {"now()": "min"}}, "by uses 'now'"),
        ({"dominating": "price"}, "query.dominating is 'price'; expected attributes"),
        ({"by": "price"}, "query.by is not known"),
        ({"k": 200_000}, "query.k is 200,000"),
        ({"emit": "changes"}, "emit is 'changes' for all rows together"),
        ({"window": 10, "slide": 5, "offset": None}, "windows that count rows as they arrive"),
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
    samples.write(tmp_path / "rows", [rows])
    file = job(tmp_path, drain=True)
    explained = run("explain", str(file))
    assert explained.code == 0
    assert "2 shards: each holds its share of the points" in explained.out
    plan = json.loads(run("explain", str(file), "--json").out)
    assert (plan[0]["shards"], plan[0]["bytes_per_point"]) == (2, 24)
    keyed = run("explain", str(job(tmp_path, {"partition_by": "sector"}, drain=True)))
    assert "all rows of each sector go to the local engine" in keyed.out
    file = job(tmp_path, trigger="batch", checkpoint=None)
    ran = run("run", str(file))
    assert ran.code == 0, ran.err
    nulls = sum(row["price"] is None for row in rows)
    nans = sum(row["price"] is not None and row["price"] != row["price"] for row in rows)
    assert f"not ranked  {nulls} NULL and {nans} NaN scores" in ran.out
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    assert samples.result_rows(leaders) == expected_rows(rows)
