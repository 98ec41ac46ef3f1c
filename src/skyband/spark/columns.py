"""Columns: which a query means, and how they pass through Python and back without loss.

Python's dates and moments span fewer years than Spark's and know local clocks; so both pass as
whole numbers. Everything else that Spark hands to Python comes back as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
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
    VariantType,
)

from skyband.errors import DataError, QueryError

Names = str | Sequence[str]

ALL = "_sky_all"
"""The key of a query without keys."""
LABEL = "_sky_label"
"""The first window end after a row; on a stream a timestamp, which carries the watermark."""
# the names are in the state of streaming aggregations: other ones would refuse old checkpoints
LONGER = "_sky_half"
"""Whether a row lives longer than others of its step."""
SCORE = "_sky_score"
POSITION = "_sky_at"
BEST = "_sky_best"
COUNTS = "_sky_counts"
"""What tasks that read files have counted of their rows."""

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
class TransportColumn:
    """A column of the data: its name and type, and the type in which it passes through Python."""

    name: str
    type: DataType
    transport_type: DataType

    def pack(self) -> Column:
        """The column as it passes through Python."""
        column = F.col(quoted(self.name))
        if isinstance(self.type, TimestampType):
            return F.unix_micros(column)
        if isinstance(self.type, TimestampNTZType):
            return F.unix_micros(column.cast("timestamp"))
        if isinstance(self.type, DateType):
            return F.unix_date(column)
        return column

    def pack_key(self) -> Column:
        """The same for a key: -0.0 and 0.0 are one, as for Spark's own groups."""
        if isinstance(self.type, (DoubleType, FloatType)):
            return self.pack() + F.lit(0.0).cast(self.type)
        return self.pack()

    def pack_equal_key(self) -> Column:
        """The same where no aggregation of Spark's makes keys equal: in structs, too, one NaN."""
        key = self.pack()
        if not isinstance(self.type, StructType):
            return _equal(key, self.type)
        fields = [
            _equal(key.getField(field.name), field.dataType).alias(field.name)
            for field in self.type.fields
        ]
        return F.when(key.isNotNull(), F.struct(*fields))

    def unpack(self, column: Column) -> Column:
        """The column as it was, under its name."""
        if isinstance(self.type, TimestampType):
            column = F.timestamp_micros(column)
        elif isinstance(self.type, TimestampNTZType):
            column = F.timestamp_micros(column).cast("timestamp_ntz")
        elif isinstance(self.type, DateType):
            column = F.date_from_unix_date(column)
        return column.alias(self.name)


def _equal(column: Column, type: DataType) -> Column:
    """A value that has the same bytes as all that Spark's groups take for equal."""
    if not isinstance(type, (DoubleType, FloatType)):
        return column
    return F.nanvl(column, F.lit(float("nan")).cast(type)) + F.lit(0.0).cast(type)


def transport(name: str, type: DataType) -> TransportColumn:
    """How a column passes through Python; raises :class:`DataError` if it cannot."""
    if isinstance(type, (TimestampType, TimestampNTZType)):
        return TransportColumn(name, type, LongType())
    if isinstance(type, DateType):
        return TransportColumn(name, type, IntegerType())
    if isinstance(type, _PLAIN) or _plain_inside(type):
        return TransportColumn(name, type, type)
    raise DataError(
        f"column {name!r} is of type {type.simpleString()}",
        "kept columns of plain types, and arrays and structs of numbers and texts",
        f"leave it out with keep=[...], or keep to_json({name}) instead",
    )


def transport_types(columns: Sequence[TransportColumn]) -> tuple[DataType, ...]:
    """The types in which columns pass through Python."""
    return tuple(column.transport_type for column in columns)


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
    return not isinstance(type, (MapType, VariantType))


def unscaled(column: Column, type: DecimalType) -> Column:
    """A decimal of up to 18 digits as a bigint, in units of its last digit."""
    return (column * F.lit(10**type.scale).cast("decimal(19,0)")).cast("bigint")


