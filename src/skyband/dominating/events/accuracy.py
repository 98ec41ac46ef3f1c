"""How many answers an approximate algorithm is likely to miss."""

from __future__ import annotations

from skyband.dominating.bounds import cell_at, count_cells, most
from skyband.dominating.events.answers import full
from skyband.dominating.events.state import CANDIDATE, EXCLUDED, TOP, State, draw
from skyband.dominating.point_window import NONE, exact_score, is_point, slot_of
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better

_SCORED = 32  # points that are scored exactly for an estimate
_GAUGES = 10  # estimates while the window is replaced once


@lean
def gauge_at_times(state: State) -> None:
    """Estimate the accuracy if it has not been estimated for long."""
    span = state.window.now[0]
    since = span.arrived - state.now[0].gauged_at
    if full(state) and since * _GAUGES >= span.points:
        _gauge(state)


@lean
def _gauge(state: State) -> None:
    """Estimate how many points outrank the last answer unnoticed.

    Only excluded points, or those that samples stand for, may, and only in cells whose bound
    reaches that score. Some of them, taken at random, are scored exactly, and the share that
    outranks the last answer stands for all. O(n), and a few exact scores.
    """
    window, best, now, span = state.window, state.best, state.now[0], state.window.now[0]
    count_cells(window, state.fine)
    now.fine_bounded_at = span.arrived
    last, last_seq = best.score[now.k - 1], best.seq[now.k - 1]
    doubtful = 0
    for seq in range(span.oldest, span.end):
        doubtful += 1 if _may_outrank(state, seq, last) else 0
    scored = min(_SCORED, doubtful)
    left, missing, outranking = doubtful, scored, 0
    for seq in range(span.oldest, span.end):
        if missing == 0:
            break
        if _may_outrank(state, seq, last):
            if draw(state, left) < missing:
                missing -= 1
                score = exact_score(window, slot_of(window, seq), state.work)
                outranking += 1 if better(float(score), seq, last, last_seq) else 0
            left -= 1
    now.missed = 0 if scored == 0 else 1000 * outranking * doubtful // scored
    now.gauged_at = span.arrived


@lean
def _may_outrank(state: State, seq: int, last: float) -> bool:
    slot = slot_of(state.window, seq)
    if not is_point(state.window, slot) or not _is_unsure(state, slot):
        return False
    return most(state.fine, cell_at(state.window, slot, state.fine.side[0])) >= last


@lean
def _is_unsure(state: State, slot: int) -> bool:
    """Whether a point is excluded, or stands in a sampled cell without being in the sample."""
    kind = state.kind[slot]
    if kind == EXCLUDED:
        return True
    if kind in (TOP, CANDIDATE) or state.now[0].sample_size == 0:
        return False
    return state.samples.size[state.grid.cell[slot]] > 0 and state.samples.place[slot] == NONE
