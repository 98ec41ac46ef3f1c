"""Contenders: the exact scores of those points that bounds cannot rule out, and of no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.dominating.bounds import (
    Bounds,
    bounds,
    cell_at,
    count_cells,
    least,
    most,
    side_of,
)
from skyband.dominating.exact_scores import (
    Tracked,
    credit,
    outlived,
    rank_again,
    roomier_tracked,
    track,
    tracked,
    untrack,
)
from skyband.dominating.point_window import (
    ARRIVED,
    NEXT,
    NONE,
    OLDEST,
    POINTS,
    SLOTS,
    WIDTH,
    Field,
    exact_score,
    field,
    is_point,
    place_point,
    remove_oldest,
    slot_of,
)
from skyband.dominating.window import WindowAlgorithm, stale
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.emission import Out, report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import Ranked, ranked
from skyband.kernels.work import CANDIDATES, DELETIONS, INSERTIONS, RESCANS, SLIDES, counters
from skyband.order import Floats, Ints

_K, _TAKEN, _FLOOR, _SINCE, _SLACK, _WORKED, _WANTED, _CODED = range(8)
_LEVELS = 1024
_SHALLOW = 128  # part of the window by which the floor stays below the k-th score at first
_DEEP = 64  # the same for those that start from contenders
_PART = 8  # part of the window whose replacement in one step calls for a recount
_TOO_MUCH = 4  # times a recount's cost that contenders may cost before one
_CHEAP = 16 * 1024  # comparisons that are never worth a recount
_GROUND = -1  # a floor that every bound reaches, also those of cells without points
_NOBODY = 1 << 60  # a floor that no bound reaches
_READING = 16  # what counting a point by cell costs, in comparisons of a contender


class State(NamedTuple):
    """The window, its bounds and the contenders.

    ``numbers``: k; whether the points of the step have been taken in; the bound from which a point
    was a contender when bounds were counted; arrivals until then; how far the bound stayed below
    the k-th score; comparisons since; room that is lacking; arrivals when bounds were chosen.
    """

    held: Field
    limits: Bounds
    items: Tracked
    place: Ints  # by slot: place among the contenders, or NONE
    order: Ranked  # contenders in rank order: by score and sequence number
    levels: Ints  # scratch
    work: Ints
    numbers: Ints


class Contenders(WindowAlgorithm):
    """Maintains the exact scores of all points that may be answers, the *contenders*.

    Counts of points by cell give an upper bound of every score. At times the bounds are counted
    anew: points whose bound reaches a floor, somewhat below the k-th score, are contenders from
    then on, as are those that arrive in such cells. A score grows by one with an arrival at most,
    so nobody else can be an answer as long as the floor plus the arrivals since stays below the
    k-th score; then the bounds are counted again. How far below is found by trying: the deeper the
    floor, the more contenders and the fewer recounts, and the dearer of both is made cheaper.

    A point that k later ones are no worse than is never an answer, and no contender.

    Invariants: (1) the field holds the points of the window; (2) contenders have exact scores;
    (3) every other point scores less than the floor plus the arrivals since, or is never an answer.

    Complexity: O(m d) per arrival and expiry for m contenders, in blocks; O(n d) per new contender
    and per recount; space O(n d).
    """

    name = "contenders"
    state: State

    @override
    def new_state(self) -> State:
        return _state(field(64, self.width), 2, self.setting.k)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, rows.columns[0], steps, target, step)

    @override
    def resized(self, held: Field) -> None:
        state = self.state
        slots = int(held.numbers[SLOTS])
        place = np.full(slots, NONE, np.int64)
        size = int(state.items.size[0])
        place[state.items.seq[:size] & (slots - 1)] = np.arange(size)
        self.state = state._replace(held=held, place=place)

    @override
    def recoded(self) -> None:
        state = self.state
        side = side_of(int(state.held.numbers[POINTS]), self.width, 1.0)
        if side != int(state.limits.side[0]):
            state = state._replace(limits=bounds(side, self.width))
        state.numbers[_FLOOR], state.numbers[_SINCE] = _NOBODY, 0  # count before the next answer
        state.numbers[_SLACK] = max(state.numbers[_SLACK], state.held.numbers[POINTS] // _SHALLOW)
        self.state = state

    @override
    def make_room(self, arriving: int) -> None:
        if bool(stale(self.state.held, self.state.numbers)):
            self.recode()
        self.state = _roomier(self.state, arriving)

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state = self.state
        seqs, scores = self.true_scores(alive)
        size = int(state.items.size[0])
        known = dict(
            zip(state.items.seq[:size].tolist(), state.items.score[:size].tolist(), strict=True)
        )
        limit = state.numbers[_FLOOR] + state.held.numbers[ARRIVED] - state.numbers[_SINCE]
        for seq, score in zip(seqs, scores, strict=True):
            if seq in known:
                assert known[seq] == score, "2: a contender's score is off"
            elif score >= limit:
                slots = np.array(seqs) & (len(state.place) - 1)
                points = state.held.points.reshape(-1, self.width)
                no_worse = (points[slots] <= points[seq & (len(state.place) - 1)]).all(axis=1)
                later = np.count_nonzero(no_worse & (np.array(seqs) > seq))
                assert later >= state.numbers[_K], "3: a point that may win is no contender"
        assert set(known) <= set(seqs), "2: a contender has expired"


def _state(held: Field, side: int, k: int) -> State:
    """No contenders yet."""
    width, room = int(held.numbers[WIDTH]), 64
    return State(
        held,
        bounds(side, width),
        tracked(room, width),
        np.full(int(held.numbers[SLOTS]), NONE, np.int64),
        ranked(room),
        np.zeros(_LEVELS + 1, np.int64),
        counters(),
        np.array([k, 0, _NOBODY, 0, 1, 0, 0, 0], np.int64),
    )


def _roomier(state: State, arriving: int) -> State:
    wanted = max(int(state.numbers[_WANTED]), int(state.items.size[0]) + arriving)
    items = roomier_tracked(state.items, wanted, int(state.held.numbers[WIDTH]))
    order = ranked(len(items.seq))
    size = int(state.order.size[0])
    order.score[:size], order.seq[:size] = state.order.score[:size], state.order.seq[:size]
    order.size[0] = size
    return state._replace(items=items, order=order)


def contend(held: Field, k: int, work: Ints) -> State:
    """The contenders for the k best scores of a window, and for a while, and the others' bounds."""
    points = int(held.numbers[POINTS])
    state = _state(held, side_of(points, int(held.numbers[WIDTH]), 1.0), k)._replace(work=work)
    state.numbers[_SLACK] = points // _DEEP + 1
    while not _find(state):
        state = _roomier(state, 0)
    return state


