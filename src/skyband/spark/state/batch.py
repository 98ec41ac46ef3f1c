"""Batch DataFrames: all panes of each key to its ranked windows, key after key.

Spark hands over one group at a time, which costs more than the group when keys are many; so panes
are sorted by key instead, and cut into keys here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from skyband.spark.axis import FOREVER, PaneLifetimes
from skyband.windows import require_few_windows

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.order import Bools
    from skyband.spark.state.processor import StateSpec

Columns = list[list[Any]]

_RANKED_ROWS = 100_000  # that are handed back at once


class Piece(NamedTuple):
    """Rows of one key that came together: the key, and the columns behind it.

    Columns are lists, or Arrow's arrays if a family asks for them.
    """

    key: tuple[Any, ...]
    columns: list[Any]


def answered(panes: DataFrame, spec: StateSpec, schema: StructType) -> DataFrame:
    """The answers to all panes of each key, behind the key."""
    groups = spec.groups
    tasks = spec.tasks
    placed = panes.repartition(*groups) if tasks is None else panes.repartition(tasks, *groups)
    placed = placed.sortWithinPartitions(*groups, *spec.batch_order)
    return placed.mapInArrow(partial(_answered, spec, schema), schema)


def _answered(
    spec: StateSpec, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    width = len(spec.groups)

    def rows() -> Iterator[tuple[Any, ...]]:
        for key, pieces in by_key(batches, width, spec.arrow):
            for row in spec.answer_all(pieces):
                yield (*key, *row)

    return handed_over(rows(), schema, lambda row: spec.weight(row[width:]))


def by_key(
    batches: Iterator[pa.RecordBatch], width: int, arrow: bool = False
) -> Iterator[tuple[tuple[Any, ...], Iterator[Piece]]]:
    """Rows that are sorted by their first columns, as pieces of one key each."""
    for _, same in groupby(
        cut_batches(batches, width, arrow), key=lambda piece: comparable(piece.key)
    ):
        pieces = iter(same)
        first = next(pieces)
        yield first.key, chain([first], pieces)


def cut_batches(
    batches: Iterator[pa.RecordBatch], width: int, arrow: bool = False
) -> Iterator[Piece]:
    """Rows, cut where one of their first columns changes."""
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = batch.columns[width:]
        if not arrow:
            columns = [column.to_pylist() for column in columns]
        yield from cut_columns(batch.columns[:width], columns)


def cut_columns(keys: list[pa.Array], columns: list[Any]) -> Iterator[Piece]:
    """Columns of one or more rows, cut where one of ``keys`` changes."""
    rows = len(keys[0])
    begins = np.zeros(rows, np.bool_)
    begins[0] = True
    for column in keys:
        begins[1:] |= _changes(column)
    lows = np.flatnonzero(begins).tolist()
    for low, high in zip(lows, [*lows[1:], rows], strict=True):
        key = tuple(column[low].as_py() for column in keys)
        yield Piece(key, [column[low:high] for column in columns])


def _changes(column: pa.Array) -> Bools:
    """Whether each row but the first differs from the one before."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        values = np.asarray(column)
        changed: Bools = values[1:] != values[:-1]
        return changed
    same = [comparable(value) for value in column.to_pylist()]
    return np.array([a != b for a, b in zip(same[1:], same, strict=False)], np.bool_)


def handed_over(
    rows: Iterator[tuple[Any, ...]],
    schema: StructType,
    weight: Callable[[tuple[Any, ...]], int],
) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, so many at a time that they rank about as many rows; see ``weight``."""
    waiting: list[tuple[Any, ...]] = []
    ranked = 0
    for row in rows:
        waiting.append(row)
        ranked += weight(row)
        if ranked > _RANKED_ROWS:
            yield record_batch(waiting, schema)
            waiting, ranked = [], 0
    if waiting:
        yield record_batch(waiting, schema)


def comparable(value: Any) -> Any:
    """A key that equals itself, even if it holds NaN."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, (tuple, list)):
        return tuple(comparable(part) for part in value)
    if isinstance(value, dict):
        return tuple(comparable(part) for part in value.values())
    return value


def sortable(value: Any) -> tuple[Any, ...]:
    """A value that compares as Spark does: NULL lowest, NaN highest, structs field by field."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    if isinstance(value, dict):
        return (1, [sortable(part) for part in value.values()])
    if isinstance(value, (list, tuple)):
        return (1, [sortable(part) for part in value])
    return (1, value)


def few_windows(
    pieces: Iterator[Piece], grid: PaneLifetimes, upto: int = FOREVER
) -> Iterator[Piece]:
    """Pieces whose first column numbers panes, ascending; refuses too many windows in all.

    A batch is answered while it is read, so what comes later is counted when it comes.
    """
    counted, newest, due = 0, list[int](), -FOREVER
    for piece in pieces:
        panes = [*newest, *np.unique(np.asarray(piece.columns[0])).tolist()]
        end = min(upto, grid.last_at_end(panes[-1]))
        counted += grid.count_windows(panes, due, end)
        require_few_windows(counted)
        newest, due = panes[-1:], max(due, min(grid.last(panes[-1]), end) + 1)
        yield piece


def rows_of(pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
    """The rows of pieces, as Python values."""
    for piece in pieces:
        yield from zip(*piece.columns, strict=True)


def python_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The rows of Arrow batches, as Python values."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def tables(
    batches: Iterator[pa.RecordBatch], least: int, unit: Literal["num_rows", "nbytes"] = "num_rows"
) -> Iterator[pa.Table]:
    """Batches together, in tables of at least so many rows, or bytes, but for the last.

    None is without rows.
    """
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += getattr(batch, unit)
        if size >= least:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def record_batch(rows: list[tuple[Any, ...]], schema: StructType) -> pa.RecordBatch:
    """Rows as Arrow, in the layout of a schema."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
