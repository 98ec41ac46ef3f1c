"""BFA, the brute force algorithm: every score is kept up to date by checking every pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.emission import report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import rank
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, EVENTS, SLIDES, counters
from skyband.order import Floats, Ints


class State(NamedTuple):
    """The points of the window, oldest first, and what each of them dominates."""

    points: Floats  # place * dimensions + dimension; less is better
    seq: Ints
    score: Ints
    best: Ranked
    work: Ints
    now: Record


_NOW = fields("k", "width", "first", "end")  # the places of the first point, and after the last
_MOST = 1 << 24  # answers at most: room for them is made at once


class Bfa(Algorithm):
    """Maintains the score of every point of the window.

    Invariants: (1) the points are those of the window that can be ranked, oldest first; (2) each
    score is the number of points that it dominates.

    Complexity: O(n d) per arrival and per expiry, O(n + k log k) per slide; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 3.
    """

    name = "bfa"
    attributes = True
    keeps_window = True
    state: State

    def __init__(self, setting: Setting, width: int) -> None:
        self.width = width
        super().__init__(setting)

    @override
    def new_state(self) -> State:
        setting = self.setting
        if setting.k > _MOST:
            raise QueryError(
                f"k is {setting.k:,} for {self.name}", f"{_MOST:,} at most", "use auto"
            )
        room = 64
        return State(
            np.zeros(room * self.width),
            np.zeros(room, np.int64),
            np.zeros(room, np.int64),
            ranked(2 * setting.k),
            counters(),
            record(_NOW, k=setting.k, width=self.width),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, rows.columns[0], steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        self._make_room(rows.size)

    def begin(self, points: Floats, scores: Ints) -> None:
        """Start with points as the window, numbered from 0 on, and with these as their scores.

        Less must be better in every dimension. Counting the scores of a large window takes long,
        pair by pair, and what an update costs does not depend on them.
        """
        rows = len(points)
        self._make_room(rows)
        state = self.state
        state.points[: points.size] = points.ravel()
        state.seq[:rows] = np.arange(rows)
        state.score[:rows] = scores
        state.now[0].end = rows

    def _make_room(self, arriving: int) -> None:
        """Move the points to the front, and make room for as many as arrive."""
        state, width, now = self.state, self.width, self.state.now[0]
        first, end = int(now.first), int(now.end)
        alive = end - first
        room = max(len(state.seq), alive + arriving)
        points, seq, score = np.zeros(room * width), *(np.zeros(room, np.int64) for _ in range(2))
        points[: alive * width] = state.points[first * width : end * width]
        seq[:alive], score[:alive] = state.seq[first:end], state.score[first:end]
        now.first, now.end = 0, alive
        self.state = state._replace(points=points, seq=seq, score=score)

    @override
    def kept(self) -> Ints:
        now = self.state.now[0]
        return self.state.seq[now.first : now.end].copy()

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state = self.state
        first, end = int(state.now[0].first), int(state.now[0].end)
        assert state.seq[first:end].tolist() == sorted(alive), "1: not the window's points"
        points = state.points.reshape(-1, self.width)[first:end]
        for at, point in enumerate(points):
            dominated = (point <= points).all(axis=1) & (point < points).any(axis=1)
            assert state.score[first + at] == dominated.sum(), "2: a score is off"


@entry
def _advance(
    state: State, scores: Floats, attributes: Floats, steps: Steps, target: Out, step: int
) -> int:
    """Take in a batch from a step on; return the number of steps."""
    now = state.now[0]
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        while now.first < now.end and state.seq[now.first] < steps.first[step]:
            _expire(state)
        for at in range(position, steps.stop[step]):
            if scores[at] == scores[at]:
                _insert(state, attributes, at, steps.base[0] + at)
        position = steps.stop[step]
        if steps.emit[step]:
            _select(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += now.end - now.first
            report_whole(target, step, state.best, now.k)
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _dominates(points: Floats, one: int, other: int, width: int) -> bool:
    """Whether the point at ``one`` is nowhere worse than that at ``other``, and not its equal."""
    better = False
    for at in range(width):
        mine, theirs = points[one * width + at], points[other * width + at]
        if mine > theirs:
            return False
        better = better or mine < theirs
    return better


@lean
def _expire(state: State) -> None:
    now, width = state.now[0], state.now[0].width
    gone = now.first
    now.first = gone + 1
    for other in range(gone + 1, now.end):
        if _dominates(state.points, other, gone, width):
            state.score[other] -= 1
    state.work[EVENTS] += now.end - gone - 1


@lean
def _insert(state: State, attributes: Floats, row: int, seq: int) -> None:
    now, width = state.now[0], state.now[0].width
    new = now.end
    for at in range(width):
        state.points[new * width + at] = attributes[row, at]
    state.seq[new] = seq
    score = 0
    for other in range(now.first, new):
        if _dominates(state.points, other, new, width):
            state.score[other] += 1
        elif _dominates(state.points, new, other, width):
            score += 1
    state.score[new] = score
    now.end = new + 1
    state.work[EVENTS] += 2 * (new - now.first)


@lean
def _select(state: State) -> None:
    """The k best scores; of equal ones the newer first."""
    best, now, k = state.best, state.now[0], state.now[0].k
    best.size[0] = 0
    size = 0
    for at in range(now.end - 1, now.first - 1, -1):
        best.score[size] = float(state.score[at])
        best.seq[size] = state.seq[at]
        size += 1
        if size == 2 * k:
            best.size[0] = size
            rank(best)
            size = k
    best.size[0] = size
    rank(best)
    best.size[0] = min(k, size)