def floor_of(state: State) -> int:
    """The bound from which points are contenders, unless they are never answers."""
    return int(state.numbers[_FLOOR])


@entry
def _find(state: State) -> bool:
    if not _recount(state):
        return False
    _sort(state)
    return True


@entry
def _advance(
    state: State, scores: Floats, attributes: Floats, steps: Steps, target: Out, step: int
) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    held, numbers = state.held, state.numbers
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if numbers[_TAKEN] == 0:
            arriving = steps.stop[step] - position
            if state.order.size[0] + arriving > len(state.items.seq):
                _sort(state)
            if state.order.size[0] + arriving > len(state.items.seq):
                numbers[_WANTED] = 0
                return step
            if arriving > 64 and arriving * _PART > held.numbers[POINTS]:
                numbers[_FLOOR], numbers[_SINCE] = _NOBODY, 0  # count when all are there
                if arriving * 2 > held.numbers[POINTS]:
                    _forget(state)
            while held.numbers[OLDEST] < min(steps.first[step], held.numbers[NEXT]):
                _expire(state)
            for row in range(position, steps.stop[step]):
                _arrive(state, attributes, row, scores[row] == scores[row])
            # what expires in the step in which it arrives
            while held.numbers[OLDEST] < steps.first[step]:
                _expire(state)
            numbers[_TAKEN] = 1
        if steps.emit[step]:
            _sort(state)
            if not _certain(state):
                since = held.numbers[ARRIVED] - numbers[_CODED]
                if _overworked(state) and 32 * since > held.numbers[POINTS]:
                    numbers[_CODED] -= held.numbers[POINTS]  # new points may need other codes
                if stale(held, numbers) or not _recount(state):
                    return step
                _sort(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.items.size[0]
            report_whole(target, step, state.order, numbers[_K])
        else:
            skip(target, step)
        numbers[_TAKEN] = 0
        position = steps.stop[step]
        step += 1
    return step


@lean
def _forget(state: State) -> None:
    """No contenders any more: most of the window is about to be replaced."""
    for at in range(state.items.size[0]):
        state.place[slot_of(state.held, state.items.seq[at])] = NONE
    state.items.size[0] = 0
    state.order.size[0] = 0


@lean
def _expire(state: State) -> None:
    held = state.held
    slot = slot_of(held, held.numbers[OLDEST])
    if is_point(held, slot):
        if state.place[slot] != NONE:
            _drop(state, slot)
        credit(state.items, held, slot, -1, state.work)
        state.numbers[_WORKED] += state.items.size[0]
    remove_oldest(held)


@lean
def _arrive(state: State, attributes: Floats, row: int, is_ranked: bool) -> None:
    held = state.held
    seq = held.numbers[NEXT]
    slot = place_point(held, attributes, row, is_ranked)
    if is_ranked:
        credit(state.items, held, slot, 1, state.work)
        state.numbers[_WORKED] += state.items.size[0]
        if most(state.limits, cell_at(held, slot, state.limits.side[0])) >= state.numbers[_FLOOR]:
            _contend(state, seq, slot)
            state.numbers[_WORKED] += held.numbers[POINTS]


@lean
def _contend(state: State, seq: int, slot: int) -> None:
    """Make a point a contender."""
    state.place[slot] = track(
        state.items, state.held, seq, exact_score(state.held, slot, state.work)
    )
    at = state.order.size[0]
    state.order.seq[at] = seq
    state.order.size[0] = at + 1
    state.work[INSERTIONS] += 1


@lean
def _drop(state: State, slot: int) -> None:
    """A point is no contender any more; the order forgets it when it is sorted next."""
    held, place = state.held, state.place[slot]
    state.place[slot] = NONE
    moved = untrack(state.items, place, held.numbers[WIDTH])
    if moved != NONE:
        state.place[slot_of(held, moved)] = place
    state.work[DELETIONS] += 1


@lean
def _sort(state: State) -> None:
    rank_again(state.order, state.items, state.place, state.held)


@lean
def _overworked(state: State) -> bool:
    """Whether contenders have cost more than finding them anew would."""
    held, numbers = state.held, state.numbers
    recount = _READING * held.numbers[POINTS]
    few = state.items.size[0] <= 4 * numbers[_K] + 64  # it is their coming and going that costs
    patience = _TOO_MUCH * (4 if few else 1)
    return recount > _CHEAP and numbers[_WORKED] > patience * recount


@lean
def _certain(state: State) -> bool:
    """Whether nobody but contenders can be an answer, and they are not too many to go on with."""
    held, numbers, k = state.held, state.numbers, state.numbers[_K]
    if _overworked(state):
        return False
    size, points = state.items.size[0], held.numbers[POINTS]
    if size == points or numbers[_FLOOR] == _GROUND:
        return True
    if state.items.size[0] < k:
        return False
    limit = numbers[_FLOOR] + held.numbers[ARRIVED] - numbers[_SINCE]
    return state.order.score[k - 1] >= limit


@lean
def _recount(state: State) -> bool:
    """Count the bounds anew, and choose the contenders; False if room for them is lacking."""
    held, numbers, limits, items = state.held, state.numbers, state.limits, state.items
    k = numbers[_K]
    count_cells(held, limits)
    state.work[RESCANS] += 1
    if items.size[0] < k and not _seed(state):
        return False
    _sort(state)
    floor = _GROUND
    if items.size[0] >= k:
        floor = max(int(state.order.score[k - 1]) - numbers[_SLACK], _GROUND)
    wanted = 0
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if is_point(held, slot) and most(limits, cell_at(held, slot, limits.side[0])) >= floor:
            wanted += 1
    if wanted + items.size[0] > len(items.seq):
        numbers[_WANTED] = wanted + items.size[0]
        return False
    many = items.size[0] > 4 * k + 64
    for seq in range(held.numbers[NEXT] - 1, held.numbers[OLDEST] - 1, -1):
        slot = slot_of(held, seq)
        if is_point(held, slot):
            known = state.place[slot] != NONE
            may_win = most(limits, cell_at(held, slot, limits.side[0])) >= floor
            if may_win and (many or not known):
                may_win = not outlived(items, held, seq, k, state.work)
            if may_win and not known:
                _contend(state, seq, slot)
            elif known and not may_win:
                _drop(state, slot)
    numbers[_FLOOR], numbers[_SINCE] = floor, held.numbers[ARRIVED]
    if held.numbers[POINTS] * _READING > numbers[_WORKED]:
        numbers[_SLACK] = min(2 * numbers[_SLACK], held.numbers[POINTS] + 1)
    else:
        numbers[_SLACK] = max(numbers[_SLACK] // 2, 1)
    numbers[_WORKED] = 0
    return True


@lean
def _seed(state: State) -> bool:
    """Make the points with the largest lower bounds contenders, k at least if there are as many."""
    held, limits, levels = state.held, state.limits, state.levels
    k, width = state.numbers[_K], held.numbers[WIDTH]
    scale = held.numbers[POINTS] // _LEVELS + 1
    levels[:] = 0
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if is_point(held, slot):
            levels[least(limits, cell_at(held, slot, limits.side[0]), width) // scale] += 1
    level, wanted = len(levels) - 1, levels[len(levels) - 1]
    while wanted < k and level > 0:
        level -= 1
        wanted += levels[level]
    if wanted + state.items.size[0] > len(state.items.seq):
        state.numbers[_WANTED] = wanted + state.items.size[0]
        return False
    for seq in range(held.numbers[NEXT] - 1, held.numbers[OLDEST] - 1, -1):
        slot = slot_of(held, seq)
        if is_point(held, slot) and state.place[slot] == NONE:
            bound = least(limits, cell_at(held, slot, limits.side[0]), width)
            if bound // scale >= level and not outlived(state.items, held, seq, k, state.work):
                _contend(state, seq, slot)
    return True
