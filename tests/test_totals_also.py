"""Totals that are carried beside the one that ranks, against the oracle."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from skyband import TopKTotals, Total, TotalsMonitor, all_time, cumulative, last
from skyband.engine.adapter import Adapter
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.partitioned import Partitioned
from skyband.totals.query import BYS
from tests.oracle import ranks
from tests.oracle_totals import end_value, total
from tests.streams import answers, batches
from tests.test_totals import some_rows, some_value, some_window

NAN = float("nan")
ALSO = {f"{by}_": by for by in BYS}


def carried(rows, by):
    """The total of (position, value) pairs; None if there is none."""
    if by in ("first", "last"):
        return end_value(by, rows) if rows else None
    values = [value for _, value in rows if ranks(value)]
    if by == "count":
        return float(len(values))
    return total(by, values) if values else None


def expected_also(window, keys, also, positions):
    """What each key of a window has beside its score."""
    inside = [at for at, p in enumerate(positions) if window.start <= p < window.end]
    return {
        name: [
            carried([(positions[at], column[at]) for at in inside if keys[at] == key], name[:-1])
            for key in window.id.tolist()
        ]
        for name, column in also.items()
    }


def given_also(window):
    """The columns that a window carries, NULL as None."""
    return {
        name: [None if value != value else value for value in np.ma.asarray(column).tolist()]
        for name, column in window.also.items()
    }


def some_columns(chance, rows):
    kind = chance.choice(["whole", "fine", "cancelling", "wild"])
    return {name: [some_value(chance, kind) for _ in range(rows)] for name in ALSO}


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("seed", range(8))
def test_count_windows(by, seed):
    chance = random.Random(seed)
    window = some_window(chance, False)
    keys, values = some_rows(chance, 150)
    also = some_columns(chance, 150)
    monitor = TotalsMonitor(TopKTotals(4, by, window, also=ALSO))
    alone = TotalsMonitor(TopKTotals(4, by, window))
    for low, high in batches(150, [chance.randrange(150) for _ in range(5)]):
        part = {name: np.array(column[low:high]) for name, column in also.items()}
        pushed = np.array(keys[low:high], np.int64), np.array(values[low:high])
        windows = monitor.push(*pushed, also=part)
        assert answers(windows) == answers(alone.push(*pushed))
        for ranked in windows:
            assert given_also(ranked) == expected_also(ranked, keys, also, range(150))
    assert monitor.dropped == alone.dropped


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("kind", ["sliding", "cumulative", "all_time"])
@pytest.mark.parametrize("seed", range(8))
def test_windows_of_time_in_any_order_and_after_a_snapshot(by, kind, seed):
    chance = random.Random(seed)
    window = some_window(chance, True)
    if kind == "cumulative":
        window = cumulative(window.slide * 4, every=window.slide)
    elif kind == "all_time":
        window = all_time(every=window.slide)
    keys, values = some_rows(chance, 120)
    also = some_columns(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 20]) for _ in keys])
    order = np.array(chance.sample(range(120), 120))
    monitor = TotalsMonitor(TopKTotals(4, by, window, also=ALSO))
    alone = TotalsMonitor(TopKTotals(4, by, window))
    windows, without = [], []
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        rows, rest = order[low:high], times[order[high:]]
        more = {"times": times[rows], "watermark": int(rest.min()) if len(rest) else None}
        part = {name: np.array(column)[rows] for name, column in also.items()}
        windows += monitor.push(np.array(keys)[rows], np.array(values)[rows], also=part, **more)
        without += alone.push(np.array(keys)[rows], np.array(values)[rows], **more)
        monitor = TotalsMonitor.restore(monitor.snapshot(), monitor.query)
    windows += monitor.finish()
    without += alone.finish()
    assert [a for a in answers(windows) if a.rows] == [a for a in answers(without) if a.rows]
    assert monitor.dropped == alone.dropped
    for ranked in windows:
        assert given_also(ranked) == expected_also(ranked, keys, also, times.tolist())


def test_whole_numbers_stay_exact_and_lack_where_there_is_none():
    big = 1 << 60
    also = {"spent": Total("sum", "int64"), "price": Total("last", "int64"), "orders": "count"}
    monitor = TotalsMonitor(TopKTotals(3, "count", last(count=4), also=also))
    columns = {
        "spent": pa.array([big, 1, None, 7]),
        "price": pa.array([5, None, big + 1, 2]),
    }
    ranked = monitor.push([1, 1, 2, 3], also=columns)
    table = ranked.to_arrow()
    assert table["id"].to_pylist() == [1, 3, 2]
    assert table["spent"].to_pylist() == [big + 1, 7, None]
    assert table["price"].to_pylist() == [None, 2, big + 1]
    assert table["orders"].to_pylist() == [2.0, 1.0, 1.0]
    assert str(monitor.query).endswith(", also spent, price, orders")
    too_much = {"spent": [7 * big] * 4, "price": [1] * 4}
    with pytest.raises(DataError, match="a sum beyond"):
        monitor.push([1] * 4, also=too_much)


def test_changes_carry_what_a_key_had_when_it_left_and_report_no_more_than_without():
    query = TopKTotals(1, "max", last(time=10), "changes", also={"spent": "sum"})
    monitor = TotalsMonitor(query)
    rows = [(1, 5.0, 2.0, 1), (2, 4.0, 1.0, 2), (1, 6.0, 9.0, 12), (2, 7.0, 3.0, 23)]
    keys, values, spent, times = map(list, zip(*rows, strict=True))
    windows = list(monitor.push(keys, values, also={"spent": spent}, times=times, watermark=20))
    monitor = TotalsMonitor.restore(monitor.snapshot(), query)
    windows += monitor.finish()
    reports = [
        list(zip(w.id.tolist(), w.rank.tolist(), w.also["spent"].tolist(), strict=True))
        for w in windows
    ]
    assert reports == [[(1, 1, 2.0)], [], [(2, 1, 3.0), (1, 0, 9.0)], [(2, 0, 3.0)]]


def test_partitions_carry_totals_too():
    query = TopKTotals(2, "last", all_time(every=10), also={"orders": "count", "spent": "sum"})

    def monitor(query, algorithm="auto", **more):
        def columns(rows, ids):
            return ids, rows.column("value"), rows.column("spent")

        class Pushing(TotalsMonitor):
            def push(self, keys=None, values=None, spent=None, **named):
                return super().push(keys, values, also={"spent": spent}, **named)

        return Adapter(Pushing, columns, query, algorithm, **more)

    batch = pa.record_batch(
        {"value": pa.array([1.0, None, 3.0, 4.0]), "spent": pa.array([1.0, 2.0, None, 4.0])}
    )
    engine = Partitioned(query, monitor=monitor)
    parts = engine.push(
        batch,
        keys=np.array([0, 0, 1, 1]),
        ids=np.array([7, 7, 8, 9]),
        times=np.array([1, 12, 5, 17]),
    )
    table = [
        (int(key), w.end, w.id.tolist(), *(c.tolist() for c in w.also.values()))
        for part in [*parts, *engine.finish()]
        for key, w in zip(part.key, part.ranked, strict=True)
    ]
    assert [row for row in table if row[0] == 0] == [
        (0, 10, [7], [1.0], [1.0]),
        (0, 20, [], [], []),
    ]
    (first, second) = [row for row in table if row[0] == 1]
    assert first[:4] == (1, 10, [8], [1.0])
    assert np.isnan(first[4][0])
    assert second[2:4] == ([9, 8], [1.0, 1.0])


@pytest.mark.parametrize(
    ("also", "message"),
    [
        ({"score": "sum"}, "also has a total called 'score'"),
        ({"": "sum"}, "also has a total called ''"),
        ({"a": "median"}, "by is 'median'"),
        (["a"], "also is"),
    ],
)
def test_what_cannot_be_carried_is_refused(also, message):
    with pytest.raises(QueryError, match=message):
        TopKTotals(3, "sum", last(count=5), also=also)


def test_columns_that_do_not_fit_are_refused_before_anything_is_taken_in():
    query = TopKTotals(3, "sum", last(count=5), also={"spent": "sum", "orders": "count"})
    monitor = TotalsMonitor(query)
    for also, message in (
        (None, "no column for 'spent'"),
        ({"spent": [1.0], "other": [1.0]}, "also has a column 'other'"),
        ({"spent": [1.0, 2.0]}, "1 keys for 2 spent"),
        ({"spent": ["a"]}, "spent are of type"),
    ):
        with pytest.raises(DataError, match=message):
            monitor.push([1], [1.0], also=also)
    assert monitor.arrived == 0
    with pytest.raises(SnapshotError, match="also = "):
        TotalsMonitor.restore(monitor.snapshot(), TopKTotals(3, "sum", last(count=5)))
