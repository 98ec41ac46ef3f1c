"""One query per key: every key against the oracle, however the rows are cut."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from skyband import DataError, TopK, last, partitioned
from skyband.partitioned import Partitioned
from tests.oracle import changes, count_windows, time_windows
from tests.streams import answers, reports


def drive(query, algorithm, keys, scores, ids, times, cuts):
    engine = Partitioned(query, algorithm)
    parts = []
    edges = [0, *sorted(cuts), len(keys)]
    for low, high in itertools.pairwise(edges):
        part = slice(low, high)
        given = None if times is None else times[part]
        parts += engine.push(scores[part], keys=keys[part], ids=ids[part], times=given)
    parts += engine.finish()
    by_key = {}
    for part in parts:
        for key, window in zip(part.key.tolist(), part.ranked, strict=True):
            by_key.setdefault(key, []).append(window)
    return by_key, engine


def check(windows, expected, slide, emit, farewell):
    windows = [window for window in windows if len(window)]
    if emit == "all":
        assert answers(windows) == [answer for answer in expected if answer.rows]
        return
    wanted = changes(expected, slide)
    if farewell and expected:
        gone = {number: (0, rank) for rank, (_, number) in enumerate(expected[-1].rows, 1)}
        wanted.append((expected[-1].end + slide, gone))
    assert reports(windows) == wanted


@pytest.mark.parametrize("algorithm", ["mintopk", "kskyband", "recompute", "auto"])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("kind", ["count", "time"])
def test_every_key_as_the_oracle(kind, emit, algorithm, monkeypatch):
    rng = np.random.default_rng([len(kind), len(emit), len(algorithm)])
    for _ in range(25):
        rows, count = int(rng.integers(1, 90)), int(rng.integers(1, 8))
        size = int(rng.integers(1, 15))
        slide, k = int(rng.integers(1, size + 1)), int(rng.integers(1, 5))
        keys = rng.integers(0, count, rows) * 3
        scores = rng.integers(0, 6, rows).astype(float)
        scores[rng.random(rows) < 0.2] = np.nan
        full = bool(rng.integers(2))
        offset = int(rng.integers(-5, 6))
        times = rng.integers(-60, 60, rows) if kind == "time" else None
        window = last(count=size, slide=slide, full=full)
        order = np.lexsort((np.arange(rows), keys))
        if times is not None:
            window = last(time=size, slide=slide, offset=offset)
            order = np.lexsort((np.arange(rows), times, keys))
        # also with lines so short that keys need several of them
        monkeypatch.setattr(partitioned, "_BATCH", int(rng.integers(1, 40)))
        monkeypatch.setattr(partitioned, "_LONGEST", int(rng.choice([1 << 60, 200, 900])))
        by_key, engine = drive(
            TopK(k, window, emit),
            algorithm,
            keys[order],
            scores[order],
            order,
            None if times is None else times[order],
            rng.integers(0, rows + 1, 3).tolist(),
        )
        for key in set(keys.tolist()):
            at = np.flatnonzero(keys == key)
            if times is None:
                expected = count_windows(
                    scores[at].tolist(), size, slide, k, ids=at.tolist(), full=full
                )
            else:
                expected = time_windows(
                    scores[at].tolist(), times[at].tolist(), size, slide, k, offset, at.tolist()
                )
            check(by_key.get(key, []), expected, slide, emit, farewell=times is not None)
        assert engine.dropped.nan_score == engine.dropped.total == np.isnan(scores).sum()


def test_arrow_columns_with_nulls():
    engine = Partitioned(TopK(1, last(time=10)))
    parts = engine.push(
        pa.array([1.0, None, 3.0, 4.0]),
        keys=pa.array([0, 0, 1, 1]),
        ids=pa.array([10, 11, 12, 13]),
        times=pa.array([5, 6, None, 7]),
    )
    parts += engine.finish()
    rows = [
        (int(key), window.start, window.id.tolist(), window.time.tolist())
        for part in parts
        for key, window in zip(part.key, part.ranked, strict=True)
    ]
    assert rows == [(0, 0, [10], [5]), (1, 0, [13], [7])]
    assert (engine.dropped.null_score, engine.dropped.null_time) == (1, 1)
    assert engine.dropped.total == 2


def test_timestamps_are_reported_as_such():
    engine = Partitioned(TopK(1, last(time="1 minute")))
    times = np.array(["2024-01-01T00:00:30", "2024-01-01T00:00:10"], "datetime64[us]")
    engine.push(np.ones(2), keys=np.array([0, 1]), ids=np.arange(2), times=times)
    (part,) = engine.finish()
    assert part.ranked.timed
    assert part.ranked.time.tolist() == [times.astype(np.int64)[1]]


@pytest.mark.parametrize(
    ("keys", "times"), [([0, 1, 0], [1, 2, 3]), ([0, 0, 0], [1, 3, 2]), ([2, 1, 1], [1, 2, 3])]
)
def test_rows_out_of_sequence_are_refused(keys, times):
    engine = Partitioned(TopK(1, last(time=10)))
    with pytest.raises(DataError, match="sorted by key"):
        engine.push(np.ones(3), keys=np.array(keys), ids=np.arange(3), times=np.array(times))


def test_rows_out_of_sequence_are_refused_across_pushes():
    engine = Partitioned(TopK(1, last(time=10)))
    engine.push(np.ones(1), keys=np.array([5]), ids=np.array([0]), times=np.array([5]))
    with pytest.raises(DataError, match="sorted by key"):
        engine.push(np.ones(1), keys=np.array([5]), ids=np.array([1]), times=np.array([4]))


def test_times_are_needed_and_must_be_near_enough():
    engine = Partitioned(TopK(1, last(time=10)))
    one = np.array([0])
    with pytest.raises(DataError, match="no times"):
        engine.push(np.ones(1), keys=one, ids=one)
    with pytest.raises(DataError, match=r"beyond 2\*\*60"):
        engine.push(np.ones(1), keys=one, ids=one, times=np.array([1 << 61]))


def test_many_keys_far_apart_in_time():
    """Ten years of microseconds for each of many keys do not fit into one time axis."""
    decade = 10 * 365 * 86_400_000_000
    keys = np.repeat(np.arange(9_000), 2)
    times = np.tile([0, decade], 9_000)
    engine = Partitioned(TopK(1, last(time=3_600_000_000)))
    parts = engine.push(np.ones(18_000), keys=keys, ids=np.arange(18_000), times=times)
    parts += engine.finish()
    assert sum(part.ranked.rows for part in parts) == 18_000
    assert {int(start) for part in parts for start in part.ranked.window_start} == {0, decade}


def test_a_window_is_answered_by_the_push_that_completes_it():
    engine = Partitioned(TopK(1, last(count=2)))
    columns = {"keys": np.zeros(2, np.int64), "ids": np.arange(2)}
    (part,) = engine.push(np.array([3.0, 5.0]), **columns)
    assert (part.key.tolist(), part.ranked.window_end.tolist()) == ([0], [2])
    assert part.ranked.id.tolist() == [1]
