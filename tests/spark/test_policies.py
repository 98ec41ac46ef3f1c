"""What happens to rows that are late, repeated, from the future, or without a score."""

from __future__ import annotations

import random
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skyband.errors import QueryError
from skyband.spark import drain, quarantined, top_k, top_k_dominating
from skyband.spark.sessions import FAILURES
from tests import oracle
from tests.spark import samples
from tests.spark.samples import BASE, SECOND

pytestmark = pytest.mark.spark

YEAR_2100 = 4_102_444_800 * SECOND


def row(second: float | None, id: int, price: float | None, sector: str = "a") -> dict[str, Any]:
    """A row so many seconds after the beginning."""
    at = None if second is None else BASE + int(second * SECOND)
    return {"ts": at, "seq": id, "id": id, "sector": sector, "price": price}


def options_of(size: int, slide: int, k: int = 3, **more: Any) -> dict[str, Any]:
    """Options of a query over the columns of :mod:`tests.spark.samples`."""
    return {
        "k": k,
        "by": "price",
        "time": "ts",
        "window": f"{size} seconds",
        "slide": f"{slide} seconds",
        "id": "id",
        "keep": "id",
        **more,
    }


def metrics(query: Any, which: str) -> list[dict[str, int]]:
    """The values of one of our metrics, for each micro-batch of a run."""
    return [
        values.asDict()
        for progress in query.recentProgress
        for name, values in progress.observedMetrics.items()
        if name.startswith(f"skyband {which} ")
    ]


def counted(query: Any, which: str) -> dict[str, int]:
    """The values of one of our metrics, over a whole run."""
    batches = metrics(query, which)
    return {name: sum(batch[name] for batch in batches) for name in batches[0]}


def keys_with_state(query: Any) -> list[int]:
    """How many keys had state after each micro-batch of a run."""
    return [
        operator.numRowsTotal
        for progress in query.recentProgress
        for operator in progress.stateOperators
        if "transformWithState" in operator.operatorName
    ]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("dominating", [False, True])
def test_too_many_windows_stop_a_query(
    spark: SparkSession, tmp_path: Path, streaming: bool, dominating: bool
) -> None:
    """Three distant rows, each in as many windows as may be: no worker begins to answer them."""
    rows = [row(second, second, 1.0) for second in (0, 1_000, 9_000, 99_000)]
    source = samples.write(tmp_path / "rows", [rows, [row(999_000, 1, 1.0)]])
    df = samples.stream(spark, source) if streaming else spark.read.parquet(source)
    window = {"time": "ts", "window": "100 seconds", "slide": "1 microsecond", "id": "id"}
    if dominating:
        leaders = top_k_dominating(df, k=1, dimensions=[("price", "max")], **window)
    else:
        leaders = top_k(df, k=1, by="price", **window)
    refused = "completes [0-9]00,000,000 windows; expected 100,000,000 at most; fix: use a larger"
    with pytest.raises(FAILURES, match=refused):
        samples.run(leaders, tmp_path) if streaming else leaders.collect()


def test_rows_without_a_sound_time_or_score(spark: SparkSession, tmp_path: Path) -> None:
    nan = float("nan")
    sound = [row(second, second, second % 7) for second in range(60)]
    odd = [row(None, 100, 9.0), row(None, 101, None), row(0, 102, nan), row(1, 103, None)]
    future = row(0, 104, 9.0) | {"ts": YEAR_2100}
    silent = row(1_000, 105, nan)  # is never ranked, and yet it says what time it is
    source = samples.write(tmp_path / "rows", [[*sound[:30], *odd, future], [*sound[30:], silent]])
    stream = top_k(samples.stream(spark, source), **options_of(20, 10))
    query = samples.run(stream, tmp_path)
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    expected = samples.expected(sound, 3, 20 * SECOND, 10 * SECOND)
    assert samples.result_rows(leaders) == expected
    assert counted(query, "rows") == {
        "rows": 66,
        "no_time": 2,
        "future": 1,
        "null_score": 2,
        "nan_score": 2,
    }
    windows = counted(query, "windows")
    assert windows["windows"] == len({row[0] for row in expected})
    assert windows["ranked"] == len(expected)
    assert query.lastProgress.eventTime["watermark"].startswith("2023-11-14T22:")  # not 2100

    bad = quarantined(spark.read.parquet(source), time="ts")
    assert {(row.id, row.quarantine) for row in bad.collect()} == {
        (100, "no time"),
        (101, "no time"),
        (104, "from the future"),
    }
    without_skew = quarantined(spark.read.parquet(source), time="ts", skew=None)
    assert [row.id for row in without_skew.collect()] == [100, 101]


def test_quarantined_rows_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(1, 1, 1.0), row(None, 2, 1.0), row(0, 3, 1.0) | {"ts": YEAR_2100}]
    stream = quarantined(samples.stream(spark, samples.write(tmp_path / "rows", [rows])), time="ts")
    samples.run(stream, tmp_path)
    stored = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.id for row in stored.collect()) == [2, 3]
    assert stored.columns == ["ts", "seq", "id", "sector", "price", "quarantine"]


