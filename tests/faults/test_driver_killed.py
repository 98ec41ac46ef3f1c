"""The whole driver, Java and all, killed with -9 again and again at chosen points of progress.

Each kill meets both queries: the one whose progress is watched, and the other wherever it is.
``make faults`` kills at every point, and at one of them again (``SKYBAND_KILLS=5``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.faults.driver import QUERIES
from tests.faults.trades import (
    answers,
    cut,
    expected_answers,
    expected_reports,
    make_trades,
    reports,
    write,
)

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]

POINTS = {
    "a batch began": "checkpoint/offsets/[0-9]*",
    "state was written": "checkpoint/state/*/0/[0-9]*.changelog",
    "rows were written": "out/**/part-*.parquet",
    "a batch was committed": "checkpoint/commits/[0-9]*",
}
KILLS = int(os.environ.get("SKYBAND_KILLS", "1"))  # at points of each query
MOST_SECONDS = 240  # for one run, far more than it takes


def test_nothing_is_lost_or_answered_twice(spark: SparkSession, tmp_path: Path) -> None:
    trades = make_trades(seed=7, count=200)
    write(tmp_path / "source", cut(trades, parts=5 + KILLS, seed=7))
    for name in QUERIES:
        names = sorted(QUERIES, key=lambda other: other != name)  # the one that is watched first
        in_turn = random.Random(name).sample(list(POINTS), len(POINTS))
        for point in itertools.islice(itertools.cycle(in_turn), KILLS):
            assert run_until(tmp_path, names, point), f"{name} ended too soon: {point}"
    assert not run_until(tmp_path, list(QUERIES), None)
    assert (tmp_path / "done").read_text() == "timed counted"
    leaders = spark.read.parquet(str(tmp_path / "timed/out")).collect()
    assert answers(leaders) == expected_answers(trades)
    leaders = spark.read.parquet(str(tmp_path / "counted/out")).collect()
    assert reports(leaders) == expected_reports(trades)


def run_until(home: Path, names: list[str], point: str | None) -> bool:
    """Run queries until the first has passed a point once more, and kill all, unless they ended."""

    def passed() -> int:
        if point is None:
            return 0
        try:
            return sum(1 for _ in (home / names[0]).glob(POINTS[point]))
        except FileNotFoundError:  # something temporary went while it was looked at
            return before

    before = 0
    before = passed()
    (home / "scratch").mkdir(exist_ok=True)
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.driver", str(home), *names],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(home / "scratch")},
        start_new_session=True,
    )
    try:
        for _ in range(MOST_SECONDS * 100):
            try:
                assert driver.wait(0.01) == 0, (home / "spark.log").read_text()[-3000:]
                return False
            except subprocess.TimeoutExpired:
                if passed() > before:
                    return True
        raise AssertionError(f"{names} did not come to {point!r} in {MOST_SECONDS} s")
    finally:
        end(driver)


def end(driver: subprocess.Popen[bytes]) -> None:
    """Kill a driver and its Java, which has a session of its own, at one blow.

    Their Python workers go with them.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(driver.pid)
        for each in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    driver.wait(MOST_SECONDS)
