"""Queries of a workload in other orders and over other windows: each has its own."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from skyband import QueryError, TopK, Workload, WorkloadMonitor, all_time, cumulative, last
from skyband.query import RANK_BYS, TIES
from tests.oracle import (
    all_time_windows,
    changes,
    count_windows,
    cumulative_windows,
    numbered,
    time_windows,
)
from tests.oracle_updates import open_all_time, open_counted, open_cumulative, open_sliding, updates
from tests.streams import answers, batches, reports, same

SCORES = [0.0, 1.0, 2.0, 3.0, float("inf"), float("nan")]  # few, so that many are equal


def any_window(chance, counted):
    """A window of any kind."""
    kind = chance.choice(["sliding", "cumulative", "all_time"])
    slide = chance.randint(1, 9)
    if counted or kind == "sliding":
        size = slide + chance.randint(0, 20)
        if counted:
            return last(count=size, slide=slide, full=chance.random() < 0.2)
        return last(time=size, slide=slide, offset=chance.randint(-5, 5))
    if kind == "cumulative":
        return cumulative(slide * chance.randint(1, 5), every=slide, offset=chance.randint(-5, 5))
    return all_time(every=slide)


def any_queries(chance, counted, emit="all"):
    """One query for each order, over windows of any kind, and a few more."""
    orders = [(ties, rank_by) for ties in TIES for rank_by in RANK_BYS]
    orders += [chance.choice(orders) for _ in range(3)]
    return {
        f"q{number}": TopK(
            k=chance.randint(1, 4),
            window=any_window(chance, counted),
            emit=emit,
            ties=ties,
            rank_by=rank_by,
        )
        for number, (ties, rank_by) in enumerate(orders)
    }


def expected(query, scores, times, until=None):
    """All windows of a query, by the oracle of its kind."""
    window, order = query.window, {"ties": query.ties, "rank_by": query.rank_by}
    size, slide, k = window.size, window.slide, query.k
    if times is None:
        return count_windows(scores, size, slide, k, full=window.full, **order)
    if window.kind == "all_time":
        return all_time_windows(scores, times, slide, k, until=until, **order)
    of_kind = cumulative_windows if window.kind == "cumulative" else time_windows
    return of_kind(scores, times, size, slide, k, window.offset, until=until, **order)


def some_rows(chance, counted):
    rows = chance.randint(30, 120)
    scores = [chance.choice(SCORES) for _ in range(rows)]
    gaps = [0, 0, 1, 1, 2, 7, 40]
    times = None if counted else np.cumsum([chance.choice(gaps) for _ in range(rows)]).tolist()
    return scores, times


def pushed(monitor, scores, times, low, high):
    """What a part of the rows completes."""
    values = np.array(scores[low:high], np.float64)
    if times is None:
        return monitor.push(values)
    watermark = times[high] if high < len(times) else None
    at, ids = np.array(times[low:high], np.int64), np.arange(low, high)
    return monitor.push(values, times=at, ids=ids, watermark=watermark)


def windows_of(parts, name):
    return [window for part in parts for window in part.of(name)]


def check_ranks(windows, query):
    for window in windows:
        rows = list(zip(window.score.tolist(), window.id.tolist(), strict=True))
        assert window.rank.tolist() == numbered(rows, query.rank_by)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("algorithm", ["auto", "independent"])
def test_every_order_and_window_with_snapshots(algorithm, seed, counted):
    chance = random.Random(seed)
    queries = any_queries(chance, counted)
    scores, times = some_rows(chance, counted)
    monitor = WorkloadMonitor(Workload(queries), algorithm)
    assert monitor.algorithm == "independent"
    parts = []
    for low, high in batches(len(scores), [chance.randrange(400) for _ in range(4)]):
        parts.append(pushed(monitor, scores, times, low, high))
        monitor = WorkloadMonitor.restore(monitor.snapshot())
    parts.append(monitor.finish())
    for name, query in queries.items():
        windows = windows_of(parts, name)
        same(answers(windows), expected(query, scores, times))
        check_ranks(windows, query)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_changes(seed, counted):
    chance = random.Random(seed)
    queries = any_queries(chance, counted, "changes")
    scores, times = some_rows(chance, counted)
    monitor = WorkloadMonitor(Workload(queries))
    cuts = batches(len(scores), [chance.randrange(400) for _ in range(4)])
    parts = [pushed(monitor, scores, times, low, high) for low, high in cuts]
    parts.append(monitor.finish())
    for name, query in queries.items():
        leaves = times is not None and query.window.kind != "all_time"
        until = max(times) + 10**6 if leaves else None
        wanted = changes(expected(query, scores, times), query.window.slide, until, query.rank_by)
        assert reports(windows_of(parts, name)) == wanted


def open_windows(query, places, closed):
    """Windows that are open, by the oracle of their kind."""
    window = query.window
    size, slide, current = window.size, window.slide, query.open_windows == "current"
    if window.kind == "count":
        return open_counted(closed, size, slide, window.full, current)
    if window.kind == "all_time":
        return open_all_time(places, slide, closed, current)
    of_kind = open_cumulative if window.kind == "cumulative" else open_sliding
    return of_kind(places, size, slide, window.offset, closed, current)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_updates(seed, counted):
    """After every push, the windows whose ranking so far is another than was reported."""
    chance = random.Random(seed)
    queries = {
        name: replace(query, open_windows=chance.choice(["all", "current"]))
        for name, query in any_queries(chance, counted, "updates").items()
    }
    scores, times = some_rows(chance, counted)
    monitor = WorkloadMonitor(Workload(queries))
    reported = {name: {} for name in queries}
    for low, high in batches(len(scores), [chance.randrange(400) for _ in range(4)])[:-1]:
        part = pushed(monitor, scores, times, low, high)
        so_far = [score == score for score in scores[:high]]
        if counted:
            places, closed = list(range(high)), high
        else:
            places = [at for at, ranks in zip(times[:high], so_far, strict=True) if ranks]
            closed = times[high] if high < len(times) else -(10**9)
        for name, query in queries.items():
            last_end = 10**9

            def ranking(start, end, query=query, high=high, end_of=last_end):
                at = range(high) if times is None else times[:high]
                inside = [start <= place < end for place in at]
                rows = [
                    s if i else float("nan") for s, i in zip(scores[:high], inside, strict=True)
                ]
                order = {"ties": query.ties, "rank_by": query.rank_by}
                whole = all_time_windows(rows, list(at), end_of, query.k, **order)
                return whole[-1].rows if whole else ()

            wanted = updates(reported[name], open_windows(query, places, closed), ranking)
            shown = [window for window in part.of(name) if not window.final]
            assert [(w.start, w.end, w.rows) for w in answers(shown)] == wanted
            check_ranks(shown, query)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go(seed, emit, counted):
    """One that comes late is answered from its first window on that misses no row."""
    chance = random.Random(seed)
    queries = any_queries(chance, counted, emit)
    scores, times = some_rows(chance, counted)
    monitor = WorkloadMonitor(Workload({"first": next(iter(queries.values()))}), "independent")
    half = len(scores) // 2
    parts = [pushed(monitor, scores, times, 0, half)]
    first = {}
    for name, query in queries.items():
        if query.window.kind == "all_time":
            with pytest.raises(QueryError, match="comes after rows that are gone"):
                monitor.add(name, query)
            continue
        first[name], _ = monitor.add(name, query)
    monitor.remove("first")
    monitor = WorkloadMonitor.restore(monitor.snapshot())
    parts.append(pushed(monitor, scores, times, half, len(scores)))
    parts.append(monitor.finish())
    arrived = half if times is None else times[half]
    for name, start in first.items():
        query = queries[name]
        assert start >= arrived
        wanted = [each for each in expected(query, scores, times) if each.start >= start]
        windows = windows_of(parts, name)
        if emit == "all":
            same(answers(windows), wanted)
            continue
        until = None if times is None else max(times) + 10**6
        assert reports(windows) == changes(wanted, query.window.slide, until, query.rank_by), query


@pytest.mark.parametrize("algorithm", ["mtopband", "mtoplist", "mtopmerge"])
@pytest.mark.parametrize(
    "query",
    [
        TopK(2, last(time=9), ties="oldest"),
        TopK(2, last(time=9), rank_by="dense_rank"),
        TopK(2, cumulative(9, every=3)),
        TopK(2, all_time(every=3)),
    ],
)
def test_what_is_shared_has_one_order_and_slides(algorithm, query):
    usual = TopK(2, last(time=9))
    with pytest.raises(QueryError, match=f"algorithm is '{algorithm}' with a query for the top 2"):
        WorkloadMonitor(Workload({"a": usual, "b": query}), algorithm)
    monitor = WorkloadMonitor(Workload({"a": usual}), algorithm)
    with pytest.raises(QueryError, match="expected independent, auto"):
        monitor.add("b", query)


def test_many_usual_queries_still_share():
    queries = {f"q{k}": TopK(k, last(time=9)) for k in range(1, 9)}
    assert WorkloadMonitor(Workload(queries)).algorithm == "mtopmerge"


def test_several_scores_one_lacking_in_the_newest_rows():
    """Windows of all time end with the newest row that has the score."""
    queries = {"a": TopK(1, all_time(every=5)), "b": TopK(1, all_time(every=5), rank_by="rank")}
    monitor = WorkloadMonitor(Workload(queries, {"a": "x", "b": "y"}))
    scores = {"x": [1.0, 2.0, np.nan], "y": [7.0, np.nan, 7.0]}
    monitor.push(scores, times=[1, 6, 12], watermark=3)
    parts = [monitor.finish()]
    assert [window.end for window in windows_of(parts, "a")] == [5, 10]
    assert [window.end for window in windows_of(parts, "b")] == [5, 10, 15]
    assert windows_of(parts, "b")[-1].rank.tolist() == [1, 1]


@pytest.mark.parametrize("open_windows", ["all", "current"])
def test_what_is_shown_of_all_time_becomes_final(open_windows):
    """Where the newest row lacks a score, all time ends with the last row that has it."""
    query = TopK(2, all_time(every=10), "updates", open_windows=open_windows)
    monitor = WorkloadMonitor(Workload({"a": query, "b": query}, {"a": "a", "b": "b"}))
    scores = {"a": np.array([1.0, 2.0]), "b": np.array([5.0, np.nan])}
    shown = monitor.push(scores, times=np.array([5, 95]), watermark=0)
    final = monitor.finish()
    ends = [
        {(name, window.end) for name, window in pushed if window.final == done}
        for pushed, done in ((shown, False), (final, True))
    ]
    every = {("a", end) for end in range(10, 101, 10)} | {("b", 10)}
    assert ends[1] == every
    assert ends[0] == (every if open_windows == "all" else {("a", 100), ("b", 10)})
