"""BFA, the brute force algorithm: every score is kept up to date by checking every pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.kernels.emission import skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, EVENTS, SLIDES, counters
from skyband.order import Floats, Ints


class State(NamedTuple):
    """The points of the window, oldest first, and what each of them dominates."""

    points: Floats  # place * dimensions + dimension; less is better
    seq: Ints
    score: Ints
    counts: Ints  # scratch, by score
    work: Ints
    now: Record


_NOW = fields(
    "k",
    "width",
    "oldest_first",
    "shares_ranks",
    "dense",
    "first",  # the place of the first point
    "end",  # the place after the last
    "taken",  # the number of the next row to be taken in
    "lacking",  # rows of an answer that found no room
)


class Bfa(Algorithm):
    """Maintains the score of every point of the window.

    Scores are whole numbers below the number of points, so answers are counted, not sorted; and
    since every score is there, points may share ranks, and be ordered by age in either way.

    Invariants: (1) the points are those of the window that can be ranked, oldest first; (2) each
    score is the number of points that it dominates.

    Complexity: O(n d) per arrival and per expiry, O(n) per slide; space O(n d).

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
        room = 64
        return State(
            np.zeros(room * self.width),
            np.zeros(room, np.int64),
            np.zeros(room, np.int64),
            np.zeros(room, np.int64),
            counters(),
            record(
                _NOW,
                k=setting.k,
                width=self.width,
                oldest_first=setting.oldest_first,
                shares_ranks=setting.rank_by != "row_number",
                dense=setting.rank_by == "dense_rank",
            ),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, rows.columns[0], steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        self._make_room(rows.size)

    @override
    def lacking(self, target: Out) -> int:
        return int(self.state.now[0]["lacking"])

    @override
    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        # snapshots of earlier versions do not say all of it
        names = ("oldest_first", "shares_ranks", "dense", "taken", "lacking")
        unspoken = {f"now.{name}": np.zeros(1, np.int64) for name in names}
        unspoken["counts"] = np.zeros(len(arrays["seq"]), np.int64)
        super().restored(header, {**unspoken, **arrays})

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
        points = np.zeros(room * width)
        seq, score, counts = (np.zeros(room, np.int64) for _ in range(3))
        points[: alive * width] = state.points[first * width : end * width]
        seq[:alive], score[:alive] = state.seq[first:end], state.score[first:end]
        now.first, now.end = 0, alive
        self.state = state._replace(points=points, seq=seq, score=score, counts=counts)

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
    """Take in a batch from a step on; return the step whose answer found no room."""
    now = state.now[0]
    while step < len(steps.stop):
        while now.first < now.end and state.seq[now.first] < steps.first[step]:
            _expire(state)
        # a step that begins again, since its answer lacked room, has taken in its rows
        for at in range(max(now.taken - steps.base[0], 0), steps.stop[step]):
            if scores[at] == scores[at]:
                _insert(state, attributes, at, steps.base[0] + at)
        now.taken = steps.base[0] + steps.stop[step]
        if steps.emit[step]:
            now.lacking = _report(state, target)
            if now.lacking > 0:
                return step
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += now.end - now.first
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
def _report(state: State, target: Out) -> int:
    """Report the points that rank, the best first; of equal scores by age, as the query says.

    Returns how many there are if the answer has no room for them, else 0. O(n).
    """
    now, counts, rows = state.now[0], state.counts, target.rows
    alive = now.end - now.first
    for score in range(alive):
        counts[score] = 0
    for at in range(now.first, now.end):
        counts[_level(state, at)] += 1
    # from the highest score down: where its points begin in the answer
    lowest, ranks, size = alive, 0, 0
    while lowest > 0 and ranks < now.k:
        lowest -= 1
        points = counts[lowest]
        counts[lowest] = size
        size += points
        ranks += min(points, 1) if now.dense != 0 else points
    if now.shares_ranks == 0:
        size = min(size, now.k)
    low = rows.size[0]
    if low + size > len(rows.score):
        return size
    for number in range(alive):
        at = now.first + number if now.oldest_first != 0 else now.end - 1 - number
        level = _level(state, at)
        if level >= lowest and counts[level] < size:
            rows.score[low + counts[level]] = float(state.score[at])
            rows.seq[low + counts[level]] = state.seq[at]
            counts[level] += 1
    rows.size[0] = low + size
    return 0


@lean
def _level(state: State, at: int) -> int:
    """The score of the point at a place; one that was estimated may be beyond what is possible."""
    now = state.now[0]
    return max(0, min(state.score[at], now.end - now.first - 1))
