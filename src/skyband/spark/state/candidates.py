"""What may still win, of one partition key: the minimal candidate set over panes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skyband.order import Floats, Ints

Column = list[Any]

FOREVER = 1 << 62
"""A window that never comes."""


@dataclass(frozen=True)
class Lives:
    """How long the rows of a pane live, in window numbers.

    A pane is numbered ``2 * step + half``: ``step`` is the first window that holds its rows, and
    ``half`` is 1 for rows that live one window longer than the step's others (only if the slide
    does not divide the window). A higher number is a newer pane.
    """

    size: int
    slide: int

    @property
    def split(self) -> bool:
        """Whether a step has two panes."""
        return self.size % self.slide > 0

    def step(self, pane: int) -> int:
        """The first window that holds the rows of a pane."""
        return pane >> 1

    def last(self, pane: Any) -> Any:
        """The last window that holds the rows of a pane (or of each of many)."""
        return (pane >> 1) - 1 + self.size // self.slide + (pane & 1)


class Pane(NamedTuple):
    """The best rows of one pane, best first; ``kept`` holds one list per carried column.

    ``reached`` is the last window that the pane's newest row completes, if windows count rows.
    """

    number: int
    score: Column
    kept: list[Column]
    reached: int = FOREVER


class Answer(NamedTuple):
    """One window's ranking as columns, best first.

    For changes, ``rank`` is 0 for a row that left and ``previous`` is 0 for one that entered; for
    whole rankings both are None.
    """

    window: int
    score: Column
    kept: list[Column]
    rank: list[int] | None = None
    previous: list[int] | None = None


class Pool:
    """Maintains the carried columns of the rows that came in; rankings refer to them by slot."""

    def __init__(self, width: int) -> None:
        self.columns: list[Column] = [[] for _ in range(width)]
        self.size = 0

    def add(self, kept: list[Column], rows: int) -> Ints:
        """Take in rows; returns their slots."""
        for own, new in zip(self.columns, kept, strict=True):
            own.extend(new)
        self.size += rows
        return np.arange(self.size - rows, self.size, dtype=np.int64)


@dataclass
class Ranking:
    """Rows in rank order: which they are (``pane``, ``place`` in it), scores, slots in a pool."""

    pool: Pool
    pane: Ints
    place: Ints
    score: Floats
    slot: Ints

    @classmethod
    def empty(cls, pool: Pool) -> Ranking:
        """No rows."""
        none = np.empty(0, np.int64)
        return cls(pool, none, none, np.empty(0), none)

    def __len__(self) -> int:
        return len(self.score)

    @property
    def kept(self) -> list[Column]:
        """The carried columns."""
        where = self.slot.tolist()
        return [[column[i] for i in where] for column in self.pool.columns]

    def take(self, at: Ints | slice) -> Ranking:
        """The rows at these places."""
        return Ranking(self.pool, self.pane[at], self.place[at], self.score[at], self.slot[at])


@dataclass
class Candidates:
    """Maintains the rows of one key that can still be in an answer, and answers windows from them.

    A row can never be ranked again once k rows rank above it that live at least as long: whenever
    it is in a window, so are they. ``beaten`` counts those rows. Panes are inserted in ascending
    order, and every window that ends before a pane begins is answered before it is inserted: rows
    of the pane must not push out rows that only those windows hold.

    Invariants (numbered as in :meth:`check_invariants`)
      1. rows stand in rank order: score descending, newer pane first, place in the pane
      2. ``beaten`` is the number of candidates above that live at least as long, and is below k
      3. no row's last window is before ``due``, the first window not yet answered

    Complexity: O(c + k) array operations per pane for c candidates; O(k) per window. Space: about
    k (1 + ln(window / slide)) rows.

    Reference: the minimal candidate set of MinTopk (2011), section 4, over panes instead of rows.
    """

    k: int
    lives: Lives
    width: int
    changes: bool = False
    begins: int = -FOREVER  # windows before this one are not answered
    due: int = -FOREVER
    reached: int = -FOREVER  # the last window that is known to be complete, if windows count rows
    pool: Pool = field(init=False)
    rows: Ranking = field(init=False)
    beaten: Ints = field(init=False)
    previous: Ranking = field(init=False)

    def __post_init__(self) -> None:
        self.pool = Pool(self.width)
        self.rows = self.previous = Ranking.empty(self.pool)
        self.beaten = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to answer until a pane arrives."""
        return not len(self.rows) and not len(self.previous)

    def run(self, panes: list[Pane], closed: int, ended: bool = False) -> Iterator[Answer]:
        """Take in panes, in any order, and answer every window up to ``closed``.

        Once the stream has ``ended``, time goes on but rows do not: windows that count rows are
        answered as far as this key's rows complete them, and then there is nothing left to do.
        """
        for pane in sorted(panes, key=lambda pane: pane.number):
            yield from self.answer_before(self.lives.step(pane.number))
            self.insert(pane)
            self.reached = max(self.reached, pane.reached)
        yield from self.answer_before((min(closed, self.reached) if ended else closed) + 1)
        if ended and self.reached < closed:
            self.rows = self.previous = Ranking.empty(self.pool)

    def insert(self, pane: Pane) -> None:
        """Take in the best rows of a pane that is newer than all before."""
        step = self.lives.step(pane.number)
        if step < self.due:
            raise AssertionError(f"pane of window {step} after window {self.due - 1} was answered")
        if not pane.score:
            return
        score = np.array(pane.score, np.float64)
        new = len(score)
        below = -score
        above = np.searchsorted(below, -self.rows.score, side="right")  # ties: the newer first
        order = np.argsort(np.concatenate([below, -self.rows.score]), kind="stable")
        beaten = np.concatenate([self._beaten_of(pane, below), self.beaten + above])[order]
        fits = beaten < self.k
        joined = Ranking(
            self.pool,
            np.concatenate([np.full(new, pane.number, np.int64), self.rows.pane]),
            np.concatenate([np.arange(new, dtype=np.int64), self.rows.place]),
            np.concatenate([score, self.rows.score]),
            np.concatenate([self.pool.add(pane.kept, new), self.rows.slot]),
        )
        self.rows = joined.take(order[fits])
        self.beaten = beaten[fits]

    def _beaten_of(self, pane: Pane, below: Floats) -> Ints:
        """How many rows rank above each row of a new pane and live as long."""
        beaten = np.arange(len(below), dtype=np.int64)
        if self.lives.split and not pane.number & 1:  # the half pane before it lives as long
            equal = self.rows.score[self.rows.pane == pane.number - 1]
            beaten += np.searchsorted(-equal, below, side="left")
        return beaten

    def answer_before(self, step: int) -> Iterator[Answer]:
        """Answer all windows before ``step`` that hold anything, or just lost it (changes)."""
        while self.due < step and not self.idle:
            if len(self.rows):
                self.due = max(self.due, self.lives.step(int(self.rows.pane.min())))
                if self.due >= step:
                    break
            if self.due >= self.begins:
                answer = self._answer()
                if answer is not None:
                    yield answer
            self.due += 1
            self._expire()
        self.due = max(self.due, step)

    def _answer(self) -> Answer | None:
        best = self.rows.take(slice(self.k))
        if not self.changes:
            return Answer(self.due, best.score.tolist(), best.kept)
        found = _changes(self.due, best, self.previous)
        self.previous = best
        return found

    def _expire(self) -> None:
        """Forget the rows whose last window is before ``due``."""
        alive = self.lives.last(self.rows.pane) >= self.due
        if not alive.all():
            at = np.flatnonzero(alive)
            self.rows = self.rows.take(at)
            self.beaten = self.beaten[at]

    def check_invariants(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        rows = self.rows
        last = self.lives.last(rows.pane)
        order = np.lexsort((rows.place, -rows.pane, -rows.score))
        assert (order == np.arange(len(rows))).all(), "1"
        for i in range(len(rows)):
            assert self.beaten[i] == (last[:i] >= last[i]).sum() < self.k, "2"
        assert (last >= self.due).all(), "3"


def _changes(window: int, now: Ranking, before: Ranking) -> Answer | None:
    """What entered, moved or left between two rankings; None if nothing did."""
    old = {
        which: rank
        for rank, which in enumerate(zip(before.pane.tolist(), before.place.tolist(), strict=True))
    }
    at: list[int] = []
    rank: list[int] = []
    previous: list[int] = []
    for i, which in enumerate(zip(now.pane.tolist(), now.place.tolist(), strict=True)):
        was = old.pop(which, -1)
        if was != i:
            at.append(i)
            rank.append(i + 1)
            previous.append(was + 1)
    left = sorted(old.values())
    if not at and not left:
        return None
    some, gone = now.take(np.array(at, np.int64)), before.take(np.array(left, np.int64))
    return Answer(
        window,
        some.score.tolist() + gone.score.tolist(),
        [ours + theirs for ours, theirs in zip(some.kept, gone.kept, strict=True)],
        rank + [0] * len(left),
        previous + [was + 1 for was in left],
    )
