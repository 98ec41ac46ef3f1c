"""Rankings so far of open windows: every family and algorithm against the oracle, and a replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import (
    DominatingMonitor,
    IncompleteMonitor,
    Monitor,
    QueryError,
    TopK,
    TopKDominating,
    TopKIncomplete,
    TopKTotals,
    Total,
    TotalsMonitor,
    Workload,
    WorkloadMonitor,
    all_time,
    cumulative,
    last,
)
from skyband.dominating import ALGORITHMS as DOMINATING
from skyband.dominating import EXACT as EXACT_DOMINATING
from skyband.incomplete import ALGORITHMS as INCOMPLETE
from skyband.incomplete import EXACT as EXACT_INCOMPLETE
from skyband.partitioned import Partitioned
from skyband.topk import ALGORITHMS
from skyband.topk.plain import Plain
from skyband.totals.query import BYS, ENDS
from skyband.windows import AllTimeWindow, CountWindow, CumulativeWindow
from skyband.workload import ALGORITHMS as STRUCTURES
from tests.oracle import best, dominating, ranks
from tests.oracle_incomplete import best_objects
from tests.oracle_totals import best_keys
from tests.oracle_updates import (
    open_all_time,
    open_counted,
    open_cumulative,
    open_sliding,
    updates,
)
from tests.streams import batches
from tests.test_totals import some_rows

SLIDING = [
    last(time=20, slide=5), last(time=21, slide=4, offset=1), last(time=7, offset=3),
    last(time=9, slide=1), last(time=12, slide=11),
]  # fmt: skip
COUNTED = [
    last(count=20, slide=5), last(count=21, slide=4), last(count=7), last(count=9, slide=1),
    last(count=12, slide=11), last(count=20, slide=6, full=True),
]  # fmt: skip
TOGETHER = [
    cumulative(20, every=5), cumulative(12, every=1, offset=5), cumulative(7, every=7, offset=-3),
    all_time(every=1), all_time(every=13),
]  # fmt: skip
ROWS = 90


@dataclass(frozen=True)
class Case:
    """A family's query but for its window, and what it makes of rows.

    ``columns``  makes the columns that are pushed
    ``rank``     ranks the rows at some numbers, given the place of each; None: no oracle
    ``ranked``   says which rows can be ranked
    """

    monitor: Callable[..., Any]
    query: Callable[..., Any]
    columns: tuple[Any, ...]
    rank: Callable[..., Any] | None
    ranked: list[bool]


def top_k_case(chance, algorithm, ties="newest", numbers="float64", rank_by="row_number"):
    k = chance.choice([1, 3, 5, 40])
    scores = [chance.choice([0.0, 1.0, 2.0, chance.random(), float("nan")]) for _ in range(ROWS)]
    if numbers == "int64":
        scores = [chance.choice([1 << 60, (1 << 60) + 1, -5]) for _ in range(ROWS)]

    def rank(rows, place):
        return best([(scores[row], place[row], row) for row in rows], k, ties, rank_by)

    def query(window, emit="updates", open_windows="all"):
        shown = {"open_windows": open_windows, "rank_by": rank_by}
        return TopK(k, window, emit, None, numbers, ties, **shown)

    columns = (np.array(scores, numbers),)
    ranked = [ranks(score) for score in scores]
    return Case(lambda q, **how: Monitor(q, algorithm, **how), query, columns, rank, ranked)


def totals_case(chance, by):
    k = chance.choice([1, 3, 40])
    keys, values = some_rows(chance, ROWS)
    values = [-0.0 if value == 0 else value for value in values]

    def rank(rows, place):
        return best_keys([(keys[row], values[row], place[row]) for row in rows], by, k)

    def query(window, emit="updates", open_windows="all"):
        return TopKTotals(k, by, window, emit, open_windows=open_windows)

    columns = (np.array(keys, np.int64), np.array(values))
    ranked = [by in ENDS or ranks(value) for value in values]
    return Case(TotalsMonitor, query, columns, rank, ranked)


def dominating_case(chance, algorithm, **order):
    k, levels = chance.choice([1, 3, 40]), chance.choice([3, 1000])
    points = [tuple(float(chance.randrange(levels)) for _ in range(3)) for _ in range(ROWS)]
    points = [None if chance.random() < 0.05 else point for point in points]

    def rank(rows, place):
        return dominating([(points[row], place[row], row) for row in rows], k, **order)

    def query(window, emit="updates", open_windows="all"):
        dimensions = [("a", "min"), ("b", "min"), ("c", "min")]
        return TopKDominating(k, dimensions, window, emit, open_windows=open_windows, **order)

    nothing = (float("nan"),) * 3
    columns = (np.array([nothing if point is None else point for point in points]),)
    return Case(
        lambda q, **how: DominatingMonitor(q, algorithm, **how),
        query,
        columns,
        rank if algorithm in (*EXACT_DOMINATING, "auto") else None,
        [point is not None for point in points],
    )


def incomplete_case(chance, algorithm, **order):
    k, combine = chance.choice([1, 3, 40]), chance.choice(["sum", "min", "max"])
    ids = [chance.randrange(row // 4, row // 4 + 8) for row in range(ROWS)]
    streams = [chance.randrange(3) for _ in range(ROWS)]
    values = [chance.choice([chance.randrange(9) / 8, float("nan")]) for _ in range(ROWS)]

    def rank(rows, place):
        seen = [(ids[row], streams[row], values[row], place[row]) for row in rows]
        return best_objects(seen, k, combine, [0.0] * 3, "max", **order)

    def query(window, emit="updates", open_windows="all"):
        names = ["a", "b", "c"]
        how = {"emit": emit, "open_windows": open_windows, **order}
        return TopKIncomplete(k, names, window, combine, **how)

    return Case(
        lambda q, **how: IncompleteMonitor(q, algorithm, **how),
        query,
        (np.array(ids), np.array(streams), np.array(values)),
        rank if algorithm in (*EXACT_INCOMPLETE, "auto") else None,
        [ranks(value) for value in values],
    )


CASES: dict[str, Callable[[random.Random], Case]] = {
    **{f"top-k {name}": lambda c, name=name: top_k_case(c, name) for name in (*ALGORITHMS, "auto")},
    "top-k oldest": lambda c: top_k_case(c, "recompute", ties="oldest"),
    "top-k oldest auto": lambda c: top_k_case(c, "auto", ties="oldest"),
    "top-k rank": lambda c: top_k_case(c, "auto", rank_by="rank"),
    "top-k dense_rank": lambda c: top_k_case(c, "recompute", ties="oldest", rank_by="dense_rank"),
    "top-k int64": lambda c: top_k_case(c, "auto", numbers="int64"),
    **{f"totals {by}": lambda c, by=by: totals_case(c, by) for by in BYS},
    **{f"dominating {name}": lambda c, n=name: dominating_case(c, n) for name in DOMINATING},
    "dominating oldest": lambda c: dominating_case(c, "auto", ties="oldest"),
    "dominating rank": lambda c: dominating_case(c, "auto", ties="oldest", rank_by="rank"),
    "dominating dense_rank": lambda c: dominating_case(c, "auto", rank_by="dense_rank"),
    **{f"incomplete {name}": lambda c, n=name: incomplete_case(c, n) for name in INCOMPLETE},
    "incomplete oldest": lambda c: incomplete_case(c, "auto", ties="oldest"),
    "incomplete rank": lambda c: incomplete_case(c, "auto", ties="oldest", rank_by="rank"),
    "incomplete dense_rank": lambda c: incomplete_case(c, "auto", rank_by="dense_rank"),
}
ESTIMATES = [  # of windows that slide
    *(f"dominating {name}" for name in DOMINATING if name not in EXACT_DOMINATING),
    *(f"incomplete {name}" for name in INCOMPLETE if name not in EXACT_INCOMPLETE),
]


def open_windows(window, places, closed, current):
    """The windows that the oracle calls open; ``closed`` is the number of rows if they count."""
    if isinstance(window, CountWindow):
        return open_counted(closed, window.size, window.slide, window.full, current)
    if isinstance(window, CumulativeWindow):
        return open_cumulative(places, window.size, window.slide, window.offset, closed, current)
    if isinstance(window, AllTimeWindow):
        return open_all_time(places, window.slide, closed, current)
    return open_sliding(places, window.size, window.slide, window.offset, closed, current)


def rows_of(windows):
    """Windows in the form of the oracle."""
    return [
        (w.start, w.end, tuple(zip(w.score.tolist(), w.id.tolist(), strict=True))) for w in windows
    ]


def final_rows(ranked):
    """The final windows of a push: an Arrow table as ``emit="all"`` gives it."""
    windows = ranked.only(np.ones(len(ranked), bool) if ranked.final is None else ranked.final)
    table = windows.to_arrow()
    return table.select([n for n in table.schema.names if n not in ("revision", "final")])


class Replay:
    """What a reader knows who keeps, of each window, the rows of the largest revision."""

    def __init__(self):
        self.windows: dict[Any, Any] = {}

    def apply(self, key, window):
        known = self.windows.get(key)
        if known is None or window.revision > known.revision:
            self.windows[key] = window

    def rankings(self):
        assert all(window.final for window in self.windows.values())
        return {key: rows_of([window])[0] for key, window in self.windows.items() if len(window)}


def some_times(chance):
    """Times that rise, some of them much too late, with gaps."""
    times, now = [], chance.randint(-20, 20)
    for _ in range(ROWS):
        now += chance.choice([0, 0, 1, 1, 2, 40 if chance.random() < 0.1 else 0])
        times.append(now - chance.choice([0, 0, 0, 1, 3, 30]))
    return times


def accepted(times, low, high, delay, at, newest):
    """Which rows of a push are in time, and the newest time after it."""
    in_time = []
    for row in range(low, high):
        limit = at if delay is None or newest is None else max(at, newest - delay)
        newest = times[row] if newest is None else max(newest, times[row])
        if times[row] >= limit:
            in_time.append(row)
    return in_time, newest


def check(case, window, chance, current=False, restored=False):
    """Push a stream in pieces, and compare every push with the oracle and with ``emit="all"``."""
    counted = isinstance(window, CountWindow)
    delay = None if counted else chance.choice([None, 0, 5, 30])
    how = {} if counted else {"delay": delay}
    query = case.query(window, open_windows="current" if current else "all")
    monitor, whole = case.monitor(query, **how), case.monitor(case.query(window, "all"), **how)
    times = list(range(ROWS)) if counted else some_times(chance)
    in_time: list[int] = []
    reported: dict[Any, Any] = {}
    at, newest, replay = -(1 << 62), None, Replay()
    expected: dict[Any, Any] = {}
    cuts = [chance.randrange(ROWS) for _ in range(chance.choice([3, 12, 60]))]

    def ranking(start, end):
        return case.rank([row for row in in_time if start <= times[row] < end], times)

    for revision, (low, high) in enumerate(batches(ROWS, cuts), start=1):
        pushed: dict[str, Any] = {} if counted else {"times": np.array(times[low:high], np.int64)}
        rows, newest = accepted(times, low, high, delay, at, newest)
        in_time += [row for row in rows if case.ranked[row]]
        if not counted and delay is None:
            if chance.random() < 0.6:
                pushed["watermark"] = max(times[:high], default=0) - chance.randint(0, 8)
                at = max(at, pushed["watermark"])
        elif newest is not None:
            at = max(at, newest - (delay or 0))
        columns = [column[low:high] for column in case.columns]
        ranked, final = monitor.push(*columns, **pushed), whole.push(*columns, **pushed)
        assert final_rows(ranked).equals(final_rows(final))
        assert ranked.final.tolist() == sorted(ranked.final.tolist(), reverse=True)
        assert ranked.revision.tolist() == [revision] * len(ranked)
        so_far = [w for w in ranked if not w.final]
        if case.rank is not None:
            places = [times[row] for row in in_time]
            windows = open_windows(window, places, high if counted else at, current)
            assert rows_of(so_far) == updates(reported, windows, ranking)
        for w in ranked:
            replay.apply((w.start, w.end), w)
        expected |= {(w.start, w.end): rows_of([w])[0] for w in final if len(w)}
        if restored and chance.random() < 0.3:
            monitor = type(monitor).restore(monitor.snapshot(), query)
    assert monitor.dropped == whole.dropped
    ranked, final = monitor.finish(), whole.finish()
    assert ranked.final.all()
    assert final_rows(ranked).equals(final_rows(final))
    for w in ranked:
        replay.apply((w.start, w.end), w)
    if not counted:
        expected |= {(w.start, w.end): rows_of([w])[0] for w in final if len(w)}
        assert replay.rankings() == expected


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("current", [False, True], ids=["all", "current"])
def test_time_windows(name, current):
    chance = random.Random(f"{name} {current}")
    for window in SLIDING:
        check(CASES[name](chance), window, chance, current)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("current", [False, True], ids=["all", "current"])
def test_count_windows(name, current):
    chance = random.Random(f"{name} {current}")
    for window in COUNTED:
        check(CASES[name](chance), window, chance, current)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ESTIMATES])
@pytest.mark.parametrize("current", [False, True], ids=["all", "current"])
def test_windows_whose_rows_leave_together(name, current):
    chance = random.Random(f"{name} {current}")
    for window in TOGETHER:
        check(CASES[name](chance), window, chance, current)


@pytest.mark.parametrize("name", CASES)
def test_snapshots_go_on_bit_for_bit(name):
    chance = random.Random(name)
    for window in (SLIDING[1], COUNTED[1]):
        check(CASES[name](chance), window, chance, restored=True)


def some_workload(chance, counted):
    """Queries of one kind with any windows; some report their current window only."""
    queries = {}
    for number in range(chance.choice([2, 6])):
        window = chance.choice(COUNTED if counted else SLIDING)
        k, which = chance.choice([1, 3, 8]), chance.choice(["all", "all", "current"])
        queries[f"q{number}"] = TopK(k, window, "updates", open_windows=which)
    return queries


def check_workload(chance, algorithm, counted, restored=False):
    """As :func:`check`, for every query of a workload."""
    queries = some_workload(chance, counted)
    delay = None if counted else chance.choice([0, 5, 30])
    whole = {name: replace(q, emit="all", open_windows="all") for name, q in queries.items()}
    monitor = WorkloadMonitor(Workload(queries), algorithm, delay=delay)
    other = WorkloadMonitor(Workload(whole), algorithm, delay=delay)
    scores = [chance.choice([0.0, 1.0, chance.random(), float("nan")]) for _ in range(ROWS)]
    times = list(range(ROWS)) if counted else some_times(chance)
    reported: dict[str, dict[Any, Any]] = {name: {} for name in queries}
    replay, at, newest = Replay(), -(1 << 62), None
    in_time: list[int] = []
    expected: dict[Any, Any] = {}

    def ranking(k):
        def of_window(start, end):
            rows = [row for row in in_time if start <= times[row] < end]
            return best([(scores[row], times[row], row) for row in rows], k)

        return of_window

    cuts = [chance.randrange(ROWS) for _ in range(20)]
    for revision, (low, high) in enumerate(batches(ROWS, cuts), start=1):
        pushed = {} if counted else {"times": np.array(times[low:high], np.int64)}
        rows, newest = accepted(times, low, high, delay, at, newest)
        in_time += [row for row in rows if ranks(scores[row])]
        if newest is not None and delay is not None:
            at = max(at, newest - delay)
        batch = np.array(scores[low:high])
        answered, final = monitor.push(batch, **pushed), other.push(batch, **pushed)
        assert answered.ranked.revision.tolist() == [revision] * len(answered)
        only_final = answered.only(answered.ranked.final)
        assert only_final.query.tolist() == final.query.tolist()
        assert final_rows(only_final.ranked).equals(final_rows(final.ranked))
        so_far = answered.only(~answered.ranked.final)
        assert sorted(so_far.ranked.window_end.tolist()) == so_far.ranked.window_end.tolist()
        places = [times[row] for row in in_time]
        for name, query in queries.items():
            current = query.open_windows == "current"
            windows = open_windows(query.window, places, high if counted else at, current)
            changed = updates(reported[name], windows, ranking(query.k))
            assert rows_of(so_far.of(name)) == changed
        for name, window in answered:
            replay.apply((name, window.start, window.end), window)
        for name, window in final:
            if len(window):
                expected[name, window.start, window.end] = rows_of([window])[0]
        if restored and chance.random() < 0.3:
            monitor = WorkloadMonitor.restore(monitor.snapshot())
    answered, final = monitor.finish(), other.finish()
    assert answered.ranked.final.all()
    assert final_rows(answered.ranked).equals(final_rows(final.ranked))
    for name, window in answered:
        replay.apply((name, window.start, window.end), window)
    for name, window in final:
        if len(window):
            expected[name, window.start, window.end] = rows_of([window])[0]
    if not counted:
        assert replay.rankings() == expected


@pytest.mark.parametrize("algorithm", STRUCTURES)
@pytest.mark.parametrize("counted", [True, False], ids=["count", "time"])
@pytest.mark.parametrize("seed", range(4))
def test_workloads(algorithm, counted, seed):
    check_workload(random.Random(seed), algorithm, counted, restored=seed % 2 == 1)


@pytest.mark.parametrize("algorithm", STRUCTURES)
def test_queries_of_a_workload_come_and_go(algorithm):
    query = TopK(2, last(count=4, slide=2), "updates")
    monitor = WorkloadMonitor(Workload({"one": query, "two": query}), algorithm)
    assert [name for name, _ in monitor.push(np.array([3.0]))] == ["one", "two"] * 2
    monitor.remove("two")
    monitor.add("three", replace(query, k=1))
    answered = monitor.push(np.array([1.0, 2.0]))
    assert [(name, w.start, w.end, w.final) for name, w in answered] == [
        ("one", 0, 2, True),
        ("one", 0, 4, False),
        ("one", 2, 6, False),
        ("three", 2, 6, False),
    ]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 30),
    name=st.sampled_from(["top-k auto", "top-k sap", "totals sum", "totals max"]),
    window=st.one_of(
        st.sampled_from([*SLIDING, *TOGETHER]),
        st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(-9, 9)).map(
            lambda t: last(time=max(t[:2]), slide=min(t[:2]), offset=t[2])
        ),
    ),
    current=st.booleans(),
)
def test_a_reader_of_updates_ends_with_the_final_rankings(seed, name, window, current):
    """Whoever keeps the rows of the largest revision of each window has what ``all`` reports."""
    chance = random.Random(seed)
    check(CASES[name](chance), window, chance, current, restored=chance.random() < 0.3)


def test_reports_in_any_order_leave_the_rows_of_the_largest_revision():
    rng, query = np.random.default_rng(4), TopK(3, last(time=10, slide=3), "updates")
    monitor, final = Monitor(query), Monitor(replace(query, emit="all"))
    scores, times = rng.random(200), np.arange(200)
    reports, wanted = [], Replay()
    for low in range(0, 200, 7):
        part = slice(low, low + 7)
        reports += monitor.push(scores[part], times=times[part], watermark=low - 5)
    reports += monitor.finish()
    for window in final.push(scores, times=times, watermark=1 << 40):
        wanted.apply((window.start, window.end), window)
    for seed in range(5):
        replay = Replay()
        for window in random.Random(seed).sample(reports, len(reports)):
            replay.apply((window.start, window.end), window)
        assert replay.rankings() == wanted.rankings()


def test_upserts_by_rank_are_enough_where_rankings_do_not_shrink():
    """Of top-k a ranking so far only grows, so each row replaces the one at its rank."""
    query = TopK(3, last(time=10, slide=3), "updates")
    monitor, whole = Monitor(query, delay=4), Monitor(replace(query, emit="all"), delay=4)
    rng = np.random.default_rng(8)
    table, expected = {}, {}
    for now in range(0, 120, 2):
        batch = {"scores": rng.random(3), "times": now + rng.integers(-6, 3, 3)}
        for target, ranked in ((table, monitor.push(**batch)), (expected, whole.push(**batch))):
            for row in ranked.to_arrow().to_pylist():
                target[row["window_end"], row["rank"]] = (row["score"], row["id"])
    for target, ranked in ((table, monitor.finish()), (expected, whole.finish())):
        for row in ranked.to_arrow().to_pylist():
            target[row["window_end"], row["rank"]] = (row["score"], row["id"])
    assert table == expected


def test_a_total_that_is_lost_shrinks_the_ranking():
    query = TopKTotals(3, "sum", last(time=10), "updates")
    monitor = TotalsMonitor(query)
    rows = (np.array([1, 2]), np.array([np.inf, 5.0]))
    (window,) = monitor.push(*rows, times=np.array([0, 1]))
    assert window.id.tolist() == [1, 2]
    (window,) = monitor.push(np.array([1]), np.array([-np.inf]), times=np.array([2]))
    assert (window.id.tolist(), window.final, window.revision) == ([2], False, 2)
    (window,) = monitor.push(np.array([2, 2]), np.array([np.inf, -np.inf]), times=np.array([3, 3]))
    assert (len(window), window.final, window.revision) == (0, False, 3)
    assert len(monitor.push(np.array([1]), np.array([1.0]), times=np.array([4]))) == 0
    (window,) = monitor.finish()
    assert (len(window), window.final) == (0, True)


def test_a_push_that_changes_no_ranking_reports_nothing():
    monitor = Monitor(TopK(1, last(time=10, slide=5), "updates"))
    assert len(monitor.push(np.array([9.0]), times=np.array([6]))) == 2
    for scores, times in (([1.0], [7]), ([np.nan], [8]), ([], [])):
        assert len(monitor.push(np.array(scores), times=np.array(times, np.int64))) == 0
    ranked = monitor.push(np.array([2.0]), times=np.array([12]))
    assert [str(window) for window in ranked] == ["[10, 20) so far 1. 2 (id 3)"]


def test_columns_of_updates():
    ranked = Monitor(TopK(2, last(count=2), "updates")).push(np.array([3.0, 9.0, 4.0]))
    assert [str(window) for window in ranked] == [
        "[0, 2) 1. 9 (id 1), 2. 3 (id 0)",
        "[2, 4) so far 1. 4 (id 2)",
    ]
    table = ranked.to_arrow()
    assert table.schema.names[-2:] == ["revision", "final"]
    assert table["final"].to_pylist() == [True, True, False]
    assert table["revision"].to_pylist() == [1, 1, 1]
    names = Monitor(TopK(2, last(count=2))).push(np.array([3.0, 9.0])).to_arrow().schema.names
    assert "final" not in names
    assert "revision" not in names
    nothing = Monitor(TopK(2, last(count=2), "updates")).push()
    assert nothing.to_arrow().schema == table.schema


@pytest.mark.parametrize("window", [*SLIDING, *COUNTED], ids=str)
def test_rows_of_a_push_are_ranked_in_parts(monkeypatch, window):
    """However few rows, counted once for each of their windows, are ranked at once."""
    monkeypatch.setattr("skyband.engine.open_rankings._PAIRS", 7)
    chance = random.Random(str(window))
    for _ in range(4):
        check(top_k_case(chance, "auto"), window, chance, restored=True)


@pytest.mark.parametrize("name", ["top-k auto", "top-k sap", "top-k mintopk"])
def test_rankings_so_far_are_those_of_a_copy_that_runs_ahead(name):
    """Where the k best rows of open windows are kept, they are what the algorithm would answer."""
    chance = random.Random(name)
    for window in (*SLIDING, *COUNTED):
        case = CASES[name](chance)
        monitor = case.monitor(case.query(window))
        shown: dict[Any, Any] = {}
        times = some_times(chance)
        for low, high in batches(ROWS, [chance.randrange(ROWS) for _ in range(8)]):
            timed = {} if isinstance(window, CountWindow) else {"times": times[low:high]}
            for w in monitor.push(*(column[low:high] for column in case.columns), **timed):
                shown[w.start, w.end] = rows_of([w])[0]
            for w in monitor.run_ahead(max(times[:high], default=-(1 << 62)), False):
                assert shown.get((w.start, w.end), (w.start, w.end, ())) == rows_of([w])[0]


@pytest.mark.parametrize("ties", ["newest", "oldest"])
def test_rankings_so_far_compile_nothing_and_change_nothing(monkeypatch, ties):
    monkeypatch.setattr("skyband.topk.monitor.is_loaded", lambda name: False)
    query = TopK(3, last(count=40, slide=10), "updates", ties=ties)
    monitor, twin = Monitor(query), Monitor(replace(query, emit="all"))
    for score in np.random.default_rng(1).random(100):
        monitor.push(np.array([score]))
        twin.push(np.array([score]))
        assert isinstance(monitor._algorithm, Plain)
    one, other = monitor._algorithm.saved(), twin._algorithm.saved()
    assert {name: array.tolist() for name, array in one[1].items()} == {
        name: array.tolist() for name, array in other[1].items()
    }
    # running ahead with NumPy counts towards compiling
    assert one[0]["spent"] > other[0]["spent"] or ties == "newest"


def test_totals_carried_beside_are_those_of_the_rows_so_far():
    """Reported when they change, too; the final ones are those of whole rankings."""
    chance = random.Random(9)
    keys = [chance.randrange(4) for _ in range(ROWS)]
    values = [float(chance.randrange(3)) for _ in range(ROWS)]
    spent = [chance.choice([None, 0.25, 3.0]) for _ in range(ROWS)]
    times = sorted(chance.randrange(60) for _ in range(ROWS))
    also = {"orders": "count", "spent": Total("sum")}
    window = last(time=20, slide=10)
    how = {emit: TopKTotals(3, "max", window, emit, also=also) for emit in ("updates", "all")}
    monitors = {emit: TotalsMonitor(query, delay=3) for emit, query in how.items()}
    shown: dict[Any, Any] = {}
    for low in range(0, ROWS, 10):
        part = slice(low, low + 10)
        column = np.array([np.nan if value is None else value for value in spent[part]])
        pushed = {"times": times[part], "also": {"spent": column}}
        reports = {
            emit: monitor.push(keys[part], values[part], **pushed)
            for emit, monitor in monitors.items()
        }
        assert final_rows(reports["updates"]).equals(final_rows(reports["all"]))
        for w in reports["updates"]:
            rows = list(zip(w.id.tolist(), *(w.also[name].tolist() for name in also), strict=True))
            assert w.final or shown.get(w.end) != rows or w.revision == 1
            shown[w.end] = rows
            seen = [
                row for row in range(low + 10) if w.start <= times[row] < w.end
            ]  # none is late: times rise
            for key, orders, total in rows:
                mine = [row for row in seen if keys[row] == key]
                known = [spent[row] for row in mine if spent[row] is not None]
                assert orders == len(mine)
                assert total == sum(known) if known else np.isnan(total)


def test_what_is_refused():
    window = last(count=10, slide=2)
    with pytest.raises(QueryError, match="'all', 'changes' or 'updates'"):
        TopK(3, window, "update")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="'all' or 'current'"):
        TopK(3, window, "updates", open_windows="newest")  # type: ignore[arg-type]
    for emit in ("all", "changes"):
        with pytest.raises(QueryError, match="only it reports windows that are open"):
            TopKTotals(3, "sum", window, emit, open_windows="current")
    with pytest.raises(QueryError, match="key by key"):
        Partitioned(TopK(3, window, "updates"))


def test_queries_say_what_they_report():
    window = last(count=10, slide=2)
    assert str(TopK(3, window, "updates")).endswith(", updates as rows come")
    assert str(TopK(3, window, "updates", open_windows="current")).endswith(
        ", updates as rows come to the current window"
    )
