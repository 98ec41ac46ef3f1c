"""The loop of event-based processing: arrivals and expiries, then whoever may be an answer now."""

from __future__ import annotations

from skyband.dominating.bounds import cell_at, count_cells, least, most, sum_up
from skyband.dominating.cells import drop, put
from skyband.dominating.events.accuracy import gauge
from skyband.dominating.events.answers import (
    demote,
    enter,
    file,
    full,
    leave,
    promote,
    schedule,
)
from skyband.dominating.events.calendar import strike, take_due
from skyband.dominating.events.counting import count_arrival, count_partially
from skyband.dominating.events.intervals import safe_until
from skyband.dominating.events.reference import reference_bound
from skyband.dominating.events.samples import add_up, choose_samples, estimate, join, part
from skyband.dominating.events.state import (
    ADVANCED,
    BOUNDED,
    CANDIDATE,
    EVENT,
    EXAMINED,
    EXCLUDED,
    FINED,
    FRESH,
    GAUGED,
    LOOKED,
    MISSED,
    MOST_CANDIDATES,
    NEAR,
    NOTHING,
    PARTIAL,
    PRUNING,
    SAMPLING,
    TAKEN,
    TOP,
    K,
    State,
    clock,
)
from skyband.dominating.exact_scores import credit, rank_again
from skyband.dominating.point_window import (
    ARRIVED,
    NEXT,
    NONE,
    OLDEST,
    POINTS,
    WIDTH,
    exact_score,
    is_point,
    place_point,
    remove_oldest,
    seq_of,
    slot_of,
)
from skyband.dominating.window import stale
from skyband.engine.steps import Steps
from skyband.kernels.emission import Out, report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, EVENTS, SLIDES
from skyband.order import Floats, Ints

_OFTEN, _SELDOM = 1000, 50  # times that bounds are counted meanwhile, few cells and many
_GAUGES = 10  # estimates of the accuracy while the window is replaced once
_PART = 8  # part of the window whose replacement in one step makes starting anew cheaper


@entry
def advance(
    state: State,
    scores: Floats,
    attributes: Floats,
    steps: Steps,
    target: Out,
    missed: Ints,
    step: int,
) -> int:
    """Take in a batch from a step on; return the step before which it must be started anew.

    ``missed`` receives per step how many answers are expected to be missing, in thousandths.
    """
    held, numbers = state.held, state.numbers
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if numbers[TAKEN] == 0:
            if _part(state, steps.stop[step] - position):
                numbers[FRESH] = 1
            while held.numbers[OLDEST] < min(steps.first[step], held.numbers[NEXT]):
                _expire(state)
            for row in range(position, steps.stop[step]):
                _arrive(state, attributes, row, scores[row] == scores[row])
            while held.numbers[OLDEST] < steps.first[step]:
                _expire(state)
            numbers[TAKEN] = 1
        if steps.emit[step]:
            if numbers[FRESH] or stale(held, numbers):
                return step
            settle(state)
            if state.top.size[0] < min(numbers[K], held.numbers[POINTS]):
                numbers[FRESH] = 1  # nobody is left to examine: approximations may run dry
                return step
            missed[step] = numbers[MISSED]
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.top.size[0] + state.candidates.size[0]
            report_whole(target, step, state.best, numbers[K])
        else:
            skip(target, step)
        numbers[TAKEN] = 0
        position = steps.stop[step]
        step += 1
    return step


@lean
def _part(state: State, arriving: int) -> bool:
    """Whether so many points arrive that examining them one by one costs more than a new start."""
    return arriving > 64 and arriving * _PART > state.held.numbers[POINTS]


@lean
def _expire(state: State) -> None:
    held = state.held
    slot = slot_of(held, held.numbers[OLDEST])
    if is_point(held, slot):
        kind = state.kind[slot]
        if kind == TOP:
            leave(state, state.top, slot)
        elif kind == CANDIDATE:
            leave(state, state.candidates, slot)
        elif kind == EVENT:
            strike(state.dates, slot)
        state.kind[slot] = NOTHING
        if state.samples.place[slot] != NONE:
            part(state, slot)
        _credit(state, slot, -1)
        drop(state.grid, slot)
    remove_oldest(held)


@lean
def _arrive(state: State, attributes: Floats, row: int, is_ranked: bool) -> None:
    held = state.held
    slot = place_point(held, attributes, row, is_ranked)
    if is_ranked:
        put(state.grid, slot, cell_at(held, slot, state.grid.side[0]))
        _credit(state, slot, 1)
        if state.numbers[ADVANCED] and not state.numbers[FRESH]:
            count_arrival(state, slot)


@lean
def _credit(state: State, slot: int, amount: int) -> None:
    if state.numbers[FRESH]:
        return
    credit(state.top, state.held, slot, amount, state.work)
    if state.numbers[ADVANCED]:
        credit(state.candidates, state.held, slot, amount, state.work)
    if state.numbers[SAMPLING]:
        credit(state.samples.items, state.held, slot, amount, state.work)


