"""A Spark session with the settings that exact, restartable streams need."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from skyband.errors import QueryError, SkybandError
from skyband.spark import java_process
from skyband.spark.cluster.masters import require_master
from skyband.spark.java_process import ENDING_SIGNALS, launching
from skyband.spark.spark_home import linked_home

FAILURES = (PySparkException, Py4JError)
"""What is raised where Spark fails."""

_REFUSED = re.compile(r"^skyband\.errors\.\w+: (.+)$", re.MULTILINE)  # by Python

LOCAL = "local[*,4]"
"""All cores; a task may fail three times, so a lost Python worker does not end a query."""

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "true",
    # beyond so many groups collect_list sorts all rows instead; the default, 128, is soon passed.
    # max_by of k rows always sorts: Spark hashes only with a typed aggregate, and no faster
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
    "spark.sql.reflect.allowList": "^$",  # matches nothing: SQL text may not call Java
    # tasks of a state never shorten a traceback. If others did, Spark would start Python workers of
    # two kinds, and each of them loads everything
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str | None = None,
    *,
    app: str = "skyband",
    shuffle_partitions: int | None = None,
    memory: str | None = None,
    log: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session, or return the one that is running.

    ``master`` is all cores of this machine unless it names a cluster. ``shuffle_partitions`` are
    frozen into a checkpoint by its first run: by default one per core, at most 8. What Spark says
    goes to the file ``log``, by default one in the temporary directory. ``settings`` come last and
    win.

    Example::

        from skyband.spark import session
        spark = session()                                  # embedded
        spark = session("spark://host:7077")               # a cluster
        spark = session("sc://host:15002")                 # a Spark Connect server
    """
    conf = {**SETTINGS, **(settings or {})}
    local = master is None or master.startswith("local")
    partitions = shuffle_partitions or min(8, os.cpu_count() or 2)
    if partitions < 1:
        raise QueryError(f"shuffle_partitions is {shuffle_partitions}", "at least 1")
    conf.setdefault("spark.sql.shuffle.partitions", str(partitions))
    if local:
        require_java()
        conf.setdefault("spark.driver.memory", memory or _memory())
        conf.setdefault("spark.driver.bindAddress", "127.0.0.1")
        conf.setdefault("spark.driver.host", "127.0.0.1")
    elif memory is not None:
        conf.setdefault("spark.driver.memory", memory)
    if master is not None:
        require_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    for kind in ("SQL", "DataFrame"):  # errors are raised; nobody wants them on stderr as well
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").setLevel("CRITICAL")
    logging.getLogger().addFilter(_is_not_of_py4j)
    # what a signal cuts short, Py4J also logs at length, from loggers of its own
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    path = log_file() if log is None else Path(log)
    try:
        if master is not None and master.startswith("sc://"):
            return connected(master, app, conf)
        builder = SparkSession.builder.master(master or LOCAL).appName(app)
        for name, value in conf.items():
            builder = builder.config(name, value)
        # a cluster's executors get the archives of Spark's own home
        home = linked_home() if local else None
        with _interrupts_later(), _chatter_to(path), launching(home):
            return builder.getOrCreate()
    except (*FAILURES, RuntimeError) as error:
        raise SkybandError(
            f"Spark did not start on {master or LOCAL}: {spark_message(error)}",
            "a master that Spark knows, and Java 17 or later",
            f"its own words are in {path}",
        ) from None


def connected(server: str, app: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server, with what it lets its clients set."""
    spark = SparkSession.builder.remote(server).appName(app).getOrCreate()
    for name, value in settings.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


def spark_message(error: Exception) -> str:
    """What Spark says of a failure, in one line: without its class, its plan and its traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[1].startswith(": "):  # Java: the first line tells who called
        return re.sub(r"^: [\w.$]+: ", "", lines[1])
    return re.sub(r"^\[[\w.]+\] ", "", lines[0]) if lines else type(error).__name__


def refusal(error: BaseException) -> str | None:
    """What a Python worker said when it refused the data; None if Spark failed otherwise."""
    refused = _REFUSED.search(str(error))
    return None if refused is None else refused[1]


def log_file() -> Path:
    """Where an embedded Spark writes what it has to say."""
    return Path(tempfile.gettempdir()) / f"skyband-spark-{os.getpid()}.log"


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record does not come from Py4J, which raises what it logs in the root's name."""
    return "py4j" not in Path(record.pathname).parts


def require_java() -> None:
    """Refuse to go on where there is nothing that Spark could run on."""
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise SkybandError(
        "there is no Java here",
        "Java 17 or later, which Spark runs on",
        "install a JDK, or set JAVA_HOME, or rank files with --engine local",
    )


def _memory() -> str:
    """A quarter of the machine's memory, 1 to 4 GiB."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{max(1, min(4, whole // 4))}g"


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold signals back: a Java that is abandoned while it starts would never end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def note(number: int, frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:  # in haste: what starts is not waited for
            java_process.kill()

    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            # Spark's own handler cancels jobs on Ctrl-C: it is for those who have none
            if handler is not signal.default_int_handler or signal.getsignal(number) is note:
                signal.signal(number, handler)
        for received in seen:
            signal.raise_signal(received)


@contextmanager
def _chatter_to(path: Path) -> Iterator[None]:
    """Give what starts within this block another stderr: Java's, and its workers'."""
    sys.stderr.flush()
    own = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(target)
