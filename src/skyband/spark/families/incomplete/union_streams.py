"""A DataFrame per stream, made one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skyband.errors import DataError, QueryError
from skyband.spark.families.incomplete.options import IncompleteAsked
from skyband.spark.panes import quoted
from skyband.spark.plan import column_names, score_of

VALUE = "_sky_value"
NAME = "_sky_name"


def united(frames: Mapping[str, DataFrame], asked: IncompleteAsked) -> DataFrame:
    """One DataFrame of several, each a stream of its own; raises before any row is read."""
    if asked.stream is not None:
        raise QueryError(
            f"stream is {asked.stream!r} with a DataFrame per stream",
            "no stream column: streams are named by the mapping",
            "leave stream out",
        )
    if set(frames) != set(asked.streams) or not frames:
        raise QueryError(
            f"DataFrames of {', '.join(map(str, frames)) or 'no stream'}",
            f"one for each of {', '.join(map(str, asked.streams))}",
            "leave streams out to take those of the mapping",
        )
    parts = [_part(name, frames[name], asked) for name in asked.streams]
    if len({part.isStreaming for part in parts}) > 1:
        raise QueryError(
            "streaming and batch DataFrames together", "all of one kind", "read all with readStream"
        )
    _check_types(dict(zip(asked.streams, parts, strict=True)))
    return reduce(DataFrame.unionByName, parts)


def _part(name: str, df: Any, asked: IncompleteAsked) -> DataFrame:
    """What a query needs of one stream, and its name."""
    if not isinstance(df, DataFrame):
        raise QueryError(f"stream {name!r} is {type(df).__name__}", "a Spark DataFrame")
    try:
        schema = df.schema
        wanted = [
            *column_names(schema, asked.id, "id"),
            *column_names(schema, asked.time, "time"),
            *column_names(schema, asked.sequence, "sequence"),
            *column_names(schema, asked.partition_by, "partition_by"),
            *column_names(schema, asked.deduplicate_by, "deduplicate_by"),
        ]
        value = score_of(df, asked.value, "value")
    except (QueryError, DataError) as error:
        told = f"stream {name!r}: {error.found}"
        raise type(error)(told, error.expected, error.fix) from None
    columns = [F.col(quoted(one)) for one in dict.fromkeys(wanted)]
    return df.select(*columns, value.alias(VALUE), F.lit(name).alias(NAME))


def as_united(asked: IncompleteAsked) -> IncompleteAsked:
    """The same question of the DataFrame that :func:`united` makes."""
    return replace(asked, stream=NAME, value=VALUE)


def _check_types(parts: Mapping[str, DataFrame]) -> None:
    """Columns that one stream calls a number must not be texts in another."""
    first, *others = parts.items()
    for name, part in others:
        for field in first[1].schema.fields:
            found = next(
                (f.dataType for f in part.schema.fields if f.name.lower() == field.name.lower()),
                None,
            )
            if found != field.dataType:
                told = "is missing" if found is None else f"is {found.simpleString()}"
                raise DataError(
                    f"column {field.name!r} of stream {name!r} {told}",
                    f"{field.dataType.simpleString()}, as in stream {first[0]!r}",
                    "cast it before",
                )
