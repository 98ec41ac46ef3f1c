"""Signals to commands: to the process, its group and all processes, at every moment of their life.

``timeout`` and a terminal signal the group, systemd every process of a service. ``make test`` runs
a selection that has every command, moment, signal and target; ``make faults`` runs all of it
(``SKYBAND_KILLS``).
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.command_line import OF_FAMILIES, Runner, timed
from tests.conftest import INTERPRETED_PLANS
from tests.signalled import Signalled, command, until
from tests.spark.scripts import EXAMPLES
from tests.spark.test_cli_run import START, job, ranked, write_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cli,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
CODES = {INT: 130, TERM: 143, HUP: 129}
TARGETS = ("process", "group", "all")
MOMENTS = {
    "run": ("begins", "Java starts", "in a batch", "idle"),
    "demo": ("begins", "Java starts", "in a batch"),
    "demo locally": ("begins", "in a batch"),
    "top on Spark": ("begins", "Java starts", "in a batch"),
    "top locally": ("begins", "in a batch", "idle"),
    "totals on Spark": ("in a batch",),
    "workload on Spark": ("in a batch",),
    "dominating on Spark": ("in a batch",),
    "incomplete on Spark": ("in a batch",),
    "totals locally": ("in a batch",),
    "workload locally": ("in a batch",),
    "dominating locally": ("in a batch",),
    "incomplete locally": ("in a batch",),
}


class Case(NamedTuple):
    command: str
    moment: str
    signal: signal.Signals
    target: str

    def __str__(self) -> str:
        return f"{self.command}, {self.moment}, {self.signal.name} to {self.target}"


SELECTED = [
    Case("run", "begins", TERM, "group"),
    Case("run", "Java starts", INT, "group"),
    Case("run", "in a batch", TERM, "group"),
    Case("run", "in a batch", HUP, "all"),
    Case("run", "idle", INT, "process"),
    Case("demo", "Java starts", HUP, "process"),
    Case("demo", "in a batch", INT, "group"),
    Case("demo locally", "in a batch", TERM, "group"),
    Case("top on Spark", "Java starts", TERM, "all"),
    Case("top on Spark", "in a batch", INT, "group"),
    Case("totals on Spark", "in a batch", TERM, "process"),
    Case("top locally", "begins", HUP, "group"),
    Case("top locally", "idle", TERM, "process"),
    Case("workload locally", "in a batch", INT, "group"),
    Case("dominating locally", "in a batch", HUP, "process"),
    Case("incomplete locally", "in a batch", TERM, "group"),
]
EVERY = [
    Case(name, moment, number, target)
    for name, moments in MOMENTS.items()
    for moment, number, target in itertools.product(moments, CODES, TARGETS)
]
THOROUGH = int(os.environ.get("SKYBAND_KILLS", "1")) > 1


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that every family can rank, and none within seconds if windows are long."""
    path = tmp_path_factory.mktemp("rows") / "many.csv"
    lines = [f"{at},{at * 7919 % 10007 / 101},{at % 997},{'ab'[at % 2]}" for at in range(200_000)]
    path.write_text("\n".join(["t,v,o,s", *lines]) + "\n")
    return path


def stream_job(home: Path, **changes: Any) -> Path:
    """A job that is idle after its first batch, for hours."""
    write_rows(home / "in", 0, 60)
    settings = {"master": "local[2,4]", "memory": "1g", "shuffle_partitions": 1}
    session = {**settings, "settings": INTERPRETED_PLANS}
    return job(home, **{"trigger": {"every": "5 hours"}, "session": session, **changes})


def resumed(run: Runner, spark: SparkSession, home: Path, **changes: Any) -> None:
    """Check that the job goes on from where it was, and that every window is there once."""
    write_rows(home / "in", 60, 90)
    ran = run("run", job(home, drain=True, **changes))
    assert ran.code == 0, ran.err
    for out in ("out", "archive") if "sinks" in changes else ("out",):
        assert ranked(spark, home / out) == expected_rows(), out


