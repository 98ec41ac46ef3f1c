"""A query over incomplete streams, checked against a DataFrame's columns before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructType

from skyband.errors import DataError, QueryError
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.families.incomplete.options import IncompleteAsked
from skyband.spark.panes import quoted
from skyband.spark.plan import (
    Question,
    column_names,
    question,
    require_frame,
    score_of,
)
from skyband.spark.shards import shuffle_partitions, usual_shards

STREAM = "_sky_stream"
CLIPPED = "_sky_clipped"
OUTSIDE = "a value beyond the bounds"
"""How a row begins to complain, see :mod:`skyband.spark.jobs.failures`."""
UNKNOWN = "a stream that is not named"


@dataclass(frozen=True)
class IncompleteQuestion(Question):
    """A query that fits a DataFrame: ``score`` is the value, within its bounds.

    It is NULL also where the id is, which is how such rows are counted and left out. ``stream`` is
    the place of a row's stream, named in column ``home``, among the query's; ``clipped`` says
    whether its value was moved.
    """

    query: TopKIncomplete  # type: ignore[assignment]
    home: str
    stream: Column
    clipped: Column
    algorithm: str
    options: Mapping[str, Any]
    shards: int
    partitions: int

    @property
    def more(self) -> tuple[Column, ...]:
        """What a row has besides the columns of every query."""
        return (self.stream.alias(STREAM), self.clipped.alias(CLIPPED))

    def description(self) -> dict[str, Any]:
        """What a checkpoint depends on, as plain values: see the manifest."""
        query = self.query
        bounds = query.bounds
        assert isinstance(bounds, Mapping)
        combine = query.combine if isinstance(query.combine, str) else list(query.combine)  # type: ignore[arg-type]
        repeats = query.repeats if isinstance(query.repeats, str) else f"sum of {query.most}"
        return {
            **super().description(),
            "stream": self.home,
            "order": [column.name for column in self.kept],
            "incomplete": [f"{name} {low:g} to {high:g}" for name, (low, high) in bounds.items()],
            "combine": combine,
            "outside": query.outside,
            "repeats": repeats,
            "algorithm": self.algorithm,
            "options": [f"{name} {self.options[name]}" for name in sorted(self.options)],
            "shards": self.shards,
        }


def incomplete_question(df: DataFrame, asked: IncompleteAsked) -> IncompleteQuestion:
    """Check a query against a DataFrame; raises before any row is read."""
    require_frame(df)
    query = asked.query()
    value = score_of(df, asked.value, "value")
    base = question(df, asked.like_one(asked.value))
    _check_ids(df, asked, base)
    partitions = shuffle_partitions(df.sparkSession)
    usual = 1 if base.keys else usual_shards(partitions)
    stream = _stream(df, asked, query)
    value, clipped = _bounded(value, stream, query)
    nameless = _nameless(base)
    fields = {
        **vars(base),
        "query": query,
        "ties": (),  # ids are kept, and break ties
        "tie_types": (),
        "score": F.when(nameless, F.lit(None).cast("double")).otherwise(value),
    }
    return IncompleteQuestion(
        **fields,
        home=str(asked.stream),
        stream=stream,
        clipped=clipped & ~nameless,
        algorithm=asked.algorithm,
        options=dict(asked.options or {}),
        shards=asked.shards or usual,
        partitions=partitions,
    )


def _check_ids(df: DataFrame, asked: IncompleteAsked, base: Question) -> None:
    names = column_names(df.schema, asked.id, "id")
    if not names:
        raise QueryError("id was not given", "the columns that name an object", "write id='plate'")
    for name in names:
        if name in base.keys:
            raise QueryError(
                f"column {name!r} is in id and in partition_by",
                "columns that name the objects of a key",
                "leave it out of id",
            )
        found = df.schema[name].dataType
        if isinstance(found, (ArrayType, StructType)):
            raise DataError(
                f"id {name!r} is of type {found.simpleString()}",
                "columns of plain types",
                f"name its parts, or to_json({name}) as a column",
            )


def _nameless(base: Question) -> Column:
    """Whether a row says of no object what it is."""
    missing = [_missing(quoted(column.name), column.type) for column in base.kept]
    return reduce(Column.__or__, missing)


def _missing(name: str, type: DataType) -> Column:
    missing = F.col(name).isNull()
    return missing | F.isnan(name) if isinstance(type, (DoubleType, FloatType)) else missing


def _stream(df: DataFrame, asked: IncompleteAsked, query: TopKIncomplete) -> Column:
    """The place of a row's stream among those of the query; rows of others are an error."""
    if asked.stream is None:
        raise QueryError(
            "stream was not given",
            "the column that says which stream a row belongs to, or a DataFrame per stream",
            "write stream='camera', or top_k_incomplete({'north': df, 'south': df}, ...)",
        )
    (name,) = column_names(df.schema, asked.stream, "stream")
    column = F.col(quoted(name)).cast("string")
    found = df.schema[name].dataType
    if isinstance(found, (ArrayType, StructType)):
        raise DataError(f"stream {name!r} is of type {found.simpleString()}", "a column of names")
    names = F.array(*(F.lit(stream) for stream in query.streams))
    place = F.array_position(names, column) - F.lit(1)
    shown = F.coalesce(F.concat(F.lit("'"), column, F.lit("'")), F.lit("NULL"))
    told = F.concat(F.lit(f"{UNKNOWN}: "), shown, F.lit(f" is none of {', '.join(query.streams)}"))
    wrong = F.raise_error(told).cast("bigint")
    return F.when(place >= F.lit(0), place).otherwise(wrong).cast("int")


def _bounded(value: Column, stream: Column, query: TopKIncomplete) -> tuple[Column, Column]:
    """A value within the bounds of its stream, and whether it was beyond them."""
    low, high = (_of_stream(bounds.tolist(), stream) for bounds in (query.low, query.high))
    sound = value.isNotNull() & ~F.isnan(value)
    beyond = F.coalesce(sound & ((value < low) | (value > high)), F.lit(False))
    if query.outside == "clip":
        kept = F.greatest(low, F.least(high, value))
        return F.when(sound, kept).otherwise(value), beyond
    names = F.array(*(F.lit(name) for name in query.streams))
    told = F.concat(
        F.lit(f"{OUTSIDE}: "), value.cast("string"),
        F.lit(" in stream '"), F.get(names, stream),
        F.lit("' is not from "), low.cast("string"), F.lit(" to "), high.cast("string"),
    )  # fmt: skip
    return F.when(beyond, F.raise_error(told).cast("double")).otherwise(value), F.lit(False)


def _of_stream(bounds: list[float], stream: Column) -> Column:
    if len(set(bounds)) == 1:
        return F.lit(bounds[0])
    return F.get(F.array(*(F.lit(bound) for bound in bounds)), stream)
