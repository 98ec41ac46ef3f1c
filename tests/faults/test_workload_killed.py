"""A job with a workload, killed with -9 again and again, that goes on with other queries.

    python -m tests.faults.test_workload_killed DIRECTORY before|after

runs it to its end, with the queries of before or after the change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband import Workload
from skyband.errors import QueryError
from skyband.spark import claim, drain, session, top_k_workload
from skyband.spark.draining import drained
from skyband.spark.jobs import checkpoint as manifest
from tests import oracle
from tests.conftest import INTERPRETED_PLANS
from tests.faults.test_driver_killed import MOST_SECONDS, POINTS, ROOT, end
from tests.faults.trades import cut, make_trades, micros, trade_stream, write

pytestmark = pytest.mark.spark

STAYS = {"name": "stays", "k": 3, "window": "20 seconds", "slide": "7 seconds",
         "offset": "3 seconds", "by": "price"}  # fmt: skip
GOES = {"name": "goes", "k": 2, "window": "90 seconds", "slide": "30 seconds", "by": "price"}
COMES = {"name": "comes", "k": 9, "window": "11 seconds", "slide": "4 seconds", "by": "price"}
WORKLOADS = {"before": Workload.of([STAYS, GOES]), "after": Workload.of([COMES, STAYS])}
KILLS = [("before", "a batch was committed", 3), ("after", "state was written", 1)]


def main(home: Path, which: str) -> None:
    """One run, as far as it is let."""
    scratch = home / "scratch"
    java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    spark = session(
        "local[2,4]",
        shuffle_partitions=1,
        memory="600m",
        log=home / "spark.log",
        settings={
            "spark.local.dir": str(scratch),
            "spark.driver.extraJavaOptions": java,
            **INTERPRETED_PLANS,
        },
    )
    marks, checkpoint = str(home / "marks"), str(home / "checkpoint")
    for ended in (False, True):
        if ended and not drained(spark, marks):
            drain(spark, marks)
        leaders = top_k_workload(
            trade_stream(spark, home / "source"),
            WORKLOADS[which],
            time="ts",
            id="id",
            keep="id",
            delay="5 seconds",
            partition_by="sector",
            drain=marks,
            checkpoint=checkpoint,
        )
        try:
            claim(leaders, checkpoint)
        except QueryError as error:
            if "was drained" not in str(error):
                raise
        writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
        writer = writer.option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def run_until(home: Path, which: str, point: str | None, times: int = 1) -> bool:
    """Run until a point is passed so often, and kill everything, unless it ended."""

    def passed() -> int:
        try:
            return 0 if point is None else sum(1 for _ in home.glob(POINTS[point]))
        except FileNotFoundError:  # something temporary went while it was looked at
            return before

    before = 0
    before = passed()
    (home / "scratch").mkdir(exist_ok=True)
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.test_workload_killed", str(home), which],
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
                if passed() >= before + times:
                    return True
        raise AssertionError(f"{which} did not come to {point!r} in {MOST_SECONDS} s")
    finally:
        end(driver)


def test_nothing_is_lost_or_answered_twice_though_queries_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    trades = make_trades(seed=11, count=200)
    write(tmp_path / "source", cut(trades, parts=6, seed=11))
    for which, point, often in KILLS:
        assert run_until(tmp_path, which, point, often), f"{which} ended too soon: {point}"
    assert not run_until(tmp_path, "after", None)
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    answers = sorted(
        (row["query"], row["sector"] or "", micros(row["window"]["end"]), row["rank"],
         row["score"], row["id"])
        for row in leaders
    )  # fmt: skip
    stored = manifest.read(spark, str(tmp_path / "checkpoint"))
    assert stored is not None
    since = stored["query"]["workload"]["queries"]["comes"][-1]
    assert min(row["ts"] for row in trades) < since < max(row["ts"] for row in trades)
    for name in ("stays", "goes", "comes"):
        query_answers = [row for row in answers if row[0] == name]
        begin = since if name == "comes" else 0
        # a query that is gone was answered up to the change, and in no part after it
        assert query_answers
        until = max(row[2] for row in query_answers) if name == "goes" else None
        assert query_answers == expected_answers(trades, name, begin, until)


def expected_answers(
    trades: list[dict[str, object]], name: str, begin: int, until: int | None
) -> list[tuple[object, ...]]:
    """(query, sector, window end, rank, score, id) of every window from ``begin`` on."""
    query = {**WORKLOADS["before"].queries, **WORKLOADS["after"].queries}[name]
    window = query.window
    answers = []
    for sector in {row["sector"] for row in trades}:
        sector_trades = [row for row in trades if row["sector"] == sector]
        prices, times, ids = (
            [row[column] for row in sector_trades] for column in ("price", "ts", "id")
        )
        for answer in oracle.time_windows(
            prices, times, window.size, window.slide, query.k, window.offset, ids, until
        ):
            if answer.start >= begin:
                for rank, (score, id) in enumerate(answer.rows, start=1):
                    answers.append((name, sector or "", answer.end, rank, score, id))
    return sorted(answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    os._exit(0)  # the JVM goes with it
