"""A query for totals on a DataFrame, checked against its columns before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
)

from skyband.durations import Duration
from skyband.errors import DataError, QueryError
from skyband.spark.columns import groupable
from skyband.spark.families.totals.aggregate import aggregate, of_text
from skyband.spark.options import Asked, Names, like_one
from skyband.spark.plan import Question, first_line, question, require_frame
from skyband.spark.sessions import FAILURES
from skyband.spark.shards import check_shards, shuffle_partitions, usual_shards
from skyband.totals.aggregate import Aggregate
from skyband.totals.query import TopKTotals
from skyband.windows import CountWindow

_LONG_DIGITS = 18  # of a decimal that a bigint holds for sure

Held = Literal["rows", "extremes", "ints", "longs", "doubles"]
"""What a pane holds of a key: rows, the largest or least value, or a sum of such numbers."""


@dataclass(frozen=True)
class TotalsAsked:
    """What :func:`skyband.spark.top_k` was asked, as it was written, with ``key``."""

    k: int
    by: str | Column
    key: Names
    window: Any
    time: str | None = None
    slide: Any = None
    offset: Any = None
    sequence: str | None = None
    partition_by: Names | None = None
    id: Names | None = None
    keep: Names | None = None
    emit: str = "all"
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    algorithm: str = "auto"
    full: bool = False
    drain: str | None = None
    shards: int | None = None

    def query(self) -> TopKTotals:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        model = self.like_one("score").query()
        self._check_options()
        if isinstance(model.window, CountWindow):
            raise QueryError(
                "windows that count rows with key=",
                "windows of time",
                "write window='1 hour', slide='1 minute', time='ts'",
            )
        # what a Column asks for, only Spark can tell
        by = of_text(self.by).by if isinstance(self.by, str) else "sum"
        return TopKTotals(self.k, by, model.window, model.emit)

    def _check_options(self) -> None:
        if not isinstance(self.key, (str, list, tuple)) or not self.key:
            raise QueryError(f"key is {self.key!r}", "one column or several", "write key='client'")
        for name in ("id", "keep"):
            if getattr(self, name) is not None:
                raise QueryError(
                    f"{name} is {getattr(self, name)!r} with key=",
                    "totals, of which only the key is carried: rows are added up",
                    f"leave {name} out",
                )
        check_shards(self.shards)
        if self.emit != "all" and (self.shards or (1 if self.partition_by else 2)) != 1:
            raise QueryError(
                f"emit is {self.emit!r} for keys in several shards",
                "emit='all', or one shard: each of several tells whole rankings",
                "leave emit out, or write shards=1",
            )

    def like_one(self, by: str | Column) -> Asked:
        """The same as a query by one score, whose rows carry their key."""
        return like_one(self, by, id=self.key, keep=self.key)


@dataclass(frozen=True)
class TotalsQuestion(Question):
    """A query that fits a DataFrame; what is kept of a row is its key.

    ``held`` says what a pane holds of a key, ``exact`` is the value as the column has it, for sums
    of whole numbers, in units of ``10**-scale``.
    """

    query: TopKTotals  # type: ignore[assignment]
    told: Aggregate
    held: Held
    exact: Column | None
    scale: int
    shards: int
    partitions: int

    def description(self) -> dict[str, Any]:
        """What a checkpoint depends on, as plain values: see the manifest."""
        found = super().description()
        found["score"] = str(self.told)
        key = [column.name for column in self.kept]
        return {**found, "totals": key, "held": self.held, "shards": self.shards}


def totals_question(df: DataFrame, asked: TotalsAsked) -> TotalsQuestion:
    """Check a query against a DataFrame; raises before any row is read."""
    model = asked.query()
    require_frame(df)
    told = aggregate(df, asked.by)
    value = _value(df, told)
    base = question(df, asked.like_one(value))
    _check_key(base, asked)
    held, exact, scale = _held(df, told)
    partitions = shuffle_partitions(df.sparkSession)
    shards = asked.shards or (1 if base.keys else usual_shards(partitions))
    fields: Mapping[str, Any] = {**vars(base), "query": replace(model, by=told.by)}
    return TotalsQuestion(
        **fields,
        told=told,
        held=held,
        exact=exact,
        scale=scale,
        shards=shards,
        partitions=partitions,
    )


def _check_key(base: Question, asked: TotalsAsked) -> None:
    names = [asked.key] if isinstance(asked.key, str) else list(asked.key)
    if len(base.kept) < len({name.lower() for name in names}):
        raise QueryError(
            f"key is {asked.key!r}, partly in partition_by",
            "a key within each partition",
            "leave it out of one of them",
        )
    for column in base.kept:
        if not groupable(column.type):
            raise DataError(
                f"key {column.name!r} is of type {column.type.simpleString()}",
                "columns of plain types, and structs of numbers and texts",
                f"use one of its parts, or to_json({column.name})",
            )


def _value(df: DataFrame, told: Aggregate) -> str | Column:
    """What the rows are checked and counted by: a number for each row that adds to a total."""
    if told.value is None:
        return F.lit(1)
    if told.by != "count":
        return told.value
    column = F.expr(told.value)
    type = _type(df, told.value)
    nothing = F.lit(None).cast("double")
    if isinstance(type, (DoubleType, FloatType)):
        nan = F.when(F.isnan(column), F.lit(float("nan")))
        return F.when(column.isNull(), nothing).otherwise(F.coalesce(nan, F.lit(1.0)))
    return F.when(column.isNull(), nothing).otherwise(F.lit(1.0))


def _held(df: DataFrame, told: Aggregate) -> tuple[Held, Column | None, int]:
    """What a pane holds of a key, and the whole numbers that are summed, if they are."""
    if told.by == "count":
        return "rows", None, 0
    if told.by in ("max", "min"):
        return "extremes", None, 0
    assert told.value is not None
    column, type = F.expr(told.value), _type(df, told.value)
    if isinstance(type, (ByteType, ShortType, IntegerType)):
        return "ints", column.cast("bigint"), 0
    if isinstance(type, LongType):
        return "longs", column, 0
    if isinstance(type, DecimalType) and type.precision <= _LONG_DIGITS and told.by == "sum":
        whole = column * F.lit(10**type.scale).cast("decimal(19,0)")
        return "longs", whole.cast("bigint"), type.scale
    return "doubles", None, 0


def _type(df: DataFrame, value: str) -> DataType:
    try:
        return df.select(F.expr(value)).schema.fields[0].dataType
    except FAILURES as error:
        raise QueryError(
            f"by {value!r} cannot be evaluated: {first_line(error)}",
            f"an expression over {', '.join(df.columns)}",
        ) from None
