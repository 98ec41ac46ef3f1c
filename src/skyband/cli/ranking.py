"""The local engine over a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.cli.leaderboard import Leaderboard
from skyband.cli.reading import BATCH, Column, Source
from skyband.errors import DataError
from skyband.query import TopK
from skyband.windows import CountWindow, TimeWindow, Window

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.engine.columns import Dropped

_ANSWERS = 2_000_000  # ranked rows that one push should not exceed
_FARTHEST = 1 << 60  # from the epoch
_TIMED = 32_768  # rows per push of time windows: those that wait for the watermark stay few


@dataclass(frozen=True)
class Question:
    """A query over a file, checked: SQL for scores and times, columns for keys."""

    query: TopK
    algorithm: str
    score: str
    time: str | None
    keys: list[Column]

    @property
    def numbers(self) -> dict[str, str]:
        """What is ranked by: columns and their SQL."""
        return {"score": self.score}

    @property
    def objects(self) -> bool:
        """Whether what is ranked are objects of many rows, with numbers of their own."""
        return False

    def rows(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The rows of a file, as they are ranked."""
        return source.rows(self.numbers, self.time, self.keys)

    def ids(self, batch: pa.RecordBatch) -> Any:
        """What answers call the rows of a batch."""
        return own(batch, "object" if self.objects else "row")

    def pushed(self, batch: pa.RecordBatch) -> Any:
        """What a monitor is given of a batch, besides numbers and times of rows."""
        return own(batch, "score")

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What answers the query."""
        from skyband.topk.monitor import Monitor

        return Monitor

    def board(self) -> Leaderboard:
        """What takes the answers."""
        return Leaderboard(timed(self.query.window))


def rank(source: Source, question: Question, watch: Callable[[int], None]) -> Leaderboard:
    """Run a query over a file. ``watch`` is told of the rows that were read."""
    found = question.board()
    batches = _cut(source, question, watch)
    found.dropped = (_by_key if question.keys else _all)(question, batches, found)
    found.close()
    return found


def _cut(
    source: Source, question: Question, watch: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of the file in batches whose answers are not too many."""
    query, window = question.query, question.query.window
    rows = _TIMED
    if isinstance(window, CountWindow):
        rows = max(256, min(BATCH, _ANSWERS * window.slide // min(query.k, window.size)))
    for batch in question.rows(source):
        for low in range(0, batch.num_rows, rows):
            yield batch.slice(low, rows)
        watch(batch.num_rows)


def _all(question: Question, batches: Iterator[pa.RecordBatch], found: Leaderboard) -> Dropped:
    """One stream, in arrival order or in time order."""
    monitor = question.monitor()(question.query, question.algorithm)
    for batch in batches:
        columns: dict[str, Any] = {}
        if question.time is not None or question.objects:
            columns["ids"] = question.ids(batch)
        if question.time is not None:
            oldest, newest = batch.column("time")[0].as_py(), batch.column("time")[-1].as_py()
            require_reach(oldest or 0, newest or 0)
            columns["times"] = own(batch, "time")
            columns["watermark"] = newest  # rows come sorted: nothing later is older
        found.add(monitor.push(question.pushed(batch), **columns))
    found.add(monitor.finish())
    return monitor.dropped


def _by_key(question: Question, batches: Iterator[pa.RecordBatch], found: Leaderboard) -> Dropped:
    """One stream per key, key by key."""
    from skyband.partitioned import Partitioned

    engine = Partitioned(question.query, question.algorithm, question.monitor())
    for batch in batches:
        columns: dict[str, Any] = {"keys": own(batch, "key"), "ids": question.ids(batch)}
        if question.time is not None:
            columns["times"] = own(batch, "time")
        for part in engine.push(question.pushed(batch), **columns):
            found.add(part.ranked, part.key)
    for part in engine.finish():
        found.add(part.ranked, part.key)
    return engine.dropped


def timed(window: Window) -> bool:
    """Whether the bounds of windows are moments."""
    return isinstance(window, TimeWindow) and window.unit == "us"


def require_reach(oldest: int, newest: int) -> None:
    """Refuse times that window arithmetic could not carry."""
    if max(-oldest, newest) >= _FARTHEST:
        raise DataError("a time beyond 2**60", "times closer to zero", "subtract a common start")


def own(batch: pa.RecordBatch, name: str) -> Any:
    """A column as an array of our own; as Arrow has it if there are NULLs.

    Kernels are compiled for arrays that may be written to, which Arrow's may not; and Arrow's way
    to NumPy imports pandas, if it is there, which takes longer than most queries.
    """
    import numpy as np

    column = batch.column(name)
    return column if column.null_count else np.array(np.from_dlpack(column))
