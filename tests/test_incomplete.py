"""Incomplete streams against the oracle: every algorithm, gaps, repeats, equal times."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import last
from skyband.datasets.incomplete import sightings
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.incomplete import EXACT
from skyband.incomplete.monitor import IncompleteMonitor
from skyband.incomplete.query import TopKIncomplete
from tests.oracle import changes
from tests.oracle_incomplete import count_incomplete, time_incomplete
from tests.streams import answers, batches, reports, same

NAMES = ["a", "b", "c", "d", "e"]
LEVELS = (8, 8, 1_000_003)  # coarse values make ties, fine ones are rounded


def some_rows(chance, count, width, repeats, low=0.0):
    """Rows (id, stream, value): objects come in bursts; some values are missing.

    With ``repeats="none"`` no object comes twice in a stream.
    """
    rows, seen, ids = [], set(), []
    levels = chance.choice(LEVELS)
    for at in range(count):
        if not ids or chance.random() < 0.4:
            ids.append(chance.choice([at, -at - 1, at << 50]))
        obj, stream = chance.choice(ids[-8:]), chance.randrange(width)
        while repeats == "none" and (obj, stream) in seen:
            ids.append(at + (len(ids) << 40))
            obj = ids[-1]
        seen.add((obj, stream))
        value = low + chance.randrange(levels + 1) / levels
        rows.append((obj, stream, float("nan") if chance.random() < 0.05 else value))
    return rows


def at_most(rows, most):
    """Rows with at most ``most`` of an object in one stream, cut to whole slides."""
    times, allowed = Counter(), []
    for row in rows:
        times[row[:2]] += 1
        if times[row[:2]] <= most:
            allowed.append(row)
    return allowed[: len(allowed) // 70 * 70]


def some_query(chance, width, timed, emit="all", repeats=None):
    size = chance.randint(1, 40)
    slide = chance.randint(1, size)
    repeats = repeats or chance.choice(["max", "none", ("sum", 50)])
    weights = tuple(chance.randrange(5) / 4 for _ in range(width))
    window = (
        last(time=size, slide=slide, offset=chance.randint(-4, 4))
        if timed
        else last(count=size, slide=slide, full=chance.random() < 0.2)
    )
    return TopKIncomplete(
        chance.randint(1, 6),
        NAMES[:width],
        window,
        chance.choice(["sum", "min", "max", weights]),
        (0.0, 1.0) if isinstance(repeats, tuple) else (-0.5, 0.5),
        repeats=repeats,
        emit=emit,
    )


def columns(rows):
    ids, streams, values = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(ids, np.int64), np.array(streams, np.int64), np.array(values, np.float64)


def oracle_options(query):
    repeats = "sum" if isinstance(query.repeats, tuple) else "max"
    return query.k, query.combine, query.low.tolist(), repeats


def wanted_counted(query, rows):
    window = query.window
    k, *rest = oracle_options(query)
    return count_incomplete(rows, window.size, window.slide, k, *rest, full=window.full)


def so_far(rows, end):
    """The rows up to here, in the form that invariants are checked with."""
    return dict(enumerate(rows[:end]))


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(25))
def test_count_windows(algorithm, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 5)
    query = some_query(chance, width, False, emit)
    rows = some_rows(chance, 160, width, query.repeats, float(query.low[0]))
    ids, streams, values = columns(rows)
    monitor, windows = IncompleteMonitor(query, algorithm), []
    window = query.window
    for low, high in batches(len(rows), [chance.randrange(200) for _ in range(6)]):
        windows += monitor.push(ids[low:high], streams[low:high], values[low:high])
        if high and high % window.slide == 0:
            monitor.algorithm.check_invariants(so_far(rows, high))
    wanted = wanted_counted(query, rows)
    if emit == "changes":
        assert reports(windows) == changes(wanted, window.slide)
    else:
        same(answers(windows), wanted)
    assert monitor.dropped.nan_score == sum(value != value for *_, value in rows)


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("seed", range(25))
def test_time_windows_in_any_order(algorithm, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 4)
    query = some_query(chance, width, True)
    rows = some_rows(chance, 120, width, query.repeats, float(query.low[0]))
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 60]) for _ in rows]).tolist()
    order = list(range(len(rows)))
    chance.shuffle(order)
    ids, streams, values = columns([rows[at] for at in order])
    monitor = IncompleteMonitor(query, algorithm)
    monitor.push(ids, streams, values, times=np.array(times)[order])
    window = query.window
    k, *rest = oracle_options(query)
    wanted = time_incomplete(rows, times, window.size, window.slide, k, *rest, offset=window.offset)
    same(answers(monitor.finish()), wanted)


@pytest.mark.compiled
@pytest.mark.parametrize("repeats", ["none", "max"])
def test_a_long_slide_is_swept_before_it_ends(repeats):
    data = sightings(60_000, streams=2, xi=0.9, memory=20, seed=4)
    query = TopKIncomplete(5, ["a", "b"], last(count=30_000, slide=30_000), repeats=repeats)
    exact, eaa = (IncompleteMonitor(query, name) for name in ("recompute", "eaa"))
    rows = (data.id, data.stream, data.value)
    same(answers(eaa.push(*rows)), answers(exact.push(*rows)))
    assert eaa.state_bytes() < exact.state_bytes() / 2 or repeats == "max"


@pytest.mark.parametrize("slack", [0, 0.25, 3])
@pytest.mark.parametrize("repeats", ["none", "max", ("sum", 3)])
@pytest.mark.parametrize("seed", range(6))
def test_the_k_dominance_set_of_longer_windows(slack, repeats, seed):
    chance = random.Random(seed)
    query = replace(some_query(chance, 3, False, repeats=repeats), window=last(count=90, slide=7))
    rows = some_rows(chance, 560, 3, repeats, float(query.low[0]))
    if isinstance(repeats, tuple):
        rows = at_most(rows, repeats[1])
    ids, streams, values = columns(rows)
    monitor, windows = IncompleteMonitor(query, "eaa", options={"slack": slack}), []
    for low in range(0, len(rows), 70):
        windows += monitor.push(
            ids[low : low + 70], streams[low : low + 70], values[low : low + 70]
        )
        monitor.algorithm.check_invariants(so_far(rows, min(low + 70, len(rows))))
    same(answers(windows), wanted_counted(query, rows))


@given(data=st.data())
def test_any_stream(data):
    width = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(1, 9))
    slide, k = data.draw(st.integers(1, size)), data.draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, 4), st.integers(0, width - 1), st.integers(0, 4).map(float))
    rows = data.draw(st.lists(row, max_size=24))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
    combine = data.draw(st.sampled_from(["sum", "min", "max"]))
    repeats = data.draw(st.sampled_from(["max", "none", ("sum", 24)]))
    if repeats == "none":
        rows = list({row[:2]: row for row in rows}.values())
        cuts = [min(cut, len(rows)) for cut in cuts]
    window = last(count=size, slide=slide)
    query = TopKIncomplete(k, NAMES[:width], window, combine, (0, 4), repeats=repeats)
    wanted = wanted_counted(query, rows)
    ids, streams, values = columns(rows)
    for algorithm in EXACT:
        monitor, windows, low = IncompleteMonitor(query, algorithm), [], 0
        for high in [*sorted(cuts), len(rows)]:
            windows += monitor.push(ids[low:high], streams[low:high], values[low:high])
            low = high
            if high and high % slide == 0:
                monitor.algorithm.check_invariants(so_far(rows, high))
        same(answers(windows), wanted)


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_snapshots_go_on_bit_for_bit(algorithm, emit):
    chance = random.Random(3)
    query = some_query(chance, 3, False, emit)
    ids, streams, values = columns(some_rows(chance, 150, 3, query.repeats, float(query.low[0])))
    monitor = IncompleteMonitor(query, algorithm)
    for low in range(0, 150, 13):
        copy = IncompleteMonitor.restore(monitor.snapshot(), query)
        rows = slice(low, low + 13)
        one, two = (each.push(ids[rows], streams[rows], values[rows]) for each in (monitor, copy))
        assert one.to_arrow().to_pylist() == two.to_arrow().to_pylist()
        monitor = copy
    other = TopKIncomplete(query.k, ["x"], query.window, emit=emit)
    with pytest.raises(SnapshotError, match=r"bounds|streams|combine"):
        IncompleteMonitor.restore(monitor.snapshot(), other)


def test_streams_by_name_by_place_or_all_the_same():
    query = TopKIncomplete(1, ["x", "y"], last(count=2))
    for streams in (["x", "y"], [0, 1], np.array(["x", "y"], object)):
        (window,) = IncompleteMonitor(query).push([5, 5], streams, [0.5, 0.25])
        assert (window.score.tolist(), window.id.tolist()) == ([0.75], [5])
    (window,) = IncompleteMonitor(query).push([5, 5], "y", [0.5, 0.25])
    assert window.score.tolist() == [0.5]


def test_any_function_may_combine():
    query = TopKIncomplete(
        1, ["x", "y"], last(count=2), combine=lambda values: values[:, 0] * 2 + values[:, 1] ** 2
    )
    monitor = IncompleteMonitor(query)
    (window,) = monitor.push([5, 5], ["x", "y"], [0.5, 0.5])
    assert window.score.tolist() == [1.25]
    with pytest.raises(SnapshotError, match="function"):
        monitor.snapshot()


def test_values_beyond_their_bounds_are_refused_or_clipped():
    window, bounds = last(count=2), {"x": (0, 1), "y": (-1, 2)}
    refusing = IncompleteMonitor(TopKIncomplete(1, ["x", "y"], window, bounds=bounds))
    with pytest.raises(DataError, match="a value of 2 in stream 'x'"):
        refusing.push([1, 2], ["y", "x"], [2.0, 2.0])
    assert refusing.arrived == 0
    clipping = IncompleteMonitor(
        TopKIncomplete(1, ["x", "y"], window, bounds=bounds, outside="clip")
    )
    (answer,) = clipping.push([1, 1], ["y", "x"], [-9.0, 7.0])
    assert (answer.score.tolist(), clipping.clipped) == ([0.0], 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"streams": []}, "streams are"),
        ({"streams": "ab"}, "streams are"),
        ({"streams": ["a", "a"]}, "given twice"),
        ({"streams": [""]}, "is called ''"),
        ({"streams": [f"s{at}" for at in range(63)]}, "63 streams"),
        ({"window": 5}, "window is 5"),
        ({"combine": "mean"}, "combine is 'mean'"),
        ({"combine": (1.0,)}, "combine is"),
        ({"combine": (1.0, -1.0)}, "combine is"),
        ({"combine": lambda values: -values[:, 0]}, "do not fall"),
        ({"combine": lambda values: values}, "shape"),
        ({"bounds": (1, 0)}, "bounds are"),
        ({"bounds": {"a": (0, 1)}}, "no bounds of stream 'b'"),
        ({"bounds": {"a": (0, 1), "b": (0, 1), "c": (0, 1)}}, "bounds of 'c'"),
        ({"bounds": (0, float("inf"))}, "bounds are"),
        ({"bounds": (0, 1e308)}, "scores from"),
        ({"outside": "drop"}, "outside is 'drop'"),
        ({"repeats": "latest"}, "repeats is 'latest'"),
        ({"repeats": ("sum", 0)}, "repeats is"),
        ({"repeats": ("sum", 2), "bounds": (-1, 1)}, "down to -1"),
        ({"emit": "some"}, "emit is"),
    ],
)
def test_mistakes_in_queries_are_told(options, message):
    usual = {"k": 1, "streams": ["a", "b"], "window": last(count=5)}
    with pytest.raises(QueryError, match=message):
        TopKIncomplete(**usual | options)


def test_functions_and_huge_answers_are_recomputed():
    window = last(count=9)
    for query in (
        TopKIncomplete(1, ["a"], window, combine=lambda values: values[:, 0]),
        TopKIncomplete(1 << 30, ["a"], last(time=9)),
    ):
        assert IncompleteMonitor(query).plan.algorithm == "recompute"
        with pytest.raises(QueryError, match="use recompute"):
            IncompleteMonitor(query, "eaa")
    query = TopKIncomplete(1, ["a"], window)
    assert IncompleteMonitor(query).plan.algorithm == "eaa"
    with pytest.raises(QueryError, match="slack is -1"):
        IncompleteMonitor(query, "eaa", options={"slack": -1})


def test_mistakes_in_rows_are_told():
    query = TopKIncomplete(1, ["a", "b"], last(count=5))
    monitor = IncompleteMonitor(query)
    for rows, message in [
        (([1], ["c"], [0.5]), "stream 'c'"),
        (([1], [2], [0.5]), "stream number 2"),
        (([1], [None], [0.5]), "a stream is NULL"),
        (([1], ["a", "b"], [0.5]), "2 streams for 1 rows"),
        (([1, 2], "a", [0.5]), "2 ids for 1 rows"),
        (([1], None, [0.5]), "are missing"),
    ]:
        with pytest.raises(DataError, match=message):
            monitor.push(*rows)
    with pytest.raises(QueryError, match="algorithm is 'magic'"):
        IncompleteMonitor(query, "magic")
    with pytest.raises(QueryError, match="a TopKIncomplete query"):
        IncompleteMonitor(5)
    with pytest.raises(QueryError, match="option 'x'"):
        IncompleteMonitor(query, options={"x": 1})


def test_broken_promises_are_counted():
    query = TopKIncomplete(2, ["a", "b"], last(count=10), repeats="none")
    for algorithm in ("sla", "eaa"):
        monitor = IncompleteMonitor(query, algorithm)
        monitor.push([1, 1, 2, 1], ["a", "b", "a", "a"], [0.1, 0.2, 0.3, 0.4])
        assert monitor.counters()["broken_promises"] == 1
    monitor = IncompleteMonitor(replace(query, repeats="max"), "eaa")
    monitor.push([1, 1], ["a", "a"], [0.1, 0.2])
    assert monitor.counters()["broken_promises"] == 0


def test_rows_that_are_refused_are_not_counted_as_clipped():
    query = TopKIncomplete(2, ["a"], last(time=10), outside="clip")
    monitor = IncompleteMonitor(query)
    with pytest.raises(DataError):
        monitor.push([1, 2], "a", [0.5, 7.0], times=[1])
    assert monitor.clipped == 0
    monitor.push([1, 2], "a", [0.5, 7.0], times=[1, 2])
    assert monitor.clipped == 1


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda values: 1 // 0, "combine failed: ZeroDivisionError"),
        (lambda values: np.where(values[:, 0] == 0.5, np.nan, 1.0), "combine gave NaN"),
    ],
)
def test_functions_that_fail_are_told(combine, message):
    def answered():
        query = TopKIncomplete(1, ["a"], last(count=1), combine)
        return IncompleteMonitor(query).push([1], "a", [0.5])

    with pytest.raises(QueryError, match=message):
        answered()


def test_queries_can_be_told_apart_by_hash():
    one, two = (TopKIncomplete(k, ["a"], last(count=5)) for k in (1, 2))
    assert len({one, two, TopKIncomplete(1, ["a"], last(count=5))}) == 2


def test_streams_may_be_an_array_and_weights_no_set():
    assert TopKIncomplete(1, np.array(["a", "b"]), last(count=5)).streams == ("a", "b")
    with pytest.raises(QueryError, match="combine"):
        TopKIncomplete(1, ["a", "b"], last(count=5), {1.0, 2.0})
    monitor = IncompleteMonitor(TopKIncomplete(1, ["a", "b"], last(count=5)))
    with pytest.raises(DataError, match="different lengths"):
        monitor.push([1, 2], [["a"], ["b", "a"]], [0.1, 0.2])
    with pytest.raises(QueryError, match="options"):
        IncompleteMonitor(TopKIncomplete(1, ["a"], last(count=5)), "eaa", options=["slack"])
