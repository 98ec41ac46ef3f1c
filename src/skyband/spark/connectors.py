"""The connectors of Spark that come as jars: which of them fit the running Spark.

``connect: {kafka: auto}`` in a job adds them to the session. They are fetched once, by the Ivy that
Spark has, each by its name: a release of Spark is not always followed by all parts of a connector,
and a part of an earlier one that ran is better than none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from skyband.errors import QueryError, SkybandError
from skyband.spark.java_process import ENDING_SIGNALS

PACKAGES, JARS = "spark.jars.packages", "spark.jars"
EXTENSIONS = "spark.sql.extensions"
_MOST_SECONDS = 600.0  # that a fetch may take


@dataclass(frozen=True)
class Connector:
    """A connector: the coordinate that Spark resolves, and the jars that it is made of.

    ``ran_with`` are the releases of Spark that it was tried with, ``settings`` what a session needs
    besides.
    """

    coordinate: str
    jars: tuple[str, ...]
    ran_with: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


CONNECTORS = {
    "kafka": Connector(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ),
        ("4.2", "4.3"),
    ),
    "avro": Connector(
        "org.apache.spark:spark-avro_2.13:4.1.1",
        ("org.apache.spark:spark-avro_2.13:4.1.1",),
        ("4.2", "4.3"),
    ),
    "delta": Connector(
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        (
            "io.delta:delta-spark_4.2_2.13:4.4.0",
            "io.delta:delta-storage:4.4.0",
            "io.delta:delta-kernel-api:4.4.0",
            "io.delta:delta-kernel-defaults:4.4.0",
            "io.delta:delta-kernel-unitycatalog:4.4.0",
        ),
        ("4.2",),
        {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
}
"""Connectors by the names that jobs have for them."""


def connector(name: str) -> Connector:
    """The connector of a name that fits the running Spark."""
    known = CONNECTORS[name]
    if not fits(known):
        raise QueryError(
            f"no {name} connector is known for Spark {pyspark.__version__}",
            f"Spark {' or '.join(known.ran_with)}",
            f"write connect: {{{name}: group:artifact:version}}",
        )
    return known


def missing(name: str) -> QueryError:
    """An error for a session that has not the jars of a connector."""
    return QueryError(*lacking(name))


def lacking(name: str) -> tuple[str, str, str]:
    """What is missing without a connector, what is expected, and how to add it."""
    known = CONNECTORS[name]
    at = "auto"
    expected = f"the jars of {known.coordinate}"
    if not fits(known):
        at = "group:artifact:version"
        expected = f"its jars, which are known for Spark {' and '.join(known.ran_with)} alone"
    return (
        f"Spark has no connector for {name.capitalize()}",
        expected,
        f"write connect: {{{name}: {at}}} in the job, or name the jars in session.settings: "
        "spark.jars.packages",
    )


def fits(connector: Connector) -> bool:
    """Whether a connector ran with this release of Spark."""
    return ".".join(pyspark.__version__.split(".")[:2]) in connector.ran_with


def check(connect: Mapping[str, str]) -> None:
    """Refuse names that are not known, and connectors that do not fit the running Spark."""
    for name, at in connect.items():
        if name not in CONNECTORS:
            raise QueryError(f"connect names {name!r}", f"one of {', '.join(CONNECTORS)}")
        if at == "auto":
            connector(name)
        elif at.count(":") != 2:
            raise QueryError(
                f"connect.{name} is {at!r}", "auto, or a coordinate: group:artifact:version"
            )


def settings(connect: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session with the jars that a job connects with, beside those it names.

    Jars of ``auto`` are fetched here, unless they are there; what is named by its coordinate is
    left to Spark.
    """
    check(connect)
    added: dict[str, list[str]] = {JARS: [], PACKAGES: []}
    needed: dict[str, str] = {}
    for name, at in connect.items():
        if at == "auto":
            added[JARS] += map(str, fetched(connector(name).jars))
        else:
            added[PACKAGES].append(at)
        needed |= CONNECTORS[name].settings
    joined = {
        setting: ",".join([*filter(None, [others.get(setting)]), *values])
        for setting, values in added.items()
        if values
    }
    extensions = [*filter(None, others.get(EXTENSIONS, "").split(","))]
    if EXTENSIONS in needed and needed[EXTENSIONS] not in map(str.strip, extensions):
        joined[EXTENSIONS] = ",".join([*extensions, needed[EXTENSIONS]])
    return {**needed, **others, **joined}


