"""Expressions over Arrow columns are what Spark says they are, or are left to Spark."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.spark.scan import NotScannedError
from skyband.spark.scan.arithmetic import Columns
from skyband.spark.scan.translation import translated

pytestmark = pytest.mark.spark

NULL = None
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "y": (pa.int8(), [0, 1, -128, 127, NULL, 5, -7, 2]),
    "h": (pa.int16(), [1, -32768, 0, NULL, 32767, 100, -3, 9]),
    "a": (pa.int32(), [2**31 - 1, -(2**31), 0, 1, -1, NULL, 46341, 7]),
    "b": (pa.int64(), [2**63 - 1, -(2**63), NULL, 2**53 + 1, 0, 3037000500, 1, -1]),
    "f": (pa.float32(), [0.1, -0.0, math.nan, math.inf, NULL, 3.4e38, 1e-45, 16777217.0]),
    "d": (pa.float64(), [0.1, -0.0, math.nan, -math.inf, 1.7e308, NULL, 9.3e18, -2147483648.9]),
    "e": (pa.float64(), [1.0, 0.0, math.nan, math.inf, 5e-324, 2.5, NULL, 2.0**63]),
    "s": (pa.string(), ["a", "b", "", NULL, "A", "ab", "z", "ä"]),
    "t": (pa.bool_(), [True, False, NULL, True, False, NULL, True, False]),
}
NUMERIC = list("yhabfde")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table({name: pa.array(values, type) for name, (type, values) in VALUES.items()})


@pytest.fixture(scope="module")
def df(spark: SparkSession, table: pa.Table) -> DataFrame:
    frame = spark.createDataFrame(table).coalesce(1)
    frame.cache().count()
    return frame


def numbers() -> st.SearchStrategy[str]:
    constants = st.sampled_from(["0", "1", "-3", "2147483648", "0.5", "-1.25", "1e3", "2E-2"])
    leaves = st.one_of(st.sampled_from(NUMERIC), st.sampled_from(NUMERIC), constants)

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        both = st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner)
        casts = st.tuples(inner, st.sampled_from(["double", "bigint", "int", "float", "tinyint"]))
        return st.one_of(
            both.map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]}"),
            both.map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
            inner.map(lambda part: f"-({part})"),
            casts.map(lambda parts: f"cast({parts[0]} as {parts[1]})"),
        )

    return st.recursive(leaves, larger, max_leaves=4)


def conditions() -> st.SearchStrategy[str]:
    compared = st.tuples(numbers(), st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    texts = st.sampled_from(["s = 'a'", "s <> 'b'", "s < 'b'", "s in ('a', 'z')", "t", "NOT t"])
    plain = st.one_of(
        st.tuples(compared, numbers()).map(lambda p: f"{p[0][0]} {p[0][1]} {p[1]}"),
        st.sampled_from(NUMERIC).map(lambda name: f"{name} is null"),
        st.sampled_from(NUMERIC).map(lambda name: f"{name} IS NOT NULL"),
        st.sampled_from(["a in (1, 7)", "b between -1 and 1", "d BETWEEN e AND 2", "e in (1e0)"]),
        texts,
    )

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        both = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner)
        return st.one_of(
            both.map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]}"),
            both.map(lambda parts: f"NOT ({parts[0]} {parts[1]} {parts[2]})"),
        )

    return st.recursive(plain, larger, max_leaves=3)


def plain(values: list[Any]) -> list[Any]:
    """Values that are equal where they are the same: one NaN, and two zeros."""
    return [
        (math.copysign(1, value), value)
        if isinstance(value, (int, float)) and value == value
        else repr(value)
        for value in values
    ]


def ours(df: DataFrame, columns: Columns, text: str) -> list[Any] | None:
    """What a text comes to for each row; None if it fails for one."""
    node = translated(df, text)
    try:
        value = node.evaluate(columns)
    except ArithmeticError:
        return None
    if isinstance(value, pa.Scalar):
        return [value.as_py()] * len(VALUES["a"][1])
    return list(value.to_pylist())


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(st.one_of(numbers(), conditions()), min_size=12, max_size=12))
def test_what_is_translated_is_what_spark_says(
    df: DataFrame, table: pa.Table, texts: list[str]
) -> None:
    columns = {name: table[name].combine_chunks() for name in VALUES}
    answers: dict[str, list[Any]] = {}
    for text in texts:
        try:
            values = ours(df, columns, text)
        except NotScannedError:
            continue
        if values is None:
            with pytest.raises(PySparkException, match=r"OVERFLOW|DIVIDE_BY_ZERO"):
                df.select(F.expr(text).alias("value")).collect()
        else:
            answers[text] = values
    if answers:
        rows = df.select(*(F.expr(text).alias(f"c{i}") for i, text in enumerate(answers))).collect()
        for place, (text, values) in enumerate(answers.items()):
            assert plain([row[place] for row in rows]) == plain(values), text


TRANSLATED = [
    "d * b", "d * 0.5 + b", "a + b * 2 - 3", "a / b", "-a", "d > -1.5", "s = 'x' and d > 0",
    "not t or d is not null", "a in (1, 2)", "b between 1 and 2", "cast(d as bigint)", "f * a",
    "f * f", "f + 1.5", "y + y", "d = b", "-5 + a", "b * 1e3", "(a + b) * d / 2", "a != b",
    "`d` * B", "s < 'b'", "t",
]  # fmt: skip
LEFT_TO_SPARK = [
    "a * 1.5", "a % 2", "abs(d)", "s like 'x%'", "a < 2.5", "d <=> 1", "5L + a", "a + 1 > 2 and t",
    "try_cast(d as int)", "try_add(a, 1)", "upper(s)", "case when t then a end", "rand()", "s = 1",
    "s = 'it''s'", "coalesce(a, 1)", "a in (1, 2.5)", "cast(s as double)", "a = s", "b + 1.5",
    "current_timestamp() is null", "a.b", "(select max(1))", "1 +", "", "0.5",
]  # fmt: skip


@pytest.mark.parametrize("text", TRANSLATED)
def test_what_is_translated(df: DataFrame, text: str) -> None:
    translated(df, text)


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_what_is_left_to_spark(df: DataFrame, text: str) -> None:
    with pytest.raises(NotScannedError):
        translated(df, text)
