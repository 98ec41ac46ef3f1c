"""One query per partition key, over rows that come key by key.

A file is bounded, so a reader can sort it by key; then one monitor at a time is enough, and with
a trick a single monitor is enough for all keys: every key gets a stretch of its own on one *line*
of time, far enough from its neighbours that no window reaches over. Kernels see one stream with
gaps, and a hundred thousand keys cost what one costs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skyband.engine.adapter import AnyMonitor
from skyband.engine.columns import (
    Dropped,
    arrival_numbers,
    id_column,
    number_column,
    time_column,
)
from skyband.engine.results import Ranked
from skyband.engine.steps import Steps, TimeSteps
from skyband.errors import DataError, QueryError
from skyband.order import Ints
from skyband.query import TopK
from skyband.topk.monitor import Monitor
from skyband.windows import FOREVER, AllTimePanes, CountWindow, Panes, TimeWindow, over_ticks

_LONGEST = 1 << 60  # a line is left for a new one before its times pass this
_BATCH = 32_768  # rows per push into the monitor: small enough that its waiting rows stay few


@dataclass(frozen=True)
class RankedByKey:
    """The windows that one push answered: ``key`` holds the key of each window of ``ranked``.

    Windows stand in the order of their keys, and of their ends within a key.
    """

    key: Ints
    ranked: Ranked


class Partitioned:
    """Answers one continuous top-k query per key.

    Rows must come key by key, in ascending order of the keys' numbers, and in sequence within a
    key: in arrival order for count windows, in time order for time windows. ``dropped`` counts
    what was not ranked. Count windows number the key's own arrivals. ``monitor`` makes the kind of
    monitor that the query needs, of a query and the name of an algorithm; what it takes for scores
    is pushed here, and can be sliced.

    Complexity: that of a monitor over all rows, whatever the number of keys; space: that of one
    monitor.

    >>> import numpy as np
    >>> from skyband import TopK, last
    >>> from skyband.partitioned import Partitioned
    >>> engine = Partitioned(TopK(k=1, window=last(count=2)))
    >>> columns = {"keys": np.array([0, 0, 7, 7]), "ids": np.array([0, 2, 1, 3])}
    >>> for part in [*engine.push(np.array([3.0, 9.0, 4.0, 1.0]), **columns), *engine.finish()]:
    ...     for key, window in zip(part.key, part.ranked):
    ...         print(key, window)
    0 [0, 2) 1. 9 (id 2)
    7 [0, 2) 1. 4 (id 1)
    """

    def __init__(
        self, query: TopK, algorithm: str = "auto", monitor: Callable[..., AnyMonitor] = Monitor
    ) -> None:
        if query.emit == "updates":
            raise QueryError(
                "emit is 'updates' for rows that come key by key",
                "'all' or 'changes': when the next key comes, the windows of a key are final",
                "leave emit out, or use a Monitor per key",
            )
        self.query = query
        self.plan = monitor(query, algorithm).plan
        self._algorithm = algorithm
        self._kind = monitor
        self._counted = isinstance(query.window, CountWindow)
        self._drops_unranked = not getattr(query, "takes_nulls", False)
        self._left_out = Dropped()  # on earlier lines, and before any line
        self._line = _Line(query, algorithm, monitor)
        self._last: tuple[int, int] | None = None  # key and place of the newest row

    @property
    def dropped(self) -> Dropped:
        """Rows that were not ranked, by reason."""
        before, now = self._left_out, self._line.monitor.dropped
        return Dropped(
            before.null_score + now.null_score,
            before.nan_score + now.nan_score,
            before.null_time,
        )

    def push(self, scores: Any, *, keys: Any, ids: Any, times: Any = None) -> list[RankedByKey]:
        """Take in rows and return the windows that they complete, in one part or more.

        ``keys`` are whole numbers that stand for the keys, ``ids`` are reported. ``times`` belong
        to time windows; those of a count window are arrival numbers within the key, where rows
        that cannot be ranked were left out before. A window of a key is complete when the key's
        rows have passed its end, or when another key has begun. Arrays are NumPy or Arrow.

        Raises :class:`DataError` if the rows are not in sequence, before anything is taken in.
        """
        rows = len(scores)
        key, number = id_column(keys, rows), id_column(ids, rows)
        if self._counted and times is None:
            place = arrival_numbers(key, self._last)
        elif self._counted:
            place = id_column(times, rows)
        elif times is None:
            raise DataError("no times", "a time per row", "push(scores, times=...)")
        else:
            unit = self.query.window.unit if isinstance(self.query.window, TimeWindow) else ""
            place, missing = time_column(times, rows, unit)
            if missing is not None and missing.any():
                self._left_out.null_time += int(missing.sum())
                there = np.flatnonzero(~missing)
                key, number, place = key[there], number[there], place[there]
                scores = _taken(scores, there)
        if self._line.stretches.endless and self._drops_unranked:
            there = self._ranked(scores)
            key, number, place = key[there], number[there], place[there]
            scores = _taken(scores, there)
        self._check(key, place)
        answered: list[RankedByKey] = []
        for low in range(0, len(key), _BATCH):
            part = slice(low, low + _BATCH)
            answered += self._advance(scores[part], key[part], number[part], place[part])
        return answered

    def finish(self) -> list[RankedByKey]:
        """Answer the windows that are still open. Nothing can be pushed after that."""
        return [self._line.finish()]

    def _ranked(self, scores: Any) -> Ints:
        """Which rows can be ranked: with no others do windows go on that never let a row go."""
        numbers = getattr(self.query, "numbers", "float64")
        unranked, null = np.zeros(len(scores), np.bool_), np.zeros(len(scores), np.bool_)
        for one in _columns(scores):
            column, missing = number_column(one, numbers)
            unranked |= np.isnan(column)
            if missing is not None:
                null |= missing
        self._left_out.null_score += int(null.sum())
        self._left_out.nan_score += int((unranked & ~null).sum())
        return np.flatnonzero(~unranked)

    def _check(self, key: Ints, place: Ints) -> None:
        if not len(key):
            return
        if self._last is not None:
            key = np.concatenate([[self._last[0]], key])
            place = np.concatenate([[self._last[1]], place])
        step = np.diff(key)
        if bool(np.any((step < 0) | ((step == 0) & (np.diff(place) < 0)))):
            raise DataError(
                "rows that go back to an earlier key or time",
                "rows sorted by key, and by time within a key",
                "sort them before pushing",
            )
        if bool(np.any((place >= _LONGEST) | (place <= -_LONGEST))):
            raise DataError(
                "a time beyond 2**60", "times closer to zero", "subtract a common start"
            )
        self._last = (int(key[-1]), int(place[-1]))

    def _advance(self, scores: Any, key: Ints, id: Ints, place: Ints) -> list[RankedByKey]:
        """Lay rows on the line; begin a new line, between two keys, when this one is full."""
        begins = np.flatnonzero(np.diff(key, prepend=key[:1] - 1))
        if self._line.room_for(key, place, begins):
            return [self._line.push(scores, key, id, place, begins)]
        answered = []
        for low, high in itertools.pairwise([*begins.tolist(), len(key)]):
            part = slice(low, high)
            if not self._line.room_for(key[part], place[part], begins[:1]):
                answered.append(self._line.finish())
                self._left_out = self.dropped
                self._line = _Line(self.query, self._algorithm, self._kind)
            rows = (scores[part], key[part], id[part], place[part])
            answered.append(self._line.push(*rows, begins[:1]))
        return answered


def _taken(rows: Any, places: Ints) -> Any:
    """Some rows of what a monitor takes for scores, by their places."""
    return rows[places] if isinstance(rows, np.ndarray) else rows.take(places)


def _columns(rows: Any) -> list[Any]:
    """The columns of what a monitor takes for scores: a record batch, a matrix, or one column."""
    if hasattr(rows, "num_columns"):
        return list(rows.columns)
    return list(rows.T) if getattr(rows, "ndim", 1) > 1 else [rows]


class _Stretches(TimeSteps):
    """Maintains which stretch of the line belongs to which key.

    Invariants: (1) stretches ascend and do not overlap; (2) between two stretches there is a
    window that holds nothing, in which the last objects of a key leave; (3) windows lie on the line
    as they lie in the key's own time, so that a stretch is moved by whole periods.
    """

    def __init__(self, panes: Panes, farewell: bool, wait: int) -> None:
        self.endless = isinstance(panes, AllTimePanes)
        if isinstance(panes, AllTimePanes):
            panes = _StretchPanes(panes.size, panes.slide, panes.offset, stretches=self)
        super().__init__(panes, farewell)
        self.wait = wait  # windows of a key that are not answered, because they are not full
        self.key = np.empty(0, np.int64)
        self.begin = np.empty(0, np.int64)  # first window of the stretch, on the line
        self.shift = np.empty(0, np.int64)  # window on the line minus window of the key
        self.upto = np.empty(0, np.int64)  # last window of the stretch, on the line
        self.newest = np.empty(0, np.int64)  # newest place of the key

    def needed(self, key: Ints, place: Ints, begins: Ints) -> float:
        """Windows that these rows need on the line, roughly."""
        last = np.append(begins[1:], len(key)) - 1
        spans = place[last] - place[begins] + 0.0
        around = 2 * self.panes.period + 2 + (0 if self.endless else self.panes.span)
        return float(spans.sum()) / self.panes.slide + around * len(begins)

    def lay(self, key: Ints, place: Ints, begins: Ints) -> Ints:
        """Give each new key a stretch; return the rows' places on the line.

        ``begins`` tells where each key's rows begin. The newest stretch so far is remembered until
        its last windows are answered; older ones are forgotten.
        """
        panes = self.panes
        newest = place[np.append(begins[1:], len(key)) - 1]
        enter = panes.first_windows(place[begins])
        leave = panes.first_windows(newest) if self.endless else panes.last_windows(newest)
        start, known, goes_on = 1, 0, False
        if len(self.key) and int(self.key[-1]) == int(key[0]):
            goes_on = True
            enter[0] = int(self.begin[-1] - self.shift[-1])
        inside = (enter - 1) % panes.period  # windows of the first period that are before
        if goes_on:
            start = int(self.begin[-1] - inside[0])
        elif len(self.key):
            start, known = int(self.upto[-1]) + 1 + panes.period, 1
        length = inside + leave - enter + 1 + panes.period
        begin = start + np.cumsum(length) - length + inside
        old = slice(len(self.key) - known, None)
        self.key = np.append(self.key[old], key[begins])
        self.begin = np.append(self.begin[old], begin)
        self.shift = np.append(self.shift[old], begin - enter)
        self.upto = np.append(self.upto[old], begin - enter + leave)
        self.newest = np.append(self.newest[old], newest)
        if goes_on and self.endless:
            self._extend(int(self.begin[0]), int(self.upto[0]))
        rows = np.diff(np.append(begins, len(key)))
        laid: Ints = place + np.repeat(begin - enter, rows) * panes.slide
        return laid

    def _extend(self, begin: int, upto: int) -> None:
        """Let what a key has on the line live as long as its stretch, which has grown."""
        if self.alive_until is not None and self.alive_until >= begin:
            self.alive_until = upto
        if len(self.life) and self.life[-1] >= begin:
            self.life[-1] = upto

    def owner(self, window: Ints) -> Ints:
        """The stretch in which each window of the line lies."""
        return np.searchsorted(self.begin, window, side="right") - 1

    def cut(self, times: Ints, closed: int) -> Steps:
        """As ever; windows before a key's first full one are passed over."""
        steps = super().cut(times, closed)
        if not self.wait or not len(steps.window):
            return steps
        full = steps.window - self.shift[self.owner(steps.window)] > self.wait
        return steps._replace(emit=steps.emit & full)


