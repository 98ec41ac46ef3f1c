"""A file ranked by a workload on Spark: the same windows as the local engine's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from skyband import TopK, Workload, WorkloadMonitor, all_time, cumulative, last
from skyband.query import RANK_BYS, TIES
from skyband.spark.families.workload.file import WorkloadFile
from skyband.spark.files import Staged, rank_staged

pytestmark = pytest.mark.spark


def some_queries(counted: bool, emit: Any = "all", orders: Any = ()) -> Workload:
    """Queries over windows that slide, or, with other orders, over all kinds of windows."""
    chance = random.Random(3)
    queries = {}
    for number in range(20):
        size = chance.randint(1, 90)
        slide = chance.randint(1, size)
        window = (
            last(count=size, slide=slide, full=number % 3 == 0)
            if counted
            else last(time=size, slide=slide, offset=chance.randint(-5, 5))
        )
        order: dict[str, Any] = {}
        if orders:
            order["ties"], order["rank_by"] = orders[number % len(orders)]
            if not counted and number % 3 == 1:
                window = cumulative(slide * 4, every=slide, offset=-3)
            if not counted and number % 6 == 2:
                window = all_time(every=slide)
        queries[f"q{number}"] = TopK(chance.choice([1, 3, 8]), window, emit, **order)
    return Workload(queries)


def staged(home: Path, place: Any, score: Any, prune: bool, ends: bool) -> Staged:
    """Files as the command line writes them: what cannot be ranked is left out."""
    row, known = np.arange(len(score)), ~np.isnan(score)

    def write(name: str, *columns: Any) -> Path:
        names = ["key", "place", "row", "score"]
        arrays = [pa.array(np.asarray(column)) for column in columns]
        parquet.write_table(pa.table(dict(zip(names, arrays, strict=True))), home / name)
        return home / name

    key = np.zeros(len(score), np.int64)
    rows = write("rows.parquet", key[known], place[known], row[known], score[known])
    if not ends:
        return Staged(rows, None, prune)
    return Staged(
        rows, write("ends.parquet", [0], [len(score) - 1], [1 << 62], [float("nan")]), prune
    )


def previous(window: Any) -> Any:
    """Previous ranks, of changes."""
    return None if window.previous_rank is None else window.previous_rank.tolist()


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_windows_are_those_of_the_local_engine(
    spark: SparkSession, tmp_path: Path, counted: bool, prune: bool, emit: str
) -> None:
    compare(spark, tmp_path, some_queries(counted, emit), prune)


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize(
    ("emit", "counted", "orders"),
    [
        ("all", False, [("oldest", "row_number")]),
        ("all", True, [("oldest", "rank"), ("newest", "row_number")]),
        ("changes", False, [(ties, rank_by) for ties in TIES for rank_by in RANK_BYS]),
    ],
)
def test_other_orders_and_kinds_of_windows(
    spark: SparkSession, tmp_path: Path, emit: str, counted: bool, orders: Any, prune: bool
) -> None:
    compare(spark, tmp_path, some_queries(counted, emit, orders), prune)


def compare(spark: SparkSession, tmp_path: Path, workload: Workload, prune: bool) -> None:
    """Rank the same rows here and on Spark."""
    counted = workload.counted
    chance = np.random.default_rng(5)
    score = chance.choice([np.nan, 1.0, 2.0, 3.0, 5.0, np.inf], 700)
    at = np.cumsum(chance.choice([0, 0, 1, 2, 200], 700, p=[0.3, 0.2, 0.3, 0.19, 0.01])) - 50
    monitor = WorkloadMonitor(workload)
    if counted:
        local = [monitor.push(score)]
        files = staged(tmp_path, np.arange(700), score, prune, ends=True)
    else:
        monitor.push(score, ids=np.arange(700), times=at)
        local = [monitor.finish()]
        files = staged(tmp_path, at, score, prune, ends=False)
    names = list(workload)
    locally = [
        (name, w.start, w.end, w.score.tolist(), w.id.tolist(), w.rank.tolist(), previous(w))
        for part in local
        for name, w in part
        if len(w)
    ]
    on_spark = [
        (
            names[query],
            w.start,
            w.end,
            w.score.tolist(),
            w.id.tolist(),
            w.rank.tolist(),
            previous(w),
        )
        for queries, ranked in rank_staged(spark, files, WorkloadFile(workload), tmp_path / "out")
        for query, w in zip(queries.tolist(), ranked, strict=True)
    ]
    assert on_spark == locally
