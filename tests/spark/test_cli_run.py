"""``skyband run`` and ``skyband explain JOB.yaml``, from file to results."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from pyspark.sql import SparkSession

from skyband.cli.commands.run import Stop
from tests.command_line import Runner, timed
from tests.conftest import INTERPRETED_PLANS

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "jobs"
START = datetime(2024, 1, 1, tzinfo=UTC)

JOB: dict[str, Any] = {
    "source": {"format": "parquet", "path": "in"},
    "query": {
        "k": 2,
        "by": "price",
        "time": "ts",
        "window": "20 seconds",
        "slide": "10 seconds",
        "partition_by": "sector",
        "delay": "0 seconds",
    },
    "sink": {"format": "parquet", "path": "out"},
    "checkpoint": "checkpoint",
}


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def write_rows(folder: Path, low: int, high: int) -> None:
    """A file of a row a second."""
    folder.mkdir(exist_ok=True)
    ids = range(low, high)
    moments = [START + timedelta(seconds=at) for at in ids]
    table = pa.table(
        {
            "ts": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "id": pa.array(ids, pa.int64()),
            "price": pa.array([float(at * 37 % 101) for at in ids]),
            "sector": pa.array(["ab"[at % 2] for at in ids]),
        }
    )
    parquet.write_table(table, folder / f"{low}.parquet")


def job(folder: Path, name: str = "job", **changes: Any) -> Path:
    """A job file; None takes something out."""
    content: dict[str, Any] = json.loads(json.dumps(JOB))
    for path, value in changes.items():
        *groups, last = path.split("__")
        place = content
        for group in groups:
            place = place[group]
        if value is None:
            place.pop(last)
        else:
            place[last] = value
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def ranked(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(str(path)).collect()
    return sorted(
        (row["window"]["end"], row["sector"], row["rank"], row["score"], row["id"]) for row in rows
    )


def test_a_stream_stops_resumes_and_ends_like_a_batch(
    run: Runner, spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "in", 0, 60)
    first = run("run", job(tmp_path))
    assert first.code == 0
    assert re.search(
        r"^skyband: batch 0: 60 rows \([\d,]+ a second\), 0 windows, watermark none yet", first.err
    )
    assert "rows        60 read in 2 batches" in first.out
    assert f"results     {tmp_path / 'out'}" in first.out
    assert "drain: true answers these as well" in first.out
    assert "00:00:30 to 2024-01-01 00:00:50" in first.out  # the leaderboard, off a terminal
    answered = ranked(spark, tmp_path / "out")
    write_rows(tmp_path / "in", 60, 120)

    message = run.fails("run", job(tmp_path, query__k=3))
    assert "k was 2 and is now 3" in message
    assert "restore the query, or start a new checkpoint" in message

    periodic = job(tmp_path, trigger={"every": "1 hour"})
    assert run("run", periodic, "--once", "--quiet") == type(first)(0, "", "")
    assert set(answered) < set(ranked(spark, tmp_path / "out"))

    # the option wins over what the job says; the page is there at once, and stops with the job
    last = run("run", job(tmp_path, drain=True, serve="no port"), "--serve", "0")
    assert last.code == 0
    served = re.match(r"skyband: the page of this job is at (http://127\.0\.0\.1:\d+/)\n", last.err)
    assert served is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(served[1], trust_env=False)
    assert "the stream is drained: every window is answered" in last.out
    assert "this stream was drained" in run.fails("run", job(tmp_path))

    batch = {"trigger": "batch", "checkpoint": None, "sink__path": "all"}
    whole = run("run", job(tmp_path, "batch", **batch))
    assert "rows        120 read" in whole.out
    rows = ranked(spark, tmp_path / "all")
    assert len(rows) == 13 * 2 * 2
    assert ranked(spark, tmp_path / "out") == rows
    assert "remove it, or name another sink.path" in run.fails("run", tmp_path / "batch.yaml")


def test_a_batch_counts_what_it_cannot_rank(
    run: Runner, spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "in", 0, 40)
    no_time, nan, null = "timestamp_seconds(if(id < 2, NULL, id))", "double('NaN')", "double(NULL)"
    price = f"CASE WHEN id % 10 = 3 THEN {nan} WHEN id % 20 = 4 THEN {null} ELSE price END"
    rows = spark.read.parquet(str(tmp_path / "in"))
    odd = rows.selectExpr(f"{no_time} ts", "id", f"{price} price", "sector")
    odd.write.parquet(str(tmp_path / "odd"))
    source = {"format": "parquet", "path": "odd"}
    batch = job(tmp_path, source=source, sink__path="all", trigger="batch", checkpoint=None)
    output = run("run", batch).out
    assert "rows        40 read" in output
    assert "set aside   2 without a time, 0 from the future" in output
    assert "not ranked  2 NULL and 4 NaN scores" in output


def test_a_new_checkpoint_needs_a_new_sink(run: Runner, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, 40)
    assert run("run", job(tmp_path), "--quiet").code == 0
    message = run.fails("run", job(tmp_path, checkpoint="another"))
    assert "holds what a stream with another checkpoint wrote" in message
    assert "name another sink.path, or go on with the old checkpoint" in message
    pattern = job(tmp_path, checkpoint="run*", sink__path="new")
    assert "in which * makes a pattern to Spark" in run.fails("run", pattern)


def micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_the_example_of_a_stream_that_has_ended(run: Runner, tmp_path: Path) -> None:
    """CSV in, CSV out, every window answered."""
    file = tmp_path / "trips-1.csv"
    assert run("generate", "trip", "--rows", 20_000, "--out", file).code == 0
    example = tmp_path / "drained.yaml"
    example.write_bytes((EXAMPLES / "drained.yaml").read_bytes())
    ran = run("run", example)
    assert ran.code == 0, ran.err
    assert "rows        20,000 read" in ran.out
    answers = []
    for part in (tmp_path / "out" / "trips").glob("batch=*/*.csv"):
        with part.open() as lines:
            for row in csv.DictReader(lines):
                end = micros(row["window_end"])
                answers.append((end, int(row["rank"]), float(row["score"])))
    with file.open() as lines:
        trips = list(csv.DictReader(lines))
    scores = [float(trip["distance"]) / float(trip["duration"]) for trip in trips]
    times = [micros(trip["pickup"]) for trip in trips]
    minute = 60_000_000
    expected = timed(scores, times, 60 * minute, 20 * minute, 5)
    assert sorted(answers) == sorted((end, rank, score) for _, end, rank, score, _ in expected)
    assert len(answers) > 5


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"sequence": "id", "window": 20, "slide": 10}, "40 to 60"),
        ({"time": "ts", "window": 20, "slide": 10, "partition_by": "sector"}, "10 to 30"),
        ({"time": "ts", "window": "20 s", "slide": "10 s", "emit": "changes"}, "left"),
    ],
)
def test_leaderboards_of_other_queries(
    run: Runner, tmp_path: Path, query: dict[str, Any], text: str
) -> None:
    write_rows(tmp_path / "in", 0, 60)
    whole_query = {"k": 2, "by": "price", **query}
    ran = run(
        "run",
        job(
            tmp_path,
            query=whole_query,
            sink={"format": "console"},
            trigger="batch",
            checkpoint=None,
        ),
    )
    assert (ran.code, ran.err) == (0, "")
    assert text in ran.out
    assert "rows        60 read" in ran.out
    assert ran.out.endswith("every window is answered\n")


def test_what_goes_wrong_is_reported(run: Runner, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, 60)
    assert "did you mean 'price'" in run.fails("run", job(tmp_path, query__by="prise * 2"))
    assert "no column 'when'" in run.fails("run", job(tmp_path, query__time="when"))
    schema = {"format": "parquet", "path": "in", "schema": "ts timestump"}
    assert "source.schema is 'ts timestump'" in run.fails("run", job(tmp_path, source=schema))
    sink = {"format": "kaffka"}
    assert "Spark does not know a format" in run.fails("run", job(tmp_path, sink=sink))
    (tmp_path / "empty").mkdir()
    source = {"format": "parquet", "path": "empty"}
    assert "holds no files to learn" in run.fails("run", job(tmp_path, source=source))
    json_too = {"format": "parquet", "path": "in", "json": "a int"}
    assert "a column value that holds records" in run.fails("run", job(tmp_path, source=json_too))
    zero = job(tmp_path, query__by="price / (id - 7)", sink={"format": "console"}, checkpoint="two")
    ran = run("run", zero)
    assert ran.code == 2
    note, error = (line for line in ran.err.splitlines() if "batch" not in line)
    assert note.startswith("skyband: note: price / (id - 7) stops the stream when id - 7 is 0")
    assert "the query stopped: the score divides by zero" in error
    assert "try_divide" in error


def test_a_damaged_checkpoint_is_reported(run: Runner, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, 5)
    console = job(tmp_path, sink={"format": "console"})
    assert run("run", console, "--quiet").code == 0
    newest = max((tmp_path / "checkpoint" / "offsets").iterdir(), key=lambda path: path.name)
    newest.write_text("v1\n{")
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    (tmp_path / "checkpoint" / "commits" / newest.name).unlink()
    assert "the checkpoint is damaged" in run.fails("run", console)


def test_explain_a_job(run: Runner, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, 5)
    file = job(tmp_path, query__slide="15 seconds")
    ran = run("explain", file)
    assert ran.code == 0
    text = " ".join(ran.out.split())
    for line in (
        "top 2 of the last 20 seconds, every 15 seconds by price, for each sector",
        "parquet: ts timestamp, id bigint, price double, sector string",
        "10 seconds and 5 seconds in turn, 3 in a window: the slide does not divide the window",
        "no other row reaches Python",
        "at most 2 rows of each pane, key and task",
        "about 4 for each sector, of scores in random order",
        "times the number of keys",
        "higher score, then newer ts, then higher id, price",
        "a window, once a row from at or after its end has come",
        "rows without ts, and rows more than 1 hour ahead of the clock",
        "each row exactly once",
        f"checkpoint {tmp_path / 'checkpoint'}",
    ):
        assert line in text, line
    assert not (tmp_path / "checkpoint").exists()
    (record,) = json.loads(run("explain", file, "--json").out)
    assert record["path"] == "pane"
    assert record["files"].startswith("read by tasks, with Arrow: only rows that may win")
    assert (record["pane"], record["second_pane"]) == (10_000_000, 5_000_000)
    assert record["state_bytes_per_key"] == record["state_rows_per_key"] * record["bytes_per_row"]
    physical = run("explain", file, "--physical").out
    assert "TransformWithState" in physical
    assert "max_by" in physical
    by_arrival = {**JOB["query"], "window": 100, "slide": 10}
    ran = run("explain", job(tmp_path, query=by_arrival, trigger={"every": "5 seconds"}))
    assert "each is seen" in ran.out
    assert "every 5 seconds until it is stopped" in ran.out
    sequence = {"k": 2, "by": "price", "sequence": "id", "window": 100, "slide": 10}
    batch = {"trigger": "batch", "checkpoint": None}
    ran = run("explain", job(tmp_path, query=sequence, sink={"format": "console"}, **batch))
    assert "once row number end + 0 of a window" in ran.out
    assert "every window is answered" in ran.out


def test_explain_knows_a_job_from_a_file(run: Runner, tmp_path: Path) -> None:
    write_rows(tmp_path / "in", 0, 5)
    file = job(tmp_path)
    assert "the query that is in the job" in run.fails("explain", file, "--k", 3)
    assert "--physical was given" in run.fails("explain", "--physical", "--last", 5)
    assert "sllide is not known" in run.fails("explain", job(tmp_path, query__sllide=1))


def test_signals_stop_in_order() -> None:
    before = signal.getsignal(signal.SIGTERM)
    for kind, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with Stop() as stop:
            os.kill(os.getpid(), kind)
            assert stop.requested.is_set()
            assert stop.code == code
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_signals_that_are_ignored_stay_ignored() -> None:
    """As ``nohup`` wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested.is_set()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_batch_is_interrupted(
    run: Runner, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Spark is at work on something that would take hours."""

    def endless(rows: Any, job: Any, writer: Any) -> None:
        counted = spark.range(1 << 50).selectExpr("uuid() AS id").filter("id = ''")
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        counted.collect()

    write_rows(tmp_path / "in", 0, 5)
    monkeypatch.setattr("skyband.spark.jobs.sinks.write", endless)
    batch = job(tmp_path, sink={"format": "console"}, trigger="batch", checkpoint=None)
    ran = run("run", batch)
    assert ran.code == 143
    assert "rows        none were read" in ran.out
    assert spark.range(3).count() == 3


@pytest.mark.cli
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_sigterm_stops_and_a_new_run_resumes(
    run: Runner, spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "in", 0, 60)
    settings = {
        "master": "local[2,4]",
        "memory": "1g",
        "shuffle_partitions": 1,
        "settings": INTERPRETED_PLANS,
    }
    file = job(tmp_path, trigger={"every": "1 second"}, session=settings)
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "skyband.cli", "run", str(file)]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONWARNINGS": "error"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("skyband: batch 1:"):
                running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 143
    assert "rows        60 read" in out
    assert f"skyband run {file} goes on from here" in out
    left = [path.name for path in (tmp_path / "tmp").iterdir()]
    assert [name for name in left if "skyband" in name] == []
    answered = ranked(spark, tmp_path / "out")
    assert len(answered) > 0
    write_rows(tmp_path / "in", 60, 90)
    resumed = job(tmp_path, drain=True)  # the session has other shuffle partitions by now
    assert run("run", resumed).code == 0
    rows = ranked(spark, tmp_path / "out")
    assert set(answered) < set(rows)
    assert len(rows) == len(set(rows)) == 10 * 2 * 2
