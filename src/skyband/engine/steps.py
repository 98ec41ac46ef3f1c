"""Pane arithmetic: which windows an object lives in, and in what steps a stream is answered.

Windows are numbered: window ``j`` ends at ``offset + j * slide`` and starts ``size`` earlier. The
objects that arrive between two window ends are one *step*: they enter the answers together, with
window ``j``. Within a step at most one boundary separates objects whose last window is ``j - 1 +
size // slide`` from those that live one window longer (only if the slide does not divide the
window). These are the panes: two lengths at most, and objects of a pane share their whole life.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.snapshot import Saved
from skyband.order import Bools, Ints
from skyband.windows import Panes, require_few_windows


class Steps(NamedTuple):
    """How a batch is answered: one entry per step, flat arrays for the kernels.

    ``stop``    batch position after the step's last object
    ``split``   batch position from which the step's objects live one window longer
    ``window``  number of the window that the step completes
    ``first``   sequence number of the first object inside that window; older ones have expired
    ``emit``    whether the window is answered at the end of the step
    ``starts``  sequence numbers at which the windows to come start, ascending, as far as known
                (time windows; empty for count windows, where arithmetic tells)
    ``base``    one element: sequence number of the batch's first object
    """

    stop: Ints
    split: Ints
    window: Ints
    first: Ints
    emit: Bools
    starts: Ints
    base: Ints


def in_one_window(steps: Steps, panes: Panes) -> Steps:
    """Put rows that leave together into one window, which the first of them tells.

    So an algorithm that asks how long each row lives need not know of such windows.
    """
    return steps._replace(window=steps.first) if panes.together else steps


_NONE = np.empty(0, dtype=np.int64)
_YES, _NO = np.array([True]), np.array([False])


def count_steps(panes: Panes, arrived: int, rows: int, full: bool) -> Steps:
    """Steps of a batch of ``rows`` objects after ``arrived`` earlier ones, in count windows.

    The last step may be a part of one: its window is completed, and answered, by a later batch.
    """
    first = arrived // panes.slide + 1
    last = -(-(arrived + rows) // panes.slide)
    if first == last:
        return _one_step(panes, arrived, rows, full)
    window = np.arange(first, last + 1, dtype=np.int64)
    end = window * panes.slide
    rest = panes.size % panes.slide
    stop = np.minimum(end - arrived, rows)
    split = np.clip(end - rest - arrived, 0, stop) if rest else stop
    emit = end <= arrived + rows
    if full:
        emit &= end >= panes.size
    return Steps(
        stop,
        split,
        window,
        np.maximum(end - panes.size, 0),
        emit,
        _NONE,
        np.array([arrived], dtype=np.int64),
    )


def open_count_steps(panes: Panes, arrived: int, full: bool, current: bool) -> Steps:
    """Steps without rows that answer the count windows which have begun and are not complete.

    ``current``: the first of them alone.
    """
    first = arrived // panes.slide + 1
    if full:
        first = max(first, -(-panes.size // panes.slide))
    last = (arrived - 1 + panes.size) // panes.slide if arrived else 0
    window = np.arange(first, min(first, last) + 1 if current else last + 1, dtype=np.int64)
    require_few_windows(len(window))
    none = np.zeros(len(window), np.int64)
    first_row = np.maximum(window * panes.slide - panes.size, 0)
    emit = np.ones(len(window), np.bool_)
    return Steps(none, none, window, first_row, emit, _NONE, np.array([arrived], np.int64))


def _one_step(panes: Panes, arrived: int, rows: int, full: bool) -> Steps:
    """Steps of a batch within one step: small batches are many, so no array more than needed."""
    window = arrived // panes.slide + 1
    end = window * panes.slide
    stop = min(end - arrived, rows)
    rest = panes.size % panes.slide
    split = min(max(end - rest - arrived, 0), stop) if rest else stop
    complete = end <= arrived + rows and not (full and end < panes.size)
    numbers = np.array([[stop], [split], [window], [max(end - panes.size, 0)], [arrived]])
    emit = _YES if complete else _NO
    return Steps(numbers[0], numbers[1], numbers[2], numbers[3], emit, _NONE, numbers[4])


class TimeSteps:
    """Maintains how far time windows were answered, and cuts sorted batches into steps.

    Remembers the *lives* of what was fed: for each last window that living objects have, the
    sequence number at which they begin. Space: O(size / slide).

    Windows in which nothing is alive are skipped, however long the gap; with ``farewell`` the
    first of them is answered all the same, so that a reader of changes sees the last objects
    leave.

    Complexity: O(windows log rows), or O(rows) where windows are many more than rows.
    """

    def __init__(self, panes: Panes, farewell: bool) -> None:
        self.panes = panes
        self.farewell = farewell
        self.fed = 0  # objects handed to the kernels so far: the next sequence number
        self.done: int | None = None  # every window up to this one is answered or skipped
        self.alive_until: int | None = None  # last window of the newest object fed
        self.life = _NONE  # last windows of living objects, ascending
        self.life_from = _NONE  # the sequence number at which each of them begins

    def cut(self, times: Ints, closed: int) -> Steps:
        """Steps for a sorted batch in which every time is before ``panes.end(closed)``.

        ``closed`` is the last window that the watermark has passed; windows up to it in which
        anything is alive are answered.
        """
        panes = self.panes
        life, life_begins = self._lives(times)
        window = self._windows(times, closed)
        ends = panes.ends(window)
        rest = panes.size % panes.slide
        stop = np.searchsorted(times, ends, side="left").astype(np.int64)
        split = np.searchsorted(times, ends - rest, side="left").astype(np.int64) if rest else stop
        base = self.fed
        self._admit(times, life, life_begins)
        expiry = np.searchsorted(self.life, window, side="left")
        first = np.concatenate([self.life_from, np.array([self.fed], dtype=np.int64)])[expiry]
        starts = self.life_from
        gone = int(np.searchsorted(self.life, closed, side="right"))
        self.life, self.life_from = self.life[gone:].copy(), self.life_from[gone:].copy()
        self.done = closed if self.done is None else max(closed, self.done)
        return Steps(
            stop,
            split,
            window,
            first,
            np.ones(len(window), dtype=np.bool_),
            starts,
            np.array([base], dtype=np.int64),
        )

    def _lives(self, times: Ints) -> tuple[Ints, Ints]:
        """The last windows of a batch's objects, each once, and where in the batch they begin."""
        panes = self.panes
        if not len(times):
            return _NONE, _NONE
        oldest, newest = panes.last_window(int(times[0])), panes.last_window(int(times[-1]))
        if 4 * (newest - oldest) > len(times):
            life = panes.last_windows(times)
            begins = np.flatnonzero(np.append(True, life[1:] != life[:-1]))
            return life[begins], begins
        life = np.arange(oldest, newest + 1, dtype=np.int64)
        bounds = np.searchsorted(times, panes.starts(life))
        inhabited = np.append(bounds[1:], len(times)) > bounds
        return life[inhabited], bounds[inhabited]

    def _windows(self, times: Ints, closed: int) -> Ints:
        """The windows up to ``closed`` in which anything is alive."""
        begin, final = self._entries(times)
        if self.done is not None:
            begin = np.maximum(begin, self.done + 1)
        if self.alive_until is not None and self.done is not None:
            begin = np.concatenate([np.array([self.done + 1], dtype=np.int64), begin])
            final = np.concatenate([np.array([self.alive_until], dtype=np.int64), final])
        if not len(begin):
            return _NONE
        longest = np.concatenate([begin[1:] != begin[:-1], [True]])
        begin, final = begin[longest], final[longest] + (1 if self.farewell else 0)
        upto = np.minimum(final, np.concatenate([begin[1:] - 1, [closed]]))
        counts = np.maximum(upto - begin + 1, 0)
        require_few_windows(int(counts.sum()))
        ahead = np.cumsum(counts) - counts
        return np.repeat(begin - ahead, counts) + np.arange(int(counts.sum()), dtype=np.int64)

    def _entries(self, times: Ints) -> tuple[Ints, Ints]:
        """First windows of a batch's objects, ascending, and the last window of the newest of each.

        Each first window stands once, unless windows are many more than rows.
        """
        panes = self.panes
        if not len(times):
            return _NONE, _NONE
        oldest, newest = panes.first_window(int(times[0])), panes.first_window(int(times[-1]))
        if 4 * (newest - oldest) > len(times):
            return panes.first_windows(times), panes.last_windows(times)
        entered = np.arange(oldest, newest + 1, dtype=np.int64)
        stops = np.searchsorted(times, panes.ends(entered))
        inhabited = stops > np.append(0, stops[:-1])
        return entered[inhabited], panes.last_windows(times[stops[inhabited] - 1])

    def _admit(self, times: Ints, life: Ints, begins: Ints) -> None:
        """Number the batch's objects and note where each new life begins."""
        if len(life) and len(self.life) and life[0] == self.life[-1]:
            life, begins = life[1:], begins[1:]
        self.life = np.concatenate([self.life, life])
        self.life_from = np.concatenate([self.life_from, self.fed + begins])
        self.fed += len(times)
        if len(times):
            self.alive_until = self.panes.last_window(int(times[-1]))

    def saved(self) -> Saved:
        """How far answers have come, as plain values and arrays."""
        header = {"fed": self.fed, "done": self.done, "alive_until": self.alive_until}
        return header, {"life": self.life, "life_from": self.life_from}

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        self.fed, self.done = header["fed"], header["done"]
        self.alive_until = header["alive_until"]
        self.life, self.life_from = arrays["life"], arrays["life_from"]
