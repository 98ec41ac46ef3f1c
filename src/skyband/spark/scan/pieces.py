"""What a task does with its files: read columns, count rows, hand on those that may win.

The columns of time, score and keys are read first; the others only of row groups that hold a row
which may win. Of each piece of a file a last row tells what was counted, and the newest position,
which moves the watermark. Workers import this module: it must not import pyspark's SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.order import Bools, Ints
from skyband.spark.scan.arithmetic import Node
from skyband.spark.scan.columns_of_files import (
    arrow_type,
    as_spark_reads,
    has_other_calendar,
    micros,
    moments_without_zone,
    names_in_file,
    refuse_old,
)
from skyband.spark.scan.reduction import Bars, BestRows

COUNTED = ("rows", "no_time", "future", "null_score", "nan_score")
"""What is counted of the rows of a piece."""

_ROWS = 1 << 20  # rows that are held at a time
_STREAMED = 64 << 20  # bytes of a row group from which on its columns are not held whole
_BUFFER = 4 << 20
_DAY = 86_400_000_000
_FURTHEST = ((1 << 63) - 1) // _DAY  # days that microseconds can count


@dataclass(frozen=True)
class ScanScore:
    """What rows are ranked by: ``scale`` is that of a decimal, ranked in units of its last digit.

    ``exact`` scores are whole numbers, others doubles.
    """

    name: str
    node: Node
    exact: bool
    scale: int | None = None

    def evaluate(self, columns: dict[str, Any]) -> Any:
        """The score of each row, as Spark hands it on: -0.0 is 0.0."""
        value = self.node.evaluate(columns)
        if self.scale is not None:
            units = unscaled(value)
            if self.exact:
                return units
            return pc.divide(pc.cast(units, pa.float64()), float(10**self.scale))
        if self.exact:
            return value
        return pc.add(pc.cast(value, pa.float64(), safe=False), 0.0)


def unscaled(column: Any) -> Any:
    """Decimals of up to 18 digits as whole numbers, in units of their last digit."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :]
    low = np.ascontiguousarray(words[: 2 * len(column) : 2])
    null = pc.is_null(column).to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(low, mask=null)


@dataclass(frozen=True)
class ScanAxis:
    """What places rows: a column, and from where on a position cannot be believed.

    ``skew`` is added to the clock of the micro-batch; ``limit`` holds for numbers.
    """

    column: str
    dates: bool
    skew: int | None
    limit: int | None

    def positions(self, columns: dict[str, Any]) -> Any:
        """The position of each row."""
        column = micros(columns[self.column])
        if not self.dates:
            return column.cast(pa.int64())
        days = column.cast(pa.int64())
        near = pc.less_equal(pc.abs(days), _FURTHEST)
        return pc.multiply(pc.if_else(near, days, pa.scalar(None, pa.int64())), _DAY)

    def furthest(self, now: int) -> int | None:
        """The last position that can be believed."""
        if self.limit is not None:
            return self.limit - 1
        return None if self.skew is None else now + self.skew


@dataclass(frozen=True)
class ScanColumn:
    """A column that is handed on: where it comes from, and whether it is a key, where -0.0 is 0."""

    name: str
    node: Node
    is_key: bool = False

    def evaluate(self, columns: dict[str, Any]) -> Any:
        """The column as it passes through Python."""
        column = micros(self.node.evaluate(columns))
        if self.is_key and pa.types.is_floating(column.type):
            return pc.add(column, pa.scalar(0.0, column.type))
        return column


@dataclass
class _Counts:
    """What was met in a piece."""

    rows: int = 0
    no_time: int = 0
    future: int = 0
    null_score: int = 0
    nan_score: int = 0
    newest: int | None = None
    newest_row: Any = None  # a table of one row


