"""ADA's counters: how many later points, at least, dominate a point without being answers."""

from __future__ import annotations

import numpy as np

from skyband.dominating.cells import first_code, spread
from skyband.dominating.events.state import State, mark
from skyband.dominating.point_window import NEXT, OLDEST, SLOTS, WIDTH, is_point, slot_of
from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS

_CHUNK = 512


@lean
def count_arrival(state: State, slot: int) -> None:
    """A point has arrived: every cell that its cell dominates has one more. O(cells)."""
    grid, width = state.grid, state.held.numbers[WIDTH]
    side, where = grid.side[0], grid.where
    spread(grid.cell[slot], side, where, 0, width)
    state.before[slot] = state.later[grid.cell[slot]]
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
        run = state.later[start : start + length]
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
    held, grid = state.held, state.grid
    slots, width, side = held.numbers[SLOTS], held.numbers[WIDTH], grid.side[0]
    spread(grid.cell[slot], side, grid.where, 0, width)
    at = held.numbers[OLDEST]
    while at < seq:
        low = at & (slots - 1)
        count = min(min(_CHUNK, seq - at), slots - low)
        higher, beyond = held.higher[:count], held.no_lower[:count]
        for dimension in range(width):
            base = dimension * slots
            mine = held.codes[base + slot]
            edge = first_code(held, grid.where[dimension] + 1, side)
            codes = held.codes[base + low : base + low + count]
            if dimension == 0:
                for i in range(len(codes)):
                    higher[i] = codes[i] > mine
                    beyond[i] = codes[i] >= edge
            else:
                for i in range(len(codes)):
                    higher[i] &= codes[i] > mine
                    beyond[i] &= codes[i] >= edge
        before = state.before[low : low + count]
        for i in range(len(before)):
            before[i] -= higher[i] & (beyond[i] ^ np.uint8(1))
        at += count


@lean
def later_dominators(state: State, seq: int, slot: int) -> int:
    """A lower bound of the points that dominate this one, expire later and are not in top. O(k).

    Answers that may have been counted are taken off: those with codes nowhere higher, as far as the
    marks tell.
    """
    found = state.later[state.grid.cell[slot]] - state.before[slot]
    size = state.top.size[0]
    if found <= 0 or size == 0 or state.ages[size - 1] < seq:
        return max(found, 0)
    width = state.held.numbers[WIDTH]
    bits = 63 // width
    free = 0
    for _ in range(width):
        free = (free << bits) | (1 << (bits - 1))
    mine = mark(state, slot) | free
    ages, marks = state.ages[:size], state.marks[:size]
    answers = 0
    for at in range(len(ages)):
        answers += ((mine - marks[at]) & free == free) & (ages[at] > seq)
    state.work[COMPARISONS] += size
    return max(found - answers, 0)


@lean
def count_anew(state: State) -> None:
    """Count all points of the window again, oldest first: cells have changed. O(n cells)."""
    state.later[:] = 0
    held = state.held
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if is_point(held, slot):
            count_arrival(state, slot)
