"""The rows of a file as Parquet in a temporary directory, for Spark to rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.cli.input.source import FileSource, require_reach
from skyband.engine.columns import Dropped, arrival_numbers, score_column, time_column
from skyband.spark.files import PLACED, WHOLE, nonnull_array
from skyband.windows import FOREVER, Panes, TimeWindow, Window, require_few_windows

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.cli.commands.file_query import FileQuery
    from skyband.order import Bools, Ints

AFTER_ALL = 1 << 62
"""The row number of a mark that ends a key: it sorts behind every row of its place."""

_MANY = 200_000  # rows, of which another pass over them is worth its overhead
_WORTH_IT = 4  # as many times more rows than can win
_LARGEST = 10_000  # of the k for which Spark should look for the best of a pane


def stage(source: FileSource, query: FileQuery, watch: Callable[[int], None]) -> Stage:
    """Write what can be ranked. ``watch`` is called with the number of rows that were read."""
    staged = Stage(
        source.scratch(),
        min((one.window for one in query.queries), key=lambda window: window.slide),
        max(one.k for one in query.queries),
        query.staged,
        tuple(query.numbers),
        bool(query.objects),
        keeps_nulls=getattr(query.query, "takes_nulls", False),
        counts_nulls=getattr(query.query, "counts_nulls", True),
    )
    schema = _schema((*PLACED, *staged.others), (*WHOLE, *query.on_spark().whole))
    with _writer(staged.rows, schema) as rows:
        for batch in query.rows(source):
            rows.write_batch(_batch(schema, *staged.take(batch)))
            watch(batch.num_rows)
    if staged.ends is not None:
        staged.note_last()
        last = np.array(staged.last, np.int64).reshape(-1, 2)
        nothing = [np.full(len(last), 0 if name in WHOLE else np.nan) for name in staged.others]
        after = np.full(len(last), AFTER_ALL)
        with _writer(staged.ends, schema) as ends:
            ends.write_batch(_batch(schema, last[:, 0], last[:, 1], after, nothing))
    return staged


@dataclass
class Stage:
    """Maintains what is known of the rows that were written.

    ``window`` has the shortest slide of all queries, ``k`` is the largest, ``column`` makes an
    array of a column of numbers, and says where it is NULL. ``rows`` and ``ends``
    are files of ``key, place, row`` and ``numbers``, the columns by which rows are ranked;
    ``place`` is a row's time, or its arrival number within its key. If ``objects`` of many rows
    are ranked, their numbers are in ``object``, and answers are to name them by these. Rows that
    cannot be ranked are left out, though they count among the arrivals; so ``ends`` holds the last
    arrival of each key. A query that ``keeps_nulls`` needs them all.
    """

    directory: Path
    window: Window
    k: int
    column: Callable[[Any, str], tuple[Any, Bools | None]] = score_column
    numbers: tuple[str, ...] = ("score",)
    objects: bool = False
    keeps_nulls: bool = False
    counts_nulls: bool = True
    dropped: Dropped = field(default_factory=Dropped)
    read: int = 0
    written: int = 0
    steps: int = 0  # of all keys, in which there are rows
    last: list[tuple[int, int]] = field(default_factory=list)  # arrival of each key
    _newest: tuple[int, int] | None = None  # key and place of the newest row
    _step: tuple[int, int] | None = None  # key and number of the newest step

    @property
    def others(self) -> tuple[str, ...]:
        """The columns besides those that place a row."""
        return ("object", *self.numbers) if self.objects else self.numbers

    @property
    def rows(self) -> Path:
        """The rows that can be ranked."""
        return self.directory / "rows.parquet"

    @property
    def ends(self) -> Path | None:
        """The last arrival of each key, for count windows."""
        if self.keeps_nulls or isinstance(self.window, TimeWindow):
            return None
        return self.directory / "ends.parquet"

    @property
    def answers(self) -> Path:
        """A directory for the answers."""
        return self.directory / "answers"

    @property
    def prune(self) -> bool:
        """Whether panes hold so many more rows than can win that their best should be found first.

        A slide that does not divide the window has two panes in a step.
        """
        if self.numbers != ("score",):
            return False  # points that do not win count for the scores of others
        panes = self.steps * (2 if self.window.size % self.window.slide else 1)
        return self.k <= _LARGEST and self.written >= max(_MANY, _WORTH_IT * self.k * panes)

    def take(self, batch: pa.RecordBatch) -> tuple[Ints, Ints, Ints, list[Any]]:
        """The key, place, row and other columns of those rows of a batch that can be ranked."""
        count = batch.num_rows
        names = batch.schema.names
        scores = [self.column(batch.column(name), name) for name in self.numbers]
        columns: list[Any] = [column for column, _ in scores]
        null = np.any([missing for _, missing in scores if missing is not None], axis=0)
        key = nonnull_array(batch, "key") if "key" in names else np.zeros(count, np.int64)
        row = (
            nonnull_array(batch, "row")
            if "row" in names
            else np.arange(self.read, self.read + count, dtype=np.int64)
        )
        self.read += count
        there = np.ones(count, np.bool_)
        if "time" in names:
            place, missing = time_column(batch.column("time"), count, "tick")
            if missing is not None:
                there = ~missing
                self.dropped.null_time += int(np.count_nonzero(missing))
            require_reach(int(place.min(initial=0)), int(place.max(initial=0)))
        else:
            place = self._arrivals(key)
        if self.objects:
            columns.insert(0, nonnull_array(batch, "object"))
        if self.keeps_nulls:
            masked = [c if null is None else np.ma.array(c, mask=null) for c, null in scores]
            columns[-len(masked) :] = masked
            self._count_unranked(masked[0][there])
            key, place, row = key[there], place[there], row[there]
            self.written += len(key)
            self._count_steps(key, place)
            return key, place, row, [column[there] for column in columns]
        unranked = (np.any([np.isnan(column) for column in columns], axis=0) | null) & there
        nulls = int(np.count_nonzero(null & there))
        self.dropped.null_score += nulls
        self.dropped.nan_score += int(np.count_nonzero(unranked)) - nulls
        there &= ~unranked
        key, place, row = key[there], place[there], row[there]
        self.written += len(key)
        self._count_steps(key, place)
        return key, place, row, [column[there] for column in columns]

    def _count_unranked(self, column: Any) -> None:
        """Count rows by which no key is ranked, though they are kept for its other totals."""
        if not self.counts_nulls:
            return
        nulls = int(np.count_nonzero(np.ma.getmaskarray(column)))
        self.dropped.null_score += nulls
        bad = np.isnan(np.ma.getdata(column)) & ~np.ma.getmaskarray(column)
        self.dropped.nan_score += int(np.count_nonzero(bad))

    def _arrivals(self, key: Ints) -> Ints:
        """Each row's arrival number within its key; notes the last one of each key that ended."""
        place = arrival_numbers(key, self._newest)
        if len(key):
            if self._newest is not None and self._newest[0] != key[0]:
                self.note_last()
            ends = np.flatnonzero(np.diff(key))
            self.last += zip(key[ends].tolist(), place[ends].tolist(), strict=True)
            self._newest = (int(key[-1]), int(place[-1]))
        return place

    def note_last(self) -> None:
        """The newest key has ended."""
        if self._newest is not None:
            self.last.append(self._newest)

    def _count_steps(self, key: Ints, place: Ints) -> None:
        if not len(key):
            return
        window = self.window
        panes = window.panes
        step = panes.first_windows(place)
        if isinstance(window, TimeWindow):
            _require_few_windows(panes, key, step, place)
        fresh = (np.diff(key) != 0) | (np.diff(step) != 0)
        self.steps += int(np.count_nonzero(fresh))
        self.steps += (int(key[0]), int(step[0])) != self._step
        self._step = (int(key[-1]), int(step[-1]))


