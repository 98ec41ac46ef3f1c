"""What a query needs of its rows before it is planned: a condition, and columns of expressions.

Options may ask for rows by ``where``, and name SQL expressions beside columns. Both are applied to
the DataFrame here; what is planned is a query over columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from skyband.errors import DataError, QueryError
from skyband.expressions import NamedExpression, named
from skyband.spark.columns import column_names, quoted, require_frame, schema_of
from skyband.spark.options import CommonOptions
from skyband.spark.scores import warn_of_errors
from skyband.spark.sessions import FAILURES, spark_message

SafeText = Callable[[str, str], str]
"""Checks the text of an option, by its name, and returns it as it may be evaluated."""

Options = TypeVar("Options", bound=CommonOptions)

_NAMING = ("partition_by", "key", "id")  # options that name columns, or expressions


def derived(
    df: DataFrame, options: Options, safe: SafeText = lambda text, option: text
) -> tuple[DataFrame, Options]:
    """The rows that satisfy ``where``, with a column for each expression, and the options for them.

    Raises before any row is read.
    """
    expressions = {name: _named(getattr(options, name, None)) for name in _NAMING}
    if options.where is None and not any(expressions.values()):
        return df, options
    require_frame(df)
    derivation = options.derivation
    columns: dict[str, Any] = {}
    if options.where is not None:
        df = _filtered(df, options.where, safe)
        derivation = replace(derivation, where=_text(options.where))
    for option, texts in expressions.items():
        names = []
        for text in texts:
            df, name, expression = _with_column(df, text, option, safe)
            names.append(name)
            if expression is not None:
                derivation = replace(derivation, expressions=(*derivation.expressions, expression))
        if names:
            columns[option] = names
    return df, replace(options, where=None, derivation=derivation, **columns)


def _named(names: Any) -> list[str]:
    """The texts of an option, if one is more than a word; others are checked with the columns."""
    texts = list(names) if isinstance(names, (list, tuple)) else [names]
    if not all(isinstance(text, str) for text in texts):
        return []
    return texts if any(not re.fullmatch(r"\w*", text) for text in texts) else []


def _with_column(
    df: DataFrame, text: str, option: str, safe: SafeText
) -> tuple[DataFrame, str, NamedExpression | None]:
    """A DataFrame with the column that a text means, its name, and the expression if it is one."""
    known = [name.lower() for name in schema_of(df).names]
    if text.lower() in known:
        return df, text, None
    expression = named(text)
    if expression.is_word or expression.sql.lower() in known:
        (column,) = column_names(df.schema, expression.sql, option)
        sql = quoted(column)
    else:
        sql = safe(expression.sql, option)
    if expression.name.lower() in known:
        raise QueryError(
            f"{option} {text!r} has the name of a column",
            "a name of its own",
            f"write {expression.sql} AS {expression.name}_key",
        )
    try:
        # inside of another expression Spark refuses what makes several rows of one
        rows = df.withColumn(expression.name, F.coalesce(F.expr(sql)))
        _ = rows.schema
    except FAILURES as error:
        raise _not_evaluated(df, option, repr(text), error) from None
    warn_of_errors(df, expression.sql)
    return rows, expression.name, expression


def _filtered(df: DataFrame, where: Any, safe: SafeText) -> DataFrame:
    """The rows for which a condition is true."""
    example = "write where=\"sector = 'tech'\""
    if not isinstance(where, (str, Column)) or (isinstance(where, str) and not where.strip()):
        raise QueryError(f"where is {where!r}", "a Column or SQL text", example)
    shown = repr(where) if isinstance(where, str) else str(where)
    try:
        condition = F.expr(safe(where, "where")) if isinstance(where, str) else where
        type = df.select("*", condition.alias("_sky_where")).schema.fields[-1].dataType
        rows = None
        if isinstance(type, BooleanType):
            rows = df.filter(condition)
            _ = rows.schema
    except FAILURES as error:
        raise _not_evaluated(df, "where", shown, error) from None
    if rows is None:
        compared = {NumericType: f"{_text(where)} > 0", StringType: f"{_text(where)} = 'tech'"}
        fixes = [text for kind, text in compared.items() if isinstance(type, kind)]
        raise DataError(
            f"where {shown} is of type {type.simpleString()}",
            "a condition, true or false for each row",
            f"compare it: where={fixes[0]!r}" if fixes else example,
        )
    if isinstance(where, str):
        warn_of_errors(df, where)
    return rows


def _not_evaluated(df: DataFrame, option: str, shown: str, error: Exception) -> QueryError:
    return QueryError(
        f"{option} {shown} cannot be evaluated: {spark_message(error)}",
        f"an expression over {', '.join(schema_of(df).names)}",
    )


def _text(where: str | Column) -> str:
    return where if isinstance(where, str) else str(where)
