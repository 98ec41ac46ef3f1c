"""A driver that kills itself, Java and all, at a chosen point of a write into a chosen sink.

    python -m tests.faults.sinks_driver DIRECTORY POSTGRES REDIS [SINK POINT BATCH]

One stream over ``source`` writes each batch into PostgreSQL, Redis and a Delta table. Points are
``before`` and ``after`` a write, and ``inside``: rows are copied, or commands sent, or a file is
written, and nothing is committed. A batch without rankings has no inside: the next one is taken.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from redis import Connection

from skyband.spark import drain, session
from skyband.spark.draining import drained
from skyband.spark.sinks import to_delta, to_postgres, to_redis
from skyband.spark.sinks.delta import DeltaRankings
from skyband.spark.sinks.postgres import PostgresTable
from skyband.spark.sinks.ranked_batch import BatchWriter
from tests.conftest import INTERPRETED_PLANS
from tests.faults.driver import claim_unless_drained
from tests.faults.trades import start, timed

EXECUTE = b"*1\r\n$4\r\nEXEC\r\n"  # ends a transaction of Redis, as it is sent


def main(home: Path, postgres: str, redis: str, *death: str) -> None:
    spark = session(
        "local[2,4]",
        shuffle_partitions=1,
        memory="600m",
        log=home / "spark.log",
        settings=INTERPRETED_PLANS,
    )
    marks, checkpoint = str(home / "marks"), str(home / "checkpoint")
    leaders = timed(spark, home / "source", drain=marks)
    claim_unless_drained(leaders, home)
    writers = {
        "postgres": to_postgres(leaders, postgres, "killed", name="timed", checkpoint=checkpoint),
        "redis": to_redis(leaders, redis, "killed", checkpoint=checkpoint, changes=100_000),
        "delta": to_delta(leaders, home / "table", checkpoint=checkpoint),
    }
    if death:
        sink, point, batch = death
        writers[sink] = deadly(spark, writers[sink], sink, point, int(batch))

    def write(rows: DataFrame, batch: int) -> None:
        rows.persist()
        for writer in writers.values():
            writer(rows, batch)
        rows.unpersist()

    for ended in (False, True):
        if ended and not drained(spark, marks):
            drain(spark, marks)
        start(leaders, home, write).awaitTermination()
    (home / "done").touch()


def deadly(
    spark: SparkSession, write: BatchWriter, sink: str, point: str, fatal: int
) -> BatchWriter:
    """The same writer, which is killed while it writes one batch."""
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def die() -> None:
        os.kill(java, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def write_and_die(rows: DataFrame, batch: int) -> None:
        if batch < fatal:
            write(rows, batch)
        elif point == "inside":
            with pytest.MonkeyPatch.context() as patch:
                INSIDE[sink](die, patch)
                write(rows, batch)
        else:
            if point == "after":
                write(rows, batch)
            die()

    return write_and_die


def inside_postgres(die: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    copy = PostgresTable._copy

    def copy_and_die(*arguments: Any) -> None:
        copy(*arguments)
        die()

    patch.setattr(PostgresTable, "_copy", copy_and_die)


def inside_redis(die: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Send a transaction without the command that ends it."""
    send = Connection.send_packed_command

    def send_and_die(connection: Connection, command: Any, check_health: bool = True) -> None:
        parts = [command] if isinstance(command, bytes) else list(command)
        text = b"".join(bytes(part) for part in parts)
        if not text.endswith(EXECUTE):
            send(connection, command, check_health)
            return
        send(connection, [text.removesuffix(EXECUTE)], check_health)
        die()

    patch.setattr(Connection, "send_packed_command", send_and_die)


def inside_delta(die: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Let a folder stand where the next commit belongs: the rows are written, the commit fails."""
    commit = DeltaRankings._commit

    def commit_and_die(table: DeltaRankings, *batch: Any) -> None:
        log = Path(table.path) / "_delta_log"
        number = max((int(path.stem) for path in log.glob("*.json")), default=-1) + 1
        files = set(log.parent.glob("*.parquet"))
        place = log / f"{number:020}.json"
        place.mkdir(parents=True)
        try:
            commit(table, *batch)
        except DeltaError:
            place.rmdir()
            assert set(log.parent.glob("*.parquet")) > files
            die()
        place.rmdir()

    patch.setattr(DeltaRankings, "_commit", commit_and_die)


INSIDE = {"postgres": inside_postgres, "redis": inside_redis, "delta": inside_delta}

if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    os._exit(0)  # the JVM goes with it