def test_without_a_skew_the_future_is_ranked(spark: SparkSession, tmp_path: Path) -> None:
    source = samples.write(tmp_path / "rows", [[row(0, 1, 1.0) | {"ts": YEAR_2100}]])
    assert not top_k(spark.read.parquet(source), **options_of(10, 10)).collect()
    assert top_k(spark.read.parquet(source), **options_of(10, 10, skew=None)).count() == 1


PATHS = {
    "panes": {"time": "ts", "window": "1 hour"},
    "arrival": {"time": "ts", "window": 8},
    "sequence": {"sequence": "seq", "window": 8},
}


@pytest.mark.parametrize("path", PATHS)
def test_zeros_are_equal_and_infinities_are_numbers(
    spark: SparkSession, tmp_path: Path, path: str
) -> None:
    inf = float("inf")
    scores = [0.0, -0.0, inf, -inf, 1.0, None, float("nan"), -1.0]
    rows = [row(second, second, score) for second, score in enumerate(scores)]
    source = samples.write(tmp_path / "rows", [rows])
    leaders = top_k(spark.read.parquet(source), k=9, by="price", keep="id", **PATHS[path])
    ranking = sorted(leaders.collect(), key=lambda row: row["rank"])
    assert [row.id for row in ranking] == [2, 4, 1, 0, 7, 3]
    assert [str(row.score) for row in ranking] == ["inf", "1.0", "0.0", "0.0", "-1.0", "-inf"]


def test_repeated_rows_count_once_if_deduplicated(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(second / 2, second, second % 5, "ab"[second % 2]) for second in range(80)]
    parts = [rows[:40] + rows[5:25], rows[20:60], rows[40:] + rows[45:]]
    source = samples.write(tmp_path / "rows", parts)
    options = options_of(20, 10, 50, partition_by="sector", deduplicate_by=["id", "sector"])
    expected = samples.expected(rows, 50, 20 * SECOND, 10 * SECOND, key="sector")
    batch = top_k(spark.read.parquet(source), **options).collect()
    assert samples.result_rows(batch, "sector") == expected
    stream = samples.run_and_drain(spark, tmp_path, source, delay="30 seconds", **options)
    assert samples.result_rows(stream, "sector") == expected
    twice = top_k(spark.read.parquet(source), **(options | {"deduplicate_by": None})).count()
    assert twice > len(expected)


@pytest.mark.parametrize("arrival", [False, True])
def test_rows_within_the_delay_are_always_counted(
    spark: SparkSession, tmp_path: Path, arrival: bool
) -> None:
    chance = random.Random(17)
    rows = samples.rows(17, 240)
    delay = 20 * SECOND
    shuffled = sorted(rows, key=lambda row: row["ts"] + chance.randrange(delay))
    parts = [shuffled[a:b] for a, b in ((0, 60), (60, 80), (80, 170), (170, 240))]
    assert any(  # the test would prove little otherwise
        min(row["ts"] for row in part) < max(row["ts"] for row in before) - delay // 2
        for before, part in pairwise(parts)
    )
    source = samples.write(tmp_path / "rows", parts)
    if arrival:
        options = options_of(1, 1, 4) | {"window": 15, "slide": 4, "delay": "20 seconds"}
        ordered = sorted(rows, key=lambda row: (row["ts"], row["id"]))
        scores = [None if row["price"] is None else row["price"] + 0.0 for row in ordered]
        ids = [row["id"] for row in ordered]
        expected = sorted(samples.oracle_rows(oracle.count_windows(scores, 15, 4, 4, ids)))
    else:
        options = options_of(25, 10, 4, delay="20 seconds")
        expected = samples.expected(rows, 4, 25 * SECOND, 10 * SECOND)
    assert (
        samples.result_rows(samples.run_and_drain(spark, tmp_path, source, **options)) == expected
    )


