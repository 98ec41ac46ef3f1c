"""The k best rows so far of open windows, where only the k best of a pane can be answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.snapshot import Saved
from skyband.order import Bools, Floats, Ints, place_in_group
from skyband.windows import Panes, require_few_windows

_PAIRS = 1 << 16  # rows, each counted once per window that it is in, that are ranked at once
_FEW_PANES = 16  # panes that are looked at one by one, to leave little to sort
_NONE: Ints = np.empty(0, np.int64)


class Entries(NamedTuple):
    """Rows of windows: the number of the window, score, place in the stream, id."""

    window: Ints
    score: Floats
    place: Ints
    id: Ints

    def take(self, places: Any) -> Entries:
        """The entries at these places: numbers, a mask or a slice."""
        return Entries._make(column[places] for column in self)


class OpenRankings:
    """Maintains the k best rows of each open window, as they come.

    A row that is in an open window stays in it. So a window ranks what it ranked before and the
    rows that have come since, and no state of an algorithm is needed.

    Invariants: (1) entries stand by window, and within a window best first: higher score, then
    newer, then larger id; (2) a window has k entries at most, and all that it holds if they are
    fewer.

    Complexity: per push O(rows log rows), O(1) for each window that a row of the k best of its pane
    is in, and O(entries) if a ranking changes; space O(k) per open window.
    """

    def __init__(self, panes: Panes, k: int) -> None:
        self._panes = panes
        self._k = k
        self.entries = Entries(_NONE, np.empty(0), _NONE, _NONE)
        self.current = -1  # the window that was reported last, where only one is

    def insert(self, score: Floats, place: Ints, ids: Ints, first: int) -> Ints:
        """Take in rows, in any order; returns the windows whose rankings changed, ascending.

        Windows before ``first`` are final, and forgotten.
        """
        final = int(np.searchsorted(self.entries.window, first))
        if final:
            self.entries = self.entries.take(slice(final, None))
        rows = self._contenders(score, place, ids, first)
        begin = np.maximum(self._panes.first_windows(rows.place), first)
        count = rows.window - begin + 1
        require_few_windows(int(count.max(initial=0)))
        # the best rows first: they leave little to do for the others
        bounds = np.searchsorted(np.cumsum(count), np.arange(_PAIRS, int(count.sum()), _PAIRS))
        changed = [
            self._merge(part, begin[at], count[at])
            for at in np.split(np.arange(len(count)), np.unique(bounds))
            if len((part := rows.take(at)).score)
        ]
        return np.unique(np.concatenate(changed)) if changed else _NONE

    def _contenders(self, score: Floats, place: Ints, ids: Ints, first: int) -> Entries:
        """The k best rows of each pane, best first, and the last window of each: none is final."""
        last = self._panes.last_windows(place)
        alive = np.flatnonzero((last >= first) & (score == score))
        if len(alive) > 8 * self._k:
            pane = last[alive] + self._panes.first_windows(place[alive])
            alive = alive[_maybe_best(score[alive], pane, self._k)]
        rows = Entries(last[alive], score[alive] + 0.0, place[alive], ids[alive])
        rows = rows.take(np.lexsort((~rows.id, ~rows.place, -rows.score)))
        if len(alive) <= self._k:
            return rows
        pane = rows.window + self._panes.first_windows(rows.place)  # both rise from pane to pane
        order = np.argsort(pane, kind="stable")
        best = np.zeros(len(order), np.bool_)
        best[order] = place_in_group(pane[order]) < self._k
        return rows.take(best)

    def _merge(self, rows: Entries, begin: Ints, count: Ints) -> Ints:
        """Rank rows in all of their windows; returns the windows whose rankings changed."""
        row = np.repeat(np.arange(len(count)), count)
        window = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(len(row))
        enters = self._enters(window, rows.score[row])
        row, window = row[enters], window[enters]
        if not len(row):
            return _NONE
        before, touched = self.entries, np.unique(window)
        stays = ~_among(before.window, touched)
        new = rows.take(row)._replace(window=window)
        ranked = Entries._make(
            np.concatenate(pair) for pair in zip(before.take(~stays), new, strict=True)
        )
        is_new = np.arange(len(ranked.window)) >= len(ranked.window) - len(window)
        order = np.lexsort((~ranked.id, ~ranked.place, -ranked.score, ranked.window))
        best = order[place_in_group(ranked.window[order]) < self._k]
        changed = np.unique(ranked.window[best[is_new[best]]])
        if len(changed):
            pairs = zip(before.take(stays), ranked.take(best), strict=True)
            together = Entries._make(map(np.concatenate, pairs))
            self.entries = together.take(np.argsort(together.window, kind="stable"))
        return changed

    def _enters(self, window: Ints, score: Floats) -> Bools:
        """Which scores may be ranked in these windows: a full one asks for its worst, or more."""
        entries = self.entries
        if not len(entries.window):
            return np.ones(len(window), np.bool_)
        begin = np.searchsorted(entries.window, window, side="left")
        end = np.searchsorted(entries.window, window, side="right")
        return (end - begin < self._k) | (score >= entries.score[end - 1])

    def of(self, windows: Ints) -> tuple[Entries, Ints]:
        """The entries of these windows, ascending, and where each window's begin and end."""
        entries = self.entries.take(_among(self.entries.window, windows))
        return entries, np.append(np.searchsorted(entries.window, windows), len(entries.window))

    def saved(self) -> Saved:
        """All of it as plain values and arrays."""
        return {"current": self.current}, self.entries._asdict()

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        self.current = header["current"]
        self.entries = Entries(**arrays)


def _maybe_best(score: Floats, pane: Ints, k: int) -> Bools:
    """Which rows can be among the k best of their pane; all, if panes are many. O(rows)."""
    among = np.ones(len(score), np.bool_)
    low, high = int(pane.min()), int(pane.max())
    for each in range(low, high + 1) if high - low < _FEW_PANES else ():
        rows = np.flatnonzero(pane == each)
        if len(rows) > k:
            among[rows] = score[rows] >= np.partition(score[rows], len(rows) - k)[len(rows) - k]
    return among


def _among(windows: Ints, some: Ints) -> Bools:
    """Which windows are among some, which ascend."""
    if not len(some):
        return np.zeros(len(windows), np.bool_)
    at = np.minimum(np.searchsorted(some, windows), len(some) - 1)
    return some[at] == windows