def expected_rows() -> list[tuple[Any, ...]]:
    """What the oracle says of the rows of all files."""
    ids, second = range(90), 1_000_000
    times = [int(START.timestamp() + at) * second for at in ids]
    scores = [float(at * 37 % 101) for at in ids]
    sectors = ["ab"[at % 2] for at in ids]
    windows = timed(scores, times, 20 * second, 10 * second, 2, keys=sectors)
    return sorted(
        (datetime.fromtimestamp(end / second), sectors[row], rank, score, row)
        for _, end, rank, score, row in windows
    )


def arguments(name: str, home: Path, rows: Path) -> list[object]:
    """The command line of a command."""
    if name == "run":
        return ["run", stream_job(home)]
    if name.startswith("demo"):
        engine = "local" if name.endswith("locally") else "spark"
        return ["demo", "--seconds", 100_000, "--engine", engine]
    family, _, place = name.partition(" ")
    engine = ["--engine", "local"]
    if place == "on Spark":
        engine = ["--engine", "spark", "--master", "local[2,4]"]
    if family == "workload":
        queries = home / "queries.csv"
        queries.write_text("name,k,window,slide\na,500,100000,1\nb,5,10000,1\n")
        return ["workload", rows, "--queries", queries, "--by", "v", *engine]
    windows = ["--k", 500, "--last", 100_000, "--slide", 1]
    return [family, rows, *OF_FAMILIES[family], *windows, *engine, "--format", "csv"]


def reach(running: Signalled, case: Case, rows: Path) -> None:
    """Wait until a command has come to a moment."""
    home, on_spark = running.home, not case.command.endswith("locally")
    moments: dict[str, Any] = {
        "begins": running.handles_signals,
        "Java starts": running.others,
        "in a batch": running.ranks_on_spark if on_spark else lambda: running.reads(rows),
        "idle": (home / "checkpoint" / "commits" / "0").exists,
    }
    if case.command == "demo":  # it reads millions of rows before Python has anything to do
        moments["in a batch"] = (home / "skyband-demo/checkpoint/offsets/0").exists
    if case.command == "demo locally":
        moments["in a batch"] = lambda: running.out
    if case.command == "top locally" and case.moment == "idle":
        moments["idle"] = lambda: list(running.temporary.glob("skyband-*/input"))
    running.wait_until(moments[case.moment], case.moment)


@pytest.mark.parametrize("case", EVERY if THOROUGH else SELECTED, ids=str)
def test_a_signal_ends_a_command_in_order(
    case: Case, run: Runner, spark: SparkSession, tmp_path: Path, many_rows: Path
) -> None:
    given = arguments(case.command, tmp_path, many_rows)
    if case.command == "top locally" and case.moment == "idle":
        given[1] = "-"  # waits for standard input
    with command(tmp_path, *given) as running:
        reach(running, case, many_rows)
        running.send(case.signal, case.target)
        running.ended(CODES[case.signal])
    if case.command == "run":
        assert f"skyband run {tmp_path / 'job.yaml'} goes on from here" in running.out or (
            case.moment == "begins" and not running.out
        )
        resumed(run, spark, tmp_path)


@pytest.mark.parametrize("number", list(CODES) if THOROUGH else [TERM])
def test_a_signal_ends_a_run_into_several_sinks(
    number: signal.Signals, run: Runner, spark: SparkSession, tmp_path: Path
) -> None:
    files = {"format": "parquet", "path": "out"}
    sinks = [files, {"name": "archive", "format": "parquet", "path": "archive"}]
    several = {"sink": None, "sinks": sinks}
    with command(tmp_path, "run", stream_job(tmp_path, **several)) as running:
        running.wait_until(running.ranks_on_spark, "in a batch")
        running.send(number, "group")
        running.ended(CODES[number])
    resumed(run, spark, tmp_path, **several)


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_signal_ends_the_fetching_of_jars(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: Spark has not been started yet."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexec sleep 600\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SKYBAND_JARS", str(tmp_path / "jars"))
    with command(tmp_path, "run", stream_job(tmp_path, connect={"avro": "auto"})) as running:
        running.wait_until(lambda: "sleep 600" in " ".join(running.others().values()), "a fetch")
        running.send(number, "group")
        running.ended(CODES[number])
    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.parametrize("target", TARGETS if THOROUGH else ["group"])
