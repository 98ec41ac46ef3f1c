"""Top-k dominating queries against the oracle: every algorithm, many equal coordinates."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband import last
from skyband.dominating import EXACT
from skyband.dominating.monitor import DominatingMonitor
from skyband.dominating.query import TopKDominating
from skyband.errors import DataError, QueryError, SnapshotError
from tests.oracle import changes, count_dominating, time_dominating
from tests.streams import answers, batches, reports, same

NAMES = ["a", "b", "c", "d", "e"]


def some_points(chance, rows, width, levels=4):
    """Points on a coarse grid, some of them with a missing attribute."""
    return [
        None
        if chance.random() < 0.05
        else tuple(float(chance.randrange(levels)) for _ in range(width))
        for _ in range(rows)
    ]


def matrix(points, ways):
    """Points as they are pushed: where more is better, the other way round."""
    nothing = (float("nan"),) * len(ways)
    found = np.array([nothing if point is None else point for point in points], dtype=np.float64)
    signs = [1.0 if way == "min" else -1.0 for way in ways]
    return found.reshape(-1, len(ways)) * signs


def some_query(chance, width, timed, emit="all"):
    size = chance.randint(1, 30)
    slide = chance.randint(1, size)
    ways = [chance.choice(["min", "max"]) for _ in range(width)]
    window = (
        last(time=size, slide=slide, offset=chance.randint(-4, 4))
        if timed
        else last(count=size, slide=slide, full=chance.random() < 0.2)
    )
    dimensions = list(zip(NAMES, ways, strict=False))
    return TopKDominating(chance.randint(1, 6), dimensions, window, emit), ways


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(12))
def test_count_windows(algorithm, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 5)
    query, ways = some_query(chance, width, False, emit)
    points = some_points(chance, 120, width)
    monitor = DominatingMonitor(query, algorithm)
    pushed = matrix(points, ways)
    found = []
    for low, high in batches(len(points), [chance.randrange(200) for _ in range(5)]):
        found += monitor.push(pushed[low:high])
        start = max(0, high // query.window.slide * query.window.slide - query.window.size)
        if high % query.window.slide == 0:
            alive = {at: 0.0 for at in range(start, high) if points[at] is not None}
            monitor.algorithm.check_invariants(alive)
    window = query.window
    wanted = count_dominating(points, window.size, window.slide, query.k, window.full)
    if emit == "changes":
        assert reports(found) == changes(wanted, window.slide)
    else:
        same(answers(found), wanted)
    assert monitor.dropped.nan_score == points.count(None)


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("seed", range(12))
def test_time_windows_in_any_order(algorithm, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 4)
    query, ways = some_query(chance, width, True)
    points = some_points(chance, 80, width)
    times = np.cumsum([chance.choice([0, 1, 1, 3, 40]) for _ in points]).tolist()
    order = list(range(len(points)))
    chance.shuffle(order)
    monitor = DominatingMonitor(query, algorithm)
    pushed = matrix(points, ways)
    monitor.push(pushed[order], times=np.array(times)[order], ids=np.array(order))
    window = query.window
    wanted = time_dominating(points, times, window.size, window.slide, query.k, window.offset)
    same(answers(monitor.finish()), wanted)


@pytest.mark.parametrize("algorithm", EXACT)
def test_snapshots_go_on_bit_for_bit(algorithm):
    chance = random.Random(1)
    query, ways = some_query(chance, 3, False, "changes")
    pushed = matrix(some_points(chance, 90, 3), ways)
    monitor = DominatingMonitor(query, algorithm)
    for low in range(0, 90, 13):
        copy = DominatingMonitor.restore(monitor.snapshot(), query)
        one, two = (each.push(pushed[low : low + 13]) for each in (monitor, copy))
        assert one.to_arrow().to_pylist() == two.to_arrow().to_pylist()
        monitor = copy
    other = TopKDominating(query.k, [("a", "min")], query.window, "changes")
    with pytest.raises(SnapshotError, match="dimensions"):
        DominatingMonitor.restore(monitor.snapshot(), other)


def test_points_by_the_names_of_their_attributes():
    query = TopKDominating(1, [("x", "min"), ("y", "min")], last(count=4))
    monitor = DominatingMonitor(query)
    (window,) = monitor.push({"x": [1.0, 2.0, 2.0, 3.0], "y": [1.0, 2.0, 1.0, 3.0]})
    assert (window.score.tolist(), window.id.tolist()) == ([3.0], [0])


def test_mistakes_are_told():
    window = last(count=5)
    for k, dimensions, said in [
        (0, [("a", "min")], "k is 0"),
        (1, [], "dimensions are"),
        (1, "a", "dimensions are"),
        (1, [("a",)], "a dimension is"),
        (1, [("a", "least")], "'least'"),
        (1, [("a", "min"), ("a", "max")], "given twice"),
        (1, [("", "min")], "is called ''"),
        (1, [(f"d{i}", "min") for i in range(17)], "17 dimensions"),
    ]:
        with pytest.raises(QueryError, match=said):
            TopKDominating(k, dimensions, window)
    with pytest.raises(QueryError, match="window is 5"):
        TopKDominating(1, [("a", "min")], 5)
    monitor = DominatingMonitor(TopKDominating(1, [("a", "min"), ("b", "max")], window))
    for points, said in [
        ({"a": [1.0]}, "no column 'b'"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "b has 2 rows"),
        (np.zeros((2, 3)), "points of shape"),
        (5, "points are int"),
    ]:
        with pytest.raises(DataError, match=said):
            monitor.push(points)
    with pytest.raises(QueryError, match="a TopKDominating query"):
        DominatingMonitor(5)
    with pytest.raises(QueryError, match="algorithm is 'x'"):
        DominatingMonitor(monitor.query, "x")
