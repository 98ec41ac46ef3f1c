"""BFA, the brute force algorithm: every score is kept up to date by checking every pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.emission import Out, report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import Ranked, rank, ranked
from skyband.kernels.work import CANDIDATES, EVENTS, SLIDES, counters
from skyband.order import Floats, Ints


class State(NamedTuple):
    """The points of the window, oldest first, and what each of them dominates."""

    points: Floats  # place * dimensions + dimension; less is better
    seq: Ints
    score: Ints
    best: Ranked
    work: Ints
    numbers: Ints  # k, dimensions, first point, points after the last


_MOST = 1 << 24  # answers at most: room for them is made at once
_K, _WIDTH, _FIRST, _LAST = 0, 1, 2, 3


class Bfa(Algorithm):
    """Maintains the score of every point of the window.

    Invariants: (1) the points are those of the window that can be ranked, oldest first; (2) each
    score is the number of points that it dominates.

    Complexity: O(n d) per arrival and per expiry, O(n + k log k) per slide; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 3.
    """

    name = "bfa"
    attributes = True
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
            np.array([setting.k, self.width, 0, 0], np.int64),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, rows.columns[0], steps, target, step)

    def reserve(self, rows: Rows, steps: Steps) -> None:
        """Move the points to the front, and make room for as many as arrive."""
        state = self.state
        first, last = int(state.numbers[_FIRST]), int(state.numbers[_LAST])
        held = last - first
        room = max(len(state.seq), held + rows.size)
        width = self.width
        points, seq, score = np.zeros(room * width), *(np.zeros(room, np.int64) for _ in range(2))
        points[: held * width] = state.points[first * width : last * width]
        seq[:held], score[:held] = state.seq[first:last], state.score[first:last]
        state.numbers[_FIRST], state.numbers[_LAST] = 0, held
        self.state = state._replace(points=points, seq=seq, score=score)

    @override
    def kept(self) -> Ints:
        first, last = self.state.numbers[_FIRST], self.state.numbers[_LAST]
        return self.state.seq[first:last].copy()

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state = self.state
        first, last = int(state.numbers[_FIRST]), int(state.numbers[_LAST])
        assert state.seq[first:last].tolist() == sorted(alive), "1: not the window's points"
        points = state.points.reshape(-1, self.width)[first:last]
        for at, point in enumerate(points):
            dominated = (point <= points).all(axis=1) & (point < points).any(axis=1)
            assert state.score[first + at] == dominated.sum(), "2: a score is off"


@entry
def _advance(
    state: State, scores: Floats, attributes: Floats, steps: Steps, target: Out, step: int
) -> int:
    """Take in a batch from a step on; return the number of steps."""
    numbers = state.numbers
    k = numbers[_K]
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        while numbers[_FIRST] < numbers[_LAST] and state.seq[numbers[_FIRST]] < steps.first[step]:
            _expire(state)
        for at in range(position, steps.stop[step]):
            if scores[at] == scores[at]:
                _insert(state, attributes, at, steps.base[0] + at)
        position = steps.stop[step]
        if steps.emit[step]:
            _select(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += numbers[_LAST] - numbers[_FIRST]
            report_whole(target, step, state.best, k)
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
    numbers, width = state.numbers, state.numbers[_WIDTH]
    gone = numbers[_FIRST]
    numbers[_FIRST] = gone + 1
    for other in range(gone + 1, numbers[_LAST]):
        if _dominates(state.points, other, gone, width):
            state.score[other] -= 1
    state.work[EVENTS] += numbers[_LAST] - gone - 1


@lean
def _insert(state: State, attributes: Floats, row: int, seq: int) -> None:
    numbers, width = state.numbers, state.numbers[_WIDTH]
    new = numbers[_LAST]
    for at in range(width):
        state.points[new * width + at] = attributes[row, at]
    state.seq[new] = seq
    score = 0
    for other in range(numbers[_FIRST], new):
        if _dominates(state.points, other, new, width):
            state.score[other] += 1
        elif _dominates(state.points, new, other, width):
            score += 1
    state.score[new] = score
    numbers[_LAST] = new + 1
    state.work[EVENTS] += 2 * (new - numbers[_FIRST])


@lean
def _select(state: State) -> None:
    """The k best scores; of equal ones the newer first."""
    best, k = state.best, state.numbers[_K]
    best.size[0] = 0
    size = 0
    for at in range(state.numbers[_LAST] - 1, state.numbers[_FIRST] - 1, -1):
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