def test_no_window_is_answered_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Rows too late may be lost, but what was answered stays answered."""
    parts = [
        [row(second, second, 1.0) for second in range(0, 40, 2)],
        [row(200, 100, 1.0)],
        [row(195, 101, 2.0), row(201, 102, 1.0)],  # within the delay
        [row(3, 103, 9.0), row(25, 104, 9.0), row(196, 105, 3.0)],  # two of them far too late
        [row(1_000, 106, 1.0), row(4, 107, 9.0)],
    ]
    source = samples.write(tmp_path / "rows", parts)
    options = options_of(20, 10, 4, delay="10 seconds")
    answers = samples.result_rows(samples.run_and_drain(spark, tmp_path, source, **options))
    counted = [each for part in parts for each in part if each["id"] not in (103, 104, 107)]
    assert answers == samples.expected(counted, 4, 20 * SECOND, 10 * SECOND)


def test_keys_come_and_go_and_a_drained_stream_keeps_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    parts = [
        [row(second, second, second % 3, "a") for second in range(20)],
        [row(40 + second, 40 + second, second % 3, "b") for second in range(20)],
        [row(300 + second, 300 + second, second % 3, "ac"[second % 2]) for second in range(20)],
    ]
    source = samples.write(tmp_path / "rows", parts)
    marks = str(tmp_path / "marks")
    options = options_of(60, 10, 2, partition_by="sector", drain=marks, delay="5 seconds")
    expected = samples.expected(list(chain(*parts)), 2, 60 * SECOND, 10 * SECOND, key="sector")

    first = samples.run(top_k(samples.stream(spark, source), **options), tmp_path)
    before = samples.result_rows(spark.read.parquet(str(tmp_path / "out")).collect(), "sector")
    assert 0 < len(before) < len(expected)
    # "a" while its windows are open, and not for ever
    assert keys_with_state(first) == [0, 0, 1, 0]
    candidates = [metric["candidates"] for metric in metrics(first, "windows")]
    # the best two of the newer pane outlive and outrank all others
    assert candidates == [0, 0, 2, 0]

    drain(spark, marks)
    second = samples.run(top_k(samples.stream(spark, source), **options), tmp_path)
    after = samples.result_rows(spark.read.parquet(str(tmp_path / "out")).collect(), "sector")
    assert after == expected
    assert set(keys_with_state(second)) == {0}


@pytest.mark.usefixtures("compiled_plans")
def test_twenty_thousand_keys_in_a_batch(spark: SparkSession) -> None:
    rows = spark.range(60_000).select(
        F.timestamp_micros(F.lit(BASE) + F.col("id") * 1000).alias("ts"),
        (F.col("id") % 20_000).alias("key"),
        F.col("id").alias("n"),
    )
    leaders = top_k(rows, k=2, by="n", time="ts", window="10 minutes", partition_by="key", keep="n")
    per_key = leaders.groupBy("key").agg(
        F.count("*").alias("rows"), F.sum(F.expr("n - key")).alias("sum"), F.max("rank").alias("r")
    )
    counts = per_key.groupBy("rows", "sum", "r").count().collect()
    assert [tuple(row) for row in counts] == [(2, 60_000, 2, 20_000)]


def test_two_thousand_keys_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(i / 1_000, i, float(i), f"key {i % 2_000}") for i in range(6_000)]
    source = samples.write(tmp_path / "rows", [rows, [row(500, 9_999, 0.0, "key 0")]])
    options = options_of(60, 60, 2, partition_by="sector")
    query = samples.run(top_k(samples.stream(spark, source), **options), tmp_path)
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    assert samples.result_rows(leaders, "sector") == samples.expected(
        rows, 2, 60 * SECOND, 60 * SECOND, key="sector"
    )
    assert counted(query, "windows")["windows"] == 2_000


def test_twenty_thousand_ranks_in_a_batch(spark: SparkSession) -> None:
    rows = spark.range(50_000).select(
        F.timestamp_micros(F.lit(BASE) + F.col("id") * 1000).alias("ts"), F.col("id").alias("n")
    )
    with pytest.warns(UserWarning, match="k is 20,000"):
        leaders = top_k(rows, k=20_000, by="n % 1000", time="ts", window="10 minutes", keep="n")
    misplaced = leaders.filter("rank != 1 + (999 - score) * 50 + (49 - n div 1000)")
    assert leaders.count() == 20_000
    assert misplaced.count() == 0


def test_a_stream_begins_in_1970(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's watermark does: rows before it are late, and a batch is the way to rank them."""
    rows = [row(0, id, 1.0) | {"ts": id * SECOND} for id in (-100, -1, 0, 1)]
    source = samples.write(tmp_path / "rows", [rows])
    options = options_of(10, 10, delay="0 seconds")
    batch = top_k(spark.read.parquet(source), **options)
    assert {row.id for row in batch.collect()} == {-100, -1, 0, 1}
    drain(spark, str(tmp_path / "marks"))
    stream = top_k(samples.stream(spark, source), drain=str(tmp_path / "marks"), **options)
    query = samples.run(stream, tmp_path)
    assert {row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {0, 1}
    late = [o.numRowsDroppedByWatermark for o in query.recentProgress[0].stateOperators]
    assert sum(late) == 2


def test_sequence_numbers_that_drain_would_use_are_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [row(at, at, float(at * 7 % 11)) for at in range(30)]
    beyond = row(5, 99, 50.0) | {"seq": 10**14}
    source = samples.write(tmp_path / "rows", [[*rows, beyond]])
    options = {"k": 2, "by": "price", "sequence": "seq", "window": 10, "slide": 5, "keep": "id"}
    query = samples.run(top_k(samples.stream(spark, source), **options), tmp_path)
    assert counted(query, "rows")["future"] == 1
    leaders = spark.read.parquet(str(tmp_path / "out"))
    assert leaders.agg(F.max("window.end"), F.max("score")).collect() == [(25, 10.0)]


def test_another_state_store_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    name = "spark.sql.streaming.stateStore.providerClass"
    ours = spark.conf.get(name)
    source = samples.write(tmp_path / "rows", [[row(1, 1, 1.0)]])
    spark.conf.set(name, "some.MemoryProvider")
    try:
        with pytest.raises(QueryError, match=r"some.MemoryProvider.*RocksDB.*session\(\)"):
            top_k(samples.stream(spark, source), **options_of(20, 10))
    finally:
        spark.conf.set(name, ours)
