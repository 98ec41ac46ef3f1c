"""Totals against the oracle: every kind, keys that come and go, sums that cancel."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import last
from skyband.totals.monitor import TotalsMonitor
from skyband.totals.query import BYS, TopKTotals
from tests.oracle import changes
from tests.oracle_totals import count_totals, time_totals
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
    window = query.window
    found = []
    for low, high in batches(len(keys), cuts):
        found += monitor.push(np.array(keys[low:high], np.int64), np.array(values[low:high]))
        if high and high % window.slide == 0 and (high >= window.size or not window.full):
            start = max(0, high - window.size)
            alive = {at: values[at] for at in range(start, high) if values[at] == values[at]}
            monitor.algorithm.check_invariants(alive)
    assert monitor.dropped.nan_score == sum(value != value for value in values)
    return found


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(25))
def test_count_windows(by, emit, seed):
    chance = random.Random(seed)
    window = some_window(chance, False)
    query = TopKTotals(chance.randint(1, 6), by, window, emit)
    keys, values = some_rows(chance, 150)
    cuts = [*(chance.randrange(200) for _ in range(5)), *range(0, 150, window.slide)]
    found = counted(query, keys, values, chance.sample(cuts, len(cuts) // 2))
    wanted = count_totals(keys, values, window.size, window.slide, by, query.k, window.full)
    if emit == "changes":
        assert reports(found) == changes(wanted, window.slide)
    else:
        same(answers(found), wanted)


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
    found = []
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        rows, rest = order[low:high], times[order[high:]]
        found += monitor.push(
            np.array(keys)[rows],
            np.array(values)[rows],
            times=times[rows],
            watermark=int(rest.min()) if len(rest) else None,
        )
    found += monitor.finish()
    wanted = time_totals(
        keys, values, times.tolist(), window.size, window.slide, by, query.k, window.offset
    )
    if emit == "changes":
        assert reports(found) == changes(wanted, window.slide, until=1 << 60)
    else:
        same(answers(found), wanted)


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
    found = counted(query, keys, values, cuts)
    same(answers(found), count_totals(keys, values, n, s, by, k))


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
    found = [*push(first, 0, cut)]
    second = TotalsMonitor.restore(first.snapshot(), query)
    found += [*push(second, cut, 200), *second.finish()]
    assert [str(window) for window in found] == [str(window) for window in expected]
    assert second.dropped == whole.dropped
    assert second.counters() == whole.counters()
