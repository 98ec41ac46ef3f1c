"""The rows of a file, ranked by a workload on an embedded Spark.

What is left of the rows after pruning goes to the local engine in one Python worker. All windows
become windows over plain whole numbers: times, or arrival numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from typing_extensions import override

from skyband.query import TopK
from skyband.spark.families.workload.boundaries import PANE, Boundaries, Era, placed_in_panes
from skyband.spark.files import (
    ANSWERS,
    Batches,
    FileRanking,
    best_of_panes,
    nonnull_array,
    tied_of_panes,
    windows,
)
from skyband.windows import CountWindow, over_ticks
from skyband.workload.queries import Workload
from skyband.workload.results import RankedByQuery


@dataclass(frozen=True)
class WorkloadFile(FileRanking):
    """How rows are ranked by all queries, which rank by the column ``score``.

    Staged are rows of one key. In the place of keys, answers have the numbers of queries: their
    places in the workload. Windows come by their ends, and then by query.
    """

    query: Workload

    @property
    @override
    def changes(self) -> bool:
        return self.query.model.emit == "changes"

    @property
    @override
    def shares_ranks(self) -> bool:
        return self.query.shares_ranks

    @override
    def pruned(self, rows: DataFrame) -> DataFrame:
        queries = self.query.queries.values()
        eras = (Era(None, Boundaries.of(query.window for query in queries)),)
        most = max(query.k for query in queries)
        placed = placed_in_panes(rows, eras, "place")
        ties, rank_by = self.query.pane_order
        if rank_by == "row_number":
            return best_of_panes(placed, F.col(PANE), most, ties == "oldest")
        shared = replace(self.query.model, k=most, rank_by=rank_by)
        return tied_of_panes(placed, F.col(PANE), shared).select(*rows.columns)

    @override
    def answer(self, batches: Batches) -> Batches:
        from skyband.workload.monitor import WorkloadMonitor

        queries = self.query.queries
        monitor = WorkloadMonitor(
            Workload({name: _over_places(query) for name, query in queries.items()}),
            self.algorithm,
            complete_from={
                name: 0 for name, query in queries.items() if getattr(query.window, "full", False)
            },
        )
        rate = sum(query.k / query.window.slide for query in queries.values())
        reach = max(1, int(ANSWERS / rate))  # places whose windows are answered at once
        last = None
        for batch in batches:
            place, score, row = (nonnull_array(batch, name) for name in ("place", "score", "row"))
            low = 0
            while low < len(place):
                high = int(np.searchsorted(place, int(place[low]) + reach))
                part = slice(low, high)
                last = int(place[high - 1])
                yield from self._windows(
                    monitor.push(score[part], ids=row[part], times=place[part], watermark=last)
                )
                low = high
        if last is None:
            return
        if self.query.counted:  # a window that rows do not complete is never answered
            yield from self._windows(monitor.push(watermark=last + 1))
        else:
            yield from self._windows(monitor.finish())

    def _windows(self, answers: RankedByQuery) -> Batches:
        """Answers as a batch, unless there are none."""
        ranked = answers.ranked
        if not len(ranked):
            return
        if self.query.counted:
            ranked = replace(ranked, window_start=np.maximum(ranked.window_start, 0))
        yield windows(answers.query, ranked)


def _over_places(query: TopK) -> TopK:
    """The same query over plain whole numbers."""
    window = query.window
    if isinstance(window, CountWindow):
        return replace(query, window=over_ticks(window.size, window.slide))
    return replace(query, window=replace(window, unit="tick"))
