"""Pane arithmetic: which windows an object lives in, and in what steps a stream is answered.

Windows are numbered: window ``j`` ends at ``offset + j * slide`` and starts ``size`` earlier. The
objects that arrive between two window ends are one *step*: they enter the answers together, with
window ``j``. Within a step at most one boundary separates objects whose last window is ``j - 1 +
size // slide`` from those that live one window longer (only if the slide does not divide the
window). These are the panes: two lengths at most, and objects of a pane share their whole life.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.errors import DataError
from skyband.order import Bools, Ints
from skyband.windows import Panes


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


_NONE = np.empty(0, dtype=np.int64)
_MOST = 100_000_000  # windows that one batch may complete


def count_steps(panes: Panes, arrived: int, rows: int, full: bool) -> Steps:
    """Steps of a batch of ``rows`` objects after ``arrived`` earlier ones, in count windows.

    The last step may be a part of one: its window is completed, and answered, by a later batch.
    """
    first = arrived // panes.slide + 1
    last = -(-(arrived + rows) // panes.slide)
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


class TimeSteps:
    """Steps of sorted batches in time windows, across pushes.

    Remembers the *lives* of what was fed: for each last window that living objects have, the
    sequence number at which they begin; and how far the answers have come. Space: O(size / slide).

    Windows in which nothing is alive are skipped, however long the gap; with ``farewell`` the
    first of them is answered all the same, so that a reader of changes sees the last objects
    leave.
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
        window = self._windows(times, closed)
        ends = panes.offset + window * panes.slide
        rest = panes.size % panes.slide
        stop = np.searchsorted(times, ends, side="left").astype(np.int64)
        split = np.searchsorted(times, ends - rest, side="left").astype(np.int64) if rest else stop
        base = self.fed
        self._admit(times)
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

    def _windows(self, times: Ints, closed: int) -> Ints:
        """The windows up to ``closed`` in which anything is alive."""
        begin = self.panes.first_windows(times)
        final = self.panes.last_windows(times)
        if self.alive_until is not None and self.done is not None:
            begin = np.concatenate([np.array([self.done + 1], dtype=np.int64), begin])
            final = np.concatenate([np.array([self.alive_until], dtype=np.int64), final])
        if not len(begin):
            return _NONE
        longest = np.concatenate([begin[1:] != begin[:-1], [True]])
        begin, final = begin[longest], final[longest] + (1 if self.farewell else 0)
        upto = np.minimum(final, np.concatenate([begin[1:] - 1, [closed]]))
        counts = np.maximum(upto - begin + 1, 0)
        if int(counts.sum()) > _MOST:
            raise DataError(
                f"a batch that completes {int(counts.sum()):,} windows",
                f"{_MOST:,} at most",
                "use a larger slide, or advance the watermark in smaller steps",
            )
        ahead = np.cumsum(counts) - counts
        return np.repeat(begin - ahead, counts) + np.arange(int(counts.sum()), dtype=np.int64)

    def _admit(self, times: Ints) -> None:
        """Number the batch's objects and note where each new life begins."""
        life = self.panes.last_windows(times)
        before = self.life[-1:] if len(self.life) else np.array([-(1 << 62)], dtype=np.int64)
        begins = np.flatnonzero(np.diff(life, prepend=before))
        self.life = np.concatenate([self.life, life[begins]])
        self.life_from = np.concatenate([self.life_from, self.fed + begins])
        self.fed += len(times)
        if len(times):
            self.alive_until = int(life[-1])
