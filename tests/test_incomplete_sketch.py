"""Sketches of distinct objects in a window: bias and error, with fixed seeds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from skyband.incomplete.sketch import distinct, note_all, sketch

MAPS = 64
ERROR = 0.65 / MAPS**0.5


def noted(ids, streams=None, maps=MAPS, width=1):
    seen = sketch(width, maps)
    ids = np.asarray(ids, np.int64)
    streams = np.zeros(len(ids), np.int64) if streams is None else np.asarray(streams, np.int64)
    note_all(seen, streams, ids, np.arange(len(ids), dtype=np.int64))
    return seen


def in_all(seen, streams, since):
    """Estimate how many objects came in all these streams: inclusion and exclusion of unions."""
    count = 0.0
    for size in range(1, len(streams) + 1):
        for some in combinations(streams, size):
            sign = 1.0 if size % 2 else -1.0
            count += sign * distinct(seen, sum(1 << stream for stream in some), since)
    return max(count, 0.0)


def test_nothing_counts_as_nothing():
    assert distinct(sketch(2, 16), 3, 0) == 0.0
    assert distinct(noted([5, 6, 7]), 1, 3) == 0.0
    assert round(distinct(noted([5] * 50, maps=1024), 1, 0)) == 1


@pytest.mark.compiled
@pytest.mark.parametrize("count", [10, 100, 1000, 20_000])
@pytest.mark.parametrize("kind", ["random", "in a row", "high bits"])
def test_counts_are_unbiased_and_as_precise_as_promised(count, kind):
    rng = np.random.default_rng(count)
    runs, errors = 200, []
    for run in range(runs):
        ids = np.arange(count) + run * 1_000_003
        if kind == "random":
            ids = rng.integers(-(1 << 62), 1 << 62, count)
        elif kind == "high bits":
            ids = ids << 30
        errors.append(distinct(noted(ids), 1, 0) / count - 1)
    assert abs(np.mean(errors)) < 4 * ERROR / runs**0.5
    assert np.std(errors) < 1.25 * ERROR


@pytest.mark.compiled
def test_only_what_came_in_the_window_counts():
    rng = np.random.default_rng(1)
    errors = []
    for run in range(100):
        ids = rng.integers(0, 3000, 6000) + run * 10_007  # other objects, other errors
        seen = noted(ids)
        wanted = len(np.unique(ids[4500:]))
        errors.append(distinct(seen, 1, 4500) / wanted - 1)
    assert abs(np.mean(errors)) < 4 * ERROR / 10
    assert np.std(errors) < 1.25 * ERROR


@pytest.mark.compiled
def test_objects_of_several_streams_are_counted_from_unions():
    maps, error = 1024, 0.65 / 1024**0.5
    counts = []
    for run in range(60):
        ids = np.arange(1000) + run * 10_007
        parts = [ids[:700], ids[300:], ids[500:900]]
        streams = np.repeat(np.arange(3), [len(part) for part in parts])
        seen = noted(np.concatenate(parts), streams, maps, 3)
        counts.append([in_all(seen, (0, 1), 0), in_all(seen, (0, 1, 2), 0)])
    two, three = np.mean(counts, axis=0)
    assert abs(two - 400) < 4 * 3 * error * 1000 / 60**0.5
    assert abs(three - 200) < 4 * 7 * error * 1000 / 60**0.5
