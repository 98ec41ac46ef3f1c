"""The values of a file's columns as text: one way to write each type, whatever engine read it.

Floats are written as Python's ``repr`` does (inf and nan included), whole numbers and decimals
plainly, booleans as ``true`` and ``false``, timestamps as ``YYYY-MM-DD HH:MM:SS[.ffffff]`` in UTC,
lists and structures as JSON. NULL is no text at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from skyband.cli.input.source import Column, FileSource

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.order import Ints

Kind = Literal["number", "float", "truth", "text"]
Texts = list[str | None]

_DAY = 86_400_000_000
_INFINITE = (1 << 63) - 1


@dataclass(frozen=True)
class Cells:
    """Some rows of a file: per column its name, what it holds, and the text of each value."""

    names: list[str]
    kinds: list[Kind]
    texts: list[Texts]


def cells(source: FileSource, rows: Ints, keys: list[Column]) -> Cells:
    """All columns of the file, for the rows of these numbers (ascending), and keys beside them."""
    derived = [key for key in keys if key not in source.columns]
    columns = [*source.columns, *derived]
    return _cells(columns, rows, lambda numbers, sql: source.pick(numbers, sql, derived))


def object_cells(source: FileSource, objects: Ints, apart: list[Column], where: str) -> Cells:
    """What tells objects apart, for those of these numbers (ascending).

    ``apart`` and ``where`` are as in :meth:`FileSource.pick_objects`; a column is shown once.
    """
    shown = list(dict.fromkeys(apart))
    return _cells(
        shown, objects, lambda numbers, sql: source.pick_objects(numbers, apart, sql, where)
    )


def _cells(
    columns: list[Column], numbers: Ints, pick: Callable[[Ints, list[str]], pa.Table]
) -> Cells:
    names = [column.name for column in columns]
    exports = [_export(column) for column in columns]
    kinds = [kind for kind, _ in exports]
    if not len(numbers):
        return Cells(names, kinds, [[] for _ in names])
    table = pick(numbers, [f"{sql} AS c{at}" for at, (_, sql) in enumerate(exports)])
    return Cells(names, kinds, [texts(column) for column in table.columns])


def _export(column: Column) -> tuple[Kind, str]:
    """What a column holds, and the SQL that hands it over without loss."""
    name, type = column.quoted, column.type
    if re.fullmatch(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)", type):
        return "number", name
    if re.fullmatch(r"U?HUGEINT|BIGNUM|DECIMAL\(\d+,\s*\d+\)", type):
        return "number", f"CAST({name} AS VARCHAR)"
    if type in ("FLOAT", "DOUBLE"):
        return "float", name
    if type == "BOOLEAN":
        return "truth", name
    if type in ("TIMESTAMP_NS", "TIME"):
        return "text", name
    if type.startswith("TIMESTAMP"):
        return "text", f"CAST({name} AS TIMESTAMP)"
    if re.search(r"\[\d*\]$|^(STRUCT|MAP|UNION|TUPLE|VARIANT)\b", type):
        return "text", f"CAST(to_json({name}) AS VARCHAR)"
    return "text", f"CAST({name} AS VARCHAR)"


def texts(column: pa.ChunkedArray) -> Texts:
    """The values of an Arrow column as text, None for NULL."""
    import pyarrow as pa

    type = column.type
    if pa.types.is_timestamp(type):
        write = moment_ns if type.unit == "ns" else moment
        return _written(column.cast(pa.int64()), write)
    if pa.types.is_time64(type):
        return _written(column.cast(pa.int64()), clock)
    if pa.types.is_boolean(type):
        return _written(column, _truth)
    if pa.types.is_floating(type):
        return _written(column, repr)
    return _written(column, str)


def _written(column: pa.ChunkedArray, write: Any) -> Texts:
    return [None if value is None else write(value) for value in column.to_pylist()]


def _truth(value: bool) -> str:
    return "true" if value else "false"


def moment(microseconds: int) -> str:
    """Microseconds since the epoch as a timestamp in UTC.

    >>> moment(1_500_000)
    '1970-01-01 00:00:01.500000'
    """
    if abs(microseconds) == _INFINITE:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY)
    return f"{_day(days)} {clock(rest)}"


def moment_ns(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as a timestamp; the last three digits only if there are any."""
    if abs(nanoseconds) == _INFINITE:
        return moment(nanoseconds)
    whole, rest = divmod(nanoseconds, 1_000)
    if not rest:
        return moment(whole)
    return f"{moment(whole)[:19]}.{whole % 1_000_000:06d}{rest:03d}"


def clock(microseconds: int) -> str:
    """Microseconds since midnight as a time of day."""
    seconds, rest = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{rest:06d}" if rest else "")


@lru_cache(4096)
def _day(days: int) -> str:
    """Days since the epoch as a date, also beyond the years 1 to 9999 that Python knows."""
    eras, day = divmod(days + 719_162, 146_097)  # 400 years are 146,097 days
    known = date.fromordinal(day + 1)
    return f"{known.year + 400 * eras:04d}-{known.month:02d}-{known.day:02d}"
