"""A query on a DataFrame, checked against its columns before anything runs."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skyband.durations import microseconds
from skyband.errors import DataError, QueryError
from skyband.query import TopK
from skyband.spark.ansi_warnings import suggestion
from skyband.spark.columns import Carried, carried, groupable, orderable
from skyband.spark.options import Asked, Names
from skyband.spark.sessions import FAILURES
from skyband.windows import CountWindow, TimeWindow

MOST = 100_000
MANY = 10_000
_LONGEST = 1_000 * 366 * 86_400_000_000  # microseconds
RESERVED = ("window", "rank", "score", "change", "previous_rank")


@dataclass(frozen=True)
class Question:
    """A query that fits a DataFrame.

    ``at`` is the column that orders rows and places them in windows; ``timed`` says whether it
    holds moments (else sequence numbers, or nothing for windows by arrival); ``delay`` is in its
    unit. ``ties`` order rows of equal score and place. ``order`` describes them.
    """

    asked: Asked
    query: TopK
    score: Column
    at: str
    ntz: bool
    keys: tuple[str, ...]
    key_columns: tuple[Carried, ...]
    ties: tuple[str, ...]
    tie_types: tuple[DataType, ...]
    kept: tuple[Carried, ...]
    delay: int
    skew: int | None
    deduplicate: tuple[str, ...]

    @property
    def timed(self) -> bool:
        """Whether windows are of time."""
        return isinstance(self.query.window, TimeWindow)

    @property
    def arrival(self) -> bool:
        """Whether windows count the rows of a key as they arrive (the row path)."""
        return isinstance(self.query.window, CountWindow) and self.asked.sequence is None

    @property
    def offset(self) -> int:
        """How far window ends are shifted."""
        window = self.query.window
        return window.offset if isinstance(window, TimeWindow) else 0

    @property
    def digest(self) -> str:
        """A short name for this query among others."""
        text = json.dumps(self.description(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def description(self) -> dict[str, Any]:
        """What a checkpoint depends on, as plain values: see the manifest."""
        window = self.query.window
        by = self.asked.by
        return {
            "k": self.query.k,
            "window": window.size,
            "slide": window.slide,
            "offset": self.offset,
            "windows": "time" if self.timed else "arrival" if self.arrival else "sequence",
            "full": getattr(window, "full", False),
            "score": by if isinstance(by, str) else str(by),
            "time": self.at,
            "delay": self.delay,
            "keys": list(self.keys),
            "order": list(self.ties),
            "keep": [f"{column.name} {column.type.simpleString()}" for column in self.kept],
            "emit": self.query.emit,
            "deduplicate_by": list(self.deduplicate),
            "algorithm": self.asked.algorithm,
            "drainable": self.asked.drain is not None,
        }


def question(df: DataFrame, asked: Asked) -> Question:
    """Check a query against a DataFrame; raises before any row is read."""
    require_frame(df)
    query = asked.query()
    _check_k(query.k)
    schema = _schema(df)
    score = score_of(df, asked.by)
    at, ntz = _place(df, asked, query)
    keys = column_names(schema, asked.partition_by, "partition_by")
    ids = column_names(schema, asked.id, "id")
    kept = _kept(schema, asked, keys)
    ties = ids or tuple(
        column.name for column in kept if column.name != at and orderable(column.type)
    )
    for name in ids:
        if not orderable(schema[name].dataType):
            raise DataError(f"id {name!r} cannot be sorted", "a column of numbers or texts")
    same = column_names(schema, asked.deduplicate_by, "deduplicate_by")
    used = {at, *keys, *ties, *same, *(column.name for column in kept)}
    _check_spelling(df, used)
    _check_zone(df, used)
    return Question(
        asked,
        query,
        score,
        at,
        ntz,
        keys,
        tuple(_key(name, schema[name].dataType) for name in keys),
        ties,
        tuple(carried(name, schema[name].dataType).travels for name in ties),
        kept,
        _delay(asked),
        None if asked.skew is None else duration(asked.skew, "skew", "1 hour"),
        same,
    )


def require_frame(df: Any) -> None:
    """Refuse what is no DataFrame."""
    if not isinstance(df, DataFrame):
        raise QueryError(
            f"df is {type(df).__name__}",
            "a Spark DataFrame",
            "write spark.createDataFrame(...), or spark.read or spark.readStream",
        )


def _schema(df: DataFrame) -> StructType:
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


def _check_spelling(df: DataFrame, names: set[str]) -> None:
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


def _check_zone(df: DataFrame, names: set[str]) -> None:
    """Local times travel as moments: where clocks are put forward, some would be lost."""
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


def _check_k(k: int) -> None:
    if k > MOST:
        raise QueryError(f"k is {k:,}", f"at most {MOST:,}, Spark's own limit", "ask for fewer")
    if k > MANY:
        _warn(
            f"k is {k:,}: each micro-batch reads and writes all candidates of a key, "
            f"which takes seconds beyond {MANY:,}"
        )


def score_of(df: DataFrame, by: Any, option: str = "by") -> Column:
    """The score as a double: -0.0 is 0.0, NaN stays NaN."""
    example = f"write {option}='price * volume'"
    if not isinstance(by, (str, Column)):
        raise QueryError(f"{option} is {by!r}", "a Column or SQL text", example)
    if isinstance(by, str) and not by.strip():
        raise QueryError(f"{option} is empty", "a Column or SQL text", example)
    try:
        column = F.expr(by) if isinstance(by, str) else by
        found = df.select("*", column.alias("score")).schema.fields[-1].dataType
        score = column.cast("double") + F.lit(0.0)
        if isinstance(found, NumericType):
            _ = df.select(score).schema  # Spark refuses what makes several rows of one
    except FAILURES as error:
        raise QueryError(
            f"{option} {_shown(by)} cannot be evaluated: {first_line(error)}",
            f"an expression over {', '.join(df.columns)}",
        ) from None
    if not isinstance(found, NumericType):
        raise DataError(
            f"{option} {_shown(by)} is of type {found.simpleString()}",
            "a number",
            f"write try_cast({by} AS DOUBLE)" if isinstance(found, StringType) else "",
        )
    if isinstance(by, str):
        numbers = [f.name for f in df.schema.fields if isinstance(f.dataType, NumericType)]
        hint = suggestion(by, numbers)
        if hint:
            _warn(hint)
    return score


def _warn(text: str) -> None:
    """Warn at the line that asked, whether it called us or went through ``df.transform``."""
    level, frame = 2, sys._getframe(1)
    ours = ("skyband.spark.", "pyspark.")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _place(df: DataFrame, asked: Asked, query: TopK) -> tuple[str, bool]:
    """The column that places rows in windows."""
    schema = df.schema
    if asked.sequence is not None:
        if isinstance(query.window, TimeWindow):
            raise QueryError(
                f"sequence is {asked.sequence!r} with a window of time",
                "a window that counts rows",
                "write window=1000, slide=100, or time= instead of sequence=",
            )
        (name,) = column_names(schema, asked.sequence, "sequence")
        if not isinstance(schema[name].dataType, (IntegerType, LongType)):
            raise DataError(
                f"sequence {name!r} is of type {schema[name].dataType.simpleString()}",
                "whole numbers: 0, 1, 2 and so on without gaps",
            )
        return name, False
    if asked.time is None:
        moments = [f.name for f in schema.fields if isinstance(f.dataType, TimestampType)]
        raise QueryError(
            "time was not given",
            "the column that says when a row happened: it orders rows, also in count windows",
            f"write time={moments[0]!r}" if moments else "write time='ts', or sequence='offset'",
        )
    name = moment_column(df, asked.time)
    return name, isinstance(schema[name].dataType, TimestampNTZType)


def moment_column(df: DataFrame, time: str) -> str:
    """The name of a column of timestamps, as the DataFrame spells it."""
    (name,) = column_names(df.schema, time, "time")
    found = df.schema[name].dataType
    if isinstance(found, (TimestampType, TimestampNTZType)):
        return name
    raise DataError(
        f"time {name!r} is of type {found.simpleString()}",
        "a timestamp",
        f"add a column first: df.withColumn('ts', F.expr(\"try_cast({name} AS TIMESTAMP)\"))",
    )


def _key(name: str, type: DataType) -> Carried:
    """How a key travels; on a stream it must be a plain value, or a struct of such."""
    if not groupable(type):
        raise DataError(
            f"partition_by {name!r} is of type {type.simpleString()}",
            "columns of plain types, and structs of numbers and texts",
            f"partition by one of its parts, or by to_json({name})",
        )
    return carried(name, type)


def _kept(schema: StructType, asked: Asked, keys: tuple[str, ...]) -> tuple[Carried, ...]:
    if asked.keep is None:
        names = tuple(
            name
            for name in schema.names
            if name not in keys and not (name.lower() == "score" and names_score(asked.by))
        )
        fix = "name the columns to keep: keep=[...]"
    else:
        names = column_names(schema, asked.keep, "keep")
        names = tuple(name for name in names if name not in keys)
        fix = "rename it before"
    for name in (*keys, *names):
        if name.lower() in RESERVED:
            raise QueryError(
                f"column {name!r} has the name of a result column", "another name", fix
            )
    return tuple(carried(name, schema[name].dataType) for name in names)


def _delay(asked: Asked) -> int:
    if asked.sequence is not None:
        delay = asked.delay or 0
        if isinstance(delay, bool) or not isinstance(delay, int) or delay < 0:
            raise QueryError(
                f"delay is {asked.delay!r} with a sequence column",
                "by how many rows they may be out of order",
                "write delay=1000",
            )
        return delay
    delay = "10 seconds" if asked.delay is None else asked.delay
    return duration(delay, "delay", "10 seconds")


def duration(value: Any, option: str, example: str) -> int:
    """A duration of zero or more, in microseconds."""
    fix = f"write {option}={example!r}"
    if not isinstance(value, (str, timedelta, np.timedelta64)):
        raise QueryError(f"{option} is {value!r}", "a duration", fix)
    found = microseconds(value, option)
    if not 0 <= found <= _LONGEST:
        raise QueryError(f"{option} is {value!r}", "zero or more, up to a thousand years", fix)
    return found


def column_names(schema: StructType, names: Names | None, option: str) -> tuple[str, ...]:
    """Column names as the DataFrame spells them, each once."""
    if names is None:
        return ()
    found: list[str] = []
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
        if exact[0] not in found:
            found.append(exact[0])
    return tuple(found)


def names_score(by: Any) -> bool:
    """Whether rows are ranked by a column that is itself called score."""
    return isinstance(by, str) and by.strip(" `").lower() == "score"


def _shown(by: str | Column) -> str:
    return repr(by) if isinstance(by, str) else str(by)


def first_line(error: Exception) -> str:
    """What Spark says, without its plan and its error class."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.partition("] ")[2] or text
