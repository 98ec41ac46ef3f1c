"""Sorting scores by their bits: a few passes over small counters, no comparisons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints

_DIGITS, _BUCKETS = 8, 256


class Radix(NamedTuple):
    """Room to sort in: keys with their items, twice, and a counter per digit and bucket."""

    key: Ints
    item: Ints
    other_key: Ints
    other_item: Ints
    counts: Ints


def radix(capacity: int) -> Radix:
    """Room for ``capacity`` keys."""
    columns = (np.zeros(max(capacity, 1), np.int64) for _ in range(4))
    return Radix._make([*columns, np.zeros(_DIGITS * _BUCKETS, np.int64)])


def sortable(scores: Floats) -> Ints:
    """Whole numbers in the order of the scores; -0.0 is 0.0.

    >>> sortable(np.array([-1.0, -0.0, 0.0, 2.5])).argsort().tolist()
    [0, 1, 2, 3]
    """
    bits = (scores + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


@lean
def sort_up(room: Radix, size: int) -> bool:
    """Sort the first ``size`` keys upward, equal ones as they stood. O(size).

    Returns whether the result is in ``other_key`` and ``other_item``.
    """
    count = room.counts
    for at in range(_DIGITS * _BUCKETS):
        count[at] = 0
    for i in range(size):
        key = room.key[i]
        for digit in range(_DIGITS):
            count[digit * _BUCKETS + _bucket(key, digit)] += 1
    swapped = False
    for digit in range(_DIGITS):
        first = digit * _BUCKETS
        key = room.other_key[0] if swapped else room.key[0]
        if count[first + _bucket(key, digit)] == size:  # all in one bucket
            continue
        ahead = 0
        for bucket in range(first, first + _BUCKETS):
            keys = count[bucket]
            count[bucket] = ahead
            ahead += keys
        if swapped:
            _scatter(room.other_key, room.other_item, room.key, room.item, count, digit, size)
        else:
            _scatter(room.key, room.item, room.other_key, room.other_item, count, digit, size)
        swapped = not swapped
    return swapped


@lean
def _bucket(key: int, digit: int) -> int:
    byte = (key >> (8 * digit)) & 255
    return byte ^ 128 if digit == _DIGITS - 1 else byte  # negative keys come first


@lean
def _scatter(
    key: Ints, item: Ints, to_key: Ints, to_item: Ints, count: Ints, digit: int, size: int
) -> None:
    first = digit * _BUCKETS
    for i in range(size):
        bucket = first + _bucket(key[i], digit)
        to = count[bucket]
        count[bucket] = to + 1
        to_key[to] = key[i]
        to_item[to] = item[i]
