"""The pane path on batch DataFrames: the same candidates, one key at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from skyband.spark.candidates import FOREVER
from skyband.spark.processor import Kept

if TYPE_CHECKING:
    import pyarrow as pa


def answerer(kept: Kept, keys: int, schema: StructType) -> Callable[[pa.Table], pa.Table]:
    """A function from all panes of a key to its ranked windows."""

    def answer(table: pa.Table) -> pa.Table:
        columns = [column.to_pylist() for column in table.columns]
        panes = [kept.pane(row, keys) for row in zip(*columns, strict=True)]
        key = tuple(column[0] for column in columns[:keys])
        found = kept.candidates()
        return table_of([key + row for row in kept.rows(found, panes, FOREVER, True)], schema)

    return answer


def table_of(rows: list[tuple[Any, ...]], schema: StructType) -> pa.Table:
    """Rows as an Arrow table of this schema."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.Table.from_arrays(arrays, schema=arrow)
