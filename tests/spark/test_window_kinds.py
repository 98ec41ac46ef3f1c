"""A period so far and all time on Spark: batch = stream = local = oracle, with a restart."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from benchmarks.spark.state import State, goals
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skyband import DataError, QueryError, all_time, cumulative, last
from skyband.spark import drain, top_k
from skyband.spark.axis import PaneGrid
from skyband.spark.jobs.file import load, words
from skyband.spark.jobs.run import Run
from skyband.spark.state.candidates import CandidatePane, Candidates
from skyband.windows import AllTimeWindow, TimeWindow
from tests import oracle
from tests.oracle_totals import totals_in
from tests.spark import samples
from tests.spark.samples import SECOND

DAY = cumulative("40 seconds", every="10 seconds", offset="3 seconds")
ALWAYS = all_time(every="10 seconds")
WINDOWS = [pytest.param(DAY, id="cumulative"), pytest.param(ALWAYS, id="all time")]
OPTIONS: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "id": "id", "keep": ["id", "ts"], "skew": None,
}  # fmt: skip

Rows = list[dict[str, Any]]


def windows_of(window: TimeWindow, rows: Rows, k: int = 3) -> list[oracle.Answer]:
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    times, ids = [row["ts"] for row in rows], [row["id"] for row in rows]
    if isinstance(window, AllTimeWindow):
        return oracle.all_time_windows(scores, times, window.slide, k, ids)
    shape = (window.size, window.slide, k, window.offset)
    return oracle.cumulative_windows(scores, times, *shape, ids)


def expected_rows(window: TimeWindow, rows: Rows, key: str = "") -> list[tuple[Any, ...]]:
    """What the oracle says, in the layout of :func:`samples.result_rows`."""
    answers: list[tuple[Any, ...]] = []
    for value in sorted({str(row[key]) for row in rows} if key else {""}):
        key_rows = [row for row in rows if not key or str(row[key]) == value]
        windows = windows_of(window, key_rows)
        answers += samples.oracle_rows(windows, *([value] if key else []))
    return sorted(answers)


def in_order(rows: Rows, parts: int) -> list[Rows]:
    """Rows in parts that do not overlap in time, so that a watermark may follow closely."""
    size = -(-len(rows) // parts)
    return [rows[low : low + size] for low in range(0, len(rows), size)]


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("key", ["", "sector"])
def test_a_batch_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, window: TimeWindow, key: str
) -> None:
    rows = samples.rows(7, 300)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 7))
    df = spark.read.parquet(source)
    leaders = top_k(df, window=window, partition_by=key or None, **OPTIONS).collect()
    keys = [key] if key else []
    assert samples.result_rows(leaders, *keys) == expected_rows(window, rows, key)
    for row in leaders:
        end = samples.position(row.window.end)
        start = window.panes.start(window.panes.first_window(end - 1))
        if isinstance(window, AllTimeWindow):
            assert row.window.start is None
        else:
            assert samples.position(row.window.start) == start


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("delay", ["10 minutes", "0 seconds"])
def test_a_stream_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, window: TimeWindow, delay: str
) -> None:
    """It is restarted in the middle, and once more to be drained."""
    rows = samples.rows(8, 240)
    parts = samples.split(rows, 4, 8) if delay != "0 seconds" else in_order(rows, 4)
    marks = str(tmp_path / "marks")
    for stage in range(3):
        source = samples.write(tmp_path / "rows", parts if stage else parts[:2])
        if stage == 2:
            drain(spark, marks)
        stream = samples.stream(spark, source)
        leaders = top_k(stream, window=window, drain=marks, delay=delay, **OPTIONS)
        query = samples.run(leaders, tmp_path)
        if stage == 1 and delay == "0 seconds":
            candidates = [
                metrics["candidates"]
                for batch in query.recentProgress
                for name, metrics in batch["observedMetrics"].items()
                if name.startswith("skyband windows")
            ]
            assert 0 < max(candidates) <= 3, "k rows are kept"
    answers = spark.read.parquet(str(tmp_path / "out")).collect()
    assert samples.result_rows(answers) == expected_rows(window, rows)


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("streaming", [False, True])
def test_changes(spark: SparkSession, tmp_path: Path, window: TimeWindow, streaming: bool) -> None:
    """Nothing ever leaves a window of all time because of its age."""
    rows = samples.rows(9, 200)
    source = samples.write(tmp_path / "rows", in_order(rows, 3))
    options = {**OPTIONS, "window": window, "emit": "changes", "partition_by": "sector"}
    if streaming:
        leaders = samples.run_and_drain(spark, tmp_path, source, delay="1 second", **options)
    else:
        leaders = top_k(spark.read.parquet(source), **options).collect()
    expected = set()
    for key in ("None", "a", "b"):
        key_rows = [row for row in rows if str(row["sector"]) == key]
        until = None if isinstance(window, AllTimeWindow) else oracle.FOREVER
        for end, report in oracle.changes(windows_of(window, key_rows), window.slide, until):
            expected |= {
                (key, end, id, rank or None, was or None) for id, (rank, was) in report.items()
            }
    reports = [
        (str(row.sector), samples.position(row.window.end), row.id, row["rank"], row.previous_rank)
        for row in leaders
    ]
    assert len(reports) == len(expected)
    assert set(reports) == expected


@pytest.mark.spark
def test_a_silent_key_goes_on_with_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"ts": samples.BASE + at * SECOND, "seq": at, "id": at, "sector": sector, "price": 1.0 + at}
        for at, sector in [(0, "a"), (1, "b"), (25, "b"), (47, "b"), (49, "b")]
    ]
    source = samples.write(tmp_path / "rows", [[row] for row in rows])
    options = {**OPTIONS, "window": ALWAYS, "partition_by": "sector", "delay": "0 seconds"}
    leaders = samples.run_and_drain(spark, tmp_path, source, **options)
    ends = {
        key: {
            samples.position(row.window.end) - samples.BASE for row in leaders if row.sector == key
        }
        for key in "ab"
    }
    every = 10 * SECOND
    assert ends["b"] == {step * every for step in range(1, 6)}
    assert ends["a"] == {step * every for step in range(1, 5)}, "as far as the watermark was"
    batch = top_k(spark.read.parquet(source), window=ALWAYS, partition_by="sector", **OPTIONS)
    assert batch.filter("sector = 'a'").count() == 1


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("streaming", [False, True])
def test_totals(spark: SparkSession, tmp_path: Path, window: TimeWindow, streaming: bool) -> None:
    rows = samples.rows(10, 240)
    for row in rows:
        row["id"] %= 11
    source = samples.write(tmp_path / "rows", in_order(rows, 3))
    for number, (by, text) in enumerate((("sum", "sum(price)"), ("max", "max(price)"))):
        options = {"k": 3, "by": text, "key": "id", "time": "ts", "window": window, "skew": None}
        home = tmp_path / str(number)
        if streaming:
            leaders = samples.run_and_drain(spark, home, source, delay="1 second", **options)
        else:
            leaders = top_k(spark.read.parquet(source), **options).collect()
        values = [np.nan if row["price"] is None else row["price"] + 0.0 for row in rows]
        windows = totals_in(
            windows_of(window, rows, 1),
            [row["id"] for row in rows],
            values,
            [row["ts"] for row in rows],
            by,
            3,
        )
        assert samples.result_rows(leaders) == sorted(samples.oracle_rows(windows))


@pytest.mark.spark
@pytest.mark.parametrize(
    "described",
    [
        {"cumulative": "40 seconds", "every": "10 seconds", "offset": "3 seconds"},
        {"all_time": True, "every": "10 seconds"},
    ],
    ids=lambda described: next(iter(described)),
)
def test_a_job(spark: SparkSession, tmp_path: Path, described: dict[str, Any]) -> None:
    rows = samples.rows(11, 120)
    samples.write(tmp_path / "in", in_order(rows, 3))
    job = {
        "source": {"format": "parquet", "path": "in", "schema": samples.DDL},
        "query": {
            **{"k": 3, "by": "price", "time": "ts", "window": described, "skew": None},
            **{"id": "id", "keep": ["id", "ts"], "delay": "1 second"},
        },
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    with Run(spark, load(tmp_path / "job.yaml")) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    window = ALWAYS if "all_time" in described else DAY
    answers = spark.read.parquet(str(tmp_path / "out")).collect()
    assert samples.result_rows(answers) == expected_rows(window, rows)


@pytest.mark.spark
def test_a_job_over_ticks(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(12, 120)
    samples.write(tmp_path / "in", [rows[:60], rows[60:]])
    window = {"ticks": 25, "slide": 10, "offset": 3}
    job = {
        "source": {"format": "parquet", "path": "in", "schema": samples.DDL},
        "query": {
            **{"k": 3, "by": "price", "time": "seq", "window": window, "delay": 0},
            **{"id": "id", "keep": "id"},
        },
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    with Run(spark, load(tmp_path / "job.yaml")) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    times, ids = [row["seq"] for row in rows], [row["id"] for row in rows]
    windows = oracle.time_windows(scores, times, 25, 10, 3, 3, ids)
    answers = spark.read.parquet(str(tmp_path / "out")).collect()
    assert samples.result_rows(answers) == sorted(samples.oracle_rows(windows))


def job_of(tmp_path: Path, **query: Any) -> Path:
    (tmp_path / "in").mkdir(exist_ok=True)
    file = tmp_path / "job.yaml"
    whole = {"k": 3, "by": "price", "time": "ts", **query}
    job = {"source": {"format": "parquet", "path": "in"}, "query": whole,
           "sink": {"format": "parquet", "path": "out"}, "checkpoint": "checkpoint"}  # fmt: skip
    file.write_text(yaml.safe_dump(job))
    return file


def test_a_job_in_words(tmp_path: Path) -> None:
    file = job_of(tmp_path, window={"cumulative": "1 day", "every": "1 minute"})
    assert words(load(file)) == "top 3 of each 1 day so far, every 1 minute by price"
    always = {"all_time": True, "every": "1 minute"}
    file = job_of(tmp_path, window=always, by="count(*)", key="client")
    assert "top 3 keys by count of all time, every 1 minute" in words(load(file))
    file = job_of(tmp_path, window={"ticks": 100, "slide": 10})
    assert words(load(file)) == "top 3 of the last 100 ticks, every 10 ticks by price"
    file = job_of(tmp_path, window={"cumulative": 100, "every": 10})
    assert words(load(file)) == "top 3 of each 100 ticks so far, every 10 ticks by price"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"window": {"cumulative": "1 day"}}, "window is {cumulative: 1 day}; expected"),
        ({"window": {"every": "1 day"}}, "{all_time: true, every: 1 minute}"),
        ({"window": {"all_time": False, "every": "1 day"}}, "{all_time: false, every: 1 day}"),
        ({"window": {"all_time": True, "every": "1 day", "offset": "1 s"}}, "window is"),
        ({"window": {"cumulative": "1 day", "evry": "1 s"}}, "window is {cumulative: 1 day, evry"),
        ({"window": {"cumulative": "1 day", "every": "7 h"}}, "every is 7 hours, the period"),
        ({"window": {"cumulative": "1 day", "every": True}}, "every is True"),
        ({"window": {"cumulative": "1 day", "every": 5}}, "period is '1 day' and every is 5"),
        ({"window": {"cumulative": "1 day", "every": 5.5}}, "query.window"),
        ({"window": {"ticks": "1 day"}}, "window is {ticks: 1 day}; expected"),
        ({"window": {"ticks": True}}, "{ticks: 100, slide: 10}"),
        ({"window": {"ticks": 5, "every": 5}}, "window is {every: 5, ticks: 5}; expected"),
        ({"window": {"ticks": 5, "slide": "1 s"}}, "window is 5 and slide is '1 s'"),
        ({"window": {"ticks": 5, "slide": 9}}, "slide is 9 ticks, the window is 5 ticks"),
        ({"window": {"ticks": 5}, "slide": 5}, "slide is 5 beside window="),
        (
            {"window": {"all_time": True, "every": "1 day"}, "slide": "1 minute"},
            "slide is '1 minute' beside window=",
        ),
        (
            {"window": {"all_time": True, "every": "1 s"}, "by": "sum(a)", "key": "c", "shards": 3},
            "shards is 3 for windows of all time",
        ),
    ],
)
def test_jobs_that_make_no_sense(tmp_path: Path, query: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError) as error:
        load(job_of(tmp_path, **query))
    assert message in str(error.value)


@pytest.mark.spark
def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.range(3).select(F.timestamp_seconds("id").alias("ts"), "id")
    with pytest.raises(QueryError, match="leave slide out"):
        top_k(df, k=1, by="id", time="ts", window=DAY, slide="1 minute")
    with pytest.raises(DataError, match="time 'ts' is of type timestamp with a window of ticks"):
        top_k(df, k=1, by="id", time="ts", window=all_time(every=5))
    leaders = top_k(df, k=1, by="id", time="ts", window=last(time="2 seconds", slide="1 second"))
    assert leaders.count() == 4


@pytest.mark.parametrize("window", [cumulative(50_000, every=5), all_time(every=5)], ids=str)
@pytest.mark.parametrize("rising", [False, True])
def test_k_rows_are_kept(window: TimeWindow, rising: bool) -> None:
    """Of any number of panes: all rows live equally long."""
    candidates = Candidates(4, PaneGrid.of(window), 0)
    for step in range(1, 4_001):
        scores = [float(step if rising else -step) - place for place in range(4)]
        list(candidates.run([CandidatePane(2 * step, scores, [])], step))
        assert len(candidates) == 4
    candidates.check_invariants()


def test_a_stream_keeps_k_rows_of_a_key(spark: SparkSession, tmp_path: Path) -> None:
    """The benchmark of it, over few rows: neither our count nor Spark's grows with the stream."""
    records = State(rows=30_000, keys=4, batches=3).measure(spark, tmp_path)
    answered = [record for record in records if record["candidates"] is not None]
    assert {record["window"] for record in answered} == {"all_time", "cumulative"}
    assert {record["per_key"] for record in answered} == {10}
    assert {record["state_rows"] for record in answered} == {4}
    assert all(met == "yes" for *_, met in goals(records))
