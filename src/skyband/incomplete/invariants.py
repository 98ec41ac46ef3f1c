"""Invariants of EAA, Theorem 1: what is kept is the k dominance set, by comparing all pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from skyband.incomplete.query import TopKIncomplete

Row = tuple[int, int, float]  # id, stream number, value


def window_rows(past: Mapping[int, Row], size: int) -> dict[int, Row]:
    """The rows of the last count window that have a value."""
    first = len(past) - size
    return {seq: row for seq, row in past.items() if seq >= first and not math.isnan(row[2])}


class Instance(NamedTuple):
    """An object from one last window on: what it is worth, and what it may yet be worth."""

    id: int
    until: int
    current: float
    best: float


def instances(
    query: TopKIncomplete,
    last_window: Callable[[int], int],
    rows: Mapping[int, Row],
    seen: Mapping[int, list[int]],
) -> dict[tuple[int, int], Instance]:
    """The instances of all objects by (id, last window); ``seen`` counts values by stream."""
    by_key = {}
    for object_id in {row[0] for row in rows.values()}:
        own_rows = {seq: row for seq, row in rows.items() if row[0] == object_id}
        for until in {last_window(seq) for seq in own_rows}:
            values: dict[int, float] = {}
            for seq in sorted(own_rows):
                if last_window(seq) >= until:
                    _, stream, value = own_rows[seq]
                    known = values.get(stream)
                    if known is not None:
                        value = known + value if query.most > 1 else max(known, value)
                    values[stream] = value
            best = {}
            for stream, high in enumerate(query.high.tolist()):
                left = query.most - seen[object_id][stream]
                if left > 0:
                    best[stream] = values.get(stream, 0.0) + left * high
                elif stream in values:
                    best[stream] = values[stream]
            current, highest = _score(query, values), _score(query, best)
            by_key[object_id, until] = Instance(object_id, until, current, highest)
    return by_key


def _score(query: TopKIncomplete, values: Mapping[int, float]) -> float:
    full = [values.get(stream, low) for stream, low in enumerate(query.low.tolist())]
    return float(query.scores(np.array([full]))[0])


def dominators(one: Instance, among: Mapping[Any, Instance]) -> int:
    """How many distinct objects dominate an instance."""
    better = (
        other.id
        for other in among.values()
        if other.until >= one.until and other.id != one.id and other.current > one.best
    )
    return len(set(better))


def check_dominance(
    query: TopKIncomplete,
    k: int,
    last_window: Callable[[int], int],
    past: Mapping[int, Row],
    kept: Mapping[int, Row],
    seen: Mapping[int, list[int]],
    counted: int,
) -> None:
    """Assert that what is kept suffices, and that nothing kept is dominated by k objects.

    ``past`` are all rows of a count window's stream so far, ``seen`` what is known of objects,
    ``counted`` how many instances the algorithm counts in the k dominance set.
    """
    alive = window_rows(past, query.window.size)
    assert all(alive[seq] == row for seq, row in kept.items()), "1: not rows of the window"
    ranked = {seq: row for seq, row in past.items() if not math.isnan(row[2])}
    by_window = instances(query, last_window, alive, lives(query, last_window, ranked))
    by_kept = instances(query, last_window, kept, seen)
    if query.repeats == "max":
        _check_rows(query, k, last_window, alive, kept, by_window, by_kept)
        return
    oldest: dict[int, Instance] = {}
    for object_id, until in sorted(by_kept, reverse=True):
        oldest[object_id] = by_kept[object_id, until]
    if isinstance(query.repeats, str):  # sums are compared up to rounding
        for one in oldest.values():
            assert dominators(one, by_kept) < k, "3: the oldest instance is dominated"
        free = sum(dominators(one, by_kept) < k for one in by_kept.values())
        assert counted == free, "3: instances are miscounted"
    for key, one in by_window.items():
        if key not in by_kept:
            assert dominators(one, by_kept) >= k, "2: an instance is missing"


def lives(
    query: TopKIncomplete, last_window: Callable[[int], int], rows: Mapping[int, Row]
) -> dict[int, list[int]]:
    """How often each object was seen in each stream since it was last without rows."""
    counts: dict[int, list[int]] = {}
    until: dict[int, int] = {}
    slide = query.window.slide
    for seq, (object_id, stream, _) in rows.items():
        if until.get(object_id, -1) < seq // slide + 1:
            counts[object_id] = [0] * len(query.streams)
        counts[object_id][stream] += 1
        until[object_id] = last_window(seq)
    return counts


def _check_rows(
    query: TopKIncomplete,
    k: int,
    last_window: Callable[[int], int],
    alive: Mapping[int, Row],
    kept: Mapping[int, Row],
    by_window: Mapping[Any, Instance],
    by_kept: Mapping[Any, Instance],
) -> None:
    high = dict(enumerate(query.high.tolist()))
    for seq, (object_id, stream, value) in alive.items():
        outdone = any(
            other > seq and row[:2] == (object_id, stream) and row[2] >= value
            for other, row in alive.items()
        )
        best = _score(query, high | {stream: value})
        one = Instance(object_id, last_window(seq), -math.inf, best)
        same_object = [other for other, row in kept.items() if row[0] == object_id]
        if seq not in kept:
            assert outdone or dominators(one, by_kept) >= k, "2: a row is missing"
        elif len(same_object) == 1 or seq != max(same_object):  # the newest row decides ties
            assert not outdone, "3: an older value is outdone"
            assert dominators(one, by_window) < k, "3: a row is dominated"
