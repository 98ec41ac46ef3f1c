"""What all tests share: how Hypothesis draws, and one Spark session for each process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.java import hasten_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers import KafkaServer

# starting Spark takes seconds; what tests it asks for it
os.environ.setdefault("SKYBAND_ENGINE", "local")
# the jars of connectors go with the environment; make jars fetches them
os.environ.setdefault("SKYBAND_JARS", str(Path(sys.prefix) / "jars"))

hasten_java()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what is in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "skyband", deadline=None, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("skyband")

COMPILED_PLANS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
INTERPRETED_PLANS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Tests are many small queries, each run once: compiling Java code for each costs more."""

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark what uses the Spark session, so that ``make check`` can do without it."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of this process."""
    from skyband.spark import connectors, session
    from tests import hadoop

    home = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        # the default starts a process for each file that it looks at
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Spark would be told, in five calls for each of ours, which line makes a column
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **INTERPRETED_PLANS,
        **hadoop.settings(),
    }
    spark_session = session(
        "local[2,4]",
        shuffle_partitions=2,
        memory="1g",
        log=home / "spark.log",
        settings=connectors.settings({"kafka": "auto", "avro": "auto"}, settings),
    )
    yield spark_session
    spark_session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of Kafka of this process."""
    from tests.servers import KafkaServer

    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def compiled_plans(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile the plans of a test that reads a million rows."""
    for settings in (COMPILED_PLANS, INTERPRETED_PLANS):
        for name, value in settings.items():
            spark.conf.set(name, value)
        if settings is COMPILED_PLANS:
            yield


@pytest.fixture
def lasting_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The Spark session of this process, which outlasts those who stop it."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    return spark
