"""Workloads against the oracle: every algorithm, every query, every way to cut the stream."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband import TopK, Workload, WorkloadMonitor, last
from skyband.workload import ALGORITHMS
from tests.oracle import changes, count_windows, time_windows
from tests.streams import answers, batches, reports, same

SHARED = [name for name in ALGORITHMS if name != "independent"]
SCORES = [0.0, 1.0, 1.0, 2.0, 3.0, 5.0, float("inf"), float("-inf"), float("nan")]


def chance_scores(chance, rows):
    """Random scores, many of them equal, some not ranked."""
    return [
        chance.choice(SCORES) if chance.random() < 0.4 else chance.random() * 6 for _ in range(rows)
    ]


def some_queries(chance, counted, emit="all", largest=40):
    """Queries with arbitrary windows, slides and k; some of them twice."""
    found = {}
    for number in range(chance.randint(1, 12)):
        if found and chance.random() < 0.2:
            found[f"q{number}"] = chance.choice(list(found.values()))
            continue
        size = chance.randint(1, largest)
        slide = chance.randint(1, size)
        if counted:
            window = last(count=size, slide=slide, full=chance.random() < 0.2)
        else:
            window = last(time=size, slide=slide, offset=chance.randint(-5, 5))
        found[f"q{number}"] = TopK(k=chance.randint(1, 8), window=window, emit=emit)
    return found


def expected(query, scores, times, until=None):
    window = query.window
    if times is None:
        return count_windows(scores, window.size, window.slide, query.k, full=window.full)
    return time_windows(
        scores, times, window.size, window.slide, query.k, window.offset, until=until
    )


def told(parts):
    """The windows of each query, in order."""
    found = {}
    for part in parts:
        ends = [window.end for _, window in part]
        assert ends == sorted(ends)
        for name, window in part:
            found.setdefault(name, []).append(window)
    return found


def check(queries, scores, times, algorithm, cuts, seed=0):
    """Push in pieces, and compare each query with the oracle."""
    monitor = WorkloadMonitor(Workload(queries), algorithm)
    parts = []
    values = np.array(scores)
    for low, high in batches(len(scores), cuts):
        if times is None:
            parts.append(monitor.push(values[low:high]))
        else:
            at = np.array(times[low:high], dtype=np.int64)
            watermark = times[high] if high < len(times) else None
            parts.append(
                monitor.push(
                    values[low:high], times=at, ids=np.arange(low, high), watermark=watermark
                )
            )
    parts.append(monitor.finish())
    found = told(parts)
    changed = next(iter(queries.values())).emit == "changes"
    for name, query in queries.items():
        wanted = expected(query, scores, times)
        if changed:
            until = (max(times) + 10**6) if times else None
            assert reports(found.get(name, [])) == changes(wanted, query.window.slide, until)
        else:
            same(answers(found.get(name, [])), wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(12))
def test_count_windows(algorithm, seed):
    chance = random.Random(seed)
    rows = chance.randint(0, 300)
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    check(some_queries(chance, True), chance_scores(chance, rows), None, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(12))
def test_time_windows(algorithm, seed):
    chance = random.Random(seed)
    rows = chance.randint(0, 200)
    gap = [0, 0, 1, 1, 2, 7, 300]
    times = np.cumsum([chance.choice(gap) for _ in range(rows)]).tolist()
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    check(some_queries(chance, False), chance_scores(chance, rows), times, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_changes(algorithm, timed, seed):
    chance = random.Random(seed)
    rows = chance.randint(1, 150)
    times = np.cumsum([chance.choice([0, 1, 1, 9, 60]) for _ in range(rows)]).tolist()
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    queries = some_queries(chance, not timed, "changes")
    check(queries, chance_scores(chance, rows), times if timed else None, algorithm, cuts)
