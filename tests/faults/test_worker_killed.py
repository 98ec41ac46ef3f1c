"""Python workers that die in the middle of a batch: tasks are tried again, answers stay exact."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.spark import pipeline
from skyband.spark.state.processor import WindowProcessor
from tests.faults.trades import (
    SECOND,
    answers,
    cut,
    expected_answers,
    later_than,
    make_trades,
    sink_rows,
    start,
    timed,
    write,
)

pytestmark = pytest.mark.spark
SIZE = 300 * SECOND


def deadly(graves: str) -> type[WindowProcessor]:
    """A processor that kills its own worker at three points, once each.

    It is a local class, so that workers get it by value.
    """

    class Deadly(WindowProcessor):
        def handleInputRows(self, key, rows, timerValues):  # noqa: N802
            die("before anything")
            for row in super().handleInputRows(key, rows, timerValues):
                yield row
                die("between two answers")

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802
            yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)
            die("with a new state and a new timer")

    def die(where: str) -> None:
        try:
            os.close(os.open(f"{graves}/{where}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return Deadly


def test_a_query_outlives_its_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trades = make_trades(seed=3, count=150, jumps=0)
    trades[0]["sector"] = "silent"  # but alive: timers answer its windows
    write(tmp_path / "source", [*cut(trades, parts=3, seed=3), [later_than(trades)]])
    graves = tmp_path / "graves"
    graves.mkdir()
    monkeypatch.setattr(pipeline, "WindowProcessor", deadly(str(graves)))
    leaders = timed(spark, tmp_path / "source", window=f"{SIZE // SECOND} seconds")
    start(leaders, tmp_path).awaitTermination()
    assert len(list(graves.iterdir())) == 3
    assert answers(sink_rows(spark, tmp_path)) == expected_answers(trades, SIZE)