def _require_few_windows(panes: Panes, key: Ints, first: Ints, place: Ints) -> None:
    """Refuse rows, sorted by key, that are in too many windows, from ``first`` on each."""
    begin, last, newest = first.copy(), panes.last_windows(place), int(place.max())
    if panes.until(newest) < FOREVER:
        last = np.minimum(last, panes.first_window(newest))
    begin[1:] = np.where(key[1:] == key[:-1], np.maximum(first[1:], last[:-1] + 1), first[1:])
    require_few_windows(int(np.maximum(last - begin + 1, 0).sum()))


def _schema(names: tuple[str, ...], whole: tuple[str, ...]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, pa.int64() if name in whole else pa.float64()) for name in names])


def _writer(path: Path, schema: pa.Schema) -> pa.parquet.ParquetWriter:
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema, use_dictionary=False, write_statistics=False)


def _batch(
    schema: pa.Schema, key: Ints, place: Ints, row: Ints, others: list[Any]
) -> pa.RecordBatch:
    """Rows as they are written; a whole number that is NaN is NULL."""
    import pyarrow as pa

    columns = []
    for written, column in zip(schema, (key, place, row, *others), strict=True):
        if isinstance(column, np.ma.MaskedArray):
            missing: Any = np.ma.getmaskarray(column)
            column = np.ma.getdata(column)
        else:
            missing = np.isnan(column) if written.type == pa.int64() else None
        columns.append(pa.array(column, written.type, mask=missing))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
