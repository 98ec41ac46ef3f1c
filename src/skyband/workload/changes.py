"""What entered, left or moved between two windows of a query."""

from __future__ import annotations

import numpy as np

from skyband.order import Floats, Ints

Columns = tuple[Floats, Ints, Ints, Ints]  # score, arrival number, place, id


class Changes:
    """Maintains the ranking that each query reported last, and tells what became of it.

    Complexity: O(k log k) per window.
    """

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self._nothing: Columns = (np.empty(0), none, none, none)
        self.reported: dict[int, Columns] = {}

    def forget(self, query: int) -> None:
        """A query is gone."""
        self.reported.pop(query, None)

    def told(self, query: int, now: Columns) -> tuple[Columns, Ints, Ints]:
        """Rows to report, their ranks (0: left) and previous ranks (0: entered)."""
        before = self.reported.get(query, self._nothing)
        if len(now[0]):
            self.reported[query] = tuple(column.copy() for column in now)  # type: ignore[assignment]
        else:
            self.forget(query)
        _, mine, theirs = np.intersect1d(now[1], before[1], assume_unique=True, return_indices=True)
        previous = np.zeros(len(now[0]), np.int64)
        previous[mine] = theirs + 1
        rank = np.arange(1, len(now[0]) + 1, dtype=np.int64)
        gone = np.ones(len(before[0]), np.bool_)
        gone[theirs] = False
        stays, left = np.flatnonzero(previous != rank), np.flatnonzero(gone)
        columns = [
            np.concatenate([ours[stays], others[left]])
            for ours, others in zip(now, before, strict=True)
        ]
        ranks = np.concatenate([rank[stays], np.zeros(len(left), np.int64)])
        was = np.concatenate([previous[stays], left + 1])
        # as one ranking, with each row that left where it would stand
        order = np.lexsort((-columns[1], -columns[0]))
        score, seq, at, id = (column[order] for column in columns)
        return (score, seq, at, id), ranks[order], was[order]
