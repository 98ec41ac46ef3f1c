"""How kept columns travel through Python and back without losing anything.

Python's dates and moments span fewer years than Spark's and know local clocks; so both travel as
whole numbers. Everything else that Spark hands to Python comes back as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skyband.errors import DataError

_PLAIN = (
    BinaryType,
    BooleanType,
    ByteType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)


@dataclass(frozen=True)
class Carried:
    """A kept column: its name and type, and the type in which it travels."""

    name: str
    type: DataType
    travels: DataType

    def pack(self, column: Column) -> Column:
        """The column as it travels."""
        if isinstance(self.type, TimestampType):
            return F.unix_micros(column)
        if isinstance(self.type, TimestampNTZType):
            return F.unix_micros(column.cast("timestamp"))
        if isinstance(self.type, DateType):
            return F.unix_date(column)
        return column

    def unpack(self, column: Column) -> Column:
        """The column as it was."""
        if isinstance(self.type, TimestampType):
            return F.timestamp_micros(column)
        if isinstance(self.type, TimestampNTZType):
            return F.timestamp_micros(column).cast("timestamp_ntz")
        if isinstance(self.type, DateType):
            return F.date_from_unix_date(column)
        return column


def carried(name: str, type: DataType) -> Carried:
    """How a column travels; raises :class:`DataError` if it cannot."""
    if isinstance(type, (TimestampType, TimestampNTZType)):
        return Carried(name, type, LongType())
    if isinstance(type, DateType):
        return Carried(name, type, IntegerType())
    if isinstance(type, _PLAIN) or _plain_inside(type):
        return Carried(name, type, type)
    raise DataError(
        f"column {name!r} is of type {type.simpleString()}",
        "kept columns of plain types, and arrays and structs of numbers and texts",
        f"leave it out with keep=[...], or keep to_json({name}) instead",
    )


def _plain_inside(type: DataType) -> bool:
    if isinstance(type, ArrayType):  # but not maps: in the state of a stream they turn to NULL
        return _plain_inside(type.elementType)
    if isinstance(type, StructType):
        return all(_plain_inside(field.dataType) for field in type.fields)
    return isinstance(type, _PLAIN)


def groupable(type: DataType) -> bool:
    """Whether a stream can keep state by a column of this type."""
    if isinstance(type, StructType):
        return all(isinstance(field.dataType, _PLAIN) for field in type.fields)
    return isinstance(type, (*_PLAIN, DateType, TimestampType, TimestampNTZType))


def orderable(type: DataType) -> bool:
    """Whether Spark can sort by a column of this type."""
    if isinstance(type, ArrayType):
        return orderable(type.elementType)
    if isinstance(type, StructType):
        return all(orderable(field.dataType) for field in type.fields)
    return not isinstance(type, MapType)
