"""Ranked windows over the rows of a file, in the order in which they are printed.

Whatever engine answered a query fills a leaderboard; whoever prints one does not know the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from skyband.engine.columns import Dropped
from skyband.engine.results import Ranked
from skyband.order import Ints, Scores

_AT_ONCE = 65_536


class Block(NamedTuple):
    """Some windows as columns: bounds, keys and sizes per window, the rest per ranked row.

    ``place`` is where a row stands in :attr:`Leaderboard.rows`. With changes, ``rank`` is 0 for an
    object that left and ``previous`` is 0 for one that entered.
    """

    start: Ints
    end: Ints
    size: Ints
    key: Ints
    place: Ints
    rank: Ints
    previous: Ints | None
    score: Scores
    also: Any = None


class _Windows(NamedTuple):
    """Windows as they came: the rows of window i are ``offsets[i]:offsets[i + 1]``."""

    start: Ints
    end: Ints
    key: Ints
    offsets: Ints
    id: Ints
    rank: Ints | None
    previous: Ints | None
    score: Scores | None
    also: Any


_NONE = np.empty(0, np.int64)
_NO_WINDOWS = _Windows(_NONE, _NONE, _NONE, np.zeros(1, np.int64), _NONE, *[None] * 4)


class Leaderboard:
    """Maintains the ranked windows of a query, and which rows of the file are in them.

    ``timed`` says that bounds are microseconds since the epoch. A row's score is its own, so
    windows hold row numbers only, unless scores are ``relative``: to what else is in the window.
    Of a workload ``queries`` are the names: keys number them. If what is ranked are ``objects``,
    each of which may have many rows, then objects have numbers, and rows have none. ``notes`` are
    sentences to be printed beside what was dropped. With a ``scale`` scores are whole numbers, in
    units of ``10**-scale``. ``also`` are the columns that objects have beside their scores, by
    name, and the scale of each.

    Complexity: O(1) per ranked row but for sorting the new ones; space: 8 bytes per ranked row (24
    with changes, 8 more for relative scores) and a byte per row of the file up to the last one
    ranked.
    """

    def __init__(
        self,
        timed: bool,
        queries: tuple[str, ...] = (),
        relative: bool = False,
        objects: bool = False,
        scale: int | None = None,
        also: Mapping[str, int | None] | None = None,
    ) -> None:
        self.scale = scale
        self.also = dict(also or {})
        self.timed = timed
        self.queries = queries
        self.relative = relative or objects
        self.objects = objects
        self.dropped = Dropped()
        self.notes: list[str] = []
        self.windows = 0
        self.approximate = 0  # of them
        self.accuracy = 0.0  # of these, added up
        self.rows = np.empty(0, np.int64)  # numbers of all rows in any window, ascending
        self.scores: Scores = np.empty(0)  # their scores; of relative ones, those that came first
        self._all = _NO_WINDOWS
        self._columns: list[list[Any]] = [[] for _ in _Windows._fields]
        self._ranked = 0
        self._seen = np.zeros(_AT_ONCE, np.bool_)
        self._new: list[tuple[Ints, Scores]] = []

    def add(self, ranked: Ranked, key: Ints | None = None) -> None:
        """Take in what one push answered; ``key`` numbers the key of each window."""
        self.windows += len(ranked)
        if ranked.exact is not None and ranked.accuracy is not None:
            self.approximate += int(np.count_nonzero(~ranked.exact))
            self.accuracy += float(ranked.accuracy[~ranked.exact].sum())
        if not ranked.rows:
            return
        self._note(ranked.id, ranked.score)
        id, rank, previous = ranked.id, ranked.ranks, ranked.previous_rank
        score = ranked.score if self.relative else None
        also = self._also_numbers(ranked) if self.also else None
        if rank is not None and previous is not None:
            window = np.repeat(np.arange(len(ranked)), np.diff(ranked.offsets))
            order = np.lexsort((previous, rank, rank == 0, window))  # those that left come last
            id, rank, previous = id[order], rank[order], previous[order]
            score = None if score is None else score[order]
            also = None if also is None else also[order]
        if key is None:
            key = np.zeros(len(ranked), np.int64)
        ahead = ranked.offsets[:-1] + self._ranked
        self._ranked += ranked.rows
        bounds = (ranked.window_start, ranked.window_end, key, ahead)
        columns = (*bounds, id, rank, previous, score, also)
        for column, values in zip(self._columns, columns, strict=True):
            if values is not None:
                column.append(values)

    def numbers(self, scores: Scores) -> list[Any]:
        """Scores as Python's numbers: float, int or Decimal."""
        return _numbers(scores, self.scale) if self.scale else scores.tolist()

    def _also_numbers(self, ranked: Ranked) -> Any:
        """What objects have beside their scores, a row of Python's numbers each; None if NULL."""
        assert ranked.also is not None, "windows carry what the query asks for"
        numbers = np.empty((ranked.rows, len(self.also)), object)
        for at, (name, scale) in enumerate(self.also.items()):
            numbers[:, at] = _numbers(ranked.also[name], scale)
        return numbers

    def _note(self, id: Ints, score: Scores) -> None:
        highest = int(id.max())
        if highest >= len(self._seen):
            room = max(highest + 1, 2 * len(self._seen)) - len(self._seen)
            self._seen = np.concatenate([self._seen, np.zeros(room, np.bool_)])
        new = ~self._seen[id]
        rows, at = np.unique(id[new], return_index=True)
        self._seen[rows] = True
        self._new.append((rows, score[new][at]))

    def close(self) -> None:
        """Everything is in: make :attr:`rows` and :attr:`scores`, and join the windows."""
        if not self._new:
            return
        rows = np.concatenate([rows for rows, _ in self._new])
        order = np.argsort(rows)
        self.rows = rows[order]
        self.scores = np.concatenate([scores for _, scores in self._new])[order]
        self._new, self._seen = [], np.zeros(0, np.bool_)
        self._columns[3].append(np.array([self._ranked], np.int64))
        joined: list[Any] = []
        for column in self._columns:  # each is given up once it is joined: there may be many
            joined.append(np.concatenate(column) if column else None)
            column.clear()
        self._all = _Windows(*joined)

    def order(self) -> Ints:
        """The windows that hold any row, by end and key: numbers to give to :meth:`blocks`."""
        order = np.lexsort((self._all.key, self._all.end))
        filled = np.diff(self._all.offsets) > 0
        there: Ints = order[filled[order]]
        return there

    def blocks(self, order: Ints) -> Iterator[Block]:
        """These windows, some tens of thousands of rows at a time."""
        all = self._all
        low = 0
        while low < len(order):
            some = order[low : low + _AT_ONCE]
            upto = np.cumsum(all.offsets[some + 1] - all.offsets[some])
            high = max(1, int(np.searchsorted(upto, _AT_ONCE, side="right")))
            yield self._block(some[:high])
            low += high

    def _block(self, some: Ints) -> Block:
        all = self._all
        first = all.offsets[some]
        size = all.offsets[some + 1] - first
        ahead = np.cumsum(size) - size
        at = np.arange(int(size.sum()), dtype=np.int64)
        row = at + np.repeat(first - ahead, size)
        place = np.searchsorted(self.rows, all.id[row])
        return Block(
            all.start[some],
            all.end[some],
            size,
            all.key[some],
            place,
            at - np.repeat(ahead, size) + 1 if all.rank is None else all.rank[row],
            None if all.previous is None else all.previous[row],
            self.scores[place] if all.score is None else all.score[row],
            None if all.also is None else all.also[row],
        )


def _numbers(column: Scores, scale: int | None) -> list[Any]:
    """Python's numbers: float, int or Decimal; None where there is none."""
    numbers = [None if n is None or n != n else n for n in column.tolist()]
    if not scale:
        return numbers
    return [None if n is None else Decimal(n).scaleb(-scale) for n in numbers]
