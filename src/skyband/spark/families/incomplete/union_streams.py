"""A DataFrame per stream, made one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skyband.errors import DataError, QueryError
from skyband.spark.columns import column_names, quoted
from skyband.spark.derive import derived
from skyband.spark.scores import score_column

if TYPE_CHECKING:
    from skyband.spark.families.incomplete.plan import IncompleteOptions

VALUE = "_sky_value"
NAME = "_sky_name"


def union_streams(
    frames: Mapping[str, DataFrame], options: IncompleteOptions
) -> tuple[DataFrame, IncompleteOptions]:
    """One DataFrame of several, each a stream of its own; raises before any row is read.

    Its columns are those that the query needs, the value, and the name of a row's stream. The
    options are those that ask it the same.
    """
    streams = options.streams or ()
    if options.stream is not None:
        raise QueryError(
            f"stream is {options.stream!r} with a DataFrame per stream",
            "no stream column: streams are named by the mapping",
            "leave stream out",
        )
    if set(frames) != set(streams) or not frames:
        raise QueryError(
            f"DataFrames of {', '.join(map(str, frames)) or 'no stream'}",
            f"one for each of {', '.join(map(str, streams))}",
            "leave streams out to take those of the mapping",
        )
    parts, derived_options = {}, options
    for name in streams:
        parts[name], derived_options = _part(name, frames[name], options)
    if len({part.isStreaming for part in parts.values()}) > 1:
        raise QueryError(
            "streaming and batch DataFrames together", "all of one kind", "read all with readStream"
        )
    _check_types(parts)
    return reduce(DataFrame.unionByName, parts.values()), derived_options


def _part(name: str, df: Any, options: IncompleteOptions) -> tuple[DataFrame, IncompleteOptions]:
    """What a query needs of one stream, and its name."""
    if not isinstance(df, DataFrame):
        raise QueryError(f"stream {name!r} is {type(df).__name__}", "a Spark DataFrame")
    needed = ("id", "time", "sequence", "partition_by", "deduplicate_by")
    try:
        df, options = derived(df, options)
        schema = df.schema
        names = [
            column
            for option in needed
            for column in column_names(schema, getattr(options, option), option)
        ]
        value = score_column(df, options.value, "value")
    except (QueryError, DataError) as error:
        problem = f"stream {name!r}: {error.found}"
        raise type(error)(problem, error.expected, error.fix) from None
    columns = [F.col(quoted(column)) for column in dict.fromkeys(names)]
    return df.select(*columns, value.alias(VALUE), F.lit(name).alias(NAME)), options


def _check_types(parts: Mapping[str, DataFrame]) -> None:
    """Columns that one stream calls a number must not be texts in another."""
    (first, expected), *others = parts.items()
    for name, part in others:
        types = {field.name.lower(): field.dataType for field in reversed(part.schema.fields)}
        for field in expected.schema.fields:
            type = types.get(field.name.lower())
            if type != field.dataType:
                problem = "is missing" if type is None else f"is {type.simpleString()}"
                raise DataError(
                    f"column {field.name!r} of stream {name!r} {problem}",
                    f"{field.dataType.simpleString()}, as in stream {first!r}",
                    "cast it before",
                )
