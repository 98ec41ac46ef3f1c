"""ADA, the advanced algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from skyband.dominating.bounds import bounds, most, sum_up
from skyband.dominating.cells import first_code, spread
from skyband.dominating.contenders import State as Contending
from skyband.dominating.eva import reference_bound
from skyband.dominating.events.algorithm import EventAlgorithm
from skyband.dominating.events.answers import bound_of_event, enter, full, leave, schedule
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
from skyband.dominating.events.state import CANDIDATE, TOP, State, clock, expiry, packed_codes
from skyband.dominating.exact_scores import add_point, rank_again, roomier_scores
from skyband.dominating.point_window import NONE, exact_score, is_point, seq_of, slot_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import better
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints

_CHUNK = 512
_SHARE = 100  # of so many points one may be a candidate
_SOON = 1000  # part of the window within which an event is near, at first
_RENEWALS = 1000  # times that bounds of cells are counted while the window is replaced once


class Ada(EventAlgorithm):
    """Maintains events as EVA does, later ones (SI_2), and the exact scores of candidates.

    A point that r others outrank for life, none of them an answer, can be an answer only after they
    are: it is examined against better scores and later expiries. Counters per cell and per point
    give a lower bound of r; option ``partial`` counts points also where they dominate a cell in
    part, whenever their scores are computed. Points whose events are near become candidates, whose
    scores are kept up to date as those of the answers are; how near adjusts itself to their number.
    What the points of a cell can score at most spares exact scores that old bounds would ask for.

    Complexity: O((k + c) d + cells) per arrival for c candidates, O(k) per event, O(n d) per exact
    score; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 5.
    """

    name = "ada"
    options: ClassVar[tuple[str, ...]] = ("obsolete", "partial")

    @override
    def settings(self) -> dict[str, int]:
        partial = self.setting.options.get("partial", False)
        if not isinstance(partial, bool):
            raise QueryError(f"partial is {partial!r}", "True or False", "leave it out")
        return {**super().settings(), "partial": int(partial)}

    @override
    def rebuilt(self, state: State) -> State:
        state = super().rebuilt(state)
        now, span = state.now[0], state.window.now[0]
        points, slots = int(span.points), int(span.slots)
        now.most_candidates = max(points // _SHARE, 16)
        now.near = max(int(now.near), 2 * (points // _SOON), 2)
        room = max(int(now.most_candidates), int(state.candidates.size[0])) + 1
        side = int(state.grid.side[0])
        state = state._replace(
            candidates=roomier_scores(state.candidates, room, self.width),
            limits=bounds(side, self.width),
            cell_counter=np.zeros(side**self.width, np.int64),
            point_counter=np.zeros(slots, np.int64),
            counted=np.zeros(slots, np.int64),
        )
        _count_points(state)
        return state

    @override
    def advance(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        attributes = rows.columns[0]
        return _advance(self.state, rows.score, attributes, steps, target, self.missed, step)

    @override
    def begin(self, contending: Contending) -> None:
        _begin(self.state, contending)

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        super().check_invariants(alive)
        state: Any = self.state
        if state.now[0].must_start:
            return
        slots, seqs = int(state.window.now[0].slots), sorted(alive)
        points = state.window.points.reshape(slots, self.width)
        others = [seq for seq in seqs if state.kind[seq & (slots - 1)] != TOP]
        for seq in others:
            slot = seq & (slots - 1)
            later = points[[other & (slots - 1) for other in others if other > seq]]
            over = (later <= points[slot]).all(axis=1) & (later < points[slot]).any(axis=1)
            bound = int(_later_dominators(state, seq, slot))
            assert bound <= over.sum(), "5: a counter exceeds the truth"


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
            take_in(state, scores, attributes, position, steps.stop[step], steps.first[step])
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
def take_in(
    state: State, scores: Floats, attributes: Floats, start: int, stop: int, first: int
) -> None:
    """Take in the rows of a step, and remove those before ``first``."""
    span = state.window.now[0]
    begin_step(state, stop - start)
    while span.oldest < min(first, span.end):
        expire_oldest(state)
    for row in range(start, stop):
        arrive(state, attributes, row, scores[row] == scores[row])
    while span.oldest < first:  # what expires in the step in which it arrives
        expire_oldest(state)
    state.now[0].taken_in = 1


@entry
def _begin(state: State, contending: Contending) -> None:
    count_points(state)
    start_answers(state, contending)
    renew_bounds(state)
    start_events(state, contending)


@lean
def start_events(state: State, contending: Contending) -> None:
    """Generate an event, or make a candidate, of each point of which nothing is known."""
    span = state.window.now[0]
    for seq in range(span.oldest, span.end):
        slot = slot_of(state.window, seq)
        bound = first_bound(state, contending, slot)
        if bound != NONE and contending.place[slot] != NONE:
            file(state, seq, slot, bound)
        elif bound != NONE:
            schedule(state, seq, slot, bound, safe_until(state, seq, slot, bound))


@entry
def _count_points(state: State) -> None:
    count_points(state)


@entry
def _later_dominators(state: State, seq: int, slot: int) -> int:
    return later_dominators(state, seq, slot)


@lean
def arrive(state: State, attributes: Floats, row: int, is_ranked: bool) -> int:
    """Add a row to the window, and count it; return its slot."""
    slot = insert_arrival(state, attributes, row, is_ranked)
    if is_ranked and not state.now[0].must_start:
        count_arrival(state, slot)
    return slot


@lean
def _settle(state: State) -> None:
    """Examine the new points and those whose events are due: the answers are right afterwards."""
    promote_candidates(state)
    renew_bounds(state)
    slot = next_arrival(state)
    while slot != NONE:
        examine(state, seq_of(state.window, slot), slot, reference_bound(state, slot))
        slot = next_arrival(state)
    last = last_due(state)
    slot = next_event(state, last)
    while slot != NONE:
        examine(state, seq_of(state.window, slot), slot, bound_of_event(state, slot))
        slot = next_event(state, last)
    demote_candidates(state)


@lean
def examine(state: State, seq: int, slot: int, bound: int) -> None:
    """Schedule an event if a bound of the score allows it; otherwise the exact score decides."""
    if not postpone(state, seq, slot, bound):
        decide(state, seq, slot, compute_score(state, seq, slot))


@lean
def postpone(state: State, seq: int, slot: int, bound: int) -> bool:
    """Schedule an event if a bound of the score, or the bound of the cell, allows it."""
    if not full(state):
        return False
    now = state.now[0]
    if now.bounded_at != NONE:
        by_cell = most(state.limits, state.grid.cell[slot])
        by_cell += state.window.now[0].arrived - now.bounded_at
        bound = by_cell if bound == NONE else min(bound, by_cell)
    if bound == NONE:
        return False
    tick = safe_until(state, seq, slot, bound)
    if tick <= clock(state.window):
        return False
    schedule(state, seq, slot, bound, tick)
    return True


@lean
def compute_score(state: State, seq: int, slot: int) -> int:
    """Compute the exact score of a point, let more become candidates, and count it partially."""
    now = state.now[0]
    score = exact_score(state.window, slot, state.work)
    now.near += 2
    if now.partial:
        count_partially(state, slot, seq)
    return score


@lean
def decide(state: State, seq: int, slot: int, score: int) -> None:
    """Make a point, whose score is exact, an answer if it is one; file whoever is none."""
    loser, loser_score = enter(state, seq, slot, score)
    if loser != NONE:
        file(state, loser, slot_of(state.window, loser), loser_score)


@lean
def file(state: State, seq: int, slot: int, score: int) -> None:
    """Make a point that is no answer, and whose score is exact, a candidate; or schedule an event.

    Points whose events are near become candidates as long as there are not too many.
    """
    now, tick_now = state.now[0], clock(state.window)
    # a point that ties with an answer is behind it now, but need not be after the next tick
    tick = max(safe_until(state, seq, slot, score), tick_now + 1)
    if tick <= tick_now + now.near:
        if state.candidates.size[0] < now.most_candidates:
            state.place[slot] = add_point(state.candidates, state.window, seq, score)
            state.kind[slot] = CANDIDATE
            return
        now.near = max(now.near - 2, 2)
    schedule(state, seq, slot, score, tick)


@lean
def promote_candidates(state: State) -> None:
    """Rank the answers again; let candidates that outrank some take their places, or free ones."""
    rank_again(state.best, state.top, state.place, state.window)
    candidates, best, k = state.candidates, state.best, state.now[0].k
    while candidates.size[0] > 0:
        scores = candidates.score[: candidates.size[0]]
        highest = scores[0]
        for at in range(len(scores)):
            highest = max(highest, scores[at])
        if full(state) and highest < int(best.score[k - 1]):
            return
        seq = NONE
        for at in range(len(scores)):
            if scores[at] == highest:
                seq = max(seq, candidates.seq[at])
        if full(state) and not better(float(highest), seq, best.score[k - 1], best.seq[k - 1]):
            return
        slot = slot_of(state.window, seq)
        leave(state, candidates, slot)
        decide(state, seq, slot, highest)


@lean
def demote_candidates(state: State) -> None:
    """If there are too many candidates, schedule events for those that are not near any more."""
    candidates, now, tick_now = state.candidates, state.now[0], clock(state.window)
    if candidates.size[0] < now.most_candidates:
        return
    at = candidates.size[0] - 1
    while at >= 0:
        seq, score = candidates.seq[at], candidates.score[at]
        slot = slot_of(state.window, seq)
        tick = safe_until(state, seq, slot, score)
        if tick > tick_now + now.near:
            leave(state, candidates, slot)
            schedule(state, seq, slot, score, tick)
        at -= 1


@lean
def renew_bounds(state: State) -> bool:
    """Count the bounds of cells anew if they have not been counted for long; whether it was due."""
    now, span = state.now[0], state.window.now[0]
    since = span.arrived - now.bounded_at
    if not full(state) or (now.bounded_at != NONE and since * _RENEWALS < span.points):
        return False
    now.bounded_at = span.arrived
    counts = state.limits.at_least
    for cell in range(len(counts)):
        counts[cell] = state.grid.points[cell]
    sum_up(state.limits, span.width)
    return True


@lean
def safe_until(state: State, seq: int, slot: int, score: int) -> int:
    """The first tick at which a point with at most this score may be an answer: SI_2.

    The k best must be complete.
    """
    ahead = min(later_dominators(state, seq, slot), state.now[0].k - 1)
    return safe_behind(state, score, ahead)


@lean
def safe_behind(state: State, score: int, ahead: int) -> int:
    """:func:`safe_until` for a point that ``ahead`` others outrank for life, none of them in top.

    While ``gone`` of the k best have expired, the point is no answer if ``k - ahead`` of the others
    outrank it, and the (k - ahead + gone)-th best score of now bounds those from below, even if the
    expired ones were the best of all. So for each ``gone`` the point is safe from the ``gone``-th
    expiry on until its score may have reached that of rank ``k - ahead + gone``, or until the next
    expiry, when the next ``gone`` counts; after ``ahead`` expiries nothing is known. The condition
    is monotonous in ``gone``, so halving finds the first rank that may be reached. O(log k).

    With ``ahead = 0`` this is SI_1 of the paper; its SI_2 looks at ``gone = 0`` only, which is too
    long an interval if one of the best expires first.
    """
    k, now = state.now[0].k, clock(state.window)
    low, high = 0, ahead + 1
    while low < high:
        gone = (low + high) >> 1
        reached = now + int(state.best.score[k - ahead + gone - 1]) - score
        if reached < expiry(state, state.top_seq[gone]):
            high = gone
        else:
            low = gone + 1
    if low > ahead:
        return expiry(state, state.top_seq[ahead])
    start = now if low == 0 else expiry(state, state.top_seq[low - 1])
    return max(now + int(state.best.score[k - ahead + low - 1]) - score, start)


@lean
def later_dominators(state: State, seq: int, slot: int) -> int:
    """A lower bound of the points that dominate this one, expire later and are not in top. O(k).

    Answers that may have been counted are taken off: those with codes nowhere higher, as far as the
    packed codes show.
    """
    counted = state.cell_counter[state.grid.cell[slot]] - state.point_counter[slot]
    size = state.top.size[0]
    if counted <= 0 or size == 0 or state.top_seq[size - 1] < seq:
        return max(counted, 0)
    width = state.window.now[0].width
    bits = 63 // width
    free = 0
    for _ in range(width):
        free = (free << bits) | (1 << (bits - 1))
    mine = packed_codes(state, slot) | free
    seqs, codes = state.top_seq[:size], state.top_codes[:size]
    answers = 0
    for at in range(len(seqs)):
        answers += ((mine - codes[at]) & free == free) & (seqs[at] > seq)
    state.work[COMPARISONS] += size
    return max(counted - answers, 0)


@lean
def count_arrival(state: State, slot: int) -> None:
    """Count a new point for every cell that its cell dominates. O(cells)."""
    grid, width = state.grid, state.window.now[0].width
    side, where = grid.side[0], grid.where
    spread(grid.cell[slot], side, where, 0, width)
    state.point_counter[slot] = state.cell_counter[grid.cell[slot]]
    state.counted[slot] = 0
    for at in range(width):
        if where[at] == side - 1:
            return
        where[width + at] = where[at] + 1
    length = side - where[2 * width - 1]
    while True:
        start = 0
        for at in range(width):
            start = start * side + where[width + at]
        run = state.cell_counter[start : start + length]
        for i in range(len(run)):
            run[i] += 1
        at = width - 2
        while at >= 0 and where[width + at] == side - 1:
            where[width + at] = where[at] + 1
            at -= 1
        if at < 0:
            return
        where[width + at] += 1


@lean
def count_partially(state: State, slot: int, seq: int) -> None:
    """Count a point also for the older ones that it dominates and whose cells it does not. O(n d).

    Only points with higher codes in all dimensions: the few others are left out, which is safe.
    """
    if state.counted[slot]:
        return
    state.counted[slot] = 1
    window, grid, span = state.window, state.grid, state.window.now[0]
    slots, width, side = span.slots, span.width, grid.side[0]
    spread(grid.cell[slot], side, grid.where, 0, width)
    at = span.oldest
    while at < seq:
        low = at & (slots - 1)
        count = min(min(_CHUNK, seq - at), slots - low)
        higher, beyond = window.higher[:count], window.no_lower[:count]
        for dimension in range(width):
            base = dimension * slots
            mine = window.codes[base + slot]
            edge = first_code(window, grid.where[dimension] + 1, side)
            codes = window.codes[base + low : base + low + count]
            if dimension == 0:
                for i in range(len(codes)):
                    higher[i] = codes[i] > mine
                    beyond[i] = codes[i] >= edge
            else:
                for i in range(len(codes)):
                    higher[i] &= codes[i] > mine
                    beyond[i] &= codes[i] >= edge
        counters = state.point_counter[low : low + count]
        for i in range(len(counters)):
            counters[i] -= higher[i] & (beyond[i] ^ np.uint8(1))
        at += count


@lean
def count_points(state: State) -> None:
    """Count all points of the window anew, oldest first: cells have changed. O(n cells)."""
    state.cell_counter[:] = 0
    span = state.window.now[0]
    for seq in range(span.oldest, span.end):
        slot = slot_of(state.window, seq)
        if is_point(state.window, slot):
            count_arrival(state, slot)