@dataclass(frozen=True)
class Scan:
    """A query's rows out of Parquet files, as the pipeline projects them.

    ``types`` are those of the file's columns, as Spark calls them; ``position``, ``everything`` and
    ``counted`` are the names of columns that are handed on.
    """

    types: dict[str, str]
    where: Node | None
    scores: tuple[ScanScore, ...]
    axis: ScanAxis
    handed_on: tuple[ScanColumn, ...]
    reduction: BestRows
    layout: pa.Schema
    position: str
    everything: str
    counted: str
    first_columns: tuple[str, ...] = field(default=())

    def __call__(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of pieces of files: path, first and last byte, and the clock."""
        bars: Bars = {}
        for batch in pieces:
            for piece in batch.to_pylist():
                yield from self._piece(
                    piece["path"], piece["low"], piece["high"], piece["now"], bars
                )

    def _piece(
        self, path: str, low: int, high: int, now: int, bars: Bars
    ) -> Iterator[pa.RecordBatch]:
        counts = _Counts()
        with opened(path) as file:
            reader = _Groups(file, path, self.types)
            for group in reader.between(low, high):
                rows = self._group(reader, group, now, counts, bars)
                if rows is not None:
                    yield self._laid_out(rows, None)
        yield self._laid_out(counts.newest_row, counts)

    def _group(self, reader: _Groups, group: int, now: int, counts: _Counts, bars: Bars) -> Any:
        """The columns of the rows of a row group that may win; None if there are none."""
        chosen: list[Any] = []
        at: list[Ints] = []
        offset = 0
        for columns, length in reader.batches(group, self.first_columns):
            places = self._places(columns, length, now, counts, bars)
            if len(places):
                chosen.append(_taken(columns, places))
                at.append(places + offset)
            offset += length
        if not chosen:
            return None
        rows = {name: pa.concat_arrays([part[name] for part in chosen]) for name in chosen[0]}
        rest = [name for name in self.types if name not in self.first_columns]
        return {**rows, **reader.rows(group, rest, np.concatenate(at))}

    def _places(
        self,
        columns: dict[str, Any],
        length: int,
        now: int,
        counts: _Counts,
        bars: Bars,
    ) -> Ints:
        """Count the rows of a batch, and find those that may win."""
        inside: Ints | None = None  # the rows that satisfy the condition, if not all do
        if self.where is not None:
            holds = self.where.evaluate(columns)
            if isinstance(holds, pa.Scalar):
                inside = None if holds.as_py() else np.empty(0, np.int64)
            else:
                inside = np.flatnonzero(_truths(holds))
                inside = None if len(inside) == length else inside
        if inside is not None:
            columns, length = _taken(columns, inside), len(inside)
        if not length:
            return np.empty(0, np.int64)
        scores = [_as_column(score.evaluate(columns), length) for score in self.scores]
        positions = self.axis.positions(columns)
        sound = self._count(scores, positions, length, now, counts)
        if sound is not None:
            columns, at = _taken(columns, sound), pa.array(sound)
            scores, positions = [score.take(at) for score in scores], positions.take(at)
            inside = sound if inside is None else inside[sound]
        if not len(positions):
            return np.empty(0, np.int64)
        times = positions.to_numpy()
        newest = int(times.argmax())
        if counts.newest is None or int(times[newest]) > counts.newest:
            counts.newest = int(times[newest])
            counts.newest_row = _taken(columns, np.array([newest]))
        keys = [column.evaluate(columns) for column in self.handed_on if column.is_key]
        places = self.reduction.places(scores, times, keys, bars)
        return places if inside is None else inside[places]

    def _count(
        self, scores: Sequence[Any], positions: Any, length: int, now: int, counts: _Counts
    ) -> Ints | None:
        """Count what cannot be ranked; the rows that have a sound position, None if all have."""
        counts.rows += length
        for score in scores:
            counts.null_score += score.null_count
            if pa.types.is_floating(score.type):
                values = score.to_numpy(zero_copy_only=False)
                counts.nan_score += int(np.isnan(values).sum()) - score.null_count
        counts.no_time += positions.null_count
        furthest = self.axis.furthest(now)
        ahead = 0
        if furthest is not None:
            highest = pc.max(positions).as_py()
            if highest is not None and highest > furthest:
                ahead = pc.sum(pc.greater(positions, furthest)).as_py()
        counts.future += ahead
        if not ahead and not positions.null_count:
            return None
        sound = pc.is_valid(positions)
        if ahead:
            sound = pc.and_kleene(sound, pc.less_equal(positions, furthest))
        return np.flatnonzero(_truths(sound))

    def _laid_out(self, rows: Any, counts: _Counts | None) -> pa.RecordBatch:
        """Rows as the pipeline projects them; of a piece's last row only the newest position.

        That row has no score, so it is never ranked.
        """
        length = 1 if rows is None else len(next(iter(rows.values())))
        arrays = {self.counted: _counted(counts, length)}
        if rows is not None:
            for column in self.handed_on:
                if counts is None or column.is_key:
                    arrays[column.name] = _as_column(column.evaluate(rows), length)
            arrays[self.position] = self.axis.positions(rows)
            if counts is None:
                for score in self.scores:
                    arrays[score.name] = _without_nan(_as_column(score.evaluate(rows), length))
        arrays[self.everything] = pa.array(np.zeros(length, np.int32))
        columns = [
            arrays[part.name].cast(part.type)
            if part.name in arrays
            else pa.nulls(length, part.type)
            for part in self.layout
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.layout)


def _counted(counts: _Counts | None, length: int) -> Any:
    fields = [pa.field(name, pa.int64()) for name in COUNTED]
    if counts is None:
        return pa.nulls(length, pa.struct(fields))
    values = [pa.array([getattr(counts, name)], pa.int64()) for name in COUNTED]
    return pa.StructArray.from_arrays(values, fields=fields)


def _taken(columns: dict[str, Any], places: Ints) -> dict[str, Any]:
    at = pa.array(places)
    return {name: column.take(at) for name, column in columns.items()}


def _as_column(value: Any, length: int) -> Any:
    """A value for each row, also where it is the same for all."""
    return pa.repeat(value, length) if isinstance(value, pa.Scalar) else value


def _without_nan(score: Any) -> Any:
    """Scores that are ranked: NaN is not, and would be the highest to Spark."""
    if not pa.types.is_floating(score.type):
        return score
    return pc.if_else(pc.is_nan(score), pa.scalar(None, score.type), score)


def _truths(condition: Any) -> Bools:
    """Where a condition is true; NULL is not."""
    truths: Bools = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return truths


class _Groups:
    """The row groups of a file, read in parts."""

    def __init__(self, file: pq.ParquetFile, path: str, types: dict[str, str]) -> None:
        self._file, self._path, self._types = file, path, types
        self._spelled = names_in_file(file.schema_arrow, list(types), path)
        self._int96 = moments_without_zone(file)
        self._shifted = has_other_calendar(file.metadata.metadata or {})

    def between(self, low: int, high: int) -> list[int]:
        """The row groups whose middle lies between two bytes: each is in one piece of its file."""
        metadata = self._file.metadata
        inside = []
        for group in range(metadata.num_row_groups):
            part = metadata.row_group(group)
            columns = [part.column(i) for i in range(part.num_columns)]
            starts = [
                column.dictionary_page_offset or column.data_page_offset for column in columns
            ]
            size = sum(column.total_compressed_size for column in columns)
            middle = min(starts, default=0) + size // 2
            if low <= middle < high and part.num_rows:
                inside.append(group)
        return inside

    def batches(self, group: int, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], int]]:
        """Columns of a row group, in stretches of rows, and how long each is."""
        known = [name for name in names if name in self._spelled]
        left = self._file.metadata.row_group(group).num_rows
        if not known:
            while left:
                length = min(left, _ROWS)
                yield {name: self._missing(name, length) for name in names}, length
                left -= length
            return
        spelled = list(dict.fromkeys(self._spelled[name] for name in known))
        for batch in self._file.iter_batches(
            batch_size=_ROWS, row_groups=[group], columns=spelled, use_threads=False
        ):
            length = batch.num_rows
            columns = {
                name: self._column(batch, name)
                if name in self._spelled
                else self._missing(name, length)
                for name in names
            }
            yield columns, length

    def _column(self, batch: Any, name: str) -> Any:
        """A column of a batch, as Spark would read it."""
        spelled = self._spelled[name]
        column = batch.column(spelled)
        if spelled in self._int96 and self._types[name] == "timestamp":
            column = column.cast(arrow_type("timestamp"))
        column = as_spark_reads(column, self._types[name], name, self._path)
        if self._shifted:
            refuse_old(column, name, self._path)
        return column

    def rows(self, group: int, names: Sequence[str], places: Ints) -> dict[str, Any]:
        """Columns of some rows of a row group, by their ascending places in it."""
        if not names:
            return {}
        parts: list[dict[str, Any]] = []
        offset = 0
        for columns, length in self.batches(group, names):
            low, high = np.searchsorted(places, [offset, offset + length])
            if low < high:
                parts.append(_taken(columns, places[low:high] - offset))
            offset += length
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in names}

    def _missing(self, name: str, length: int) -> Any:
        """A column that the file does not have."""
        return pa.nulls(length, arrow_type(self._types[name]))


def opened(path: str) -> pq.ParquetFile:
    """A Parquet file, by the path that Spark gives."""
    local = path[len("file:") :] if path.startswith("file:") else None
    try:
        if local is not None:
            source: Any = "/" + local.lstrip("/")
            filesystem = None
        else:
            from pyarrow.fs import FileSystem

            filesystem, source = FileSystem.from_uri(path)
        options: dict[str, Any] = {"filesystem": filesystem, "coerce_int96_timestamp_unit": "us"}
        file = pq.ParquetFile(source, **options)
        sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
        if max(sizes, default=0) > _STREAMED:
            file.close()
            file = pq.ParquetFile(source, buffer_size=_BUFFER, **options)
        return file
    except FileNotFoundError:
        raise OSError(f"[FILE_NOT_EXIST] {path}") from None
    except (pa.ArrowInvalid, OSError) as error:  # under Spark's name: jobs know what to say of it
        raise OSError(f"[FAILED_READ_FILE] {path} cannot be read: {error}") from None
