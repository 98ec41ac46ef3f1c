"""A key that runs the local engine: a monitor, and the columns of the rows that it may report.

A monitor knows rows by their arrival numbers; what the query carries of them is kept beside it. In
Spark's state a monitor is its snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engine.results import Ranked
from skyband.spark.axis import PaneGrid
from skyband.spark.state.candidates import Answer, Column

if TYPE_CHECKING:
    from skyband.engine.monitor import BaseMonitor

Ranks = tuple[list[int] | None, list[int] | None]
"""Ranks, where rows share them or changes are told, and previous ranks of changes."""


@dataclass
class EngineRows:
    """Maintains a monitor, and the carried columns of the rows that it may still report."""

    monitor: BaseMonitor[Any]
    ids: Column = field(default_factory=list)  # arrival numbers of the rows below
    columns: list[Column] = field(default_factory=list)

    def carry(self, rows: int, columns: list[Column]) -> None:
        """Remember the columns of rows that arrive now."""
        base = self.monitor.arrived
        self.ids.extend(range(base, base + rows))
        for carried, new in zip(self.columns, columns, strict=True):
            carried.extend(new)

    def answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with the columns of their rows; then those are let go that are of no more use."""
        place = np.searchsorted(np.array(self.ids, np.int64), ranked.id).tolist()
        revisions = revisions_by_window(ranked, self.monitor.query)
        for window, low, high, ranks in ranked_windows(ranked, self.monitor.query):
            some = place[low:high]
            columns = [[column[at] for at in some] for column in self.columns]
            answer = Answer(window, ranked.score[low:high].tolist(), columns, *ranks)
            yield answer._replace(**revisions.get(window, {}))
        self._forget()

    def _forget(self) -> None:
        """Let go of the columns of rows that can no longer be reported."""
        reportable = set(self.monitor.kept().tolist())
        where = [at for at, number in enumerate(self.ids) if number in reportable]
        self.ids = [self.ids[at] for at in where]
        self.columns = [[column[at] for at in where] for column in self.columns]


def revisions_by_window(ranked: Ranked, query: Any) -> dict[int, dict[str, Any]]:
    """Which revision each window is, and whether the last, if it is told."""
    if ranked.final is None or ranked.revision is None:
        return {}
    numbers = PaneGrid.of(query.window).window_at(ranked.window_end).tolist()
    revisions = zip(numbers, ranked.revision.tolist(), ranked.final.tolist(), strict=True)
    return {n: {"revision": revision, "final": final} for n, revision, final in revisions}


def ranked_windows(ranked: Ranked, query: Any) -> Iterator[tuple[int, int, int, Ranks]]:
    """The windows that rank anything: number, where their rows begin and end, given ranks."""
    numbers = PaneGrid.of(query.window).window_at(ranked.window_end).tolist()
    cuts = ranked.offsets.tolist()
    columns = (ranked.ranks, ranked.previous_rank)
    ranks = [None if column is None else column.tolist() for column in columns]
    for at, number in enumerate(numbers):
        low, high = cuts[at], cuts[at + 1]
        if low == high:
            continue
        rank, previous = (None if column is None else column[low:high] for column in ranks)
        yield number, low, high, (rank, previous)
