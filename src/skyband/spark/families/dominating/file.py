"""The points of a file, staged as Parquet, ranked on an embedded Spark.

All rows together are counted by shards, as in :func:`skyband.spark.top_k_dominating`. By key, for
changes, or with an algorithm by name, rows go to the local engine in Python workers, key by key.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.dominating.query import TopKDominating
from skyband.engine.results import Ranked
from skyband.spark.families.dominating.answer import top_k_dominating
from skyband.spark.files import Staged, answerer, are_moments, by_key, read_ranks, uri
from skyband.windows import CountWindow, TimeWindow

if TYPE_CHECKING:
    from skyband.dominating.monitor import DominatingMonitor
    from skyband.order import Ints


def dominating_windows(
    spark: SparkSession,
    staged: Staged,
    query: TopKDominating,
    algorithm: str,
    keyed: bool,
    out: Path,
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and their keys, part by part.

    ``staged`` holds a column ``number_0``, ``number_1``, ... per dimension. ``out`` is a directory
    that does not exist yet.
    """
    numbers = tuple(f"number_{at}" for at in range(len(query.dimensions)))
    schema = "key bigint, place bigint, row bigint, " + ", ".join(f"{n} double" for n in numbers)
    rows = spark.read.schema(schema).parquet(uri(staged.rows))
    apart = not keyed and algorithm == "auto" and query.emit == "all"
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(schema).parquet(uri(staged.ends)))
    if apart and (isinstance(query.window, CountWindow) or are_moments(rows)):
        return _by_shards(rows, query, numbers, out)
    plain: Any = query  # whose windows are of the same shape as those of a score
    return by_key(rows, plain, answerer(plain, algorithm, numbers, _kind), out)


def _kind() -> type[DominatingMonitor]:
    from skyband.dominating.monitor import DominatingMonitor

    return DominatingMonitor


def _by_shards(
    rows: DataFrame, query: TopKDominating, numbers: tuple[str, ...], out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    window = query.window
    dimensions = [(n, way) for n, (_, way) in zip(numbers, query.dimensions, strict=True)]
    if isinstance(window, TimeWindow):
        best = top_k_dominating(
            rows.withColumn("at", F.timestamp_micros("place")),
            k=query.k,
            dimensions=dimensions,
            time="at",
            window=f"{window.size} microseconds",
            slide=f"{window.slide} microseconds",
            offset=f"{window.offset} microseconds",
            id="row",
            keep="row",
            skew=None,
        )
        end = F.unix_micros("window.end")
    else:
        best = top_k_dominating(
            rows,
            k=query.k,
            dimensions=dimensions,
            sequence="place",
            window=window.size,
            slide=window.slide,
            full=window.full,
            id="row",
            keep="row",
        )
        end = F.col("window.end")
    best.select(end.alias("end"), "rank", "score", "row").write.parquet(uri(out))
    return read_ranks(out, query, "row")
