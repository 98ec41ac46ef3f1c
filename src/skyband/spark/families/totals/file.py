"""The keys of a file, staged as Parquet, ranked by their totals on an embedded Spark.

Without keys of their own rankings are spread over shards, as in :func:`skyband.spark.top_k`. By
key, or for changes, rows go to the local engine in Python workers, key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.engine.adapter import Adapter, AnyMonitor
from skyband.engine.results import Ranked
from skyband.spark.families.top_k import top_k
from skyband.spark.files import Staged, answerer, are_moments, by_key, read_ranks, uri
from skyband.totals.query import TopKTotals
from skyband.windows import CountWindow

if TYPE_CHECKING:
    from skyband.order import Ints

_ROWS = "key bigint, place bigint, row bigint, object bigint, value double"


def totals_windows(
    spark: SparkSession, staged: Staged, query: TopKTotals, keyed: bool, out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and their keys, part by part.

    ``staged`` holds the numbers of the keys that rows are added up by, and values. ``out`` is a
    directory that does not exist yet.
    """
    rows = spark.read.schema(_ROWS).parquet(uri(staged.rows))
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(_ROWS).parquet(uri(staged.ends)))
    if not keyed and query.emit == "all" and are_moments(rows):
        return _by_shards(rows, query, out)
    plain: Any = query  # whose windows are of the same shape as those of a score
    return by_key(rows, plain, answerer(plain, "auto", ("value",), _kind, "object"), out)


def _kind() -> Callable[..., AnyMonitor]:
    from skyband.totals.monitor import TotalsMonitor

    return partial(Adapter, TotalsMonitor, _columns)


def _columns(rows: Any, ids: Any) -> tuple[Any, ...]:
    """What a :class:`TotalsMonitor` takes, of a matrix of values."""
    return ids, np.ascontiguousarray(rows[:, 0])


def _by_shards(rows: DataFrame, query: TopKTotals, out: Path) -> Iterator[tuple[Ints, Ranked]]:
    """Rankings of all rows; arrivals are as good as moments, if windows end with the last one."""
    window = query.window
    best = top_k(
        rows.withColumn("at", F.timestamp_micros("place")),
        k=query.k,
        by=f"{'avg' if query.by == 'mean' else query.by}(value)",
        key="object",
        time="at",
        window=f"{window.size} microseconds",
        slide=f"{window.slide} microseconds",
        offset=f"{getattr(window, 'offset', 0)} microseconds",
        skew=None,
    )
    best = best.select(F.unix_micros("window.end").alias("end"), "rank", "score", "object")
    if isinstance(window, CountWindow):
        last = rows.agg((F.max("place") + 1).alias("last")).collect()[0]["last"]
        first = window.size if window.full else 0
        best = best.filter((F.col("end") <= (last or 0)) & (F.col("end") >= first))
    best.write.parquet(uri(out))
    return read_ranks(out, query, "object")
