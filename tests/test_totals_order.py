"""Totals with ties and ranks of all kinds: which of equal ones is first, and which share a rank."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import TopKTotals, Total, TotalsMonitor, all_time, cumulative, last
from skyband.engine.adapter import Adapter
from skyband.errors import QueryError, SnapshotError
from skyband.partitioned import Partitioned
from skyband.totals.query import BYS, ENDS
from tests.oracle import changes, numbered
from tests.oracle_totals import (
    all_time_totals,
    best_keys,
    count_totals,
    cumulative_totals,
    time_totals,
)
from tests.oracle_updates import open_sliding, updates
from tests.streams import answers, batches, reports, same
from tests.test_totals import SHAPES, counted, some_window

ORDERS = list(product(["newest", "oldest"], ["row_number", "rank", "dense_rank"]))
NEW_ORDERS = ORDERS[1:]
NAN = float("nan")


def tied_rows(chance, rows):
    """Few keys and few values, so that many totals are equal."""
    many, most = chance.choice([3, 10, 40]), chance.choice([1, 1, 2, 4])
    keys = [chance.randrange(many) + at // chance.choice([5, 50]) for at in range(rows)]
    values = [NAN if chance.random() < 0.04 else float(chance.randint(0, most)) for _ in keys]
    return keys, values


def check(windows, expected, rank_by):
    """Hold windows to the oracle, and their ranks to its ranks."""
    same(answers(windows), expected)
    for window in windows:
        rows = list(zip(window.score.tolist(), window.id.tolist(), strict=True))
        assert window.rank.tolist() == numbered(rows, rank_by)


def check_order_of_changes(windows, ties):
    """Changes stand as one ranking, with keys that left where they stood, and ties by age."""
    turn = 1 if ties == "oldest" else -1
    for window in windows:
        columns = -window.score, turn * window.time, turn * window.id
        order = list(zip(*(column.tolist() for column in columns), strict=True))
        assert order == sorted(order)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(("ties", "rank_by"), ORDERS)
@pytest.mark.parametrize("seed", range(8))
def test_count_windows(by, ties, rank_by, seed):
    chance = random.Random(seed)
    window = some_window(chance, False)
    emit = "changes" if seed % 2 else "all"
    order = {"ties": ties, "rank_by": rank_by}
    query = TopKTotals(chance.randint(1, 6), by, window, emit, **order)
    keys, values = tied_rows(chance, 150)
    cuts = [*(chance.randrange(200) for _ in range(5)), *range(0, 150, window.slide)]
    windows = counted(query, keys, values, chance.sample(cuts, len(cuts) // 2))
    shape = window.size, window.slide, by, query.k, window.full
    wanted = count_totals(keys, values, *shape, **order)
    if emit == "changes":
        assert reports(windows) == changes(wanted, window.slide, rank_by=rank_by)
    else:
        check(windows, wanted, rank_by)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("kind", ["sliding", "cumulative", "all_time"])
@pytest.mark.parametrize("seed", range(3))
def test_windows_of_time_in_any_order_and_after_snapshots(by, ties, rank_by, emit, kind, seed):
    chance = random.Random(seed)
    order = {"ties": ties, "rank_by": rank_by}
    keys, values = tied_rows(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 15]) for _ in keys])
    k, every = chance.randint(1, 5), chance.randint(1, 9)
    rows = keys, values, times.tolist()
    window = some_window(chance, True)
    if kind == "cumulative":
        window = cumulative(4 * every, every=every)
        wanted = cumulative_totals(*rows, 4 * every, every, by, k, **order)
    elif kind == "all_time":
        window = all_time(every=every)
        wanted = all_time_totals(*rows, every, by, k, **order)
    else:
        every = window.slide
        wanted = time_totals(*rows, window.size, every, by, k, window.offset, **order)
    query = TopKTotals(k, by, window, emit, **order)
    monitor, windows = TotalsMonitor(query), []
    arrival = np.array(chance.sample(range(120), 120))
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        some, rest = arrival[low:high], times[arrival[high:]]
        windows += monitor.push(
            np.array(keys)[some],
            np.array(values)[some],
            times=times[some],
            watermark=int(rest.min()) if len(rest) else None,
        )
        monitor = TotalsMonitor.restore(monitor.snapshot(), query)
    windows += monitor.finish()
    if emit == "changes":
        until = None if kind == "all_time" else 1 << 60
        assert reports(windows) == changes(wanted, every, until, rank_by)
        check_order_of_changes(windows, ties)
    else:
        check(windows, wanted, rank_by)


@pytest.mark.parametrize("by", ["sum", "max", "last"])
@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(-4, 9), st.integers(-1, 2).map(float)), max_size=90),
    shape=SHAPES,
    cuts=st.lists(st.integers(0, 100), max_size=6),
)
def test_any_rows_in_any_batches(by, ties, rank_by, rows, shape, cuts):
    n, s, k = shape
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    order = {"ties": ties, "rank_by": rank_by}
    windows = counted(TopKTotals(k, by, last(count=n, slide=s), **order), keys, values, cuts)
    check(windows, count_totals(keys, values, n, s, by, k, **order), rank_by)


def best_by_sorting(keys, values, size, slide, k, ties, rank_by):
    """Sums of whole numbers, fast enough for many rows: (total, key) of each window."""
    windows = []
    for end in range(slide, len(keys) + 1, slide):
        start = max(0, end - size)
        total = np.bincount(keys[start:end], values[start:end])
        newest = np.full(len(total), -1)
        newest[keys[start:end]] = np.arange(start, end)
        there = np.flatnonzero(newest >= 0)
        age = newest[there] if ties == "oldest" else -newest[there]
        best = there[np.lexsort((age, -total[there]))]
        rows = [(float(total[key]), int(key)) for key in best]
        ranks = numbered(rows, rank_by)
        windows.append([row for row, rank in zip(rows, ranks, strict=True) if rank <= k])
    return windows


@pytest.mark.compiled
@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
@pytest.mark.parametrize("most", [2, 9, 1000])
def test_many_keys_that_come_and_go(ties, rank_by, most):
    """Few totals or many of them: answers of any length, and thresholds that move."""
    chance = np.random.default_rng(most)
    rows, size, slide, k = 40_000, 9_000, 1_700, 25
    keys = np.arange(rows) // 20 + chance.integers(0, 3_000, rows)
    loud = np.sin(np.arange(rows) / 9_000) ** 2
    values = np.round(chance.integers(0, most, rows) * loud)
    query = TopKTotals(k, "sum", last(count=size, slide=slide), ties=ties, rank_by=rank_by)
    monitor, windows = TotalsMonitor(query), []
    for low, high in batches(rows, chance.integers(0, rows, 9).tolist()):
        windows += answers(monitor.push(keys[low:high], values[low:high]))
    expected = best_by_sorting(keys, values, size, slide, k, ties, rank_by)
    assert [list(answer.rows) for answer in windows] == expected
    assert monitor.counters()["rescans"] < len(expected) * 2


@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("by", ["sum", "min", "first"])
def test_updates(ties, rank_by, current, by):
    """The rankings so far of open windows, as the oracle ranks the rows that have come."""
    chance = random.Random(f"{ties} {rank_by} {by}")
    keys, values = tied_rows(chance, 80)
    times = [at + chance.randrange(6) for at in range(80)]
    order = {"ties": ties, "rank_by": rank_by}
    shown = "current" if current else "all"
    query = TopKTotals(3, by, last(time=20, slide=5), "updates", open_windows=shown, **order)
    monitor, final, so_far = TotalsMonitor(query, delay=8), [], []
    reported, expected, watermark, there = {}, [], -(1 << 62), []

    def ranking(start, end):
        return best_keys([row for row in there if start <= row[2] < end], by, 3, **order)

    for low in range(0, 80, 7):
        rows = list(zip(keys, values, times, strict=True))[low : low + 7]
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        pushed = monitor.push(columns[0], columns[1], times=columns[2])
        there += [row for row in rows if row[2] >= watermark]
        watermark = max(watermark, max(row[2] for row in rows) - 8)
        final += [window for window in pushed if window.final]
        so_far += [window for window in pushed if not window.final]
        places = [time for _, value, time in there if by in ENDS or value == value]
        now = open_sliding(places, 20, 5, 0, watermark, current)
        reported = {window: reported[window] for window in now if window in reported}
        expected += updates(reported, now, ranking)
        monitor = TotalsMonitor.restore(monitor.snapshot(), query)
    final += monitor.finish()
    columns = ([row[at] for row in there] for at in range(3))
    check(final, time_totals(*columns, 20, 5, by, 3, **order), rank_by)
    assert [(a.start, a.end, a.rows) for a in answers(so_far)] == expected
    for window in so_far:
        rows = list(zip(window.score.tolist(), window.id.tolist(), strict=True))
        assert window.rank.tolist() == numbered(rows, rank_by)


@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
def test_whole_numbers_that_a_float_would_round(ties, rank_by):
    """Sums beyond 2**53 that differ by one are different ones."""
    big = 1 << 60
    keys, values = [1, 2, 3, 4, 1, 2], [big, big, big + 2, 5, 1, 1]
    order = {"ties": ties, "rank_by": rank_by}
    also = {"rows": "count", "most": Total("max", "int64")}
    query = TopKTotals(2, "sum", last(count=6), numbers="int64", also=also, **order)
    (window,) = TotalsMonitor(query).push(keys, pa.array(values), also={"most": pa.array(values)})
    check([window], count_totals(keys, values, 6, 6, "sum", 2, **order), rank_by)
    rows = {1: 2.0, 2: 2.0, 3: 1.0, 4: 1.0}
    assert window.also["rows"].tolist() == [rows[key] for key in window.id.tolist()]
    assert window.also["most"].tolist() == [values[key - 1] for key in window.id.tolist()]


@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_partitions(ties, rank_by, emit):
    """A line of many keys ranks each as a monitor of its own would."""
    chance = random.Random(7)
    order = {"ties": ties, "rank_by": rank_by}
    query = TopKTotals(2, "sum", last(time=12, slide=4), emit, **order)
    rows = [tied_rows(chance, 40) for _ in range(5)]
    times = [sorted(chance.randrange(60) for _ in range(40)) for _ in range(5)]
    expected = []
    for group, ((keys, values), when) in enumerate(zip(rows, times, strict=True)):
        monitor = TotalsMonitor(query)
        alone = [*monitor.push(keys, values, times=when), *monitor.finish()]
        expected += [(group, str(window), window.rank.tolist()) for window in alone if len(window)]

    def columns_of(values, ids):
        return ids, values

    engine = Partitioned(
        query, monitor=lambda *given, **more: Adapter(TotalsMonitor, columns_of, *given, **more)
    )
    parts = engine.push(
        np.concatenate([values for _, values in rows]),
        keys=np.repeat(np.arange(5), 40),
        ids=np.concatenate([keys for keys, _ in rows]),
        times=np.concatenate(times),
    )
    windows = [
        (int(key), str(window), window.rank.tolist())
        for part in [*parts, *engine.finish()]
        for key, window in zip(part.key, part.ranked, strict=True)
        if len(window)
    ]
    assert windows == expected


def test_the_first_to_reach_a_total_stays_ahead():
    query = TopKTotals(3, "count", last(time=10), ties="oldest")
    monitor = TotalsMonitor(query)
    monitor.push([1, 2, 3, 4, 1], times=[5, 5, 2, 3, 0])
    (window,) = monitor.finish()
    assert window.id.tolist() == [1, 3, 4]
    monitor = TotalsMonitor(query)
    monitor.push([9, 5, 7], times=[4, 4, 4])
    (window,) = monitor.finish()
    assert window.id.tolist() == [5, 7, 9]
    for keys, wanted in (([9, 5, 7], [9, 5, 7]), ([7, 5, 9], [7, 5, 9])):
        monitor = TotalsMonitor(query, options={"ties": "arrival"})
        monitor.push(keys, times=[4, 4, 4])
        assert next(iter(monitor.finish())).id.tolist() == wanted


def test_queries_in_words_and_those_that_make_no_sense():
    shape = {"k": 3, "by": "sum", "window": last(count=5)}
    words = str(TopKTotals(**shape, ties="oldest", rank_by="rank"))
    assert words.endswith(", of equal totals the oldest first, ranked by rank")
    with pytest.raises(QueryError, match="ties is 'any'"):
        TopKTotals(**shape, ties="any")
    with pytest.raises(QueryError, match="rank_by is 'score'"):
        TopKTotals(**shape, rank_by="score")
    snapshot = TotalsMonitor(TopKTotals(**shape)).snapshot()
    for other, message in (({"ties": "oldest"}, "ties"), ({"rank_by": "rank"}, "rank_by")):
        with pytest.raises(SnapshotError, match=message):
            TotalsMonitor.restore(snapshot, TopKTotals(**shape, **other))
