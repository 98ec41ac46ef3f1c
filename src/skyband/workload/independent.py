"""Independent: one monitor for each query of a workload. What sharing is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.engine.watermark import FOREVER
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.topk.monitor import TopKMonitor
from skyband.workload.sharing import Found, Sharing


class Independent:
    """Answers each query by itself, in the way that :class:`Sharing` answers all of them.

    Each has a MinTopk, as in the paper, or what the planner chooses for it (``algorithm="auto"``).
    Queries that come late share a structure, which knows where in the stream each began.

    Complexity: that of the algorithm, times the number of queries.
    """

    def __init__(self, algorithm: str, counted: bool, changes: bool, timed: bool) -> None:
        self.algorithm = algorithm
        self._kind = (counted, changes, timed)
        self.alone: dict[int, TopKMonitor] = {}
        self.late = Sharing("mtopmerge", counted, changes, timed)
        self._late: set[int] = set()

    def add(self, number: int, query: TopK, complete_from: int | None) -> None:
        """Take in a query, by number."""
        if complete_from is None:
            self.alone[number] = TopKMonitor(query, self.algorithm)
            return
        self.late.add(number, query, complete_from)
        self._late.add(number)

    def remove(self, number: int) -> None:
        """Forget a query."""
        if self.alone.pop(number, None) is None:
            self.late.remove(number)
            self._late.remove(number)

    def first_complete(self, number: int) -> tuple[int, int]:
        """Bounds of the first window of a query that will be answered."""
        return self.late.first_complete(number)

    @property
    def numbered(self) -> bool:
        """Whether rows must be numbered, for queries that came late."""
        return bool(self._late)

    def push_alone(self, score: Floats, id: Ints | None) -> list[Found]:
        """Take in rows of count windows, which number them by themselves."""
        return [
            self._told(number, monitor.push(score, ids=id))
            for number, monitor in self.alone.items()
        ]

    def _told(self, number: int, ranked: Ranked) -> Found:
        if self._kind[1]:
            ranked = _without_empty(ranked)
        return np.full(len(ranked), number, np.int64), ranked

    def push(self, score: Floats, seq: Ints, at: Ints, id: Ints, closed: int) -> list[Found]:
        """Take in rows in sequence; answer what ends at the place ``closed`` or before."""
        if self._kind[0]:  # without ids of their own, rows are known by their arrival numbers
            found = self.push_alone(score, None if id is seq else id)
        else:
            found = [
                self._told(number, _timed(monitor, score, at, id, closed))
                for number, monitor in self.alone.items()
            ]
        if self._late:
            found += self.late.push(score, seq, at, id, closed)
        return found

    def kept(self) -> Ints:
        """Ascending arrival numbers of the rows that may still win, for queries over counts."""
        parts = [monitor.kept() for monitor in self.alone.values()]
        parts += [self.late.kept()] if self._late else []
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def state_bytes(self) -> int:
        """Bytes of memory that the states occupy."""
        alone = sum(monitor.state_bytes() for monitor in self.alone.values())
        return alone + (self.late.state_bytes() if self._late else 0)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state as plain values and named arrays."""
        header, arrays = self.late.snapshot() if self._late else ({}, {})
        arrays = {f"late.{name}": array for name, array in arrays.items()}
        for number, monitor in self.alone.items():
            arrays[f"alone.{number}"] = np.frombuffer(monitor.snapshot(), np.int8)
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`snapshot` gave; the queries are there already."""
        for number in self.alone:
            self.alone[number] = TopKMonitor.restore(arrays[f"alone.{number}"].tobytes())
        if self._late:
            prefix = "late."
            own = {name[len(prefix) :]: v for name, v in arrays.items() if name.startswith(prefix)}
            self.late.restore(header, own)


def _timed(monitor: TopKMonitor, score: Floats, at: Ints, id: Ints, closed: int) -> Ranked:
    if closed < FOREVER:
        return monitor.push(score, ids=id, times=at, watermark=closed)
    monitor.push(score, ids=id, times=at)
    return monitor.finish()


def _without_empty(ranked: Ranked) -> Ranked:
    """Only the windows in which anything changed."""
    some = np.diff(ranked.offsets) > 0
    return Ranked(
        ranked.window_start[some],
        ranked.window_end[some],
        np.concatenate([[0], ranked.offsets[1:][some]]),
        ranked.score,
        ranked.id,
        ranked.time,
        ranked.ranks,
        ranked.previous_rank,
        ranked.timed,
    )
