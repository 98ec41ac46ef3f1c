"""How many answers an approximate algorithm is likely to miss."""

from __future__ import annotations

from skyband.dominating.bounds import cell_at, count_cells, most
from skyband.dominating.events.state import (
    CANDIDATE,
    EXCLUDED,
    FINED,
    GAUGED,
    MISSED,
    SAMPLING,
    TOP,
    K,
    State,
    draw,
)
from skyband.dominating.point_window import (
    ARRIVED,
    NEXT,
    NONE,
    OLDEST,
    exact_score,
    is_point,
    slot_of,
)
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better

_LOOKS = 32


@lean
def gauge(state: State) -> None:
    """Estimate how many points outrank the last answer unnoticed.

    Only those in cells whose bound reaches its score may: some of them, taken at random, are scored
    exactly, and the share that outranks it stands for all. O(n), and a few exact scores.
    """
    held, numbers, best = state.held, state.numbers, state.best
    count_cells(held, state.fine)
    numbers[FINED] = held.numbers[ARRIVED]
    last, last_seq = best.score[numbers[K] - 1], best.seq[numbers[K] - 1]
    doubtful = 0
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        doubtful += 1 if _may_outrank(state, seq, last) else 0
    left, looks, found = doubtful, min(_LOOKS, doubtful), 0
    wanted = looks
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        if wanted == 0:
            break
        if _may_outrank(state, seq, last):
            if draw(state, left) < wanted:
                wanted -= 1
                score = exact_score(held, slot_of(held, seq), state.work)
                found += 1 if better(float(score), seq, last, last_seq) else 0
            left -= 1
    numbers[MISSED] = 0 if looks == 0 else 1000 * found * doubtful // looks
    numbers[GAUGED] = held.numbers[ARRIVED]


@lean
def _may_outrank(state: State, seq: int, last: float) -> bool:
    slot = slot_of(state.held, seq)
    if not is_point(state.held, slot) or not _unsure(state, slot):
        return False
    return most(state.fine, cell_at(state.held, slot, state.fine.side[0])) >= last


@lean
def _unsure(state: State, slot: int) -> bool:
    """Whether a point was left alone, or stands in a sampled cell without being in the sample."""
    kind = state.kind[slot]
    if kind == EXCLUDED:
        return True
    if kind in (TOP, CANDIDATE) or state.numbers[SAMPLING] == 0:
        return False
    return state.samples.size[state.grid.cell[slot]] > 0 and state.samples.place[slot] == NONE
