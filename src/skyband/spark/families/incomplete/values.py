"""The place of a row's stream, and its value within the bounds of that stream.

Both are needed twice, in SQL for rows that Spark reads and in Arrow for those that tasks read; the
two forms stand side by side here. A stream that is not named, and a value beyond the bounds that is
not clipped, are errors, in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from skyband.errors import DataError, QueryError
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.columns import check_spelling, column_names, quoted

if TYPE_CHECKING:
    import pyarrow as pa

STREAM = "_sky_stream"
"""The place of a row's stream among those of the query."""
OUTSIDE = "a value beyond the bounds"
"""How the error of a row begins, see :attr:`IncompleteFamily.causes`."""
UNKNOWN = "a stream that is not named"


def stream_place(df: DataFrame, stream: str | None, query: TopKIncomplete) -> tuple[str, Column]:
    """The column that names a row's stream, and the place of that among those of the query."""
    if stream is None:
        raise QueryError(
            "stream was not given",
            "the column that says which stream a row belongs to, or a DataFrame per stream",
            "write stream='camera', or top_k_incomplete({'north': df, 'south': df}, ...)",
        )
    (name,) = column_names(df.schema, stream, "stream")
    check_spelling(df, {name})
    type = df.schema[name].dataType
    if isinstance(type, (ArrayType, StructType)):
        raise DataError(f"stream {name!r} is of type {type.simpleString()}", "a column of names")
    return name, _place_sql(F.col(quoted(name)), query.streams)


def _place_sql(name: Column, streams: Sequence[str]) -> Column:
    """The place of a row's stream among those of the query; rows of others are an error."""
    column = name.cast("string")
    names = F.array(*(F.lit(stream) for stream in streams))
    place = F.array_position(names, column) - F.lit(1)
    shown = F.coalesce(F.concat(F.lit("'"), column, F.lit("'")), F.lit("NULL"))
    known = ", ".join(streams)
    error = F.raise_error(F.concat(F.lit(f"{UNKNOWN}: "), shown, F.lit(f" is none of {known}")))
    return F.when(place >= F.lit(0), place).otherwise(error.cast("bigint")).cast("int")


def bounded_sql(value: Column, stream: Column, query: TopKIncomplete) -> tuple[Column, Column]:
    """A value within the bounds of its stream, and whether it was beyond them."""
    low, high = (_of_stream_sql(bounds.tolist(), stream) for bounds in (query.low, query.high))
    sound = value.isNotNull() & ~F.isnan(value)
    beyond = F.coalesce(sound & ((value < low) | (value > high)), F.lit(False))
    if query.outside == "clip":
        clipped = F.greatest(low, F.least(high, value))
        return F.when(sound, clipped).otherwise(value), beyond
    names = F.array(*(F.lit(name) for name in query.streams))
    error = F.raise_error(F.concat(
        F.lit(f"{OUTSIDE}: "), value.cast("string"),
        F.lit(" in stream '"), F.get(names, stream),
        F.lit("' is not from "), low.cast("string"), F.lit(" to "), high.cast("string"),
    ))  # fmt: skip
    return F.when(beyond, error.cast("double")).otherwise(value), F.lit(False)


def _of_stream_sql(bounds: list[float], stream: Column) -> Column:
    if len(set(bounds)) == 1:
        return F.lit(bounds[0])
    return F.get(F.array(*(F.lit(bound) for bound in bounds)), stream)


class StreamBounds(NamedTuple):
    """The names of streams, and the lowest and highest value in each; plain values, for workers."""

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, query: TopKIncomplete) -> StreamBounds:
        """Those of a query."""
        return cls(tuple(query.streams), tuple(query.low.tolist()), tuple(query.high.tolist()))

    def places(self, column: pa.Array) -> pa.Array:
        """The place of each row's stream, by its name."""
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.index_in(column.cast(pa.string()), value_set=pa.array(self.names))
        if places.null_count:
            name = column.filter(pc.is_null(places))[0].as_py()
            shown = "NULL" if name is None else f"'{name}'"
            raise DataError(f"{UNKNOWN}: {shown} is none of {', '.join(self.names)}")
        return places

    def clipped(self, value: pa.Array, places: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Values moved to the bounds of their streams, and whether each was beyond them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        low, high = (pa.array(bounds).take(places) for bounds in (self.low, self.high))
        below, above = pc.less(value, low), pc.greater(value, high)  # NaN is neither
        moved = pc.if_else(below, low, pc.if_else(above, high, value))
        return moved, pc.or_(below, above).fill_null(False)

    def refuse(self, value: Any, place: int) -> DataError:
        """The error of a value that is beyond the bounds of its stream."""
        between = f"{self.low[place]} to {self.high[place]}"
        return DataError(
            f"{OUTSIDE}: {value} in stream '{self.names[place]}' is not from {between}"
        )
