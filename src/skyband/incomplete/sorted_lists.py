"""A list of rows per stream, by falling value: merged when they are read, not row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.objects import Store
from skyband.kernels.answers import Ranked, ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, rank
from skyband.order import Floats, Ints


class Lists(NamedTuple):
    """The rows of stream ``s``, best first, are ``start[s]`` to ``start[s + 1]``."""

    value: Floats
    seq: Ints
    start: Ints
    next_value: Floats  # room for the lists after the next merge
    next_seq: Ints
    fresh: Ranked  # room for the rows of one stream that are not merged yet
    merged: Ints  # one element: rows from this number on are not merged yet


def lists(room: int, width: int) -> Lists:
    """Empty lists with room for so many rows."""
    return Lists(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(width + 1, np.int64),
        np.zeros(room),
        np.zeros(room, np.int64),
        ranked(room),
        np.zeros(1, np.int64),
    )


def roomier_lists(old: Lists, room: int) -> Lists:
    """The same lists with room for more rows."""
    fresh = lists(room, len(old.start) - 1)
    fresh.value[: len(old.value)], fresh.seq[: len(old.seq)] = old.value, old.seq
    fresh.start[:], fresh.merged[:] = old.start, old.merged
    return fresh


@lean
def place_of_seq(store: Store, seq: int) -> int:
    """The first row with this number or a later one. O(log rows)."""
    low, high = store.now[0].first, store.now[0].end
    while low < high:
        middle = (low + high) >> 1
        if store.rows.seq[middle] < seq:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def merge(by_value: Lists, store: Store) -> None:
    """Bring the lists up to date. O(rows + fresh log fresh)."""
    now, start, width = store.now[0], by_value.start, store.rule.form[0].streams
    empty = now.first == now.end
    first = 1 << 62 if empty else store.rows.seq[now.first]
    begin = place_of_seq(store, by_value.merged[0])
    to, old = 0, 0
    for stream in range(width):
        _gather(by_value.fresh, store, begin, stream)
        high = start[stream + 1]
        start[stream] = to
        to = _merge_stream(by_value, old, high, first, to)
        old = high
    start[width] = to
    for at in range(to):
        by_value.value[at] = by_value.next_value[at]
        by_value.seq[at] = by_value.next_seq[at]
    if not empty:
        by_value.merged[0] = store.rows.seq[now.end - 1] + 1


@lean
def _gather(fresh: Ranked, store: Store, begin: int, stream: int) -> None:
    """The rows of one stream from ``begin`` on, by falling value."""
    size = 0
    for row in range(begin, store.now[0].end):
        if store.rows.stream[row] == stream:
            fresh.score[size] = store.rows.value[row]
            fresh.seq[size] = store.rows.seq[row]
            size += 1
    fresh.size[0] = size
    rank(fresh)


@lean
def _merge_stream(by_value: Lists, old: int, high: int, first: int, to: int) -> int:
    """Write the old rows that are alive and the fresh ones; returns where the next one goes."""
    fresh, at = by_value.fresh, 0
    while True:
        while old < high and by_value.seq[old] < first:
            old += 1
        if old == high and at == fresh.size[0]:
            return to
        if at == fresh.size[0] or (
            old < high
            and better(by_value.value[old], by_value.seq[old], fresh.score[at], fresh.seq[at])
        ):
            by_value.next_value[to] = by_value.value[old]
            by_value.next_seq[to] = by_value.seq[old]
            old += 1
        else:
            by_value.next_value[to] = fresh.score[at]
            by_value.next_seq[to] = fresh.seq[at]
            at += 1
        to += 1
