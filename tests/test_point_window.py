"""Points with codes: scores and bounds by cell against counting by hand; the calendar."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.dominating.bounds import bounds, cell_at, count_cells, least, most, side_of
from skyband.dominating.events.calendar import NONE, calendar, note, strike, take_due
from skyband.dominating.exact_scores import add_point, exact_scores, update_scores
from skyband.dominating.point_window import (
    choose_bounds,
    exact_score,
    place_point,
    point_window,
    remove_oldest,
    resized_window,
)
from skyband.kernels.jit import entry
from skyband.kernels.work import counters


@entry
def _place(window, points):
    for row in range(len(points)):
        place_point(window, points, row, points[row, 0] == points[row, 0])


@entry
def _remove(window, count):
    for _ in range(count):
        remove_oldest(window)


@entry
def _score(window, seq, work):
    return exact_score(window, seq & (window.now[0].slots - 1), work)


@entry
def _limits(window, limits, seq, width):
    cell = cell_at(window, seq & (window.now[0].slots - 1), limits.side[0])
    return least(limits, cell, width), most(limits, cell)


@entry
def _count(window, limits):
    count_cells(window, limits)


@entry
def _add(items, window, seq, score):
    return add_point(items, window, seq, score)


@entry
def _update(items, window, slot, change, work):
    update_scores(items, window, slot, change, work)


def dominated(point, points):
    return int(((point <= points).all(axis=1) & (point < points).any(axis=1)).sum())


def some_window(width, levels, rows=700, gone=130):
    rng = np.random.default_rng(width * 100 + levels)
    points = rng.integers(0, levels, (rows, width)).astype(float)
    points[rng.random(rows) < 0.03] = np.nan
    window = point_window(256, width)
    _place(window, points[:200])
    _remove(window, gone)
    choose_bounds(window)
    window = resized_window(window, rows)
    _place(window, points[200:])
    alive = [seq for seq in range(gone, rows) if not np.isnan(points[seq, 0])]
    now = window.now[0]
    assert (now.oldest, now.end, now.points) == (gone, rows, len(alive))
    return window, points, alive


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("levels", [2, 7, 10**6])
def test_scores_and_bounds_are_what_counting_gives(width, levels):
    window, points, alive = some_window(width, levels)
    work = counters()
    limits = bounds(side_of(len(alive), width, 1.0), width)
    for _ in range(2):
        _count(window, limits)
        for seq in alive[::23]:
            score = dominated(points[seq], points[alive])
            assert _score(window, seq, work) == score
            low, high = _limits(window, limits, seq, width)
            assert low <= score <= high
        choose_bounds(window)  # and once more with codes that suit all points


def test_exact_scores_follow_what_points_dominate():
    window, points, alive = some_window(3, 7)
    items, work = exact_scores(1024, 3), counters()
    for seq in alive:
        _add(items, window, seq, 0)
    for other in alive[::7]:
        _update(items, window, other & (int(window.now[0].slots) - 1), 1, work)
    for at, seq in enumerate(alive):
        assert items.score[at] == dominated(points[seq], points[alive[::7]])


def test_infinite_coordinates_are_ordinary():
    window, work = point_window(8, 2), counters()
    points = np.array([[-np.inf, 0.0], [-np.inf, np.inf], [np.inf, np.inf], [0.0, 0.0]])
    _place(window, points)
    for _ in range(2):
        assert [int(_score(window, seq, work)) for seq in range(4)] == [3, 1, 0, 1]
        choose_bounds(window)


def test_bounds_are_chosen_from_points_that_can_be_ranked():
    window, work = point_window(512, 2), counters()
    points = np.full((400, 2), np.nan)
    points[1::7] = np.inf
    _place(window, points[:200])
    choose_bounds(window, sample=4)
    _place(window, points[200:])
    assert all(_score(window, seq, work) == 0 for seq in range(1, 400, 7))


def test_grids_have_at_most_as_many_cells_as_points():
    for points in (1, 1_000, 2_000_000):
        for width in range(1, 9):
            assert side_of(points, width, 64) ** width <= max(points / 64, 2**width)
    assert side_of(2_000_000, 4, 64) == 13


@entry
def _note(dates, slot, tick, now):
    note(dates, slot, tick, now)


@entry
def _strike(dates, slot):
    strike(dates, slot)


@entry
def _take(dates, tick):
    return take_due(dates, tick)


def test_a_calendar_gives_back_what_is_due():
    rng = np.random.default_rng(5)
    dates, noted = calendar(64), {}
    for now in range(400):
        due = set()
        while (slot := int(_take(dates, now))) != NONE:
            due.add(slot)
        assert due == {slot for slot, tick in noted.items() if tick == now}
        noted = {slot: tick for slot, tick in noted.items() if tick > now}
        for slot in rng.integers(0, 64, 5).tolist():
            _strike(dates, slot)
            noted.pop(slot, None)
            tick = now + 1 + int(rng.integers(0, 300))
            _note(dates, slot, tick, now)
            noted[slot] = min(tick, now + 127)  # beyond the horizon: at its edge
