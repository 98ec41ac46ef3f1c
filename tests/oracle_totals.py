"""The contract of totals, executable: add up each key of each window. Standard library only.

Rows are (key, value, position): the position is the arrival number or the time. Values that are
NULL (None) or NaN are left out; in count windows they still count as rows. But for "first" and
"last" they are rows like others: a key whose first (last) value is NULL is not ranked. ``order`` is
what :func:`tests.oracle.best` takes: ``ties``, by the newest row of each key, and ``rank_by``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

from tests.oracle import (
    Answer,
    all_time_windows,
    best,
    cumulative_windows,
    ranks,
    time_windows,
)


def exact_sum(values, count=1):
    """The sum divided by a count, rounded once; None if it is not a number."""
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else None
    exact = sum(map(Fraction, values), Fraction(0)) / count
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def total(by, values):
    """The aggregate of the values of a key; a sum of whole numbers is one."""
    if by == "count":
        return float(len(values))
    if by in ("max", "min"):
        return {"max": max, "min": min}[by](values)
    if by == "sum" and all(isinstance(value, int) for value in values):
        return sum(values)
    return exact_sum(values, len(values) if by == "mean" else 1)


def end_value(by, rows):
    """The value of the first or last of (position, value) pairs; None if that is NULL.

    Of equal positions the larger value counts, and NULL is less than every number.
    """
    end = {"first": min, "last": max}[by](position for position, _ in rows)
    return max(
        (value for position, value in rows if position == end and ranks(value)), default=None
    )


def best_ends(rows, by, k, **order):
    """:func:`best_keys` by first or last values."""
    rows_by_key = defaultdict(list)
    for key, value, position in rows:
        rows_by_key[key].append((position, value))
    totals = {key: end_value(by, pairs) for key, pairs in rows_by_key.items()}
    newest = {key: max(position for position, _ in pairs) for key, pairs in rows_by_key.items()}
    return best([(t, newest[key], key) for key, t in totals.items() if t is not None], k, **order)


def best_keys(rows, by, k, **order):
    """The k best (total, key) of (key, value, position) triples."""
    if by in ("first", "last"):
        return best_ends(rows, by, k, **order)
    values_by_key = defaultdict(list)
    newest = {}
    for key, value, position in rows:
        if ranks(value):
            values_by_key[key].append(value)
            newest[key] = max(newest.get(key, position), position)
    totals = {key: total(by, values) for key, values in values_by_key.items()}
    return best([(t, newest[key], key) for key, t in totals.items() if t is not None], k, **order)


def count_totals(keys, values, n, s, by, k, full=False, **order):
    """Every window over a sequence of rows, answered after every s arrivals."""
    rows = list(zip(keys, values, range(len(keys)), strict=True))
    return [
        Answer(max(0, end - n), end, best_keys(rows[max(0, end - n) : end], by, k, **order))
        for end in range(s, len(rows) + 1, s)
        if end >= n or not full
    ]


def shown(values, by):
    """Values as windows see them: a window is answered if it holds one that is not NULL."""
    return [0.0] * len(values) if by in ("first", "last") else values


def time_totals(keys, values, times, size, slide, by, k, offset=0, **order):
    """Every window that holds a row."""
    windows = time_windows(shown(values, by), times, size, slide, 1, offset)
    return totals_in(windows, keys, values, times, by, k, **order)


def cumulative_totals(keys, values, times, period, every, by, k, offset=0, **order):
    """What each period has held so far, at every step from its first row to its end."""
    windows = cumulative_windows(shown(values, by), times, period, every, 1, offset)
    return totals_in(windows, keys, values, times, by, k, **order)


def all_time_totals(keys, values, times, every, by, k, **order):
    """All rows before an end, at every step from the first row to the last."""
    windows = all_time_windows(shown(values, by), times, every, 1)
    return totals_in(windows, keys, values, times, by, k, **order)


def totals_in(windows, keys, values, times, by, k, **order):
    """The best keys of each of these windows."""
    rows = list(zip(keys, values, times, strict=True))
    return [
        Answer(
            window.start,
            window.end,
            best_keys([row for row in rows if window.start <= row[2] < window.end], by, k, **order),
        )
        for window in windows
    ]
