"""The k best of the window and the candidates: points whose scores are exact at any time."""

from __future__ import annotations

from skyband.dominating.events.calendar import note
from skyband.dominating.events.intervals import safe_until
from skyband.dominating.events.state import (
    ADVANCED,
    CANDIDATE,
    EVENT,
    KEPT,
    MOST_CANDIDATES,
    NEAR,
    NOTHING,
    OBSOLETE,
    SIZE,
    TOP,
    K,
    State,
    clock,
    expiry,
    mark,
)
from skyband.dominating.exact_scores import Tracked, track, untrack
from skyband.dominating.point_window import ARRIVED, NONE, WIDTH, slot_of
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, place_of


@lean
def full(state: State) -> bool:
    """Whether there are k answers."""
    return state.top.size[0] == state.numbers[K]


@lean
def leave(state: State, items: Tracked, slot: int) -> None:
    """Take a point out of the answers or the candidates; the rank order is not touched."""
    place = state.place[slot]
    seq = items.seq[place]
    moved = untrack(items, place, state.held.numbers[WIDTH])
    if moved != NONE:
        state.place[slot_of(state.held, moved)] = place
    state.place[slot] = NONE
    if state.kind[slot] == TOP:
        at = 0
        while state.ages[at] != seq:
            at += 1
        for to in range(at, state.top.size[0]):
            state.ages[to] = state.ages[to + 1]
            state.marks[to] = state.marks[to + 1]
    state.kind[slot] = NOTHING


@lean
def enter(state: State, seq: int, slot: int, score: int) -> bool:
    """Make a point, whose score is exact, an answer if it is one. O(k)."""
    best, k = state.best, state.numbers[K]
    if full(state):
        if not better(float(score), seq, best.score[k - 1], best.seq[k - 1]):
            return False
        last, last_score = best.seq[k - 1], int(best.score[k - 1])
        best.size[0] = k - 1
        leave(state, state.top, slot_of(state.held, last))
        _insert(state, seq, slot, score)
        file(state, last, slot_of(state.held, last), last_score)
    else:
        _insert(state, seq, slot, score)
    return True


@lean
def _insert(state: State, seq: int, slot: int, score: int) -> None:
    best = state.best
    to = place_of(best, float(score), seq)
    for at in range(best.size[0], to, -1):
        best.score[at] = best.score[at - 1]
        best.seq[at] = best.seq[at - 1]
    best.score[to] = float(score)
    best.seq[to] = seq
    best.size[0] += 1
    at = state.top.size[0]
    while at > 0 and state.ages[at - 1] > seq:
        state.ages[at] = state.ages[at - 1]
        state.marks[at] = state.marks[at - 1]
        at -= 1
    state.ages[at] = seq
    state.marks[at] = mark(state, slot)
    state.place[slot] = track(state.top, state.held, seq, score)
    state.kind[slot] = TOP


@lean
def file(state: State, seq: int, slot: int, score: int) -> None:
    """A point is no answer, and its score is exact: make it a candidate, or schedule an event."""
    numbers = state.numbers
    now = clock(state.held)
    # a point that ties with an answer is behind it now, but need not be after the next tick
    tick = max(safe_until(state, seq, slot, score), now + 1)
    if numbers[ADVANCED] and tick <= now + numbers[NEAR]:
        if state.candidates.size[0] < numbers[MOST_CANDIDATES]:
            state.place[slot] = track(state.candidates, state.held, seq, score)
            state.kind[slot] = CANDIDATE
            return
        numbers[NEAR] = max(numbers[NEAR] - 2, 2)
    schedule(state, seq, slot, score, tick)


@lean
def schedule(state: State, seq: int, slot: int, score: int, tick: int) -> None:
    """Remember a score, or a bound of it, and examine the point at a tick if it lives so long."""
    numbers = state.numbers
    state.score[slot] = score
    state.since[slot] = state.held.numbers[ARRIVED]
    if numbers[SIZE] > 0 and tick >= expiry(state, seq):
        obsolete = (seq * 7919) % 1000 < numbers[KEPT]
        state.kind[slot] = OBSOLETE if obsolete else NOTHING
        return
    state.kind[slot] = EVENT
    note(state.dates, slot, tick, clock(state.held))


@lean
def promote(state: State) -> None:
    """Let candidates that outrank answers take their places, or fill those that are free."""
    candidates = state.candidates
    while candidates.size[0] > 0:
        scores = candidates.score[: candidates.size[0]]
        most = scores[0]
        for at in range(len(scores)):
            most = max(most, scores[at])
        best, k = state.best, state.numbers[K]
        if full(state) and most < int(best.score[k - 1]):
            return
        seq = NONE
        for at in range(len(scores)):
            if scores[at] == most:
                seq = max(seq, candidates.seq[at])
        if full(state) and not better(float(most), seq, best.score[k - 1], best.seq[k - 1]):
            return
        slot = slot_of(state.held, seq)
        leave(state, candidates, slot)
        enter(state, seq, slot, most)


@lean
def demote(state: State) -> None:
    """Schedule events for candidates that will not be answers soon, when there are too many."""
    candidates = state.candidates
    now = clock(state.held)
    at = candidates.size[0] - 1
    while at >= 0:
        seq, score = candidates.seq[at], candidates.score[at]
        slot = slot_of(state.held, seq)
        tick = safe_until(state, seq, slot, score)
        if tick > now + state.numbers[NEAR]:
            leave(state, candidates, slot)
            schedule(state, seq, slot, score, tick)
        at -= 1
