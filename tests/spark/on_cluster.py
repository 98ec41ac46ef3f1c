"""A driver for a cluster: what executors may lack, then every family as stream and as batch.

    python -m tests.spark.on_cluster MASTER KAFKA_PORT DIRECTORY

Rows come from files and from a topic of Kafka. It tells by files how far it is, so that executors
can be killed meanwhile, and leaves what it got. All streams wait for their second half of rows
together, so that one killed executor is missed by each of them.
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
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.errors import SkybandError
from skyband.spark import (
    connectors,
    session,
    top_k,
    top_k_dominating,
    top_k_incomplete,
    top_k_workload,
)
from skyband.spark.cluster.executors import prepare
from skyband.spark.jobs.failures import reworded
from skyband.spark.jobs.run import LATE_WORKER, STARTS
from skyband.spark.sessions import FAILURES
from tests import kafka_trades, oracle
from tests.conftest import FILE_MANAGER, INTERPRETED_PLANS
from tests.java import hasty_options
from tests.servers import KafkaServer
from tests.spark import samples, test_dominating, test_incomplete, test_totals, test_workload
from tests.spark.samples import SECOND

Rows = list[dict[str, Any]]
Results = dict[tuple[str, str, str], list[Any]]  # by family, source, and stream or batch
COUNT = 150
HALF = COUNT // 2
TIMED: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "25 seconds", "slide": "10 seconds",
    "id": "id", "keep": ["id", "ts"], "partition_by": "sector",
}  # fmt: skip
ARRIVAL: dict[str, Any] = {**TIMED, "window": 12, "slide": 5}
ROOM = {
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": hasty_options(),
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

    @property
    def later(self) -> dict[str, Any]:
        """A row so much later than all others that it ends their windows."""
        newest = max(self.rows, key=lambda row: int(row["ts"]))
        return {**newest, "ts": newest["ts"] + 24 * 3600 * SECOND}


class Source(Protocol):
    """Where the rows of all families are."""

    def add_first(self) -> None:
        """Bring the first half of the rows."""

    def add_rest(self) -> None:
        """Bring the second half, then for each family the row that ends all windows."""

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows of a family as they come."""

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows of a family but the one that ends all windows."""


@dataclass(frozen=True)
class Files:
    """Three files for each family, in a folder of its own."""

    home: Path

    def add_first(self) -> None:
        for name, family in FAMILIES.items():
            parts = [*samples.split(family.rows, 2, 1), [family.later]]
            family.write(self.home / "waiting" / name, parts)
            (self.home / name).mkdir()
        self._move("part-000.parquet")

    def add_rest(self) -> None:
        self._move("part-001.parquet")
        self._move("part-002.parquet")

    def _move(self, file: str) -> None:
        for name in FAMILIES:
            (self.home / "waiting" / name / file).rename(self.home / name / file)

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.readStream.schema(FAMILIES[name].ddl).parquet(str(self.home / name))

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        files = str(self.home / name / "part-00[01]*")
        return spark.read.schema(FAMILIES[name].ddl).parquet(files)


@dataclass(frozen=True)
class Topic:
    """A topic of JSON records, each under the name of its family."""

    kafka: KafkaServer
    name: str = "families"
    partitions: int = 2

    def add_first(self) -> None:
        self.kafka.make_topic(self.name, self.partitions)
        self._send(0, HALF)

    def add_rest(self) -> None:
        self._send(HALF, COUNT)
        self._send(COUNT, COUNT + 1)  # when all others are there

    def _send(self, first: int, last: int) -> None:
        """Send some rows of each family, and spread them over all partitions."""
        records = [
            (at % self.partitions, name.encode(), kafka_trades.as_json(row))
            for name, family in FAMILIES.items()
            for at, row in enumerate([*family.rows, family.later][first:last], start=first)
        ]
        self.kafka.send(self.name, records)

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        return self._rows(spark.readStream, name)

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        each = len(FAMILIES) * COUNT // self.partitions
        ends = {self.name: {str(number): each for number in range(self.partitions)}}
        return self._rows(spark.read.option("endingOffsets", json.dumps(ends)), name)

    def _rows(self, reader: Any, name: str) -> DataFrame:
        reader = reader.option("kafka.bootstrap.servers", self.kafka.address)
        reader = reader.option("startingOffsets", "earliest").option("subscribe", self.name)
        records = reader.format("kafka").load().filter(F.col("key").cast("string") == name)
        row = F.from_json(F.col("value").cast("string"), FAMILIES[name].ddl)
        return records.select(row.alias("row")).select("row.*")


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
        samples.rows(1, COUNT),
        lambda rows: samples.expected(rows, 3, 25 * SECOND, 10 * SECOND, key="sector"),
        of_sector,
    ),
    "arrival": Family(
        lambda df, **more: top_k(df, **ARRIVAL, **more),
        samples.rows(3, COUNT),
        of_arrivals,
        of_sector,
    ),
    "workload": Family(
        lambda df, **more: top_k_workload(
            df, test_workload.MIXED, time="ts", id="id", keep=["id", "ts"], **more
        ),
        samples.rows(4, COUNT),
        lambda rows: test_workload.expected_rows(rows, test_workload.MIXED),
        test_workload.result_rows,
    ),
    "dominating": Family(
        lambda df, **more: top_k_dominating(df, **test_dominating.OPTIONS, **more),
        samples.rows(5, COUNT),
        test_dominating.expected_rows,
        samples.result_rows,
    ),
    "incomplete": Family(
        lambda df, **more: top_k_incomplete(df, **test_incomplete.OPTIONS, **more),
        test_incomplete.passages(6, COUNT),
        test_incomplete.expected_rows,
        test_incomplete.result_rows,
        test_incomplete.COLUMNS,
        test_incomplete.write,
    ),
    "totals": Family(
        lambda df, **more: top_k(test_totals.named(df), **test_totals.OPTIONS, **more),
        samples.rows(7, COUNT),
        test_totals.expected_rows,
        test_totals.result_rows,
    ),
}


def main(master: str, kafka_port: int, home: Path) -> None:
    """Say what executors lack if they do, then rank everything."""
    settings = {**ROOM, "spark.sql.warehouse.dir": str(home / "warehouse")}
    spark = session(
        master,
        shuffle_partitions=2,
        log=home / "driver.log",
        settings=connectors.settings({"kafka": "auto"}, settings),
    )
    context: Any = spark.sparkContext
    context.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]  # of Python workers
    refused = refusals(context, spark, home)
    (home / "refusals.json").write_text(json.dumps(refused))
    prepare(spark, writes=[str(home)])
    sources: dict[str, Source] = {
        "files": Files(home / "files"),
        "kafka": Topic(KafkaServer(home, kafka_port)),
    }
    results = ranked_streams(spark, sources, home)
    (home / "batches").touch()
    results |= ranked_batches(spark, sources)
    (home / "results").write_bytes(pickle.dumps(results))


def ranked_streams(spark: SparkSession, sources: dict[str, Source], home: Path) -> Results:
    """Rank rows as they come, the second half when each stream has ranked the first."""
    for source in sources.values():
        source.add_first()
    streams = {}
    for name, family in FAMILIES.items():
        for way, source in sources.items():
            leaders = family.ranked(source.stream(spark, name), delay="10 minutes")
            streams[way, name] = started(leaders, home / "streams" / way / name)
    for source in sources.values():
        source.add_rest()
    (home / "rest").touch()
    results = {}
    for (way, name), stream in streams.items():
        stream.processAllAvailable()
        stream.stop()
        (home / "ended").touch()
        rows = spark.read.parquet(str(home / "streams" / way / name / "out"))
        results[name, way, "stream"] = rows.collect()
    return results


def started(leaders: DataFrame, place: Path) -> Any:
    """Start a stream and wait for its first micro-batch.

    It starts again if its Python was late, as in jobs: Spark gives it 10 seconds to start.
    """
    writer = leaders.writeStream.format("parquet").option("path", str(place / "out"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    writer = writer.trigger(processingTime="500 milliseconds")
    for _ in range(STARTS):
        stream = writer.start()
        while stream.isActive and not stream.lastProgress:
            time.sleep(0.05)
        if LATE_WORKER not in str(stream.exception()):
            break
    return stream


def ranked_batches(spark: SparkSession, sources: dict[str, Source]) -> Results:
    """Rank all rows at once."""
    with ThreadPoolExecutor(2) as pool:
        batches = {
            (name, way, "batch"): pool.submit(family.ranked(source.batch(spark, name)).collect)
            for way, source in sources.items()
            for name, family in FAMILIES.items()
        }
        return {which: batch.result() for which, batch in batches.items()}


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
        "sent": (
            pythons["bare"],
            {"PYTHONPATH": "", "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "/dev/null/cache"},
            [],
        ),
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
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    os._exit(0)  # Java goes with it
