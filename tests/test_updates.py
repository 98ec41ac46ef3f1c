"""Rankings so far of open windows: every family and algorithm against the oracle, and a replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from skyband import (
    DominatingMonitor,
    IncompleteMonitor,
    Monitor,
    TopK,
    TopKDominating,
    TopKIncomplete,
    TopKTotals,
    TotalsMonitor,
    all_time,
    cumulative,
    last,
)
from skyband.dominating import ALGORITHMS as DOMINATING
from skyband.dominating import EXACT as EXACT_DOMINATING
from skyband.incomplete import ALGORITHMS as INCOMPLETE
from skyband.incomplete import EXACT as EXACT_INCOMPLETE
from skyband.topk import ALGORITHMS
from skyband.totals.query import BYS
from skyband.windows import AllTimeWindow, CountWindow, CumulativeWindow
from tests.oracle import best, dominating, oldest_first, ranks
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


def top_k_case(chance, algorithm, ties="newest", numbers="float64"):
    k = chance.choice([1, 3, 5, 40])
    scores = [chance.choice([0.0, 1.0, 2.0, chance.random(), float("nan")]) for _ in range(ROWS)]
    if numbers == "int64":
        scores = [chance.choice([1 << 60, (1 << 60) + 1, -5]) for _ in range(ROWS)]

    def rank(rows, place):
        objects = [(scores[row], place[row], row) for row in rows]
        if ties == "oldest":
            return tuple((s, row) for s, _, row in sorted(objects, key=oldest_first)[:k])
        return best(objects, k)

    def query(window, emit="updates", open_windows="all"):
        return TopK(k, window, emit, None, numbers, ties, open_windows=open_windows)

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
    ranked = [ranks(value) for value in values]
    return Case(TotalsMonitor, query, columns, rank, ranked)


def dominating_case(chance, algorithm):
    k, levels = chance.choice([1, 3, 40]), chance.choice([3, 1000])
    points = [tuple(float(chance.randrange(levels)) for _ in range(3)) for _ in range(ROWS)]
    points = [None if chance.random() < 0.05 else point for point in points]

    def rank(rows, place):
        return dominating([(points[row], place[row], row) for row in rows], k)

    def query(window, emit="updates", open_windows="all"):
        dimensions = [("a", "min"), ("b", "min"), ("c", "min")]
        return TopKDominating(k, dimensions, window, emit, open_windows=open_windows)

    nothing = (float("nan"),) * 3
    columns = (np.array([nothing if point is None else point for point in points]),)
    return Case(
        lambda q, **how: DominatingMonitor(q, algorithm, **how),
        query,
        columns,
        rank if algorithm in EXACT_DOMINATING else None,
        [point is not None for point in points],
    )


def incomplete_case(chance, algorithm):
    k, combine = chance.choice([1, 3, 40]), chance.choice(["sum", "min", "max"])
    ids = [chance.randrange(row // 4, row // 4 + 8) for row in range(ROWS)]
    streams = [chance.randrange(3) for _ in range(ROWS)]
    values = [chance.choice([chance.randrange(9) / 8, float("nan")]) for _ in range(ROWS)]

    def rank(rows, place):
        seen = [(ids[row], streams[row], values[row], place[row]) for row in rows]
        return best_objects(seen, k, combine, [0.0] * 3, "max")

    def query(window, emit="updates", open_windows="all"):
        names = ["a", "b", "c"]
        return TopKIncomplete(k, names, window, combine, emit=emit, open_windows=open_windows)

    return Case(
        lambda q, **how: IncompleteMonitor(q, algorithm, **how),
        query,
        (np.array(ids), np.array(streams), np.array(values)),
        rank if algorithm in EXACT_INCOMPLETE else None,
        [ranks(value) for value in values],
    )


CASES: dict[str, Callable[[random.Random], Case]] = {
    **{f"top-k {name}": lambda c, name=name: top_k_case(c, name) for name in (*ALGORITHMS, "auto")},
    "top-k oldest": lambda c: top_k_case(c, "recompute", ties="oldest"),
    "top-k oldest auto": lambda c: top_k_case(c, "auto", ties="oldest"),
    "top-k int64": lambda c: top_k_case(c, "auto", numbers="int64"),
    **{f"totals {by}": lambda c, by=by: totals_case(c, by) for by in BYS},
    **{f"dominating {name}": lambda c, n=name: dominating_case(c, n) for name in DOMINATING},
    **{f"incomplete {name}": lambda c, n=name: incomplete_case(c, n) for name in INCOMPLETE},
}
SLIDING_ONLY = ("dominating", "incomplete")


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
    return table.drop_columns(
        [name for name in ("revision", "final") if name in table.schema.names]
    )


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
    at, newest, replay, revision = -(1 << 62), None, Replay(), 0
    expected: dict[Any, Any] = {}
    cuts = [chance.randrange(ROWS) for _ in range(chance.choice([3, 12, 60]))]
    for low, high in batches(ROWS, cuts):
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
        revision += 1
        assert ranked.revision.tolist() == [revision] * len(ranked)
        so_far = [w for w in ranked if not w.final]
        if case.rank is not None:
            places = [times[row] for row in in_time]
            windows = open_windows(window, places, high if counted else at, current)

            def ranking(start, end):
                return case.rank([row for row in in_time if start <= times[row] < end], times)

            assert rows_of(so_far) == updates(reported, windows, ranking)
        for w in ranked:
            replay.apply((w.start, w.end), w)
        expected |= {(w.start, w.end): rows_of([w])[0] for w in final if len(w)}
        if restored and chance.random() < 0.3:
            data = monitor.snapshot()
            monitor = type(monitor).restore(data, query)
            assert monitor.snapshot() == data
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


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(SLIDING_ONLY)])
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
