"""Views: all open windows that start at the same place, in flat arrays, for the kernels.

A view's k is the largest of its open windows. It falls as these are answered; at 0, when all are,
the view is dropped. Views are in the order of their starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints
from skyband.workload.schedule import Windows


class Views(NamedTuple):
    """One entry per view, oldest first.

    ``start``    place from which on its windows hold rows
    ``k``        rows that it ranks, 0 once all its windows are answered
    ``filled``   rows that are predicted for it
    ``pointer``  by structure: the node of its worst predicted row, or where its list begins
    ``least``    score of its worst predicted row, -inf as long as it is not full
    ``floor``    per block of views, a lower bound of ``least``
    ``bounds``   the first view that is not dropped (``first``); entries used (``end``); the newest
                 place that was read (``newest``)
    """

    start: Ints
    k: Ints
    filled: Ints
    pointer: Ints
    least: Floats
    floor: Floats
    bounds: Record


_BOUNDS = fields("first", "end", "newest")
BLOCK = 6  # bits: 64 views in a block
_BEFORE_ALL = -(1 << 62)


def no_views(room: int) -> Views:
    """Room for ``room`` views, and none yet."""
    columns = (np.zeros(room, np.int64) for _ in range(4))
    floor = np.full((room >> BLOCK) + 1, -np.inf)
    return Views._make([*columns, np.zeros(room), floor, record(_BOUNDS, newest=_BEFORE_ALL)])


def with_room(views: Views) -> Views:
    """The same views with twice the room."""
    more = max(len(views.start), 16)
    longer = [np.concatenate([column, np.zeros(more, column.dtype)]) for column in views[:5]]
    floor = np.full((len(longer[0]) >> BLOCK) + 1, -np.inf)
    return Views._make([*longer, floor, views.bounds])


@lean
def lacks_view(views: Views) -> bool:
    """Whether there is no room for one more view; first closes the gaps of dropped ones."""
    bounds = views.bounds[0]
    if bounds.end < len(views.start):
        return False
    to = 0
    for view in range(bounds.first, bounds.end):
        if views.k[view] > 0:
            views.start[to] = views.start[view]
            views.k[to] = views.k[view]
            views.filled[to] = views.filled[view]
            views.pointer[to] = views.pointer[view]
            views.least[to] = views.least[view]
            to += 1
    for block in range(len(views.floor)):
        views.floor[block] = -np.inf
    bounds.first = 0
    bounds.end = to
    return 2 * to > len(views.start)


@lean
def next_window(views: Views, windows: Windows) -> int:
    """The first window, by start, that starts after the newest place that was read. O(log)."""
    newest = views.bounds[0].newest
    low, high = 0, len(windows.start)
    while low < high:
        middle = (low + high) >> 1
        if windows.start[middle] <= newest:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def open_view(views: Views, start: int) -> int:
    """Append a view that starts at a place, unless the last one does; return its entry. O(1)."""
    bounds = views.bounds[0]
    newest = bounds.end - 1
    if newest >= bounds.first and views.start[newest] == start and views.k[newest] > 0:
        return newest
    view = newest + 1
    views.start[view] = start
    views.k[view] = 0
    views.filled[view] = 0
    views.pointer[view] = 0
    views.least[view] = -np.inf
    views.floor[view >> BLOCK] = -np.inf
    bounds.end = view + 1
    return view


@lean
def find_view(views: Views, start: int) -> int:
    """The first view that starts at a place or later. O(log)."""
    low, high = views.bounds[0].first, views.bounds[0].end
    while low < high:
        middle = (low + high) >> 1
        if views.start[middle] < start:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def largest_k(windows: Windows, start: int, done: int) -> int:
    """The largest k of the windows that start at a place and end after ``done``, or 0."""
    low, high = 0, len(windows.start)
    while low < high:
        middle = (low + high) >> 1
        if windows.start[middle] < start:
            low = middle + 1
        else:
            high = middle
    most = 0
    while low < len(windows.start) and windows.start[low] == start:
        if windows.end[low] > done:
            most = max(most, windows.k[low])
        low += 1
    return most


@lean
def drop_answered(views: Views) -> None:
    """Drop the oldest views whose windows are all answered."""
    bounds = views.bounds[0]
    while bounds.first < bounds.end and views.k[bounds.first] == 0:
        bounds.first += 1
