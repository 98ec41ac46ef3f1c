"""Every algorithm against the oracle: the same suite for all."""

from __future__ import annotations

import numpy as np
import pytest

from skyband import Monitor, TopK, last
from skyband.topk import ALGORITHMS
from tests.oracle import changes, count_windows, time_windows
from tests.streams import batches, check_counted, check_timed, reports, run_counted

NAMES = [*ALGORITHMS, "auto"]


def stream(kind, rows, seed=1):
    rng = np.random.default_rng(seed)
    at = np.arange(rows)
    return {
        "random": rng.random(rows),
        "ties": rng.integers(0, 4, rows).astype(float),
        "equal": np.zeros(rows),
        "rising": at.astype(float),
        "falling": -at.astype(float),
        "wave": np.sin(np.pi * at / 40),
        "steps": np.floor(np.sin(at / 15) * 5),
        "spikes": np.where(rng.random(rows) < 0.05, 100 + rng.random(rows), rng.random(rows)),
        "infinite": rng.choice([-np.inf, np.inf, 0.0, -0.0, 1.0], rows),
        "missing": np.where(rng.random(rows) < 0.3, np.nan, rng.random(rows)),
        "nothing": np.full(rows, np.nan),
    }[kind]


KINDS = [
    "random", "ties", "equal", "rising", "falling", "wave", "steps", "spikes", "infinite",
    "missing", "nothing",
]  # fmt: skip
SHAPES = [  # n, s, k
    (21, 3, 2), (20, 5, 3), (10, 1, 3), (10, 10, 4), (7, 3, 2), (13, 5, 1), (11, 4, 30), (50, 7, 5),
    (64, 1, 1), (100, 20, 10), (40, 39, 3), (1, 1, 1), (120, 1, 12), (90, 2, 7),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_count_windows(algorithm, kind):
    for n, s, k in SHAPES:
        scores = stream(kind, 400)
        check_counted(scores, n, s, k, algorithm, cuts=range(0, 400, max(s, 7)))


@pytest.mark.parametrize("algorithm", NAMES)
def test_wait_until_full(algorithm):
    monitor = check_counted(stream("random", 200), 50, 7, 3, algorithm, full=True, check=False)
    assert monitor.counters()["slides"] > 0


@pytest.mark.parametrize("algorithm", NAMES)
def test_ids_are_reported(algorithm):
    scores = stream("ties", 300)
    ids = np.random.default_rng(3).permutation(300) + 10_000
    check_counted(scores, 40, 6, 5, algorithm, ids=ids.tolist(), cuts=range(0, 300, 11))


def clock(kind, rows, seed=2):
    rng = np.random.default_rng(seed)
    return {
        "even": np.arange(rows),
        "bursts": np.sort(rng.integers(0, rows // 8, rows)),
        "gaps": np.cumsum(np.where(rng.random(rows) < 0.03, rng.integers(50, 900, rows), 1)),
        "shuffled": rng.permutation(rows),
        "ancient": np.sort(rng.integers(-500, 100, rows)),
        "sparse": np.cumsum(rng.integers(1, 60, rows)),
    }[kind]


TIME_SHAPES = [  # size, slide, offset, k
    (20, 5, 0, 3), (21, 4, 1, 2), (7, 7, 3, 5), (30, 1, 0, 4), (100, 10, -3, 12), (1, 1, 0, 1),
    (45, 44, 7, 2),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["even", "bursts", "gaps", "shuffled", "ancient", "sparse"])
def test_time_windows(algorithm, kind):
    for scores in ("random", "ties", "falling", "missing"):
        for size, slide, offset, k in TIME_SHAPES:
            check_timed(
                stream(scores, 250),
                clock(kind, 250),
                size,
                slide,
                k,
                algorithm,
                offset=offset,
                cuts=range(0, 250, 37),
            )


@pytest.mark.parametrize("algorithm", NAMES)
def test_time_ties_are_broken_by_id(algorithm):
    rng = np.random.default_rng(5)
    times, scores = rng.integers(0, 30, 200), rng.integers(0, 3, 200)
    ids = rng.permutation(200)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(200)
        check_timed(scores[order], times[order], 10, 3, 6, algorithm, ids=ids[order].tolist())


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["random", "ties", "wave", "missing"])
def test_changes_in_count_windows(algorithm, kind):
    for n, s, k in SHAPES:
        scores = stream(kind, 300)
        monitor = Monitor(TopK(k=k, window=last(count=n, slide=s), emit="changes"), algorithm)
        results = []
        for low, high in batches(300, range(0, 300, 13)):
            results += reports(monitor.push(scores[low:high]))
        assert results == changes(count_windows(scores.tolist(), n, s, k), s)


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["gaps", "bursts"])
def test_changes_in_time_windows(algorithm, kind):
    scores, times = stream("ties", 200), clock(kind, 200)
    for size, slide, offset, k in TIME_SHAPES:
        query = TopK(k=k, window=last(time=size, slide=slide, offset=offset), emit="changes")
        monitor = Monitor(query, algorithm)
        results = []
        for low, high in batches(200, range(0, 200, 13)):
            rest = times[high:]
            until = int(rest.min()) if len(rest) else None
            results += reports(
                monitor.push(scores[low:high], times=times[low:high], watermark=until)
            )
        results += reports(monitor.finish())
        expected = time_windows(scores.tolist(), times.tolist(), size, slide, k, offset=offset)
        final = changes(expected, slide)
        final.append(
            (
                expected[-1].end + slide,
                {number: (0, rank) for rank, (_, number) in enumerate(expected[-1].rows, start=1)},
            )
        )
        assert results == final


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["random", "falling", "wave"])
def test_snapshot_goes_on_bit_for_bit(algorithm, kind):
    scores = stream(kind, 500)
    for n, s, k in [(60, 4, 5), (50, 7, 3), (100, 10, 20)]:
        for cut in (0, 33, 250):
            _, monitor = run_counted(scores[:cut], n, s, k, algorithm)
            data = monitor.snapshot()
            again = Monitor.restore(data, query=monitor.query)
            assert again.snapshot() == data
            one, two = monitor.push(scores[cut:]), again.push(scores[cut:])
            assert one.to_arrow().equals(two.to_arrow())
            assert monitor.snapshot() == again.snapshot()


@pytest.mark.parametrize("algorithm", NAMES)
def test_snapshot_of_time_windows(algorithm):
    scores, times = stream("wave", 300), clock("bursts", 300)
    monitor = Monitor(TopK(k=4, window=last(time=12, slide=5)), algorithm)
    monitor.push(scores[:150], times=times[:150], watermark=int(times[140]))
    again = Monitor.restore(monitor.snapshot())
    for each in (monitor, again):
        each.push(scores[150:], times=times[150:])
    assert monitor.snapshot() == again.snapshot()
    assert monitor.finish().to_arrow().equals(again.finish().to_arrow())
    assert monitor.dropped == again.dropped
