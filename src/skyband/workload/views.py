"""Views: all open windows that start at the same place, in flat arrays, for the kernels.

A view's k is the largest that its open windows ask for; it falls when the window that asked for it
is answered, and at 0 the view is gone. Views stand in the order of their starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints
from skyband.workload.schedule import Windows


class Views(NamedTuple):
    """One entry per view, oldest first.

    ``start``    place from which on its windows hold rows
    ``k``        rows that it ranks, 0 once all its windows are answered
    ``filled``   rows that are predicted for it
    ``held``     the structure's own: a node, or where its list begins
    ``least``    score of its worst predicted row, -inf as long as it is not full
    ``floor``    per block of views, a bound that no ``least`` in it is below
    ``numbers``  first view that is not gone, views, newest place that was read
    """

    start: Ints
    k: Ints
    filled: Ints
    held: Ints
    least: Floats
    floor: Floats
    numbers: Ints


HEAD, COUNT, NEWEST = 0, 1, 2
BLOCK = 6  # bits: 64 views in a block
_BEFORE_ALL = -(1 << 62)


def views(room: int) -> Views:
    """No views, and room for some."""
    numbers = np.array([0, 0, _BEFORE_ALL], np.int64)
    columns = (np.zeros(room, np.int64) for _ in range(4))
    floor = np.full((room >> BLOCK) + 1, -np.inf)
    return Views._make([*columns, np.zeros(room), floor, numbers])


def with_room(held: Views) -> Views:
    """The same views, and room for as many more."""
    more = max(len(held.start), 16)
    longer = [np.concatenate([column, np.zeros(more, column.dtype)]) for column in held[:5]]
    floor = np.full((len(longer[0]) >> BLOCK) + 1, -np.inf)
    return Views._make([*longer, floor, held.numbers])


@lean
def lacks_view(held: Views) -> bool:
    """Whether there is no room for one more view, even without those that are gone."""
    if held.numbers[COUNT] < len(held.start):
        return False
    to = 0
    for view in range(held.numbers[HEAD], held.numbers[COUNT]):
        if held.k[view] > 0:
            held.start[to] = held.start[view]
            held.k[to] = held.k[view]
            held.filled[to] = held.filled[view]
            held.held[to] = held.held[view]
            held.least[to] = held.least[view]
            to += 1
    for block in range(len(held.floor)):
        held.floor[block] = -np.inf
    held.numbers[HEAD] = 0
    held.numbers[COUNT] = to
    return 2 * to > len(held.start)


@lean
def next_window(held: Views, open: Windows) -> int:
    """The first window, by start, that began after the newest place that was read. O(log)."""
    low, high = 0, len(open.start)
    while low < high:
        middle = (low + high) >> 1
        if open.start[middle] <= held.numbers[NEWEST]:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def open_view(held: Views, start: int) -> int:
    """Begin a view, or find the newest one if it starts there. O(1)."""
    newest = held.numbers[COUNT] - 1
    if newest >= held.numbers[HEAD] and held.start[newest] == start and held.k[newest] > 0:
        return newest
    view = newest + 1
    held.start[view] = start
    held.k[view] = 0
    held.filled[view] = 0
    held.held[view] = 0
    held.least[view] = -np.inf
    held.floor[view >> BLOCK] = -np.inf
    held.numbers[COUNT] = view + 1
    return view


@lean
def find_view(held: Views, start: int) -> int:
    """The view that starts at a place. O(log)."""
    low, high = held.numbers[HEAD], held.numbers[COUNT]
    while low < high:
        middle = (low + high) >> 1
        if held.start[middle] < start:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def still_asked(open: Windows, start: int, done: int) -> int:
    """The largest k among the windows that start at a place and end after ``done``."""
    low, high = 0, len(open.start)
    while low < high:
        middle = (low + high) >> 1
        if open.start[middle] < start:
            low = middle + 1
        else:
            high = middle
    most = 0
    while low < len(open.start) and open.start[low] == start:
        if open.end[low] > done:
            most = max(most, open.k[low])
        low += 1
    return most


@lean
def drop_gone(held: Views) -> None:
    """Move past the oldest views that are gone."""
    while held.numbers[HEAD] < held.numbers[COUNT] and held.k[held.numbers[HEAD]] == 0:
        held.numbers[HEAD] += 1
