"""Shared ranks, and the oldest first, of dominating points and of objects of several streams."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark import claim, drain, top_k_dominating, top_k_incomplete
from tests import oracle, oracle_incomplete
from tests.command_line import Runner
from tests.spark import samples, test_dominating, test_incomplete
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

POINTS: dict[str, Any] = {**test_dominating.OPTIONS, "skew": None}
OBJECTS: dict[str, Any] = {**test_incomplete.OPTIONS, "skew": None}
SHAPE = (25 * SECOND, 10 * SECOND, 3)
OFFSET = 3 * SECOND
ORDERS: list[dict[str, Any]] = [
    {"rank_by": rank_by, "ties": ties}
    for rank_by, ties in product(["row_number", "rank", "dense_rank"], ["newest", "oldest"])
][1:]

Rows = list[dict[str, Any]]
Windows = list[oracle.Answer]


def windows_of_points(rows: Rows, order: dict[str, Any]) -> Windows:
    """What the oracle says of rows, by their ids."""
    rows = sorted(rows, key=lambda row: (row["ts"], row["id"]))
    points, times = test_dominating.points(rows), [row["ts"] for row in rows]
    return [
        oracle.Answer(
            window.start,
            window.end,
            tuple((score, rows[at]["id"]) for score, at in window.rows),
        )
        for window in oracle.time_dominating(points, times, *SHAPE, OFFSET, **order)
    ]


def windows_of_objects(rows: Rows, order: dict[str, Any]) -> Windows:
    """What the oracle says of objects, by their plates."""
    values = test_incomplete.values(rows)
    known = [(value, row) for value, row in zip(values, rows, strict=True) if row["plate"]]
    how: Any = ("sum", test_incomplete.LOW, "max", OFFSET)
    times = [row["ts"] for _, row in known]
    return oracle_incomplete.time_incomplete(
        [value for value, _ in known], times, *SHAPE, *how, **order
    )


def listed(rows: list[Any], id: str) -> list[tuple[Any, ...]]:
    """Result rows as (end, rank, score, id), by end, else in the order in which they came."""
    ranked = [(samples.position(r.window.end), r["rank"], r.score, r[id]) for r in rows]
    return sorted(ranked, key=lambda row: row[:2])


def expected(windows: Windows, order: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The same of the oracle."""
    return [
        (window.end, rank, *row)
        for window in windows
        for rank, row in zip(
            oracle.numbered(window.rows, order["rank_by"]), window.rows, strict=True
        )
    ]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_batches(spark: SparkSession, tmp_path: Path, order: dict[str, Any]) -> None:
    rows = samples.rows(3, 200)
    frame = test_dominating.frame(spark, rows, tmp_path)
    best = top_k_dominating(frame, **POINTS, **order, shards=2).collect()
    assert listed(best, "id") == expected(windows_of_points(rows, order), order)
    cars = test_incomplete.passages(3, 200)
    source = test_incomplete.write(tmp_path / "cars", [cars])
    frame = spark.read.schema(test_incomplete.COLUMNS).parquet(source)
    best = top_k_incomplete(frame, **OBJECTS, **order).collect()
    assert listed(best, "plate") == expected(windows_of_objects(cars, order), order)
    changed = top_k_incomplete(frame, **OBJECTS, **order, emit="changes").collect()
    wanted = oracle.changes(windows_of_objects(cars, order), SHAPE[1], 1 << 62, order["rank_by"])
    assert samples.reports(changed, "plate") == wanted


def test_count_windows_and_keys(spark: SparkSession, tmp_path: Path) -> None:
    rows, order = samples.rows(4, 130), {"rank_by": "dense_rank", "ties": "oldest"}
    frame = test_dominating.frame(spark, rows, tmp_path)
    counted = {"time": None, "sequence": "seq", "window": 37, "slide": 10, "offset": None}
    best = top_k_dominating(frame, **{**POINTS, **counted, **order}).collect()
    windows = oracle.count_dominating(test_dominating.points(rows), 37, 10, 3, **order)
    named = [
        oracle.Answer(w.start, w.end, tuple((score, rows[at]["id"]) for score, at in w.rows))
        for w in windows
    ]
    assert listed(best, "id") == expected(named, order)
    by_key = top_k_dominating(frame, **POINTS, **order, partition_by="sector").collect()
    for key in {row["sector"] for row in rows}:
        key_rows = [row for row in rows if row["sector"] == key]
        answers = listed([row for row in by_key if row.sector == key], "id")
        assert answers == expected(windows_of_points(key_rows, order), order)


def streamed(
    spark: SparkSession, home: Path, family: Any, parts: list[Rows], **options: Any
) -> Any:
    """Run a stream, stop it, and drain it."""
    for ended in (False, True):
        source = family.write(home / "source", parts if ended else parts[:2])
        if ended:
            drain(spark, str(home / "marks"))
        answers = family.run(spark, home, source, **options)
    return answers  # type: ignore[no-any-return]


