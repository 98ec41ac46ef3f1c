"""Job files that ask for objects of incomplete streams: ``skyband run`` and ``skyband explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from skyband.datasets.cameras import CAMERAS
from skyband.errors import QueryError
from skyband.spark.families.incomplete.plan import IncompleteQuery
from skyband.spark.jobs.file import load, words
from tests.command_line import Runner
from tests.spark.test_incomplete import (
    OPTIONS,
    STREAMS,
    expected_rows,
    passages,
    result_rows,
    values,
    write,
)

ROWS = {
    "streams": STREAMS,
    "id": "plate",
    "stream": "camera",
    "value": "speed / 2",
    "bounds": {name: list(pair) for name, pair in OPTIONS["bounds"].items()},
    "outside": "clip",
}
QUERY = {
    "k": 3,
    "incomplete": ROWS,
    **{name: OPTIONS[name] for name in ("time", "window", "slide", "offset", "shards")},
}


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


EXAMPLE = Path(__file__).parents[2] / "examples" / "jobs" / "speeding.yaml"


def test_the_example_is_sound(tmp_path: Path) -> None:
    file = tmp_path / EXAMPLE.name
    file.write_bytes(EXAMPLE.read_bytes())
    text = words(load(file))
    assert text.startswith("top 5 objects of the last 20 minutes, every 5 minutes, by the sum of")
    assert text.endswith("tunnel and west")
    assert set(CAMERAS) == set(load(file).query.incomplete.streams)  # type: ignore[attr-defined]


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


def test_a_job_names_its_streams(tmp_path: Path) -> None:
    more = {"incomplete": {**ROWS, "repeats": {"sum": 3}, "bounds": [0, 9]}}
    loaded = load(job(tmp_path, {**more, "partition_by": "road"}))
    assert isinstance(loaded.query, IncompleteQuery)
    assert loaded.query.options(str).query().most == 3
    assert words(loaded) == (
        "top 3 objects of the last 25 seconds, every 10 seconds, shifted by 3 seconds, "
        "by the sum of north, south and west, for each road"
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"incomplete": {**ROWS, "streams": []}}, "query.incomplete.streams is a list"),
        ({"incomplete": {**ROWS, "bounds": [1]}}, "query.incomplete.bounds is a list"),
        ({"incomplete": {**ROWS, "bounds": [2, 1]}}, "bounds are [2"),
        ({"incomplete": {**ROWS, "combine": "mean"}}, "combine is 'mean'; expected sum, min, max"),
        ({"incomplete": {**ROWS, "value": "now()"}}, "by uses 'now'"),
        ({"incomplete": {**ROWS, "repeats": {"sum": 0}}}, "repeats is ('sum', 0)"),
        ({"incomplete": {**ROWS, "colour": 1}}, "query.incomplete.colour is not known"),
        ({"incomplete": {"streams": ["a"]}}, "query.incomplete.id is missing"),
        ({"k": 200_000}, "query.k is 200,000"),
        ({"emit": "some"}, "query.emit is 'some'; expected all, changes or updates"),
        ({"algorithm": "best"}, "algorithm is 'best'"),
        ({"algorithm": "eaa", "options": {"slick": 1}}, "option 'slick' for eaa"),
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
    rows = passages(6, 120)
    write(tmp_path / "rows", [rows])
    explained = run("explain", str(job(tmp_path, drain=True)))
    assert explained.code == 0, explained.err
    assert "3 shards: each object is in one of them" in explained.out
    assert "then newer ts, then higher plate" in explained.out
    assert "others are moved there, and counted" in explained.out
    plan = json.loads(run("explain", str(job(tmp_path, drain=True)), "--json").out)
    assert (plan[0]["shards"], plan[0]["algorithm"]) == (3, "eaa")
    ran = run("run", str(job(tmp_path, {"partition_by": "road"}, drain=True)))
    assert ran.code == 0, ran.err
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    assert result_rows(leaders, "road") == expected_rows(rows, "road")
    moved = sum(
        row["plate"] is not None and value is not None and value != row["speed"] / 2
        for row, (_, _, value) in zip(rows, values(rows), strict=True)
        if row["speed"] == row["speed"]
    )
    assert f"clipped     {moved} values moved to a bound" in ran.out


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"outside": "error"}, "beyond its bounds: "),
        ({"streams": STREAMS[:2], "bounds": [-100, 100]}, "'west' is none of north, south"),
    ],
)
def test_rows_that_do_not_fit_fail_a_job(
    tmp_path: Path, run: Runner, rows: dict[str, Any], message: str
) -> None:
    write(tmp_path / "rows", [passages(6, 40)])
    query = {"incomplete": {**ROWS, **rows}}
    ran = run("run", str(job(tmp_path, query, trigger="batch", checkpoint=None)))
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
