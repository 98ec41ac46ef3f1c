"""Whole numbers beyond 2**53 and decimals are ranked and added up exactly, on every path."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, LongType

from skyband import TopK, Workload
from skyband.errors import DataError
from skyband.spark import drain, top_k, top_k_dominating, top_k_workload
from skyband.windows import last
from tests import oracle
from tests.oracle_totals import time_totals
from tests.spark import samples
from tests.spark.samples import SECOND

LARGE = 9007199254740993  # 2**53 + 1
BIGINT = f"id * {LARGE}"
CENTS = "try_cast(concat(id * 990000000000 + seq, '.25') AS DECIMAL(18,2))"


def bigint(row: dict[str, Any]) -> int:
    return int(row["id"]) * LARGE


def cents(row: dict[str, Any]) -> Decimal:
    return Decimal(row["id"] * 990000000000 + row["seq"]) + Decimal("0.25")


SCORES = {BIGINT: (bigint, LongType()), CENTS: (cents, DecimalType(18, 2))}


def close_together(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose scores doubles would not tell apart."""
    return [{**row, "id": row["id"] % 3 + 1000} for row in rows]


@pytest.mark.parametrize("by", SCORES, ids=["bigint", "decimal"])
def test_batches_of_time_windows(spark: SparkSession, tmp_path: Path, by: str) -> None:
    rows = close_together(samples.rows(1, 120))
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows[:50], rows[50:]]))
    leaders = top_k(
        frame, k=3, by=by, window="7 seconds", slide="3 seconds", time="ts", keep=["seq"]
    )
    score, type = SCORES[by]
    assert leaders.schema["score"].dataType == type
    scores = [score(row) for row in rows]
    windows = oracle.time_windows(
        scores, [r["ts"] for r in rows], 7 * SECOND, 3 * SECOND, 3, 0, [r["seq"] for r in rows]
    )
    assert ranked(leaders, "seq") == sorted(samples.oracle_rows(windows))


def ranked(leaders: DataFrame, id: str) -> list[tuple[Any, ...]]:
    return sorted(
        (samples.position(row.window.end), row["rank"], row.score, row[id])
        for row in leaders.collect()
    )


@pytest.mark.parametrize("counting", ["sequence", "arrival"])
def test_batches_of_count_windows(spark: SparkSession, tmp_path: Path, counting: str) -> None:
    rows = close_together(samples.rows(2, 90, gap=SECOND))
    rows = [{**row, "ts": row["ts"] + row["seq"]} for row in rows]  # one after the other
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    axis = {"sequence": "seq"} if counting == "sequence" else {"time": "ts"}
    leaders = top_k(frame, k=3, by=BIGINT, window=20, slide=5, keep=["seq"], **axis)
    windows = oracle.count_windows([bigint(row) for row in rows], 20, 5, 3)
    expected = sorted(samples.oracle_rows(windows))
    if counting == "arrival":
        assert [row[1:] for row in ranked(leaders, "seq")] == [row[1:] for row in expected]
    else:
        assert ranked(leaders, "seq") == expected


@pytest.mark.parametrize("by", SCORES, ids=["bigint", "decimal"])
def test_a_stream_goes_on_exactly(spark: SparkSession, tmp_path: Path, by: str) -> None:
    rows = close_together(samples.rows(3, 80))
    source = samples.write(tmp_path / "in", [rows[:40], rows[40:]])
    leaders = samples.run_and_drain(
        spark,
        tmp_path,
        source,
        k=3,
        by=by,
        window="8 seconds",
        slide="4 seconds",
        time="ts",
        keep=["seq"],
        delay="1 second",
        skew=None,
    )
    scores = [SCORES[by][0](row) for row in rows]
    windows = oracle.time_windows(
        scores, [r["ts"] for r in rows], 8 * SECOND, 4 * SECOND, 3, 0, [r["seq"] for r in rows]
    )
    answers = sorted(
        (samples.position(row.window.end), row["rank"], row.score, row.seq) for row in leaders
    )
    assert answers == sorted(samples.oracle_rows(windows))


TOTALS = [
    ("sum", BIGINT, bigint, LongType()),
    ("max", BIGINT, bigint, LongType()),
    ("min", CENTS, cents, DecimalType(18, 2)),
    ("sum", CENTS, cents, DecimalType(19, 2)),
    ("mean", CENTS, cents, DoubleType()),
    ("mean", "seq", lambda row: row["seq"], DoubleType()),
]