def missing_jars(connect: Mapping[str, str]) -> list[str]:
    """The coordinates of jars of ``auto`` that are to be fetched."""
    jars = [jar for name, at in connect.items() if at == "auto" for jar in connector(name).jars]
    return [jar for jar in jars if not _file(jar).exists()]


def _file(coordinate: str) -> Path:
    """Where a fetched jar stays."""
    _, name, version = coordinate.split(":")
    return folder() / f"{name}-{version}.jar"


def folder() -> Path:
    """Where fetched jars stay: ``SKYBAND_JARS``, or the user's cache."""
    chosen = os.environ.get("SKYBAND_JARS")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "skyband" / "jars"


def fetched(coordinates: Sequence[str]) -> list[Path]:
    """The jars of these coordinates, without what they depend on; those not there are fetched."""
    missing = [jar for jar in coordinates if not _file(jar).exists()]
    if missing:
        fetch(missing, folder(), with_dependencies=False)
    return [_file(jar) for jar in coordinates]


def fetch(coordinates: Sequence[str], target: Path, *, with_dependencies: bool) -> None:
    """Fetch jars from Maven Central into a folder: all of them, or none."""
    spark = Path(pyspark.__file__).parent / "jars"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    with _staging(target) as name:
        wanted = Path(name) / "ivy.xml"
        wanted.write_text(_module(coordinates, with_dependencies), encoding="utf-8")
        ivy = [java, "-cp", f"{spark}/*", "org.apache.ivy.Main", "-m2compatible"]
        ivy += ["-cache", f"{name}/cache", "-ivy", str(wanted), "-confs", "default"]
        ivy += ["-types", "jar", "bundle", "-retrieve", f"{name}/jars/[artifact]-[revision].[ext]"]
        reason = _failure(ivy)
        if reason is not None:
            names = [at.split(":")[1] + "-" + at.split(":")[2] + ".jar" for at in coordinates]
            raise SkybandError(
                f"jars cannot be fetched: {reason}",
                "Maven Central within reach",
                f"put {', '.join(names)} into {target}",
            )
        for file in Path(name, "jars").glob("*.jar"):
            shutil.move(file, target / file.name)


@contextmanager
def _staging(target: Path) -> Iterator[str]:
    """A folder beside the jars that are there, for those that come."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        staging = tempfile.TemporaryDirectory(dir=target, prefix=".fetching-")
    except OSError as error:
        raise SkybandError(
            f"jars cannot be put into {target}: {error.strerror}",
            "a folder that can be written",
            "name another in the environment: SKYBAND_JARS",
        ) from None
    with staging as name:
        yield name


def _failure(ivy: Sequence[str]) -> str | None:
    """Run Ivy; why it failed, None if it did not.

    It is deaf to signals that end us, which often reach all our processes: who is interrupted here
    ends it, and what it could not finish is no failure.
    """

    def ignore_signals() -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    starting: Future[subprocess.Popen[str]] | None = None
    try:
        # from a thread: a signal that interrupts the start of a process leaves it behind
        with ThreadPoolExecutor(1) as starter:
            starting = starter.submit(
                subprocess.Popen[str],
                ivy,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                preexec_fn=ignore_signals,
            )
        return _outcome(starting.result())
    except subprocess.TimeoutExpired:
        return f"Ivy has not ended after {_MOST_SECONDS:.0f} seconds"
    except OSError as error:
        raise SkybandError(
            f"Java cannot be started, which fetches jars: {ivy[0]}: {error.strerror}",
            "Java 17 or later",
            "install it, or name its folder in the environment: JAVA_HOME",
        ) from None
    finally:
        if starting is not None and starting.exception() is None:
            starting.result().kill()


def _outcome(ivy: subprocess.Popen[str]) -> str | None:
    """Wait for Ivy; why it failed, None if it did not."""
    with ivy:
        try:
            output, _ = ivy.communicate(timeout=_MOST_SECONDS)
        except BaseException:
            ivy.kill()
            raise
    if ivy.returncode < 0:
        return f"Ivy was killed by {signal.Signals(-ivy.returncode).name}"
    return _reason(output) if ivy.returncode else None


def _module(coordinates: Sequence[str], with_dependencies: bool) -> str:
    """A module of Ivy that depends on these."""
    transitive = str(with_dependencies).lower()
    lines = [
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="{transitive}" '
        'conf="default->default"/>'
        for group, name, version in (at.split(":") for at in coordinates)
    ]
    return (
        '<ivy-module version="2.0"><info organisation="skyband" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _reason(output: str) -> str:
    """The line in which Ivy says what it did not find."""
    lines = [line.strip(" \t:") for line in output.splitlines() if "not found" in line]
    return lines[-1] if lines else "Ivy failed"
