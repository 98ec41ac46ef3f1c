"""Rows of equal score share a rank on Spark, where a query says so."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession

from skyband import Monitor, TopK, last
from skyband.errors import QueryError
from skyband.spark import claim, top_k
from skyband.spark.jobs.sinks import Sink, kind_of
from tests import oracle
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.samples import SECOND

OPTIONS: dict[str, Any] = {"k": 3, "id": "id", "keep": ["id"]}
COLUMNS = {"times": "ts", "ids": "id"}
ORDERS = list(product(["rank", "dense_rank"], ["newest", "oldest"]))


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def few_scores(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows whose scores are few, with odd ones among them."""
    odd = {5: None, 17: float("nan"), 23: -0.0, 29: float("inf"), 31: float("inf")}
    rows = samples.rows(seed, count)
    return [{**row, "price": odd.get(row["seq"], float(row["seq"] * 7 % 5))} for row in rows]


def shared(windows: list[Any], rank_by: str) -> list[tuple[Any, ...]]:
    """Windows of the oracle in the layout of :func:`samples.result_rows`, with shared ranks."""
    return sorted(
        (window.end, rank, score, id)
        for window in windows
        for rank, (score, id) in zip(
            oracle.numbered(window.rows, rank_by), window.rows, strict=True
        )
    )


def windows_of(rows: list[dict[str, Any]], score: str, size: int, slide: int, **order: Any) -> Any:
    scores = [None if row[score] is None else row[score] + 0 for row in rows]
    times, ids = [row["ts"] for row in rows], [row["id"] for row in rows]
    return oracle.time_windows(scores, times, size * SECOND, slide * SECOND, 3, 0, ids, **order)


@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
def test_batches(spark: SparkSession, tmp_path: Path, rank_by: str, ties: str) -> None:
    rows = [{**row, "bucket": row["seq"] % 4} for row in few_scores(1, 120)]
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows[:60], rows[60:]]))
    frame = frame.selectExpr("*", "seq % 4 AS bucket")
    window = {"window": "7 seconds", "slide": "3 seconds", "time": "ts"}
    order = {"rank_by": rank_by, "ties": ties}
    for score in ("price", "bucket"):
        leaders = top_k(frame, by=score, **window, **OPTIONS, **order).collect()
        assert samples.result_rows(leaders) == shared(
            windows_of(rows, score, 7, 3, **order), rank_by
        )
    # in a window rows stand in the total order, whatever their ranks
    leaders = top_k(frame, by="price", **window, **OPTIONS, **order).collect()
    listed = [(samples.position(row.window.end), row.score, row.id) for row in leaders]
    for expected in windows_of(rows, "price", 7, 3, **order):
        ids = tuple((score, id) for end, score, id in listed if end == expected.end)
        assert ids == expected.rows


@pytest.mark.parametrize("rank_by", ["rank", "dense_rank"])
def test_count_windows(spark: SparkSession, tmp_path: Path, rank_by: str) -> None:
    rows = [{**row, "ts": row["ts"] + row["seq"]} for row in few_scores(2, 90)]
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    scores = [None if row["price"] is None else row["price"] + 0 for row in rows]
    ids = [row["id"] for row in rows]
    wanted = oracle.count_windows(scores, 20, 5, 3, ids, rank_by=rank_by)
    count = {"window": 20, "slide": 5, "rank_by": rank_by, **OPTIONS}
    leaders = top_k(frame, by="price", sequence="seq", **count).collect()
    assert samples.result_rows(leaders) == shared(wanted, rank_by)
    leaders = top_k(frame, by="price", time="ts", **count).collect()  # by arrival
    assert [row[1:] for row in samples.result_rows(leaders)] == [
        row[1:] for row in shared(wanted, rank_by)
    ]
    expected = [report for _, report in oracle.changes(wanted, 5, rank_by=rank_by)]
    for place in ({"sequence": "seq"}, {"time": "ts"}):
        changed = top_k(frame, by="price", emit="changes", **place, **count).collect()
        assert [report for _, report in samples.reports(changed)] == expected


@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_a_stream_goes_on(
    spark: SparkSession, tmp_path: Path, rank_by: str, ties: str, emit: str
) -> None:
    """Stopped and resumed, as the local engine and as the oracle."""
    rows = few_scores(3, 90)
    source = samples.write(tmp_path / "in", samples.split(rows, 3, 1))
    window = {"window": "8 seconds", "slide": "3 seconds", "time": "ts"}
    order: dict[str, Any] = {"rank_by": rank_by, "ties": ties}
    options = {**window, **OPTIONS, **order, "emit": emit}
    leaders = samples.run_and_drain(
        spark, tmp_path, source, by="price", delay="1 second", skew=None, **options
    )
    windows = windows_of(rows, "price", 8, 3, **order)
    monitor = Monitor(TopK(3, last(time="8 seconds", slide="3 seconds"), emit, **order))
    scores = np.array([np.nan if row["price"] is None else row["price"] for row in rows])
    columns = {name: np.array([row[key] for row in rows]) for name, key in COLUMNS.items()}
    local = [*monitor.push(scores, **columns), *monitor.finish()]
    if emit == "all":
        expected = shared(windows, rank_by)
        assert samples.result_rows(leaders) == expected
        assert expected == sorted(
            (w.end, *row)
            for w in local
            for row in zip(w.rank.tolist(), w.score.tolist(), w.id.tolist(), strict=True)
        )
    else:
        assert samples.reports(leaders) == oracle.changes(windows, 3 * SECOND, 1 << 62, rank_by)


