"""The progress of a run: what Spark's reports say of each batch, and sums over all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.spark.watching import BOARD, LEADERS

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


def passed(watermark: datetime) -> int:
    """A watermark as a row number or a tick, for windows that no clock goes with."""
    return (watermark - _FIRST) // timedelta(milliseconds=1)


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
        return passed(self.watermark or _FIRST)


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
    return newest_window(json.loads(metric.get("leaders") or "[]"))


def newest_window(rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The rows of the newest window among those of several."""
    ends = {row["window"]["end"] for row in rows}
    newest = max(ends, default=None, key=_placed)
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


def newest_rankings(
    before: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    most: int,
    queries: Sequence[str] = (),
) -> tuple[Mapping[str, Any], ...]:
    """The newest window as it stands after a batch, best rows first.

    A batch of updates reports the rankings that it has changed; those of other keys are as they
    were ``before``. ``rows`` are of one window. If there are ``most`` of them, some may have been
    left out, and nothing is known of other keys. Of several queries, told apart by the columns
    ``queries``, the one of ``rows`` is shown.
    """
    if not rows:
        return tuple(before)
    first = rows[0]
    whole = "revision" not in first or len(rows) >= most
    if whole or not before or before[0]["window"] != first["window"]:
        return tuple(rows)
    keys = [*first][1 : [*first].index("rank")]  # what stands between the window and the rank
    changed = {tuple(row[name] for name in keys) for row in rows}
    same = [row for row in before if all(row[name] == first[name] for name in queries)]
    same = [row for row in same if tuple(row[name] for name in keys) not in changed]
    together = [*rows, *same]
    ranked = [row for row in together if row["rank"] is not None]
    return tuple(sorted(ranked, key=_best_first)) or tuple(together)


def _best_first(row: Mapping[str, Any]) -> tuple[int, float]:
    return row["rank"], -float(row["score"])


class Reports:
    """Reads the reports of a stream: the newest alone, unless there may be others to read.

    Spark keeps the last reports of a stream, and hands over the last one, or all. Reports may be
    large, and a stream may report that it had nothing to do.
    """

    def __init__(self) -> None:
        self._newest: tuple[Any, ...] = ()

    def read(self, query: Any, last: Batch | None) -> Sequence[Mapping[str, Any]]:
        """What the stream has reported since the last call, in which ``last`` came."""
        newest = query.lastProgress
        if newest is None:
            return []
        name = (newest["runId"], newest["batchId"], newest["timestamp"])
        if name == self._newest:
            return []
        self._newest = name
        is_batch = "addBatch" in (newest["durationMs"] or {})
        if is_batch and last is not None and newest["batchId"] == last.number + 1:
            return [newest]
        reports: Sequence[Mapping[str, Any]] = query.recentProgress
        return reports


@dataclass
class Progress(Counts):
    """Sums over the batches of a run, and what was last reported.

    ``missed`` counts batches of which no report was read: Spark keeps a few, and forgets older
    ones. What they counted and answered is in none of the sums.
    """

    batches: int = 0
    missed: int = 0
    candidates: int | None = None
    last: Batch | None = None
    busy: Batch | None = None  # the last one that read any rows
    leaders: tuple[Mapping[str, Any], ...] = ()
    query_columns: tuple[str, ...] = ()  # those of leaders that tell several queries apart
    on_batch: Callable[[Batch], None] | None = None  # is told of each batch, once

    def add(self, batch: Batch) -> bool:
        """Take in a batch; False if it was known."""
        if self.last is not None:
            if batch.number <= self.last.number:
                return False
            self.missed += batch.number - self.last.number - 1
        self.batches += 1
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        for name, count in batch.extra.items():
            self.extra[name] = self.extra.get(name, 0) + count
        self.last = batch
        self.busy = batch if batch.rows else self.busy
        self.leaders = newest_rankings(
            self.leaders, batch.leaders, LEADERS.rows, self.query_columns
        )
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
