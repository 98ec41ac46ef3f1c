"""Points of equal score share ranks, or rank the oldest first, where a query says so."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import all_time, cumulative, last
from skyband.dominating import ALGORITHMS
from skyband.dominating.monitor import DominatingMonitor
from skyband.dominating.query import TopKDominating
from skyband.engine import snapshot
from skyband.errors import QueryError, SnapshotError
from skyband.partitioned import Partitioned
from tests.command_line import Runner
from tests.oracle import (
    Answer,
    all_time_windows,
    changes,
    count_dominating,
    cumulative_windows,
    dominating,
    numbered,
    time_dominating,
)
from tests.streams import answers, batches, reports, same
from tests.test_dominating import NAMES, matrix, some_points, some_query, values

ORDERS = [
    {"rank_by": rank_by, "ties": ties}
    for rank_by, ties in product(["row_number", "rank", "dense_rank"], ["newest", "oldest"])
]
EMITS = ["all", "changes"]


def check(windows, expected, query):
    """Hold windows, or changes between them, to the oracle: rows, ranks and their order."""
    windows = list(windows)
    if query.emit == "changes":
        until = None if query.window.kind in ("count", "all_time") else 1 << 60
        assert reports(windows) == changes(expected, query.window.slide, until, query.rank_by)
        return
    same(answers(windows), expected)
    for window in windows:
        rows = list(zip(window.score.tolist(), window.id.tolist(), strict=True))
        assert window.rank.tolist() == numbered(rows, query.rank_by)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("seed", range(10))
def test_count_windows_restored_after_each_push(order, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 4)
    query, ways = some_query(chance, width, False, emit)
    query = replace(query, **order)
    points = some_points(chance, 110, width, 3)
    monitor, windows, pushed = DominatingMonitor(query), [], matrix(points, ways)
    for low, high in batches(len(points), [chance.randrange(110) for _ in range(5)]):
        windows += monitor.push(pushed[low:high])
        monitor = DominatingMonitor.restore(monitor.snapshot(), query)
    window = query.window
    expected = count_dominating(points, window.size, window.slide, query.k, window.full, **order)
    check(windows, expected, query)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("seed", range(8))
def test_time_windows_in_any_order(order, emit, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 3)
    query, ways = some_query(chance, width, True, emit)
    query = replace(query, **order)
    points = some_points(chance, 80, width, 3)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in points])
    rows = np.array(chance.sample(range(80), 80))
    monitor, windows, pushed = DominatingMonitor(query), [], matrix(points, ways)
    for low, high in batches(80, [chance.randrange(81) for _ in range(3)]):
        some, rest = rows[low:high], times[rows[high:]]
        watermark = int(rest.min()) if len(rest) else None
        windows += monitor.push(pushed[some], ids=some, times=times[some], watermark=watermark)
    windows += monitor.finish()
    window = query.window
    shape = (window.size, window.slide, query.k, window.offset)
    check(windows, time_dominating(points, times.tolist(), *shape, **order), query)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("window", [cumulative(20, every=5), all_time(every=5)], ids=str)
def test_windows_whose_points_leave_together(order, emit, window):
    chance = random.Random(3)
    points = [point for point in some_points(chance, 90, 2, 3) if point is not None]
    times = list(range(len(points)))
    bounds = all_time_windows if window.kind == "all_time" else cumulative_windows
    shape = (5, 1) if window.kind == "all_time" else (20, 5, 1)
    expected = []
    for empty in bounds([0.0] * len(points), times, *shape):
        alive = [(points[at], at, at) for at in times if empty.start <= at < empty.end]
        expected.append(Answer(empty.start, empty.end, dominating(alive, 2, **order)))
    query = TopKDominating(2, [("a", "min"), ("b", "min")], window, emit, **order)
    monitor = DominatingMonitor(query)
    windows = [*monitor.push(matrix(points, ["min"] * 2), times=times), *monitor.finish()]
    check(windows, expected, query)


@given(data=st.data())
def test_any_stream_of_points(data):
    width, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    slide, k = data.draw(st.integers(1, size)), data.draw(st.integers(1, 4))
    order, emit = data.draw(st.sampled_from(ORDERS)), data.draw(st.sampled_from(EMITS))
    points = data.draw(st.lists(st.none() | st.tuples(*[values] * width), max_size=24))
    cuts = data.draw(st.lists(st.integers(0, len(points)), max_size=3))
    dimensions = [(NAMES[at], "min") for at in range(width)]
    query = TopKDominating(k, dimensions, last(count=size, slide=slide), emit, **order)
    monitor, windows, pushed = DominatingMonitor(query), [], matrix(points, ["min"] * width)
    for low, high in batches(len(points), cuts):
        windows += monitor.push(pushed[low:high])
        if high % slide == 0:
            alive = {at: 0.0 for at in range(max(0, high - size), high) if points[at]}
            monitor.algorithm.check_invariants(alive)
    check(windows, count_dominating(points, size, slide, k, **order), query)


@pytest.mark.parametrize("rank_by", ["rank", "dense_rank"])
def test_many_points_that_tie_find_room(rank_by):
    query = TopKDominating(1, [("a", "min")], last(count=900, slide=300), rank_by=rank_by)
    windows = list(DominatingMonitor(query).push(np.zeros((1800, 1))))
    assert [len(window) for window in windows] == [300, 600, 900, 900, 900, 900]
    assert all((window.rank == 1).all() for window in windows)


@pytest.mark.parametrize("emit", EMITS)
def test_keys(emit):
    query = TopKDominating(1, [("a", "min")], last(count=3), emit, rank_by="rank", ties="oldest")
    engine = Partitioned(query, "auto", DominatingMonitor)
    keys, points = np.array([0, 0, 0, 7, 7, 7]), np.array([[1.0], [1], [2], [5], [4], [4]])
    parts = [*engine.push(points, keys=keys, ids=np.arange(6)), *engine.finish()]
    ranked = [window for part in parts for window in part.ranked]
    assert [window.id.tolist() for window in ranked] == [[0, 1], [4, 5]]
    assert [window.rank.tolist() for window in ranked] == [[1, 1], [1, 1]]


def test_snapshots_from_before_go_on():
    query = TopKDominating(2, [("a", "min")], last(count=9, slide=3))
    monitor = DominatingMonitor(query, "bfa")
    monitor.push(np.arange(7.0).reshape(-1, 1) % 3)
    header, arrays = snapshot.load(monitor.snapshot())
    del header["query"]["ties"], header["query"]["rank_by"]
    for name in ("counts", "now.taken", "now.lacking", "now.dense", "now.oldest_first"):
        del arrays[f"algorithm_state.{name}"]
    del arrays["algorithm_state.now.shares_ranks"]
    again = DominatingMonitor.restore(snapshot.dump(header, arrays), query)
    rest = np.arange(20.0).reshape(-1, 1) % 4
    assert answers(again.push(rest)) == answers(monitor.push(rest))


def test_what_is_refused():
    query = TopKDominating(2, [("a", "min")], last(count=3), rank_by="rank", ties="oldest")
    assert str(query).endswith("by least a, of equal scores the oldest first, ranked by rank")
    plain = replace(query, rank_by="row_number", ties="newest")
    for algorithm in ALGORITHMS:
        if algorithm != "bfa":
            with pytest.raises(QueryError, match=f"algorithm is '{algorithm}' with rank_by='rank'"):
                DominatingMonitor(query, algorithm)
            with pytest.raises(QueryError, match="with ties='oldest'"):
                DominatingMonitor(replace(plain, ties="oldest"), algorithm)
    with pytest.raises(QueryError, match="keep_up with rank_by='rank'"):
        DominatingMonitor(query, options={"keep_up": 1e4})
    with pytest.raises(QueryError, match="rank_by is 'any'"):
        replace(query, rank_by="any")
    with pytest.raises(QueryError, match="ties is 'any'"):
        replace(query, ties="any")
    with pytest.raises(SnapshotError, match=r"rank_by = 'rank'|ties = 'oldest'"):
        DominatingMonitor.restore(DominatingMonitor(query).snapshot(), plain)
    assert "share a rank" in DominatingMonitor(query).explain()


def test_files(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    path = tmp_path / "equal.csv"
    path.write_text("t,o,s,v\n1,a,x,1\n2,b,x,1\n3,c,x,0.5\n4,d,x,0.5\n")
    window = ["--time", "t", "--window", 10, "--offset", 1]
    for algorithm, asked in (
        ("eva", ["dominating", path, "--on", "v:max"]),
        ("eaa", ["incomplete", path, "--id", "o", "--stream", "s", "--value", "v"]),
    ):
        query = [*asked, "--k", 2, *window, "--format", "csv"]
        rows = run(*query, "--rank-by", "rank", "--ties", "oldest").rows
        assert [(row["rank"], row["o"]) for row in rows] == [("1", "a"), ("1", "b")]
        assert [row["o"] for row in run(*query).rows] == ["b", "a"]
        assert len(run(*query, "--rank-by", "dense_rank").rows) == 4
        assert "--ties" in run.fails(*query, "--ties", "any")
        refused = run.fails(*query, "--rank-by", "rank", "--algorithm", algorithm)
        assert "with rank_by='rank'" in refused
        explained = run("explain", *asked[1:], *window, "--rank-by", "rank")
        assert "share a rank" in explained.out, explained.err
