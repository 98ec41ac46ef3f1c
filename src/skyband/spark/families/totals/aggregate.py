"""What a total is: ``sum(bytes)`` as text or as a Column, taken apart into its kind and its value.

Only the public side of a Column is used: its words, as Spark writes them. They are read back, and
Spark is asked whether both mean the same; if not, people are asked for SQL text.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.errors import QueryError
from skyband.spark.sessions import FAILURES
from skyband.totals.aggregate import EXPECTED, Aggregate, parsed

_DECIMAL = re.compile(r"(?<![\w.`'])(\d+\.\d+(?:[eE][+-]?\d+)?)(?![\w.`'])")


def aggregate(df: DataFrame, by: str | Column) -> Aggregate:
    """The aggregate that ``by`` asks for; raises before any row is read."""
    return _of_column(df, by) if isinstance(by, Column) else of_text(by)


def of_text(by: str) -> Aggregate:
    """The aggregate that SQL text asks for; raises if it is something else."""
    found = parsed(by) if isinstance(by, str) else None
    if found is None:
        raise QueryError(f"by is {by!r} with key=", EXPECTED, "write by='sum(bytes)'")
    return found


def refuse_aggregate(by: object) -> None:
    """Raise if rows are to be ranked one by one by what is an aggregate."""
    text = by if isinstance(by, str) else _words(by)
    if parsed(text) is not None:
        raise QueryError(
            f"by is {text}, an aggregate, without key=",
            "a score for each row, or the column whose rows are added up",
            "write key='client'",
        )


def _of_column(df: DataFrame, by: Column) -> Aggregate:
    try:
        asked = df.agg(by)
        told = df.agg(F.coalesce(by)).columns[0].removeprefix("coalesce(").removesuffix(")")
    except FAILURES:
        raise QueryError(f"by is {by} with key=", EXPECTED, "write by=F.sum('bytes')") from None
    told, refused = _unnamed(told), False
    for text in (told, _DECIMAL.sub(r"\1D", told), _unnamed(_words(by))):
        found = parsed(text)
        refused = refused or found is None
        if found is not None and _same(df, asked, text):
            return found
    if refused:
        raise QueryError(f"by is {told} with key=", EXPECTED, "write by=F.sum('bytes')")
    raise QueryError(
        f"by is {told}, a Column whose words Spark does not read back as they were",
        "an aggregate that can be taken apart",
        "write it as SQL text, such as by=\"sum(CASE WHEN kind = 'a' THEN bytes END)\", or add the "
        "value as a column first",
    )


def _words(by: object) -> str:
    """A Column as it was written, if it was written as SQL text."""
    return str(by).removeprefix("Column<'").removesuffix("'>")


def _unnamed(text: str) -> str:
    """An expression without the name that ``alias`` gave it."""
    whole, _, name = text.rpartition(" AS ")
    return whole if whole and parsed(text) is None and ")" not in name else text


def _same(df: DataFrame, asked: DataFrame, text: str) -> bool:
    try:
        return bool(asked.sameSemantics(df.agg(F.expr(text))))
    except FAILURES:
        return False
