"""The pieces of which the loops of event-based algorithms are made.

Each algorithm has a loop of its own. Per step it calls ``begin_step``, and takes in expiries and
arrivals; if the step is answered, it examines the points that ``next_arrival`` and ``next_event``
give; then it calls ``finish_step``.
"""

from __future__ import annotations

from skyband.dominating.bounds import cell_at, most
from skyband.dominating.cells import drop, put
from skyband.dominating.contenders import State as Contending
from skyband.dominating.events.answers import enter, leave
from skyband.dominating.events.calendar import strike, take_due
from skyband.dominating.events.state import CANDIDATE, EVENT, NOTHING, OBSOLETE, TOP, State, clock
from skyband.dominating.exact_scores import update_scores
from skyband.dominating.point_window import (
    NONE,
    is_point,
    place_point,
    remove_oldest,
    slot_of,
    stale,
)
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.kernels.emission import report_whole, skip
from skyband.kernels.jit import lean
from skyband.kernels.work import CANDIDATES, EVENTS, SLIDES
from skyband.order import Floats, Ints

_PART = 8  # part of the window whose replacement in one step makes starting anew cheaper


@lean
def begin_step(state: State, arriving: int) -> None:
    """Decide how so many arrivals are taken in: event by event, or by starting anew."""
    if arriving > 64 and arriving * _PART > state.window.now[0].points:
        state.now[0].must_start = 1  # examining them one by one costs more


@lean
def ready(state: State) -> bool:
    """Whether arrivals and events can be examined: the state has been started, and codes suit."""
    return not state.now[0].must_start and not stale(state.window)


@lean
def finish_step(state: State, steps: Steps, target: Out, missed: Ints, step: int) -> bool:
    """Answer a step, or skip it; False if answers are lacking, and it must be started anew.

    ``missed`` receives how many answers are expected to be missing, in thousandths.
    """
    now = state.now[0]
    if not steps.emit[step]:
        skip(target, step)
    elif state.top.size[0] < min(now.k, state.window.now[0].points):
        now.must_start = 1  # no point is left to examine: approximations may run dry
        return False
    else:
        missed[step] = now.missed
        state.work[SLIDES] += 1
        state.work[CANDIDATES] += state.top.size[0] + state.candidates.size[0]
        report_whole(target, step, state.best, now.k)
    now.taken_in = 0
    return True


@lean
def expire_oldest(state: State) -> None:
    """Remove the oldest point of the window."""
    window = state.window
    slot = slot_of(window, window.now[0].oldest)
    if is_point(window, slot):
        kind = state.kind[slot]
        if kind == TOP:
            leave(state, state.top, slot)
        elif kind == CANDIDATE:
            leave(state, state.candidates, slot)
        elif kind == EVENT:
            strike(state.calendar, slot)
        state.kind[slot] = NOTHING
        _count(state, slot, -1)
        drop(state.grid, slot)
    remove_oldest(window)


@lean
def insert_arrival(state: State, attributes: Floats, row: int, is_ranked: bool) -> int:
    """Add a row to the window; return its slot."""
    slot = place_point(state.window, attributes, row, is_ranked)
    if is_ranked:
        put(state.grid, slot, cell_at(state.window, slot, state.grid.side[0]))
        _count(state, slot, 1)
    return slot


@lean
def _count(state: State, slot: int, change: int) -> None:
    """Bring the scores of answers and candidates up to date."""
    if not state.now[0].must_start:
        update_scores(state.top, state.window, slot, change, state.work)
        update_scores(state.candidates, state.window, slot, change, state.work)


@lean
def next_arrival(state: State) -> int:
    """The slot of the next point that has arrived and has not been examined, or NONE."""
    now, span = state.now[0], state.window.now[0]
    now.examined = max(now.examined, span.oldest)
    while now.examined < span.end:
        slot = slot_of(state.window, now.examined)
        now.examined += 1
        if is_point(state.window, slot):
            state.work[EVENTS] += 1
            return slot
    return NONE


@lean
def last_due(state: State) -> int:
    """The tick up to which events must be processed; the calendar is gone through once at most."""
    return min(clock(state.window), state.now[0].processed + len(state.calendar.first))


@lean
def next_event(state: State, last: int) -> int:
    """Take the next event that is due up to a tick; return the slot of its point, or NONE."""
    now = state.now[0]
    while now.processed < last:
        slot = take_due(state.calendar, now.processed + 1)
        if slot != NONE:
            state.kind[slot] = NOTHING
            state.work[EVENTS] += 1
            return slot
        now.processed += 1
    now.processed = clock(state.window)
    return NONE


@lean
def start_answers(state: State, contending: Contending) -> None:
    """Forget all events, and take over the k best of the contenders."""
    now, span = state.now[0], state.window.now[0]
    state.calendar.first[:] = NONE
    state.calendar.due[:] = NONE
    state.kind[:] = NOTHING
    state.place[:] = NONE
    state.top.size[0] = 0
    state.best.size[0] = 0
    state.candidates.size[0] = 0
    for at in range(min(now.k, contending.order.size[0])):
        seq = contending.order.seq[at]
        enter(state, seq, slot_of(state.window, seq), int(contending.order.score[at]))
    now.processed = clock(state.window)
    now.examined = span.end
    now.bounded_at = now.fine_bounded_at = NONE
    now.gauged_at = span.arrived
    now.missed = 0
    now.must_start = 0


@lean
def first_bound(state: State, contending: Contending, slot: int) -> int:
    """The score of a point, if it is a contender, or a bound of it; NONE if no event is needed."""
    window, limits = state.window, contending.limits
    if not is_point(window, slot) or state.kind[slot] != NOTHING:
        return NONE
    state.work[EVENTS] += 1
    if contending.place[slot] != NONE:
        return contending.contenders.score[contending.place[slot]]
    bound = most(limits, cell_at(window, slot, limits.side[0]))
    if bound >= contending.now[0].floor:  # no contender all the same: k later ones are no worse
        state.score[slot] = bound
        state.generated_at[slot] = window.now[0].arrived
        state.kind[slot] = OBSOLETE
        return NONE
    return bound
