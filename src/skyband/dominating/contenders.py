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
    ExactScores,
    add_point,
    exact_scores,
    outlived,
    rank_again,
    remove_point,
    roomier_scores,
    update_scores,
)
from skyband.dominating.point_window import (
    NONE,
    PointWindow,
    exact_score,
    is_point,
    place_point,
    point_window,
    remove_oldest,
    slot_of,
    stale,
)
from skyband.dominating.window import WindowAlgorithm
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.emission import report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, DELETIONS, INSERTIONS, RESCANS, SLIDES, counters
from skyband.order import Floats, Ints

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
    """The window, its bounds and the contenders."""

    window: PointWindow
    limits: Bounds
    contenders: ExactScores
    place: Ints  # by slot: place among the contenders, or NONE
    order: Ranked  # contenders in rank order: by score and sequence number
    levels: Ints  # scratch
    work: Ints
    now: Record


_NOW = fields(
    "k",
    "taken_in",  # whether the points of the step have been taken in
    "floor",  # the bound from which a point was a contender when bounds were counted
    "counted_at",  # arrivals when bounds were counted
    "slack",  # how far the floor stays below the k-th score
    "cost",  # comparisons since bounds were counted
    "wanted",  # room for contenders that is lacking
)


class Contenders(WindowAlgorithm):
    """Maintains the exact scores of all points that may be answers, the *contenders*.

    Counts of points by cell give an upper bound of every score. At times the bounds are counted
    anew: points whose bound reaches a floor, somewhat below the k-th score, are contenders from
    then on, as are those that arrive in such cells. A score grows by one with an arrival at most,
    so nobody else can be an answer as long as the floor plus the arrivals since stays below the
    k-th score; then the bounds are counted again. How far below is found by trying: the deeper the
    floor, the more contenders and the fewer recounts, and the dearer of both is made cheaper.

    A point that k later ones are no worse than is never an answer, and no contender.

    Invariants: (1) the point window holds the points of the window; (2) contenders have exact
    scores; (3) every other point scores less than the floor plus the arrivals since, or is never an
    answer.

    Complexity: O(m d) per arrival and expiry for m contenders, in blocks; O(n d) per new contender
    and per recount; space O(n d).
    """

    name = "contenders"
    state: State

    @override
    def new_state(self) -> State:
        return _state(point_window(64, self.width), 2, self.setting.k)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, rows.columns[0], steps, target, step)

    @override
    def resized(self, window: PointWindow) -> None:
        state = self.state
        slots = int(window.now[0].slots)
        place = np.full(slots, NONE, np.int64)
        size = int(state.contenders.size[0])
        place[state.contenders.seq[:size] & (slots - 1)] = np.arange(size)
        self.state = state._replace(window=window, place=place)

    @override
    def recoded(self) -> None:
        state = self.state
        now, points = state.now[0], int(state.window.now[0].points)
        side = side_of(points, self.width, 1.0)
        if side != int(state.limits.side[0]):
            state = state._replace(limits=bounds(side, self.width))
        now.floor, now.counted_at = _NOBODY, 0  # count before the next answer
        now.slack = max(int(now.slack), points // _SHALLOW)
        self.state = state

    @override
    def make_room(self, arriving: int) -> None:
        if bool(stale(self.state.window)):
            self.recode()
        self.state = _roomier(self.state, arriving)

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state = self.state
        contenders, now = state.contenders, state.now[0]
        seqs, scores = self.true_scores(alive)
        size = int(contenders.size[0])
        known = dict(
            zip(contenders.seq[:size].tolist(), contenders.score[:size].tolist(), strict=True)
        )
        limit = now.floor + state.window.now[0].arrived - now.counted_at
        for seq, score in zip(seqs, scores, strict=True):
            if seq in known:
                assert known[seq] == score, "2: a contender's score is off"
            elif score >= limit:
                slots = np.array(seqs) & (len(state.place) - 1)
                points = state.window.points.reshape(-1, self.width)
                no_worse = (points[slots] <= points[seq & (len(state.place) - 1)]).all(axis=1)
                later = np.count_nonzero(no_worse & (np.array(seqs) > seq))
                assert later >= now.k, "3: a point that may win is no contender"
        assert set(known) <= set(seqs), "2: a contender has expired"


def _state(window: PointWindow, side: int, k: int) -> State:
    """No contenders yet."""
    width, room = int(window.now[0].width), 64
    return State(
        window,
        bounds(side, width),
        exact_scores(room, width),
        np.full(int(window.now[0].slots), NONE, np.int64),
        ranked(room),
        np.zeros(_LEVELS + 1, np.int64),
        counters(),
        record(_NOW, k=k, floor=_NOBODY, slack=1),
    )


def _roomier(state: State, arriving: int) -> State:
    wanted = max(int(state.now[0].wanted), int(state.contenders.size[0]) + arriving)
    contenders = roomier_scores(state.contenders, wanted, int(state.window.now[0].width))
    order = ranked(len(contenders.seq))
    size = int(state.order.size[0])
    order.score[:size], order.seq[:size] = state.order.score[:size], state.order.seq[:size]
    order.size[0] = size
    return state._replace(contenders=contenders, order=order)


def contend(window: PointWindow, k: int, work: Ints) -> State:
    """The contenders for the k best scores of a window, and for a while, and the others' bounds."""
    points, width = int(window.now[0].points), int(window.now[0].width)
    state = _state(window, side_of(points, width, 1.0), k)._replace(work=work)
    state.now[0].slack = points // _DEEP + 1
    while not _find(state):
        state = _roomier(state, 0)
    return state


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
    window, now, span = state.window, state.now[0], state.window.now[0]
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if now.taken_in == 0:
            arriving = steps.stop[step] - position
            if state.order.size[0] + arriving > len(state.contenders.seq):
                _sort(state)
            if state.order.size[0] + arriving > len(state.contenders.seq):
                now.wanted = 0
                return step
            if arriving > 64 and arriving * _PART > span.points:
                now.floor, now.counted_at = _NOBODY, 0  # count when all are there
                if arriving * 2 > span.points:
                    _forget(state)
            while span.oldest < min(steps.first[step], span.end):
                _expire(state)
            for row in range(position, steps.stop[step]):
                _arrive(state, attributes, row, scores[row] == scores[row])
            # what expires in the step in which it arrives
            while span.oldest < steps.first[step]:
                _expire(state)
            now.taken_in = 1
        if steps.emit[step]:
            _sort(state)
            if not _certain(state):
                since = span.arrived - span.coded_at
                if _overworked(state) and 32 * since > span.points:
                    span.coded_at -= span.points  # new points may need other codes
                if stale(window) or not _recount(state):
                    return step
                _sort(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.contenders.size[0]
            report_whole(target, step, state.order, now.k)
        else:
            skip(target, step)
        now.taken_in = 0
        position = steps.stop[step]
        step += 1
    return step


@lean
def _forget(state: State) -> None:
    """Drop all contenders: most of the window is about to be replaced."""
    for at in range(state.contenders.size[0]):
        state.place[slot_of(state.window, state.contenders.seq[at])] = NONE
    state.contenders.size[0] = 0
    state.order.size[0] = 0


@lean
def _expire(state: State) -> None:
    window = state.window
    slot = slot_of(window, window.now[0].oldest)
    if is_point(window, slot):
        if state.place[slot] != NONE:
            _drop(state, slot)
        update_scores(state.contenders, window, slot, -1, state.work)
        state.now[0].cost += state.contenders.size[0]
    remove_oldest(window)


@lean
def _arrive(state: State, attributes: Floats, row: int, is_ranked: bool) -> None:
    window, now = state.window, state.now[0]
    seq = window.now[0].end
    slot = place_point(window, attributes, row, is_ranked)
    if is_ranked:
        update_scores(state.contenders, window, slot, 1, state.work)
        now.cost += state.contenders.size[0]
        if most(state.limits, cell_at(window, slot, state.limits.side[0])) >= now.floor:
            _contend(state, seq, slot)
            now.cost += window.now[0].points


@lean
def _contend(state: State, seq: int, slot: int) -> None:
    """Make a point a contender."""
    score = exact_score(state.window, slot, state.work)
    state.place[slot] = add_point(state.contenders, state.window, seq, score)
    at = state.order.size[0]
    state.order.seq[at] = seq
    state.order.size[0] = at + 1
    state.work[INSERTIONS] += 1


@lean
def _drop(state: State, slot: int) -> None:
    """Remove a point from the contenders; the order drops it when it is sorted next."""
    window, place = state.window, state.place[slot]
    state.place[slot] = NONE
    moved = remove_point(state.contenders, place, window.now[0].width)
    if moved != NONE:
        state.place[slot_of(window, moved)] = place
    state.work[DELETIONS] += 1


@lean
def _sort(state: State) -> None:
    rank_again(state.order, state.contenders, state.place, state.window)


@lean
def _overworked(state: State) -> bool:
    """Whether contenders have cost more than finding them anew would."""
    now = state.now[0]
    recount = _READING * state.window.now[0].points
    patience = _TOO_MUCH
    if state.contenders.size[0] <= 4 * now.k + 64:
        patience *= 4  # so few that it is their coming and going that costs
    return recount > _CHEAP and now.cost > patience * recount


@lean
def _certain(state: State) -> bool:
    """Whether only contenders can be answers, and they are not too many to go on with."""
    now, span, k = state.now[0], state.window.now[0], state.now[0].k
    if _overworked(state):
        return False
    if state.contenders.size[0] == span.points or now.floor == _GROUND:
        return True
    if state.contenders.size[0] < k:
        return False
    return state.order.score[k - 1] >= now.floor + span.arrived - now.counted_at


@lean
def _recount(state: State) -> bool:
    """Count the bounds anew, and choose the contenders; False if room for them is lacking."""
    window, limits, contenders = state.window, state.limits, state.contenders
    now, span = state.now[0], window.now[0]
    k = now.k
    count_cells(window, limits)
    state.work[RESCANS] += 1
    if contenders.size[0] < k and not _seed(state):
        return False
    _sort(state)
    floor = _GROUND
    if contenders.size[0] >= k:
        floor = max(int(state.order.score[k - 1]) - now.slack, _GROUND)
    wanted = 0
    for seq in range(span.oldest, span.end):
        slot = slot_of(window, seq)
        if is_point(window, slot) and most(limits, cell_at(window, slot, limits.side[0])) >= floor:
            wanted += 1
    if wanted + contenders.size[0] > len(contenders.seq):
        now.wanted = wanted + contenders.size[0]
        return False
    many = contenders.size[0] > 4 * k + 64
    for seq in range(span.end - 1, span.oldest - 1, -1):
        slot = slot_of(window, seq)
        if is_point(window, slot):
            known = state.place[slot] != NONE
            may_win = most(limits, cell_at(window, slot, limits.side[0])) >= floor
            if may_win and (many or not known):
                may_win = not outlived(contenders, window, seq, k, state.work)
            if may_win and not known:
                _contend(state, seq, slot)
            elif known and not may_win:
                _drop(state, slot)
    now.floor, now.counted_at = floor, span.arrived
    if span.points * _READING > now.cost:
        now.slack = min(2 * now.slack, span.points + 1)
    else:
        now.slack = max(now.slack // 2, 1)
    now.cost = 0
    return True


@lean
def _seed(state: State) -> bool:
    """Make the points with the largest lower bounds contenders, k at least if there are as many."""
    window, limits, levels = state.window, state.limits, state.levels
    now, span = state.now[0], window.now[0]
    k, width = now.k, span.width
    scale = span.points // _LEVELS + 1
    levels[:] = 0
    for seq in range(span.oldest, span.end):
        slot = slot_of(window, seq)
        if is_point(window, slot):
            levels[least(limits, cell_at(window, slot, limits.side[0]), width) // scale] += 1
    level, wanted = len(levels) - 1, levels[len(levels) - 1]
    while wanted < k and level > 0:
        level -= 1
        wanted += levels[level]
    if wanted + state.contenders.size[0] > len(state.contenders.seq):
        now.wanted = wanted + state.contenders.size[0]
        return False
    for seq in range(span.end - 1, span.oldest - 1, -1):
        slot = slot_of(window, seq)
        if is_point(window, slot) and state.place[slot] == NONE:
            bound = least(limits, cell_at(window, slot, limits.side[0]), width)
            if bound // scale >= level and not outlived(
                state.contenders, window, seq, k, state.work
            ):
                _contend(state, seq, slot)
    return True
