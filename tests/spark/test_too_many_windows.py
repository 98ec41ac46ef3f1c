"""Rows that complete more windows than can ever be answered are refused, whatever the family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType

from skyband import DataError, TopK, TopKIncomplete, Workload, WorkloadMonitor, last
from skyband.query import TIES, Ties
from skyband.spark import top_k, top_k_incomplete
from skyband.spark.axis import FOREVER, PaneGrid, TimeAxis, WatermarkProgress
from skyband.spark.families.incomplete.engine import IncompleteEngine
from skyband.spark.families.totals.blocks import arrow_bytes
from skyband.spark.families.totals.state import TotalsSpec
from skyband.spark.families.totals.sums import PartialSums
from skyband.spark.families.workload.last_rankings import WorkerQuery
from skyband.spark.families.workload.state import BestRows, WorkloadPane, WorkloadSpec
from skyband.spark.state.batch import Piece, few_windows
from skyband.spark.state.shard import ShardPane, ShardSpec, synthetic_times
from skyband.totals.query import TopKTotals
from skyband.windows import MOST_WINDOWS, over_ticks

HALF = MOST_WINDOWS // 2
"""How many windows a row is in: three rows that are far apart are in too many."""

STEPS = (1, 2 * HALF, 6 * HALF)
TOO_MANY = "completes 150,000,000 windows"
AXIS = TimeAxis("ts", 0)
GRID = PaneGrid(HALF, 1)


def shards(emit: Any = "all") -> ShardSpec:
    query = TopKIncomplete(1, ("a", "b"), synthetic_times(HALF, 1), emit=emit)
    engine = IncompleteEngine(query, "recompute", None)
    return ShardSpec(("shard",), AXIS, GRID, engine, (LongType(),), ("stream", "value"), False)


def shard_pane(step: int) -> ShardPane:
    columns: list[Any] = [np.array([0], np.int64), np.array([1.0])]
    return ShardPane(2 * step, np.array([step - 1]), [], [np.array([7])], columns)


def totals() -> TotalsSpec:
    sums = PartialSums("rows", "count", (LongType(),))
    query = TopKTotals(1, "count", over_ticks(HALF, 1))
    return TotalsSpec(("shard",), AXIS, GRID, query, sums, DoubleType(), False, "too many")


def block(spec: TotalsSpec, step: int) -> bytes:
    schema = spec.sums.arrow
    values: dict[str, list[Any]] = {name: [1] for name in schema.names}
    values[schema.names[0]] = [step - 1]
    return arrow_bytes(pa.RecordBatch.from_pydict(values, schema))


@pytest.mark.parametrize("emit", ["all", "changes"])
def test_a_stream_in_shards(emit: str) -> None:
    state = shards(emit).open(None, None)
    panes = [shard_pane(step) for step in reversed(STEPS)]
    with pytest.raises(DataError, match=TOO_MANY):
        next(state.run(panes, WatermarkProgress(FOREVER, True)))
    with pytest.raises(DataError, match="completes 100,000,001 windows"):
        next(state.run(panes, WatermarkProgress(STEPS[2], False)))


def test_a_shard_counts_what_it_has_not_answered_yet() -> None:
    spec = shards()
    state = spec.open(None, None)
    assert len(list(state.run([shard_pane(1)], WatermarkProgress(1, False)))) == 1
    again = spec.open(None, state.save())
    with pytest.raises(DataError, match="completes 149,999,999 windows"):
        again.run([shard_pane(step) for step in STEPS[1:]], WatermarkProgress(FOREVER, True))
    again.run([shard_pane(STEPS[1])], WatermarkProgress(FOREVER, True))  # 99,999,999 are few


def test_a_batch_in_shards() -> None:
    columns = [[2 * step for step in STEPS], [0, 1, 2], [7, 7, 7], [0, 0, 0], [1.0, 1.0, 1.0]]
    pieces = iter([Piece((), [pa.array(column) for column in columns])])
    with pytest.raises(DataError, match=TOO_MANY):
        next(shards().answer_all(pieces))


def test_a_stream_of_totals() -> None:
    spec = totals()
    panes = [(2 * step, [block(spec, step)]) for step in STEPS]
    state = spec.open((0,), None, {})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=TOO_MANY):
        next(state.run(panes, WatermarkProgress(FOREVER, True)))
    with pytest.raises(DataError, match="completes 100,000,001 windows"):
        next(state.run(panes, WatermarkProgress(STEPS[2], False)))
    assert len(list(state.run(panes[:1], WatermarkProgress(1, False)))) == 1
    with pytest.raises(DataError, match="completes 149,999,999 windows"):
        next(state.run(panes[1:], WatermarkProgress(FOREVER, True)))


def test_a_batch_of_totals() -> None:
    spec = totals()
    columns = [[2 * step for step in STEPS], [[block(spec, step)] for step in STEPS]]
    with pytest.raises(DataError, match=TOO_MANY):
        next(spec.answer_all(iter([Piece((), columns)])))


def test_pieces_of_a_batch_are_counted_together() -> None:
    one_by_one = (Piece((), [[2 * step]]) for step in STEPS)
    counted = few_windows(one_by_one, GRID)
    assert [next(counted).columns, next(counted).columns] == [[[2]], [[2 * STEPS[1]]]]
    with pytest.raises(DataError, match=TOO_MANY):
        next(counted)
    same_pane = (Piece((), [[2, 2, 4]]) for _ in range(5))
    assert len(list(few_windows(same_pane, GRID))) == 5


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("ties", TIES)
def test_a_stream_of_a_workload(changes: bool, ties: Ties) -> None:
    query = WorkerQuery("q", TopK(1, over_ticks(HALF, 1), ties=ties), 0, None)
    spec = WorkloadSpec(("key_0",), AXIS, GRID, (query,), 1, (), changes)
    panes = [WorkloadPane([BestRows(step - 1, [1.0], [])], -FOREVER) for step in STEPS]
    with pytest.raises(DataError, match=TOO_MANY):
        next(spec.open(None, None).run(panes, WatermarkProgress(FOREVER, True)))


@pytest.mark.parametrize("algorithm", ["independent", "mtopmerge"])
def test_a_workload_locally(algorithm: str) -> None:
    queries = {name: TopK(1, last(time=2_000_000, slide=1)) for name in ("a", "b")}
    monitor = WorkloadMonitor(Workload(queries), algorithm)
    times = np.arange(60) * 10_000_000
    with pytest.raises(DataError, match=r"windows"):
        monitor.push(np.ones(60), times=times, watermark=600_000_000)


def test_batches_on_spark(spark: SparkSession) -> None:
    """Windows of a minute, each microsecond, of one object over days: they would never end."""
    seconds = "timestamp_seconds(id * 86400) AS ts"
    rows = spark.range(3).selectExpr(seconds, "'a' AS stream", "0.5D AS value", "7L AS id")
    window = {"time": "ts", "window": "1 minute", "slide": "1 microsecond", "skew": None}
    counts = top_k(rows, k=1, by="count(*)", key="id", **window)
    objects = top_k_incomplete(
        rows, k=1, id="id", stream="stream", value="value", streams=["a", "b"], **window
    )
    for answers in (counts, objects):
        with pytest.raises(PySparkException, match="a batch that completes 180,000,000 windows"):
            answers.collect()
