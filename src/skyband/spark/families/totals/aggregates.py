"""What totals are of: aggregates of SQL text or Columns, checked against a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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

from skyband.errors import QueryError
from skyband.query import Numbers
from skyband.spark.columns import schema_of, unscaled
from skyband.spark.families.totals.sums import WHOLE, Accumulator
from skyband.spark.plan import BasePlan
from skyband.spark.scores import LONG_DIGITS, Score, as_double, evaluated, too_wide, warn_of_errors
from skyband.spark.sessions import FAILURES, spark_message
from skyband.totals.aggregate import EXPECTED, Aggregate, parsed
from skyband.totals.query import ENDS, PICKED, Total

ALSO = "write also={'orders': 'count(*)'}"
_SUM_DIGITS = 19  # of a sum that a bigint holds
_DECIMAL = re.compile(r"(?<![\w.`'])(\d+\.\d+(?:[eE][+-]?\d+)?)(?![\w.`'])")


@dataclass(frozen=True)
class CarriedTotal:
    """A total that is carried beside the one that ranks, as rows have it.

    ``column`` has its values: whole numbers if they are exact, else doubles; NULL for NaN.
    ``value`` is the total in the result.
    """

    name: str
    aggregate: Aggregate
    accumulator: Accumulator
    column: Column
    value: Score
    scale: int

    @property
    def total(self) -> Total:
        """The total as the local engine knows it."""
        return Total(self.aggregate.by, numbers_of(self.aggregate, self.accumulator), self.scale)


def carried(
    df: DataFrame, also: Mapping[str, str | Column], base: BasePlan
) -> tuple[CarriedTotal, ...]:
    """The totals beside the one that ranks, checked against the columns of a DataFrame."""
    taken = {column.name.lower() for column in (*base.keys, *base.columns)}
    totals: list[CarriedTotal] = []
    for name, text in also.items():
        if name.lower() in taken:
            raise QueryError(
                f"also has a column called {name!r}, as another column of the result",
                "different names",
                f"write also={{'{name}_2': ...}}",
            )
        taken.add(name.lower())
        option = f"also {name!r}"
        aggregate = aggregate_of(df, text, option)
        value = as_double(evaluated(df, value_of(df, aggregate, option), option)[0])
        accumulator, exact, type = accumulator_of(df, aggregate, option)
        if exact is None:
            exact = F.nanvl(value, F.lit(None).cast("double"))
        total = Score(exact, total_type(aggregate, type))
        scale = type.scale if isinstance(type, DecimalType) else 0
        totals.append(CarriedTotal(name, aggregate, accumulator, exact, total, scale))
    return tuple(totals)


def numbers_of(aggregate: Aggregate, accumulator: Accumulator) -> Numbers:
    """The numbers in which the local engine adds up."""
    return "int64" if accumulator in WHOLE and aggregate.by != "mean" else "float64"


def value_of(df: DataFrame, aggregate: Aggregate, option: str = "by") -> str | Column:
    """What the rows are checked and counted by: a number for each row that adds to a total."""
    if aggregate.value is None:
        return F.lit(1)
    if aggregate.by != "count":
        return aggregate.value
    column = F.expr(aggregate.value)
    type = _type(df, aggregate.value, option)
    warn_of_errors(df, aggregate.value)
    nothing = F.lit(None).cast("double")
    if isinstance(type, (DoubleType, FloatType)):
        nan = F.when(F.isnan(column), F.lit(float("nan")))
        return F.when(column.isNull(), nothing).otherwise(F.coalesce(nan, F.lit(1.0)))
    return F.when(column.isNull(), nothing).otherwise(F.lit(1.0))


def accumulator_of(
    df: DataFrame, aggregate: Aggregate, option: str = "by"
) -> tuple[Accumulator, Column | None, DataType]:
    """What a pane holds of a key; the whole numbers that it is of, if it is; the type of values."""
    double = DoubleType()
    if aggregate.value is None or aggregate.by == "count":
        return "rows", None, double
    column, type = F.expr(aggregate.value), _type(df, aggregate.value, option)
    picked = aggregate.by in PICKED
    of_doubles: Accumulator = "doubles"
    of_longs: Accumulator = "longs"
    if picked:
        of_doubles = "ends" if aggregate.by in ENDS else "extremes"
        of_longs = "whole_ends" if aggregate.by in ENDS else "whole_extremes"
    if isinstance(type, (ByteType, ShortType, IntegerType)):
        return (of_doubles, None, double) if picked else ("ints", column.cast("bigint"), LongType())
    if isinstance(type, LongType):
        return of_longs, column, type
    if not isinstance(type, DecimalType):
        return of_doubles, None, double
    if type.precision > LONG_DIGITS:
        raise too_wide(aggregate.value, f"the value of {option}", type)
    return of_longs, unscaled(column, type), type


def total_type(aggregate: Aggregate, type: DataType) -> DataType:
    """The type of totals of values of a type: a mean is rounded, a sum may have a digit more."""
    if aggregate.by in ("count", "mean"):
        return DoubleType()
    if isinstance(type, DecimalType) and aggregate.by == "sum":
        return DecimalType(_SUM_DIGITS, type.scale)
    return type


def _type(df: DataFrame, value: str, option: str) -> DataType:
    try:
        return df.select(F.expr(value)).schema.fields[0].dataType
    except FAILURES as error:
        raise QueryError(
            f"{option} {value!r} cannot be evaluated: {spark_message(error)}",
            f"an expression over {', '.join(schema_of(df).names)}",
        ) from None


def aggregate_of(df: DataFrame, by: str | Column, option: str = "by") -> Aggregate:
    """The aggregate that ``by`` asks for; raises before any row is read."""
    return _of_column(df, by, option) if isinstance(by, Column) else of_text(by, option)


def of_text(by: str, option: str = "by") -> Aggregate:
    """The aggregate that SQL text asks for; raises if it is something else."""
    aggregate = parsed(by) if isinstance(by, str) else None
    if aggregate is None:
        fix = "write by='sum(bytes)'" if option == "by" else ALSO
        raise QueryError(f"{option} is {by!r} with key=", EXPECTED, fix)
    return aggregate


def _of_column(df: DataFrame, by: Column, option: str) -> Aggregate:
    try:
        result = df.agg(by)
        spelled = df.agg(F.coalesce(by)).columns[0].removeprefix("coalesce(").removesuffix(")")
    except FAILURES:
        raise QueryError(
            f"{option} is {by} with key=", EXPECTED, "write by=F.sum('bytes')"
        ) from None
    spelled, refused = _unnamed(spelled), False
    for text in (spelled, _DECIMAL.sub(r"\1D", spelled), _unnamed(words_of(by))):
        aggregate = parsed(text)
        refused = refused or aggregate is None
        if aggregate is not None and _same(df, result, text):
            return aggregate
    if refused:
        raise QueryError(f"{option} is {spelled} with key=", EXPECTED, "write by=F.sum('bytes')")
    raise QueryError(
        f"{option} is {spelled}, a Column whose words Spark does not read back as they were",
        "an aggregate that can be taken apart",
        "write it as SQL text, such as by=\"sum(CASE WHEN kind = 'a' THEN bytes END)\", or add the "
        "value as a column first",
    )


def words_of(by: object) -> str:
    """A Column as it was written, if it was written as SQL text."""
    return str(by).removeprefix("Column<'").removesuffix("'>")


def _unnamed(text: str) -> str:
    """An expression without the name that ``alias`` gave it."""
    whole, _, name = text.rpartition(" AS ")
    return whole if whole and parsed(text) is None and ")" not in name else text


def _same(df: DataFrame, result: DataFrame, text: str) -> bool:
    try:
        return bool(result.sameSemantics(df.agg(F.expr(text))))
    except FAILURES:
        return False
