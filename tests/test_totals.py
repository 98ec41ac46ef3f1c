"""Totals against the oracle: every kind, keys that come and go, sums that cancel."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import Monitor, TopK, all_time, last
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.totals.monitor import TotalsMonitor
from skyband.totals.query import BYS, ENDS, TopKTotals
from tests.oracle import changes
from tests.oracle_totals import count_totals, end_value, time_totals
from tests.streams import answers, batches, reports, same

KINDS = ("whole", "fine", "cancelling", "wild", "equal")
NAN = float("nan")


def some_value(chance, kind):
    if chance.random() < 0.05:
        return NAN
    if kind == "whole":
        return float(chance.randint(-5, 5))
    if kind == "fine":
        return chance.uniform(-1, 1)
    if kind == "cancelling":
        return chance.choice([1e16, -1e16, 1.0, -1.0, 0.1, 1e-30])
    if kind == "wild":
        special = [0.0, -0.0, np.inf, -np.inf, 5e-324, 1.7e308, -1.7e308]
        return chance.choice([*special, chance.uniform(-1, 1) * 10.0 ** chance.randint(-320, 308)])
    return 1.0


def some_rows(chance, rows):
    """Keys that come and go, some of them often, and values of one kind."""
    kind = chance.choice(KINDS)
    drift = chance.choice([0, 0.1, 1])
    spread = chance.choice([1, 4, 30])
    keys = [
        (int(drift * at) + int(chance.expovariate(1) * spread)) * chance.choice([1, 1, -1])
        for at in range(rows)
    ]
    return keys, [some_value(chance, kind) for _ in range(rows)]


def some_window(chance, timed):
    size = chance.randint(1, 30)
    slide = chance.randint(1, size)
    if timed:
        return last(time=size, slide=slide, offset=chance.randint(-4, 4))
    return last(count=size, slide=slide, full=chance.random() < 0.2)


def counted(query, keys, values, cuts):
    """All windows of a count window, checking the invariants whenever one was answered."""
    monitor = TotalsMonitor(query)
    window, by = query.window, query.by
    windows = []
    for low, high in batches(len(keys), cuts):
        windows += monitor.push(np.array(keys[low:high], np.int64), np.array(values[low:high]))
        if high and high % window.slide == 0 and (high >= window.size or not window.full):
            start = max(0, high - window.size)
            there = [by in ENDS or values[at] == values[at] for at in range(high)]
            alive = {at: values[at] for at in range(start, high) if there[at]}
            monitor.algorithm.check_invariants(alive, dict(enumerate(keys)))
    left_out = 0 if by in ENDS else sum(value != value for value in values)
    assert monitor.dropped.nan_score == left_out
    return windows


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(25))
def test_count_windows(by, emit, seed):
    chance = random.Random(seed)
    window = some_window(chance, False)
    query = TopKTotals(chance.randint(1, 6), by, window, emit)
    keys, values = some_rows(chance, 150)
    cuts = [*(chance.randrange(200) for _ in range(5)), *range(0, 150, window.slide)]
    windows = counted(query, keys, values, chance.sample(cuts, len(cuts) // 2))
    wanted = count_totals(keys, values, window.size, window.slide, by, query.k, window.full)
    if emit == "changes":
        assert reports(windows) == changes(wanted, window.slide)
    else:
        same(answers(windows), wanted)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(25))
def test_time_windows_with_gaps_in_any_order(by, emit, seed):
    chance = random.Random(seed)
    window = some_window(chance, True)
    query = TopKTotals(chance.randint(1, 6), by, window, emit)
    keys, values = some_rows(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in keys])
    order = np.array(chance.sample(range(120), 120))
    monitor = TotalsMonitor(query)
    windows = []
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        rows, rest = order[low:high], times[order[high:]]
        windows += monitor.push(
            np.array(keys)[rows],
            np.array(values)[rows],
            times=times[rows],
            watermark=int(rest.min()) if len(rest) else None,
        )
    windows += monitor.finish()
    wanted = time_totals(
        keys, values, times.tolist(), window.size, window.slide, by, query.k, window.offset
    )
    if emit == "changes":
        assert reports(windows) == changes(wanted, window.slide, until=1 << 60)
    else:
        same(answers(windows), wanted)


VALUES = st.one_of(
    st.integers(-3, 3).map(float), st.floats(), st.sampled_from([1e300, -1e300, 1e-300])
)
SHAPES = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 8)).map(
    lambda t: (max(t[0], t[1]), min(t[0], t[1]), t[2])
)


@pytest.mark.parametrize("by", BYS)
@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(-4, 9), VALUES), max_size=90),
    shape=SHAPES,
    cuts=st.lists(st.integers(0, 100), max_size=6),
)
def test_any_rows_in_any_batches(by, rows, shape, cuts):
    n, s, k = shape
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    query = TopKTotals(k, by, last(count=n, slide=s))
    windows = counted(query, keys, values, cuts)
    same(answers(windows), count_totals(keys, values, n, s, by, k))


def admitted(rows, delay):
    """The rows that are not older than the watermark that they meet."""
    newest, there = -(1 << 62), []
    for row in rows:
        if row[2] >= newest - delay:
            there.append(row)
        newest = max(newest, row[2])
    return there


@pytest.mark.parametrize("by", ENDS)
@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), VALUES, st.integers(-9, 25)), max_size=60),
    shape=SHAPES,
    delay=st.integers(0, 12),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_any_ends_out_of_order_late_and_of_equal_times(by, rows, shape, delay, cuts):
    size, slide, k = shape
    monitor = TotalsMonitor(TopKTotals(k, by, last(time=size, slide=slide)), delay=delay)
    windows = []
    for low, high in batches(len(rows), cuts):
        keys, values, times = ([row[at] for row in rows[low:high]] for at in range(3))
        windows += monitor.push(
            np.array(keys, np.int64), np.array(values, float), times=np.array(times, np.int64)
        )
    windows += monitor.finish()
    there = admitted(rows, delay)
    columns = ([row[at] for row in there] for at in range(3))
    same(answers(windows), time_totals(*columns, size, slide, by, k))
    assert monitor.dropped.total == monitor.dropped.late == len(rows) - len(there)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_snapshots_go_on_where_they_were_taken(by, timed, seed):
    chance = random.Random(seed)
    query = TopKTotals(3, by, some_window(chance, timed), "changes" if seed % 2 else "all")
    keys, values = some_rows(chance, 200)
    times = np.sort([chance.randrange(150) for _ in keys]) if timed else None

    def push(monitor, low, high):
        when = None if times is None else times[low:high]
        return monitor.push(
            np.array(keys[low:high]),
            np.array(values[low:high]),
            times=when,
            watermark=int(when[-1]) if timed and high > low else None,
        )

    cut = chance.randrange(200)
    whole = TotalsMonitor(query)
    expected = [*push(whole, 0, cut), *push(whole, cut, 200), *whole.finish()]
    first = TotalsMonitor(query)
    windows = [*push(first, 0, cut)]
    second = TotalsMonitor.restore(first.snapshot(), query)
    windows += [*push(second, cut, 200), *second.finish()]
    assert [str(window) for window in windows] == [str(window) for window in expected]
    assert second.dropped == whole.dropped
    assert second.counters() == whole.counters()


def by_adding(keys, values, size, slide, k):
    """Sums of whole numbers, fast enough for many rows: (total, key) of each window."""
    windows = []
    for end in range(slide, len(keys) + 1, slide):
        start = max(0, end - size)
        total = np.bincount(keys[start:end], values[start:end])
        newest = np.full(len(total), -1)
        newest[keys[start:end]] = np.arange(start, end)
        there = np.flatnonzero(newest >= 0)
        order = there[np.lexsort((-newest[there], -total[there]))[:k]]
        windows.append([(float(total[key]), int(key)) for key in order])
    return windows


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(6))
def test_many_keys_that_come_and_go(seed):
    chance = np.random.default_rng(seed)
    rows, size, slide, k = 60_000, 12_000, 1_700, 25
    drift = np.arange(rows) // 20 if seed % 2 else 0
    keys = drift + chance.integers(0, 3_000, rows)
    # loud and quiet times, so that the best fall and others rise
    values = np.round(chance.integers(-3, 9, rows) * np.sin(np.arange(rows) / 9_000) ** 2 * 100)
    monitor = TotalsMonitor(TopKTotals(k, "sum", last(count=size, slide=slide)))
    windows = []
    for low, high in batches(rows, chance.integers(0, rows, 9).tolist()):
        windows += answers(monitor.push(keys[low:high], values[low:high]))
    assert [list(a.rows) for a in windows] == by_adding(keys, values, size, slide, k)
    assert monitor.counters()["rescans"] > 1


def test_what_cancels_leaves_the_rest_whole():
    monitor = TotalsMonitor(TopKTotals(1, "sum", last(count=2, slide=1)))
    windows = list(monitor.push([5] * 6, [1e300, 0.1, 0.2, -1e300, 1e300, 3e-300]))
    assert [w.score.tolist() for w in windows] == [
        [1e300], [1e300], [0.1 + 0.2], [-1e300], [0.0], [1e300]
    ]  # fmt: skip
    tiny = list(monitor.push([5, 5], [1e-300, 2e-300]))
    assert tiny[-1].score.tolist() == [1e-300 + 2e-300]


def test_equal_totals_rank_the_newer_then_the_larger_key():
    query = TopKTotals(4, "count", last(time=10))
    monitor = TotalsMonitor(query)
    monitor.push([1, 2, 3, 4, 1], times=[5, 5, 2, 3, 0])
    (window,) = monitor.finish()
    assert window.id.tolist() == [1, 2, 4, 3]
    assert window.score.tolist() == [2.0, 1.0, 1.0, 1.0]
    assert window.time.tolist() == [5, 5, 3, 2]


def test_count_counts_rows_with_values_or_all_rows():
    query = TopKTotals(2, "count", last(count=4))
    (window,) = TotalsMonitor(query).push([7, 7, 8, 8])
    assert window.score.tolist() == [2.0, 2.0]
    monitor = TotalsMonitor(query)
    (window,) = monitor.push([7, 7, 8, 8], [NAN, NAN, 1.0, NAN])
    assert [window.id.tolist(), window.score.tolist()] == [[8], [1.0]]
    assert monitor.dropped.nan_score == 3


def test_a_key_with_both_infinities_has_no_sum_until_one_has_left():
    monitor = TotalsMonitor(TopKTotals(2, "sum", last(count=3, slide=1)))
    values = [np.inf, -np.inf, 1.0, 1.0, 1.0, 1.0]
    windows = list(monitor.push([1] * 6, values))
    assert [w.score.tolist() for w in windows] == [[np.inf], [], [], [-np.inf], [3.0], [3.0]]


@pytest.mark.parametrize("by", ENDS)
def test_of_equal_times_the_larger_value_counts_and_null_least(by):
    rows = [(1, 4.0, 5), (1, 9.0, 5), (1, NAN, 5), (2, NAN, 5), (2, -np.inf, 5), (3, NAN, 5)]
    query = TopKTotals(9, by, last(time=10))
    for seed in range(20):
        keys, values, times = zip(*random.Random(seed).sample(rows, 6), strict=True)
        for ties in ("key", "arrival"):
            monitor = TotalsMonitor(query, options={"ties": ties})
            monitor.push(keys[:2], values[:2], times=times[:2])
            monitor.push(keys[2:], values[2:], times=times[2:])
            (window,) = monitor.finish()
            assert [window.id.tolist(), window.score.tolist()] == [[1, 2], [9.0, -np.inf]]
            assert monitor.dropped.total == 0


def test_a_live_board_a_null_takes_a_key_off_and_a_value_puts_it_back():
    monitor = TotalsMonitor(TopKTotals(3, "last", all_time(every=10)))
    board = list(monitor.push([7, 8, 7], [5.0, 3.0, 4.0], times=[1, 2, 3], watermark=10))
    board += monitor.push(pa.array([7]), pa.array([None], pa.float64()), times=[12], watermark=20)
    monitor = TotalsMonitor.restore(monitor.snapshot())
    board += monitor.push([9], [1.0], times=[25], watermark=30)
    board += monitor.push([7], [2.0], times=[31], watermark=40)
    ranked = [list(zip(w.id.tolist(), w.score.tolist(), strict=True)) for w in board]
    assert ranked == [
        [(7, 4.0), (8, 3.0)], [(8, 3.0)], [(8, 3.0), (9, 1.0)], [(8, 3.0), (7, 2.0), (9, 1.0)]
    ]  # fmt: skip


def test_equal_ends_rank_by_the_newest_row_also_of_first_values():
    monitor = TotalsMonitor(TopKTotals(3, "first", last(time=10)))
    monitor.push([1, 2, 3, 1, 2], [5.0, 5.0, 5.0, NAN, 0.0], times=[0, 1, 2, 9, 8])
    (window,) = monitor.finish()
    assert [window.id.tolist(), window.time.tolist()] == [[1, 2, 3], [9, 8, 2]]


def test_late_rows_and_missing_times_are_left_out_and_counted():
    monitor = TotalsMonitor(TopKTotals(2, "sum", last(time=10)), delay=5)
    monitor.push([1, 2], [1.0, 2.0], times=[0, 30])
    monitor.push([1], [9.0], times=[3])
    assert monitor.dropped.late == 1
    assert monitor.watermark == 25
    assert [w.id.tolist() for w in monitor.finish()] == [[2]]


def test_keys_that_are_far_apart_or_alike_in_their_bits():
    keys = np.array([0, -1, 1 << 62, -(1 << 63), 1 << 32, 1 << 33, (1 << 63) - 1], np.int64)
    monitor = TotalsMonitor(TopKTotals(9, "sum", last(count=14)))
    (window,) = monitor.push(np.concatenate([keys, keys]), np.arange(14.0))
    assert window.id.tolist() == keys[::-1].tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"by": "median"}, "by is 'median'"),
        ({"window": 5}, "window is 5"),
        ({"emit": "some"}, "emit is 'some'"),
    ],
)
def test_queries_that_make_no_sense(wrong, message):
    with pytest.raises(QueryError, match=message):
        TopKTotals(**{"k": 3, "by": "sum", "window": last(count=5)} | wrong)


@pytest.mark.parametrize(
    ("pushed", "message"),
    [
        (([1, 2],), "keys without values"),
        (([1, 2], [1.0]), "2 keys for 1 values"),
        ((["a"], [1.0]), "keys are of type"),
        ((pa.array([1, None]), [1.0, 2.0]), "1 keys are NULL"),
        ((3, [1.0]), "keys are 3"),
        (([1], ["a"]), "values are of type"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_taken_in(pushed, message):
    monitor = TotalsMonitor(TopKTotals(3, "sum", last(count=5)))
    with pytest.raises(DataError, match=message):
        monitor.push(*pushed)
    assert monitor.arrived == 0


def test_other_algorithms_queries_and_snapshots_are_refused():
    query = TopKTotals(3, "sum", last(count=5))
    with pytest.raises(QueryError, match="a TopKTotals query"):
        TotalsMonitor(TopK(3, last(count=5)))
    with pytest.raises(QueryError, match="algorithm is 'sap'"):
        TotalsMonitor(query, "sap")
    with pytest.raises(QueryError, match="option 'a'"):
        TotalsMonitor(query, options={"a": 1})
    with pytest.raises(SnapshotError, match="by = 'sum'"):
        TotalsMonitor.restore(TotalsMonitor(query).snapshot(), TopKTotals(3, "max", last(count=5)))
    with pytest.raises(SnapshotError, match="family 'totals'"):
        Monitor.restore(TotalsMonitor(query).snapshot())


def test_null_values_and_arrow_columns():
    monitor = TotalsMonitor(TopKTotals(3, "max", last(count=3)))
    (window,) = monitor.push(pa.array([4, 4, 9]), pa.array([2, None, -1]))
    assert [window.id.tolist(), window.score.tolist()] == [[4, 9], [2.0, -1.0]]
    assert monitor.dropped.null_score == 1
    assert "top 3 keys by max" in monitor.explain()


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("timed", [False, True])
def test_windows_that_need_more_room_than_there_was(by, timed):
    chance = random.Random(by)
    rows = 2_500
    keys = [chance.randrange(400) + at // 4 for at in range(rows)]
    values = [chance.choice([0.1, 1e9, -3.7]) * chance.randint(1, 9) for _ in keys]
    size, slide = 700, 130
    if timed:
        monitor = TotalsMonitor(TopKTotals(5, by, last(time=size, slide=slide)))
        parts = {"times": np.arange(rows)}
        wanted = time_totals(keys, values, range(rows), size, slide, by, 5)
    else:
        monitor = TotalsMonitor(TopKTotals(5, by, last(count=size, slide=slide)))
        parts = {}
        wanted = count_totals(keys, values, size, slide, by, 5)
    windows = []
    for low in range(0, rows, 500):
        part = slice(low, low + 500)
        more = {name: column[part] for name, column in parts.items()}
        if timed:
            more["watermark"] = low + 500
        windows += answers(monitor.push(np.array(keys[part]), np.array(values[part]), **more))
        monitor = TotalsMonitor.restore(monitor.snapshot())
    same(windows + answers(monitor.finish()), wanted)
    assert len(monitor.kept()) <= size + slide


def in_parts(chance, keys, values, times, by, slide):
    """The rows of each pane, added up by key, as rows that stand for several."""
    panes = {}
    for key, value, time in zip(keys, values, times, strict=True):
        if by in ENDS or value == value:
            panes.setdefault((time // slide, key), []).append((value, time))
    parts = []
    for (_, key), rows in panes.items():
        added, newest = [value for value, _ in rows], max(time for _, time in rows)
        if by in ("max", "min"):
            parts.append((key, {"max": max, "min": min}[by](added), len(added), newest))
            continue
        if by in ENDS:  # a part has the time of its newest row, so there is one part of a pane
            value = end_value(by, [(time, value) for value, time in rows])
            parts.append((key, NAN if value is None else value, len(added), newest))
            continue
        parts.append((key, added[0], len(added), newest))  # one row counts for all,
        parts += [(key, value, 0, newest) for value in added[1:]]  # the others are parts of the sum
    chance.shuffle(parts)
    return [np.array(column) for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(10))
def test_rows_that_stand_for_several(by, emit, seed):
    chance = random.Random(seed)
    slide = chance.randint(1, 8)
    window = last(time=slide * chance.randint(1, 5), slide=slide)
    query = TopKTotals(chance.randint(1, 6), by, window, emit)
    keys, values = some_rows(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in keys]).tolist()
    key, value, count, time = in_parts(chance, keys, values, times, by, slide)
    monitor = TotalsMonitor(query)
    windows = []
    cut = chance.randrange(len(key))
    windows += monitor.push(key[:cut], value[:cut], counts=count[:cut], times=time[:cut])
    monitor = TotalsMonitor.restore(monitor.snapshot(), query)
    windows += monitor.push(key[cut:], value[cut:], counts=count[cut:], times=time[cut:])
    windows += monitor.finish()
    wanted = time_totals(keys, values, times, window.size, window.slide, by, query.k)
    if emit == "changes":
        assert reports(windows) == changes(wanted, window.slide, until=1 << 60)
    else:
        same(answers(windows), wanted)


def test_rows_before_the_first_counts_stand_for_themselves():
    monitor = TotalsMonitor(TopKTotals(3, "mean", last(time=10)))
    monitor.push([1, 2], [4.0, 5.0], times=[0, 1])
    monitor.push([1], [8.0], counts=[3], times=[2])
    monitor.push([2], [7.0], times=[3])
    (ranked,) = monitor.finish()
    assert list(zip(ranked.id.tolist(), ranked.score.tolist(), strict=True)) == [(2, 6.0), (1, 3.0)]


def test_counts_that_cannot_be():
    monitor = TotalsMonitor(TopKTotals(3, "mean", last(time=10)))
    for counts in ([-1], [0.5], [NAN], [1, 2], ["x"], [2**54]):
        with pytest.raises(DataError):
            monitor.push([1], [4.0], counts=counts, times=[0])
    with pytest.raises(DataError, match="count window"):
        TotalsMonitor(TopKTotals(3, "mean", last(count=10))).push([1], [4.0], counts=[2])


def test_ties_by_arrival_rank_the_later_row_first():
    query = TopKTotals(3, "sum", last(time=10))
    keys = [5, 9, 2]
    for ties, wanted in (("key", [9, 5, 2]), ("arrival", [2, 9, 5])):
        monitor = TotalsMonitor(query, options={"ties": ties})
        monitor.push(keys, [1.0, 1.0, 1.0], times=[4, 4, 4])
        monitor = TotalsMonitor.restore(monitor.snapshot(), query)
        (ranked,) = monitor.finish()
        assert ranked.id.tolist() == wanted
    with pytest.raises(QueryError, match="ties"):
        TotalsMonitor(query, options={"ties": "age"})


def test_keys_that_are_far_apart_rank_by_their_size():
    """Differences of such keys do not fit into 64 bits."""
    keys = np.array([2**63 - 6, -(2**63), -(2**63) + 12, 2**63 - 1], np.int64)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        for emit in ("all", "changes"):
            query = TopKTotals(4, "count", last(time=10), emit)
            monitor = TotalsMonitor(query)
            monitor.push(keys[order], times=[3, 3, 3, 3])
            ranked = next(iter(monitor.finish()))
            assert ranked.id.tolist() == sorted(keys.tolist(), reverse=True)
