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
from skyband.spark.jobs.progress import Batch, Progress

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ServedQuery:
    """A query whose boards are shown; ``name`` is empty if there is one alone."""

    words: str
    layout: Layout = field(default_factory=Layout)
    name: str = ""


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
        self._state, self._message = "starting", ""
        self._progress: dict[str, Progress] = {}
        self._health: dict[str, Any] = {}
        self._now = now
        self._clock: datetime | None = None  # where that of the wall does not count, or no more
        self._watermark: datetime | None = None  # None if it tells nothing
        self._changing = threading.Lock()
        self._measure([])

    def describe(
        self,
        queries: Sequence[ServedQuery],
        family: str,
        explain: Sequence[tuple[str, str]] = (),
        notes: Sequence[str] = (),
    ) -> None:
        """Say what is shown, once that is known."""
        self._queries, self._family = tuple(queries), family
        self._explain, self._notes = tuple(explain), tuple(notes)
        self._state = "waiting"
        self._measure([])
        self._changed()

    def info(self) -> dict[str, Any]:
        """What is shown, for readers who have just come."""
        queries = self._queries or (ServedQuery(""),)
        return {
            "title": self.title,
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
        self._left_out += max(0, batch.ranked - len(batch.answers))
        self.history.add(batch.answers, query.layout, query.name or None)

    def see(
        self,
        progress: Progress,
        name: str = "",
        sinks: Sequence[Mapping[str, Any]] = (),
        clock: datetime | None = None,
    ) -> None:
        """Take in how the stream of a query is doing, if another batch has ended.

        ``clock`` is the time of a stream that has a time of its own.
        """
        before = self._progress.get(name)
        if progress.batches == (before.batches if before is not None else 0):
            return
        self._progress[name] = _copied(progress)
        self._state, self._clock = "running", clock
        self._measure(sinks)
        self._changed()

    def end(self, message: str, failed: bool = False) -> None:
        """Say that nothing more will come."""
        self._state, self._message = "failed" if failed else "ended", message
        self._clock = self._clock or self._now()  # the lag of a stream that has ended stays
        self._measure(self._health["sinks"])
        with self._changing:
            self.version += 1
        self.ended = True  # whoever sees that sees the last version as well
        self.on_change()

    def health(self) -> dict[str, Any]:
        """How the stream is doing."""
        return {**self._health, "lag_seconds": self._lag(), "readers": self.readers}

    def _lag(self) -> float | None:
        """How far the watermark is behind the clock; that grows while no batch ends."""
        if self._watermark is None:
            return None
        behind = (self._clock or self._now()) - self._watermark
        return max(0.0, behind.total_seconds())

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

    def _measure(self, sinks: Sequence[Mapping[str, Any]]) -> None:
        """Put together how all streams of the job are doing."""
        streams = list(self._progress.values())
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
            "rows_per_second": sum(progress.rows_per_second for progress in streams),
            "watermark": _moment(self._watermark),
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
            "sinks": [dict(sink) for sink in sinks],
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


def _moment(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%S}Z"
