"""Independent: one monitor for each query of a workload, the baseline of sharing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, join, part
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.topk.monitor import Monitor
from skyband.windows import FOREVER
from skyband.workload.sharing import QueryWindows, Sharing


class Independent:
    """Answers each query by itself, with the interface of :class:`Sharing`.

    Each has a MinTopk, as in the paper, or what the planner chooses for it (``algorithm="auto"``).
    Queries that are added late share a structure, which knows from where on each is complete.

    Complexity: that of the algorithm, times the number of queries.
    """

    def __init__(self, algorithm: str, counted: bool, changes: bool, timed: bool) -> None:
        self.algorithm = algorithm
        self._counted = counted
        self._changes = changes
        self.monitors: dict[int, Monitor] = {}
        self.late = Sharing("mtopmerge", counted, changes, timed)
        self._late: set[int] = set()  # numbers of the queries in it

    def add(self, number: int, query: TopK, complete_from: int | None) -> None:
        """Take in a query, by number."""
        if complete_from is None:
            if query.emit == "updates":  # those of all queries are reported together
                query = replace(query, emit="all", open_windows="all")
            self.monitors[number] = Monitor(query, self.algorithm)
            return
        self.late.add(number, query, complete_from)
        self._late.add(number)

    def remove(self, number: int) -> None:
        """Forget a query."""
        if self.monitors.pop(number, None) is None:
            self.late.remove(number)
            self._late.remove(number)

    def first_complete(self, number: int) -> tuple[int, int]:
        """Bounds of the first window of a query that will be answered."""
        return self.late.first_complete(number)

    @property
    def numbered(self) -> bool:
        """Whether rows must be numbered, for queries that were added late."""
        return bool(self._late)

    def push_alone(self, score: Floats, ids: Ints | None) -> list[QueryWindows]:
        """Take in rows of count windows; each monitor numbers them by itself."""
        return [
            self._answered(number, monitor.push(score, ids=ids))
            for number, monitor in self.monitors.items()
        ]

    def _answered(self, number: int, ranked: Ranked) -> QueryWindows:
        if self._changes:
            ranked = _without_empty(ranked)
        return np.full(len(ranked), number, np.int64), ranked

    def push(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, closed: int
    ) -> list[QueryWindows]:
        """Take in rows in sequence; answer what ends at the place ``closed`` or before."""
        if self._counted:  # monitors give rows without ids their arrival numbers
            answered = self.push_alone(score, None if ids is seq else ids)
        else:
            answered = [
                self._answered(number, _push_timed(monitor, score, at, ids, closed))
                for number, monitor in self.monitors.items()
            ]
        if self._late:
            answered += self.late.push(score, seq, at, ids, closed)
        return answered

    def run_ahead(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, newest: int
    ) -> list[QueryWindows]:
        """The rankings so far of all windows that are open, if these rows had come as well."""
        rows = None if self._counted else Rows(score, ids, at)
        answered = [
            self._answered(number, monitor.run_ahead(newest, False, rows))
            for number, monitor in self.monitors.items()
        ]
        if self._late:
            answered += self.late.run_ahead(score, seq, at, ids, newest)
        return answered

    def kept(self) -> Ints:
        """Ascending arrival numbers of the rows that may still win, for queries over counts."""
        parts = [monitor.kept() for monitor in self.monitors.values()]
        parts += [self.late.kept()] if self._late else []
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def state_bytes(self) -> int:
        """Bytes of memory that the states occupy."""
        alone = sum(monitor.state_bytes() for monitor in self.monitors.values())
        return alone + (self.late.state_bytes() if self._late else 0)

    def saved(self) -> Saved:
        """The state as plain values and named arrays."""
        monitors = {
            str(number): np.frombuffer(monitor.snapshot(), np.int8)
            for number, monitor in self.monitors.items()
        }
        late = self.late.saved() if self._late else ({}, {})
        return join({}, {"monitors": ({}, monitors), "late": late})

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`saved` gave; the queries are there already."""
        _, monitors = part("monitors", header, arrays)
        for number in self.monitors:
            self.monitors[number] = Monitor.restore(monitors[str(number)].tobytes())
        if self._late:
            self.late.restored(*part("late", header, arrays))


def _push_timed(monitor: Monitor, score: Floats, at: Ints, ids: Ints, closed: int) -> Ranked:
    if closed < FOREVER:
        return monitor.push(score, ids=ids, times=at, watermark=closed)
    monitor.push(score, ids=ids, times=at)
    return monitor.finish()


def _without_empty(ranked: Ranked) -> Ranked:
    """Only the windows in which anything changed."""
    changed = np.diff(ranked.offsets) > 0
    return Ranked(
        ranked.window_start[changed],
        ranked.window_end[changed],
        np.concatenate([[0], ranked.offsets[1:][changed]]),
        ranked.score,
        ranked.id,
        ranked.time,
        ranked.ranks,
        ranked.previous_rank,
        ranked.timed,
    )
