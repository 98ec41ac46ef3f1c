"""Rows of time windows that wait for the watermark."""

from __future__ import annotations

import numpy as np

from skyband.order import Floats, Ints, arrival_order
from skyband.windows import Panes


class Waiting:
    """Maintains the rows whose windows the watermark has not passed yet.

    Only the k best of each pane can ever be answers, so once the waiting rows outgrow a bound all
    others are dropped.

    Complexity: O(1) amortised per row besides one sort per release.
    """

    def __init__(self, panes: Panes, k: int, width: int) -> None:
        self.panes = panes
        self.k = k
        self.score = np.empty(0)
        self.id = np.empty(0, np.int64)
        self.time = np.empty(0, np.int64)
        self.attributes = np.empty((0, width))
        self.worth_pruning = max(65_536, 4 * k)
        self.pruned = -(1 << 62)  # of rows before this time only the best of panes are left
        self._fresh: list[tuple[Floats, Ints, Ints, Floats]] = []
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, score: Floats, id: Ints, time: Ints, attributes: Floats | None) -> None:
        """Take in rows in any order."""
        if attributes is None:
            attributes = self.attributes[:0]
        if len(score):
            self._fresh.append((score, id, time, attributes))
            self._waiting += len(score)

    def gather(self) -> None:
        """Join the columns of what was added."""
        if self._fresh:
            held = (self.score, self.id, self.time, self.attributes)
            columns = zip(held, *self._fresh, strict=True)
            self.score, self.id, self.time, self.attributes = (
                np.concatenate(parts) for parts in columns
            )
            self._fresh = []

    def adopt(self) -> None:
        """Take the columns as they stand for all that waits."""
        self._fresh, self._waiting = [], len(self.score)

    def tidy(self) -> None:
        """Drop waiting rows that cannot be answers any more, if it is worth it."""
        if self._waiting > self.worth_pruning:
            self.gather()
            self._prune()
            self.worth_pruning = max(65_536, 2 * len(self.score))

    def release(self, before: int) -> tuple[Floats, Ints, Ints, Floats]:
        """Hand out, in sequence, the rows with times before ``before``."""
        self.gather()
        due = self.time < before
        if due.all():
            rows = (self.score, self.id, self.time, self.attributes)
            self._keep(np.zeros(0, np.int64))
        else:
            attributes = self.attributes[due] if len(self.attributes) else self.attributes
            rows = (self.score[due], self.id[due], self.time[due], attributes)
            self._keep(np.flatnonzero(~due))
        order = self.sequence(rows[2], rows[1])
        return (
            rows[0][order],
            rows[1][order],
            rows[2][order],
            rows[3][order] if len(rows[3]) else rows[3],
        )

    def sequence(self, times: Ints, ids: Ints) -> Ints:
        """Positions that put rows in sequence."""
        return arrival_order(times, ids)

    def _keep(self, rows: Ints) -> None:
        self.score, self.id, self.time = self.score[rows], self.id[rows], self.time[rows]
        self._waiting = len(rows)
        if len(self.attributes):
            self.attributes = self.attributes[rows]

    def _prune(self) -> None:
        """Keep the k best of each pane: nobody else can be an answer."""
        panes = self.panes
        if len(self.time):
            self.pruned = max(self.pruned, int(self.time.max()) + 1)
        enter, leave = panes.first_windows(self.time), panes.last_windows(self.time)
        order = np.lexsort((~self.id, ~self.time, -self.score, leave, enter))
        fresh = np.ones(len(order), dtype=np.bool_)
        fresh[1:] = (np.diff(enter[order]) != 0) | (np.diff(leave[order]) != 0)
        begin = np.flatnonzero(fresh)
        rank = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
        self._keep(np.sort(order[rank < self.k]))
