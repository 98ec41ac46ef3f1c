"""Equal totals on Spark, ordered and ranked as a query says: batch = stream = local = oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skyband import TopKTotals, TotalsMonitor, last
from skyband.errors import QueryError
from skyband.spark import claim, top_k
from skyband.spark.jobs.file import load, words
from tests import oracle
from tests.command_line import Runner
from tests.oracle_totals import time_totals
from tests.spark import samples
from tests.spark.samples import SECOND
from tests.test_totals_order import NEW_ORDERS

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
OPTIONS: dict[str, Any] = {
    "k": 2,
    "key": "id",
    "time": "ts",
    "window": "8 seconds",
    "slide": "3 seconds",
    "skew": None,
}


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def equal_rows(seed: int, count: int) -> Rows:
    """Few keys with few values, so that totals are often equal; some of them are NULL or NaN."""
    odd = {5: None, 17: float("nan"), 23: -0.0}
    return [
        {**row, "id": row["id"] % 9, "price": odd.get(row["seq"], float(row["seq"] % 2))}
        for row in samples.rows(seed, count)
    ]


def windows_of(rows: Rows, by: str, **order: Any) -> list[oracle.Answer]:
    return time_totals(
        [row["id"] for row in rows],
        [float("nan") if row["price"] is None else row["price"] + 0.0 for row in rows],
        [row["ts"] for row in rows],
        8 * SECOND,
        3 * SECOND,
        by,
        2,
        **order,
    )


def listed(windows: list[oracle.Answer], rank_by: str) -> dict[int, list[tuple[Any, ...]]]:
    """Rank, score and id of the rows of each window, as they stand."""
    return {
        window.end: [
            (rank, *row)
            for rank, row in zip(oracle.numbered(window.rows, rank_by), window.rows, strict=True)
        ]
        for window in windows
        if window.rows
    }


def as_they_stand(leaders: list[Any]) -> dict[int, list[tuple[Any, ...]]]:
    """The rows of each window in the order in which Spark gives them."""
    windows: dict[int, list[tuple[Any, ...]]] = {}
    for row in leaders:
        rows = windows.setdefault(samples.position(row.window.end), [])
        rows.append((row["rank"], row.score, row.id))
    return windows


@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
def test_batches(spark: SparkSession, tmp_path: Path, ties: str, rank_by: str) -> None:
    rows = equal_rows(1, 120)
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows[:60], rows[60:]]))
    order: dict[str, Any] = {"ties": ties, "rank_by": rank_by}
    for by, shards in (("sum", 1), ("count", 3), ("last", 3)):
        leaders = top_k(frame, by=f"{by}(price)", shards=shards, **OPTIONS, **order)
        assert as_they_stand(leaders.collect()) == listed(windows_of(rows, by, **order), rank_by)
    wanted = oracle.changes(windows_of(rows, "sum", **order), 3 * SECOND, 1 << 62, rank_by)
    changed = top_k(frame, by="sum(price)", shards=3, emit="changes", **OPTIONS, **order)
    assert samples.reports(changed.collect()) == wanted


def test_exact_numbers_of_each_partition_and_what_they_carry(spark: SparkSession) -> None:
    """Decimals that a double would round are different totals; totals beside them stay theirs."""
    large = "CAST(12345678901234567 AS DECIMAL(17, 0))"
    frame = spark.sql(
        f"SELECT timestamp_seconds(id) AS ts, id % 2 AS side, concat('k', id DIV 2 % 3) AS name, "
        f"CAST({large} + IF(id DIV 2 % 3 = 0, 1, 0) AS DECIMAL(17, 0)) AS v FROM range(12)"
    )
    leaders = top_k(
        frame,
        k=2,
        by="max(v)",
        key="name",
        partition_by="side",
        also={"n": "count(*)", "all": F.sum("v")},
        time="ts",
        window="1 minute",
        ties="oldest",
        rank_by="dense_rank",
    )
    rows = [(r.side, r["rank"], r.name, int(r.score) % 10, r.n, int(r.all) % 10) for r in
            leaders.collect()]  # fmt: skip
    assert sorted(rows) == [
        (side, rank, name, digit, 2, 2 * digit % 10)
        for side in (0, 1)
        for rank, name, digit in ((1, "k0", 8), (2, "k1", 7), (2, "k2", 7))
    ]
    assert [name for side, _, name, *_ in rows if side == 0] == ["k0", "k1", "k2"]


@pytest.mark.parametrize(
    ("emit", "ties", "rank_by"),
    [
        ("all", "oldest", "row_number"),
        ("all", "newest", "rank"),
        ("changes", "oldest", "dense_rank"),
    ],
)
def test_a_stream_goes_on(
    spark: SparkSession, tmp_path: Path, emit: Any, ties: Any, rank_by: Any
) -> None:
    """Stopped and resumed, as the local engine and as the oracle."""
    rows = equal_rows(3, 90)
    source = samples.write(tmp_path / "in", samples.split(rows, 3, 1))
    order: dict[str, Any] = {"ties": ties, "rank_by": rank_by}
    options = {**OPTIONS, **order, "by": "sum(price)", "emit": emit, "shards": 2}
    leaders = samples.run_and_drain(spark, tmp_path, source, delay="1 second", **options)
    expected = windows_of(rows, "sum", **order)
    query = TopKTotals(2, "sum", last(time="8 seconds", slide="3 seconds"), emit, **order)
    monitor = TotalsMonitor(query)
    columns = [np.array([row[name] for row in rows], type) for name, type in
               (("id", np.int64), ("price", np.float64), ("ts", np.int64))]  # fmt: skip
    local = [*monitor.push(columns[0], columns[1], times=columns[2]), *monitor.finish()]
    if emit == "changes":
        reports = oracle.changes(expected, 3 * SECOND, 1 << 62, rank_by)
        assert samples.reports(leaders) == reports
        ranks = [(w.end, {i: (r, p) for i, r, p in zip(w.id.tolist(), w.rank.tolist(),
                  w.previous_rank.tolist(), strict=True)})
                 for w in local if w.previous_rank is not None and len(w)]  # fmt: skip
        assert ranks == reports
        return
    assert as_they_stand(leaders) == listed(expected, rank_by)
    assert listed(expected, rank_by) == {
        w.end: list(zip(w.rank.tolist(), w.score.tolist(), w.id.tolist(), strict=True))
        for w in local
        if len(w)
    }


def test_a_checkpoint_knows_the_order(spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "in", [equal_rows(4, 10)])
    rows = samples.stream(spark, str(tmp_path / "in"))
    options = {**OPTIONS, "by": "sum(price)"}
    plain = top_k(rows, **options)
    assert not {"ties", "rank_by"} & set(plain.schema["rank"].metadata["skyband"])
    claim(top_k(rows, ties="oldest", rank_by="rank", **options), str(tmp_path / "checkpoint"))
    with pytest.raises(QueryError, match=r"ties was 'oldest'|rank_by was 'rank'"):
        claim(plain, str(tmp_path / "checkpoint"))


def test_a_job_is_explained_and_runs(spark: SparkSession, tmp_path: Path, run: Runner) -> None:
    rows = equal_rows(6, 120)
    samples.write(tmp_path / "rows", samples.split(rows, 2, 6))
    order: dict[str, Any] = {"ties": "oldest", "rank_by": "dense_rank"}
    content: dict[str, Any] = {
        "source": {"format": "parquet", "path": "rows"},
        "query": {**OPTIONS, "by": "sum(price)", **order},
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    assert "of equal totals the oldest first, ranked by dense_rank" in words(load(file))
    explained = run("explain", str(file))
    assert explained.code == 0, explained.err
    assert "as SQL's dense_rank(): each id of equal totals shares one" in explained.out
    assert "then older ts, then lower id" in explained.out
    assert "all of the 2 best ranks of each shard, merged" in explained.out
    ran = run("run", str(file))
    assert ran.code == 0, ran.err
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    assert as_they_stand(leaders) == listed(windows_of(rows, "sum", **order), "dense_rank")
    for name in order:
        wrong = {**content, "query": {**content["query"], name: "any"}}
        file.write_text(yaml.safe_dump(wrong))
        assert f"query.{name} is 'any'" in run.fails("run", str(file))


def test_both_engines_print_the_same(tmp_path: Path, run: Runner) -> None:
    path = tmp_path / "equal.csv"
    lines = "".join(f"{at // 3},{at * 7 % 3},{at % 2},c{at * 5 % 7}\n" for at in range(60))
    path.write_text("t,v,p,client\n" + lines)
    time = ["--time", "t", "--window", 7, "--slide", 3]
    for order, more in [
        (["--ties", "oldest"], time),
        (["--rank-by", "rank"], ["--last", 20, "--slide", 5]),
        (["--rank-by", "dense_rank", "--ties", "oldest"], [*time, "--also", "n=count(*)"]),
        (["--rank-by", "rank"], [*time, "--partition-by", "p", "--emit", "changes"]),
    ]:
        query = ["totals", path, "--key", "client", "--k", 2, "--by", "sum(v)", *more, *order]
        local = run(*query, "--format", "csv", "--engine", "local")
        assert local.code == 0, local.err
        assert len(local.rows) > 10
        assert run(*query, "--format", "csv", "--engine", "spark") == local
