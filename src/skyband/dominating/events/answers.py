"""The k best points of the window, and the events of the others."""

from __future__ import annotations

from skyband.dominating.events.calendar import note
from skyband.dominating.events.state import (
    EVENT,
    NOTHING,
    OBSOLETE,
    TOP,
    State,
    clock,
    expiry,
    packed_codes,
)
from skyband.dominating.exact_scores import ExactScores, add_point, remove_point
from skyband.dominating.point_window import NONE, slot_of
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, place_of


@lean
def full(state: State) -> bool:
    """Whether there are k answers."""
    return state.top.size[0] == state.now[0].k


@lean
def enter(state: State, seq: int, slot: int, score: int) -> tuple[int, int]:
    """Make a point, whose score is exact, an answer if it is among the k best. O(k).

    Returns the point that is no answer, with its score: this one, or the answer that it displaces.
    The sequence number is NONE if there was a free place.
    """
    best, k = state.best, state.now[0].k
    if not full(state):
        _insert(state, seq, slot, score)
        return NONE, 0
    last, last_score = best.seq[k - 1], int(best.score[k - 1])
    if not better(float(score), seq, best.score[k - 1], last):
        return seq, score
    best.size[0] = k - 1
    leave(state, state.top, slot_of(state.window, last))
    _insert(state, seq, slot, score)
    return last, last_score


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
    while at > 0 and state.top_seq[at - 1] > seq:
        state.top_seq[at] = state.top_seq[at - 1]
        state.top_codes[at] = state.top_codes[at - 1]
        at -= 1
    state.top_seq[at] = seq
    state.top_codes[at] = packed_codes(state, slot)
    state.place[slot] = add_point(state.top, state.window, seq, score)
    state.kind[slot] = TOP


@lean
def leave(state: State, points: ExactScores, slot: int) -> None:
    """Take a point out of the answers or the candidates; the rank order is not touched."""
    place = state.place[slot]
    seq = points.seq[place]
    moved = remove_point(points, place, state.window.now[0].width)
    if moved != NONE:
        state.place[slot_of(state.window, moved)] = place
    state.place[slot] = NONE
    if state.kind[slot] == TOP:
        at = 0
        while state.top_seq[at] != seq:
            at += 1
        for to in range(at, state.top.size[0]):
            state.top_seq[to] = state.top_seq[to + 1]
            state.top_codes[to] = state.top_codes[to + 1]
    state.kind[slot] = NOTHING


@lean
def schedule(state: State, seq: int, slot: int, score: int, tick: int) -> None:
    """Generate an event: examine a point at a tick, if it lives so long.

    ``score`` is the point's score now, or a bound of it.
    """
    now = state.now[0]
    state.score[slot] = score
    state.generated_at[slot] = state.window.now[0].arrived
    if now.window_size > 0 and tick >= expiry(state, seq):
        obsolete = (seq * 7919) % 1000 < now.obsolete_kept
        state.kind[slot] = OBSOLETE if obsolete else NOTHING
        return
    state.kind[slot] = EVENT
    note(state.calendar, slot, tick, clock(state.window))


@lean
def bound_of_event(state: State, slot: int) -> int:
    """What a point with an event scores at most: its score then, and the arrivals since."""
    return state.score[slot] + state.window.now[0].arrived - state.generated_at[slot]
