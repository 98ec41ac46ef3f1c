"""The pane path on batch DataFrames: the same candidates, one key at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from skyband.spark.processor import Kept, pane_of

if TYPE_CHECKING:
    import pyarrow as pa

_FOREVER = 1 << 62


def answerer(kept: Kept, keys: int, output: StructType) -> Callable[[pa.Table], pa.Table]:
    """A function from all panes of a key to its ranked windows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(output)

    def answer(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        columns = [column.to_pylist() for column in table.columns]
        panes = [pane_of(row, keys) for row in zip(*columns, strict=True)]
        key = tuple(column[0] for column in columns[:keys])
        found = kept.candidates()
        rows = [key + row for row in kept.rows(found.run(panes, _FOREVER), found)]
        arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        return pa.Table.from_arrays(arrays, schema=schema)

    return answer
