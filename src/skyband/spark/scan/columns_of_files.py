"""Columns of Parquet files as Spark would read them: by name, in the types of the query's schema.

What a file holds in another type is widened where nothing is lost, else refused: Spark's own reader
may know more ways.
"""

from __future__ import annotations

import re
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
    if isinstance(column, pa.ExtensionArray):  # JSON, a UUID: Spark reads what is stored
        column = column.storage
    if column.type == wanted:
        return column
    widened = _widened(column, wanted)
    if widened is None:
        raise DataError(
            f"{path} holds {name} as {column.type}",
            f"{type}, as in the schema of the query",
            "let Spark read the files: source.scan: false in a job, or a DataFrame of spark.read",
        )
    return widened


def _widened(column: Any, wanted: Any) -> Any:
    """A column in a type that loses nothing of it, as far as Spark's reader knows it; else None."""
    have = column.type
    if pa.types.is_null(have):
        return pa.nulls(len(column), wanted)
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(wanted):
        # the number counts: Spark heeds no zone where the schema says otherwise
        same_zone = column.view(pa.timestamp(have.unit, wanted.tz))
        return same_zone.cast(wanted) if have.unit in ("s", "ms", "us") else None
    if wanted in (pa.string(), pa.binary()):
        plain = next((kind for is_kind, kind in _TEXTS if is_kind(have)), None)
        # a text need not be sound to Spark, so it is not looked at
        return None if plain is None else column.cast(plain).view(wanted)
    return column.cast(wanted) if _widens(have, wanted) else None


_TEXTS = (
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
)
"""Texts as files have them, and the type that holds the same bytes."""

_DIGITS = 10
"""Of a whole number of 32 bits."""


def _widens(have: Any, wanted: Any) -> bool:
    """Whether all numbers of a type are numbers of another, and Spark reads them as such."""
    small = pa.types.is_signed_integer(have) and have.bit_width <= 32
    if pa.types.is_integer(have) and pa.types.is_integer(wanted):
        signed = pa.types.is_signed_integer(have)
        return bool(have.bit_width + (0 if signed else 1) <= wanted.bit_width)
    if pa.types.is_floating(wanted):
        floats = have == pa.float32() or (small and wanted == pa.float64())
        return bool(floats and wanted.bit_width >= 32)
    if not pa.types.is_decimal(wanted):
        return False
    digits = wanted.precision - wanted.scale
    if pa.types.is_decimal(have):
        return bool(have.scale <= wanted.scale and have.precision - have.scale <= digits)
    return bool((small and digits >= _DIGITS) or (have == pa.uint64() and digits >= 2 * _DIGITS))


def has_other_calendar(metadata: Mapping[bytes, bytes], has_int96: bool = False) -> bool:
    """Whether a file was written with the old calendar, by what Spark notes in its metadata.

    Moments in the layout INT96 had it for longer than all else: before 3.1.
    """
    version = metadata.get(b"org.apache.spark.version", b"4.0").decode()
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    since = (3, 1) if has_int96 else (3, 0)
    return numbers < since or any(b"legacy" in key for key in metadata)


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
            "let Spark read the files: source.scan: false in a job, or a DataFrame of spark.read",
        )


def micros(column: Any) -> Any:
    """Moments as whole microseconds, dates as days."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column