def test_a_second_signal_ends_a_run_at_once(
    run: Runner, spark: SparkSession, tmp_path: Path, target: str
) -> None:
    with command(tmp_path, "run", stream_job(tmp_path)) as running:
        running.wait_until(running.ranks_on_spark, "in a batch")
        running.send(INT, target)
        running.send(TERM, target)
        running.ended(130)
    resumed(run, spark, tmp_path)


@pytest.mark.parametrize("number", list(CODES) if THOROUGH else [TERM])
def test_a_signal_ends_the_example_without_a_checkpoint(
    tmp_path: Path, number: signal.Signals
) -> None:
    with command(tmp_path, "run", EXAMPLES / "jobs" / "live.yaml") as running:
        running.wait_until(running.ranks_on_spark, "in a batch")
        running.send(number, "group")  # as timeout does
        running.ended(CODES[number])


KILLED = ["run", "demo", "top on Spark"] if THOROUGH else ["run", "top on Spark"]


@pytest.mark.parametrize("name", KILLED)
def test_spark_that_is_gone_is_told_in_a_line(
    name: str, run: Runner, spark: SparkSession, tmp_path: Path, many_rows: Path
) -> None:
    with command(tmp_path, *arguments(name, tmp_path, many_rows)) as running:
        running.wait_until(running.ranks_on_spark, "in a batch")
        (java,) = running.java()
        os.kill(java, signal.SIGKILL)
        assert running.process.wait(180) == 2, running.err
    *_, line = running.err.splitlines()
    assert line.startswith("skyband: Spark is gone: its Java process has ended; fix: ")
    assert all(line.startswith("skyband: ") for line in running.err.splitlines()), running.err
    if name == "run":
        assert line.endswith(f"skyband run {tmp_path / 'job.yaml'} resumes from the checkpoint")
        resumed(run, spark, tmp_path)


OF_BENCHMARKS = ["the broker starts", "records are written", "records are ranked"]


@pytest.mark.parametrize("moment", OF_BENCHMARKS if THOROUGH else OF_BENCHMARKS[:2])
def test_a_signal_ends_a_benchmark_and_its_broker(tmp_path: Path, moment: str) -> None:
    with command(tmp_path, "bench", "spark-kafka", "--quick", "--rows", 100_000) as running:

        def has_broker() -> bool:
            return any("kafka.Kafka" in line for line in running.others().values())

        reached: dict[str, Any] = {
            "the broker starts": has_broker,
            "records are written": lambda: "writing 100,000 records" in running.err,
            "records are ranked": running.ranks_on_spark,
        }
        running.wait_until(reached[moment], moment)
        running.send(TERM, "process")
        assert running.process.wait(180) == 143, running.err
        until(lambda: not running.others(), "all processes end")
    assert "Traceback" not in running.err
    assert not list(running.temporary.glob("skyband-bench-*"))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[servers.RedisServer]:
    (tmp_path / "redis").mkdir()
    server = servers.RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


def test_a_signal_ends_the_wait_for_a_server(tmp_path: Path, redis: servers.RedisServer) -> None:
    options = {"url": redis.url, "board": "b", "patience": "1 hour"}
    sink = {"format": "redis", "options": options}
    file = stream_job(tmp_path, sink=sink, trigger={"every": "1 second"})
    with command(tmp_path, "run", file) as running:
        running.wait_until((tmp_path / "checkpoint/commits/0").exists, "a first batch")
        redis.stop()
        write_rows(tmp_path / "in", 60, 90)
        running.wait_until(lambda: "trying again in" in running.err, "it waits for the server")
        running.send(TERM, "group")
        assert running.process.wait(60) == 143
    assert "Traceback" not in running.err
    assert "goes on from here" in running.out
