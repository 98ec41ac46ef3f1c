"""Independent: one monitor for each query of a workload, the baseline of sharing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, join, part
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.topk.monitor import Monitor
from skyband.windows import FOREVER, CountWindow, Window
from skyband.workload import can_share
from skyband.workload.sharing import QueryWindows, Sharing


class Independent:
    """Answers each query by itself, with the interface of :class:`Sharing`.

    Each has a MinTopk, as in the paper, or what the planner chooses for it (``algorithm="auto"``,
    and where no structure could be shared). Queries that are added late share a structure, which
    knows from where on each is complete; those that cannot have a monitor that begins there.

    Complexity: that of the algorithm, times the number of queries.
    """

    def __init__(self, algorithm: str, counted: bool, changes: bool, timed: bool) -> None:
        self.algorithm = algorithm
        self._counted = counted
        self._changes = changes
        self.monitors: dict[int, Monitor] = {}
        self.late = Sharing("mtopmerge", counted, changes, timed)
        self._late: set[int] = set()  # numbers of the queries in it
        self._joined: dict[int, _Joined] = {}  # monitors that came late

    def add(self, number: int, query: TopK, complete_from: int | None) -> None:
        """Take in a query, by number."""
        if complete_from is not None and can_share(query):
            self.late.add(number, query, complete_from)
            self._late.add(number)
            return
        if query.emit == "updates":  # those of all queries are reported together
            query = replace(query, emit="all", open_windows="all")
        if complete_from is not None:
            self._joined[number] = joined = _joined(query.window, complete_from)
            query = replace(query, window=joined.window)
        algorithm = self.algorithm if can_share(query) else "auto"
        if complete_from is not None and not query.window.panes.together:
            algorithm = "recompute"  # others want to see rows from their first window on
        self.monitors[number] = monitor = Monitor(query, algorithm)
        if complete_from is not None and not self._counted:
            monitor.pass_over(joined.first_bounds[1] - 1)

    def remove(self, number: int) -> None:
        """Forget a query."""
        if self.monitors.pop(number, None) is None:
            self.late.remove(number)
            self._late.remove(number)
        self._joined.pop(number, None)

    def first_complete(self, number: int) -> tuple[int, int]:
        """Bounds of the first window of a query that will be answered."""
        if number in self._joined:
            return self._joined[number].first_bounds
        return self.late.first_complete(number)

    @property
    def numbered(self) -> bool:
        """Whether rows must be numbered, for queries that were added late."""
        return bool(self._late) or bool(self._joined)

    def push_alone(self, score: Floats, ids: Ints | None) -> list[QueryWindows]:
        """Take in rows of count windows; each monitor numbers them by itself."""
        return [
            self._answered(number, monitor.push(score, ids=ids))
            for number, monitor in self.monitors.items()
        ]

    def _answered(self, number: int, ranked: Ranked) -> QueryWindows:
        if self._changes:
            ranked = _without_empty(ranked)
        if self._counted and number in self._joined:
            before = self._joined[number].begins
            ranked = replace(
                ranked,
                window_start=ranked.window_start + before,
                window_end=ranked.window_end + before,
            )
        return np.full(len(ranked), number, np.int64), ranked

    def _since(self, number: int, at: Ints) -> slice:
        """The rows, at ascending places, that a query may rank: all, unless it came late."""
        joined = self._joined.get(number)
        return slice(0 if joined is None else int(np.searchsorted(at, joined.begins)), None)

    def push(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, closed: int
    ) -> list[QueryWindows]:
        """Take in rows in sequence; answer what ends at the place ``closed`` or before."""
        answered = []
        for number, monitor in self.monitors.items():
            rows = self._since(number, at)
            if not self._counted:
                ranked = _push_timed(monitor, score[rows], at[rows], ids[rows], closed)
            elif number in self._joined:
                ranked = monitor.push(score[rows], ids=ids[rows])
            else:  # monitors give rows without ids their arrival numbers
                ranked = monitor.push(score, ids=None if ids is seq else ids)
            answered.append(self._answered(number, ranked))
        if self._late:
            answered += self.late.push(score, seq, at, ids, closed)
        return answered

    def run_ahead(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, newest: int
    ) -> list[QueryWindows]:
        """The rankings so far of all windows that are open, if these rows had come as well."""
        answered = []
        for number, monitor in self.monitors.items():
            part = self._since(number, at)
            rows = None if self._counted else Rows(score[part], ids[part], at[part])
            answered.append(self._answered(number, monitor.run_ahead(newest, False, rows)))
        if self._late:
            answered += self.late.run_ahead(score, seq, at, ids, newest)
        return answered

    def kept(self) -> Ints:
        """Ascending arrival numbers of the rows that may still win, for queries over counts."""
        parts = [
            monitor.kept() + (self._joined[number].begins if number in self._joined else 0)
            for number, monitor in self.monitors.items()
        ]
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


class _Joined(NamedTuple):
    """A query that came late: the place where its rows begin, and its first window.

    A monitor of count windows counts from there, and waits until its window is full; so that
    windows end where they would, it begins with a slide.
    """

    begins: int
    window: Window
    first_bounds: tuple[int, int]


def _joined(window: Window, complete_from: int) -> _Joined:
    """What to know of a query whose windows start at a place or later."""
    if isinstance(window, CountWindow):
        begins = -(-complete_from // window.slide) * window.slide
        end = begins - (-window.size // window.slide) * window.slide
        return _Joined(begins, replace(window, full=True), (end - window.size, end))
    panes = window.panes
    first = panes.last_window(complete_from - 1) + 1
    start = panes.start(first)
    return _Joined(start, window, (start, panes.end(first)))


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
