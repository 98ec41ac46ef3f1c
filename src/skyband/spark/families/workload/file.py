"""The rows of a file, staged as Parquet, ranked by a workload on an embedded Spark.

The best rows of the panes of all queries are found inside the JVM, in parallel, where panes hold
many more rows than can win. What is left goes to the local engine in one Python worker. All windows
become windows over plain whole numbers: times, or arrival numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.engine.results import Ranked
from skyband.query import TopK
from skyband.spark.families.workload.boundaries import Boundaries, Era
from skyband.spark.families.workload.panes import PANE, placed_in_panes
from skyband.spark.files import ROWS, Staged, own, uri
from skyband.windows import CountWindow, TimeWindow
from skyband.workload.queries import Workload

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.order import Ints
    from skyband.workload.results import RankedByQuery

WINDOWS = "query bigint, start bigint, end bigint, rows array<bigint>, scores array<double>"

_ANSWERS = 2_000_000  # ranked rows that one push should not exceed

Batches = Iterator["pa.RecordBatch"]


def ranked_workload(
    spark: SparkSession, staged: Staged, workload: Workload, algorithm: str, out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and the numbers of their queries, part by part.

    What :func:`skyband.spark.files.ranked_windows` is for one query: ``staged`` holds rows of
    one key, and for count windows its last arrival; ``staged.prune`` asks for the best of panes
    first, and may be True or False as is cheaper. The number of a query is its place in the
    workload; windows come in the order of the local engine, by their ends and then by query, and
    hold the same rows. ``out`` is a directory that does not exist yet. All queries rank by the
    column ``score``; what they emit must be "all".
    """
    rows = spark.read.schema(ROWS).parquet(uri(staged.rows))
    if staged.prune:
        rows = best_of_shared_panes(rows, workload)
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(ROWS).parquet(uri(staged.ends)))
    (
        rows.repartition(1)
        .sortWithinPartitions("place", "row")
        .mapInArrow(answerer(workload, algorithm), WINDOWS)
        .write.parquet(uri(out))
    )
    return _read(out)


def best_of_shared_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    """Only the rows among the best of their pane: no other can ever be in an answer."""
    queries = list(workload.queries.values())
    eras = (Era(None, Boundaries.of(query.window for query in queries)),)
    most = max(query.k for query in queries)
    best = F.max_by(F.struct("place", "row", "score"), F.struct("score", "place", "row"), most)
    found = placed_in_panes(rows, eras, "place").groupBy("key", PANE).agg(best.alias("best"))
    return found.select("key", F.inline("best"))


def answerer(workload: Workload, algorithm: str) -> Callable[[Batches], Batches]:
    """A function from sorted rows to the ranked windows of all queries."""
    plain = Workload({name: _over_places(query) for name, query in workload.queries.items()})
    windows = [query.window for query in workload.queries.values()]
    rate = sum(query.k / query.window.slide for query in workload.queries.values())
    reach = max(1, int(_ANSWERS / rate))  # places whose windows are answered at once
    full = np.array([getattr(window, "full", False) for window in windows])

    def answer(batches: Batches) -> Batches:
        from skyband.workload.monitor import WorkloadMonitor

        monitor = WorkloadMonitor(plain, algorithm)
        last = None
        for batch in batches:
            place, score, row = own(batch, "place"), own(batch, "score"), own(batch, "row")
            low = 0
            while low < len(place):
                until = int(place[low]) + reach
                high = int(np.searchsorted(place, until))
                part = slice(low, high)
                last = int(place[high - 1])
                told = monitor.push(score[part], ids=row[part], times=place[part], watermark=last)
                yield from _written(told, workload.counted, full)
                low = high
        if last is None:
            return
        if workload.counted:  # a window that rows do not complete is never answered
            yield from _written(monitor.push(watermark=last + 1), True, full)
        else:
            yield from _written(monitor.finish(), False, full)

    return answer


def _over_places(query: TopK) -> TopK:
    """The same query over plain whole numbers."""
    window = query.window
    if isinstance(window, CountWindow):
        return replace(query, window=TimeWindow(window.size, window.slide, 0, "tick"))
    return replace(query, window=replace(window, unit="tick"))


def _written(found: RankedByQuery, counted: bool, full: np.ndarray) -> Batches:
    """Ranked windows as a batch of :data:`WINDOWS`, without those that wait until they are full."""
    import pyarrow as pa

    ranked = found.ranked
    shown = (ranked.window_start >= 0) | ~full[found.query]
    if not shown.any():
        return
    start = np.maximum(ranked.window_start, 0) if counted else ranked.window_start
    offsets = pa.array(ranked.offsets.astype(np.int32))
    lists = [pa.ListArray.from_arrays(offsets, pa.array(v)) for v in (ranked.id, ranked.score)]
    columns = [pa.array(found.query), pa.array(start), pa.array(ranked.window_end), *lists]
    batch = pa.RecordBatch.from_arrays(columns, ["query", "start", "end", "rows", "scores"])
    yield batch if shown.all() else batch.filter(pa.array(shown))


def _read(directory: Path) -> Iterator[tuple[Ints, Ranked]]:
    """Ranked windows from the files that Spark wrote."""
    from pyarrow import parquet

    for file in sorted(directory.glob("*.parquet")):
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                offsets = np.from_dlpack(batch.column("rows").offsets).astype(np.int64)
                score, id = (
                    np.array(np.from_dlpack(batch.column(name).flatten()))
                    for name in ("scores", "rows")
                )
                yield (
                    own(batch, "query"),
                    Ranked(own(batch, "start"), own(batch, "end"), offsets - offsets[0], score, id),
                )
