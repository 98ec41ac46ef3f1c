"""AHBA, the approximate algorithm with a guarantee by the Hoeffding bound."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from typing_extensions import override

from skyband.dominating.ada import (
    Ada,
    arrive,
    compute_score,
    count_points,
    decide,
    demote_candidates,
    postpone,
    promote_candidates,
    renew_bounds,
    start_events,
)
from skyband.dominating.bounds import least, most
from skyband.dominating.cells import dominates_cell
from skyband.dominating.contenders import State as Contending
from skyband.dominating.eva import reference_bound
from skyband.dominating.events.accuracy import gauge_at_times
from skyband.dominating.events.answers import bound_of_event, full
from skyband.dominating.events.loop import (
    begin_step,
    expire_oldest,
    finish_step,
    last_due,
    next_arrival,
    next_event,
    ready,
    start_answers,
)
from skyband.dominating.events.state import Samples, State, draw
from skyband.dominating.exact_scores import add_point, exact_scores, remove_point, update_scores
from skyband.dominating.point_window import NONE, exact_score, is_point, seq_of, slot_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out
from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints

_LEAST = 0.001  # of epsilon and delta, and what is left of them
_LISTED = 1024  # cells with samples at most


class Ahba(Ada):
    """Maintains what ADA does, and samples of cells whose scores stand for those of other points.

    ``epsilon`` is the error of the mean, as part of the range of scores of the cell, that is
    exceeded with a probability of at most ``1 - delta``: a sample has ln(1 / (1 - delta)) / (2
    epsilon^2) points. A point counts as scoring no more than that mean and error, or than the
    largest of the sample; one that scores more may be missed, or found too late.

    Complexity: as ADA's, the points of samples counting as candidates do.

    Reference: Kontaki et al., TKDE 2012, section 7.1.
    """

    name = "ahba"
    options = ("obsolete", "partial", "epsilon", "delta")
    approximate = True

    @override
    def settings(self) -> dict[str, int]:
        sizes = {
            "sample_size": self.sample_size(),
            "sample_error": round(1000 * self.sample_error()),
        }
        return {**super().settings(), **sizes}

    def sample_size(self) -> int:
        """Points in the sample of a cell."""
        delta = _share(self.setting.options.get("delta", 0.9), "delta", 0.9)
        return math.ceil(math.log(1 / (1 - delta)) / (2 * self.sample_error() ** 2))

    def sample_error(self) -> float:
        """The error of a sample's mean, as part of the range of scores in its cell."""
        return _share(self.setting.options.get("epsilon", 0.1), "epsilon", 0.1)

    @override
    def rebuilt(self, state: State) -> State:
        state = super().rebuilt(state)
        span, cells = state.window.now[0], len(state.grid.first)
        room = max(4096, int(span.points) // 20)
        state.now[0].sample_room = room
        samples = Samples(
            exact_scores(room, self.width),
            np.full(int(span.slots), NONE, np.int64),
            np.full(cells, NONE, np.int64),
            np.zeros(cells, np.int64),
            np.zeros(cells, np.int64),
            np.zeros(1 + _LISTED, np.int64),
        )
        return state._replace(samples=samples)

    @override
    def advance(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        attributes = rows.columns[0]
        return _advance(self.state, rows.score, attributes, steps, target, self.missed, step)

    @override
    def begin(self, contending: Contending) -> None:
        _begin(self.state, contending)


def _share(given: object, name: str, usual: float) -> float:
    if not isinstance(given, bool) and isinstance(given, Real):
        share = float(given)
        if _LEAST <= share <= 1 - _LEAST:
            return share
    raise QueryError(
        f"{name} is {given!r}",
        f"a number from {_LEAST} to {1 - _LEAST}",
        f"write {name}={usual}",
    )


@entry
def _advance(
    state: State,
    scores: Floats,
    attributes: Floats,
    steps: Steps,
    target: Out,
    missed: Ints,
    step: int,
) -> int:
    """Take in a batch from a step on; return the step before which it must be started anew."""
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if not state.now[0].taken_in:
            _take_in(state, scores, attributes, position, steps.stop[step], steps.first[step])
        if steps.emit[step]:
            if not ready(state):
                return step
            _settle(state)
        if not finish_step(state, steps, target, missed, step):
            return step
        position = steps.stop[step]
        step += 1
    return step


@lean
def _take_in(
    state: State, scores: Floats, attributes: Floats, start: int, stop: int, first: int
) -> None:
    """Take in the rows of a step, and remove those before ``first``."""
    span = state.window.now[0]
    begin_step(state, stop - start)
    while span.oldest < min(first, span.end):
        _expire(state)
    for row in range(start, stop):
        _arrive(state, attributes, row, scores[row] == scores[row])
    while span.oldest < first:  # what expires in the step in which it arrives
        _expire(state)
    state.now[0].taken_in = 1


@entry
def _begin(state: State, contending: Contending) -> None:
    count_points(state)
    start_answers(state, contending)
    _forget_samples(state)
    if renew_bounds(state):
        _choose_samples(state)
    start_events(state, contending)


@lean
def _expire(state: State) -> None:
    """Remove the oldest point of the window, also from its sample."""
    window, samples = state.window, state.samples
    slot = slot_of(window, window.now[0].oldest)
    if is_point(window, slot):
        if samples.place[slot] != NONE:
            _leave_sample(state, slot)
        if not state.now[0].must_start:
            update_scores(samples.points, window, slot, -1, state.work)
    expire_oldest(state)


@lean
def _arrive(state: State, attributes: Floats, row: int, is_ranked: bool) -> int:
    """Add a row to the window, and count it also for the points of samples; return its slot."""
    slot = arrive(state, attributes, row, is_ranked)
    if is_ranked and not state.now[0].must_start:
        update_scores(state.samples.points, state.window, slot, 1, state.work)
    return slot


@lean
def _settle(state: State) -> None:
    """Examine the new points and those whose events are due, with what samples say of them."""
    promote_candidates(state)
    if renew_bounds(state):
        _choose_samples(state)
    _add_up(state)
    slot = next_arrival(state)
    while slot != NONE:
        _join_sample(state, slot)
        _examine(state, seq_of(state.window, slot), slot, reference_bound(state, slot))
        slot = next_arrival(state)
    last = last_due(state)
    slot = next_event(state, last)
    while slot != NONE:
        _examine(state, seq_of(state.window, slot), slot, bound_of_event(state, slot))
        slot = next_event(state, last)
    demote_candidates(state)
    gauge_at_times(state)


@lean
def _examine(state: State, seq: int, slot: int, bound: int) -> None:
    """Schedule an event if a bound or the sample allows it; otherwise the exact score decides."""
    if full(state):
        estimate = _estimate(state, slot)
        if estimate != NONE and (bound == NONE or estimate < bound):
            bound = estimate
    if postpone(state, seq, slot, bound):
        return
    place = state.samples.place[slot]
    if place != NONE:
        decide(state, seq, slot, state.samples.points.score[place])
    else:
        decide(state, seq, slot, compute_score(state, seq, slot))


@lean
def _estimate(state: State, slot: int) -> int:
    """What a point scores at most, as the sample of its cell has it; NONE if there is no sample.

    The mean of the sample and its error, by the bound of Hoeffding, or the largest score of the
    sample, if that is more: scores in wide cells differ a lot from their mean.
    """
    samples, limits, cell = state.samples, state.limits, state.grid.cell[slot]
    size = samples.size[cell]
    if size <= 0:
        return NONE
    score_range = most(limits, cell) - least(limits, cell, state.window.now[0].width)
    error = state.now[0].sample_error * score_range // 1000
    return max(samples.total[cell] // size + 1 + error, samples.largest[cell])


@lean
def _add_up(state: State) -> None:
    """Bring the sums by cell up to date. O(points in samples)."""
    samples = state.samples
    for at in range(samples.listed[0]):
        samples.total[samples.listed[1 + at]] = 0
        samples.largest[samples.listed[1 + at]] = 0
    for at in range(samples.points.size[0]):
        cell = state.grid.cell[slot_of(state.window, samples.points.seq[at])]
        samples.total[cell] += samples.points.score[at]
        samples.largest[cell] = max(samples.largest[cell], samples.points.score[at])


@lean
def _join_sample(state: State, slot: int) -> None:
    """Take a new point into the sample of its cell, if that has one and is short."""
    size = state.samples.size[state.grid.cell[slot]]
    if size != NONE and size < state.now[0].sample_size:
        _add_to_sample(state, seq_of(state.window, slot), slot)


@lean
def _add_to_sample(state: State, seq: int, slot: int) -> None:
    """Take a point into the sample of its cell, if there is room."""
    samples, cell = state.samples, state.grid.cell[slot]
    if samples.points.size[0] >= state.now[0].sample_room or samples.place[slot] != NONE:
        return
    score = exact_score(state.window, slot, state.work)
    samples.place[slot] = add_point(samples.points, state.window, seq, score)
    samples.size[cell] += 1
    samples.total[cell] += score
    samples.largest[cell] = max(samples.largest[cell], score)


@lean
def _leave_sample(state: State, slot: int) -> None:
    """Take a point out of its sample."""
    samples, cell = state.samples, state.grid.cell[slot]
    place = samples.place[slot]
    moved = remove_point(samples.points, place, state.window.now[0].width)
    if moved != NONE:
        samples.place[slot_of(state.window, moved)] = place
    samples.place[slot] = NONE
    if samples.size[cell] != NONE:
        samples.size[cell] -= 1


@lean
def _forget_samples(state: State) -> None:
    state.samples.points.size[0] = 0
    state.samples.place[:] = NONE
    state.samples.size[:] = NONE
    state.samples.listed[0] = 0


@lean
def _choose_samples(state: State) -> None:
    """Choose the cells to sample: those that may hold answers and that no such cell dominates.

    Bounds must be up to date, and the k best complete. Samples of other cells are dropped, and
    those that are short are filled at random.
    """
    samples, grid, now = state.samples, state.grid, state.now[0]
    width, side = state.window.now[0].width, grid.side[0]
    threshold = int(state.best.score[now.k - 1]) - now.near // 2
    samples.size[:] = NONE
    listed = 0
    for cell in range(len(grid.first)):
        if grid.points[cell] == 0 or most(state.limits, cell) <= threshold:
            continue
        dominated = False
        for at in range(listed):
            if dominates_cell(samples.listed[1 + at], cell, side, width):
                dominated = True
                break
        if not dominated and 1 + listed < len(samples.listed):
            samples.listed[1 + listed] = cell
            samples.size[cell] = 0
            listed += 1
    samples.listed[0] = listed
    _drop_other_samples(state)
    for at in range(listed):
        _fill_sample(state, samples.listed[1 + at])
    _add_up(state)


@lean
def _drop_other_samples(state: State) -> None:
    """Drop the samples of cells that are not listed, and count the points of the others."""
    samples = state.samples
    at = samples.points.size[0] - 1
    while at >= 0:
        slot = slot_of(state.window, samples.points.seq[at])
        cell = state.grid.cell[slot]
        if samples.size[cell] == NONE:
            _leave_sample(state, slot)
        else:
            samples.size[cell] += 1
        at -= 1


@lean
def _fill_sample(state: State, cell: int) -> None:
    """Fill the sample of a cell at random, each of its other points being equally likely."""
    samples, grid = state.samples, state.grid
    others = grid.points[cell] - samples.size[cell]
    missing = min(state.now[0].sample_size - samples.size[cell], others)
    slot = grid.first[cell]
    while slot != NONE and missing > 0:
        if samples.place[slot] == NONE:
            if draw(state, others) < missing:
                _add_to_sample(state, seq_of(state.window, slot), slot)
                missing -= 1
            others -= 1
        slot = grid.after[slot]
