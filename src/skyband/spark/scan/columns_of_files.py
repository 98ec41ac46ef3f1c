"""Columns of Parquet files as Spark would read them: by name, in the types of the query's schema.

What a file holds in another type is widened where nothing is lost, else refused: Spark's own reader
may know more ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import DataError

ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Types of columns that tasks read, as Spark calls them."""

GREGORIAN = -2_208_988_800_000_000
"""1900 in microseconds: calendars and clocks differ before."""


def readable(type: str) -> bool:
    """Whether tasks read columns of a type."""
    return type in ARROW or type.startswith("decimal(")


def arrow_type(type: str) -> pa.DataType:
    """The Arrow type of a column, as Spark calls it."""
    if type.startswith("decimal("):
        precision, scale = type[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW[type]


def names_in_file(schema: Any, names: list[str], path: str) -> dict[str, str]:
    """The columns that a file has, by the names of the query: alike but for case, as to Spark."""
    spelled: dict[str, str] = {}
    for name in names:
        if name in schema.names:
            spelled[name] = name
            continue
        alike = [known for known in schema.names if known.lower() == name.lower()]
        if len(alike) > 1:
            raise DataError(f"{path} has columns {' and '.join(alike)}", f"one column {name}")
        if alike:
            spelled[name] = alike[0]
    return spelled


def moments_without_zone(file: Any) -> set[str]:
    """The columns of a file in the old layout of moments, INT96: Spark takes them for UTC."""
    columns = [file.schema.column(i) for i in range(len(file.schema))]
    return {column.path for column in columns if column.physical_type == "INT96"}


def as_spark_reads(column: Any, type: str, name: str, path: str) -> Any:
    """A column in the Arrow type that the query expects."""
    wanted = arrow_type(type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type != wanted:
        if not _widens(column.type, wanted):
            raise DataError(
                f"{path} holds {name} as {column.type}",
                f"{type}, as in the schema of the query",
                "let Spark read the files: scan: false in a job, or a DataFrame of spark.read",
            )
        column = column.cast(wanted)
    return column


def _widens(have: Any, wanted: Any) -> bool:
    """Whether a type loses nothing in another."""
    if pa.types.is_integer(have) and pa.types.is_integer(wanted):
        signed = pa.types.is_signed_integer(have)
        return bool(have.bit_width + (0 if signed else 1) <= wanted.bit_width)
    if pa.types.is_floating(have) and pa.types.is_floating(wanted):
        return bool(have.bit_width <= wanted.bit_width)
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(wanted):
        return have.unit in ("s", "ms", "us") and (have.tz is None) == (wanted.tz is None)
    if pa.types.is_decimal(have) and pa.types.is_decimal(wanted):
        return bool(have.scale == wanted.scale and have.precision <= wanted.precision)
    texts = (pa.types.is_large_string, pa.types.is_large_binary)
    return any(is_large(have) for is_large in texts) and have == _large(wanted)


def _large(type: Any) -> Any:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(type)


def has_other_calendar(metadata: Mapping[bytes, bytes]) -> bool:
    """Whether a file was written with the old calendar, by what Spark notes in its metadata."""
    version = metadata.get(b"org.apache.spark.version", b"3").decode()
    return version.startswith(("1.", "2.")) or any(b"legacy" in key for key in metadata)


def refuse_old(column: Any, name: str, path: str) -> None:
    """Refuse moments before 1900 in a file of the old calendar, which Spark would shift."""
    if not len(column) or not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return
    lowest = pc.min(column).cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    limit = GREGORIAN // 86_400_000_000 if pa.types.is_date(column.type) else GREGORIAN
    if lowest.as_py() is not None and lowest.as_py() < limit:
        raise DataError(
            f"{path} holds {name} from before 1900",
            "moments that all calendars agree on",
            "let Spark read the files: scan: false in a job, or a DataFrame of spark.read",
        )


def micros(column: Any) -> Any:
    """Moments as whole microseconds, dates as days."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column
