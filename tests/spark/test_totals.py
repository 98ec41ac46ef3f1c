"""Totals on Spark: batch = stream = local = oracle."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import TopKTotals, TotalsMonitor, last
from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, top_k
from skyband.spark.columns import SCORE
from skyband.spark.families.totals.aggregates import aggregate_of
from skyband.spark.families.totals.sums import (
    BUCKET,
    ExactParts,
    cut_doubles,
    cut_sql,
    double_parts,
)
from skyband.totals.aggregate import parsed
from tests.oracle import Answer, changes
from tests.oracle_totals import exact_sum, time_totals
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
OPTIONS: dict[str, Any] = {
    "k": 3,
    "by": "sum(price)",
    "key": "client",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
    "offset": "3 seconds",
}
NAMES = ["ann", "bob", "Bob", "é", "", None]


def client(row: Any) -> Any:
    return NAMES[row["id"] % len(NAMES)]


def named(df: DataFrame) -> DataFrame:
    """Rows with a column of texts, by which they are added up."""
    names = F.array(*(F.lit(name) for name in NAMES))
    return df.withColumn("client", F.get(names, (F.col("id") % len(NAMES)).cast("int")))


def windows(rows: Rows, by: str = "sum", k: int = 3) -> list[Answer]:
    """What the oracle says of these windows."""
    order = sorted(NAMES, key=lambda name: (name is not None, name))
    answers = time_totals(
        [order.index(client(row)) for row in rows],
        [math.nan if row["price"] is None else row["price"] + 0.0 for row in rows],
        [row["ts"] for row in rows],
        25 * SECOND,
        10 * SECOND,
        by,
        k,
        3 * SECOND,
    )
    return [
        replace(answer, rows=tuple((score, order[at]) for score, at in answer.rows))
        for answer in answers
    ]


def expected_rows(rows: Rows, by: str = "sum", key: str = "", k: int = 3) -> list[tuple[Any, ...]]:
    """What the oracle says of these windows: partition, end, rank, score, client."""
    answers: list[tuple[Any, ...]] = []
    for value in sorted({str(row[key]) for row in rows} if key else {""}):
        key_rows = [row for row in rows if not key or str(row[key]) == value]
        answers += [
            (*([value] if key else []), window.end, rank, score, str(name))
            for window in windows(key_rows, by, k)
            for rank, (score, name) in enumerate(window.rows, start=1)
        ]
    return sorted(answers)


def result_rows(rows: list[Any], *keys: str) -> list[tuple[Any, ...]]:
    return sorted(
        (
            *(str(row[key]) for key in keys),
            samples.position(row.window.end),
            row["rank"],
            row.score,
            str(row.client),
        )
        for row in rows
    )


def run(spark: SparkSession, home: Path, source: str, **more: Any) -> list[Any]:
    """Run a stream over what is there; returns what its sink holds."""
    df = named(samples.stream(spark, source))
    leaders = top_k(df, drain=str(home / "marks"), **{**OPTIONS, **more})
    claim(leaders, str(home / "checkpoint"))
    samples.run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


def frame(spark: SparkSession, rows: Rows, tmp_path: Path) -> DataFrame:
    path = samples.write(tmp_path / "rows", [rows])
    return named(spark.read.schema(samples.DDL).parquet(path))


def test_a_batch_gives_what_the_oracle_gives(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(3, 300)
    df = frame(spark, rows, tmp_path)
    for by, text in (("sum", "sum(price)"), ("min", " MIN( price )"), ("count", "count(price)")):
        leaders = top_k(df, **{**OPTIONS, "by": text})
        assert leaders.columns == ["window", "rank", "score", "client"]
        assert result_rows(leaders.collect()) == expected_rows(rows, by), by
    leaders = top_k(df, partition_by="sector", **{**OPTIONS, "by": F.sum("price")})
    assert leaders.columns == ["window", "sector", "rank", "score", "client"]
    assert result_rows(leaders.collect(), "sector") == expected_rows(rows, key="sector")


@pytest.mark.parametrize("key", ["", "sector"])
def test_a_stream_gives_what_the_oracle_gives_also_after_a_stop(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    rows = samples.rows(5, 260)
    parts = samples.split(rows, 3, 5)
    late = {**rows[0], "price": 1e9, "ts": rows[0]["ts"] - 900 * SECOND, "seq": -1}
    keys = [key] if key else []
    options: dict[str, Any] = {"partition_by": key or None}
    if key:  # Spark adds such a stream up by itself
        options["deduplicate_by"] = "seq"
        parts = [[*part, *part[::3]] for part in parts]
    source = samples.write(tmp_path / "source", parts[:2])
    first = result_rows(run(spark, tmp_path, source, **options), *keys)
    expected = expected_rows(rows, key=key)
    assert 0 < len(first) < len(expected)
    assert set(first) <= set(expected)
    samples.write(tmp_path / "source", [*parts[:2], [late, *parts[2]]])
    drain(spark, str(tmp_path / "marks"))
    assert result_rows(run(spark, tmp_path, source, **options), *keys) == expected
    with pytest.raises(QueryError, match="score was 'sum\\(price\\)' and is now 'max\\(price\\)'"):
        run(spark, tmp_path, source, **options, by="max(price)")


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_changes_of_a_batch(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    rows = samples.rows(6, 120)
    options = {**OPTIONS, "by": "count(price)", "emit": "changes", "shards": shards}
    leaders = top_k(frame(spark, rows, tmp_path), **options)
    assert leaders.columns == ["window", "rank", "score", "change", "previous_rank", "client"]
    expected = changes(windows(rows, "count"), 10 * SECOND, 1 << 62)
    assert samples.reports(leaders.collect(), "client") == expected


def test_changes_of_a_stream_go_on_after_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(5, 160)
    parts = samples.split(rows, 3, 5)
    options = {"emit": "changes", "shards": 2}
    source = samples.write(tmp_path / "source", parts[:2])
    first = samples.reports(run(spark, tmp_path, source, **options), "client")
    expected = changes(windows(rows), 10 * SECOND, 1 << 62)
    assert 0 < len(first) < len(expected)
    assert first == expected[: len(first)]
    samples.write(tmp_path / "source", parts)
    drain(spark, str(tmp_path / "marks"))
    assert samples.reports(run(spark, tmp_path, source, **options), "client") == expected
    with pytest.raises(QueryError, match="emit was 'changes' and is now 'all'"):
        run(spark, tmp_path, source, shards=2)


def test_cut_doubles_lose_nothing(spark: SparkSession) -> None:
    chance = random.Random(8)
    values = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, math.inf, -math.inf]
    for power in range(-1074, 1024):
        near = math.ldexp(1.0, power)
        values += [near, -math.nextafter(near, math.inf), math.nextafter(near, 0.0)]
        values.append(chance.uniform(-1, 1) * near)
    rows = spark.createDataFrame([(value,) for value in values], f"{SCORE} double")
    cut_rows = cut_sql(rows, "doubles").collect()
    bucket = np.array([row[BUCKET] for row in cut_rows], np.int64)
    parts = [np.array([row[f"part_{i}"] for row in cut_rows], np.int64) for i in range(3)]
    assert max(int(np.abs(part).max()) for part in parts) <= 2**32 + 64
    for cut in ((bucket, parts), cut_doubles(np.array(values))):
        check_parts(values, double_parts(*cut))


def check_parts(values: list[float], parts: ExactParts) -> None:
    assert parts.first.sum() == len(values)
    exact = [Fraction(0)] * len(values)
    for row, value in zip(parts.row.tolist(), parts.value.tolist(), strict=True):
        if math.isfinite(values[row]):
            exact[row] += Fraction(value)
        else:
            assert value == values[row]
    assert all(
        not math.isfinite(value) or part_sum == Fraction(value)
        for value, part_sum in zip(values, exact, strict=True)
    )


def test_numbers_of_every_type_are_summed_without_loss(spark: SparkSession) -> None:
    chance = random.Random(2)
    rows = [
        (
            chance.randint(0, 3),
            chance.choice([1e16, -1e16, 1.0, 0.1, 1e300, -1e300]),
            chance.randint(-(2**55), 2**55),
            chance.randint(-(2**62), 2**62),
            f"{chance.randint(-(10**9), 10**9)}.{chance.randint(10, 99)}",
        )
        for _ in range(400)
    ]
    df = spark.createDataFrame(rows, "key int, x double, n bigint, m bigint, text string")
    df = df.withColumn("money", F.expr("cast(text as decimal(14,2))"))
    df = df.withColumn("ts", F.timestamp_seconds(F.lit(0))).repartition(5)
    options: dict[str, Any] = {"k": 9, "key": "key", "time": "ts", "window": "1 minute"}
    for at, column in ((1, "x"), (2, "n"), (4, "money")):
        sums = {row.key: row.score for row in top_k(df, by=F.sum(column), **options).collect()}
        for key in range(4):
            values = [row[at] for row in rows if row[0] == key]
            expected = exact_sum(values) if column == "x" else sum(map(Decimal, values))
            assert sums[key] == expected, column
    for at, column in ((3, "m"), (4, "money")):  # whose sums need not fit 64 bits
        means = {row.key: row.score for row in top_k(df, by=F.avg(column), **options).collect()}
        for key in range(4):
            values = [Fraction(row[at]) for row in rows if row[0] == key]
            assert means[key] == float(sum(values) / len(values))


def test_keys_of_any_type_and_ties_by_time_and_key(spark: SparkSession) -> None:
    rows = [
        (i % 3, f"name {i % 2}", i % 2 == 0, 1.5 * (i % 4) if i % 8 else -0.0, i // 12)
        for i in range(48)
    ]
    df = spark.createDataFrame(rows, "a int, b string, c boolean, d double, t int")
    df = df.withColumn("ts", F.timestamp_seconds("t"))
    df = df.withColumn("s", F.struct("a", "b")).withColumn("e", F.to_date("ts"))
    options: dict[str, Any] = {"k": 20, "by": F.count("*"), "time": "ts", "window": "2 seconds"}
    for key in ("d", ["s", "b"], ["e", "c", "a", "ts"]):
        names = [key] if isinstance(key, str) else key
        leaders = top_k(df, key=key, **options).orderBy("window", "rank").collect()
        windows: dict[Any, dict[Any, list[Any]]] = {}
        for row in df.collect():
            values = tuple(row[name] for name in names)
            windows.setdefault(row.t // 2, {}).setdefault(values, []).append(row.t)
        expected = [
            (float(len(times)), *key)
            for _, groups in sorted(windows.items())
            for key, times in sorted(
                groups.items(), key=lambda item: (len(item[1]), max(item[1]), item[0]), reverse=True
            )
        ]
        assert [(row.score, *(row[name] for name in names)) for row in leaders] == expected, key


@pytest.mark.usefixtures("compiled_plans")
def test_a_million_keys_of_which_one_has_most_rows(spark: SparkSession) -> None:
    df = spark.range(2_000_000).select(
        F.when(F.col("id") % 3 == 0, F.lit(-1)).otherwise(F.col("id") % 1_200_007).alias("client"),
        F.pmod(F.hash("id"), F.lit(1000)).alias("bytes"),
        F.timestamp_seconds((F.col("id") % 40).cast("bigint")).alias("ts"),
    )
    options: dict[str, Any] = {"k": 5, "by": "sum(bytes)", "time": "ts"}
    leaders = top_k(df, key="client", window="20 seconds", slide="10 seconds", **options).collect()
    columns = df.select("client", "bytes", F.unix_micros("ts").alias("at")).toPandas()
    monitor = TotalsMonitor(TopKTotals(5, "sum", last(time="20 seconds", slide="10 seconds")))
    monitor.push(
        columns["client"].to_numpy(),
        columns["bytes"].to_numpy(),
        times=columns["at"].to_numpy().astype("datetime64[us]"),
    )
    expected = [
        (window.end, rank, score, key)
        for window in monitor.finish()
        for rank, (score, key) in enumerate(
            zip(window.score.tolist(), window.id.tolist(), strict=True), start=1
        )
    ]
    answers = [(samples.position(r.window.end), r["rank"], r.score, r.client) for r in leaders]
    assert sorted(answers) == expected
    assert columns["client"].nunique() > 1_000_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"by": "price"}, "by is 'price' with key="),
        ({"by": "sum(price) / 2"}, "with key="),
        ({"by": "sum(distinct price)"}, "with key="),
        ({"by": "count(a, b)"}, "with key="),
        ({"by": 3}, "by is 3 with key="),
        ({"by": "sum(prize)"}, "prize"),
        ({"by": "sum(sector)"}, "of type string"),
        ({"by": "count(prize)"}, "prize"),
        ({"key": []}, "key is \\[\\]"),
        ({"key": "clint"}, "^key: there is no column 'clint'"),
        ({"key": "sector", "partition_by": "sector"}, "partly in partition_by"),
        ({"window": 100, "slide": 10, "offset": None}, "windows that count rows"),
        ({"emit": "some"}, "emit is 'some'"),
        ({"keep": "sector"}, "keep is 'sector' with key="),
        ({"id": "id"}, "id is 'id' with key="),
        ({"shards": 0}, "shards is 0"),
        ({"algorithm": "sap"}, "algorithm is 'sap'"),
        ({"k": 0}, "k is 0"),
        ({"key": None}, "by is sum\\(price\\), an aggregate, without key="),
        ({"key": None, "by": "price", "shards": 2}, "shards is 2 without key="),
    ],
)
def test_wrong_arguments_are_reported_before_anything_runs(
    spark: SparkSession, more: dict[str, Any], message: str
) -> None:
    df = named(spark.createDataFrame([], samples.DDL))
    with pytest.raises((QueryError, DataError), match=message):
        top_k(df, **{**OPTIONS, **more})


def test_a_key_that_is_a_column_is_refused(spark: SparkSession) -> None:
    df = named(spark.createDataFrame([], samples.DDL))
    with pytest.raises(QueryError, match="key is Column"):
        top_k(df, **{**OPTIONS, "key": F.col("sector")})


def test_columns_are_taken_apart_or_refused(spark: SparkSession) -> None:
    df = named(spark.createDataFrame([], samples.DDL))
    price = F.col("price")
    accepted: list[tuple[Column, str]] = [
        (F.sum("price"), "sum(price)"),
        (F.mean(price), "avg(price)"),
        (F.max(price * 2), "max((price * 2))"),
        (F.min("price").alias("least"), "min(price)"),
        (F.count("*"), "count(*)"),
        (F.count(F.lit(1)), "count(*)"),
        (F.count("sector"), "count(sector)"),
        (F.sum(F.col("seq").cast("decimal(10,2)")), "sum(CAST(seq AS DECIMAL(10,2)))"),
        (F.sum(price + 0.5), "sum((price + 0.5D))"),
        (F.expr("sum(if(sector = 'a', price, 0))"), "sum(if(sector = 'a', price, 0))"),
    ]
    for column, text in accepted:
        assert str(aggregate_of(df, column)) == text
    with pytest.raises(QueryError, match="SQL text"):
        aggregate_of(df, F.sum(F.when(F.col("sector") == "a", price)))
    for column in (F.count_distinct("price"), F.sum("price") / 2, price, F.try_sum("price")):
        with pytest.raises(QueryError, match="with key="):
            aggregate_of(df, column)
    with pytest.raises(QueryError, match="an aggregate, without key="):
        top_k(df, k=3, by=F.sum("price"), time="ts", window="1 minute")
    assert parsed("sum(CASE WHEN sector = ',)' THEN price END)") is not None
    assert df.transform(top_k, **OPTIONS).columns == ["window", "rank", "score", "client"]
