"""Windows whose rows leave together, a period so far and all time, against the oracle."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import (
    DominatingMonitor,
    IncompleteMonitor,
    Monitor,
    QueryError,
    SnapshotError,
    TopK,
    TopKDominating,
    TopKIncomplete,
    TopKTotals,
    TotalsMonitor,
    Workload,
    WorkloadMonitor,
    all_time,
    cumulative,
    last,
    partitioned,
)
from skyband.incomplete import EXACT
from skyband.partitioned import Partitioned
from skyband.topk import ALGORITHMS
from skyband.totals.query import BYS
from skyband.windows import FOREVER, AllTimeWindow, CumulativeWindow
from tests.oracle import Answer, all_time_windows, changes, cumulative_windows, dominating
from tests.oracle_incomplete import best_objects
from tests.oracle_totals import all_time_totals, cumulative_totals
from tests.streams import answers, batches, numbers, reports, same
from tests.test_conformance import clock, stream
from tests.test_properties import STREAMS
from tests.test_totals import some_rows

NAMES = [*ALGORITHMS, "auto"]
WINDOWS = [
    cumulative(20, every=5),
    cumulative(12, every=1, offset=5),
    cumulative(7, every=7, offset=-3),
    cumulative(100, every=10, offset=30),
    cumulative(3000, every=100, offset=-50),
    all_time(every=1),
    all_time(every=13),
    all_time(every=400),
]


@lru_cache(maxsize=256)
def expected_once(window, scores, times, k):
    """What the oracle says, asked once for all algorithms that are tested one after the other."""
    return expected(window, scores, times, k)


def expected(window, scores, times, k, ids=None, until=None):
    """What the oracle says."""
    scores, times = list(scores), list(times)
    if isinstance(window, AllTimeWindow):
        return all_time_windows(scores, times, window.slide, k, ids=ids, until=until)
    return cumulative_windows(
        scores, times, window.size, window.slide, k, window.offset, ids=ids, until=until
    )


def expected_changes(window, whole):
    """Changes between the windows; the rows of a period leave behind it."""
    until = None if isinstance(window, AllTimeWindow) else FOREVER
    return changes(whole, window.slide, until=until)


def pushed(monitor, columns, times, cuts):
    """The windows of all pushes, and of the end; nothing later is older than the watermark."""
    for low, high in batches(len(times), cuts):
        rest = times[high:]
        watermark = int(rest.min()) if len(rest) else None
        columns_of_push = (column[low:high] for column in columns)
        yield from monitor.push(*columns_of_push, times=times[low:high], watermark=watermark)
    yield from monitor.finish()


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["even", "bursts", "gaps", "shuffled", "ancient", "sparse"])
def test_every_algorithm(algorithm, kind):
    for kind_of_scores, window in itertools.product(
        ("random", "ties", "falling", "missing"), WINDOWS
    ):
        scores, times = stream(kind_of_scores, 150), clock(kind, 150)
        if window.slide == 1 and times[-1] - times[0] > 3000:
            continue
        for k in (1, 4):
            whole = expected_once(window, numbers(scores), numbers(times, np.int64), k)
            monitor = Monitor(TopK(k, window), algorithm)
            same(answers(pushed(monitor, [scores], times, range(0, 150, 37))), whole)
            monitor = Monitor(TopK(k, window, "changes"), algorithm)
            windows = pushed(monitor, [scores], times, range(0, 150, 41))
            assert reports(windows) == expected_changes(window, whole)


WINDOW = st.one_of(
    st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(-20, 20)).map(
        lambda t: cumulative(t[0] * t[1], every=t[1], offset=t[2])
    ),
    st.integers(1, 40).map(lambda every: all_time(every=every)),
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=40)
@given(
    data=st.data(),
    scores=STREAMS,
    window=WINDOW,
    k=st.integers(1, 8),
    emit=st.sampled_from(["all", "changes"]),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_any_stream(algorithm, data, scores, window, k, emit, cuts):
    times = data.draw(st.lists(st.integers(-60, 200), min_size=len(scores), max_size=len(scores)))
    whole = expected(window, scores, times, k)
    monitor = Monitor(TopK(k, window, emit), algorithm)
    windows = list(pushed(monitor, [np.array(scores)], np.array(times, np.int64), cuts))
    if emit == "all":
        same(answers(windows), whole)
    else:
        assert reports(windows) == expected_changes(window, whole)


def test_windows_of_all_time_go_on_with_the_watermark():
    monitor = Monitor(TopK(1, all_time(every=10)))
    windows = list(monitor.push([3.0, 5.0], times=[4, 27], watermark=25))
    windows += monitor.push(watermark=60)
    assert answers(windows) == all_time_windows([3.0, 5.0], [4, 27], 10, 1, until=60)
    assert str(windows[0]) == "(-forever, 10) 1. 3 (id 0)"
    assert not len(monitor.finish())


def test_no_start_is_null_in_arrow():
    monitor = Monitor(TopK(1, all_time(every="1 minute")), delay="0 seconds")
    monitor.push([1.0], times=np.array(["2024-01-01T00:00:30"], "datetime64[us]"))
    table = monitor.finish().to_arrow()
    assert table["window_start"].to_pylist() == [None]
    assert str(table["window_end"][0]) == "2024-01-01 00:01:00+00:00"


@pytest.mark.parametrize("algorithm", ["mintopk", "kskyband", "auto"])
@pytest.mark.parametrize("window", WINDOWS[:2] + WINDOWS[6:7], ids=str)
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_snapshots_go_on(algorithm, window, emit):
    scores, times = stream("wave", 300), clock("bursts", 300)
    monitor = Monitor(TopK(4, window, emit), algorithm)
    monitor.push(scores[:150], times=times[:150], watermark=int(times[140]))
    again = Monitor.restore(monitor.snapshot(), monitor.query)
    for each in (monitor, again):
        each.push(scores[150:], times=times[150:])
    assert monitor.snapshot() == again.snapshot()
    assert monitor.finish().to_arrow().equals(again.finish().to_arrow())
    with pytest.raises(SnapshotError, match="kind"):
        Monitor.restore(monitor.snapshot(), TopK(4, last(time=20, slide=5), emit))


@pytest.mark.parametrize("algorithm", ["mintopk", "kskyband", "recompute", "auto"])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("kind", ["cumulative", "all_time"])
def test_every_key_by_itself(kind, emit, algorithm, monkeypatch):
    rng = np.random.default_rng([len(kind), len(emit), len(algorithm)])
    for _ in range(25):
        rows, count = int(rng.integers(1, 90)), int(rng.integers(1, 8))
        every, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        window = all_time(every=every)
        if kind == "cumulative":
            steps, offset = int(rng.integers(1, 6)), int(rng.integers(-5, 6))
            window = cumulative(every * steps, every=every, offset=offset)
        keys = rng.integers(0, count, rows) * 3
        scores = rng.integers(0, 6, rows).astype(float)
        scores[rng.random(rows) < 0.2] = np.nan
        times = rng.integers(-60, 60, rows)
        order = np.lexsort((np.arange(rows), times, keys))
        monkeypatch.setattr(partitioned, "_BATCH", int(rng.integers(1, 40)))
        monkeypatch.setattr(partitioned, "_LONGEST", int(rng.choice([1 << 60, 200, 900])))
        engine = Partitioned(TopK(k, window, emit), algorithm)
        parts = []
        edges = [0, *sorted(rng.integers(0, rows + 1, 3).tolist()), rows]
        for low, high in itertools.pairwise(edges):
            part = order[low:high]
            parts += engine.push(scores[part], keys=keys[part], ids=part, times=times[part])
        parts += engine.finish()
        by_key = {}
        for part in parts:
            for key, ranked in zip(part.key.tolist(), part.ranked, strict=True):
                by_key.setdefault(key, []).append(ranked)
        for key in set(keys.tolist()):
            at = np.flatnonzero(keys == key)
            whole = expected(window, scores[at], times[at].tolist(), k, ids=at.tolist())
            windows = by_key.get(key, [])
            if emit == "all":
                assert answers(windows) == whole
            else:
                assert reports(windows) == expected_changes(window, whole)
        assert engine.dropped.nan_score == engine.dropped.total == np.isnan(scores).sum()


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(12))
def test_totals(by, emit, seed):
    chance = random.Random(seed)
    every, k = chance.randint(1, 12), chance.randint(1, 6)
    keys, values = some_rows(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in keys])
    if seed % 2:
        window = all_time(every=every)
        whole = all_time_totals(keys, values, times.tolist(), every, by, k)
    else:
        period, offset = every * chance.randint(1, 9), chance.randint(-4, 4)
        window = cumulative(period, every=every, offset=offset)
        whole = cumulative_totals(keys, values, times.tolist(), period, every, by, k, offset)
    monitor = TotalsMonitor(TopKTotals(k, by, window, emit))
    cuts = [chance.randrange(121) for _ in range(4)]
    windows = list(pushed(monitor, [np.array(keys), np.array(values)], times, cuts))
    if emit == "all":
        same(answers(windows), whole)
    else:
        assert reports(windows) == expected_changes(window, whole)


@pytest.mark.parametrize("by", BYS)
def test_totals_keep_an_entry_per_key(by):
    """However many panes there are, and bit for bit what a tumbling window of all rows says."""
    rng = np.random.default_rng(4)
    rows, keys = 60_000, 50
    key, value = rng.integers(0, keys, rows), rng.random(rows) - 0.5
    times = np.arange(rows)
    monitor = TotalsMonitor(TopKTotals(5, by, all_time(every=20)))
    for low in range(0, rows, 1000):
        part = slice(low, low + 1000)
        ranked = monitor.push(key[part], value[part], times=times[part], watermark=low + 1000)
    state = monitor.algorithm.state
    assert len(state.entries.slot) <= 2048
    whole = TotalsMonitor(TopKTotals(5, by, last(count=rows))).push(key, value)
    assert list(ranked)[-1].score.tolist() == whole.score.tolist()
    assert list(ranked)[-1].id.tolist() == whole.id.tolist()


@pytest.mark.parametrize("kind", ["rising", "falling", "random", "equal"])
@pytest.mark.parametrize("window", [cumulative(10_000, every=10), all_time(every=10)], ids=str)
def test_k_rows_are_kept(kind, window):
    """A row that is not among the k best so far can never come back."""
    scores = stream(kind, 20_000)
    monitor = Monitor(TopK(7, window), "mintopk", delay=0)
    sizes = set()
    for low in range(0, 20_000, 500):
        part = slice(low, low + 500)
        monitor.push(scores[part], times=np.arange(low, low + 500))
        assert len(monitor.kept()) <= 7
        sizes.add(monitor.state_bytes())
    assert len(sizes) <= 2


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="takes long, interpreted")
@pytest.mark.parametrize("window", [cumulative(20_000_000, every=5_000), all_time(every=5_000)])
def test_k_rows_are_kept_of_ten_million(window):
    rows, batch = 10_000_000, 100_000
    rng = np.random.default_rng(1)
    monitor = Monitor(TopK(10, window), "mintopk", delay=0)
    best = np.empty(0)
    for low in range(0, rows, batch):
        scores = rng.random(batch)
        ranked = monitor.push(scores, times=np.arange(low, low + batch))
        best = np.sort(np.concatenate([best, scores]))[-10:]
        assert len(monitor.kept()) <= 10
    assert monitor.state_bytes() < 10_000
    assert len(monitor.snapshot()) < 1_000_000  # besides, the step that is not complete
    assert list(ranked)[-1].end == rows - 5_000
    assert list(monitor.finish())[
        -1 if isinstance(window, AllTimeWindow) else 0
    ].score.tolist() == (best[::-1].tolist())


def test_auto_keeps_the_k_best():
    monitor = Monitor(TopK(3, all_time(every="1 minute")))
    assert monitor.plan.algorithm == "mintopk"
    assert "rows leave together" in monitor.explain()


def test_windows_are_described():
    assert str(cumulative("1 day", every="1 minute", offset="2 hours")) == (
        "each 1 day so far, every 1 minute, shifted by 2 hours"
    )
    assert isinstance(cumulative(10, every=5), CumulativeWindow)
    assert str(TopK(3, all_time(every=5))) == "top 3 of all time, every 5 ticks"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cumulative("1 day", every="7 hours"), "every is 7 hours, the period is 1 day"),
        (lambda: cumulative("1 hour", every="1 day"), "every is 1 day, the period is 1 hour"),
        (lambda: cumulative("1 day", every=5), "both durations, or both plain integers"),
        (lambda: cumulative("1 day", every="0 seconds"), "write cumulative"),
        (lambda: all_time(every=0), "write all_time"),
        (lambda: all_time(every="soon"), "every is 'soon'"),
        (lambda: all_time(every=None), "every is None"),
    ],
)
def test_what_is_no_window_is_refused(make, message):
    with pytest.raises(QueryError, match=message):
        make()


def bounds_of(window, times):
    """The bounds of all windows that hold a row."""
    return [(answer.start, answer.end) for answer in expected(window, [0.0] * len(times), times, 1)]


def some_window(chance):
    every = chance.randint(1, 8)
    if chance.random() < 0.4:
        return all_time(every=every)
    return cumulative(chance.randint(1, 6) * every, every=every, offset=chance.randint(-3, 3))


@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("algorithm", [*EXACT, "auto"])
def test_incomplete_streams(algorithm, emit):
    for seed in range(12):
        chance = random.Random(f"{algorithm} {seed}")
        window, k = some_window(chance), chance.randint(1, 4)
        times = np.sort(np.array([chance.randint(-30, 120) for _ in range(80)]))
        rows = [(chance.randint(0, 9), chance.randint(0, 1), chance.random()) for _ in range(80)]
        known = [(*row, time) for row, time in zip(rows, times.tolist(), strict=True)]
        known.sort(key=lambda row: (row[3], *row[:3]))
        wanted = [
            Answer(
                start,
                end,
                best_objects(
                    [row for row in known if start <= row[3] < end], k, "sum", [0, 0], "max"
                ),
            )
            for start, end in bounds_of(window, times.tolist())
        ]
        monitor = IncompleteMonitor(TopKIncomplete(k, ["a", "b"], window, emit=emit), algorithm)
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        windows = list(pushed(monitor, columns, times, [chance.randrange(80) for _ in range(3)]))
        if emit == "all":
            same(answers(windows), wanted)
        else:
            assert reports(windows) == expected_changes(window, wanted)


@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("algorithm", ["bfa", "eva", "ada", "contenders", "auto"])
def test_dominating_points(algorithm, emit):
    for seed in range(12):
        chance = random.Random(f"{algorithm} {seed}")
        window, k = some_window(chance), chance.randint(1, 4)
        times = np.sort(np.array([chance.randint(-30, 120) for _ in range(60)]))
        points = [(float(chance.randint(0, 5)), float(chance.randint(0, 5))) for _ in range(60)]
        rows = list(zip(points, times.tolist(), range(60), strict=True))
        wanted = [
            Answer(start, end, dominating([row for row in rows if start <= row[1] < end], k))
            for start, end in bounds_of(window, times.tolist())
        ]
        query = TopKDominating(k, [("x", "min"), ("y", "min")], window, emit)
        monitor = DominatingMonitor(query, algorithm)
        cuts = [chance.randrange(60) for _ in range(3)]
        windows = list(pushed(monitor, [np.array(points)], times, cuts))
        if emit == "all":
            same(answers(windows), wanted)
        else:
            assert reports(windows) == expected_changes(window, wanted)


@pytest.mark.parametrize("window", [cumulative("1 day", every="1 hour"), all_time(every="1 hour")])
def test_families_that_cannot_say_so(window):
    points, objects = TopKDominating(1, [("a", "min")], window), TopKIncomplete(1, ["a"], window)
    for algorithm in ("ahba", "amsa"):
        with pytest.raises(QueryError, match="a window that slides, for dominating points that"):
            DominatingMonitor(points, algorithm)
    with pytest.raises(QueryError, match="a window that slides, for dominating points that"):
        DominatingMonitor(points, options={"keep_up": 1000})
    for algorithm in ("likely", "approximate"):
        with pytest.raises(QueryError, match=f"a window that slides, for {algorithm}, which"):
            IncompleteMonitor(objects, algorithm)
    with pytest.raises(QueryError, match="algorithm is 'mtoplist' with a query for the top 1"):
        WorkloadMonitor(Workload({"q": TopK(1, window)}), "mtoplist")
