"""Top-k dominating queries against the oracle: every algorithm, many equal coordinates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import last
from skyband.dominating import EXACT
from skyband.dominating.monitor import DominatingMonitor
from skyband.dominating.query import TopKDominating
from skyband.errors import DataError, QueryError, SnapshotError
from tests.oracle import (
    Answer,
    changes,
    count_dominating,
    dominated_counts,
    dominates,
    time_dominating,
)
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
    """Points as they are pushed: attributes where more is better are negated."""
    nothing = (float("nan"),) * len(ways)
    rows = np.array([nothing if point is None else point for point in points], dtype=np.float64)
    signs = [1.0 if way == "min" else -1.0 for way in ways]
    return rows.reshape(-1, len(ways)) * signs


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


def test_the_oracle_counts_pairs_of_points():
    chance = random.Random(7)
    for _ in range(100):
        values = [float("-inf"), -0.0, 0.0, 1.0, chance.random(), float("inf")]
        width = chance.randint(1, 4)
        points = [
            tuple(chance.choice(values) for _ in range(width)) for _ in range(chance.randint(0, 30))
        ]
        pairs = [sum(dominates(one, other) for other in points) for one in points]
        assert dominated_counts(points) == pairs


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
    results = []
    for low, high in batches(len(points), [chance.randrange(200) for _ in range(5)]):
        results += monitor.push(pushed[low:high])
        start = max(0, high // query.window.slide * query.window.slide - query.window.size)
        if high % query.window.slide == 0:
            alive = {at: 0.0 for at in range(start, high) if points[at] is not None}
            monitor.algorithm.check_invariants(alive)
    window = query.window
    wanted = count_dominating(points, window.size, window.slide, query.k, window.full)
    if emit == "changes":
        assert reports(results) == changes(wanted, window.slide)
    else:
        same(answers(results), wanted)
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


def streams_of(chance, rows, width):
    """Points of several kinds: on a coarse grid, fine, against each other, drifting."""
    kind = chance.choice(["coarse", "fine", "against", "drifting"])
    levels = 5 if kind == "coarse" else 10**6
    points = [[chance.randrange(levels) / levels for _ in range(width)] for _ in range(rows)]
    if kind == "against":
        points = [[*point[1:], width - sum(point[1:]) + point[0] / 50] for point in points]
    if kind == "drifting":
        points = [[value + at / rows for value in point] for at, point in enumerate(points)]
    return np.array(points)


def by_counting(points, size, slide, k, full):
    """Scores as by the oracle, but fast enough for some hundreds of points."""
    results = []
    for end in range(slide, len(points) + 1, slide):
        if full and end < size:
            continue
        start = max(0, end - size)
        window = points[start:end]
        no_worse = (window[:, None] <= window[None]).all(axis=2)
        score = (no_worse & ~no_worse.T).sum(axis=1)
        order = np.lexsort((-np.arange(len(window)), -score))[:k]
        rows = tuple((float(score[at]), int(start + at)) for at in order)
        results.append(Answer(start, end, rows))
    return results


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(16))
def test_windows_of_hundreds_of_points(seed):
    chance = random.Random(seed)
    width, size = chance.randint(1, 6), chance.choice([70, 150, 300])
    slide, k = chance.choice([1, 3, 40, size]), chance.choice([1, 7, 40])
    window = last(count=size, slide=slide, full=chance.random() < 0.5)
    query = TopKDominating(k, [(f"d{at}", "min") for at in range(width)], window)
    points = streams_of(chance, 3 * size + 50, width)
    wanted = by_counting(points, size, slide, k, window.full)
    for algorithm in EXACT:
        monitor = DominatingMonitor(query, algorithm)
        results = []
        for low, high in batches(len(points), [chance.randrange(900) for _ in range(4)]):
            results += monitor.push(points[low:high])
            start = max(0, high // slide * slide - size)
            if high % slide == 0 and (high >= size or not window.full):
                monitor.algorithm.check_invariants(dict.fromkeys(range(start, high), 0.0))
        same(answers(results), wanted)


values = st.integers(0, 3).map(float)


@given(data=st.data())
def test_any_stream_of_points(data):
    width = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(1, 9))
    slide, k = data.draw(st.integers(1, size)), data.draw(st.integers(1, 4))
    rows = st.one_of(st.none(), st.tuples(*[values] * width))
    points = data.draw(st.lists(rows, max_size=24))
    cuts = data.draw(st.lists(st.integers(0, len(points)), max_size=3))
    query = TopKDominating(
        k, [(NAMES[at], "min") for at in range(width)], last(count=size, slide=slide)
    )
    wanted = count_dominating(points, size, slide, k)
    pushed = matrix(points, ["min"] * width)
    for algorithm in EXACT:
        monitor, results, low = DominatingMonitor(query, algorithm), [], 0
        for high in [*sorted(cuts), len(points)]:
            results += monitor.push(pushed[low:high])
            low = high
            if high % slide == 0:
                alive = range(max(0, high - size), high)
                monitor.algorithm.check_invariants({at: 0.0 for at in alive if points[at]})
        same(answers(results), wanted)


@pytest.mark.parametrize("algorithm", EXACT)
def test_windows_that_are_full_and_nearly_empty_by_turns(algorithm):
    rng = np.random.default_rng(7)
    times = np.repeat(np.arange(9), [3, 6, 71, 2, 5, 3, 1, 90, 3])
    points = [(float(value),) for value in rng.integers(0, 40, len(times))]
    monitor = DominatingMonitor(TopKDominating(3, [("a", "min")], last(time=1)), algorithm)
    results = []
    for now in range(9):
        rows = np.flatnonzero(times == now)
        column = np.array([points[row] for row in rows])
        results += monitor.push(column, times=times[rows], ids=rows, watermark=now + 1)
    same(answers(results), time_dominating(points, times.tolist(), 1, 1, 3, 0))


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
    for k, dimensions, message in [
        (0, [("a", "min")], "k is 0"),
        (1, [], "dimensions are"),
        (1, "a", "dimensions are"),
        (1, [("a",)], "a dimension is"),
        (1, [("a", "least")], "'least'"),
        (1, [("a", "min"), ("a", "max")], "given twice"),
        (1, [("", "min")], "is called ''"),
        (1, [(f"d{i}", "min") for i in range(17)], "17 dimensions"),
    ]:
        with pytest.raises(QueryError, match=message):
            TopKDominating(k, dimensions, window)
    with pytest.raises(QueryError, match="window is 5"):
        TopKDominating(1, [("a", "min")], 5)
    monitor = DominatingMonitor(TopKDominating(1, [("a", "min"), ("b", "max")], window))
    for points, message in [
        ({"a": [1.0]}, "no column 'b'"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "b has 2 rows"),
        (np.zeros((2, 3)), "points of shape"),
        (5, "points are int"),
    ]:
        with pytest.raises(DataError, match=message):
            monitor.push(points)
    with pytest.raises(QueryError, match="a TopKDominating query"):
        DominatingMonitor(5)
    with pytest.raises(QueryError, match="algorithm is 'x'"):
        DominatingMonitor(monitor.query, "x")


XYZ = [("x", "min"), ("y", "min"), ("z", "min")]


@pytest.mark.compiled
@pytest.mark.parametrize("slide", [2_000, 100])
def test_contenders_stay_few_when_the_stream_moves_to_better_values(slide):
    rng = np.random.default_rng(1)
    monitor = DominatingMonitor(TopKDominating(5, XYZ, last(count=2_000, slide=slide)))
    for window in range(8):
        monitor.push(rng.random((2_000, 3)) - (10 if window >= 2 else 0))
    assert monitor.algorithm.state.contenders.size[0] < 400


@pytest.mark.compiled
def test_contenders_stay_few_among_equal_points():
    window = last(count=3_000, slide=50)
    monitor = DominatingMonitor(TopKDominating(4, XYZ, window), "contenders")
    for _ in range(3):
        results = monitor.push(np.zeros((2_000, 3)))
    assert results.score.max() == 0
    assert results.id[-4:].tolist() == [5999, 5998, 5997, 5996]
    assert monitor.algorithm.state.contenders.size[0] < 1_000


@pytest.mark.parametrize("algorithm", ["contenders", "ada"])
def test_slots_follow_what_is_held_not_what_is_pushed(algorithm):
    rng = np.random.default_rng(2)
    monitor = DominatingMonitor(TopKDominating(2, XYZ, last(count=50, slide=10)), algorithm)
    monitor.push(rng.random((900, 3)))
    assert len(monitor.algorithm.state.window.codes) // 3 <= 128
    monitor = DominatingMonitor(TopKDominating(2, XYZ, last(time=10, slide=10)), algorithm)
    monitor.push(rng.random((3_000, 3)), times=np.zeros(3_000, np.int64), watermark=10)
    assert len(monitor.algorithm.state.window.codes) // 3 == 4096
    times = np.arange(10, 310)
    for low in range(0, 300, 50):
        monitor.push(rng.random((50, 3)), times=times[low : low + 50], watermark=low + 60)
    assert len(monitor.algorithm.state.window.codes) // 3 <= 64  # the burst is over
