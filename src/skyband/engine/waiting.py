"""Rows of time windows that wait for the watermark."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.pruning import best_of_panes
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved
from skyband.order import Bools, Ints, sequence
from skyband.windows import FOREVER, Panes

_MANY = 65_536  # waiting rows from which on pruning pays

TieBreakers = Callable[[Rows], tuple[NDArray[Any], ...]]
"""The columns by which rows of equal time follow each other, the most significant first."""


def by_id(rows: Rows) -> tuple[NDArray[Any], ...]:
    """Of rows with equal times the one with the smaller id comes first."""
    assert rows.id is not None, "rows that wait have ids"
    return (rows.id,)


def by_arrival(rows: Rows) -> tuple[NDArray[Any], ...]:
    """Rows with equal times follow each other as they arrived."""
    del rows
    return ()


class Waiting:
    """Maintains the rows whose windows the watermark has not passed yet.

    Rows that come in sequence are neither sorted nor copied before they are released. ``k`` says
    how many rows of a pane can be answers, where that is known: others are dropped once there are
    many. ``ties`` puts rows of equal time in sequence; of equal scores the newest are best, or the
    ``oldest_first``.

    Complexity: O(1) per row; one sort per release if rows came out of order.
    """

    def __init__(
        self,
        panes: Panes,
        k: int | None,
        ties: TieBreakers = by_id,
        oldest_first: bool = False,
    ) -> None:
        self.panes = panes
        self.k = k
        self.ties = ties
        self.oldest_first = oldest_first
        self.pruned = -FOREVER  # of rows before this time only the best of panes are left
        self._parts: list[Rows] = []
        self._in_sequence = True  # whether the parts, one after the other, are in sequence
        self._borrowed = False  # whether the newest part is the caller's memory
        self._worth_pruning = _MANY if k is None else max(_MANY, 4 * k)

    def __len__(self) -> int:
        return sum(part.size for part in self._parts)

    @property
    def newest(self) -> int:
        """The newest time that waits. O(rows)."""
        times = (part.time for part in self._parts)
        return max((int(time.max()) for time in times if time is not None), default=-FOREVER)

    def add(self, rows: Rows, ordered: bool) -> None:
        """Take in rows; ``ordered`` says that their times do not fall.

        The columns may be the caller's until :meth:`settle` is called.
        """
        if not rows.size:
            return
        self._borrowed = True
        if not ordered:
            rows = self._noted(rows, False)  # before they are copied and sorted
        elif not self._ties_in_sequence(rows):
            rows, self._borrowed = self._with_ties_sorted(rows), False
        if self._in_sequence:
            self._in_sequence = ordered and self._follows(rows)
        self._parts.append(rows)

    def _noted(self, rows: Rows, in_sequence: bool) -> Rows:
        """Rows that go on waiting, pruned; notes up to which time rows were dropped."""
        pruned = self._pruned(rows, in_sequence)
        if pruned is not rows:
            assert rows.time is not None
            self.pruned = max(self.pruned, int(rows.time.max()) + 1)
        return pruned

    def _follows(self, rows: Rows) -> bool:
        """Whether rows follow the newest that wait."""
        if not self._parts:
            return True
        joint = Rows.joined([self._parts[-1].take(slice(-1, None)), rows.take(slice(0, 1))])
        assert joint.time is not None
        return bool(joint.time[1] >= joint.time[0]) and self._ties_in_sequence(joint)

    def _ties_in_sequence(self, rows: Rows) -> bool:
        """Whether rows of equal times stand as the tie breakers say. O(rows)."""
        assert rows.time is not None
        keys = self.ties(rows)
        if not keys:
            return True
        tied = np.flatnonzero(rows.time[1:] == rows.time[:-1])
        for key in keys:
            if not len(tied):
                return True
            earlier, later = key[tied], key[tied + 1]
            if bool(np.any(later < earlier)):
                return False
            tied = tied[later == earlier]
        return True

    def _with_ties_sorted(self, rows: Rows) -> Rows:
        """A copy of rows whose times are in order, with rows of equal times in sequence."""
        assert rows.time is not None
        shared = rows.time[1:] == rows.time[:-1]
        tied = np.flatnonzero(np.append(shared, False) | np.append(False, shared))
        some = rows.take(tied)
        assert some.time is not None
        order = sequence(some.time, self.ties(some))
        rows = rows.copied()
        for column, values in zip(_columns(rows), _columns(some), strict=True):
            column[tied] = values[order]
        return rows

    def settle(self) -> None:
        """Copy what is still the caller's, and drop rows that cannot be answers if it pays."""
        parts = self._parts
        if self._borrowed and parts:
            parts[-1] = parts[-1].copied()
        self._borrowed = False
        # small parts are joined with others of their size, so that there are never many
        while len(parts) > 1 and parts[-2].size < min(2 * parts[-1].size, _MANY):
            parts[-2:] = [Rows.joined(parts[-2:])]
        if self.k is not None and len(self) > self._worth_pruning:
            rows = self._noted(self.rows(), self._in_sequence)
            self._parts = [rows]
            self._worth_pruning = max(_MANY, 2 * rows.size)

    def rows(self) -> Rows:
        """All rows that wait, as one batch."""
        if len(self._parts) > 1:
            self._parts = [Rows.joined(self._parts)]
        return self._parts[0] if self._parts else Rows(np.empty(0), _NONE, _NONE)

    def release(self, before: int) -> Rows | None:
        """Hand out, in sequence, the rows with times before ``before``; None if there are none.

        Of panes with many rows only those are handed out that can be answers.
        """
        if not self._parts:
            return None
        if self._in_sequence:
            return self._due_in_sequence(before)
        due = self._due(before)
        if due is None:
            return None
        self._in_sequence = len(self) <= due.size
        if self._in_sequence and self._parts:  # so that rows in order which follow are not sorted
            self._parts = [self._sorted(self.rows())]
        return self._sorted(self._pruned(due, False))

    def _pruned(self, rows: Rows, in_sequence: bool) -> Rows:
        """The rows without those of crowded panes that cannot be answers."""
        if self.k is None:
            return rows
        return best_of_panes(rows, self.panes, self.k, in_sequence, self.oldest_first)

    def _sorted(self, rows: Rows) -> Rows:
        assert rows.time is not None
        return rows.take(sequence(rows.time, self.ties(rows)))

    def _due_in_sequence(self, before: int) -> Rows | None:
        """Cut the rows before a time off the parts, which are in sequence.

        Parts are pruned before they are joined, so that little is copied.
        """
        due: list[Rows] = []
        while self._parts:
            rows = self._parts[0]
            assert rows.time is not None
            count = int(np.searchsorted(rows.time, before))
            if count:
                due.append(self._pruned(rows.take(slice(0, count)), True))
            if count < rows.size:
                self._parts[0] = rows.take(slice(count, None))
                break
            del self._parts[0]
        return Rows.joined(due) if due else None

    def _due(self, before: int) -> Rows | None:
        rows = self.rows()
        assert rows.time is not None
        due: Bools = rows.time < before
        if due.all():
            self._parts = []
            return rows
        if not due.any():
            return None
        self._parts, self._borrowed = [rows.take(~due)], False
        return rows.take(due)

    def fork(self) -> Waiting:
        """A copy from which rows can be released, while they go on waiting here."""
        fork = copy.copy(self)
        fork._parts = self._parts.copy()
        return fork

    def add_column(self, value: int) -> None:
        """Give the rows that wait one more column, which holds this value everywhere."""
        self._parts = [
            part._replace(columns=(*part.columns, np.full(part.size, value, np.int64)))
            for part in self._parts
        ]

    def saved(self) -> Saved:
        """What waits, as plain values and arrays."""
        rows = self.rows()
        columns = {f"column{at}": column for at, column in enumerate(rows.columns)}
        header = {
            "columns": len(columns),
            "pruned": self.pruned,
            "in_sequence": self._in_sequence,
            "worth_pruning": self._worth_pruning,
        }
        return header, {"score": rows.score, **_present(id=rows.id, time=rows.time), **columns}

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        self.pruned = header["pruned"]
        self._in_sequence = header["in_sequence"]
        self._worth_pruning = header["worth_pruning"]
        columns = tuple(arrays[f"column{at}"] for at in range(header["columns"]))
        rows = Rows(arrays["score"], arrays["id"], arrays["time"], columns)
        self._parts = [rows] if rows.size else []


_NONE: Ints = np.empty(0, np.int64)


def _columns(rows: Rows) -> list[NDArray[Any]]:
    """All columns of rows that wait."""
    assert rows.id is not None
    assert rows.time is not None
    return [rows.score, rows.id, rows.time, *rows.columns]


def _present(**columns: Ints | None) -> dict[str, NDArray[Any]]:
    return {name: column for name, column in columns.items() if column is not None}
