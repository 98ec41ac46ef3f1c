"""The progress of a run: what Spark's reports say of each batch, and sums over all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.spark.watching import BOARD

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_ENDED = datetime(8000, 1, 1, tzinfo=UTC)  # watermarks beyond are those of a drained stream


@dataclass(kw_only=True)
class Counts:
    """What is counted of a batch, and adds up over batches.

    ``late`` counts partial groups, as Spark does: the rows of a pane, key and task that came too
    late are one. ``extra`` is what a family counts of the rows besides, by name.
    """

    seconds: float = 0.0
    rows: int = 0
    no_time: int = 0
    future: int = 0
    null_score: int = 0
    nan_score: int = 0
    bad: int = 0
    late: int = 0
    windows: int = 0
    ranked: int = 0
    extra: dict[str, int] = field(default_factory=dict)


RECORDS = "skyband records"
"""The metric of records that were parsed, and of those that could not be."""

_READ = ("rows", "no_time", "future", "null_score", "nan_score")
_COUNTS = [count.name for count in fields(Counts) if count.name != "extra"]


@dataclass
class Batch(Counts):
    """One micro-batch; ``candidates`` is None if no window was answered.

    ``leaders`` are the best rows of the newest window, ``answers`` rows of all windows that it
    answered, the newest window first, as many as the run reports.
    """

    number: int
    candidates: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    watermark: datetime | None = None
    leaders: tuple[Mapping[str, Any], ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()

    @property
    def drained(self) -> bool:
        """Whether the watermark is that of a stream which has ended."""
        return self.watermark is not None and self.watermark > _ENDED

    @property
    def passed(self) -> int:
        """The watermark as a row number, for windows over a sequence."""
        behind = (self.watermark or _FIRST) - _FIRST
        return behind // timedelta(milliseconds=1)


def batch_of(progress: Mapping[str, Any]) -> Batch | None:
    """What a progress report says of a batch; None if there was nothing to do."""
    if "addBatch" not in (progress.get("durationMs") or {}):
        return None
    metrics = progress.get("observedMetrics") or {}
    read, answered = _metric(metrics, "skyband rows "), _metric(metrics, "skyband windows ")
    records = _metric(metrics, RECORDS)
    operators = progress.get("stateOperators") or []
    windows = answered.get("windows") or 0
    return Batch(
        number=progress["batchId"],
        seconds=(progress.get("batchDuration") or 0) / 1000,
        **read_counts(read),
        bad=records.get("bad") or 0,
        late=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        windows=windows,
        ranked=answered.get("ranked") or 0,
        candidates=answered.get("candidates") if windows else None,
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(_bytes(operator) for operator in operators),
        watermark=_moment((progress.get("eventTime") or {}).get("watermark")),
        leaders=leaders_of(_metric(metrics, BOARD)),
        answers=answers_of(_metric(metrics, BOARD)),
    )


def read_counts(metric: Mapping[str, Any]) -> dict[str, Any]:
    """What was counted of the rows that a batch has read, as :class:`Counts` has it."""
    extra = {name: count or 0 for name, count in metric.items() if name not in _READ}
    return {**{name: metric.get(name) or 0 for name in _READ}, "extra": extra}


def leaders_of(metric: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The rows of the newest window that a batch answered, best first."""
    rows = json.loads(metric.get("leaders") or "[]")
    newest = max((row["window"]["end"] for row in rows), default=None, key=_placed)
    return tuple(row for row in rows if row["window"]["end"] == newest)


def answers_of(metric: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The rows that a batch ranked, as many as it reports."""
    return tuple(json.loads(metric.get("answers") or "[]"))


def _placed(end: Any) -> Any:
    """Ends of windows compare as moments, or as numbers."""
    return _moment(end) if isinstance(end, str) else end


def _metric(metrics: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    for name, row in metrics.items():
        if name.startswith(prefix) and row is not None:
            values = dict(row if isinstance(row, Mapping) else row.asDict())
            if set(values) == {"values", "schema"}:  # as Spark Connect writes it
                names = [field["name"] for field in values["schema"]["fields"]]
                return dict(zip(names, values["values"], strict=True))
            return values
    return {}


def _bytes(operator: Mapping[str, Any]) -> int:
    """Memory and files of a state store."""
    more = operator.get("customMetrics") or {}
    return int(operator["memoryUsedBytes"]) + int(more.get("rocksdbSstFileSize") or 0)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:  # beyond the years that Python knows
        return None


@dataclass
class Progress(Counts):
    """Sums over the batches of a run, and what was last reported."""

    batches: int = 0
    candidates: int | None = None
    last: Batch | None = None
    busy: Batch | None = None  # the last one that read any rows
    leaders: tuple[Mapping[str, Any], ...] = ()
    on_batch: Callable[[Batch], None] | None = None  # is told of each batch, once
    _numbers: set[int] = field(default_factory=set)

    def add(self, batch: Batch) -> bool:
        """Take in a batch; False if it was known."""
        if batch.number in self._numbers:
            return False
        self._numbers.add(batch.number)
        self.batches += 1
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        for name, count in batch.extra.items():
            self.extra[name] = self.extra.get(name, 0) + count
        self.last = batch
        self.busy = batch if batch.rows else self.busy
        self.leaders = batch.leaders or self.leaders
        if batch.candidates is not None:
            self.candidates = batch.candidates
        if self.on_batch is not None:
            self.on_batch(batch)
        return True

    def collect(self, reports: Iterable[Mapping[str, Any]]) -> bool:
        """Take in the batches that Spark reports; whether any of them is new."""
        before = self.batches
        for batch in map(batch_of, reports):
            if batch is not None:
                self.add(batch)
        return self.batches > before

    @property
    def rows_per_second(self) -> float:
        """The speed of the last batch that read any rows."""
        return self.busy.rows / max(self.busy.seconds, 1e-3) if self.busy is not None else 0.0