def decimal_of(number: Column, type: DecimalType) -> Column:
    """The decimal that a bigint counts units of the last digit of."""
    scale = type.scale
    whole = number.cast(DecimalType(min(type.precision, 19), 0))
    if scale:
        whole = whole * F.lit(f"{Decimal(1).scaleb(-scale):f}").cast(DecimalType(scale, scale))
    return whole.cast(type)


def require_frame(df: Any) -> None:
    """Refuse what is no DataFrame."""
    if not isinstance(df, DataFrame):
        raise QueryError(
            f"df is {type(df).__name__}",
            "a Spark DataFrame",
            "write spark.createDataFrame(...), or spark.read or spark.readStream",
        )


def schema_of(df: DataFrame) -> StructType:
    """The columns of a DataFrame; Spark does not tell them inside a pipeline's functions."""
    try:
        return df.schema
    except PySparkException as error:
        if error.getCondition() != "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION":
            raise
    raise QueryError(
        "top_k was called in a pipeline's query function, where Spark tells nothing of columns",
        "a call at the top of the file",
        "make the DataFrame there, and return it from the function",
    )


def column_names(schema: StructType, names: Names | None, option: str) -> tuple[str, ...]:
    """Column names as the DataFrame spells them, each once."""
    if names is None:
        return ()
    spelled: list[str] = []
    for name in names if isinstance(names, (list, tuple)) else [names]:
        if not isinstance(name, str):
            raise QueryError(f"{option} is {name!r}", "column names", f"write {option}='name'")
        alike = [known for known in schema.names if known.lower() == name.lower()]
        exact = [known for known in alike if known == name] or alike
        if not exact:
            close = get_close_matches(name.lower(), [n.lower() for n in schema.names], 1, 0.5)
            fix = f"did you mean {close[0]!r}?" if close else ""
            raise DataError(
                f"{option}: there is no column {name!r}", f"one of {', '.join(schema.names)}", fix
            )
        if exact[0] not in spelled:
            spelled.append(exact[0])
    return tuple(spelled)


def moment_column(df: DataFrame, time: str) -> str:
    """The name of a column of timestamps or dates, as the DataFrame spells it."""
    (name,) = column_names(df.schema, time, "time")
    type = df.schema[name].dataType
    if isinstance(type, (TimestampType, TimestampNTZType, DateType)):
        return name
    whole = isinstance(type, (ByteType, ShortType, IntegerType, LongType))
    ticks = (
        "write window=last(time=100, slide=10) for windows in its own unit, or " if whole else ""
    )
    raise DataError(
        f"time {name!r} is of type {type.simpleString()}",
        "a timestamp or a date",
        f"{ticks}add a column first: "
        f"df.withColumn('ts', F.expr(\"try_cast({name} AS TIMESTAMP)\"))",
    )


def check_spelling(df: DataFrame, names: set[str]) -> None:
    """Refuse columns that Spark could not tell apart by name."""
    known = [name.lower() for name in df.columns]
    twice = sorted(name for name in names if known.count(name.lower()) > 1)
    exact = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true" if twice else False
    for name in twice:
        if not exact or df.columns.count(name) > 1:
            raise DataError(
                f"there are {known.count(name.lower())} columns {name!r}",
                "columns of different names",
                "rename them before",
            )


def check_zone(df: DataFrame, names: set[str]) -> None:
    """Refuse local times in other zones: where clocks are put forward, some would be lost."""
    local = sorted(n for n in names if isinstance(df.schema[n].dataType, TimestampNTZType))
    if not local:
        return
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")
    if zone not in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
        raise DataError(
            f"column {local[0]!r} has no time zone and the session's is {zone}",
            "the session time zone UTC",
            "set spark.sql.session.timeZone to UTC, or convert with to_utc_timestamp",
        )


def quoted(name: str) -> str:
    """A column name as Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def in_words(names: Names) -> str:
    """Column names as a sentence has them: ``symbol and day``."""
    return names if isinstance(names, str) else " and ".join(names)


def indexed(prefix: str, count: int) -> list[str]:
    """Our names of so many columns: ``prefix_0``, ``prefix_1``, ..."""
    return [f"{prefix}_{i}" for i in range(count)]


def score_names(count: int) -> list[str]:
    """Our names of so many scores."""
    return [SCORE, *(f"{SCORE}_{i}" for i in range(1, count))]
