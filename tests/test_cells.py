"""The grid of points: what a point dominates, counted by cells, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.kernels.cells import NONE, POINTS, cells, drop, exact_score, put, side_of
from skyband.kernels.jit import entry


@entry
def _put(grid, slot):
    put(grid, slot)


@entry
def _drop(grid, slot):
    drop(grid, slot)


@entry
def _score(grid, slot):
    return exact_score(grid, slot)


@pytest.mark.parametrize(
    ("width", "side"), [(1, 2), (1, 7), (2, 2), (2, 7), (3, 3), (3, 7), (5, 2), (5, 3), (8, 2)]
)
def test_scores_are_what_counting_gives(width, side):
    rng = np.random.default_rng(width * 10 + side)
    points = rng.integers(0, 6, (120, width)).astype(float)
    bounds = np.sort(rng.random((width, side - 1)) * 6, axis=1).round()
    grid = cells(len(points), bounds)
    alive = set()
    for slot, point in enumerate(points):
        grid.points[slot * width : (slot + 1) * width] = point
        _put(grid, slot)
        alive.add(slot)
        if slot % 3 == 2:
            gone = min(alive)
            _drop(grid, gone)
            alive.remove(gone)
    assert grid.numbers[POINTS] == len(alive) == grid.held.sum()
    rows = sorted(alive)
    held = points[rows]
    for slot in rows:
        mine = points[slot]
        dominated = (mine <= held).all(axis=1) & (mine < held).any(axis=1)
        assert _score(grid, slot) == dominated.sum()
    assert all(grid.cell[slot] == NONE for slot in range(120) if slot not in alive)


def test_grids_have_fewer_cells_than_points():
    for points in (1, 1_000, 2_000_000):
        for width in range(1, 9):
            cells_in_all = side_of(points, width) ** width
            assert cells_in_all <= max(points / 64, 2**width)
    assert side_of(2_000_000, 4) == 13
