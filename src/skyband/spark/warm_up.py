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

from skyband.spark.java_process import GONE
from skyband.spark.sessions import FAILURES

if TYPE_CHECKING:
    import pyarrow as pa


def start_workers(spark: SparkSession) -> threading.Thread:
    """Start a worker per core, and return at once; whatever goes wrong shows in the stream."""

    def run() -> None:
        with suppress(*FAILURES, *GONE):
            cores = spark.sparkContext.defaultParallelism
            rows = spark.range(0, cores, 1, cores)
            rows.mapInArrow(_load_modules, rows.schema).write.format("noop").mode("append").save()

    thread = threading.Thread(target=run, name="skyband workers", daemon=True)
    thread.start()
    return thread


def _load_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import what tasks import, in the worker that runs this."""
    import pandas  # noqa: F401  # PySpark does, for rows of a state
    from pyspark.sql.streaming import stateful_processor  # noqa: F401

    from skyband.spark.state import arrow_order, row_blocks, updates  # noqa: F401

    yield from batches
