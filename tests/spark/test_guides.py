"""Guides with real servers, followed step by step; and what is said without connectors."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skyband.spark import connectors
from tests.kafka_trades import FIELDS, write_job
from tests.servers import KafkaServer, RedisServer
from tests.test_docs import FENCE, WITH_SERVERS, text_of

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
MOST_SECONDS = 300  # for one command, far more than it takes


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


def test_from_kafka_to_redis(tmp_path: Path, kafka: KafkaServer, redis: RedisServer) -> None:
    (page,) = WITH_SERVERS
    addresses = {"localhost:9092": kafka.address, "redis://localhost:6379/0": redis.url}
    printed = follow(page, tmp_path, addresses)
    assert "bad records 1 that could not be parsed" in printed[0]
    assert list((tmp_path / "bad").glob("*.parquet"))
    assert "rows        1 read" in printed[1]


def follow(page: str, home: Path, addresses: dict[str, str]) -> list[str]:
    """Do what a page says, in its order; returns what each command printed.

    ``yaml`` is saved as ``board.yaml``, ``python`` runs here, ``sh`` in a process, and ``text`` is
    what the Python before it prints.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    out, printed = "", []
    for kind, block in FENCE.findall(text_of(page)):
        shown = block
        for documented, address in addresses.items():
            block = block.replace(documented, address)
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(block, page, "exec"), names)
            out = stream.getvalue()
        elif kind == "yaml":
            (home / "board.yaml").write_text(block)
        elif kind == "sh":
            printed += [run(command, home) for command in block.splitlines()]
        else:
            assert (kind, out) == ("text", shown)
    return printed


def run(command: str, home: Path) -> str:
    program, *words = shlex.split(command)
    assert program == "skyband"
    return process([sys.executable, "-m", "skyband.cli", *words], home)


def process(command: list[str], home: Path) -> str:
    """What a command prints that is to succeed."""
    ran = subprocess.run(
        command,
        cwd=home,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


WITHOUT_JARS = """
import socket
import threading
from skyband import SkybandError
from skyband.spark import session
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run, explained

spark = session("local[1]", memory="600m", log="spark.log")
for name in ("kafka.yaml", "avro.yaml", "delta.yaml"):
    try:
        explained(spark, load(name))
    except SkybandError as error:
        print(error)
with socket.create_server(("127.0.0.1", PORT)):  # a job does not start where nobody listens
    try:
        with Run(spark, load("sink.yaml")) as run:
            run.prepare()
            run.go(threading.Event(), lambda: None)
    except SkybandError as error:
        print(error)
spark.stop()
"""


def test_connectors_that_are_missing(tmp_path: Path) -> None:
    """A session without their jars: one line each, with what to add."""
    source = {"format": "kafka", "json": FIELDS}
    source["options"] = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
    nobody = KafkaServer(tmp_path)
    write_job(tmp_path, nobody, "t", source=source).rename(tmp_path / "kafka.yaml")
    schema = '{"type": "record", "name": "R", "fields": [{"name": "ts", "type": "long"}]}'
    (tmp_path / "in").mkdir()
    source = {"format": "text", "path": "in", "avro": schema}
    write_job(tmp_path, nobody, "t", source=source).rename(tmp_path / "avro.yaml")
    source = {"format": "delta", "path": "in"}
    write_job(tmp_path, nobody, "t", source=source).rename(tmp_path / "delta.yaml")
    schema = "ts timestamp, id bigint, sector string, price double"
    parts = {"trigger": "batch", "checkpoint": None, "session": None}
    source = {"format": "csv", "path": "in", "schema": schema}
    write_job(tmp_path, nobody, "t", source=source, **parts).rename(tmp_path / "sink.yaml")
    script = WITHOUT_JARS.replace("PORT", str(nobody.port))
    words = process([sys.executable, "-c", script], tmp_path)
    assert words.splitlines() == [
        f"{prefix}{connectors.missing(name)}"
        for prefix, name in (
            ("the query stopped: ", "kafka"),
            ("", "avro"),
            ("the query stopped: ", "delta"),
            ("the query stopped: ", "kafka"),
        )
    ]
    assert words.startswith(
        "the query stopped: Spark has no connector for Kafka; expected the jars of "
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0; fix: write connect: {kafka: auto} in "
        "the job, or name the jars in session.settings: spark.jars.packages\n"
    )
