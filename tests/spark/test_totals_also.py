"""First and last values, and totals beside the one that ranks, on Spark: = local = oracle."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import all_time
from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, top_k
from skyband.spark.families.totals.aggregates import aggregate_of
from tests.oracle import changes
from tests.oracle_totals import time_totals
from tests.spark import samples
from tests.spark.samples import SECOND
from tests.spark.test_totals import NAMES, OPTIONS, client, expected_rows, named, result_rows
from tests.test_totals_also import carried

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
ALSO = {
    "orders": "count(*)",
    "priced": "count(price)",
    "spent": "sum(price)",
    "top": "max(seq)",
    "mean": "avg(seq)",
    "newest": "last(seq)",
    "oldest": "first(price)",
}
KINDS = {
    "orders": ("count", None),
    "priced": ("count", "price"),
    "spent": ("sum", "price"),
    "top": ("max", "seq"),
    "mean": ("mean", "seq"),
    "newest": ("last", "seq"),
    "oldest": ("first", "price"),
}


def also_of(rows: Rows, row: Any) -> tuple[Any, ...]:
    """What the oracle says of the key of a result row, by the order of ``KINDS``."""
    end = samples.position(row.window.end)
    inside = [r for r in rows if end - 25 * SECOND <= r["ts"] < end and client(r) == row.client]
    return tuple(
        carried([(r["ts"], 1.0 if column is None else r[column]) for r in inside], by)
        for by, column in KINDS.values()
    )


def checked(rows: Rows, result: list[Any]) -> None:
    for row in result:
        given = tuple(row[name] for name in KINDS)
        assert given == also_of(rows, row), row


def sample(seed: int, count: int) -> Rows:
    """Rows of which some have no price, or the same time as others."""
    chance = random.Random(seed)
    rows = samples.rows(seed, count)
    return [
        {**row, "price": None if chance.random() < 0.15 else row["price"]}
        if not math.isnan(row["price"] or 0.0)
        else {**row, "price": None}
        for row in rows
    ]


def frame(spark: SparkSession, rows: Rows, tmp_path: Path) -> DataFrame:
    path = samples.write(tmp_path / "rows", [rows])
    return named(spark.read.schema(samples.DDL).parquet(path))


def run(spark: SparkSession, home: Path, source: str, **more: Any) -> list[Any]:
    leaders = top_k(
        named(samples.stream(spark, source)),
        drain=str(home / "marks"),
        **{**OPTIONS, "by": "last(price)", "also": ALSO, **more},
    )
    claim(leaders, str(home / "checkpoint"))
    samples.run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


def test_a_batch_carries_what_the_oracle_adds_up(spark: SparkSession, tmp_path: Path) -> None:
    rows = sample(3, 300)
    df = frame(spark, rows, tmp_path)
    for by, text in (("last", F.last("price")), ("first", "first(price)"), ("sum", "sum(price)")):
        plain = top_k(df, **{**OPTIONS, "by": text})
        assert result_rows(plain.collect()) == expected_rows(rows, by), by
        leaders = top_k(df, **{**OPTIONS, "by": text, "also": ALSO})
        assert leaders.columns == ["window", "rank", "score", "client", *ALSO]
        result = leaders.collect()
        assert result_rows(result) == expected_rows(rows, by), by
        checked(rows, result)


@pytest.mark.parametrize("deduplicated", [False, True])
def test_a_stream_goes_on_after_a_stop(
    spark: SparkSession, tmp_path: Path, deduplicated: bool
) -> None:
    rows = sample(5, 200)
    parts = samples.split(rows, 3, 5)
    late = {**rows[0], "price": 1e9, "ts": rows[0]["ts"] - 900 * SECOND, "seq": -1}
    options: dict[str, Any] = {"shards": 2}
    if deduplicated:
        options["deduplicate_by"] = "seq"
        parts = [[*part, *part[::3]] for part in parts]
    source = samples.write(tmp_path / "source", parts[:2])
    first = run(spark, tmp_path, source, **options)
    expected = expected_rows(rows, "last")
    assert 0 < len(first) < len(expected)
    samples.write(tmp_path / "source", [*parts[:2], [late, *parts[2]]])
    drain(spark, str(tmp_path / "marks"))
    result = run(spark, tmp_path, source, **options)
    assert result_rows(result) == expected
    checked(rows, result)
    with pytest.raises(QueryError, match="also was"):
        run(spark, tmp_path, source, **options, also={"orders": "count(*)"})


@pytest.mark.parametrize("shards", [1, 3])
def test_changes_are_those_of_the_ranking_alone(
    spark: SparkSession, tmp_path: Path, shards: int
) -> None:
    rows = sample(6, 120)
    options = {**OPTIONS, "by": "last(price)", "emit": "changes", "shards": shards, "also": ALSO}
    result = top_k(frame(spark, rows, tmp_path), **options).collect()
    order = sorted(NAMES, key=lambda name: (name is not None, name))
    windows = time_totals(
        [order.index(client(row)) for row in rows],
        [row["price"] for row in rows],
        [row["ts"] for row in rows],
        25 * SECOND,
        10 * SECOND,
        "last",
        3,
        3 * SECOND,
    )
    reports = [
        (end, {order[at]: ranks for at, ranks in report.items()})
        for end, report in changes(windows, 10 * SECOND, 1 << 62)
    ]
    assert samples.reports(result, "client") == reports
    checked(rows, [row for row in result if row.change != "left"])


def test_exact_numbers_keep_their_types(spark: SparkSession) -> None:
    big = 1 << 60
    df = spark.createDataFrame(
        [(1, big, "1.25", 0), (1, big + 1, "2.50", 1), (2, None, None, 0), (3, 5, "9.99", 1)],
        "key int, n bigint, text string, t int",
    )
    df = df.withColumn("money", F.expr("cast(text as decimal(18,2))"))
    df = df.withColumn("ts", F.timestamp_seconds("t"))
    options: dict[str, Any] = {"k": 9, "key": "key", "time": "ts", "window": "1 minute"}
    also = {
        "newest": F.last("n"),
        "rest": "sum(n % 100)",
        "spent": "sum(money)",
        "paid": "first(money)",
        "mean": "avg(money)",
        "rows": "count(*)",
    }
    leaders = top_k(df, by="last(money)", also=also, **options)
    types = {field.name: field.dataType.simpleString() for field in leaders.schema}
    assert types["score"] == types["paid"] == "decimal(18,2)"
    assert (types["spent"], types["newest"], types["mean"]) == ("decimal(19,2)", "bigint", "double")
    rows = {row.key: row for row in leaders.collect()}
    assert sorted(rows) == [1, 3]
    assert (rows[1].score, rows[1].newest, rows[1].spent) == (
        Decimal("2.50"), big + 1, Decimal("3.75")
    )  # fmt: skip
    assert (rows[1].paid, rows[1].mean, rows[1].rows) == (Decimal("1.25"), 1.875, 2)
    by_count = top_k(df, by="count(*)", also={"newest": "last(n)", "s": "sum(n)"}, **options)
    assert {row.key: (row.newest, row.s) for row in by_count.collect() if row.key != 1} == {
        2: (None, None),
        3: (5, 5),
    }


def test_a_live_board_a_null_takes_a_key_off(spark: SparkSession) -> None:
    rows = [("a", 5.0, 1), ("b", 3.0, 2), ("a", None, 12), ("c", 1.0, 25), ("a", 2.0, 31)]
    df = spark.createDataFrame(rows, "name string, score double, t int")
    df = df.withColumn("ts", F.timestamp_seconds("t"))
    board = top_k(
        df, k=3, by="last(score)", key="name", time="ts", window=all_time(every="10 seconds")
    ).orderBy("window.end", "rank")
    shown: dict[Any, list[Any]] = {}
    for row in board.collect():
        shown.setdefault(samples.position(row.window.end) // SECOND, []).append(
            (row.name, row.score)
        )
    assert shown == {
        10: [("a", 5.0), ("b", 3.0)],
        20: [("b", 3.0)],
        30: [("b", 3.0), ("c", 1.0)],
        40: [("b", 3.0), ("a", 2.0), ("c", 1.0)],
    }


def test_duckdb_says_the_same_where_times_differ(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows = [(chance.randint(0, 9), chance.choice([None, chance.random()]), t) for t in range(300)]
    df = spark.createDataFrame(rows, "key int, x double, t int").repartition(4)
    df = df.withColumn("ts", F.timestamp_seconds("t"))
    result = top_k(
        df, k=10, by="last(x)", key="key", time="ts", window="50 seconds",
        also={"oldest": "first(x)", "spent": "sum(x)"},
    ).collect()  # fmt: skip
    values = ", ".join(f"({k}, {'NULL' if x is None else x}::DOUBLE, {t})" for k, x, t in rows)
    expected = duckdb.sql(
        f"""
        SELECT t // 50 AS w, key, arg_max_null(x, t) AS score, arg_min_null(x, t), count(*)
        FROM (VALUES {values}) AS rows(key, x, t)
        GROUP BY ALL HAVING score IS NOT NULL
        """
    ).fetchall()
    given = {
        (samples.position(r.window.end) // SECOND // 50 - 1, r.key, r.score, r.oldest)
        for r in result
    }
    assert given == {row[:4] for row in expected}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"also": {"score": "count(*)"}}, "also has a column called 'score'"),
        ({"also": {"client": "count(*)"}}, "also has a column called 'client'"),
        ({"also": {"n": "price"}}, "also 'n' is 'price'"),
        ({"also": {"n": "last(sector)"}}, "also 'n' 'sector' is of type string"),
        ({"also": {"n": "sum(prize)"}}, "also 'n' 'prize' cannot be evaluated"),
        ({"also": ["n"]}, "also is"),
        ({"also": {"n": "count(*)"}, "key": None, "by": "price"}, "without key="),
        ({"by": "last(sector)"}, "of type string"),
        ({"by": "last(price, true)"}, "with key="),
    ],
)
def test_wrong_arguments_are_reported(
    spark: SparkSession, more: dict[str, Any], message: str
) -> None:
    df = named(spark.createDataFrame([], samples.DDL))
    with pytest.raises((QueryError, DataError), match=message):
        top_k(df, **{**OPTIONS, **more})


def test_columns_are_taken_apart(spark: SparkSession) -> None:
    df = named(spark.createDataFrame([], samples.DDL))
    assert str(aggregate_of(df, F.last("price"))) == "last(price)"
    assert str(aggregate_of(df, F.first(F.col("price") * 2))) == "first((price * 2))"
