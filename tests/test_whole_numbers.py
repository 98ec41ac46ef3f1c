"""Whole numbers beyond 2**53 are ranked and added up without being rounded."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import Monitor, TopK, TopKTotals, TotalsMonitor, all_time, last
from skyband.engine.whole_numbers import LARGEST, codes_of, numbers_of
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.partitioned import Partitioned
from skyband.topk import ALGORITHMS
from skyband.totals.query import BYS, PICKED
from tests.oracle import changes, count_windows, time_windows
from tests.oracle_totals import count_totals, time_totals
from tests.streams import answers, batches, reports, same

BIG = 1 << 53
ENDS = (-(1 << 63), (1 << 63) - 1)
NUMBERS = st.one_of(st.integers(-LARGEST, LARGEST), st.sampled_from(ENDS), st.integers(-3, 3))


@given(numbers=st.lists(NUMBERS))
def test_codes_have_the_order_of_their_numbers(numbers):
    codes = codes_of(np.array(numbers, np.int64))
    assert numbers_of(codes).tolist() == numbers
    ordered = np.array(sorted(set(numbers)), np.int64)
    assert bool((np.diff(codes_of(ordered)) > 0).all())
    assert not np.isnan(codes).any()


@pytest.mark.parametrize("number", [LARGEST + 1, -LARGEST - 1, ENDS[0] + 1, ENDS[1] - 1])
def test_numbers_without_a_code_are_refused(number):
    monitor = Monitor(TopK(2, last(count=3), numbers="int64"))
    with pytest.raises(DataError) as caught:
        monitor.push(np.array([1, number]))
    assert caught.value.found == f"a number of scores is {number:,}"
    assert caught.value.expected.startswith("whole numbers up to 9,218,868,437,227,405,311 in size")
    assert "CAST(... AS DOUBLE)" in caught.value.fix
    with pytest.raises(DataError, match="whole numbers up to"):
        monitor.push(np.array([1, (1 << 64) - 1], np.uint64))


def some_numbers(chance, rows):
    start = chance.choice([BIG, -BIG, 0, LARGEST - 40, 10**18])
    return [start + chance.randint(-6, 6) if chance.random() < 0.95 else None for _ in range(rows)]


def column(numbers):
    return pa.array(numbers, pa.int64())


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "auto"])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(3))
def test_count_windows_of_every_algorithm(algorithm, emit, seed):
    chance = random.Random(f"{algorithm} {seed}")
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    numbers = some_numbers(chance, 150)
    monitor = Monitor(TopK(k, last(count=size, slide=slide), emit, numbers="int64"), algorithm)
    windows = []
    for low, high in batches(150, [chance.randrange(150) for _ in range(4)]):
        windows += monitor.push(column(numbers[low:high]))
    wanted = count_windows(numbers, size, slide, k)
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide)
    else:
        same(answers(windows), wanted)
        assert all(window.score.dtype == np.int64 for window in windows)


@pytest.mark.parametrize("seed", range(10))
def test_time_windows_go_on_from_a_snapshot(seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    numbers = some_numbers(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in numbers])
    query = TopK(k, last(time=size, slide=slide), numbers="int64")
    monitor = Monitor(query)
    windows = []
    for low, high in batches(120, [40, 80]):
        windows += monitor.push(
            column(numbers[low:high]), times=times[low:high], watermark=int(times[low])
        )
        monitor = Monitor.restore(monitor.snapshot(), query)
    windows += monitor.finish()
    same(answers(windows), time_windows(numbers, times.tolist(), size, slide, k))


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(8))
def test_totals_of_whole_numbers(by, emit, seed):
    chance = random.Random(f"{by} {seed}")
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    start = chance.choice([BIG, -BIG, 0, 1 << 57])
    numbers = [start + chance.randint(-6, 6) for _ in range(150)]
    if seed % 2:  # sums cancel
        numbers = [number * chance.choice([1, -1]) for number in numbers]
    numbers = [number if chance.random() < 0.95 else None for number in numbers]
    keys = [int(chance.expovariate(1) * 4) for _ in numbers]
    if seed % 3:
        monitor = TotalsMonitor(
            TopKTotals(k, by, last(count=size, slide=slide), emit, numbers="int64")
        )
        windows = []
        for low, high in batches(150, [chance.randrange(150) for _ in range(4)]):
            windows += monitor.push(np.array(keys[low:high]), column(numbers[low:high]))
        wanted, until = count_totals(keys, numbers, size, slide, by, k), None
    else:
        times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in numbers])
        query = TopKTotals(k, by, last(time=size, slide=slide), emit, numbers="int64")
        monitor = TotalsMonitor(query)
        windows = list(
            monitor.push(np.array(keys), column(numbers), times=times, watermark=int(times[70]))
        )
        monitor = TotalsMonitor.restore(monitor.snapshot(), query)
        windows += monitor.finish()
        wanted = time_totals(keys, numbers, times.tolist(), size, slide, by, k)
        until = 1 << 60
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide, until=until)
    else:
        same(answers(windows), wanted)


def test_invariants_of_whole_sums_hold():
    monitor = TotalsMonitor(TopKTotals(2, "sum", last(count=6, slide=3), numbers="int64"))
    keys, values = np.array([1, 2, 1, 2, 1, 3]), np.array([BIG, -1, 1, 5, -BIG, LARGEST])
    (_, window) = monitor.push(keys, values)
    assert window.score.tolist() == [LARGEST, 4]
    codes = codes_of(values).tolist()
    monitor.algorithm.check_invariants(dict(enumerate(codes)), dict(enumerate(keys.tolist())))


def test_a_sum_that_is_too_large_is_refused():
    monitor = TotalsMonitor(TopKTotals(1, "sum", last(count=2), numbers="int64"))
    with pytest.raises(DataError, match=r"a sum beyond 9,218,868,437,227,405,311"):
        monitor.push(np.array([1, 1]), np.array([LARGEST, 1]))
    with pytest.raises(DataError, match="a value beyond"):
        monitor.push(np.array([1]), np.array([ENDS[1]]))


def test_numbers_that_are_not_whole_are_refused():
    monitor = Monitor(TopK(2, last(count=3), numbers="int64"))
    with pytest.raises(DataError, match="scores are of type float64; expected whole numbers"):
        monitor.push(np.array([1.0, 2.5]))
    assert not list(monitor.push())
    with pytest.raises(QueryError, match="numbers is 'int32'"):
        TopK(2, last(count=3), numbers="int32")
    with pytest.raises(QueryError, match="with weights"):
        TopK(2, last(count=3), weights=(1.0,), numbers="int64")
    with pytest.raises(SnapshotError, match="numbers = 'int64'"):
        Monitor.restore(monitor.snapshot(), TopK(2, last(count=3)))


def test_decimals_that_float64_does_not_tell_apart_are_refused():
    monitor = Monitor(TopK(2, last(count=3)))
    fine = pa.array([Decimal("0.1"), Decimal("99999999999999.9"), None], pa.decimal128(18, 1))
    assert [row.tolist() for row in (w.score for w in monitor.push(fine))] == [
        [99999999999999.9, 0.1]
    ]
    with pytest.raises(DataError, match="decimals of more than 15 digits"):
        monitor.push(pa.array([Decimal("100000000000000.1")], pa.decimal128(18, 1)))


@pytest.mark.parametrize("by", PICKED)
def test_the_ends_of_64_bits_are_largest_and_least(by):
    monitor = TotalsMonitor(TopKTotals(3, by, last(count=3), numbers="int64"))
    (window,) = monitor.push(np.array([1, 2, 3]), np.array([ENDS[0], ENDS[1], 5]))
    assert window.score.tolist() == [ENDS[1], 5, ENDS[0]]


def test_keys_of_all_time():
    query = TopK(1, all_time(every=10), numbers="int64")
    engine = Partitioned(query)
    parts = engine.push(
        np.array([BIG + 1, BIG]), keys=np.array([0, 1]), ids=np.arange(2), times=np.array([1, 2])
    )
    ranked = [window for part in [*parts, *engine.finish()] for window in part.ranked]
    assert [window.score.tolist() for window in ranked] == [[BIG + 1], [BIG]]
