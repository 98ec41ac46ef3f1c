"""The meta query and its schedule: which windows of a workload are open, and which are due.

All queries over one score are answered as one *meta query*. Its window is the largest of theirs;
its slides reach from one window bound of any query to the next; its k is, for each *view* (all open
windows that start at the same place), the largest of their k. A schedule keeps the open windows and
says, piece by piece of the stream, which open and which are answered.

Reference: Shastri et al., MTopS (2011): the meta query analyser and the scheduler, section 4.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.errors import DataError
from skyband.order import Bools, Ints
from skyband.query import TopK
from skyband.windows import FOREVER, MOST_WINDOWS, CountWindow, Panes, require_few_windows

_NONE = np.empty(0, np.int64)
_BEFORE_ALL = -(1 << 61)
_MOST = 50_000_000  # windows that one piece of the stream may open
OPEN = 10_000_000
"""Windows that a workload may have open at a time."""


class Windows(NamedTuple):
    """Windows of a workload as columns: bounds, rows to rank, and the numbers of their queries."""

    start: Ints
    end: Ints
    k: Ints
    query: Ints

    def take(self, at: Ints | Bools) -> Windows:
        """The windows at some places, or where a mask is set."""
        return Windows(self.start[at], self.end[at], self.k[at], self.query[at])


NO_WINDOWS = Windows(_NONE, _NONE, _NONE, _NONE)


class _Queries(NamedTuple):
    """The queries as columns: numbers, windows, k."""

    number: Ints
    size: Ints
    slide: Ints
    offset: Ints
    k: Ints


class Piece(NamedTuple):
    """The windows that open and that are answered while a piece of the stream is read.

    ``open``    windows that are open at its beginning or open in it, by start
    ``due``     windows that are answered in it, by end and then by query
    ``upto``    for each of these: rows of the piece that come before its end
    ``closed``  every window that ends here or before is answered when the piece has been read
    """

    open: Windows
    due: Windows
    upto: Ints
    closed: int


class Schedule:
    """Maintains the open windows of the queries over one score.

    Places are arrival numbers (``counted``) or times. A window opens with the first row that it
    holds, so stretches without rows cost nothing, however long. With ``farewell`` the first window
    after the last row is answered too: a reader of changes sees the last rows leave.

    Invariants: (1) every open window holds a row, or is a farewell; (2) its end has not been
    reached; (3) windows of a query up to ``_opened`` have been opened or passed over.

    Complexity: O(w log w) per piece for w windows open or opened; space O(w).
    """

    def __init__(self, counted: bool, farewell: bool) -> None:
        self.counted = counted
        self.farewell = farewell
        self.open = NO_WINDOWS
        self.closed = _BEFORE_ALL
        self._queries = _Queries._make([_NONE] * len(_Queries._fields))
        self._opened = _NONE
        self._added: list[tuple[int, ...]] = []

    def _settle(self) -> None:
        """Take in, all at once, the queries that were added."""
        if self._added:
            *added, opened = np.array(self._added, np.int64).T
            pairs = zip(self._queries, added, strict=True)
            self._queries = _Queries._make(np.concatenate(pair) for pair in pairs)
            self._opened = np.concatenate([self._opened, opened])
            self._added = []

    def add(self, number: int, query: TopK, complete_from: int | None = None) -> None:
        """Take in a query; with ``complete_from`` only its windows that start there or later."""
        window, k = query.window, query.k
        offset = window.end_offset % window.slide
        opened = _BEFORE_ALL
        if isinstance(window, CountWindow):
            opened = -(-window.size // window.slide) - 1 if window.full else 0
            k = min(k, window.size)
        if complete_from is not None:
            panes = Panes(window.size, window.slide, offset)
            opened = max(opened, panes.last_window(complete_from - 1))
        self._added.append((number, window.size, window.slide, offset, k, opened))

    def remove(self, number: int) -> None:
        """Forget a query and its open windows."""
        self._settle()
        stays = self._queries.number != number
        self._queries = _Queries._make(column[stays] for column in self._queries)
        self._opened = self._opened[stays]
        self.open = self.open.take(self.open.query != number)

    def after(self, done: int) -> Schedule:
        """A schedule of the same queries, whose windows up to the place ``done`` were answered."""
        self._settle()
        schedule, queries = copy.copy(self), self._queries
        schedule.open, schedule.closed = NO_WINDOWS, done
        passed = (done - queries.offset) // queries.slide
        schedule._opened = np.maximum(self._opened, passed)
        return schedule

    def first_complete(self, number: int) -> tuple[int, int]:
        """Bounds of the first window of a query that is, or was, complete."""
        self._settle()
        queries = self._queries
        (at,) = np.flatnonzero(queries.number == number)
        end = int(queries.offset[at] + (self._opened[at] + 1) * queries.slide[at])
        start = end - int(queries.size[at])
        return (max(start, 0) if self.counted else start), end

    def cut(self, at: Ints, closed: int) -> Piece:
        """The schedule of rows in sequence, at ascending places before ``closed``."""
        self._settle()
        pairs = zip(self.open, self._opening(at), strict=True)
        windows = Windows(*map(np.concatenate, pairs))
        if np.any(np.diff(windows.start) < 0):
            windows = windows.take(np.argsort(windows.start, kind="stable"))
        is_due = windows.end <= closed
        due = windows.take(is_due)
        due = due.take(np.lexsort((due.query, due.end)))
        self.open = windows.take(~is_due)
        self.closed = max(self.closed, closed)
        upto = np.searchsorted(at, due.end, side="left").astype(np.int64)
        return Piece(windows, due, upto, closed)

    def require_few_windows(self, at: Ints, closed: int) -> None:
        """Refuse rows, at ascending places, that complete too many windows up to ``closed``.

        Windows that are open already do not count: they were few.
        """
        self._settle()
        _, size, slide, offset, _ = self._queries
        if not len(at) or not len(slide):
            return
        first = np.maximum(self._opened + 1, (at[0] - offset) // slide + 1)
        final = (np.minimum(at[-1] + size, closed) - offset) // slide
        if np.maximum(final - first + 1, 0).sum(dtype=np.float64) <= MOST_WINDOWS:
            return
        upto = (closed - offset) // slide
        runs = (self._runs(at, q, int(first[q]), int(upto[q])) for q in range(len(slide)))
        require_few_windows(sum(int(count.sum()) for _, count in runs))

    def pause(self) -> Piece:
        """A piece without rows, in which no window is due."""
        return Piece(self.open, NO_WINDOWS, _NONE, self.closed)

    def state_bytes(self) -> int:
        """Bytes of memory that the open windows occupy."""
        return sum(column.nbytes for column in self.open)

    def saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state, but for the queries, as plain values and named arrays."""
        self._settle()
        arrays = {f"open.{name}": column for name, column in self.open._asdict().items()}
        return {"closed": self.closed}, {**arrays, "opened": self._opened}

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`saved` gave; the same queries have been added, in their order."""
        self._settle()
        self.closed = header["closed"]
        self.open = Windows._make(arrays[f"open.{name}"] for name in Windows._fields)
        self._opened = arrays["opened"]

    def _opening(self, at: Ints) -> Windows:
        """The windows that these rows open."""
        number, size, slide, offset, _ = self._queries
        if not len(at) or not len(number):
            return NO_WINDOWS
        first = np.maximum(self._opened + 1, (at[0] - offset) // slide + 1)
        final = (at[-1] - offset + size) // slide + (1 if self.farewell else 0)
        count = np.maximum(final - first + 1, 0)
        sparse = np.flatnonzero(count > 4 * len(at) + 64 + 2 * (size // slide))
        dense = np.setdiff1d(np.flatnonzero(count > 0), sparse, assume_unique=True)
        parts = [self._between(at, dense, first[dense], count[dense])]
        parts += [self._around(at, int(q), int(first[q])) for q in sparse]
        self._opened = np.maximum(self._opened, np.where(count > 0, final, self._opened))
        return Windows(*map(np.concatenate, zip(*parts, strict=True)))

    def _between(self, at: Ints, which: Ints, first: Ints, count: Ints) -> Windows:
        """Windows of some queries, numbered from ``first`` on, as far as they hold a row."""
        if int(count.sum()) > _MOST:
            raise _too_many(int(count.sum()))
        ahead = np.cumsum(count) - count
        query = np.repeat(which, count)
        number = np.repeat(first - ahead, count) + np.arange(int(count.sum()), dtype=np.int64)
        slide = self._queries.slide[query]
        end = self._queries.offset[query] + number * slide
        start = end - self._queries.size[query]
        if not self.counted:
            low = np.searchsorted(at, start, side="left")
            holds = low < np.searchsorted(at, end, side="left")
            if self.farewell:  # or the window before it does
                before = np.searchsorted(at, end - slide, side="left")
                holds |= np.searchsorted(at, start - slide, side="left") < before
            start, end, query = start[holds], end[holds], query[holds]
        return self._windows(start, end, query)

    def _around(self, at: Ints, which: int, first: int) -> Windows:
        """Windows of a query whose slide is small beside the distances of these rows."""
        _, size, slide, offset, _ = (int(column[which]) for column in self._queries)
        begin, count = self._runs(at, which, first)
        if int(count.sum()) > _MOST:
            raise _too_many(int(count.sum()))
        ahead = np.cumsum(count) - count
        number = np.repeat(begin - ahead, count) + np.arange(int(count.sum()), dtype=np.int64)
        end = offset + number * slide
        return self._windows(end - size, end, np.full(len(end), which, np.int64))

    def _runs(self, at: Ints, which: int, first: int, upto: int = FOREVER) -> tuple[Ints, Ints]:
        """Windows of a query that hold rows, as runs: the first of each, and how many follow it."""
        _, size, slide, offset, _ = (int(column[which]) for column in self._queries)
        places = np.unique(at)
        begin = np.maximum((places - offset) // slide + 1, first)
        final = (places - offset + size) // slide + (1 if self.farewell else 0)
        final = np.minimum(final, upto)
        begin[1:] = np.maximum(begin[1:], final[:-1] + 1)
        return begin, np.maximum(final - begin + 1, 0)

    def _windows(self, start: Ints, end: Ints, query: Ints) -> Windows:
        if self.counted:
            start = np.maximum(start, 0)
        return Windows(start, end, self._queries.k[query], self._queries.number[query])


def _too_many(count: int) -> DataError:
    return DataError(
        f"rows that open {count:,} windows at once",
        f"{_MOST:,} at most",
        "use larger slides, or push fewer rows at a time",
    )
