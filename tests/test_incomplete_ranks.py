"""Objects of equal score share ranks, or rank the oldest first, where a query says so."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import all_time, cumulative, last
from skyband.errors import QueryError, SnapshotError
from skyband.incomplete import ALGORITHMS
from skyband.incomplete.monitor import IncompleteMonitor
from skyband.incomplete.query import TopKIncomplete
from tests.oracle import Answer, all_time_windows, cumulative_windows
from tests.oracle_incomplete import best_objects, count_incomplete, time_incomplete
from tests.streams import batches
from tests.test_dominating_ranks import EMITS, ORDERS, check
from tests.test_incomplete import NAMES, columns, oracle_options, some_query, some_rows


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("seed", range(10))
def test_count_windows_restored_after_each_push(order, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 3)
    query = replace(some_query(chance, width, False, emit), **order)
    rows = some_rows(chance, 140, width, query.repeats, float(query.low[0]))
    ids, streams, values = columns(rows)
    monitor, windows = IncompleteMonitor(query), []
    for low, high in batches(len(rows), [chance.randrange(140) for _ in range(5)]):
        windows += monitor.push(ids[low:high], streams[low:high], values[low:high])
        monitor = IncompleteMonitor.restore(monitor.snapshot(), query)
    window = query.window
    shape = (window.size, window.slide, *oracle_options(query))
    check(windows, count_incomplete(rows, *shape, window.full, **order), query)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("seed", range(10))
def test_time_windows_in_any_order(order, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 3)
    query = replace(some_query(chance, width, True, emit), **order)
    rows = some_rows(chance, 100, width, query.repeats, float(query.low[0]))
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 60]) for _ in rows])
    places = np.array(chance.sample(range(100), 100))
    ids, streams, values = columns(rows)
    monitor, windows = IncompleteMonitor(query), []
    for low, high in batches(100, [chance.randrange(101) for _ in range(3)]):
        some, rest = places[low:high], times[places[high:]]
        watermark = int(rest.min()) if len(rest) else None
        pushed = (ids[some], streams[some], values[some])
        windows += monitor.push(*pushed, times=times[some], watermark=watermark)
    windows += monitor.finish()
    window = query.window
    shape = (window.size, window.slide, *oracle_options(query), window.offset)
    check(windows, time_incomplete(rows, times.tolist(), *shape, **order), query)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("window", [cumulative(20, every=5), all_time(every=5)], ids=str)
def test_windows_whose_rows_leave_together(order, emit, window):
    chance = random.Random(5)
    rows = [(chance.randrange(9), chance.randrange(2), chance.randrange(3) / 2) for _ in range(90)]
    times = list(range(90))
    bounds = all_time_windows if window.kind == "all_time" else cumulative_windows
    shape = (5, 1) if window.kind == "all_time" else (20, 5, 1)
    expected = []
    for empty in bounds([0.0] * 90, times, *shape):
        alive = [(*rows[at], at) for at in times if empty.start <= at < empty.end]
        ranking = best_objects(alive, 2, "sum", [0.0, 0.0], "max", **order)
        expected.append(Answer(empty.start, empty.end, ranking))
    query = TopKIncomplete(2, ["a", "b"], window, emit=emit, **order)
    monitor = IncompleteMonitor(query)
    windows = [*monitor.push(*columns(rows), times=np.array(times)), *monitor.finish()]
    check(windows, expected, query)


@given(data=st.data())
def test_any_stream(data):
    width, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    slide, k = data.draw(st.integers(1, size)), data.draw(st.integers(1, 4))
    order, emit = data.draw(st.sampled_from(ORDERS)), data.draw(st.sampled_from(EMITS))
    row = st.tuples(st.integers(0, 4), st.integers(0, width - 1), st.integers(0, 2).map(float))
    rows = data.draw(st.lists(row, max_size=24))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
    combine = data.draw(st.sampled_from(["sum", "min", "max"]))
    window = last(count=size, slide=slide)
    query = TopKIncomplete(k, NAMES[:width], window, combine, (0, 2), emit=emit, **order)
    monitor, windows, (ids, streams, values) = IncompleteMonitor(query), [], columns(rows)
    for low, high in batches(len(rows), cuts):
        windows += monitor.push(ids[low:high], streams[low:high], values[low:high])
    check(windows, count_incomplete(rows, size, slide, *oracle_options(query), **order), query)


@pytest.mark.parametrize("rank_by", ["rank", "dense_rank"])
def test_many_objects_that_tie_find_room(rank_by):
    query = TopKIncomplete(1, ["a"], last(count=900, slide=300), rank_by=rank_by)
    windows = list(IncompleteMonitor(query).push(np.arange(1800), "a", np.ones(1800)))
    assert [len(window) for window in windows] == [300, 600, 900, 900, 900, 900]
    assert all((window.rank == 1).all() for window in windows)


def test_a_function_may_combine():
    query = TopKIncomplete(
        1, ["a"], last(count=3), lambda values: np.floor(2 * values[:, 0]), rank_by="rank"
    )
    (window,) = IncompleteMonitor(query).push([1, 2, 3], "a", [0.6, 0.1, 0.9])
    assert (window.id.tolist(), window.rank.tolist()) == ([3, 1], [1, 1])


def test_what_is_refused():
    query = TopKIncomplete(2, ["a"], last(count=3), rank_by="rank", ties="oldest")
    assert str(query).endswith("of a, of equal scores the oldest first, ranked by rank")
    plain = replace(query, rank_by="row_number", ties="newest")
    for algorithm in ALGORITHMS:
        if algorithm != "recompute":
            with pytest.raises(QueryError, match=f"algorithm is '{algorithm}' with rank_by='rank'"):
                IncompleteMonitor(query, algorithm)
            with pytest.raises(QueryError, match="with ties='oldest'"):
                IncompleteMonitor(replace(plain, ties="oldest"), algorithm)
    for wrong in ({"rank_by": "any"}, {"ties": "any"}):
        with pytest.raises(QueryError, match=r"(rank_by|ties) is 'any'"):
            replace(query, **wrong)
    with pytest.raises(SnapshotError, match=r"rank_by = 'rank'|ties = 'oldest'"):
        IncompleteMonitor.restore(IncompleteMonitor(query).snapshot(), plain)
    assert "share a rank" in IncompleteMonitor(query).explain()
