"""What rows are ranked by, as a column: exact where it can be, refused if it would be rounded."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType, NumericType, StringType

from skyband.errors import DataError, QueryError
from skyband.spark.columns import decimal_of, require_frame, schema_of, unscaled
from skyband.spark.expressions import suggestion
from skyband.spark.sessions import FAILURES, spark_message

LONG_DIGITS = 18  # of a decimal that a bigint holds for sure
SURE_DIGITS = 15  # of decimals that are all different as doubles
EXACT_INTS = 1 << 53  # whole numbers up to here are doubles


@dataclass(frozen=True)
class Score:
    """What rows are ranked by: a double, or a bigint where doubles would be rounded.

    ``type`` is the type in the result; a decimal is ranked in units of its last digit.
    """

    column: Column
    type: DataType = field(default_factory=DoubleType)

    @property
    def is_exact(self) -> bool:
        """Whether it is a bigint, which is never rounded."""
        return not isinstance(self.type, DoubleType)

    @property
    def transport_type(self) -> DataType:
        """The type in which it passes through Python."""
        return LongType() if self.is_exact else DoubleType()

    def unpack(self, column: Column) -> Column:
        """The score as people read it."""
        return decimal_of(column, self.type) if isinstance(self.type, DecimalType) else column


def exact_score(df: DataFrame, by: Any) -> Score:
    """The score, exact: whole numbers of 64 bits and decimals of 18 digits are not rounded."""
    column, type = evaluated(df, by, "by")
    if isinstance(type, LongType):
        return Score(column, type)
    if isinstance(type, DecimalType) and type.precision > SURE_DIGITS:
        if type.precision > LONG_DIGITS:
            raise too_wide(by, "by", type)
        return Score(unscaled(column, type), type)
    return Score(as_double(column))


def score_column(df: DataFrame, by: Any, option: str = "by") -> Column:
    """The score as a double: -0.0 is 0.0, NaN stays NaN; what doubles would round is refused."""
    column, type = evaluated(df, by, option)
    if isinstance(type, DecimalType) and type.precision > SURE_DIGITS:
        raise too_wide(by, option, type, SURE_DIGITS)
    if not isinstance(type, LongType):
        return as_double(column)
    refusal = (
        f"skyband: {option} {by} holds a number beyond 2**53, which doubles round; "
        f"write CAST({by} AS DOUBLE) to accept ties"
    )
    return (
        F.when(column.isNull(), F.lit(None).cast("double"))
        .when(column.between(-EXACT_INTS, EXACT_INTS), column.cast("double"))
        .otherwise(F.raise_error(F.lit(refusal)))
    )


def too_wide(by: Any, option: str, type: DecimalType, digits: int = LONG_DIGITS) -> DataError:
    """The error of decimals that have too many digits to be ranked exactly."""
    narrow = f"CAST({by} AS DECIMAL({digits},{min(type.scale, digits)})), or "
    return DataError(
        f"{option} {by} is of type {type.simpleString()}",
        f"decimals of at most {digits} digits, which are ranked exactly",
        f"write {narrow}CAST({by} AS DOUBLE), which rounds",
    )


def as_double(column: Column) -> Column:
    """A number as a double; -0.0 becomes 0.0."""
    return column.cast("double") + F.lit(0.0)


def evaluated(df: DataFrame, by: Any, option: str) -> tuple[Column, DataType]:
    """A number for each row, and its type."""
    require_frame(df)
    example = f"write {option}='price * volume'"
    if not isinstance(by, (str, Column)):
        raise QueryError(f"{option} is {by!r}", "a Column or SQL text", example)
    if isinstance(by, str) and not by.strip():
        raise QueryError(f"{option} is empty", "a Column or SQL text", example)
    shown = repr(by) if isinstance(by, str) else str(by)
    try:
        column = F.expr(by) if isinstance(by, str) else by
        type = df.select("*", column.alias("score")).schema.fields[-1].dataType
        if isinstance(type, NumericType):
            _ = df.select(as_double(column)).schema  # Spark refuses what makes several rows of one
    except FAILURES as error:
        raise QueryError(
            f"{option} {shown} cannot be evaluated: {spark_message(error)}",
            f"an expression over {', '.join(schema_of(df).names)}",
        ) from None
    if not isinstance(type, NumericType):
        raise DataError(
            f"{option} {shown} is of type {type.simpleString()}",
            "a number",
            f"write try_cast({by} AS DOUBLE)" if isinstance(type, StringType) else "",
        )
    if isinstance(by, str):
        warn_of_errors(df, by)
    return column, type


def warn_of_errors(df: DataFrame, by: str) -> None:
    """Warn of what in SQL text would stop a stream."""
    numbers = [f.name for f in df.schema.fields if isinstance(f.dataType, NumericType)]
    hint = suggestion(by, numbers)
    if hint:
        warn(hint)


def names_score(by: Any) -> bool:
    """Whether rows are ranked by a column that is itself called score."""
    return isinstance(by, str) and by.strip(" `").lower() == "score"


def warn(text: str) -> None:
    """Warn at the line that asked, whether it called us or went through ``df.transform``."""
    level, frame = 2, sys._getframe(1)
    ours = ("skyband.spark.", "pyspark.")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
