"""Top-k dominating over panes and shards: what one shard of the points counts.

Two facts make a global query scale out. What a point dominates adds up: over the panes of a window,
and over shards of the points. And a point that k others dominate is no answer as long as they are
in the window with it, since each of them dominates all that it does, and itself. So all shards know
the few points that may be answers, and each counts them against its own share of the points.

Each of the k scores more, so that holds whichever of equal scores ranks first, and where they share
a rank. Where ranks count different scores (``dense_rank``), the k may score the same. There, a
point is no answer below a chain of k points, each of which dominates the next: those differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skyband.dominating.dominance_counts import (
    BLOCK,
    Index,
    dominated,
    dominators,
    index,
    kth_newest,
)
from skyband.order import Bools, Floats, Ints

_NEVER = -(1 << 62)
_STRONG = 256  # points that are tried first, at least
_ASLEEP, _COUNTED = 0, 1


class PaneLifetimes(Protocol):
    """Which windows hold a pane. A higher number is a newer pane."""

    @property
    def together(self) -> bool:
        """Whether points of several panes leave together."""

    def step(self, pane: int) -> int:
        """The first window that holds the points of a pane."""

    def last(self, pane: int) -> int:
        """The last window that holds the points of a pane."""


class Counted(NamedTuple):
    """One window: who may be an answer, by slot, and how many points of the shard each dominates.

    Slots number the points that ever came as candidates, in the order of panes and of time, in
    the same way in all shards: of equal counts the higher slot is the newer.
    """

    window: int
    slot: Ints
    counts: Ints


def undominated(points: Floats, k: int) -> Bools:
    """Which points have fewer than ``k`` dominators among themselves: the k-skyband.

    Nobody else can be an answer, nor is needed to tell who can. Most points are beaten by a few
    strong ones, which are tried first; the rest, r of them, cost O(r^2) bit operations.
    """
    tried = min(max(_STRONG, 4 * k), 2 * BLOCK)
    if len(points) <= 2 * tried:
        return dominators(points, points) < k
    strong = np.argpartition(_weakness(points), tried)[:tried]
    alive = dominators(points[strong], points) < k
    left = np.flatnonzero(alive)
    alive[left] = dominators(points[left], points[left]) < k
    return alive


def chain_lengths(points: Floats, k: int) -> Ints:
    """How many points stand above each in the longest chain in which each dominates the next.

    k stands for k or more. Peels off the points that nobody dominates, k times at most.
    """
    lengths = np.full(len(points), k, np.int64)
    left = np.arange(len(points))
    for length in range(k):
        if not len(left):
            break
        top = undominated(points[left], 1)
        lengths[left[top]] = length
        left = left[~top]
    return lengths


def possible_answers(points: Floats, k: int, dense: bool) -> Bools:
    """Which points of a pane can be answers as far as the pane tells.

    Nobody else is needed to tell who can, in any part of the pane.
    """
    return chain_lengths(points, k) < k if dense else undominated(points, k)


def _weakness(points: Floats) -> Ints:
    """A rough rank over all dimensions: the sum of those among some of the points."""
    some = np.sort(points[:: max(1, len(points) // 64)], axis=0)
    columns = range(points.shape[1])
    ranks = [np.searchsorted(some[:, at], points[:, at]) for at in columns]
    return np.sum(ranks, axis=0, dtype=np.int64)


@dataclass
class Candidates:
    """Points that may still be answers, in the order of their slots: panes ascend.

    ``beaten`` counts the dominators in the own or later panes, or is the length of a chain of them
    if ranks count different scores. A point is asleep until the window ``wake``, for so long k
    dominators share its windows; then it is counted from its ``count`` on.
    """

    point: Floats
    slot: Ints
    pane: Ints
    beaten: Ints
    state: Ints
    wake: Ints
    count: Ints

    @classmethod
    def none(cls, width: int) -> Candidates:
        """No points."""
        return cls(np.empty((0, width)), *(np.empty(0, np.int64) for _ in range(6)))

    def __len__(self) -> int:
        return len(self.slot)

    def keep(self, which: Bools) -> None:
        """Forget all others."""
        if not which.all():
            for column in fields(self):
                setattr(self, column.name, getattr(self, column.name)[which])

    def extend(self, others: Candidates) -> None:
        """Append points of a newer pane."""
        for column in fields(self):
            both = (getattr(self, column.name), getattr(others, column.name))
            setattr(self, column.name, np.concatenate(both))


@dataclass
class Work:
    """What was done, independent of the machine.

    ``slides`` are windows answered; ``compared`` are pairs of a candidate and a point of the shard
    whose dominance was counted: with panes that came or went, and, once per candidate, with all
    panes of the window; ``scanned`` are pairs of candidates.
    """

    slides: int = 0
    points: int = 0
    compared: int = 0
    first_compared: int = 0
    scanned: int = 0
    candidates: int = 0
    counted: int = 0


@dataclass
class PaneCounts:
    """Maintains, for one shard of the points, how many of them each possible answer dominates.

    ``insert`` takes the panes in ascending order, with the shard's points and *all* shards' points
    that are possible answers of their pane; windows that end before a pane begins must be answered
    before it is inserted. ``panes`` holds the indexed points of each living pane. Where ranks are
    ``dense``, they count different scores: chains of dominators count, and nobody sleeps.

    Invariants (numbered as in :meth:`check_invariants`)
      1. candidates stand in the order of slots and panes, and live in the window ``due``
      2. ``beaten`` is the number of candidates of the own or later panes that dominate it, and is
         below k; it still counts those that were dropped because they never wake; if dense, there
         was such a chain
      3. a candidate that is asleep has k dominators among the candidates until ``wake`` has passed
      4. ``count`` of a counted one is the number of the shard's living points that it dominates

    Complexity: per pane, O(c) counts of the new pane and of the one that expires for c counted
    candidates; a candidate that wakes is counted once against all living panes. In a window of m
    panes about c / m wake per slide, so a slide costs about the same however long the window is.
    Space: the shard's points of a window, and the candidates.
    """

    k: int
    width: int
    lifetimes: PaneLifetimes
    panes: MutableMapping[int, Index] = field(default_factory=dict)
    alive: list[int] = field(default_factory=list)  # panes, ascending
    due: int = _NEVER  # the first window that was not answered
    last_complete_window: int = _NEVER  # if windows count rows
    slots: int = 0
    candidates: Candidates = field(init=False)
    work: Work = field(default_factory=Work)
    dense: bool = False

    def __post_init__(self) -> None:
        self.candidates = Candidates.none(self.width)

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def idle(self) -> bool:
        """Whether nothing is alive."""
        return not self.alive

    def insert(self, pane: int, points: Floats, survivors: Floats) -> Bools:
        """Take in a pane that is newer than all before; tells which survivors are candidates.

        ``survivors`` stand in the order of time, and hold at least the pane's possible answers.
        """
        if self.lifetimes.step(pane) < self.due:
            raise AssertionError(f"pane {pane} after window {self.due - 1} was answered")
        fresh = possible_answers(survivors, self.k, self.dense)
        slot = self.slots + np.flatnonzero(fresh)
        self.slots += len(survivors)
        if not len(survivors):
            return fresh
        beaten = self._beaten(survivors[fresh])
        self._beat(survivors[fresh], beaten)
        self.panes[pane] = indexed = index(points)
        self._count_pane(indexed, +1)
        self.alive.append(pane)
        self.work.points += len(points)
        self._admit(pane, survivors[fresh], slot, beaten)
        return fresh

    def _beaten(self, fresh: Floats) -> Ints:
        """What the candidates of a pane count of each other."""
        self.work.scanned += len(fresh) ** 2
        return chain_lengths(fresh, self.k) if self.dense else dominators(fresh, fresh)

    def _beat(self, fresh: Floats, beaten: Ints) -> None:
        """Drop the candidates that have k dominators, or a chain of k, in later panes."""
        candidates = self.candidates
        if not len(candidates) or not len(fresh):
            return
        self.work.scanned += len(candidates) * len(fresh)
        if not self.dense:
            candidates.beaten = candidates.beaten + dominators(fresh, candidates.point)
        else:
            longest = candidates.beaten.copy()
            for length in np.unique(beaten).tolist():  # of the chains above, ascending
                below = dominators(fresh[beaten == length], candidates.point) > 0
                longest[below] = np.maximum(longest[below], length + 1)
            candidates.beaten = longest
        candidates.keep(candidates.beaten < self.k)

    def _admit(self, pane: int, fresh: Floats, slot: Ints, beaten: Ints) -> None:
        """New candidates are asleep, and look around when the next window is answered."""
        new = len(fresh)
        if not new:
            return
        sleep = np.full(new, _ASLEEP, np.int64)
        wake = np.full(new, _NEVER, np.int64)
        number = np.full(new, pane, np.int64)
        count = np.zeros(new, np.int64)
        self.candidates.extend(Candidates(fresh, slot, number, beaten, sleep, wake, count))

    def _count_pane(self, indexed: Index, sign: int) -> None:
        """Count a pane that comes or goes for those that are counted."""
        which = np.flatnonzero(self.candidates.state == _COUNTED)
        self.candidates.count[which] += sign * dominated(indexed, self.candidates.point[which])
        self.work.compared += len(indexed.points) * len(which)

    def answer_before(self, step: int) -> Iterator[Counted]:
        """Answer all windows before ``step`` in which anything is alive."""
        while self.due < step and not self.idle:
            self.due = max(self.due, self.lifetimes.step(self.alive[0]))
            if self.due >= step:
                break
            yield self._answer()
            self.due += 1
            self._expire()
        self.due = max(self.due, step)

    def _answer(self) -> Counted:
        self._wake()
        which = self.candidates.state == _COUNTED
        self.work.slides += 1
        self.work.candidates += len(self.candidates)
        self.work.counted += int(which.sum())
        return Counted(self.due, self.candidates.slot[which], self.candidates.count[which])

    def _wake(self) -> None:
        """Let those look around whose sleep is over: they sleep on, or are counted from now on."""
        candidates = self.candidates
        up = np.flatnonzero((candidates.state == _ASLEEP) & (candidates.wake < self.due))
        if not len(up):
            return
        if self.dense:
            self._count(up)
            return
        kth = kth_newest(candidates.point, candidates.point[up], self.k)
        self.work.scanned += int((len(candidates) - np.maximum(kth, 0)).sum())
        sleeps = kth >= 0
        panes = candidates.pane[kth[sleeps]].tolist()
        candidates.wake[up[sleeps]] = [self.lifetimes.last(pane) for pane in panes]
        self._count(up[~sleeps])
        self._drop_hidden(up[sleeps])

    def _count(self, counted: Ints) -> None:
        """Count candidates against all living panes, and from now on."""
        candidates = self.candidates
        if not len(counted):
            return
        candidates.state[counted] = _COUNTED
        candidates.count[counted] = 0
        points = candidates.point[counted]
        for pane in self.alive:
            indexed = self.panes[pane]
            candidates.count[counted] += dominated(indexed, points)
            self.work.first_compared += len(indexed.points) * len(counted)

    def _drop_hidden(self, asleep: Ints) -> None:
        """Drop those that never wake: k older dominators live as long, and leave with them.

        Whoever they dominate, those dominate, too.
        """
        candidates = self.candidates
        panes = candidates.pane[asleep].tolist()
        lasts = np.array([self.lifetimes.last(pane) for pane in panes], np.int64)
        hidden = np.zeros(len(candidates), np.bool_)
        hidden[asleep] = candidates.wake[asleep] >= lasts
        candidates.keep(~hidden)

    def _expire(self) -> None:
        """Forget the panes whose last window is before ``due``."""
        while self.alive and self.lifetimes.last(self.alive[0]) < self.due:
            pane = self.alive.pop(0)
            self.candidates.keep(self.candidates.pane != pane)
            self._count_pane(self.panes[pane], -1)
            del self.panes[pane]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All but the points of the panes, as named arrays."""
        numbers = np.array([self.due, self.last_complete_window, self.slots], np.int64)
        named = {
            column.name: getattr(self.candidates, column.name) for column in fields(Candidates)
        }
        return {**named, "alive": np.array(self.alive, np.int64), "numbers": numbers}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.candidates = Candidates(
            **{column.name: arrays[column.name] for column in fields(Candidates)}
        )
        self.alive = arrays["alive"].tolist()
        self.due, self.last_complete_window, self.slots = arrays["numbers"].tolist()

    def check_invariants(self) -> None:
        """Raise AssertionError if an invariant is broken; between two windows."""
        candidates, k = self.candidates, self.k
        assert (np.diff(candidates.slot) > 0).all(), "1"
        assert (np.diff(candidates.pane) >= 0).all(), "1"
        assert all(self.lifetimes.last(pane) >= self.due for pane in candidates.pane.tolist()), "1"
        parts = [self.panes[pane].points for pane in self.alive]
        points = np.concatenate(parts) if parts else np.empty((0, self.width))
        for at, point in enumerate(candidates.point):
            over = (candidates.point <= point).all(axis=1) & (candidates.point < point).any(axis=1)
            beaten = int((over & (candidates.pane >= candidates.pane[at])).sum())
            assert candidates.beaten[at] < k, "2"
            assert self.dense or beaten <= candidates.beaten[at], "2"
            # where rows leave together, dominators that never wake are dropped, and count on
            loose = self.dense or self.lifetimes.together
            assert loose or beaten == candidates.beaten[at], "2"
            if candidates.state[at] == _COUNTED:
                under = (point <= points).all(axis=1) & (point < points).any(axis=1)
                assert candidates.count[at] == under.sum(), "4"
            elif candidates.wake[at] >= self.due:
                last = [self.lifetimes.last(pane) for pane in candidates.pane[over].tolist()]
                assert sum(each >= candidates.wake[at] for each in last) >= k, "3"
