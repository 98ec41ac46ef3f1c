"""A crash after the sink was written and before the batch was committed: the batch comes again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.faults.trades import (
    answers,
    cut,
    expected_answers,
    later_than,
    make_trades,
    overwriting,
    sink_rows,
    start,
    timed,
    write,
)

pytestmark = pytest.mark.spark


def appending(directory):
    """The sink that must not be used: it does not know a batch that it has seen."""

    def write_batch(batch, number):
        batch.write.mode("append").parquet(str(directory))

    return write_batch


def crashing(sink, at):
    """A sink that writes, and then crashes the first time it meets these batches."""

    def write_batch(batch, number):
        sink(batch, number)
        if number in at:
            at.remove(number)
            raise RuntimeError(f"power cut after batch {number} was written")

    return write_batch


def test_only_a_sink_that_overwrites_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    trades = make_trades(seed=5, count=150)
    write(tmp_path / "source", [*cut(trades, parts=2, seed=5), [later_than(trades)]])
    sinks = {name: tmp_path / name for name in ("overwriting", "appending")}
    crashes = {"overwriting": [1, 3], "appending": [3]}
    for name, sink in {"overwriting": overwriting, "appending": appending}.items():
        here = sinks[name]
        power_cut = crashing(sink(here / "out"), list(crashes[name]))
        for _ in crashes[name]:
            query = start(timed(spark, tmp_path / "source"), here, power_cut)
            with pytest.raises(StreamingQueryException, match="power cut after batch"):
                query.awaitTermination()
        start(timed(spark, tmp_path / "source"), here, power_cut).awaitTermination()
    expected = expected_answers(trades)
    assert answers(sink_rows(spark, sinks["overwriting"])) == expected
    twice = Counter(answers(sink_rows(spark, sinks["appending"])))
    assert set(twice) == set(expected)
    assert max(twice.values()) == 2, "an appending sink repeats a batch: this check would see it"