@lean
def settle(state: State) -> None:
    """Examine the new points and those whose events are due: the answers are right afterwards."""
    held, numbers = state.held, state.numbers
    rank_again(state.best, state.top, state.place, held)
    promote(state)
    renew_bounds(state)
    if numbers[SAMPLING]:
        add_up(state)
    for seq in range(max(numbers[EXAMINED], held.numbers[OLDEST]), held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if is_point(held, slot):
            _meet(state, seq, slot)
    numbers[EXAMINED] = held.numbers[NEXT]
    now = clock(held)
    last = min(now, numbers[LOOKED] + len(state.dates.first))
    for tick in range(numbers[LOOKED] + 1, last + 1):
        slot = take_due(state.dates, tick)
        while slot != NONE:
            _look(state, slot)
            slot = take_due(state.dates, tick)
    numbers[LOOKED] = now
    if numbers[ADVANCED] and state.candidates.size[0] >= numbers[MOST_CANDIDATES]:
        demote(state)
    since = held.numbers[ARRIVED] - numbers[GAUGED]
    approximate = numbers[SAMPLING] or numbers[PRUNING]
    if approximate and full(state) and since * _GAUGES >= held.numbers[POINTS]:
        gauge(state)


@lean
def _meet(state: State, seq: int, slot: int) -> None:
    """Examine a point that has arrived."""
    if leave_alone(state, slot):
        return
    if state.numbers[SAMPLING]:
        join(state, seq, slot)
    bound = reference_bound(state, slot) if full(state) else NONE
    _examine(state, seq, slot, bound)


@lean
def _look(state: State, slot: int) -> None:
    """Process the event of a point."""
    held = state.held
    state.kind[slot] = NOTHING
    seq = seq_of(held, slot)
    if not leave_alone(state, slot):
        bound = state.score[slot] + held.numbers[ARRIVED] - state.since[slot]
        _examine(state, seq, slot, bound)


@lean
def _examine(state: State, seq: int, slot: int, bound: int) -> None:
    """Schedule an event if a bound of the score allows it; otherwise the exact score decides."""
    numbers = state.numbers
    if full(state):
        if numbers[SAMPLING]:
            guess = estimate(state, slot)
            if guess != NONE and (bound == NONE or guess < bound):
                bound = guess
        if numbers[ADVANCED] and numbers[BOUNDED] != NONE:
            most_now = most(state.limits, state.grid.cell[slot])
            most_now += state.held.numbers[ARRIVED] - numbers[BOUNDED]
            bound = most_now if bound == NONE else min(bound, most_now)
        if bound != NONE:
            tick = safe_until(state, seq, slot, bound)
            if tick > clock(state.held):
                schedule(state, seq, slot, bound, tick)
                return
    if numbers[SAMPLING] and state.samples.place[slot] != NONE:
        score = state.samples.items.score[state.samples.place[slot]]
    else:
        score = exact_score(state.held, slot, state.work)
        if numbers[ADVANCED]:
            numbers[NEAR] += 2
        if numbers[PARTIAL]:
            count_partially(state, slot, seq)
    if not enter(state, seq, slot, score):
        file(state, seq, slot, score)


@lean
def leave_alone(state: State, slot: int) -> bool:
    """AMSA: whether the cell of a point is so far behind the answers that it is left alone."""
    state.work[EVENTS] += 1
    if not state.numbers[PRUNING] or not full(state) or state.numbers[FINED] == NONE:
        return False
    k, width = state.numbers[K], state.held.numbers[WIDTH]
    first, last = state.best.score[0], state.best.score[k - 1]
    cell = cell_at(state.held, slot, state.fine.side[0])
    arrived = state.held.numbers[ARRIVED] - state.numbers[FINED]
    if most(state.fine, cell) + arrived < last and first - last < last - least(
        state.fine, cell, width
    ):
        state.kind[slot] = EXCLUDED
        return True
    return False


@lean
def renew_bounds(state: State) -> None:
    """Count the bounds of cells anew now and then: often those of few cells, seldom of many."""
    held, numbers = state.held, state.numbers
    if not numbers[ADVANCED] or not full(state):
        return
    arrived, points = held.numbers[ARRIVED], held.numbers[POINTS]
    if numbers[BOUNDED] == NONE or (arrived - numbers[BOUNDED]) * _OFTEN >= points:
        numbers[BOUNDED] = arrived
        counts = state.limits.at_least
        for cell in range(len(counts)):
            counts[cell] = state.grid.held[cell]
        sum_up(state.limits, held.numbers[WIDTH])
        if numbers[SAMPLING]:
            choose_samples(state)
    if numbers[PRUNING] and (
        numbers[FINED] == NONE or (arrived - numbers[FINED]) * _SELDOM >= points
    ):
        numbers[FINED] = arrived
        count_cells(held, state.fine)
