"""Queries of a workload on Spark in other orders and over other windows: each has its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession

from skyband import TopK, Workload, WorkloadMonitor, all_time, cumulative, last
from skyband.errors import QueryError
from skyband.spark import top_k_workload
from skyband.spark.jobs.sinks import Sink, kind_of
from tests import oracle
from tests.command_line import Runner
from tests.spark import samples
from tests.spark.test_workload import GrowingJob, options_with, run_and_drain

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
SCORES = {"price": 1.0, "-price": -1.0}
SLIDING = last(time="9 seconds", slide="4 seconds", offset="1 second")
DAY = cumulative("30 seconds", every="6 seconds", offset="5 seconds")
EVER = all_time(every="10 seconds")
MIXED = Workload(
    {
        "usual": TopK(4, last(time="20 seconds", slide="5 seconds")),
        "oldest": TopK(3, SLIDING, ties="oldest"),
        "rank": TopK(2, SLIDING, rank_by="rank"),
        "dense": TopK(2, last(time="7 seconds"), ties="oldest", rank_by="dense_rank"),
        "day": TopK(2, DAY),
        "day by rank": TopK(2, DAY, ties="oldest", rank_by="rank"),
        "ever": TopK(3, EVER, rank_by="dense_rank"),
        "lowest ever": TopK(2, EVER, ties="oldest"),
    },
    {name: "-price" if name in ("rank", "day", "lowest ever") else "price" for name in
     ("usual", "oldest", "rank", "dense", "day", "day by rank", "ever", "lowest ever")},
)  # fmt: skip
OLDEST = Workload(
    {"a": TopK(3, SLIDING, ties="oldest"), "b": TopK(2, DAY, ties="oldest")},
    {"a": "price", "b": "-price"},
)


def few_scores(seed: int, count: int) -> Rows:
    """Rows whose scores are few, with odd ones among them."""
    odd = {5: None, 17: float("nan"), 23: -0.0, 29: float("inf"), 31: float("inf")}
    rows = samples.rows(seed, count)
    return [{**row, "price": odd.get(row["seq"], float(row["seq"] * 7 % 5))} for row in rows]


def of_queries(workload: Workload, emit: Any) -> Workload:
    """The same queries, which report otherwise."""
    queries = {name: replace(query, emit=emit) for name, query in workload.queries.items()}
    return Workload(queries, workload.by)


def windows_of(rows: Rows, workload: Workload, name: str) -> list[oracle.Answer]:
    """What the oracle says of a query."""
    query, sign = workload.queries[name], SCORES[workload.by[name]]
    scores = [None if row["price"] is None else sign * row["price"] + 0.0 for row in rows]
    times, window = [row["ts"] for row in rows], query.window
    order = {"ids": [row["id"] for row in rows], "ties": query.ties, "rank_by": query.rank_by}
    if window.kind == "count":
        return oracle.count_windows(scores, window.size, window.slide, query.k, **order)
    if window.kind == "all_time":
        return oracle.all_time_windows(scores, times, window.slide, query.k, **order)
    of_kind = oracle.cumulative_windows if window.kind == "cumulative" else oracle.time_windows
    offset = getattr(window, "offset", 0)
    return of_kind(scores, times, window.size, window.slide, query.k, offset, **order)


def expected_rows(
    rows: Rows, workload: Workload, sectors: bool, since: dict[str, int] | None = None
) -> list[tuple[Any, ...]]:
    """Rows of the oracle: (query, sector, end, rank, score, id)."""
    answers = []
    for sector in sorted({str(row["sector"]) for row in rows}) if sectors else [""]:
        of_sector = [row for row in rows if not sectors or str(row["sector"]) == sector]
        for name, query in workload.queries.items():
            for window in windows_of(of_sector, workload, name):
                if window.start >= (since or {}).get(name, -oracle.FOREVER):
                    ranks = oracle.numbered(window.rows, query.rank_by)
                    answers += [
                        (name, sector, window.end, rank, score, id)
                        for rank, (score, id) in zip(ranks, window.rows, strict=True)
                    ]
    return sorted(answers)


def result_rows(leaders: list[Any], sectors: bool) -> list[tuple[Any, ...]]:
    """Result rows in the layout of :func:`expected_rows`."""
    return sorted(
        (row.query, str(row.sector) if sectors else "", samples.position(row.window.end),
         row["rank"], row.score, row.id)
        for row in leaders
    )  # fmt: skip


def check_changes(leaders: list[Any], rows: Rows, workload: Workload) -> None:
    """What the oracle says has changed, by query and sector."""
    for sector in {str(row["sector"]) for row in rows}:
        of_sector = [row for row in rows if str(row["sector"]) == sector]
        for name, query in workload.queries.items():
            until = None if query.window.kind == "all_time" else 1 << 62
            windows = windows_of(of_sector, workload, name)
            told = [row for row in leaders if row.query == name and str(row.sector) == sector]
            assert samples.reports(told) == oracle.changes(
                windows, query.window.slide, until, query.rank_by
            )


def test_batches(spark: SparkSession, tmp_path: Path) -> None:
    rows = few_scores(1, 150)
    frame = spark.read.parquet(samples.write(tmp_path / "in", samples.split(rows, 2, 1)))
    leaders = top_k_workload(frame, MIXED, **options_with(partition_by="sector")).collect()
    assert result_rows(leaders, True) == expected_rows(rows, MIXED, True)
    starts = {row.window.start is None for row in leaders if "ever" in row.query}
    assert starts == {True}
    assert all(row.window.start is not None for row in leaders if "ever" not in row.query)
    # in a window rows stand in the total order, whatever their ranks
    listed = [
        (row.score, row.id)
        for row in leaders
        if row.query == "day by rank" and str(row.sector) == "b"
    ]
    of_sector = [row for row in rows if row["sector"] == "b"]
    windows = windows_of(of_sector, MIXED, "day by rank")
    assert listed == [row for window in windows for row in window.rows]
    told = of_queries(MIXED, "changes")
    changed = top_k_workload(frame, told, **options_with(partition_by="sector")).collect()
    check_changes(changed, rows, told)
    leaders = top_k_workload(frame, OLDEST, **options_with()).collect()
    assert result_rows(leaders, False) == expected_rows(rows, OLDEST, False)


def test_a_batch_gives_what_the_local_engine_gives(spark: SparkSession, tmp_path: Path) -> None:
    rows = few_scores(2, 120)
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    leaders = top_k_workload(frame, MIXED, **options_with()).collect()
    monitor = WorkloadMonitor(MIXED)
    price = np.array([np.nan if row["price"] is None else row["price"] for row in rows])
    monitor.push(
        {"price": price, "-price": -price},
        ids=[row["id"] for row in rows],
        times=np.array([row["ts"] for row in rows], "datetime64[us]"),
    )
    local = [
        (name, "", window.end, *row)
        for name, window in monitor.finish()
        for row in zip(window.rank.tolist(), window.score.tolist(), window.id.tolist(), strict=True)
    ]
    assert result_rows(leaders, False) == sorted(local)


def test_rows_that_are_counted_and_ticks(spark: SparkSession, tmp_path: Path) -> None:
    rows = few_scores(3, 90)
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    workload = Workload(
        {
            "a": TopK(3, last(count=20, slide=5), ties="oldest"),
            "b": TopK(2, last(count=12, slide=7), rank_by="rank"),
        },
        {"a": "price", "b": "-price"},
    )
    leaders = top_k_workload(frame, workload, sequence="seq", keep="id").collect()
    assert result_rows(leaders, False) == expected_rows(rows, workload, False)
    windows = {"a": cumulative(30, every=6, offset=2), "b": all_time(every=20)}
    ticks = Workload({n: replace(workload.queries[n], window=windows[n]) for n in windows},
                     workload.by)  # fmt: skip
    leaders = top_k_workload(frame, ticks, time="seq", keep="id").collect()
    placed = [{**row, "ts": row["seq"]} for row in rows]
    assert result_rows(leaders, False) == expected_rows(placed, ticks, False)
    assert {row.window.start for row in leaders if row.query == "b"} == {None}


@pytest.mark.parametrize(
    ("workload", "emit"), [(MIXED, "all"), (MIXED, "changes"), (OLDEST, "all")]
)
def test_a_stream_goes_on(
    spark: SparkSession, tmp_path: Path, workload: Workload, emit: str
) -> None:
    """Stopped, and drained by another run."""
    rows = few_scores(4, 110)
    source = samples.write(tmp_path / "in", samples.split(rows, 3, 1))
    asked = of_queries(workload, emit)
    options = options_with(partition_by="sector", delay="1 minute", skew=None)
    leaders = run_and_drain(spark, tmp_path, source, asked, **options)
    if emit == "all":
        assert result_rows(leaders, True) == expected_rows(rows, asked, True)
    else:
        check_changes(leaders, rows, asked)


@pytest.mark.parametrize("open_windows", ["all", "current"])
def test_updates(spark: SparkSession, tmp_path: Path, open_windows: Any) -> None:
    """Final rankings are those of the oracle; the last ranking so far is what came so far."""
    rows = few_scores(5, 60)[:28]  # before the silent stretch
    source = samples.write(tmp_path / "in", [rows[:20], rows[20:]])
    queries = {
        name: replace(query, emit="updates", open_windows=open_windows)
        for name, query in MIXED.queries.items()
    }
    workload = Workload(queries, MIXED.by)
    options = options_with(delay="1 hour", skew=None)
    leaders = run_and_drain(spark, tmp_path, source, workload, **options)
    final = [row for row in leaders if row.final]
    assert result_rows(final, False) == expected_rows(rows, workload, False)
    monitor = WorkloadMonitor(workload)
    shown = set()
    for part in (rows[:20], rows[20:]):
        price = np.array([np.nan if row["price"] is None else row["price"] for row in part])
        pushed = monitor.push(
            {"price": price, "-price": -price},
            ids=[row["id"] for row in part],
            times=np.array([row["ts"] for row in part], "datetime64[us]"),
        )
        shown |= {
            (name, "", window.end, *row)
            for name, window in pushed
            if not window.final
            for row in zip(
                window.rank.tolist(), window.score.tolist(), window.id.tolist(), strict=True
            )
        }
    assert set(result_rows([row for row in leaders if not row.final], False)) == shown


def test_queries_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """A job keeps what its panes hold: enough for fewer ways to rank, not for more."""
    rows = few_scores(6, 160)
    job = GrowingJob(spark, tmp_path, **options_with(delay="1 second", partition_by="sector"))
    names = ("rank", "oldest", "ever", "usual")
    queries = {name: MIXED.queries[name] for name in names}
    queries["ever"] = replace(queries["ever"], rank_by="row_number")
    first = Workload(queries, {name: MIXED.by[name] for name in names})
    job.run(first, rows[:70])
    dense = {**queries, "dense": MIXED.queries["dense"]}
    more = Workload(dense, {**first.by, "dense": "price"})
    with pytest.raises(QueryError, match="rank_by='dense_rank' among them join a job"):
        job.leaders(more)
    ever = {**queries, "lowest ever": MIXED.queries["lowest ever"]}
    more = Workload(ever, {**first.by, "lowest ever": "-price"})
    with pytest.raises(QueryError, match="'lowest ever' over all time, every 10 seconds joins"):
        job.leaders(more)
    added = {"day": MIXED.queries["day"], "young": replace(MIXED.queries["oldest"], k=9)}
    stay = {n: first.queries[n] for n in ("oldest", "ever", "usual")}
    second = Workload(
        {**stay, **added}, {**{n: first.by[n] for n in stay}, "day": "-price", "young": "-price"}
    )
    job.run(second, rows[70:])
    since = {name: position for name, position in job.since().items() if position is not None}
    assert set(since) == {"day", "young"}
    changed = {**second.queries, "ever": replace(second.queries["ever"], ties="oldest")}
    other = Workload(changed, second.by)
    with pytest.raises(QueryError, match=r"query 'ever'.*a name of its own"):
        job.go(other)
    answers = result_rows(job.drained(second), True)
    assert [row for row in answers if row[0] != "rank"] == expected_rows(rows, second, True, since)


def test_rows_that_share_a_rank_have_keys_of_their_own(spark: SparkSession) -> None:
    """Kafka may keep one row of each key."""
    frame = spark.sql("SELECT timestamp_seconds(id) AS ts, id, 1.0D AS v FROM range(4)")
    workload = Workload({"a": TopK(1, last(time="1 minute"), rank_by="rank")}, {"a": "v"})
    reshape: Any = kind_of(Sink(format="kafka")).reshape
    leaders = top_k_workload(frame, workload, time="ts")
    keys = [row.key for row in reshape(leaders, None).collect()]
    assert len(set(keys)) == len(keys) == 4


def test_a_job_is_explained_and_runs(
    spark: SparkSession, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run = Runner(capsys, monkeypatch)
    rows = few_scores(7, 90)
    samples.write(tmp_path / "rows", samples.split(rows, 2, 6))
    queries = [
        {"name": "oldest", "k": 3, "window": "9 seconds", "slide": "4 seconds",
         "offset": "1 second", "ties": "oldest"},
        {"name": "day", "k": 2, "cumulative": "30 seconds", "every": "6 seconds",
         "offset": "5 seconds", "by": "-price"},
        {"name": "ever", "k": 3, "window": {"all_time": True, "every": "10 seconds"},
         "rank_by": "dense_rank"},
    ]  # fmt: skip
    query = {"by": "price", "time": "ts", "id": "id", "keep": "id", "skew": None}
    content = {
        "source": {"format": "parquet", "path": "rows"},
        "query": {**query, "delay": "1 minute", "workload": queries},
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    explained = run("explain", str(file))
    assert explained.code == 0, explained.err
    text = " ".join(explained.out.split())
    assert "each 30 seconds so far, all time, steps of 6 seconds to 10 seconds" in text
    assert "the minimal candidate set of each query" in text
    assert "two aggregations, with the largest k of 3" in text
    assert "the rows of the 3 best scores of each pane" in text
    ran = run("run", str(file))
    assert ran.code == 0, ran.err
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    names = ("oldest", "day", "ever")
    asked = Workload({n: MIXED.queries[n] for n in names}, {n: MIXED.by[n] for n in names})
    assert result_rows(leaders, False) == expected_rows(rows, asked, False)
    queries[0]["ties"] = "first"
    file.write_text(yaml.safe_dump(content))
    assert "query 'oldest': ties is 'first'" in run.fails("run", str(file))
