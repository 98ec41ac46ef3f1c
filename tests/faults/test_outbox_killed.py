"""A job of several sinks whose driver is killed with -9: each sink has every row once.

``make faults`` kills at every point (``SKYBAND_KILLS`` beyond 1).
"""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pytest
import yaml

from tests import servers
from tests.faults.jobs import largest_number, run_job_until
from tests.faults.test_driver_killed import KILLS
from tests.faults.test_sinks_killed import in_delta
from tests.faults.trades import (
    SCHEMA,
    TIMED,
    cut,
    expected_answers,
    make_trades,
    micros,
    write,
)

pytestmark = pytest.mark.spark

POINTS = {
    "PostgreSQL has a batch": "checkpoint/skyband/sinks/postgres/*",
    "a batch is in the outbox": "checkpoint/skyband/outbox/batch=*",
    "Delta has a batch": "checkpoint/skyband/sinks/delta/*",
    "a batch was committed": "checkpoint/commits/[0-9]*",
    "files have a batch": "checkpoint/skyband/sinks/archive/*",
}


def test_each_sink_has_every_row_once(tmp_path: Path) -> None:
    trades = make_trades(seed=13, count=200)
    points = list(POINTS)[: 1 if KILLS == 1 else None]
    write(tmp_path / "source", cut(trades, parts=len(points) + 4, seed=13))
    with servers.postgres_folder() as folder, servers.postgres(folder) as url:
        job = {
            "source": {
                "format": "parquet",
                "path": "source",
                "schema": SCHEMA,
                "options": {"maxFilesPerTrigger": 1},
            },
            "query": TIMED,
            "sinks": [
                {"format": "postgres", "options": {"url": url, "table": "board", "name": "q"}},
                {"format": "delta", "path": "table"},
                {"name": "archive", "format": "parquet", "path": "archive"},
            ],
            "checkpoint": "checkpoint",
            "drain": True,
            "session": {"shuffle_partitions": 1},
        }
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        for point in points:
            passed = largest_number(tmp_path, POINTS[point])
            assert run_job_until(tmp_path, passed, point), f"the job ended too soon: {point}"
        assert not run_job_until(tmp_path, None)
        expected = expected_answers(trades)
        text = "SELECT sector, window_end, rank, score, id FROM board"
        with psycopg.connect(url) as connection:
            rows = connection.execute(text).fetchall()
    assert sorted((key or "", micros(end), *more) for key, end, *more in rows) == expected
    assert in_delta(tmp_path / "table") == expected
    archived = ds.dataset(tmp_path / "archive", partitioning="hive").to_table().to_pylist()
    assert expected == sorted(
        (row["sector"] or "", micros(row["window"]["end"]), row["rank"], row["score"], row["id"])
        for row in archived
    )
