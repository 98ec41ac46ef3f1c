"""Input and output of a monitor, errors included."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from skyband import DataError, Monitor, QueryError, SnapshotError, TopK, last
from skyband.engine.snapshot import load
from skyband.topk import ALGORITHMS
from tests.oracle import time_windows
from tests.streams import answers

COUNTED = TopK(k=2, window=last(count=4, slide=2))
TIMED = TopK(k=2, window=last(time=10, slide=5))


def test_numpy_arrow_and_lists_are_alike():
    values = [3.0, 9.0, 4.0, 1.0]
    forms = [
        values,
        np.array(values),
        np.array(values, np.float32),
        np.array([3, 9, 4, 1]),
        pa.array(values),
        pa.chunked_array([values[:1], values[1:]]),
        pa.array([3, 9, 4, 1], pa.int16()),
        pa.array(values).cast(pa.decimal128(5, 2)),
    ]
    expected = answers(Monitor(COUNTED, "mintopk").push(values))
    for form in forms:
        assert answers(Monitor(COUNTED, "mintopk").push(form)) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_unranked_scores_are_counted(algorithm):
    monitor = Monitor(TopK(k=2, window=last(count=40, slide=4)), algorithm)
    for _ in range(20):
        monitor.push(pa.array([1.0, None, float("nan"), 2.0, 7.0]))
    assert (monitor.dropped.null_score, monitor.dropped.nan_score) == (20, 20)


def test_nothing_is_dropped_silently():
    monitor = Monitor(COUNTED, "mintopk")
    monitor.push(pa.array([1.0, None, float("nan"), 2.0]))
    assert (monitor.dropped.null_score, monitor.dropped.nan_score) == (1, 1)
    assert str(monitor.dropped) == "1 with a NULL score, 1 with a NaN score"
    timed = Monitor(TIMED, "mintopk")
    timed.push([1.0, 2.0], times=pa.array([1, None]), watermark=20)
    timed.push(pa.array([None, 5.0]), times=[30, 3])
    assert timed.dropped.null_time == 1
    assert timed.dropped.late == 1
    assert timed.dropped.null_score == 1
    assert timed.dropped.total == 3


def test_a_row_is_late_only_if_older_than_the_watermark_before_it():
    monitor = Monitor(TIMED, "mintopk", delay=3)
    windows = monitor.push([1.0, 2.0, 3.0, 4.0], times=[10, 7, 6, 12])
    assert monitor.dropped.late == 1  # 6 is more than 3 behind 10
    assert monitor.watermark == 9
    rows = answers(windows) + answers(monitor.finish())
    assert rows == time_windows([1.0, 2.0, 4.0], [10, 7, 12], 10, 5, 2, ids=[0, 1, 3])


@pytest.mark.parametrize("cuts", [(), (1,), (2, 5), (1, 2, 3, 4, 5, 6, 7)])
def test_a_delay_makes_answers_independent_of_batches(cuts):
    times = [10, 7, 6, 30, 28, 50, 1, 49]
    scores = [float(i) for i in range(8)]
    monitor = Monitor(TIMED, "sap", delay=3)
    edges = [0, *cuts, 8]
    results = []
    for low, high in itertools.pairwise(edges):
        results += answers(monitor.push(scores[low:high], times=times[low:high]))
    results += answers(monitor.finish())
    assert monitor.dropped.late == 2
    kept = [i for i in range(8) if i not in (2, 6)]
    assert results == time_windows(
        [scores[i] for i in kept], [times[i] for i in kept], 10, 5, 2, ids=kept
    )


def test_timestamps_in_and_out():
    query = TopK(k=1, window=last(time="1 hour"))
    monitor = Monitor(query, "sap")
    times = np.array(["2024-01-01T00:10", "2024-01-01T00:50"], "datetime64[s]")
    end = datetime(2024, 1, 1, 1, tzinfo=UTC)
    table = monitor.push([1.0, 2.0], times=times, watermark=end).to_arrow()
    assert table.column("window_end").to_pylist() == [end]
    assert table.column("time").to_pylist() == [datetime(2024, 1, 1, 0, 50, tzinfo=UTC)]
    naive = Monitor(query, "sap")
    assert len(naive.push([1.0], times=times[:1], watermark=datetime(2024, 1, 1, 1))) == 1


def test_arrow_out():
    monitor = Monitor(TopK(k=2, window=last(count=2), emit="changes"), "mintopk")
    table = monitor.push([1.0, 2.0, 3.0, -0.0]).to_arrow()
    assert table.column_names == [
        "window_start", "window_end", "rank", "score", "id", "change", "previous_rank",
    ]  # fmt: skip
    assert table.column("change").to_pylist() == [
        "entered", "entered", "entered", "left", "left", "entered",
    ]  # fmt: skip
    assert str(table.column("score").to_pylist()[-1]) == "0.0"
    assert table.column("rank").null_count == 2


def test_weights_make_scores():
    for algorithm in ("sap", "tma", "kskyband"):
        monitor = Monitor(TopK(k=1, window=last(time=5), weights=(2.0, -1.0)), algorithm)
        table = pa.table({"a": [1.0, 2.0, None], "b": [0.0, 5.0, 1.0]})
        results = answers(monitor.push(attributes=table, times=[1, 2, 3], watermark=5))
        assert results[0].rows == ((2.0, 0),)
        assert monitor.dropped.null_score == 1


@pytest.mark.parametrize(
    ("push", "message"),
    [
        (lambda m: m.push(["a"]), "of type"),
        (lambda m: m.push([True]), "of type bool"),
        (lambda m: m.push([1j]), "complex"),
        (lambda m: m.push([[1.0]]), "2 dimensions"),
        (lambda m: m.push([1.0], ids=[1, 2]), "2 ids for 1 rows"),
        (lambda m: m.push([1.0], ids=["x"]), "ids are of type"),
        (lambda m: m.push([1.0], ids=pa.array([None], pa.int64())), "1 ids are NULL"),
        (lambda m: m.push([1.0], times=[1]), "for a count window"),
        (lambda m: m.push([1.0], attributes=[[1.0]]), "without weights"),
    ],
)
def test_bad_batches_are_refused_whole(push, message):
    monitor = Monitor(COUNTED, "mintopk")
    with pytest.raises(DataError) as caught:
        push(monitor)
    assert message in str(caught.value)
    assert caught.value.expected
    assert caught.value.fix
    assert len(monitor.push([1.0, 2.0])) == 1  # as if nothing had been pushed


@pytest.mark.parametrize(
    ("push", "message"),
    [
        (lambda m: m.push([1.0]), "no times"),
        (lambda m: m.push([1.0], times=[1, 2]), "2 times for 1 rows"),
        (lambda m: m.push([1.0], times=[1.5]), "times are of type"),
        (lambda m: m.push([1.0], times=np.array([0], "datetime64[s]")), "in ticks"),
        (lambda m: m.push([1.0], times=[1 << 61]), "beyond 2"),
    ],
)
def test_bad_times(push, message):
    monitor = Monitor(TIMED, "mintopk")
    with pytest.raises(DataError, match=message):
        push(monitor)


def test_bad_monitors():
    with pytest.raises(QueryError, match="algorithm is 'magic'"):
        Monitor(COUNTED, "magic")
    with pytest.raises(QueryError, match="query is 3"):
        Monitor(3)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="delay with a count window"):
        Monitor(COUNTED, delay=3)
    with pytest.raises(QueryError, match="delay is -1"):
        Monitor(TIMED, delay=-1)
    with pytest.raises(QueryError, match="window in ticks"):
        Monitor(TIMED, delay="1 second")
    with pytest.raises(QueryError, match="option 'speed' for mintopk"):
        Monitor(COUNTED, "mintopk", options={"speed": 9})
    with pytest.raises(QueryError, match="partitions is 0"):
        Monitor(COUNTED, "sap", options={"partitions": 0})
    with pytest.raises(DataError, match="a watermark for a monitor with a delay"):
        Monitor(TIMED, delay=1).push([1.0], times=[1], watermark=5)


def test_ids_always_or_never():
    monitor = Monitor(COUNTED, "mintopk")
    monitor.push([1.0], ids=[7])
    with pytest.raises(DataError, match="no ids after a batch with ids"):
        monitor.push([1.0])
    other = Monitor(COUNTED, "mintopk")
    other.push([1.0])
    with pytest.raises(DataError, match="ids after a batch without ids"):
        other.push([1.0], ids=[7])


def test_snapshots_of_something_else_are_refused():
    data = Monitor(COUNTED, "mintopk").snapshot()
    with pytest.raises(SnapshotError, match="k = 2"):
        Monitor.restore(data, query=TopK(k=3, window=COUNTED.window))
    with pytest.raises(SnapshotError, match="kind = 'count'"):
        Monitor.restore(data, query=TIMED)
    with pytest.raises(SnapshotError, match="do not begin like a snapshot"):
        Monitor.restore(b"x" * 100)
    with pytest.raises(SnapshotError, match="3 bytes"):
        Monitor.restore(b"abc")
    with pytest.raises(SnapshotError, match="format 99"):
        Monitor.restore(data[:8] + (99).to_bytes(4, "little") + data[12:])
    with pytest.raises(SnapshotError, match="damaged"):
        Monitor.restore(data[:-3])
    assert load(data)[0]["family"] == "topk"


def test_state_stays_bounded_behind_a_directory_of_ids():
    rng = np.random.default_rng(0)
    monitor = Monitor(TopK(k=5, window=last(count=5_000, slide=500)), "mintopk")
    for start in range(0, 200_000, 10_000):
        monitor.push(rng.random(10_000), ids=np.arange(start, start + 10_000) * 3)
    assert len(monitor._ids) <= 11_024
    assert monitor.state_bytes() < 100_000


def test_rows_that_wait_for_the_watermark_are_pruned():
    rng = np.random.default_rng(0)
    scores, times = rng.random(300_000), rng.integers(0, 20, 300_000)
    monitor = Monitor(TopK(k=3, window=last(time=10, slide=5)), "mintopk")
    for low in range(0, 300_000, 30_000):
        monitor.push(scores[low : low + 30_000], times=times[low : low + 30_000])
    assert len(monitor._inlet.waiting) < 100_000
    results = answers(monitor.finish())
    best = [
        sorted(
            (s, t, i)
            for i, (s, t) in enumerate(zip(scores, times, strict=True))
            if end - 10 <= t < end
        )[-3:][::-1]
        for end in (5, 10, 15, 20, 25)
    ]
    assert [[i for _, i in answer.rows] for answer in results] == [[i for *_, i in b] for b in best]


@pytest.mark.parametrize("algorithm", ["sap", "mintopk", "recompute"])
def test_after_the_end_every_row_is_late(algorithm):
    monitor = Monitor(TIMED, algorithm, delay=2)
    monitor.push([1.0, 3.0], times=[100, 104])
    assert len(monitor.finish()) == 2
    for time in (103, 106, 104):
        assert len(monitor.push([2.0], times=[time])) == 0
    assert monitor.dropped.late == 3


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "auto"])
def test_numbers_far_beyond_the_data(algorithm):
    huge = Monitor(TopK(k=10**9, window=last(count=3, slide=1), emit="changes"), algorithm)
    assert len(huge.push([1.0, 2.0, 3.0, 4.0])) == 4
    if algorithm in ("pretopk", "mintopk"):
        with pytest.raises(QueryError, match="slides in a window"):
            Monitor(TopK(k=3, window=last(count=10**10, slide=1)), algorithm)


@pytest.mark.parametrize("algorithm", ["sap", "recompute", "tma"])
def test_a_window_larger_than_memory_holds_what_arrived(algorithm):
    monitor = Monitor(TopK(k=3, window=last(count=10**8, slide=10)), algorithm)
    monitor.push(np.arange(100.0))
    if algorithm != "tma":
        assert monitor.state_bytes() < 20_000_000


def test_the_ring_shrinks_after_a_large_batch():
    monitor = Monitor(TopK(k=3, window=last(time=1000, slide=10)), "sap")
    times = np.arange(500_000)
    monitor.push(np.random.default_rng(0).random(500_000), times=times, watermark=500_000)
    monitor.push([1.0], times=[500_500], watermark=501_000)
    assert monitor.state_bytes() < 200_000


def test_whole_numbers_must_fit_float64():
    with pytest.raises(DataError, match="beyond 2"):
        Monitor(COUNTED).push(np.array([2**53 + 1, 2**53]))
    Monitor(COUNTED).push(np.array([2**53, 0]))


def test_numpy_integers_are_plain_integers():
    query = TopK(k=np.int64(3), window=last(count=np.int64(10)))
    monitor = Monitor(query, "tma", options={"k_max": np.int64(7)})
    assert Monitor.restore(monitor.snapshot(), query=query).query == query


def test_masks_nat_and_empty_batches():
    monitor = Monitor(COUNTED, "mintopk")
    monitor.push(np.ma.array([1.0, 99.0], mask=[False, True]))
    assert monitor.dropped.null_score == 1
    timed = Monitor(TopK(k=1, window=last(time="1 hour")), "mintopk")
    assert len(timed.push([], times=[], ids=[])) == 0
    with pytest.raises(DataError, match="a watermark of"):
        timed.push([], watermark=np.datetime64("NaT"))
    with pytest.raises(DataError, match="below 2"):
        monitor.push([1.0], ids=np.array([2**63], np.uint64))


def test_too_many_windows_at_once():
    monitor = Monitor(TopK(k=1, window=last(time="1 day", slide="1 us")), "sap")
    with pytest.raises(DataError, match="completes 86,400,000,000 windows"):
        monitor.push([1.0], times=[0], watermark=10**12)


def test_odd_arguments_are_told_apart():
    for weights in (3.0, "ab"):
        with pytest.raises(QueryError, match="weights are"):
            TopK(k=1, window=last(count=1), weights=weights)
    with pytest.raises(QueryError, match="algorithm is"):
        Monitor(COUNTED, ["sap"])  # type: ignore[arg-type]
    for data in (None, "x" * 50):
        with pytest.raises(SnapshotError, match="expected bytes"):
            Monitor.restore(data)  # type: ignore[arg-type]
    data = Monitor(COUNTED, "mintopk").snapshot()
    assert Monitor.restore(memoryview(data)).query == COUNTED
    with pytest.raises(DataError, match="attributes are 5"):
        Monitor(TopK(k=1, window=last(count=1), weights=(1.0,))).push(attributes=5)
