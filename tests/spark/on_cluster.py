"""A driver for a cluster: what executors may lack, then every family as stream and as batch.

    python -m tests.spark.on_cluster MASTER DIRECTORY

It tells by files how far it is, so that executors can be killed meanwhile, and leaves what it got.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skyband.errors import SkybandError
from skyband.spark import (
    session,
    top_k,
    top_k_dominating,
    top_k_incomplete,
    top_k_workload,
)
from skyband.spark.cluster.executors import prepare
from skyband.spark.jobs.failures import reworded
from skyband.spark.sessions import FAILURES
from tests import oracle
from tests.conftest import FILE_MANAGER, INTERPRETED_PLANS
from tests.java import HASTE
from tests.spark import samples, test_dominating, test_incomplete, test_totals, test_workload
from tests.spark.samples import SECOND

Rows = list[dict[str, Any]]
TIMED: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "25 seconds", "slide": "10 seconds",
    "id": "id", "keep": ["id", "ts"], "partition_by": "sector",
}  # fmt: skip
ARRIVAL: dict[str, Any] = {**TIMED, "window": 12, "slide": 5}
ROOM = {
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": HASTE,
    "spark.executor.syncLogLevel.enabled": "true",
    "spark.shuffle.io.retryWait": "100ms",  # what a killed executor had is gone
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    **INTERPRETED_PLANS,
}
"""Settings of drivers on the cluster of the tests."""


@dataclass(frozen=True)
class Family:
    """How a family ranks rows, which rows, what is expected, and how results are laid out."""

    ranked: Callable[..., DataFrame]
    rows: Rows
    expected: Callable[[Rows], Any]
    layout: Callable[[list[Any]], Any]
    ddl: str = samples.DDL
    write: Callable[[Path, list[Rows]], str] = samples.write

    def written(self, source: Path) -> str:
        """Write the rows in two files, and in a third one so much later that all windows end."""
        newest = max(self.rows, key=lambda row: int(row["ts"]))
        later = {**newest, "ts": newest["ts"] + 24 * 3600 * SECOND}
        return self.write(source, [*samples.split(self.rows, 2, 1), [later]])

    def stream(self, spark: SparkSession, source: str, home: Path) -> Any:
        """Start a stream over what is there, a file per micro-batch."""
        reader = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1)
        rows = reader.option("latestFirst", "false").parquet(source)
        leaders = self.ranked(rows, delay="10 minutes")
        writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    def batch(self, spark: SparkSession, source: str) -> list[Any]:
        """Rank all rows at once, but for the last one."""
        return self.ranked(spark.read.schema(self.ddl).parquet(f"{source}/part-00[01]*")).collect()


def of_arrivals(rows: Rows) -> list[tuple[Any, ...]]:
    """What the oracle says of the last rows of each sector."""
    answers: list[tuple[Any, ...]] = []
    for key in ("None", "a", "b"):
        key_rows = [row for row in rows if str(row["sector"]) == key]
        key_rows.sort(key=lambda row: (row["ts"], row["id"]))
        scores = [None if row["price"] is None else row["price"] + 0.0 for row in key_rows]
        windows = oracle.count_windows(scores, 12, 5, 3, [row["id"] for row in key_rows])
        answers += samples.oracle_rows(windows, key)
    return sorted(answers)


def of_sector(rows: list[Any]) -> list[tuple[Any, ...]]:
    return samples.result_rows(rows, "sector")


FAMILIES = {
    "time": Family(
        lambda df, **more: top_k(df, **TIMED, **more),
        samples.rows(1, 150),
        lambda rows: samples.expected(rows, 3, 25 * SECOND, 10 * SECOND, key="sector"),
        of_sector,
    ),
    "arrival": Family(
        lambda df, **more: top_k(df, **ARRIVAL, **more),
        samples.rows(3, 150),
        of_arrivals,
        of_sector,
    ),
    "workload": Family(
        lambda df, **more: top_k_workload(
            df, test_workload.MIXED, time="ts", id="id", keep=["id", "ts"], **more
        ),
        samples.rows(4, 150),
        lambda rows: test_workload.expected_rows(rows, test_workload.MIXED),
        test_workload.result_rows,
    ),
    "dominating": Family(
        lambda df, **more: top_k_dominating(df, **test_dominating.OPTIONS, **more),
        samples.rows(5, 150),
        test_dominating.expected_rows,
        samples.result_rows,
    ),
    "incomplete": Family(
        lambda df, **more: top_k_incomplete(df, **test_incomplete.OPTIONS, **more),
        test_incomplete.passages(6, 150),
        test_incomplete.expected_rows,
        test_incomplete.result_rows,
        test_incomplete.COLUMNS,
        test_incomplete.write,
    ),
    "totals": Family(
        lambda df, **more: top_k(test_totals.named(df), **test_totals.OPTIONS, **more),
        samples.rows(7, 150),
        test_totals.expected_rows,
        test_totals.result_rows,
    ),
}


def main(master: str, home: Path) -> None:
    """Say what executors lack if they do, then rank everything."""
    spark = session(master, shuffle_partitions=2, log=home / "driver.log", settings={
        **ROOM,
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    })  # fmt: skip
    context: Any = spark.sparkContext
    context.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]  # of Python workers
    refused = refusals(context, spark, home)
    (home / "refusals.json").write_text(json.dumps(refused))
    prepare(spark, writes=[str(home)])
    sources = {name: family.written(home / name / "source") for name, family in FAMILIES.items()}
    streams = {}
    for name, family in FAMILIES.items():  # one by one: Spark gives a Python 10 seconds to start
        streams[name] = family.stream(spark, sources[name], home / name)
        while streams[name].isActive and not streams[name].lastProgress:
            time.sleep(0.05)
    results = {}
    for name, stream in streams.items():
        stream.awaitTermination()
        results[name, "stream"] = spark.read.parquet(str(home / name / "out")).collect()
    (home / "batches").touch()
    with ThreadPoolExecutor(2) as pool:
        batches = {
            name: pool.submit(family.batch, spark, sources[name])
            for name, family in FAMILIES.items()
        }
        results |= {(name, "batch"): batch.result() for name, batch in batches.items()}
    (home / "results").write_bytes(pickle.dumps(results))


def refusals(context: Any, spark: SparkSession, home: Path) -> dict[str, str]:
    """What is said of executors that lack something, by the name of what that is.

    Spark starts a Python of its own for each path and environment.
    """
    python, environment = context.pythonExec, dict(context.environment)
    pythons = json.loads((home / "pythons.json").read_text())
    cases: dict[str, tuple[str, dict[str, str], list[str]]] = {
        **{name: (path, {}, []) for name, path in pythons.items() if name != "bare"},
        "cache": (python, {"NUMBA_CACHE_DIR": "/dev/null/cache"}, []),
        "places": (python, {}, ["/proc/self/cwd/checkpoint"]),  # each process has its own
        "sent": (pythons["bare"], {"PYTHONPATH": "", "XDG_CACHE_HOME": "/dev/null/cache"}, []),
    }
    messages = {}
    for name, (path, variables, writes) in cases.items():
        context.pythonExec = path
        context.environment.update(variables)
        try:
            prepare(spark, writes=writes)
        except SkybandError as error:
            messages[name] = str(error)
        except FAILURES as error:
            messages[name] = str(reworded(error, None))
        context.pythonExec = python
        context.environment.clear()
        context.environment.update(environment)
    context._python_includes.clear()  # what was sent last: others would unpack it at home
    return messages


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # Java goes with it
