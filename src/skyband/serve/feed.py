"""What readers of a page may see: boards, their history, and how the stream is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import skyband
from skyband.serve.history import History, Layout
from skyband.spark.jobs.progress import Batch, Progress, passed

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_PAUSE = 5.0  # seconds from one batch to the next that are no idleness
_COUNTED = {"sequence": "row ", "tick": ""}
"""Axes that no clock goes with, and what stands before their numbers."""


@dataclass(frozen=True)
class ServedQuery:
    """A query whose boards are shown; ``name`` is empty if there is one alone."""

    words: str
    layout: Layout = field(default_factory=Layout)
    name: str = ""


@dataclass(frozen=True)
class Stream:
    """What a stream has reported so far, and when it last read rows."""

    progress: Progress
    busy_at: datetime | None = None

    def rows_per_second(self, now: datetime) -> float:
        """The speed of the last batch that read rows; it falls once no rows follow."""
        busy = self.progress.busy
        if busy is None or self.busy_at is None:
            return 0.0
        since = (now - self.busy_at).total_seconds() - _PAUSE
        return busy.rows / max(busy.seconds, since, 1e-3)


class Feed:
    """The state that a page shows; ``version`` counts its changes.

    Whoever runs the stream writes it, in one thread; the server reads it, in another. What is read
    is made when it is written, and never changed afterwards.
    """

    def __init__(
        self,
        title: str,
        history: History | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.title = title
        self.history = history or History()
        self.version = 0
        self.ended = False
        self.readers = 0
        self.on_change: Callable[[], None] = lambda: None
        self._queries: tuple[ServedQuery, ...] = ()
        self._explain: Sequence[tuple[str, str]] = ()
        self._family = ""
        self._notes: tuple[str, ...] = ()
        self._left_out = 0  # rows of batches that were too large to be shown whole
        self._windows = "time"  # what windows are made of: the kind of their axis
        self._described = False
        self._state, self._message = "starting", ""
        self._streams: dict[str, Stream] = {}
        self._sinks: list[dict[str, Any]] = []
        self._last_taken = -1  # the number of the last batch whose answers came
        self._health: dict[str, Any] = {}
        self._now = now
        self._clock: datetime | None = None  # where that of the wall does not count, or no more
        self._watermark: datetime | None = None  # None if it tells nothing
        self._changing = threading.Lock()
        self._measure()

    def describe(
        self,
        queries: Sequence[ServedQuery],
        family: str,
        explain: Sequence[tuple[str, str]] = (),
        notes: Sequence[str] = (),
        windows: str = "time",
    ) -> None:
        """Say what is shown, once that is known; ``windows`` is the kind of their axis."""
        self._queries, self._family = tuple(queries), family
        self._explain, self._notes = tuple(explain), tuple(notes)
        self._windows = windows
        self._state = "waiting"
        self._described = True  # last of all: whoever sees that sees the queries as well
        self._measure()
        self._changed()

    def info(self) -> dict[str, Any]:
        """What is shown, for readers who have just come."""
        described = self._described  # before the queries, which stand when it is true
        queries = self._queries or (ServedQuery(""),)
        return {
            "title": self.title,
            "described": described,
            "version": skyband.__version__,
            "family": self._family,
            "emit": queries[0].layout.emit,
            "queries": [
                {
                    "name": query.name,
                    "words": query.words,
                    "keys": list(query.layout.keys),
                    "columns": list(query.layout.columns),
                }
                for query in queries
            ],
            "keys": list(queries[0].layout.keys),
            "columns": list(queries[0].layout.columns),
            "explain": [list(line) for line in self._explain],
            "history": {"windows": self.history.most_windows, "words": self.history.words},
        }

    def take(self, batch: Batch, query: ServedQuery) -> None:
        """Take in the answers of a batch."""
        left_out = max(0, batch.ranked - len(batch.answers))
        self._left_out += left_out
        if left_out or batch.number > self._last_taken + 1:
            self.history.doubt()  # changes that were not seen are missing in what they add up to
        self._last_taken = batch.number
        self.history.add(batch.answers, query.layout, query.name or None)

    def see(
        self,
        progress: Progress,
        name: str = "",
        sinks: Sequence[Mapping[str, Any]] = (),
        clock: datetime | None = None,
        catches_up: bool = False,
    ) -> None:
        """Take in how the stream of a query is doing, if a batch has ended or a sink has changed.

        ``clock`` is the time of a stream that has a time of its own. A run that ``catches_up`` has
        no more to rank, and brings what is ranked to its sinks.
        """
        if self.ended:
            return
        before = self._streams.get(name)
        ended_batch = progress.batches != (0 if before is None else before.progress.batches)
        state = "running" if ended_batch or catches_up else self._state
        seen = [dict(sink) for sink in sinks]
        if not ended_batch and seen == self._sinks and state == self._state:
            return
        if ended_batch:
            busy_at = None if before is None else before.busy_at
            if before is None or before.progress.busy != progress.busy:
                busy_at = self._now()
            self._streams[name] = Stream(_copied(progress), busy_at)
            self._clock = clock
        self._state, self._sinks = state, seen
        self._measure()
        self._changed()

    def end(self, message: str, failed: bool = False) -> None:
        """Say that nothing more will come."""
        self._state, self._message = "failed" if failed else "ended", message
        self._clock = self._clock or self._now()  # the lag of a stream that has ended stays
        self._measure()
        with self._changing:
            self.version += 1
        self.ended = True  # whoever sees that sees the last version as well
        self.on_change()

    def health(self) -> dict[str, Any]:
        """How the stream is doing."""
        return {**self._health, **self.passing()}

    def passing(self) -> dict[str, Any]:
        """The part of :meth:`health` that changes while no batch ends."""
        return {
            "rows_per_second": self._rows_per_second(),
            "lag_seconds": self._lag(),
            "readers": self.readers,
        }

    def _rows_per_second(self) -> float:
        if self._state in ("ended", "failed"):
            return 0.0
        now = self._now()
        return sum(stream.rows_per_second(now) for stream in list(self._streams.values()))

    def _lag(self) -> float | None:
        """How far the watermark is behind the clock; that grows while no batch ends.

        Row numbers and ticks have no clock.
        """
        watermark = self._watermark  # once: the thread of the stream may set another
        if watermark is None or self._windows in _COUNTED:
            return None
        behind = (self._clock or self._now()) - watermark
        return max(0.0, behind.total_seconds())

    def _position(self) -> str | None:
        """How far the stream is, in the words of its axis."""
        watermark = self._watermark
        if watermark is None:
            return None
        if self._windows not in _COUNTED:
            return f"{watermark:%Y-%m-%dT%H:%M:%S}Z"
        return f"{_COUNTED[self._windows]}{passed(watermark):,}"

    @property
    def is_ready(self) -> bool:
        """Whether the stream has done anything yet, and goes on."""
        return self._state == "running"

    @property
    def has_failed(self) -> bool:
        """Whether the stream ended with an error."""
        return self._state == "failed"

    @property
    def message(self) -> str:
        """Why the stream has ended."""
        return self._message

    def _measure(self) -> None:
        """Put together how all streams of the job are doing."""
        streams = [stream.progress for stream in self._streams.values()]
        last = [progress.last for progress in streams if progress.last is not None]
        newest = max(last, key=lambda batch: batch.number, default=None)
        watermarks = [batch.watermark for batch in last if batch.watermark is not None]
        watermark = min((at for at in watermarks if at > _FIRST), default=None)
        drained = bool(last) and all(batch.drained for batch in last)
        self._watermark = None if drained else watermark
        extra: dict[str, int] = {}
        for progress in streams:
            for count_name, count in progress.extra.items():
                extra[count_name] = extra.get(count_name, 0) + count
        candidates = [p.candidates for p in streams if p.candidates is not None]
        notes = list(self._notes)
        if self._left_out:
            notes.append(f"{self._left_out:,} rows of large batches are ranked, but not shown here")

        missed = sum(progress.missed for progress in streams)
        if missed:
            notes.append(
                f"{missed:,} batches were over before they were looked at: "
                "what they counted and ranked is not shown here"
            )

        def total(count_name: str) -> int:
            return sum(getattr(progress, count_name) for progress in streams)

        self._health = {
            "state": self._state,
            "message": self._message,
            "rows": total("rows"),
            "watermark": self._position(),
            "batch": None
            if newest is None
            else {"number": newest.number, "seconds": newest.seconds},
            "batches": total("batches"),
            "missed_batches": missed,
            "late": total("late"),
            "set_aside": {"no_time": total("no_time"), "future": total("future")},
            "not_ranked": {"null": total("null_score"), "nan": total("nan_score")},
            "bad_records": total("bad"),
            "extra": extra,
            "candidates": sum(candidates) if candidates else None,
            "state_rows": sum(batch.state_rows for batch in last),
            "state_bytes": sum(batch.state_bytes for batch in last),
            "windows": total("windows"),
            "ranked": total("ranked"),
            "sinks": self._sinks,
            "notes": notes,
        }

    def _changed(self) -> None:
        with self._changing:
            self.version += 1
        self.on_change()


def _copied(progress: Progress) -> Progress:
    """What a stream has reported so far, which does not change any more."""
    now = copy(progress)
    now.extra = dict(progress.extra)
    return now
