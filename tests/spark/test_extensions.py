"""CONTRIBUTING, followed: a sixth family is one folder and one line, a sink one entry of a table,
what places rows one axis; each is planned, run, kept and requested like the others."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from skyband import TopK, Workload, last
from skyband.cli.output.live_view import progress_lines
from skyband.spark import (
    claim,
    families,
    top_k,
    top_k_dominating,
    top_k_incomplete,
    top_k_workload,
)
from skyband.spark import plan as plans
from skyband.spark.axis import TimeAxis
from skyband.spark.families import family_of
from skyband.spark.jobs import sinks
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run
from skyband.spark.pipeline import answer
from tests.spark.smallest.plan import FAMILY, SmallestOptions

OPTIONS = {"k": 2, "smallest": "price", "time": "ts", "window": "10 seconds", "slide": "5 seconds"}
JOB = """
source: {format: parquet, path: in}
query: {k: 2, smallest: price, time: ts, window: 10 seconds, slide: 5 seconds}
sink: {format: parquet, path: out}
checkpoint: checkpoint
drain: true
"""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    line = "tests.spark.smallest.plan"
    monkeypatch.setattr(families, "FAMILIES", [line, *families.FAMILIES])


@pytest.fixture
def trades(spark):
    number = F.col("id")
    return spark.range(100).select(
        F.timestamp_seconds(number).alias("ts"), (number * 37 % 101).alias("price")
    )


def expected(rows):
    """The two smallest of each window, newest first where they are equal."""
    ends = range(5, 110, 5)
    inside = {end: [row for row in rows if end - 10 <= row[0] < end] for end in ends}
    return {
        end: [price for _, price in sorted(window_rows, key=lambda row: (row[1], -row[0]))[:2]]
        for end, window_rows in inside.items()
        if window_rows
    }


def scores_by_window(rows):
    answers = {}
    for row in rows.orderBy("window", "rank").collect():
        answers.setdefault(int(row.window.end.timestamp()), []).append(int(row.score))
    return answers


def rows_of(trades):
    return [(int(row.ts.timestamp()), row.price) for row in trades.collect()]


def test_a_batch_is_answered(trades):
    plan = FAMILY.resolve(trades, SmallestOptions(**OPTIONS))
    assert scores_by_window(answer(trades, plan)) == expected(rows_of(trades))


def test_its_checkpoint_belongs_to_it(spark, trades, tmp_path):
    trades.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(trades.schema).parquet(str(tmp_path / "in"))
    leaders = answer(stream, FAMILY.resolve(stream, SmallestOptions(**OPTIONS)))
    claim(leaders, tmp_path / "checkpoint")
    assert family_of(leaders.schema["rank"].metadata["skyband"]) is FAMILY


def run_job(spark, trades, home, text=JOB):
    trades.write.parquet(str(home / "in"))
    (home / "job.yaml").write_text(text)
    job = load(home / "job.yaml")
    with Run(spark, job) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    return job, run


@pytest.mark.parametrize("batch", [False, True])
def test_a_job_is_run(spark, trades, tmp_path, batch):
    """What a family counts besides is counted with the rest, on streams and on batches."""
    text = JOB.replace("checkpoint: checkpoint\ndrain: true", "trigger: batch") if batch else JOB
    _, run = run_job(spark, trades, tmp_path, text)
    assert run.progress.extra == {"zeros": 1}
    lines = dict(progress_lines(run.progress, run.query, datetime.now(UTC)))
    assert lines["zeros"] == "1 values of zero"
    assert scores_by_window(spark.read.parquet(str(tmp_path / "out"))) == expected(rows_of(trades))


def lines_per_batch(job):
    """A writer of one file of JSON lines per batch, which a repeated batch replaces."""

    def write(rows, batch):
        lines = [row.value for row in rows.collect()]
        Path(job.place(job.sink.path), f"{batch}.jsonl").write_text("\n".join(lines))

    return write


LINES = sinks.SinkKind(
    ("lines",),
    "JSON lines{place}, a file per batch: each row exactly once",
    needs_path=True,
    reshape=lambda leaders, job: leaders.select(F.to_json(F.struct("*")).alias("value")),
    stream=lambda writer, job: writer.foreachBatch(lines_per_batch(job)),
    write=lambda rows, job: lines_per_batch(job)(rows, 0),
)


def test_a_sink_is_one_entry(spark, trades, tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "SINKS", (LINES, *sinks.SINKS))
    (tmp_path / "lines").mkdir()
    job, _ = run_job(
        spark,
        trades,
        tmp_path,
        JOB.replace("{format: parquet, path: out}", "{format: lines, path: lines}"),
    )
    text = "\n".join(file.read_text() for file in sorted((tmp_path / "lines").iterdir()))
    rows = [json.loads(line) for line in text.splitlines() if line]
    assert len(rows) == sum(map(len, expected(rows_of(trades)).values()))
    assert (
        sinks.promise(job)
        == f"JSON lines in {tmp_path}/lines, a file per batch: each row exactly once"
    )


@dataclass(frozen=True)
class DayAxis(TimeAxis):
    """Rows are placed by a date: a window of a week holds whole days."""

    def position_sql(self):
        return F.unix_date(self.column) * F.lit(86_400_000_000)


def test_rows_placed_in_another_way_are_one_axis(spark, monkeypatch):
    """Time windows over a column of dates, on a batch."""
    usual = plans.resolve_axis

    def resolve_axis(df, options, window):
        if dict(df.dtypes).get(options.time) == "date":
            return DayAxis(options.time, 0)
        return usual(df, options, window)

    monkeypatch.setattr(plans, "resolve_axis", resolve_axis)
    days = spark.range(20).select(F.date_from_unix_date(F.col("id").cast("int")).alias("day"), "id")
    best = top_k(days, k=1, by="id % 5", time="day", window="7 days", slide="1 day", keep="id")
    rows = {row.window.end.toordinal() - 719_163: row.id for row in best.collect()}
    for end, id in rows.items():
        inside = [n for n in range(20) if end - 7 <= n < end]
        assert id == max(inside, key=lambda n: (n % 5, n))
    assert sorted(rows) == list(range(1, 27))


def test_families_know_their_descriptions(spark, trades):
    """Which a checkpoint, a sink and the leaderboard go by."""
    times = {"time": "ts", "window": "10 seconds"}
    workload = Workload({"a": TopK(k=1, window=last(time="10 seconds"))}, {"a": "price"})
    streams = {"stream": "name", "streams": ["a"], "bounds": (0, 200)}
    named = trades.withColumn("name", F.lit("a"))
    leaders = {
        "top_k": top_k(trades, k=1, by="price", **times),
        "totals": top_k(trades, k=1, by="sum(price)", key="price", **times),
        "workload": top_k_workload(trades, workload, time="ts"),
        "dominating": top_k_dominating(trades, k=1, dimensions=[("price", "min")], **times),
        "incomplete": top_k_incomplete(named, k=1, id="price", value="price", **streams, **times),
    }
    for name, ranked in leaders.items():
        description = ranked.schema["rank"].metadata["skyband"]
        assert f".{name}" in type(family_of(description)).__module__
