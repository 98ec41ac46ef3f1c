"""Ranked windows over the rows of a file, in the order in which they are printed.

Whatever engine answered a query fills a leaderboard; whoever prints one does not know the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skyband.intake import Dropped
from skyband.order import Floats, Ints
from skyband.results import Ranked

_AT_ONCE = 65_536


class Window(NamedTuple):
    """One window of one key, best first: where its rows stand in :attr:`Leaderboard.rows`.

    ``rank`` and ``previous`` are there for changes: 0 for an object that left, or that entered.
    """

    start: int
    end: int
    place: list[int]
    rank: list[int] | None
    previous: list[int] | None


class _Part(NamedTuple):
    """The windows of one push, and their rows one after the other."""

    start: Ints
    end: Ints
    key: Ints
    offsets: Ints
    id: Ints
    rank: Ints | None
    previous: Ints | None


_NONE = np.empty(0, np.int64)
_NOTHING = _Part(_NONE, _NONE, _NONE, np.zeros(1, np.int64), _NONE, None, None)


def _joined(parts: list[_Part]) -> _Part:
    """Several parts as one."""
    rows = np.array([len(part.id) for part in parts], np.int64)
    ahead = np.cumsum(rows) - rows
    offsets = [part.offsets[:-1] + before for part, before in zip(parts, ahead, strict=True)]
    joined: list[Ints | None] = []
    for name in _Part._fields:
        if name == "offsets":
            joined.append(np.concatenate([*offsets, [rows.sum()]]))
        elif getattr(parts[0], name) is None:
            joined.append(None)
        else:
            joined.append(np.concatenate([getattr(part, name) for part in parts]))
    return _Part(*joined)  # type: ignore[arg-type]


class Leaderboard:
    """Maintains the ranked windows of a query, and which rows of the file are in them.

    ``timed`` says that bounds are microseconds since the epoch. A row's score is its own, so
    windows hold row numbers only.

    Complexity: O(1) per ranked row but for sorting the new ones; space: 8 bytes per ranked row (24
    with changes) and a byte per row of the file up to the last one ranked.
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self.dropped = Dropped()
        self.rows = np.empty(0, np.int64)  # numbers of all rows in any window, ascending
        self.scores = np.empty(0)  # their scores
        self._all = _NOTHING
        self._parts: list[_Part] = []
        self._seen = np.zeros(_AT_ONCE, np.bool_)
        self._new: list[tuple[Ints, Floats]] = []

    def add(self, ranked: Ranked, key: Ints | None = None) -> None:
        """Take in what one push answered; ``key`` numbers the key of each window."""
        if not ranked.rows:
            return
        self._note(ranked.id, ranked.score)
        id, rank, previous = ranked.id, ranked.ranks, ranked.previous_rank
        if rank is not None and previous is not None:
            window = np.repeat(np.arange(len(ranked)), np.diff(ranked.offsets))
            order = np.lexsort((previous, rank, rank == 0, window))  # those that left come last
            id, rank, previous = id[order], rank[order], previous[order]
        if key is None:
            key = np.zeros(len(ranked), np.int64)
        self._parts.append(
            _Part(ranked.window_start, ranked.window_end, key, ranked.offsets, id, rank, previous)
        )

    def _note(self, id: Ints, score: Floats) -> None:
        highest = int(id.max())
        if highest >= len(self._seen):
            room = max(highest + 1, 2 * len(self._seen)) - len(self._seen)
            self._seen = np.concatenate([self._seen, np.zeros(room, np.bool_)])
        new = ~self._seen[id]
        rows, at = np.unique(id[new], return_index=True)
        self._seen[rows] = True
        self._new.append((rows, score[new][at]))

    def close(self) -> None:
        """Everything is in: make :attr:`rows` and :attr:`scores`, and bring the parts together."""
        if not self._parts:
            return
        rows = np.concatenate([rows for rows, _ in self._new])
        order = np.argsort(rows)
        self.rows = rows[order]
        self.scores = np.concatenate([scores for _, scores in self._new])[order]
        self._all = _joined(self._parts)
        self._parts, self._new, self._seen = [], [], np.zeros(0, np.bool_)

    def order(self) -> Ints:
        """The windows that hold any row, by end and key: numbers to give to :meth:`windows`."""
        order = np.lexsort((self._all.key, self._all.end))
        filled = np.diff(self._all.offsets) > 0
        there: Ints = order[filled[order]]
        return there

    def windows(self, order: Ints) -> Iterator[Window]:
        """These windows, one after the other."""
        all = self._all
        sizes = np.diff(all.offsets)
        upto = np.cumsum(sizes[order])
        low = 0
        while low < len(order):
            before = upto[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(upto, before + _AT_ONCE, side="right")))
            some = order[low:high]
            size = sizes[some]
            stop = np.cumsum(size)
            row = np.repeat(all.offsets[some] - (stop - size), size) + np.arange(stop[-1])
            place = np.searchsorted(self.rows, all.id[row]).tolist()
            rank = None if all.rank is None else all.rank[row].tolist()
            previous = None if all.previous is None else all.previous[row].tolist()
            bounds = (all.start[some], all.end[some], stop - size, stop)
            for start, end, first, beyond in zip(*(b.tolist() for b in bounds), strict=True):
                yield Window(
                    start,
                    end,
                    place[first:beyond],
                    None if rank is None else rank[first:beyond],
                    None if previous is None else previous[first:beyond],
                )
            low = high
