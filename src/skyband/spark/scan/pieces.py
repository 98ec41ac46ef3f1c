"""What a task does with its files: read columns, count rows, hand on what may win
or what they come to.

The columns of time, score and keys are read first; the others only of row groups that hold a row
which may win, and nothing of those whose statistics tell that none does. Of each piece of a file a
last row tells what was counted, and the newest position, which moves the watermark. Workers import
this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.order import Bools, Ints
from skyband.spark.columns import ALL, COUNTS, POSITION
from skyband.spark.scan.arithmetic import Node
from skyband.spark.scan.columns_of_files import (
    arrow_type,
    as_spark_reads,
    has_other_calendar,
    moments_without_zone,
    names_in_file,
    refuse_old,
)
from skyband.spark.scan.file_systems import located
from skyband.spark.scan.reduction import Bars, BestRows
from skyband.spark.scan.row_maker import Columns, RowMaker, ScannedRows
from skyband.spark.scan.statistics import ColumnRange, column_range, whole_column
from skyband.spark.scan.values import (
    ScanAxis,
    ScanColumn,
    ScanScore,
    as_column,
    nan_count,
    read_only,
    without_nan,
)
from skyband.spark.scores import EXACT_INTS

COUNTED = ("rows", "no_time", "future", "null_score", "nan_score")
"""What is counted of the rows of a piece."""

_ROWS = 1 << 20  # rows of a batch at most
_BATCH = 64 << 20  # bytes of a batch, about
_TEXT = 64  # bytes of a text that a dictionary holds, about: files do not tell
_STREAMED = 64 << 20  # bytes of a row group from which on its columns are not held whole
_CODE = 4  # bytes of a text in a dictionary, at most: those of others are more
_BUFFER = 4 << 20
_ENCODED = pa.dictionary(pa.int32(), pa.string())


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
    extra: dict[str, int] = field(default_factory=dict)  # what a family counts besides, by name


@dataclass(frozen=True)
class _Admitted:
    """Rows of a batch that may be ranked, and their places in it, None if all of them are.

    What they are handed on with is there only if something is made of it.
    """

    columns: dict[str, Any]
    scores: list[Any]
    times: Ints
    places: Ints | None
    handed_on: Columns


@dataclass(frozen=True)
class Scan:
    """A query's rows out of Parquet files, as the pipeline projects them.

    ``types`` are those of the file's columns, as Spark calls them; ``layout`` is what is handed on.
    """

    types: dict[str, str]
    where: Node | None
    scores: tuple[ScanScore, ...]
    axis: ScanAxis
    handed_on: tuple[ScanColumn, ...]
    reduction: BestRows | RowMaker
    layout: pa.Schema
    first_columns: tuple[str, ...]

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
        with opened(path) as file, closing(_Groups(file, path, self.types)) as reader:
            for group in reader.between(low, high):
                if isinstance(self.reduction, BestRows):
                    for rows in self._best(self.reduction, reader, group, now, counts, bars):
                        yield self._laid_out(rows, None)
                else:
                    yield from self._made(self.reduction, reader, group, now, counts)
        yield self._laid_out(counts.newest_row, counts)

    def _is_out(
        self, best: BestRows, reader: _Groups, group: int, now: int, counts: _Counts, bars: Bars
    ) -> bool:
        """Whether statistics tell that no row of a row group may win; if so, count its rows."""
        names = [whole_column(score.node) for score in self.scores]
        if self.where is not None or None in names or any(one.is_key for one in self.handed_on):
            return False
        times = reader.range(group, self.axis.column)
        scores = [reader.range(group, str(name)) for name in names]
        if times is None or None in scores:
            return False
        ends = {self.axis.column: reader.values(self.axis.column, [times.lowest, times.highest])}
        oldest, newest = self.axis.positions(ends).to_pylist()
        furthest = self.axis.furthest(now)
        if furthest is not None and newest > furthest:
            return False
        rounded = [one for one, score in zip(scores, self.scores, strict=True) if not score.exact]
        if any(one.lowest < -EXACT_INTS for one in rounded if one is not None):
            return False  # its rows are refused
        highest = [score.highest for score in scores if score is not None]
        if not best.cannot_win(highest, oldest, newest, bars):
            return False
        counts.rows += reader.length(group)
        counts.no_time += times.nulls
        counts.null_score += sum(score.nulls for score in scores if score is not None)
        if counts.newest is None or newest > counts.newest:
            counts.newest = newest
            counts.newest_row = _taken(ends, np.array([1]))
        return True

    def _best(
        self, best: BestRows, reader: _Groups, group: int, now: int, counts: _Counts, bars: Bars
    ) -> Iterator[Columns]:
        """The columns of the rows of a row group that may win.

        They are handed on as soon as they would fill a batch: where most rows may win, nobody
        holds all of them.
        """
        if self._is_out(best, reader, group, now, counts, bars):
            return
        rest = reader.late(group, [name for name in self.types if name not in self.first_columns])
        most = reader.batch_rows(group, list(self.types))
        chosen: list[Columns] = []
        at: list[Ints] = []
        offset = waiting = 0
        for columns, length in reader.batches(group, self.first_columns, encoded=self._only_keys):
            places = self._places(best, columns, length, now, counts, bars)
            if len(places):
                chosen.append(_decoded(_taken(columns, places)))
                at.append(places + offset)
                waiting += len(places)
            offset += length
            if waiting >= most:
                yield {**_joined(chosen), **rest.rows(np.concatenate(at))}
                chosen, at, waiting = [], [], 0
        if chosen:
            yield {**_joined(chosen), **rest.rows(np.concatenate(at))}

    @property
    def _only_keys(self) -> frozenset[str]:
        """Columns of texts that only tell keys apart, until the rows that may win are there."""
        keys = {name for one in self.handed_on if one.is_key for name in one.node.columns}
        computed = [name for score in self.scores for name in score.node.columns]
        if self.where is not None:
            computed += self.where.columns
        return frozenset(name for name in keys.difference(computed) if self.types[name] == "string")

    def _made(
        self, maker: RowMaker, reader: _Groups, group: int, now: int, counts: _Counts
    ) -> Iterator[pa.RecordBatch]:
        """What stands for the rows of a row group, batch by batch."""
        for columns, length in reader.batches(group, list(self.types)):
            rows = self._admitted(columns, length, now, counts)
            if rows is not None:
                scanned = ScannedRows(rows.scores, rows.times, rows.handed_on)
                for made in maker.made(scanned):
                    yield self._in_layout(made, len(made[POSITION]))

    def _places(
        self,
        best: BestRows,
        columns: dict[str, Any],
        length: int,
        now: int,
        counts: _Counts,
        bars: Bars,
    ) -> Ints:
        """Count the rows of a batch, and find those that may win."""
        rows = self._admitted(columns, length, now, counts)
        if rows is None:
            return np.empty(0, np.int64)
        keys = [column.evaluate(rows.columns) for column in self.handed_on if column.is_key]
        places = best.places(rows.scores, rows.times, keys, bars)
        return places if rows.places is None else rows.places[places]

    def _admitted(
        self, columns: dict[str, Any], length: int, now: int, counts: _Counts
    ) -> _Admitted | None:
        """Count the rows of a batch; those that satisfy the condition and have a sound position."""
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
            return None
        is_made = isinstance(self.reduction, RowMaker)
        scores = [
            as_column(score.evaluate(columns, only_compared=not is_made), length)
            for score in self.scores
        ]
        positions, handed_on, checked = self.axis.positions(columns), Columns(), scores
        if isinstance(self.reduction, RowMaker):
            for column in self.handed_on:
                handed_on[column.name] = as_column(column.evaluate(columns), length)
            scores = self.reduction.checked(scores, handed_on, counts.extra)
            checked = scores[:1]
        sound = self._count(checked, positions, length, now, counts)
        if sound is not None and not sound.any():
            return None
        times = read_only(
            (positions.fill_null(0) if positions.null_count else positions).to_numpy()
        )
        if sound is not None and self._leaves_out_nan(scores):
            # much cheaper than to take the others, of all columns: NaN is never ranked
            times = read_only(np.where(sound, times, times[sound.argmax()]))
            scores = [pc.if_else(pa.array(sound), score, np.nan) for score in scores]
        elif sound is not None:
            places = np.flatnonzero(sound)
            columns, at = _taken(columns, places), pa.array(places)
            handed_on = _taken(handed_on, places)
            scores, times = [score.take(at) for score in scores], read_only(times[places])
            inside = places if inside is None else inside[places]
            sound = None
        newest = int(times.max())
        if counts.newest is None or newest > counts.newest:
            place = _place_of(newest, times, sound)
            counts.newest = newest
            counts.newest_row = _decoded(_taken(columns, np.array([place])))
        return _Admitted(columns, scores, times, inside, handed_on)

    def _leaves_out_nan(self, scores: Sequence[Any]) -> bool:
        """Whether rows are left out by NaN as their score."""
        if not isinstance(self.reduction, BestRows) or self.reduction.newest:
            return False
        return all(pa.types.is_floating(score.type) for score in scores)

    def _count(
        self, scores: Sequence[Any], positions: Any, length: int, now: int, counts: _Counts
    ) -> Bools | None:
        """Count what cannot be ranked; which rows have a sound position, None if all have."""
        counts.rows += length
        for score in scores:
            counts.null_score += score.null_count
            if pa.types.is_floating(score.type):
                counts.nan_score += nan_count(score)
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
        return _truths(sound)

    def _laid_out(self, rows: Any, counts: _Counts | None) -> pa.RecordBatch:
        """Rows as the pipeline projects them; of a piece's last row only the newest position.

        That row has no score, so it is never ranked.
        """
        length = 1 if rows is None else len(next(iter(rows.values())))
        arrays: Columns = {}
        if rows is not None:
            for column in self.handed_on:
                if counts is None or column.is_key:
                    arrays[column.name] = as_column(column.evaluate(rows), length)
            arrays[POSITION] = self.axis.positions(rows)
            if counts is None:
                for score in self.scores:
                    arrays[score.name] = without_nan(as_column(score.evaluate(rows), length))
        return self._in_layout(arrays, length, counts)

    def _in_layout(
        self, arrays: Columns, length: int, counts: _Counts | None = None
    ) -> pa.RecordBatch:
        """Columns in the order of the layout, and NULL where there is none."""
        arrays = {
            **arrays,
            COUNTS: _counted(counts, self.layout.field(COUNTS).type, length),
            ALL: pa.array(np.zeros(length, np.int32)),
        }
        columns = [
            arrays[part.name].cast(part.type)
            if part.name in arrays
            else pa.nulls(length, part.type)
            for part in self.layout
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.layout)


def _counted(counts: _Counts | None, type: pa.DataType, length: int) -> Any:
    """What was counted, by the names that the type has; NULL but for the last row of a piece."""
    if counts is None:
        return pa.nulls(length, type)
    by_name = {**{name: getattr(counts, name) for name in COUNTED}, **counts.extra}
    values = [pa.array([by_name.get(part.name, 0)], pa.int64()) for part in type]
    return pa.StructArray.from_arrays(values, fields=list(type))


def _taken(columns: dict[str, Any], places: Ints) -> dict[str, Any]:
    at = pa.array(places)
    return {name: column.take(at) for name, column in columns.items()}


def _decoded(columns: Columns) -> Columns:
    """Columns without dictionaries."""
    return {
        name: column.dictionary_decode() if column.type == _ENCODED else column
        for name, column in columns.items()
    }


def _place_of(newest: int, times: Ints, sound: Bools | None) -> int:
    """The place of a row with the newest time, which is sound; mostly it is the last."""
    if times[-1] == newest and (sound is None or sound[-1]):
        return len(times) - 1
    return int(((times == newest) if sound is None else (times == newest) & sound).argmax())


def _joined(parts: Sequence[Columns]) -> Columns:
    """Columns of several stretches of rows as one."""
    if len(parts) == 1:
        return parts[0]
    return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def _truths(condition: Any) -> Bools:
    """Where a condition is true; NULL is not."""
    truths: Bools = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return truths


class _Groups:
    """The row groups of a file, read in parts."""

    def __init__(self, file: pq.ParquetFile, path: str, types: dict[str, str]) -> None:
        self._file, self._path, self._types = file, path, types
        self._late_file: pq.ParquetFile | None = None
        self._spelled = names_in_file(file.schema_arrow, list(types), path)
        self._int96 = moments_without_zone(file)
        self._shifted = has_other_calendar(file.metadata.metadata or {}, bool(self._int96))
        self._places = {file.schema.column(i).path: i for i in range(len(file.schema))}

    def close(self) -> None:
        """Close what was opened beside the file."""
        if self._late_file is not None:
            self._late_file.close()

    @property
    def _file_for_late(self) -> pq.ParquetFile:
        """The file once more: those who read one at a time have batches of one length."""
        if self._late_file is None:
            self._late_file = opened(self._path, self._file.metadata)
        return self._late_file

    def between(self, low: int, high: int) -> list[int]:
        """The row groups that begin between two bytes: each is in one piece of its file."""
        metadata = self._file.metadata
        inside = []
        for group in range(metadata.num_row_groups):
            part = metadata.row_group(group)
            if part.num_rows and part.num_columns:
                column = part.column(0)  # to look at all of them takes long in wide files
                if low <= (column.dictionary_page_offset or column.data_page_offset) < high:
                    inside.append(group)
        return inside

    def length(self, group: int) -> int:
        """How many rows a row group has."""
        return int(self._file.metadata.row_group(group).num_rows)

    def range(self, group: int, name: str) -> ColumnRange | None:
        """What statistics tell of a column of a row group, if they tell all."""
        spelled = self._spelled.get(name)
        if spelled is None or self._shifted or spelled in self._int96:
            return None
        return column_range(self._file, group, spelled, self._types[name])

    def values(self, name: str, values: list[int]) -> Any:
        """Values of statistics as a column."""
        return pa.array(values, arrow_type(self._types[name]))

    def batches(
        self,
        group: int,
        names: Sequence[str],
        late: bool = False,
        encoded: frozenset[str] = frozenset(),
    ) -> Iterator[tuple[Columns, int]]:
        """Columns of a row group, in stretches of rows, and how long each is.

        ``late`` ones are read while others are being read. Those that are ``encoded`` may stay
        numbers of values in a dictionary.
        """
        known = [name for name in names if name in self._spelled]
        rows, left = self.batch_rows(group, names), self.length(group)
        if not known:
            while left:
                length = min(left, rows)
                yield {name: self._missing(name, length) for name in names}, length
                left -= length
            return
        spelled = list(dict.fromkeys(self._spelled[name] for name in known))
        file = self._file_for_late if late else self._file
        stored = file.iter_batches(
            batch_size=rows, row_groups=[group], columns=spelled, use_threads=False
        )
        while (batch := self._next(stored)) is not None:
            length = batch.num_rows
            columns = {
                name: self._column(batch, name, name in encoded)
                if name in self._spelled
                else self._missing(name, length)
                for name in names
            }
            yield columns, length

    def _next(self, stored: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        """The next batch as it is stored; None if there is none."""
        with as_spark_fails(self._path):
            return next(stored, None)

    def _column(self, batch: Any, name: str, encoded: bool = False) -> Any:
        """A column of a batch, as Spark would read it."""
        spelled = self._spelled[name]
        column = batch.column(spelled)
        if encoded and column.type == _ENCODED and self._types[name] == "string":
            return column
        if spelled in self._int96 and self._types[name] == "timestamp":
            column = column.cast(arrow_type("timestamp"))
        column = as_spark_reads(column, self._types[name], name, self._path)
        if self._shifted:
            refuse_old(column, name, self._path)
        return column

    def late(self, group: int, names: Sequence[str]) -> _LateColumns:
        """Columns of a row group that are read only if there are rows which may win."""
        return _LateColumns(self, group, names)

    def batch_rows(self, group: int, names: Sequence[str]) -> int:
        """How many rows of a row group a batch of columns has, so that it does not grow large."""
        part = self._file.metadata.row_group(group)
        width = 1.0  # of a row, in bytes
        for name in names:
            type = arrow_type(self._types[name])
            at = self._places.get(self._spelled.get(name, ""))
            fixed = type.bit_width / 8 if _has_width(type) else 0.0
            if at is None:
                width += fixed
                continue
            column = part.column(at)
            stored = column.total_uncompressed_size / max(part.num_rows, 1)
            if not fixed and column.has_dictionary_page:
                fixed = _TEXT
            width += max(stored, fixed)
        return max(1, min(_ROWS, int(_BATCH / width)))

    def _missing(self, name: str, length: int) -> Any:
        """A column that the file does not have."""
        return pa.nulls(length, arrow_type(self._types[name]))


class _LateColumns:
    """Columns of a row group, read as far as the rows that are asked of them."""

    def __init__(self, groups: _Groups, group: int, names: Sequence[str]) -> None:
        self._groups, self._group, self._names = groups, group, names
        self._batches: Iterator[tuple[Columns, int]] | None = None
        self._columns: Columns = {}
        self._offset = self._length = 0  # of the batch that was read last

    def rows(self, places: Ints) -> Columns:
        """The rows at some places, ascending; all lie beyond those of calls before."""
        if not self._names:
            return {}
        if self._batches is None:
            # as numbers of values in a dictionary, until the few rows are taken
            names = frozenset(self._names)
            self._batches = self._groups.batches(self._group, self._names, late=True, encoded=names)
        parts: list[Columns] = []
        while True:
            here = int(np.searchsorted(places, self._offset + self._length))
            if here:
                parts.append(_decoded(_taken(self._columns, places[:here] - self._offset)))
                places = places[here:]
            if not len(places):
                return _joined(parts)
            self._columns = {}  # not held while the next ones are read
            self._offset += self._length
            self._columns, self._length = next(self._batches)


def _has_width(type: pa.DataType) -> bool:
    """Whether all values of a type take the same room."""
    return not (pa.types.is_string(type) or pa.types.is_binary(type))


def opened(path: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """A Parquet file, by the path that Spark gives; its footer is read unless it is known."""
    with as_spark_fails(path):
        filesystem, place = located(path)
        options: dict[str, Any] = {"filesystem": filesystem, "coerce_int96_timestamp_unit": "us"}
        file = pq.ParquetFile(place, metadata=metadata, **options)
        metadata = file.metadata
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        is_large = max(sizes, default=0) > _STREAMED
        texts = _repeated_texts(metadata)
        if is_large or texts:
            file.close()
            if is_large:
                # what PyArrow reads ahead is a whole row group, whatever the size of the buffer
                options |= {"pre_buffer": False, "buffer_size": _BUFFER}
            file = pq.ParquetFile(place, metadata=metadata, read_dictionary=texts, **options)
        return file


def _repeated_texts(metadata: pq.FileMetaData) -> list[str]:
    """The columns of texts that repeat, by the first row group: their dictionaries are read faster.

    What does not repeat would be hashed for nothing.
    """
    if not metadata.num_row_groups:
        return []
    part = metadata.row_group(0)
    columns = [part.column(i) for i in range(part.num_columns)]
    return [
        column.path_in_schema
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and "." not in column.path_in_schema  # of a list or a struct
        and column.has_dictionary_page
        and column.total_uncompressed_size < _CODE * part.num_rows
    ]


@contextmanager
def as_spark_fails(path: str) -> Iterator[None]:
    """Raise what is wrong with a file under Spark's name: jobs know what to say of it."""
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except FileNotFoundError:
        raise OSError(f"[FILE_NOT_EXIST] {path}") from None
    except (pa.ArrowException, OSError) as error:
        raise OSError(f"[FAILED_READ_FILE] {path} cannot be read: {error}") from None