def test_streams_of_points(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    """All rows together, and by key while windows are open."""
    monkeypatch.setattr(test_dominating, "write", samples.write, raising=False)
    rows = samples.rows(5, 200)
    parts = samples.split(rows, 3, 5)
    order = ORDERS[4]
    best = streamed(spark, tmp_path / "all", test_dominating, parts, **{**POINTS, **order})
    assert sorted(listed(best, "id")) == sorted(expected(windows_of_points(rows, order), order))
    order = ORDERS[1]
    how = {**POINTS, **order, "partition_by": "sector", "emit": "updates"}
    shown = streamed(spark, tmp_path / "keys", test_dominating, parts, **how)
    final = [row for row in shown if row.final]
    assert len(shown) > len(final)
    for key in {row["sector"] for row in rows}:
        windows = windows_of_points([row for row in rows if row["sector"] == key], order)
        answers = listed([row for row in final if row.sector == key], "id")
        assert sorted(answers) == sorted(expected(windows, order))
    source, changed = str(tmp_path / "keys" / "source"), {**how, "rank_by": "row_number"}
    with pytest.raises(QueryError, match="rank_by was 'rank'"):
        test_dominating.run(spark, tmp_path / "keys", source, **changed)


def test_streams_of_objects(spark: SparkSession, tmp_path: Path) -> None:
    """Objects in shards, whole and as changes; updates end as they do."""
    rows = test_incomplete.passages(5, 200)
    parts = samples.split(rows, 3, 5)
    order = ORDERS[4]
    windows = windows_of_objects(rows, order)
    best = streamed(spark, tmp_path / "all", test_incomplete, parts, **OBJECTS, **order)
    assert sorted(listed(best, "plate")) == sorted(expected(windows, order))
    how = {**OBJECTS, **order, "emit": "changes"}
    changed = streamed(spark, tmp_path / "changes", test_incomplete, parts, **how)
    wanted = oracle.changes(windows, SHAPE[1], 1 << 62, order["rank_by"])
    assert samples.reports(changed, "plate") == wanted
    how = {**OBJECTS, **order, "emit": "updates", "shards": None}
    shown = streamed(spark, tmp_path / "updates", test_incomplete, parts, **how)
    final = [row for row in shown if row.final]
    assert sorted(listed(final, "plate")) == sorted(expected(windows, order))
    assert len(shown) > len(final)


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def test_jobs_are_explained_and_run(spark: SparkSession, tmp_path: Path, run: Runner) -> None:
    order = {"rank_by": "dense_rank", "ties": "oldest"}
    window = {name: POINTS[name] for name in ("k", "time", "window", "slide", "offset", "skew")}
    points, objects = samples.rows(6, 120), test_incomplete.passages(6, 120)
    samples.write(tmp_path / "points", [points])
    test_incomplete.write(tmp_path / "objects", [objects])
    dominating = dict(test_dominating.DIMENSIONS)
    incomplete = {name: OBJECTS[name] for name in ("streams", "id", "stream", "value", "outside")}
    incomplete["bounds"] = {name: list(pair) for name, pair in OBJECTS["bounds"].items()}
    for name, query, id, windows, words in (
        ("points", {"dominating": dominating, "id": "id"}, "id", windows_of_points(points, order),
         "each of which dominates the next"),
        ("objects", {"incomplete": incomplete}, "plate", windows_of_objects(objects, order),
         "share a rank"),
    ):  # fmt: skip
        content = {
            "source": {"format": "parquet", "path": name},
            "query": {**window, **query, **order},
            "sink": {"format": "parquet", "path": f"{name}-out"},
            "checkpoint": f"{name}-checkpoint",
            "drain": True,
        }
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        explained = run("explain", str(file))
        assert words in explained.out, explained.err
        assert "ranked by dense_rank" in explained.out
        ran = run("run", str(file))
        assert ran.code == 0, ran.err
        answers = spark.read.parquet(str(tmp_path / f"{name}-out")).collect()
        assert sorted(listed(answers, id)) == sorted(expected(windows, order))
        content["query"]["ties"] = "any"  # type: ignore[index]
        file.write_text(yaml.safe_dump(content))
        assert "query.ties is 'any'" in run.fails("run", str(file))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"rank_by": "any"}, "rank_by is 'any'"),
        ({"ties": "any"}, "ties is 'any'"),
        ({"rank_by": "rank", "algorithm": "{}"}, "algorithm is '{}' with rank_by='rank'"),
        ({"ties": "oldest", "algorithm": "{}"}, "algorithm is '{}' with ties='oldest'"),
    ],
)
def test_what_is_refused(spark: SparkSession, order: dict[str, Any], message: str) -> None:
    frame = spark.createDataFrame([], samples.DDL)
    named = {key: value.format("contenders") for key, value in order.items()}
    with pytest.raises(QueryError, match=message.format("contenders")):
        top_k_dominating(frame, **POINTS, **named, partition_by="sector")
    frame = spark.createDataFrame([], test_incomplete.COLUMNS)
    named = {key: value.format("eaa") for key, value in order.items()}
    with pytest.raises(QueryError, match=message.format("eaa")):
        top_k_incomplete(frame, **OBJECTS, **named)


def test_a_plan_of_the_usual_order_says_nothing_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """So checkpoints from before go on."""
    rows = samples.stream(spark, samples.write(tmp_path / "in", [samples.rows(1, 5)]))
    plain = top_k_dominating(rows, **POINTS)
    metadata = plain.schema["rank"].metadata["skyband"]
    assert "ties" not in metadata
    assert "rank_by" not in metadata
    claim(top_k_dominating(rows, **POINTS, ties="oldest"), str(tmp_path / "checkpoint"))
    with pytest.raises(QueryError, match="ties was 'oldest'"):
        claim(plain, str(tmp_path / "checkpoint"))
