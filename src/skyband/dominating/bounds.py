"""Bounds of scores by cell: how many points stand in cells that are nowhere lower.

A cell is a range of codes per dimension. With ``at_least[c]``, the points in cells nowhere lower
than c, a point of cell c dominates at most ``at_least[c] - 1`` points, and at least those in cells
higher in *all* dimensions, which is ``at_least`` of the cell one up in every dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.point_window import PointWindow, is_point, slot_of
from skyband.kernels.jit import lean
from skyband.order import Ints


class Bounds(NamedTuple):
    """Counts by cell; the last dimension of a cell varies fastest.

    ``side``: cells per dimension.
    """

    at_least: Ints
    side: Ints


def side_of(points: int, width: int, per_cell: float) -> int:
    """Cells per dimension for about ``per_cell`` points in a cell, two at least."""
    wanted = (max(points, 1) / per_cell) ** (1 / width)
    return max(2, min(256, int(wanted + 1e-9)))


def bounds(side: int, width: int) -> Bounds:
    """Counts at zero."""
    return Bounds(np.zeros(side**width, np.int64), np.array([side], np.int64))


@lean
def cell_at(window: PointWindow, slot: int, side: int) -> int:
    """The cell of a point, from its codes."""
    now = window.now[0]
    slots, bits = now.slots, now.bits
    cell = 0
    for at in range(now.width):
        cell = cell * side + ((np.int64(window.codes[at * slots + slot]) * side) >> bits)
    return cell


@lean
def count_cells(window: PointWindow, limits: Bounds) -> None:
    """Count the points of the window by cell, and sum them up. O(n + cells * d)."""
    now, side, counts = window.now[0], limits.side[0], limits.at_least
    counts[:] = 0
    for seq in range(now.oldest, now.end):
        slot = slot_of(window, seq)
        if is_point(window, slot):
            counts[cell_at(window, slot, side)] += 1
    sum_up(limits, now.width)


@lean
def sum_up(limits: Bounds, width: int) -> None:
    """Turn counts by cell into counts of the cells nowhere lower. O(cells * d)."""
    counts, side = limits.at_least, limits.side[0]
    stride = 1
    for _ in range(width):
        # add up from the highest cell of the dimension to the lowest
        block = stride * side
        for start in range(0, len(counts), block):
            for step in range(side - 2, -1, -1):
                lower = counts[start + step * stride : start + (step + 1) * stride]
                upper = counts[start + (step + 1) * stride : start + (step + 2) * stride]
                for i in range(len(lower)):
                    lower[i] += upper[i]
        stride = block


@lean
def most(limits: Bounds, cell: int) -> int:
    """The largest score that a point of a cell may have."""
    return limits.at_least[cell] - 1


@lean
def least(limits: Bounds, cell: int, width: int) -> int:
    """The smallest score that a point of a cell may have."""
    side = limits.side[0]
    rest, stride, up = cell, 1, 0
    for _ in range(width):
        if rest % side == side - 1:
            return 0
        rest //= side
        up += stride
        stride *= side
    return limits.at_least[cell + up]
