"""A driver for a cluster: what executors may lack, then every family as stream and as batch.

    python -m tests.spark.on_cluster MASTER BROKER DIRECTORY

Rows come from files and from a topic of Kafka. It tells by files how far it is, so that executors
can be killed meanwhile, and leaves what it got.
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
from skyband.spark.sessions import FAILURES
from tests import kafka_trades, oracle
from tests.conftest import FILE_MANAGER, INTERPRETED_PLANS
from tests.java import HASTE
from tests.servers import KafkaServer
from tests.spark import samples, test_dominating, test_incomplete, test_totals, test_workload
from tests.spark.samples import SECOND

Rows = list[dict[str, Any]]
TIMED: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "25 seconds", "slide": "10 seconds",
    "id": "id", "keep": ["id", "ts"], "partition_by": "sector",
}  # fmt: skip
ARRIVAL: dict[str, Any] = {**TIMED, "window": 12, "slide": 5}
WAYS = ("files", "kafka")
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

    @property
    def later(self) -> dict[str, Any]:
        """A row so much later than all others that it ends their windows."""
        newest = max(self.rows, key=lambda row: int(row["ts"]))
        return {**newest, "ts": newest["ts"] + 24 * 3600 * SECOND}


class Source(Protocol):
    """Where the rows of families are; a stream takes two micro-batches for those of one."""

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows of a family, the one that ends all windows in the last micro-batch."""

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows of a family but that one."""


@dataclass(frozen=True)
class Files:
    """Four files for each family, the last one with the row that ends all windows."""

    home: Path

    def fill(self) -> None:
        """Write them."""
        for name, family in FAMILIES.items():
            parts = [*samples.split(family.rows, 3, 1), [family.later]]
            family.write(self.home / name, parts)

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        reader = spark.readStream.schema(FAMILIES[name].ddl).option("maxFilesPerTrigger", 2)
        return reader.option("latestFirst", "false").parquet(str(self.home / name))

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        files = str(self.home / name / "part-00[012]*")
        return spark.read.schema(FAMILIES[name].ddl).parquet(files)


@dataclass(frozen=True)
class Topic:
    """A topic of JSON records of all families, each under the name of its own."""

    address: str
    name: str = "families"
    partitions: int = 2

    def fill(self, kafka: KafkaServer) -> None:
        """Make the topic: rows of all families in turn, then those that end all windows."""
        kafka.make_topic(self.name, self.partitions)
        for records in (self._records(), self._last_records()):
            numbered = enumerate(records)
            kafka.send(self.name, [(at % self.partitions, *record) for at, record in numbered])

    def _records(self) -> list[tuple[bytes, bytes]]:
        by_family = [
            [_record(name, row) for row in family.rows] for name, family in FAMILIES.items()
        ]
        return [record for turn in zip(*by_family, strict=True) for record in turn]

    def _last_records(self) -> list[tuple[bytes, bytes]]:
        return [_record(name, family.later) for name, family in FAMILIES.items()]

    def stream(self, spark: SparkSession, name: str) -> DataFrame:
        half = (len(self._records()) + len(self._last_records())) // 2
        reader = spark.readStream.option("maxOffsetsPerTrigger", half + self.partitions)
        return self._rows(reader, name)

    def batch(self, spark: SparkSession, name: str) -> DataFrame:
        count = len(self._records())
        ends = {
            str(partition): len(range(partition, count, self.partitions))
            for partition in range(self.partitions)
        }
        return self._rows(spark.read.option("endingOffsets", json.dumps({self.name: ends})), name)

    def _rows(self, reader: Any, name: str) -> DataFrame:
        reader = reader.option("kafka.bootstrap.servers", self.address)
        reader = reader.option("startingOffsets", "earliest").option("subscribe", self.name)
        records = reader.format("kafka").load().filter(F.col("key").cast("string") == name)
        row = F.from_json(F.col("value").cast("string"), FAMILIES[name].ddl)
        return records.select(row.alias("row")).select("row.*")


def _record(name: str, row: dict[str, Any]) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    return name.encode(), kafka_trades.as_json(row)


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


def main(master: str, broker: str, home: Path) -> None:
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
    files = Files(home / "files")
    files.fill()
    sources: dict[str, Source] = {"files": files, "kafka": Topic(broker)}
    streams = {}
    for name in FAMILIES:  # one by one: Spark gives a Python 10 seconds to start
        started = {
            (name, way): started_stream(spark, sources[way], name, way, home) for way in WAYS
        }
        while not all(not each.isActive or each.lastProgress for each in started.values()):
            time.sleep(0.05)
        streams |= started
    results = {}
    for (name, way), stream in streams.items():
        stream.awaitTermination()
        rows = spark.read.parquet(str(stream_home(home, name, way) / "out"))
        results[name, way, "stream"] = rows.collect()
    (home / "batches").touch()
    with ThreadPoolExecutor(2) as pool:
        batches = {
            (name, way, "batch"): pool.submit(
                FAMILIES[name].ranked(source.batch(spark, name)).collect
            )
            for way, source in sources.items()
            for name in FAMILIES
        }
        results |= {which: batch.result() for which, batch in batches.items()}
    (home / "results").write_bytes(pickle.dumps(results))


def started_stream(spark: SparkSession, source: Source, name: str, way: str, home: Path) -> Any:
    """Start a stream of a family over what is there."""
    leaders = FAMILIES[name].ranked(source.stream(spark, name), delay="10 minutes")
    place = stream_home(home, name, way)
    writer = leaders.writeStream.format("parquet").option("path", str(place / "out"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def stream_home(home: Path, name: str, way: str) -> Path:
    """Where a stream has its checkpoint and its sink."""
    return home / way / f"{name}-stream"


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
    main(*sys.argv[1:3], Path(sys.argv[3]))
    os._exit(0)  # Java goes with it
