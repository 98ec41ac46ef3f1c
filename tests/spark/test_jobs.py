"""Job files: what they may say, what is refused, and how a run is reported; without Spark."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from rich.console import Console

from skyband import readable
from skyband.cli.commands.run import summary
from skyband.cli.output import live_view
from skyband.errors import QueryError, SkybandError
from skyband.spark.jobs import failures
from skyband.spark.jobs.file import Job, load
from skyband.spark.jobs.file import words as title
from skyband.spark.jobs.progress import Batch, Progress, Reports, batch_of, newest_rankings
from skyband.spark.jobs.run import Run
from skyband.spark.jobs.sinks import directory_per_batch
from skyband.spark.watching import BOARD

EXAMPLES = Path(__file__).parents[2] / "examples" / "jobs"

JOB: dict[str, Any] = {
    "source": {"format": "parquet", "path": "in"},
    "query": {"k": 2, "by": "price * volume", "time": "ts", "window": "1 hour"},
    "sink": {"format": "parquet", "path": "out"},
    "checkpoint": "checkpoint",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The job with another value somewhere; None takes it out."""
    job: dict[str, Any] = json.loads(json.dumps(JOB))
    *groups, last = path.split(".")
    place = job
    for name in groups:
        place = place.setdefault(name, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return job


@pytest.fixture
def write(tmp_path: Path) -> Any:
    (tmp_path / "in").mkdir()

    def write(job: Any) -> Path:
        file = tmp_path / "job.yaml"
        text = job if isinstance(job, str) else yaml.safe_dump(job, sort_keys=False)
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_a_job_with_everything(write: Any, tmp_path: Path) -> None:
    file = write("""
        name: big trades
        source: {format: json, path: in, schema: "ts timestamp, n int", options: {a: 1, b: true}}
        query:
          k: 10
          by: try_divide(n, 2)
          time: ts
          window: 1 hour
          slide: 1 minute
          offset: 30 seconds
          partition_by: [sector, side]
          id: n
          keep: n
          emit: changes
          delay: 1 minute
          skew: null
          deduplicate_by: [n]
          algorithm: auto
        sink: {format: files, path: s3://bucket/out, file_format: csv}
        trigger: {every: 10 seconds}
        checkpoint: /var/checkpoint
        session:
          master: local[2]
          shuffle_partitions: 3
          memory: 2g
          settings: {spark.ui.enabled: true}
    """)
    job = load(file)
    assert (job.title, job.trigger.kind, job.trigger.every) == ("big trades", "every", "10 seconds")
    assert job.place("in") == str(tmp_path / "in")
    assert job.place("/var/checkpoint") == "/var/checkpoint"
    assert job.place("s3://bucket/out") == "s3://bucket/out"
    assert job.query.skew is None
    assert job.source.ddl == "ts timestamp, n int"
    assert job.once().trigger.kind == "available_now"
    assert load(file, "local[1]").session.master == "local[1]"
    assert title(job) == (
        "top 10 of the last 1 hour, every 1 minute, shifted by 30 seconds, changes only "
        "by try_divide(n, 2), for each sector and side"
    )


def test_a_short_job(write: Any) -> None:
    job = load(write(JOB))
    assert (job.title, job.trigger.kind, job.drain, job.batch) == (
        "job", "available_now", False, False,
    )  # fmt: skip
    assert job.once() is job
    assert title(job).endswith("by price * volume")


WRONG: list[tuple[Any, str]] = [
    ("", "job.yaml holds nothing; expected source:, query: and sink:"),
    ("- a\n- b", "job.yaml holds a list"),
    ("source: [", "job.yaml line 1"),
    ("a: b: c", "job.yaml line 1: mapping values are not allowed here"),
    ("source: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    ("sink: {}\nsink: {}", "job.yaml line 2: sink was given in line 1 already"),
    (changed("source", None), "source is missing; expected a source"),
    (changed("querry", {}), "job.yaml line 13: querry is not known; expected one of source"),
    (changed("querry", {}), "did you mean query?"),
    (changed("home", "/"), "home is not known"),
    (changed("query.sllide", "1 minute"), "query.sllide is not known"),
    (changed("query.sllide", "1 minute"), "did you mean slide?"),
    (changed("query.drain", "x"), "query.drain is not known"),
    (changed("query.k", None), "query.k is missing; expected a whole number, such as 10"),
    (changed("query.k", "ten"), "job.yaml line 5: query.k is 'ten'; expected a whole number"),
    (changed("query.k", 2.5), "query.k is 2.5; expected a whole number"),
    (changed("query.k", True), "query.k is true; expected a whole number"),
    (changed("query.k", 0), "job.yaml: k is 0"),
    (changed("query.k", 200_000), "query.k is 200,000; expected at most 100,000"),
    (changed("query.window", "1 fortnight"), "window is '1 fortnight'"),
    (changed("query.window", [1]), "query.window is a list; expected a duration"),
    (changed("query.slide", "2 hours"), "slide is 2 hours, the window is 1 hour"),
    (changed("query.emit", "some"), "query.emit is 'some'; expected all, changes or updates"),
    (changed("query.time", False), "put it in quotes: YAML reads yes, no, on and off"),
    (changed("query.partition_by", ["a", 7]), "query.partition_by[1] is 7"),
    (changed("query.partition_by", []), "query.partition_by is a list"),
    (changed("query.by", "rand()"), "by uses 'rand'"),
    (changed("query.by", ""), "by is empty"),
    (changed("query.algorithm", "sapp"), "algorithm is 'sapp'"),
    (changed("source.path", None), "source.path is missing for parquet"),
    (changed("source.path", "nowhere"), "there is nothing at"),
    (changed("source.path", "nowhere/*.parquet"), "there is nothing at"),
    (changed("source.path", "job.yaml"), "source.path is one file"),
    (changed("source.schema", 7), "source.schema is 7"),
    (changed("source.options", ["a"]), "source.options is a list; expected options"),
    (changed("source.options.x", {"y": 1}), "source.options.x is a group of y"),
    (changed("sink.path", None), "sink.path is missing for parquet"),
    (changed("sink.format", "console"), "sink.format is console with a path"),
    (changed("sink.file_format", "csv"), "sink.file_format is given for parquet"),
    (changed("sink", {"format": "files", "path": "o", "file_format": "xls"}), "is 'xls'"),
    (changed("sink.path", "in/out"), "the sink ("),
    (changed("checkpoint", "out"), "the sink ("),
    (changed("checkpoint", "out/checkpoint"), "the checkpoint ("),
    (changed("checkpoint", None), "checkpoint is missing"),
    (changed("checkpoint", 7), "checkpoint is 7; expected a directory; fix: put it in quotes"),
    (changed("trigger", "often"), "trigger is 'often'; expected available_now, batch, or every"),
    (changed("trigger", {"every": 10}), "trigger is a group of every"),
    (changed("trigger", {"every": "often"}), "trigger.every is 'often'"),
    (changed("trigger", {"every": "0 s"}), "trigger.every is '0 s'"),
    (changed("trigger", "batch"), "trigger is batch with a checkpoint"),
    (changed("drain", "maybe"), "drain is 'maybe'; expected true or false"),
    ({**JOB, "drain": True, "trigger": {"every": "1 s"}}, "drain is true with trigger every 1 s"),
    (
        {
            **changed(
                "query", {"k": 2, "by": "x", "sequence": "n", "window": 9, "partition_by": "s"}
            ),
            "drain": True,
        },
        "drain is given for windows over a sequence by key",
    ),
    ({**changed("source.path", "*"), "trigger": {"every": "1 s"}}, "the sink ("),
    (changed("session.shuffle_partitions", 0), "session.shuffle_partitions is 0"),
    (changed("session.cores", 2), "session.cores is not known; expected one of master"),
    (changed("session.settings", {"spark.sql.shuffle.partitions": 3}), "shuffle_partitions"),
]


@pytest.mark.parametrize(("job", "message"), WRONG)
def test_what_is_refused(write: Any, job: Any, message: str) -> None:
    with pytest.raises(SkybandError) as caught:
        load(write(job))
    assert message in str(caught.value)
    assert "job.yaml" in str(caught.value)


def test_files_that_are_no_jobs(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="there is no file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(QueryError, match="cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(QueryError, match="not text in UTF-8"):
        load(tmp_path / "latin.yaml")


def test_paths_elsewhere_are_left_to_spark(write: Any) -> None:
    for job in (
        changed("session.master", "spark://host:7077"),
        changed("session.settings", {"spark.hadoop.fs.defaultFS": "hdfs://name"}),
    ):
        job["source"]["path"] = "/far/away"
        assert load(write(job)).place("/far/away") == "/far/away"
    assert load(write(changed("source.path", "s3a://bucket/in"))).source.path
    console = changed("sink", {"format": "console"})
    del console["checkpoint"]
    assert load(write(console)).checkpoint is None
    with pytest.raises(QueryError, match="checkpoint is missing"):
        load(write(console), "spark://host:7077")


@pytest.mark.parametrize("name", ["trades", "live", "backfill", "drained"])
def test_the_examples_are_sound(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_bytes((EXAMPLES / file.name).read_bytes())
    assert load(file).name


def test_a_directory_per_batch_replaces_itself(write: Any) -> None:
    """The same batch, run twice, names the same directory."""
    calls: list[Any] = []

    class Rows:
        def __getattr__(self, name: str) -> Any:
            if name == "write":
                return self
            return lambda *arguments, **options: calls.append((name, arguments, options)) or self

    job = load(write(changed("sink", {"format": "files", "path": "o", "options": {"x": True}})))
    write_batch = directory_per_batch(job)
    for _ in range(2):
        write_batch(Rows(), 7)  # type: ignore[arg-type]
    assert calls[:4] == calls[4:]
    assert calls[:3] == [
        ("format", ("parquet",), {}),
        ("options", (), {"x": "true"}),
        ("mode", ("overwrite",), {}),
    ]
    assert calls[3][1] == (f"{job.place('o')}/batch=7",)


# ---------------------------------------------------------------- how a run is doing


def report(number: int, **others: Any) -> StreamingQueryProgress:
    """A report as Spark writes it."""
    leaders = [
        {
            "window": {"start": "2024-01-01T00:00:00.000Z", "end": f"2024-01-01T0{end}:00:00.000Z"},
            "sector": sector,
            "rank": rank,
            "score": 1234567.25 / rank,
            "symbol": "ABC",
        }
        for end in (2, 1)
        for rank in (1, 2)
        for sector in ("Energy", "Health")
    ]
    fields = {
        "id": "5d3b2c1e-0000-4000-8000-000000000000",
        "runId": "5d3b2c1e-0000-4000-8000-000000000001",
        "name": None,
        "timestamp": "2024-01-01T03:00:00.000Z",
        "batchId": number,
        "batchDuration": 1500,
        "durationMs": {"addBatch": 1000, "triggerExecution": 1500},
        "eventTime": {"watermark": "2024-01-01T02:00:00.000Z"},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 3,
                "numRowsUpdated": 0,
                "numRowsRemoved": 0,
                "allUpdatesTimeMs": 0,
                "allRemovalsTimeMs": 0,
                "commitTimeMs": 0,
                "memoryUsedBytes": 1_000_000,
                "numRowsDroppedByWatermark": 2,
                "numShufflePartitions": 2,
                "numStateStoreInstances": 2,
                "customMetrics": {"rocksdbSstFileSize": 500_000},
            }
        ],
        "sources": [],
        "sink": {"description": "noop", "numOutputRows": -1, "metrics": {}},
        "numInputRows": 3000,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 2000.0,
        "observedMetrics": {
            "skyband rows 0123abcd": {
                "rows": 3000, "no_time": 1, "future": 2, "null_score": 3, "nan_score": 4,
            },
            "skyband windows 0123abcd": {"windows": 4, "candidates": 46, "ranked": 8},
            BOARD: {"leaders": json.dumps(leaders), "ranked": 8, "windows": 4},
        },
    }  # fmt: skip
    return StreamingQueryProgress.fromJson({**fields, **others})


def test_a_batch_is_read_from_its_report() -> None:
    batch = batch_of(report(7))
    assert batch is not None
    assert (batch.number, batch.rows, batch.windows, batch.ranked) == (7, 3000, 4, 8)
    assert (batch.no_time, batch.future, batch.null_score, batch.nan_score) == (1, 2, 3, 4)
    assert (batch.late, batch.candidates, batch.state_rows) == (2, 46, 3)
    assert (batch.state_bytes, batch.seconds) == (1_500_000, 1.5)
    assert batch.watermark == datetime(2024, 1, 1, 2, tzinfo=UTC)
    assert {row["window"]["end"] for row in batch.leaders} == {"2024-01-01T02:00:00.000Z"}
    assert len(batch.leaders) == 4


def test_reports_without_a_batch() -> None:
    assert batch_of(report(7, durationMs={"latestOffset": 3})) is None
    bare = batch_of(report(7, observedMetrics={}, stateOperators=[], eventTime={}))
    assert bare == Batch(7, seconds=1.5)
    drained = batch_of(report(7, eventTime={"watermark": "8999-12-31T23:59:50.000Z"}))
    assert drained is not None
    assert drained.drained
    far = batch_of(report(7, eventTime={"watermark": "+10000-01-01T00:00:00.000Z"}))
    assert far is not None
    assert far.watermark is None
    counted = batch_of(report(7, eventTime={"watermark": "1970-01-01T00:00:01.500Z"}))
    assert counted is not None
    assert counted.passed == 1500


def test_metrics_as_spark_connect_writes_them() -> None:
    fields = [{"name": "rows", "type": "long"}, {"name": "future", "type": "long"}]
    metric = {"values": [30, 2], "schema": {"type": "struct", "fields": fields}}
    batch = batch_of(report(7, observedMetrics={"skyband rows 0123abcd": metric}))
    assert batch is not None
    assert (batch.rows, batch.future, batch.no_time) == (30, 2, 0)


def test_batches_add_up_once() -> None:
    progress = Progress()
    for number in (1, 2, 2):
        batch = batch_of(report(number))
        assert batch is not None
        progress.add(batch)
    idle = batch_of(report(3, observedMetrics={}))
    assert idle is not None
    progress.add(idle)
    assert (progress.batches, progress.rows, progress.windows, progress.late) == (3, 6000, 8, 6)
    assert progress.rows_per_second == 2000
    assert progress.candidates == 46
    assert len(progress.leaders) == 4
    assert progress.last == idle


def test_batches_whose_reports_are_gone_are_counted() -> None:
    progress = Progress()
    for number in (7, 8, 12, 11, 13):
        progress.add(Batch(number, rows=10))
    assert (progress.batches, progress.missed, progress.rows) == (4, 3, 40)
    words = dict(live_view.progress_lines(progress, QUERY, clock()))
    assert words["missed"].startswith("3 batches, over before they were looked at")
    assert "missed" not in dict(live_view.progress_lines(batches(Batch(0)), QUERY, clock()))


def batches(*each: Batch) -> Progress:
    progress = Progress()
    for batch in each:
        progress.add(batch)
    return progress


class Reporting:
    """A stream that keeps its last reports."""

    def __init__(self, keeps: int) -> None:
        self._keeps = keeps
        self._reports: list[StreamingQueryProgress] = []
        self.reads = 0  # of all that it keeps

    def run(self, number: int, **others: Any) -> None:
        """Report a batch."""
        timestamp = f"2024-01-01T02:00:{len(self._reports):02}.000Z"
        self._reports.append(report(number, timestamp=timestamp, **others))

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        return self._reports[-1] if self._reports else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        self.reads += 1
        return self._reports[-self._keeps :]


def test_no_report_is_missed_and_few_are_read_twice() -> None:
    stream, reports, progress = Reporting(keeps=3), Reports(), Progress()

    def look() -> tuple[int, int, int]:
        progress.collect(reports.read(stream, progress.last))
        return progress.batches, progress.missed, stream.reads

    assert look() == (0, 0, 0)
    stream.run(4)  # it goes on from a checkpoint
    assert look() == look() == (1, 0, 1)
    stream.run(5)
    assert look() == (2, 0, 1)
    stream.run(6)
    stream.run(7, durationMs={"latestOffset": 3})  # nothing to do
    assert look() == look() == (3, 0, 2)
    stream.run(7)
    assert look() == (4, 0, 2)
    for number in range(8, 13):
        stream.run(number)
    assert look() == (7, 2, 3)


def test_a_run_says_that_batches_were_missed(caplog: pytest.LogCaptureFixture, write: Any) -> None:
    run = Run(None, load(write(JOB)))  # type: ignore[arg-type]
    stream = Reporting(keeps=2)
    for number in range(5):
        run._collect(stream, ended=True)  # type: ignore[arg-type]
        for each in range(3):
            stream.run(3 * number + each)
    run._collect(stream, ended=True)  # type: ignore[arg-type]
    assert (run.progress.batches, run.progress.missed) == (10, 4)
    assert (
        caplog.messages
        == ["1 batches were over before they were looked at: their counts are missing"] * 4
    )


def update(
    sector: str, rank: int | None, score: float, end: int = 2, **more: Any
) -> dict[str, Any]:
    """A row of a batch of updates."""
    window = {"start": end - 1, "end": end}
    beside = {"rank": rank, "score": score, "revision": 1, "final": False}
    return {"window": window, **more, "sector": sector, **beside}


def test_updates_of_a_window_are_put_together() -> None:
    both = [update("a", 1, 9.0), update("b", 1, 5.0), update("a", 2, 3.0)]
    again = [update("b", 1, 9.5), update("b", 2, 4.0)]
    together = newest_rankings(both, again, 40)
    assert together == (again[0], both[0], again[1], both[2])
    assert newest_rankings(together, [], 40) == together
    gone = [update("b", None, 0.0)]
    assert newest_rankings(together, gone, 40) == (both[0], both[2])
    assert newest_rankings(gone, gone, 40) == tuple(gone)
    # a newer window, whole rankings, and a batch that may have left out others stand alone
    newer = [update("a", 1, 1.0, end=3)]
    assert newest_rankings(both, newer, 40) == tuple(newer)
    assert newest_rankings(both, again, 2) == tuple(again)
    whole = [{name: value for name, value in row.items() if name != "revision"} for row in again]
    assert newest_rankings(both, whole, 40) == tuple(whole)


def test_updates_of_one_query_are_shown() -> None:
    short = [update("a", 1, 9.0, query="short")]
    long = [update("b", 1, 5.0, query="long")]
    assert newest_rankings(short, long, 40, ("query",)) == tuple(long)
    more = [update("c", 1, 7.0, query="long")]
    assert newest_rankings(long, more, 40, ("query",)) == (*more, *long)


def test_the_board_of_a_run_keeps_keys_that_did_not_change() -> None:
    first = (update("a", 1, 9.0), update("b", 1, 5.0))
    progress = batches(Batch(0, leaders=first), Batch(1, leaders=(update("b", 1, 6.0),)))
    text = drawn(live_view.board(progress.leaders, {**QUERY, "emit": "updates"}))
    assert re.findall(r"^([ab]) +1 +(\d)", text, re.MULTILINE) == [("a", "9"), ("b", "6")]


QUERY = {"keys": ["sector"], "windows": "time", "emit": "all"}


@pytest.fixture
def progress() -> Progress:
    progress = Progress()
    batch = batch_of(report(7))
    assert batch is not None
    progress.add(batch)
    return progress


def drawn(renderable: Any, height: int = 40) -> str:
    console = Console(width=100, height=height, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def clock() -> datetime:
    return datetime(2024, 1, 1, 3, 2, 5, tzinfo=UTC)


def test_the_screen(progress: Progress) -> None:
    console = Console(width=100, height=40, color_system=None, force_terminal=True)
    screen = live_view.Screen("top 2 by price", QUERY, console, clock)
    text = drawn(screen.frame(progress))
    for line in (
        "Skyband  top 2 by price",
        "2024-01-01 00:00:00 to 2024-01-01 02:00:00",
        "rows        3,000 read, 2,000 a second",
        "windows     4 answered, 8 rows ranked",
        "watermark   2024-01-01 02:00:00, 1 h 2 min behind the clock",
        "late        2 partial groups (numRowsDroppedByWatermark)",
        "set aside   1 without a time, 2 from the future",
        "not ranked  3 NULL and 4 NaN scores",
        "candidates  46 kept",
        "state       3 entries, 1.5 MB",
        "batch       7, 1.50 s",
    ):
        assert line in text
    rows = [line.split() for line in text.splitlines() if "ABC" in line]
    assert rows == [
        ["Energy", "1", "1,234,567.25", "ABC"],
        ["2", "617,283.625", "ABC"],
        ["Health", "1", "1,234,567.25", "ABC"],
        ["2", "617,283.625", "ABC"],
    ]
    with console.capture(), screen:
        screen.see(Progress())
        screen.see(progress)


def test_a_small_screen_shows_few(progress: Progress) -> None:
    assert drawn(live_view.board(progress.leaders, QUERY, 3)).count("ABC") == 3


def test_before_the_first_batch() -> None:
    assert "No window has been answered yet" in drawn(live_view.board((), QUERY))
    assert live_view.progress_lines(Progress(), QUERY, clock()) == [
        ("batch", "waiting for the first one")
    ]


def test_a_line_for_each_batch(progress: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    lines = live_view.Lines(QUERY, clock)
    for _ in range(3):
        lines.see(progress)
    assert capsys.readouterr().err == (
        "skyband: batch 7: 3,000 rows (2,000 a second), 4 windows, watermark 2024-01-01 02:00:00, "
        "1 h 2 min behind the clock, 46 candidates, state 1.5 MB, 2 late groups, "
        "3 rows set aside, 7 not ranked, 1.50 s\n"
    )
    live_view.Nobody().see(progress)
    assert capsys.readouterr().err == ""


def test_texts_of_the_live_view() -> None:
    batch = Batch(1, watermark=datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC))
    assert live_view.watermark(batch, {"windows": "sequence"}, clock()) == "row 5,000"
    assert live_view.watermark(Batch(1), QUERY, clock()) == "none yet"
    ended = Batch(1, watermark=datetime(8999, 1, 1, tzinfo=UTC))
    assert "drained" in live_view.watermark(ended, QUERY, clock())
    assert readable.span(timedelta(0)) == live_view.span(timedelta(seconds=-3)) == "0 s"
    assert readable.span(timedelta(days=400, seconds=61)) == "400 d 1 min"
    assert [readable.size(n) for n in (0, 999, 2_100_000, 5e9)] == [
        "0 B", "999 B", "2.1 MB", "5 GB",
    ]  # fmt: skip
    values = [None, True, 1234, 2.0, 1e-9, "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.120Z"]
    assert [readable.shown(value) for value in values] == [
        "", "true", "1,234", "2", "1e-09", "2024-01-01 00:00:00", "2024-01-01 00:00:00.120",
    ]  # fmt: skip


class Work:
    """What a summary needs of a run."""

    def __init__(self, progress: Progress, drained: bool = False) -> None:
        self.progress, self.drained, self.query = progress, drained, QUERY


def test_summaries(write: Any, progress: Progress, tmp_path: Path) -> None:
    job = load(write(JOB))
    lines = summary(job, Work(progress), stopped=False)
    assert lines[0] == "rows        3,000 read in 1 batch"
    assert f"results     {tmp_path / 'out'}" in lines
    assert lines[-2].startswith("to go on    skyband run")
    assert "drain: true" in lines[-1]
    assert "goes on from here" in summary(job, Work(progress), stopped=True)[-1]
    assert "drained" in summary(job, Work(progress, drained=True), stopped=False)[-1]
    assert summary(job, Work(Progress()), stopped=True)[0] == "rows        none were read"
    batch = changed("trigger", "batch")
    del batch["checkpoint"]
    assert "every window" in summary(load(write(batch)), Work(progress), stopped=False)[-1]
    live = changed("sink", {"format": "console"})
    del live["checkpoint"]
    assert "give the job a checkpoint" in summary(load(write(live)), Work(progress), True)[-1]


# ---------------------------------------------------------------- why a query failed


@pytest.mark.parametrize(
    ("spark_message", "message"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero.", "write try_divide(a, b)"),
        ("[CAST_INVALID_INPUT] The value 'x'", "write try_cast(x AS double)"),
        ("[ARITHMETIC_OVERFLOW] long overflow", "compute with doubles"),
        ("skyband.errors.SnapshotError: state of version 3", "another release"),
        ("[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided", "another release or query"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update", "another run uses"),
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] file:/in/a.parquet does not", "(file:/in/a.parquet)"),
        ("[FAILED_READ_FILE.NO_HINT] /in/b.parquet is not a Parquet file", "cannot be read"),
        ("Incomplete log file in the offset log version file:/c/offsets/3", "is damaged"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", "the checkpoint is damaged"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka", "spark.jars.packages"),
        ("[PATH_ALREADY_EXISTS] Path /out already exists", "remove it, or name another"),
        ("[OTHER_THING] Something odd. SQLSTATE: XX000\nmore", "the query stopped: Something odd."),
        ("", "the query stopped"),
    ],
)
def test_failures_are_reworded(spark_message: str, message: str) -> None:
    prefix = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
    for text in (spark_message, f"{prefix}{spark_message}"):
        error = failures.reworded(StreamingQueryException(text), Path("spark.log"))
        assert message in str(error)
        assert "spark.log" in str(error)
        assert "STREAM_FAILED" not in str(error)
    assert "words" not in str(failures.reworded(StreamingQueryException(spark_message), None))


def test_what_a_worker_refuses_is_told_in_its_words() -> None:
    refused = "skyband.errors.DataError: a batch that completes 9 windows; fix: use a larger slide"
    trace = f"Job aborted\n  File worker.py\n{refused}\n\tat org.apache.spark"
    error = failures.reworded(StreamingQueryException(trace), Path("spark.log"))
    told = "the query stopped: a batch that completes 9 windows; fix: use a larger slide"
    assert str(error) == told


def test_a_failure_without_words_has_its_kind() -> None:
    error = failures.reworded(StreamingQueryException(""), None)
    assert str(error) == "the query stopped: StreamingQueryException"


def test_jobs_are_plain_values(write: Any) -> None:
    job = load(write(JOB))
    assert isinstance(job, Job)
    with pytest.raises(Exception, match="frozen"):
        job.drain = True  # type: ignore[misc]