def test_keys(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id, id % 2 AS key, struct(id AS a) AS more, "
        "id DIV 4 AS score FROM range(16)"
    )
    options = {"window": "1 minute", "time": "ts", "partition_by": "key", "rank_by": "dense_rank"}
    leaders = top_k(frame, k=2, by="score", id="id", **options).collect()
    assert sorted((row.key, row["rank"], row.id, row.more["a"]) for row in leaders) == [
        (key, rank, id, id)
        for key, rank, ids in [(0, 1, (12, 14)), (0, 2, (8, 10)), (1, 1, (13, 15)), (1, 2, (9, 11))]
        for id in ids
    ]


def test_rows_that_share_a_rank_have_keys_of_their_own(spark: SparkSession) -> None:
    """Kafka may keep one row of each key."""
    frame = spark.sql("SELECT timestamp_seconds(id) AS ts, id, 1.0D AS v FROM range(4)")
    options = {"k": 1, "by": "v", "window": "1 minute", "time": "ts"}
    reshape: Any = kind_of(Sink(format="kafka")).reshape
    keys = [row.key for row in reshape(top_k(frame, rank_by="rank", **options), None).collect()]
    assert len(set(keys)) == len(keys) == 4
    options |= {"k": 4, "window": "1 second", "partition_by": "id % 2", "emit": "changes"}
    three = spark.sql("SELECT timestamp_seconds(id DIV 3) AS ts, id, 1.0D AS v FROM range(6)")
    changes = top_k(three, **options)
    assert changes.filter("change = 'left'").count() > 2
    keys = [row.key for row in reshape(changes, None).collect()]
    assert len(set(keys)) == len(keys)


def test_what_is_refused(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS ts")
    asked = {"k": 1, "window": "1 day", "time": "ts"}
    for by in ({"by": "id"}, {"by": "sum(id)", "key": "id"}):
        with pytest.raises(QueryError, match="rank_by is 'any'"):
            top_k(frame, **by, rank_by="any", **asked)
    with pytest.raises(QueryError, match="algorithm is 'sap' with rank_by='rank'"):
        top_k(frame, k=1, by="id", window=3, time="ts", rank_by="rank", algorithm="sap")


def test_a_checkpoint_knows_how_ranks_count(spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "in", [few_scores(4, 10)])
    rows = samples.stream(spark, str(tmp_path / "in"))
    options = {**OPTIONS, "by": "price", "window": "9 seconds", "time": "ts"}
    plain = top_k(rows, **options)
    assert "rank_by" not in plain.schema["rank"].metadata["skyband"]
    claim(top_k(rows, rank_by="rank", **options), str(tmp_path / "checkpoint"))
    with pytest.raises(QueryError, match="rank_by was 'rank'"):
        claim(plain, str(tmp_path / "checkpoint"))


def test_a_job_is_explained_and_runs(spark: SparkSession, tmp_path: Path, run: Runner) -> None:
    rows = few_scores(6, 120)
    samples.write(tmp_path / "rows", samples.split(rows, 2, 6))
    query = {"k": 3, "by": "price", "time": "ts", "window": "8 seconds", "slide": "3 seconds"}
    content = {
        "source": {"format": "parquet", "path": "rows"},
        "query": {**query, "id": "id", "keep": "id", "rank_by": "dense_rank", "skew": None},
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    explained = run("explain", str(file))
    assert explained.code == 0, explained.err
    assert "as SQL's dense_rank()" in explained.out
    assert "once rows of 3 different scores score more" in explained.out
    ran = run("run", str(file))
    assert ran.code == 0, ran.err
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    windows = windows_of(rows, "price", 8, 3, rank_by="dense_rank")
    assert samples.result_rows(leaders) == shared(windows, "dense_rank")
    content["query"]["rank_by"] = "any"  # type: ignore[index]
    file.write_text(yaml.safe_dump(content))
    assert "query.rank_by is 'any'" in run.fails("run", str(file))


def test_both_engines_print_the_same(
    tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "equal.csv"
    lines = "".join(f"{at // 3},{at * 7 % 3},{at % 2}\n" for at in range(60))
    path.write_text("t,v,p\n" + lines)
    time = ["--time", "t", "--window", 7, "--slide", 3]
    for rank_by, more in [
        ("rank", ["--last", 20, "--slide", 5]),
        ("dense_rank", time),
        ("rank", [*time, "--partition-by", "p", "--emit", "changes", "--ties", "oldest"]),
    ]:
        query = ["top", path, "--k", 3, "--by", "v", *more, "--rank-by", rank_by]
        local = run(*query, "--format", "csv", "--engine", "local")
        assert local.code == 0, local.err
        assert run(*query, "--format", "csv", "--engine", "spark") == local
        with monkeypatch.context() as patch:  # panes are cut to their best rows first
            patch.setattr("skyband.cli.input.stage_parquet.Stage.prune", True)
            assert run(*query, "--format", "csv", "--engine", "spark") == local
