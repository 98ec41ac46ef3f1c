"""The objects of a file, staged as Parquet, ranked on an embedded Spark.

Without keys objects are spread over shards, as in :func:`skyband.spark.top_k_incomplete`. By key,
or for changes, rows go to the local engine in Python workers, key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.engine.adapter import Adapter, AnyMonitor
from skyband.engine.results import Ranked
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.families.incomplete.answer import top_k_incomplete
from skyband.spark.files import Staged, answerer, are_moments, by_key, read_ranks, uri
from skyband.windows import CountWindow, TimeWindow

if TYPE_CHECKING:
    from skyband.order import Ints

_ROWS = "key bigint, place bigint, row bigint, object bigint, value double, stream bigint"


def incomplete_windows(
    spark: SparkSession,
    staged: Staged,
    query: TopKIncomplete,
    algorithm: str,
    keyed: bool,
    out: Path,
    options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and their keys, part by part.

    ``staged`` holds the numbers of objects, values, and the places of streams in the query. ``out``
    is a directory that does not exist yet. ``options`` are the algorithm's own.
    """
    rows = spark.read.schema(_ROWS).parquet(uri(staged.rows))
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(_ROWS).parquet(uri(staged.ends)))
    apart = not keyed and query.emit == "all"
    if apart and (isinstance(query.window, CountWindow) or are_moments(rows)):
        return _by_shards(rows, query, algorithm, out, options)
    plain: Any = query  # whose windows are of the same shape as those of a score
    answer = answerer(plain, algorithm, ("value", "stream"), partial(_kind, options), "object")
    return by_key(rows.withColumn("stream", F.col("stream").cast("double")), plain, answer, out)


def _kind(options: Mapping[str, Any] | None) -> Callable[..., AnyMonitor]:
    from skyband.incomplete.monitor import IncompleteMonitor

    return partial(Adapter, IncompleteMonitor, _columns, options=options)


def _columns(rows: Any, ids: Any) -> tuple[Any, ...]:
    """What an :class:`IncompleteMonitor` takes, of a matrix of values and stream numbers."""
    return ids, rows[:, 1].astype(np.int64), np.ascontiguousarray(rows[:, 0])


def _by_shards(
    rows: DataFrame,
    query: TopKIncomplete,
    algorithm: str,
    out: Path,
    options: Mapping[str, Any] | None,
) -> Iterator[tuple[Ints, Ranked]]:
    names = [str(at) for at in range(len(query.streams))]
    pairs = zip(query.low.tolist(), query.high.tolist(), strict=True)
    plain = replace(query, streams=names, bounds=dict(zip(names, pairs, strict=True)))
    asked: dict[str, Any] = {
        "k": plain.k,
        "streams": names,
        "id": "object",
        "stream": "stream",
        "value": "value",
        "combine": plain.combine,
        "bounds": plain.bounds,
        "outside": plain.outside,
        "repeats": plain.repeats,
        "algorithm": algorithm,
        "options": options,
    }
    window = query.window
    if isinstance(window, TimeWindow):
        best = top_k_incomplete(
            rows.withColumn("at", F.timestamp_micros("place")),
            time="at",
            window=f"{window.size} microseconds",
            slide=f"{window.slide} microseconds",
            offset=f"{window.offset} microseconds",
            skew=None,
            **asked,
        )
        end = F.unix_micros("window.end")
    else:
        best = top_k_incomplete(
            rows,
            sequence="place",
            window=window.size,
            slide=window.slide,
            full=window.full,
            **asked,
        )
        end = F.col("window.end")
    best.select(end.alias("end"), "rank", "score", "object").write.parquet(uri(out))
    return read_ranks(out, query, "object")