@dataclass(frozen=True)
class _StretchPanes(AllTimePanes):
    """Windows of all time, of keys on a line: a key's time is its stretch."""

    stretches: _Stretches = field(kw_only=True)

    def last_window(self, at: int) -> int:
        """The last window of the stretch of this place."""
        return int(self.last_windows(np.array([at]))[0])

    def last_windows(self, at: Ints) -> Ints:
        """:meth:`last_window` of many places."""
        return self.stretches.upto[self.stretches.owner(self.first_windows(at))]

    def starts(self, windows: Ints) -> Ints:
        """Where the stretch starts that a window is in, or before."""
        begins = self.ends(np.append(self.stretches.begin - 1, FOREVER // self.slide))
        return begins[np.searchsorted(self.stretches.upto, windows)]


class _Line:
    """One monitor over one line of time on which keys follow each other."""

    def __init__(self, query: TopK, algorithm: str, kind: Callable[..., AnyMonitor]) -> None:
        window = query.window
        self.query = query
        self.counted = isinstance(window, CountWindow)
        flat = (
            over_ticks(window.size, window.slide)
            if isinstance(window, CountWindow)
            else replace(window, unit="tick")
        )
        wait = 0
        if isinstance(window, CountWindow) and window.full:
            wait = -(-window.size // window.slide) - 1
        self.stretches = _Stretches(window.panes, query.emit == "changes", wait)
        self.monitor = kind(replace(query, window=flat), algorithm, steps=self.stretches)

    def room_for(self, key: Ints, place: Ints, begins: Ints) -> bool:
        """Whether the line is long enough for these rows; a key never changes lines."""
        stretches = self.stretches
        used = 0
        if len(stretches.key):
            used = int(stretches.upto[-1])
            if len(begins) == 1 and int(stretches.key[-1]) == int(key[0]):
                return True
        elif len(begins) == 1:
            return True
        need = used + stretches.needed(key, place, begins)
        return need * stretches.panes.slide < _LONGEST

    def push(self, scores: Any, key: Ints, id: Ints, place: Ints, begins: Ints) -> RankedByKey:
        """Take in rows; the windows of all keys but the last are complete."""
        laid = self.stretches.lay(key, place, begins)
        # none of a key's arrival numbers comes twice; the last of its times may
        watermark = int(laid[-1]) + (1 if self.counted else 0)
        return self._by_key(self.monitor.push(scores, ids=id, times=laid, watermark=watermark))

    def finish(self) -> RankedByKey:
        """Answer what is left."""
        return self._by_key(self.monitor.finish())

    def _by_key(self, ranked: Ranked) -> RankedByKey:
        """Turn windows of the line into windows of the keys."""
        stretches, panes = self.stretches, self.stretches.panes
        window = (ranked.window_end - panes.offset) // panes.slide
        owner = stretches.owner(window)
        back = stretches.shift[owner] * panes.slide if len(owner) else owner
        end = ranked.window_end - back
        start = self.query.window.panes.starts((end - panes.offset) // panes.slide)
        if not self.counted:
            timed = isinstance(self.query.window, TimeWindow) and self.query.window.unit == "us"
            time = ranked.time
            if time is not None:
                time = time - np.repeat(back, np.diff(ranked.offsets))
            whole = replace(ranked, window_start=start, window_end=end, time=time, timed=timed)
            if not stretches.endless or not len(owner):
                return RankedByKey(stretches.key[owner], whole)
            # on the line a key's rows leave behind its stretch; in truth they never do
            there = window <= stretches.upto[owner]
            return RankedByKey(stretches.key[owner][there], whole.only(there))
        # on the line a key's windows slide on after its last arrival; in truth they stop there
        there = end <= stretches.newest[owner] + 1 if len(owner) else np.ones(0, np.bool_)
        counted = replace(
            ranked, window_start=np.maximum(start, 0), window_end=end, time=None, timed=False
        )
        return RankedByKey(stretches.key[owner][there], counted.only(there))
