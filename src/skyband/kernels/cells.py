"""Points in a grid, for counting what a point dominates. Less is better in every dimension.

A point's cell is, per dimension, the number of bounds that are not above it. So a lower cell number
means a smaller value: points in cells that are higher in *all* dimensions are dominated without a
look at them (*fully* dominated cells), and those in cells that are nowhere lower but somewhere
equal (*partially* dominated ones) must be compared.

The grid is dense, with so few cells per dimension that it has fewer cells than points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints

NONE = -1


class Cells(NamedTuple):
    """Points by slot (sequence number & mask), and the slots of each cell as a linked list.

    ``numbers``: dimensions, cells per dimension, mask of slots, oldest sequence number that is
    held, sequence number after the newest, points.
    """

    points: Floats  # slot * dimensions + dimension
    cell: Ints  # by slot; NONE if there is no point
    after: Ints  # by slot: next slot of its cell
    before: Ints
    first: Ints  # by cell: first slot
    held: Ints  # by cell: points
    bounds: Floats  # dimension * (cells per dimension - 1) + bound, ascending
    where: Ints  # scratch: a cell by dimension, twice
    numbers: Ints


WIDTH, SIDE, MASK, OLDEST, NEXT, POINTS = 0, 1, 2, 3, 4, 5


def side_of(points: int, width: int) -> int:
    """Cells per dimension: about one cell for sixty-four points, and never fewer than two."""
    return max(2, min(64, int((max(points, 1) / 64) ** (1 / width))))


def cells(room: int, bounds: Floats) -> Cells:
    """An empty grid with room for ``room`` sequence numbers; ``bounds`` has a row per dimension."""
    width, side = bounds.shape[0], bounds.shape[1] + 1
    slots = 1 << max(int(room) - 1, 1).bit_length()
    return Cells(
        np.zeros(slots * width),
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(side**width, NONE, np.int64),
        np.zeros(side**width, np.int64),
        np.ascontiguousarray(bounds).reshape(-1),
        np.zeros(2 * width, np.int64),
        np.array([width, side, slots - 1, 0, 0, 0], np.int64),
    )


@lean
def cell_of(grid: Cells, slot: int) -> int:
    """The cell of a point, by halving per dimension. O(d log g)."""
    width, side = grid.numbers[WIDTH], grid.numbers[SIDE]
    found = 0
    for at in range(width):
        value = grid.points[slot * width + at]
        base = at * (side - 1)
        low, high = 0, side - 1
        while low < high:
            middle = (low + high) >> 1
            if grid.bounds[base + middle] <= value:
                low = middle + 1
            else:
                high = middle
        found = found * side + low
    return found


@lean
def put(grid: Cells, slot: int) -> None:
    """Link a point, whose coordinates stand in its slot, into its cell."""
    cell = cell_of(grid, slot)
    first = grid.first[cell]
    grid.cell[slot] = cell
    grid.before[slot] = NONE
    grid.after[slot] = first
    if first != NONE:
        grid.before[first] = slot
    grid.first[cell] = slot
    grid.held[cell] += 1
    grid.numbers[POINTS] += 1


@lean
def drop(grid: Cells, slot: int) -> None:
    """Take a point out of its cell."""
    cell, after, before = grid.cell[slot], grid.after[slot], grid.before[slot]
    if before == NONE:
        grid.first[cell] = after
    else:
        grid.after[before] = after
    if after != NONE:
        grid.before[after] = before
    grid.held[cell] -= 1
    grid.cell[slot] = NONE
    grid.numbers[POINTS] -= 1


@lean
def dominates(grid: Cells, one: int, other: int) -> bool:
    """Whether the point in ``one`` is nowhere worse than that in ``other``, and not its equal."""
    width = grid.numbers[WIDTH]
    better = False
    for at in range(width):
        mine, theirs = grid.points[one * width + at], grid.points[other * width + at]
        if mine > theirs:
            return False
        better = better or mine < theirs
    return better


@lean
def spread(grid: Cells, cell: int, to: int) -> None:
    """Leave a cell by dimension in ``where`` from ``to`` on."""
    width, side = grid.numbers[WIDTH], grid.numbers[SIDE]
    for at in range(width - 1, -1, -1):
        grid.where[to + at] = cell % side
        cell //= side


@lean
def exact_score(grid: Cells, slot: int) -> int:
    """How many points the one in a slot dominates: an exact score computation."""
    width, side = grid.numbers[WIDTH], grid.numbers[SIDE]
    index = grid.where
    spread(grid, grid.cell[slot], 0)
    for at in range(width):
        index[width + at] = index[at]
    score = 0
    while True:
        cell, equal = 0, False
        for at in range(width):
            cell = cell * side + index[width + at]
            equal = equal or index[width + at] == index[at]
        if not equal:
            score += grid.held[cell]
        else:
            other = grid.first[cell]
            while other != NONE:
                if dominates(grid, slot, other):
                    score += 1
                other = grid.after[other]
        at = width - 1
        while at >= 0 and index[width + at] == side - 1:
            index[width + at] = index[at]
            at -= 1
        if at < 0:
            return score
        index[width + at] += 1
