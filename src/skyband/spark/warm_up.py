"""Has Spark's Python workers load what the tasks of a stream need, before the stream starts.

A worker lives on between tasks. Its first one loads PyArrow, pandas and our own modules, which
takes a second or more of a core; while a stream is planned, on one core, others have time for that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from skyband.spark.java_process import GONE
from skyband.spark.sessions import FAILURES

if TYPE_CHECKING:
    import pyarrow as pa


def start_workers(spark: SparkSession, scans: bool = False) -> threading.Thread:
    """Start a worker per core, and return at once; whatever goes wrong shows in the stream.

    Those of a stream whose tasks read files, which it ``scans``, load what that needs as well.
    """

    def run() -> None:
        with suppress(*FAILURES, *GONE):
            cores = spark.sparkContext.defaultParallelism
            rows = spark.range(0, cores, 1, cores)
            load = _load_scan if scans else _load_modules
            rows.mapInArrow(load, rows.schema).write.format("noop").mode("append").save()

    thread = threading.Thread(target=run, name="skyband workers", daemon=True)
    thread.start()
    return thread


_READY: set[str] = set()  # applications whose workers were started to read files


def start_scanning_workers(spark: SparkSession) -> None:
    """Start the workers of a session that will read files, once; not over Spark Connect."""
    if is_remote() or spark.sparkContext.applicationId in _READY:
        return
    _READY.add(spark.sparkContext.applicationId)
    start_workers(spark, scans=True)


def _load_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import what tasks import, in the worker that runs this."""
    import pandas  # noqa: F401  # PySpark does, for rows of a state
    from pyspark.sql.streaming import stateful_processor  # noqa: F401

    from skyband.spark.state import arrow_order, row_blocks, updates  # noqa: F401

    yield from batches


def _load_scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import what tasks need that read files, too, and load their kernels."""
    from skyband.spark.scan import pieces  # noqa: F401
    from skyband.spark.scan.reduction import load_kernels

    load_kernels()
    yield from _load_modules(batches)
