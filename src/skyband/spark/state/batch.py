"""Batch DataFrames: all rows of each key to its ranked windows, key after key.

Spark hands over one group at a time, which costs more than the group when keys are many; so rows
are sorted by key instead, and cut into keys here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from skyband.spark.state.candidates import FOREVER
from skyband.spark.state.processor import Kept

if TYPE_CHECKING:
    import pyarrow as pa

Columns = list[list[Any]]
Answers = Callable[[Columns], Iterator[tuple[Any, ...]]]
Weighs = Callable[[tuple[Any, ...]], int]

_TOGETHER = 100_000  # ranked rows that are handed back at once


def ranked_rows(row: tuple[Any, ...]) -> int:
    """How many rows one window ranks, in the layout of ``answer_fields``."""
    return len(row[2])


def answered(
    rows: DataFrame,
    keys: list[str],
    answers: Answers,
    schema: StructType,
    weighs: Weighs = ranked_rows,
) -> DataFrame:
    """The answers to all rows of each key, behind the key.

    ``answers`` gets the other columns of a key's rows and gives what the schema lays out behind
    the key; ``weighs`` says how many ranked rows are in one of its rows.
    """
    width = len(keys)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (key + row for key, columns in _by_key(batches, width) for row in answers(columns))
        return handed_over(found, schema, lambda row: weighs(row[width:]))

    return rows.repartition(*keys).sortWithinPartitions(*keys).mapInArrow(run, schema)


def handed_over(
    rows: Iterator[tuple[Any, ...]], schema: StructType, weighs: Weighs
) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, so many at a time that they rank about as many rows; see ``weighs``."""
    found: list[tuple[Any, ...]] = []
    held = 0
    for row in rows:
        found.append(row)
        held += weighs(row)
        if held > _TOGETHER:
            yield batch_of(found, schema)
            found, held = [], 0
    if found:
        yield batch_of(found, schema)


def of_panes(kept: Kept) -> Answers:
    """What answers all panes of a key."""

    def answers(columns: Columns) -> Iterator[tuple[Any, ...]]:
        panes = [kept.pane(row, 0) for row in zip(*columns, strict=True)]
        return kept.rows(kept.candidates(), panes, FOREVER, True)

    return answers


def _by_key(
    batches: Iterator[pa.RecordBatch], width: int
) -> Iterator[tuple[tuple[Any, ...], Columns]]:
    """Rows that are sorted by their first columns, cut where those change."""
    current: tuple[Any, ...] | None = None
    same: Any = None
    held: Columns = []
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        low = 0
        for at, key in enumerate(zip(*columns[:width], strict=True)):
            if current is not None and (key == current or comparable(key) == same):
                continue
            if current is not None:
                _extend(held, columns[width:], low, at)
                yield current, held
            current, same, held = key, comparable(key), [[] for _ in columns[width:]]
            low = at
        _extend(held, columns[width:], low, batch.num_rows)
    if current is not None:
        yield current, held


def _extend(held: Columns, columns: Columns, low: int, high: int) -> None:
    for own, column in zip(held, columns, strict=True):
        own.extend(column[low:high])


def comparable(value: Any) -> Any:
    """A key that equals itself, even if it holds NaN."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, tuple):
        return tuple(comparable(part) for part in value)
    if isinstance(value, dict):
        return tuple(comparable(part) for part in value.values())
    return value


def batch_of(rows: list[tuple[Any, ...]], schema: StructType) -> pa.RecordBatch:
    """Rows as Arrow, in the layout of a schema."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
