"""Run a monitor and the oracle over the same rows."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from skyband import Monitor, TopK, last
from tests.oracle import Answer, count_windows, time_windows


def batches(rows, cuts):
    """Split ``range(rows)`` at the given places."""
    edges = [0, *sorted(cut % (rows + 1) for cut in cuts), rows]
    return list(itertools.pairwise(edges))


def answers(ranked):
    return [
        Answer(w.start, w.end, tuple(zip(w.score.tolist(), w.id.tolist(), strict=True)))
        for w in ranked
    ]


def reports(ranked):
    """Changes in the form of the oracle."""
    return [
        (
            w.end,
            {
                int(i): (int(r), int(p))
                for i, r, p in zip(w.id, w.rank, w.previous_rank, strict=True)
            },
        )
        for w in ranked
        if len(w)
    ]


def same(results, expected):
    """Assert that answers are equal; windows without ranked rows need not be reported."""
    results = [a for a in results if a.rows]
    expected = [a for a in expected if a.rows]
    assert len(results) == len(expected)
    for answer, expected_answer in zip(results, expected, strict=True):
        assert answer == expected_answer


def run_counted(
    scores, n, s, k, algorithm, *, cuts=(), full=False, ids=None, options=None, check=True
):
    """All answers of a count window, checking the invariants after each batch."""
    monitor = Monitor(
        TopK(k=k, window=last(count=n, slide=s, full=full)), algorithm, options=options
    )
    values = np.array(scores, dtype=np.float64)
    results = []
    for low, high in batches(len(values), cuts):
        batch_ids = None if ids is None else np.array(ids[low:high], dtype=np.int64)
        results += answers(monitor.push(values[low:high], ids=batch_ids))
        if check and high and high % s == 0:
            start = max(0, high - n)
            alive = {
                seq: float(values[seq]) for seq in range(start, high) if not np.isnan(values[seq])
            }
            monitor.algorithm.check_invariants(alive)
    return results, monitor


count_windows_once, time_windows_once = map(lru_cache(maxsize=256), (count_windows, time_windows))
"""The oracle, asked once for all algorithms that are tested one after the other."""


def numbers(column, kind=np.float64):
    """A column as plain numbers, as the oracle takes it."""
    return None if column is None else tuple(np.array(column, kind).tolist())


def check_counted(scores, n, s, k, algorithm, **options):
    full, ids = options.get("full", False), numbers(options.get("ids"), np.int64)
    results, monitor = run_counted(scores, n, s, k, algorithm, **options)
    same(results, count_windows_once(numbers(scores), n, s, k, ids=ids, full=full))
    return monitor


def run_timed(
    scores, times, size, slide, k, algorithm, *, offset=0, cuts=(), ids=None, options=None
):
    """All answers of a time window; rows arrive in the given order, one watermark at the end."""
    monitor = Monitor(
        TopK(k=k, window=last(time=size, slide=slide, offset=offset)), algorithm, options=options
    )
    values, clock = np.array(scores, dtype=np.float64), np.array(times, dtype=np.int64)
    results = []
    for low, high in batches(len(values), cuts):
        rest = clock[high:]
        watermark = int(rest.min()) if len(rest) else None  # nothing later is older than this
        batch_ids = None if ids is None else np.array(ids[low:high], dtype=np.int64)
        results += answers(
            monitor.push(
                values[low:high], times=clock[low:high], ids=batch_ids, watermark=watermark
            )
        )
    results += answers(monitor.finish())
    return results, monitor


def check_timed(scores, times, size, slide, k, algorithm, **options):
    offset, ids = options.get("offset", 0), numbers(options.get("ids"), np.int64)
    results, monitor = run_timed(scores, times, size, slide, k, algorithm, **options)
    stream = numbers(scores), numbers(times, np.int64)
    same(results, time_windows_once(*stream, size, slide, k, offset=offset, ids=ids))
    return monitor
