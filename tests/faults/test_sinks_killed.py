"""A driver killed with -9 before, inside and after its writes: nothing is lost, nothing doubled.

``make faults`` kills at every point of every sink, five times each (``SKYBAND_KILLS`` beyond 1).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pytest

from tests import servers
from tests.faults.test_driver_killed import KILLS, MOST_SECONDS, ROOT
from tests.faults.trades import cut, expected_answers, make_trades, micros, write

pytestmark = pytest.mark.spark

SPARE = 8  # batches: some rank nothing, and have no inside
POINTS = ("inside", "after", "before")
SINKS = ("postgres", "redis", "delta")
FIRST = [("postgres", "inside"), ("redis", "after"), ("delta", "inside")]
REST = [(sink, point) for point in POINTS for sink in SINKS if (sink, point) not in FIRST]


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    trades = make_trades(seed=11, count=200)
    deaths = [*FIRST, *([*REST, *FIRST, *REST[:3]] if KILLS > 1 else [])]
    write(tmp_path / "source", cut(trades, parts=len(deaths) + SPARE, seed=11))
    redis = servers.RedisServer(tmp_path)
    redis.start()
    try:
        with servers.postgres_folder() as folder, servers.postgres(folder) as url:
            for batch, death in enumerate(deaths, start=1):
                assert run(tmp_path, url, redis.url, *death, str(batch)) == -9, death
            assert run(tmp_path, url, redis.url) == 0
            assert (tmp_path / "done").exists()
            expected = expected_answers(trades)
            assert in_postgres(url) == expected
        assert in_delta(tmp_path / "table") == expected
        last = max(end for _, end, *_ in expected)
        newest = [answer for answer in expected if answer[1] == last]
        assert in_redis(redis, last) == newest
        assert replayed(redis) == {(sector, id): rank for sector, _, rank, _, id in newest}
    finally:
        redis.stop()


def run(home: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "tests.faults.sinks_driver", str(home), *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ, timeout=MOST_SECONDS).returncode


def in_postgres(url: str) -> list[tuple[Any, ...]]:
    text = "SELECT sector, window_end, rank, score, id FROM killed"
    with psycopg.connect(url) as connection:
        rows = connection.execute(text).fetchall()
    return sorted((sector or "", micros(end), *others) for sector, end, *others in rows)


def in_delta(path: Path) -> list[tuple[Any, ...]]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(
        (row["sector"] or "", micros(row["window_end"]), row["rank"], row["score"], row["id"])
        for row in rows
    )


def sector_of(board: str) -> str:
    return board.removeprefix("killed:").replace("(null)", "")


def in_redis(server: servers.RedisServer, end: int) -> list[tuple[Any, ...]]:
    client = server.client()
    boards = {
        name: [json.loads(row) for row in client.hgetall(f"{name}:rows").values()]
        for name in client.zrange("killed#boards", 0, -1)
    }
    return sorted(
        (sector_of(name), end, row["rank"], float(row["score"]), int(row["id"]))
        for name, rows in boards.items()
        for row in rows
    )


def replayed(server: servers.RedisServer) -> dict[tuple[str, int], int]:
    """What the streams of changes lead to."""
    client = server.client()
    ranks: dict[tuple[str, int], int] = {}
    for key in client.scan_iter("killed:*:changes"):
        sector = sector_of(key.removesuffix(":changes"))
        for _, entry in client.xrange(key):
            place = sector, int(entry["name"])
            if entry["change"] == "left":
                assert ranks.pop(place) == int(entry["previous_rank"])
            else:
                assert (place in ranks) == (entry["change"] == "moved")
                ranks[place] = int(entry["rank"])
    return ranks
