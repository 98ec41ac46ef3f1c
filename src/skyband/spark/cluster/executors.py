"""The executors of a cluster: waited for, asked what they have, and given what they lack."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from skyband.errors import SkybandError
from skyband.spark.cluster import package, probe
from skyband.spark.cluster.masters import is_cluster
from skyband.spark.cluster.probe import Report

LOG = logging.getLogger("skyband.cluster")

_PATIENCE = 5.0  # seconds without executors until that is said
_AGAIN = 60.0  # seconds until it is said again
_POLL = 0.2
_MARK = ".skyband-"


def prepare(
    spark: SparkSession,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    stop: threading.Event | None = None,
) -> None:
    """Have executors ready for a query, or raise what they lack.

    Each must have the driver's Python, the packages that workers import and a folder in which
    compiled kernels can be kept. Skyband is sent to them unless the very same is there. ``reads``
    and ``writes`` are paths on this machine that they must see, too. ``stop`` ends the waiting for
    the first executor.
    """
    stop = stop or threading.Event()
    digest = package.digest()
    reads = [place for place in reads if os.path.exists(place)]  # else Spark says so
    with _marked(writes) as marks:
        reports = _reports(spark, digest, [*reads, *marks], stop)
        if any(each.digest != digest for each in reports):
            context: Any = spark.sparkContext
            folder = Path(context._temp_dir)  # lasts as long as executors may come and fetch it
            context.addPyFile(str(package.write_archive(folder)))
            reports = _reports(spark, digest, [*reads, *marks], stop)
    for each in reports:
        _check(each, digest)


def _check(report: Report, digest: str) -> None:
    where = f"on {report.host}"
    if report.missing:
        raise SkybandError(
            f"executors lack {', '.join(report.missing)}: {report.python} {where}",
            f"{', '.join(probe.PACKAGES)} for the Python of executors",
            "install them there, or name another Python in the environment: PYSPARK_PYTHON",
        )
    if report.unwritable is not None:
        raise SkybandError(
            f"executors cannot keep compiled kernels in {report.unwritable} {where}",
            "a folder that they can write: else each of them compiles for minutes",
            "name one in session.settings: spark.executorEnv.NUMBA_CACHE_DIR",
        )
    if report.digest != digest:
        raise SkybandError(
            f"executors have another Skyband than the driver: {report.python} {where}",
            "the same release",
            "install it there",
        )
    if report.unseen:
        place = report.unseen[0].partition(f"/{_MARK}")[0]
        raise SkybandError(
            f"executors {where} do not see what this machine has in {place}",
            "source, sink and checkpoint on a file system that all of them share",
            "name it with its scheme, such as hdfs:// or s3a://, or mount it everywhere",
        )


@contextmanager
def _marked(places: Sequence[str]) -> Iterator[list[str]]:
    """Leave an empty file for executors to see, as near to each place as there is a directory."""
    folders = {
        next(each for each in (place, *place.parents) if each.is_dir())
        for place in map(Path, places)
    }
    with ExitStack() as stack:
        marks = []
        for folder in folders:
            with suppress(OSError):  # then Spark says what is wrong with it
                mark = stack.enter_context(tempfile.NamedTemporaryFile(prefix=_MARK, dir=folder))
                marks.append(mark.name)
        yield marks


def _reports(
    spark: SparkSession, digest: str, places: list[str], stop: threading.Event
) -> list[Report]:
    """What executors have, each asked at least once if all of them are free.

    In a thread of its own, since nobody knows when the first executor comes.
    """
    context, look = spark.sparkContext, probe.report
    pickling: Any = cloudpickle
    reports: list[Report] = []
    failed: list[Exception] = []

    def ask() -> None:
        tasks = 2 * context.defaultParallelism
        pickling.register_pickle_by_value(probe)
        try:
            answers = context.parallelize(range(tasks), tasks).map(lambda _: look(digest, places))
            rows = answers.collect()
        except Exception as error:
            failed.append(error)
        else:
            reports.extend(Report(*row) for row in rows)
        finally:
            pickling.unregister_pickle_by_value(probe)

    asking = threading.Thread(target=ask, name="skyband executors", daemon=True)
    asking.start()
    shortage = Shortage(spark)
    while asking.is_alive() and not stop.is_set():
        asking.join(_POLL)
        shortage.look()
    if failed and not stop.is_set():
        raise failed[0]
    return list(reports)


class Shortage:
    """Says when there is work but no executor to do it, while that lasts."""

    def __init__(self, spark: SparkSession) -> None:
        classic = not is_remote() and is_cluster(spark.conf.get("spark.master"))
        self._context: Any = spark.sparkContext if classic else None
        self._since: float | None = None
        self._next_look = self._next_line = 0.0

    def look(self) -> None:
        """Say it, if it is time to; costs nothing in between."""
        now = time.monotonic()
        if self._context is None or now < self._next_look:
            return
        self._next_look = now + _PATIENCE
        try:
            executors = self._context._jsc.sc().getExecutorMemoryStatus().size() - 1
            idle = not self._context.statusTracker().getActiveStageIds()
        except Exception:  # Spark has ended: whoever waits for it will say so
            return
        if executors or idle:
            if executors and self._next_line:
                LOG.warning("executors are there again")
            self._since, self._next_line = None, 0.0
        elif self._since is None:
            self._since = now
        elif now >= self._next_line:
            self._next_line = now + _AGAIN
            LOG.warning(
                "waiting for executors, for %.0f seconds now: %s has none for this application; "
                "are there workers with enough free cores and memory?",
                *(now - self._since, self._context.master),
            )
