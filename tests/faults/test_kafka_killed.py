"""A job from topic to topic whose driver is killed with -9: nothing is lost, repeats are the same.

``make faults`` kills at every point (``SKYBAND_KILLS`` beyond 1).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.jobs import run_job_until
from tests.faults.test_driver_killed import KILLS
from tests.kafka_trades import board, expected, spread, trades, write_job
from tests.servers import KafkaServer

pytestmark = pytest.mark.spark

POINTS = {
    "a batch began": "checkpoint/offsets/[0-9]*",
    "state was written": "checkpoint/state/*/0/[0-9]*.changelog",
    "records were written": None,  # to the topic
    "a batch was committed": "checkpoint/commits/[0-9]*",
    "a bad record was set aside": "bad/_spark_metadata/[0-9]*",
}


def test_nothing_is_lost(tmp_path: Path, kafka: KafkaServer) -> None:
    kafka.make_topic("killed", 3)
    kafka.make_topic("killed-board", 2, cleanup_policy="compact")
    rows = trades(5, 300)
    kafka.send("killed", [*spread(rows[:200], 3), (0, None, b"{poison"), *spread(rows[200:], 3)])
    options = {
        "kafka.bootstrap.servers": kafka.address,
        "subscribe": "killed",
        "maxOffsetsPerTrigger": 50,
    }
    source = {"format": "kafka", "options": options, "bad_records": "bad"}
    source["json"] = "ts timestamp, id bigint, sector string, price double"
    query = {
        **{"k": 3, "by": "price", "time": "ts", "window": "30 seconds", "slide": "10 seconds"},
        **{"partition_by": "sector", "id": "id", "keep": "id", "delay": "60 seconds"},
    }
    parts = {"source": source, "query": query, "drain": True, "connect": {"kafka": "auto"}}
    write_job(tmp_path, kafka, "killed", **parts)
    points = ["records were written"] if KILLS == 1 else random.Random(3).sample(list(POINTS), 5)
    for point in points:
        passed = counter(tmp_path, kafka, point)
        assert run_job_until(tmp_path, passed, point), f"the job ended too soon: {point}"
    assert not run_job_until(tmp_path, None)
    assert board(kafka, "killed-board") == expected(rows)
    import pyarrow.dataset as ds

    files = [str(file) for file in (tmp_path / "bad").glob("part-*.parquet")]
    values = {row["value"] for row in ds.dataset(files).to_table().to_pylist()}
    assert values == {b"{poison"}


def counter(home: Path, kafka: KafkaServer, point: str) -> Callable[[], int]:
    """A function that counts what was done so far at a point."""
    pattern = POINTS[point]
    if pattern is None:
        return lambda: sum(kafka.ends("killed-board").values())

    def count() -> int:
        try:
            return sum(1 for _ in home.glob(pattern))
        except FileNotFoundError:  # something temporary went while it was looked at
            return 0

    return count
