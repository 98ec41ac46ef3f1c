"""EVA, the event-based algorithm."""

from __future__ import annotations

from typing_extensions import override

from skyband.dominating.cells import spread
from skyband.dominating.contenders import State as Contending
from skyband.dominating.events.algorithm import EventAlgorithm
from skyband.dominating.events.answers import bound_of_event, enter, full, schedule
from skyband.dominating.events.loop import (
    begin_step,
    expire_oldest,
    finish_step,
    first_bound,
    insert_arrival,
    last_due,
    next_arrival,
    next_event,
    ready,
    start_answers,
)
from skyband.dominating.events.state import CANDIDATE, EVENT, OBSOLETE, State, clock, expiry
from skyband.dominating.exact_scores import rank_again
from skyband.dominating.point_window import NONE, dominates, exact_score, seq_of, slot_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints


class Eva(EventAlgorithm):
    """Maintains for every point the tick until which it cannot be an answer (SI_1).

    An incoming point's score is bounded by that of a point that dominates it; an event's by the
    score noted when it was generated and the arrivals since. Only if such a bound reaches the k-th
    score is the exact score computed. Every event is due when the oldest answer expires.

    Complexity: O(k d) per arrival and expiry, O(1) per event, O(n d) per exact score; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 4.
    """

    name = "eva"
    options = ("obsolete",)

    @override
    def advance(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        attributes = rows.columns[0]
        return _advance(self.state, rows.score, attributes, steps, target, self.missed, step)

    @override
    def begin(self, contending: Contending) -> None:
        _begin(self.state, contending)


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
        expire_oldest(state)
    for row in range(start, stop):
        insert_arrival(state, attributes, row, scores[row] == scores[row])
    while span.oldest < first:  # what expires in the step in which it arrives
        expire_oldest(state)
    state.now[0].taken_in = 1


@entry
def _begin(state: State, contending: Contending) -> None:
    start_answers(state, contending)
    span = state.window.now[0]
    for seq in range(span.oldest, span.end):
        slot = slot_of(state.window, seq)
        bound = first_bound(state, contending, slot)
        if bound != NONE and contending.place[slot] != NONE:
            _file(state, seq, slot, bound)
        elif bound != NONE:
            schedule(state, seq, slot, bound, safe_until(state, bound))


@lean
def _settle(state: State) -> None:
    """Examine the new points and those whose events are due: the answers are right afterwards."""
    rank_again(state.best, state.top, state.place, state.window)
    slot = next_arrival(state)
    while slot != NONE:
        _examine(state, seq_of(state.window, slot), slot, reference_bound(state, slot))
        slot = next_arrival(state)
    last = last_due(state)
    slot = next_event(state, last)
    while slot != NONE:
        _examine(state, seq_of(state.window, slot), slot, bound_of_event(state, slot))
        slot = next_event(state, last)


@lean
def _examine(state: State, seq: int, slot: int, bound: int) -> None:
    """Schedule an event if a bound of the score allows it; otherwise the exact score decides."""
    if full(state) and bound != NONE:
        tick = safe_until(state, bound)
        if tick > clock(state.window):
            schedule(state, seq, slot, bound, tick)
            return
    score = exact_score(state.window, slot, state.work)
    loser, loser_score = enter(state, seq, slot, score)
    if loser != NONE:
        _file(state, loser, slot_of(state.window, loser), loser_score)


@lean
def _file(state: State, seq: int, slot: int, score: int) -> None:
    """Schedule an event for a point that is no answer, and whose score is exact."""
    # a point that ties with an answer is behind it now, but need not be after the next tick
    tick = max(safe_until(state, score), clock(state.window) + 1)
    schedule(state, seq, slot, score, tick)


@lean
def safe_until(state: State, score: int) -> int:
    """The first tick at which a point with at most this score may be an answer: SI_1.

    That is when the score may have reached the k-th, or when the first answer expires. The k best
    must be complete.
    """
    now = clock(state.window)
    reached = now + int(state.best.score[state.now[0].k - 1]) - score
    first_expiry = expiry(state, state.top_seq[0])
    return first_expiry if reached >= first_expiry else max(reached, now)


@lean
def reference_bound(state: State, slot: int) -> int:
    """An upper bound of the score of a point from one that dominates it, or NONE.

    Cells are visited in order of the sum of their coordinates, the largest first: near points have
    scores that are hardly larger. While there are fewer than k answers there is no use for a bound.
    """
    if not full(state):
        return NONE
    grid, width = state.grid, state.window.now[0].width
    side, where = grid.side[0], grid.where
    spread(grid.cell[slot], side, where, 0, width)
    total = 0
    for at in range(width):
        total += where[at]
    for down in range(total + 1):
        # every way of going down by so much, from the last dimension to the first
        left = down
        for at in range(width - 1, -1, -1):
            step = min(left, where[at])
            where[width + at] = step
            left -= step
        while True:
            cell = 0
            for at in range(width):
                cell = cell * side + where[at] - where[width + at]
            bound = _bound_in(state, cell, slot)
            if bound != NONE:
                return bound
            if not _next_way(state, width):
                break
    return NONE


@lean
def _next_way(state: State, width: int) -> bool:
    """The next way of going down by the same sum; False after the last.

    Moves one step from the last dimension that can give one to a dimension before it, and gives
    what stands behind it to the last dimensions again.
    """
    where = state.grid.where
    given = 0
    for at in range(width - 1, -1, -1):
        if given > 0 and where[width + at] < where[at]:
            where[width + at] += 1
            left = given - 1
            for back in range(width - 1, at, -1):
                step = min(left, where[back])
                where[width + back] = step
                left -= step
            return True
        given += where[width + at]
    return False


@lean
def _bound_in(state: State, cell: int, slot: int) -> int:
    """The bound that the first suitable point of a cell gives, or NONE."""
    window, grid = state.window, state.grid
    other = grid.first[cell]
    while other != NONE:
        kind = state.kind[other]
        if kind in (EVENT, OBSOLETE, CANDIDATE):
            state.work[COMPARISONS] += window.now[0].width
            if dominates(window, other, slot):
                if kind == CANDIDATE:
                    return state.candidates.score[state.place[other]] - 1
                return bound_of_event(state, other) - 1
        other = grid.after[other]
    return NONE
