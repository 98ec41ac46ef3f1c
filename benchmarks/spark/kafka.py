"""``skyband bench spark-kafka``: ranking a topic beside Spark's own tumbling ``max`` of it.

The same JSON records, with the same trigger: once read, parsed and reduced to the best score of
each pane by Spark alone, once ranked by a job, which also counts bad records. A broker is started
for the run, unless ``--server`` names one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.sessions import session_and_folder
from benchmarks.spark.stream import SLIDE

K, RATIO = 100, 60
GOAL = 0.8
TOPIC, PARTITIONS, FILES = "skyband-bench", 4, 8


@dataclass(frozen=True)
class Kafka:
    """Two systems over one topic, in turns."""

    rows: int = 4_000_000
    batches: int = 2
    turns: int = 3
    server: str | None = None
    name: str = field(default="spark_kafka", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None, server: str | None = None) -> Kafka:
        """Over 4x10^6 rows, or fewer."""
        size = rows or (1_000_000 if quick else 4_000_000)
        return cls(size, turns=1 if quick else 3, server=server)

    def collect(self) -> list[Record]:
        """A record per system and turn."""
        from skyband.spark import connectors

        jars = connectors.settings({"kafka": "auto"}, {})
        with (
            session_and_folder(settings=jars) as (spark, home),
            _broker(self.server, home) as server,
        ):
            report.note(f"writing {self.rows:,} records")
            self._fill(home, server)
            return self._measure(spark, home, server)

    def _fill(self, home: Path, server: str) -> None:
        """Write trades in order of time, over all partitions in turn."""
        from confluent_kafka import Producer

        _make_topic(server)
        folder = stream.write(home / "trades", self.rows, self.rows, FILES)
        producer = Producer({"bootstrap.servers": server, "linger.ms": 50})
        for file in sorted(folder.glob("*.parquet")):
            for id, value in _records(file):
                producer.produce(TOPIC, value, partition=id % PARTITIONS)
                if id % 10_000 == 0:
                    producer.flush()  # it takes only so many at a time
        assert producer.flush(600) == 0, "the broker has not taken all records"

    def _measure(self, spark: Any, home: Path, server: str) -> list[Record]:
        systems = {"floor": self._floor, "skyband": self._skyband}
        records: list[Record] = []
        for run in systems.values():  # until the JVM has compiled what each of them needs
            run(spark, home, server)
        with report.progress("spark-kafka", self.turns * len(systems)) as step:
            for turn in range(self.turns):
                for system, run in systems.items():
                    seconds = run(spark, home, server)
                    records.append(
                        {
                            "system": system,
                            "turn": turn,
                            "rows": self.rows,
                            "seconds": seconds,
                            "rows_per_s": self.rows / seconds,
                        }
                    )
                    step(system)
        return records

    def _options(self, server: str) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": server,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": -(-self.rows // self.batches),
        }

    def _floor(self, spark: Any, home: Path, server: str) -> float:
        """Seconds of Spark's own read, parse and tumbling max."""
        from pyspark.sql import functions as F

        from benchmarks.spark.systems import floor, timed

        options = {name: str(value) for name, value in self._options(server).items()}
        values = spark.readStream.format("kafka").options(**options).load()
        record = F.from_json(F.col("value").cast("string"), stream.SCHEMA)
        run = timed(floor(values.select(record.alias("r")).select("r.*"), RATIO, K), home / "floor")
        assert run.rows == self.rows, f"{run.rows:,} rows were read"
        return run.seconds

    def _skyband(self, spark: Any, home: Path, server: str) -> float:
        """Seconds of a job over the same topic."""
        import threading

        import yaml

        from benchmarks.spark.systems import DELAY, SCORE
        from skyband.spark.jobs.file import load
        from skyband.spark.jobs.run import Run

        folder = home / "skyband"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        query = {
            **{"k": K, "by": SCORE, "time": "ts", "id": "id", "keep": ["id", "ts"]},
            **{"window": f"{RATIO * SLIDE} seconds", "slide": f"{SLIDE} seconds", "delay": DELAY},
        }
        source = {"format": "kafka", "json": stream.SCHEMA, "options": self._options(server)}
        sink = {"format": "parquet", "path": "out"}
        content = {"source": source, "query": query, "sink": sink, "checkpoint": "checkpoint"}
        file = folder / "job.yaml"
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        with Run(spark, load(file)) as run:
            run.prepare()
            run.go(threading.Event(), lambda: None)
        assert run.progress.rows == self.rows, f"{run.progress.rows:,} rows were read"
        return run.progress.seconds

    def show(self, records: list[Record], console: Console) -> None:
        """One table: the fastest turn of each, and the goal."""
        best = fastest(records)
        speed = {system: record["rows_per_s"] for system, record in best.items()}
        rows = [
            (system, record["seconds"], record["rows_per_s"], record["rows_per_s"] / speed["floor"])
            for system, record in best.items()
        ]
        met = "yes" if speed["skyband"] >= GOAL * speed["floor"] else "NO"
        console.print(
            report.table(
                f"A topic of {self.rows:,} records in JSON, {PARTITIONS} partitions, "
                f"{self.batches} micro-batches, {os.cpu_count()} cores",
                ("system", "s", "rows/s", "x floor speed"),
                rows,
                f"floor: Spark's read, parse and tumbling max. skyband: top_k, k = {K}, "
                f"window/slide {RATIO}. The fastest of {self.turns} turns each. "
                f"Goal: at least {GOAL} x: {met}.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Rows per second of both."""
        best = fastest(records)
        figure, axes = report.panels(1, 1, "Rows per second from Kafka", panel=(3.8, 3.2))
        axes[0][0].bar(list(best), [record["rows_per_s"] for record in best.values()])
        axes[0][0].set_ylabel("rows per second")
        return report.save(figure, folder, self.name)


def _records(file: Path) -> Iterator[tuple[int, str]]:
    """The number of each trade of a file, and the trade in JSON."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    times = np.datetime_as_string(table["ts"].to_numpy().astype("datetime64[us]")).tolist()
    names = ("id", "sector", "price", "volume")
    columns = [table[name].to_pylist() for name in names]
    for at, id, sector, price, volume in zip(times, *columns, strict=True):
        yield (
            id,
            (f'{{"ts":"{at}Z","id":{id},"sector":"{sector}","price":{price},"volume":{volume}}}'),
        )


def fastest(records: list[Record]) -> dict[str, Record]:
    """The fastest turn of each system."""
    systems = dict.fromkeys(record["system"] for record in records)
    return {
        system: min(
            (record for record in records if record["system"] == system),
            key=lambda record: float(record["seconds"]),
        )
        for system in systems
    }


@contextmanager
def _broker(server: str | None, home: Path) -> Iterator[str]:
    """The address of a broker: the one that is named, or one that is started for the run."""
    if server is not None:
        yield server
        return
    from tests.servers import KafkaServer

    folder = home / "broker"
    folder.mkdir()
    broker = KafkaServer(folder)
    try:
        broker.start()
        yield broker.address
    finally:
        broker.stop()


def _make_topic(server: str) -> None:
    """Make the topic anew."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from skyband.errors import QueryError

    admin = AdminClient({"bootstrap.servers": server})
    if TOPIC in admin.list_topics(timeout=30).topics:
        raise QueryError(f"{server} has a topic {TOPIC}", "none", "delete it")
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result(60)
