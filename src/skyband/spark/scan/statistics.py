"""What the statistics of a row group tell of its rows, where they tell everything that counts.

A row group whose highest score is below the k best of its panes need not be read. Its rows are
counted all the same, so this holds only for scores that are whole numbers, as they stand in the
file: how many doubles are NaN, no statistics tell. Workers import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.spark.scan.arithmetic import WHOLE, ColumnValue, Node
from skyband.spark.scan.columns_of_files import arrow_type

_UNITS = ("ms", "us")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class ColumnRange:
    """The lowest and the highest value of a column in a row group, and how many are NULL.

    Moments are microseconds.
    """

    lowest: int
    highest: int
    nulls: int


def whole_column(node: Node) -> str | None:
    """The column that an expression is, if it holds whole numbers; else None."""
    return node.name if isinstance(node, ColumnValue) and node.type in WHOLE else None


def column_range(file: pq.ParquetFile, group: int, spelled: str, type: str) -> ColumnRange | None:
    """What the statistics tell of a column; None unless they tell all, in the type of the query.

    Whole numbers may be narrower in the file, moments coarser.
    """
    index = file.schema_arrow.get_field_index(spelled)
    if index < 0 or not _is_plain(file.schema_arrow.field(index).type, arrow_type(type)):
        return None
    metadata = file.metadata.row_group(group)
    for place in range(metadata.num_columns):
        column = metadata.column(place)
        if column.path_in_schema == spelled:
            statistics = column.statistics
            if statistics is None or not (statistics.has_min_max and statistics.has_null_count):
                return None
            # as they are stored: Python has no moments beyond the year 9999
            scale = 1_000 if getattr(file.schema_arrow.field(index).type, "unit", "") == "ms" else 1
            lowest, highest = statistics.min_raw * scale, statistics.max_raw * scale
            if lowest < _LEAST or highest > _MOST:
                return None
            return ColumnRange(lowest, highest, statistics.null_count)
    return None


def _is_plain(have: Any, wanted: Any) -> bool:
    """Whether statistics of one type are values of another."""
    if pa.types.is_timestamp(wanted):
        same = pa.types.is_timestamp(have) and (have.tz is None) == (wanted.tz is None)
        return bool(same and have.unit in _UNITS)
    whole = pa.types.is_signed_integer(have) and pa.types.is_signed_integer(wanted)
    return bool(whole and have.bit_width <= wanted.bit_width)