@pytest.mark.parametrize(("by", "value", "number", "type"), TOTALS)
def test_totals_of_batches(
    spark: SparkSession, tmp_path: Path, by: str, value: str, number: Any, type: Any
) -> None:
    rows = [{**row, "id": row["id"] % 2 + 1} for row in samples.rows(4, 100)]
    frame = spark.read.parquet(samples.write(tmp_path / "in", [rows]))
    aggregate = f"{'avg' if by == 'mean' else by}({value})"
    frame = frame.withColumn("key", F.col("seq") % 5)
    window = {"window": "8 seconds", "slide": "4 seconds", "time": "ts"}
    leaders = top_k(frame, k=3, by=aggregate, key="key", shards=2, **window)
    assert leaders.schema["score"].dataType == type
    assert ranked(leaders, "key") == expected_totals(rows, by, number)


def expected_totals(rows: list[dict[str, Any]], by: str, number: Any) -> list[tuple[Any, ...]]:
    """Of the oracle; decimals as whole numbers of cents, whose sums are exact."""
    numbers = [number(row) for row in rows]
    decimal = isinstance(numbers[0], Decimal)
    whole = [int(n * 100) for n in numbers] if decimal else numbers
    windows = time_totals(
        [r["seq"] % 5 for r in rows],
        whole,
        [r["ts"] for r in rows],
        8 * SECOND,
        4 * SECOND,
        by if by != "mean" else "sum",
        5,
    )
    results = []
    for window in windows:
        counts: dict[int, int] = defaultdict(int)
        newest: dict[int, int] = {}
        for row in rows:
            if window.start <= row["ts"] < window.end:
                counts[row["seq"] % 5] += 1
                newest[row["seq"] % 5] = row["ts"]
        totals = [
            (_total(score, by, counts[key], decimal), newest[key], key)
            for score, key in window.rows
        ]
        for rank, (score, _, key) in enumerate(sorted(totals, reverse=True)[:3], start=1):
            results.append((window.end, rank, score, key))
    return sorted(results)


def _total(score: int, by: str, count: int, decimal: bool) -> Any:
    from fractions import Fraction

    if by == "mean":
        return float(Fraction(score, count * (100 if decimal else 1)))
    return Decimal(score) / 100 if decimal else score


def test_totals_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{**row, "id": row["id"] % 2 + 1} for row in samples.rows(5, 80)]
    source = samples.write(tmp_path / "in", [rows[:40], rows[40:]])
    marks = str(tmp_path / "marks")
    for ended in (False, True):
        if ended:
            drain(spark, marks)
        frame = samples.stream(spark, source).withColumn("key", F.col("seq") % 5)
        leaders = top_k(
            frame,
            k=3,
            by=f"sum({BIGINT})",
            key="key",
            window="8 seconds",
            slide="4 seconds",
            time="ts",
            delay="1 second",
            skew=None,
            drain=marks,
        )
        samples.run(leaders, tmp_path)
    answers = spark.read.parquet(str(tmp_path / "out"))
    assert ranked(answers, "key") == expected_totals(rows, "sum", bigint)


def test_a_sum_beyond_64_bits_is_refused(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr(
        "id", "timestamp_seconds(id) AS ts", "id + 9218868437227405300 AS n"
    )
    totals = top_k(frame, k=1, by="sum(n)", key="ts", window="1 day", time="ts")
    assert [row.score for row in totals.collect()] == [9218868437227405302]
    totals = top_k(
        frame.withColumn("one", F.lit(1)), k=1, by="sum(n)", key="one", window="1 day", time="ts"
    )
    with pytest.raises(Exception, match="a sum beyond 9,218,868,437,227,405,311"):
        totals.collect()


def test_wider_decimals_are_refused_with_the_cast_to_write(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr(
        "timestamp_seconds(id) AS ts", "CAST(id AS DECIMAL(30,4)) AS d"
    )
    fix = r"write CAST\(d AS DECIMAL\(18,4\)\), or CAST\(d AS DOUBLE\)"
    with pytest.raises(DataError, match=rf"by d is of type decimal\(30,4\).*{fix}"):
        top_k(frame, k=1, by="d", window="1 day", time="ts")
    with pytest.raises(DataError, match=fix):
        top_k(frame, k=1, by="sum(d)", key="ts", window="1 day", time="ts")


def test_families_that_round_refuse_what_would_be_rounded(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr(
        "timestamp_seconds(id) AS ts", f"id + {LARGE} AS n", "double(id) AS x"
    )
    window = {"window": "1 day", "time": "ts"}
    dominating = top_k_dominating(frame, k=1, dimensions=[("n", "min"), ("x", "max")], **window)
    with pytest.raises(Exception, match=r"dimension n holds a number beyond 2\*\*53"):
        dominating.collect()
    workload = Workload({"a": TopK(1, last(time="1 day"))}, {"a": "n"})
    with pytest.raises(Exception, match=r"by n holds a number beyond 2\*\*53"):
        top_k_workload(frame, workload, time="ts").collect()
    with pytest.raises(DataError, match="at most 15 digits"):
        top_k_dominating(
            frame.withColumn("d", F.col("n").cast("decimal(18,0)")),
            k=1,
            dimensions=[("d", "min"), ("x", "max")],
            **window,
        )
