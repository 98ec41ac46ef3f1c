"""EVA's reference points: a point that dominates an incoming one bounds its score."""

from __future__ import annotations

from skyband.dominating.cells import spread
from skyband.dominating.events.state import CANDIDATE, EVENT, OBSOLETE, State
from skyband.dominating.point_window import ARRIVED, NONE, WIDTH, dominates
from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS


@lean
def reference_bound(state: State, slot: int) -> int:
    """An upper bound of the score of a point from one that dominates it, or NONE.

    Cells are visited in order of the sum of their coordinates, the largest first: near points have
    scores that are hardly larger.
    """
    grid, width = state.grid, state.held.numbers[WIDTH]
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
            found = _bound_in(state, cell, slot)
            if found != NONE:
                return found
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
    held, grid = state.held, state.grid
    other = grid.first[cell]
    while other != NONE:
        kind = state.kind[other]
        if kind in (EVENT, OBSOLETE, CANDIDATE):
            state.work[COMPARISONS] += held.numbers[WIDTH]
            if dominates(held, other, slot):
                if kind == CANDIDATE:
                    return state.candidates.score[state.place[other]] - 1
                return state.score[other] + held.numbers[ARRIVED] - state.since[other] - 1
        other = grid.after[other]
    return NONE
