"""Points by cell: which points of the window stand in a cell of a grid.

A cell is a range of codes per dimension, see :mod:`skyband.dominating.point_window`. A cell
*dominates* those that are higher in all dimensions, and *partially* those that are nowhere lower.
The grid is dense, with so few cells per dimension that there are fewer cells than points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.point_window import NONE, PointWindow
from skyband.kernels.jit import lean
from skyband.order import Ints


class Cells(NamedTuple):
    """The slots of each cell as a linked list, newest first.

    ``side``: cells per dimension.
    """

    cell: Ints  # by slot; NONE if there is no point
    after: Ints  # by slot: next slot of its cell
    before: Ints
    first: Ints  # by cell: first slot
    points: Ints  # by cell: how many
    where: Ints  # scratch: two cells by dimension
    side: Ints


def cells(slots: int, side: int, width: int) -> Cells:
    """An empty grid."""
    return Cells(
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(side**width, NONE, np.int64),
        np.zeros(side**width, np.int64),
        np.zeros(2 * width, np.int64),
        np.array([side], np.int64),
    )


@lean
def put(grid: Cells, slot: int, cell: int) -> None:
    """Link a point into a cell. O(1)."""
    first = grid.first[cell]
    grid.cell[slot] = cell
    grid.before[slot] = NONE
    grid.after[slot] = first
    if first != NONE:
        grid.before[first] = slot
    grid.first[cell] = slot
    grid.points[cell] += 1


@lean
def drop(grid: Cells, slot: int) -> None:
    """Take a point out of its cell. O(1)."""
    cell, after, before = grid.cell[slot], grid.after[slot], grid.before[slot]
    if before == NONE:
        grid.first[cell] = after
    else:
        grid.after[before] = after
    if after != NONE:
        grid.before[after] = before
    grid.points[cell] -= 1
    grid.cell[slot] = NONE


@lean
def spread(cell: int, side: int, where: Ints, start: int, width: int) -> None:
    """Leave the coordinates of a cell in ``where`` from ``start`` on."""
    for at in range(width - 1, -1, -1):
        where[start + at] = cell % side
        cell //= side


@lean
def dominates_cell(one: int, other: int, side: int, width: int) -> bool:
    """Whether a cell is lower than another in all dimensions."""
    for _ in range(width):
        if one % side >= other % side:
            return False
        one //= side
        other //= side
    return True


@lean
def first_code(window: PointWindow, index: int, side: int) -> int:
    """The lowest code whose cell index, in its dimension, is ``index``."""
    return ((index << window.now[0].bits) + side - 1) // side
