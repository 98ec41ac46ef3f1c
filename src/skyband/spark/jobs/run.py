"""A run of a job: its session, its query, its sink, and its progress."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from skyband.spark import connectors, draining, explain, java_process, pipeline
from skyband.spark.cluster.executors import Shortage, prepare
from skyband.spark.cluster.masters import is_cluster
from skyband.spark.derive import derived
from skyband.spark.expressions import safe_score
from skyband.spark.families import family_of
from skyband.spark.java_process import GONE
from skyband.spark.jobs import brokers, failures, sinks, sources
from skyband.spark.jobs import checkpoint as manifests
from skyband.spark.jobs.file import Job
from skyband.spark.jobs.outbox import Deliveries, Outbox, refuse_waiting
from skyband.spark.jobs.progress import (
    RECORDS,
    Batch,
    Progress,
    Reports,
    answers_of,
    leaders_of,
    read_counts,
)
from skyband.spark.jobs.variables import masked_error, masking, redaction
from skyband.spark.plan import PARTITIONS, Plan
from skyband.spark.sessions import FAILURES, SETTINGS, connected, log_file, session
from skyband.spark.sinks.patience import LOG, STOPPING, first_line
from skyband.spark.sinks.ranked_batch import BatchWriter
from skyband.spark.warm_up import start_scanning_workers
from skyband.spark.watching import BOARD, SERVED, board_columns, observed

_POLL = 0.2  # seconds
STARTS = 4  # of a stream whose Python does not start in time
LATE_WORKER = "Python worker failed to connect back"
_RECENT = "spark.sql.streaming.numRecentProgressUpdates"
_FEW_REPORTS = "16"
_PATIENT = 5  # times as long as the last report took to read, until the next is asked for


@contextmanager
def opened(job: Job) -> Iterator[SparkSession]:
    """The active session, or a new one for the job, which ends with the block.

    The log of a new session is deleted after success; what is left of it holds no secrets.
    """
    with masking(job.variables):
        active = SparkSession.getActiveSession()
        if active is not None:
            yield active
            return
        try:
            spark = _session(job)
            try:
                yield spark
            except KeyboardInterrupt:
                java_process.end()
                raise
            finally:
                with suppress(*FAILURES, *GONE):
                    spark.stop()
        except Exception:
            _mask_log(job)
            raise
        except KeyboardInterrupt:
            log_file().unlink(missing_ok=True)
            raise
        log_file().unlink(missing_ok=True)


def _mask_log(job: Job) -> None:
    """Take the values of a job's variables out of the log, in place: Java may still write there."""
    if job.variables and log_file().exists():
        with log_file().open("r+", encoding="utf-8", errors="replace") as log:
            text = job.masked(log.read())
            log.seek(0)
            log.truncate()
            log.write(text)


def _session(job: Job) -> SparkSession:
    wanted = job.session
    app = job.masked(f"skyband {job.title}")
    settings = connectors.settings(job.connect, sources.option_texts(wanted.settings))
    options = sources.option_texts(job.source.options)
    for each in job.each_sink:
        options |= sources.option_texts(each.sink.options)
    settings = redaction(settings, options, job.variables) | settings
    if wanted.master is None or not wanted.master.startswith("sc://"):
        return session(
            wanted.master,
            app=app,
            shuffle_partitions=wanted.shuffle_partitions,
            memory=wanted.memory,
            settings=settings,
        )
    if wanted.shuffle_partitions is not None:
        settings[PARTITIONS] = str(wanted.shuffle_partitions)
    try:
        return connected(wanted.master, app, {**SETTINGS, **settings})
    except FAILURES as error:
        raise failures.reworded(error, None) from None


class Run:
    """One run of a job: checked, claimed, started, watched, stopped.

    ``notes`` are warnings for people; ``progress`` is kept up to date while the run goes on. With
    ``reports_answers`` it holds the answers of each batch as well.
    """

    def __init__(self, spark: SparkSession, job: Job, reports_answers: bool = False) -> None:
        self.spark = spark
        self.job = job
        self._served = SERVED if reports_answers else None
        self._next_look = 0.0  # when Spark is asked for a report again
        self._reports = Reports()
        self.notes: list[str] = list(job.notes)
        self.progress = Progress()
        self.drained = False
        self._temporary = job.checkpoint is None and not job.batch
        self.checkpoint = (
            tempfile.mkdtemp(prefix="skyband-checkpoint-")
            if self._temporary
            else job.place(job.checkpoint or "")
        )
        self.log = log_file() if log_file().exists() else None
        self._leaders: DataFrame | None = None
        self._plan: Plan | None = None
        self._files: str | None = None  # who reads files, in words
        self._writers: dict[str, BatchWriter | None] = {}  # by the names of sinks
        self._deliveries: Deliveries | None = None  # if there are several sinks
        self._catches_up = False  # whether there is nothing left to rank, only to deliver
        self._partitions: str | None = None  # of the session, while the run has others
        self._recent: str | None = None  # reports that the session keeps, while it keeps fewer
        self._read = Observation("skyband read")
        self._records = Observation(RECORDS)

    def __enter__(self) -> Run:
        LOG.addFilter(self._mask)
        return self

    def _mask(self, record: logging.LogRecord) -> bool:
        """Take the values of variables out of what sinks log."""
        record.msg, record.args = self.job.masked(record.getMessage()), ()
        return True

    def __exit__(self, *_: object) -> None:
        LOG.removeFilter(self._mask)
        if self._temporary:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        before = {PARTITIONS: self._partitions, _RECENT: self._recent}
        with suppress(*FAILURES, *GONE):
            for name, value in before.items():
                if value is not None:
                    self.spark.conf.set(name, value)

    @property
    def drain(self) -> str:
        """The directory whose mark ends the stream."""
        return f"{self.checkpoint.rstrip('/')}/skyband/drain"

    @property
    def leaders(self) -> DataFrame:
        """The ranked windows."""
        assert self._leaders is not None, "prepare first"
        return self._leaders

    @property
    def _resumes(self) -> str:
        """How to go on after Spark has gone."""
        if self.job.checkpoint is None:
            return f"skyband run {self.job.file} begins anew"
        return f"skyband run {self.job.file} resumes from the checkpoint"

    @property
    def query(self) -> dict[str, Any]:
        """The description of the query."""
        return dict(self.leaders.schema["rank"].metadata["skyband"])

    def explain_lines(self) -> explain.Lines:
        """How the job is answered, in words."""
        assert self._plan is not None, "prepare first"
        return job_lines(self.job, self._plan, self._files)

    def board_columns(self) -> list[str]:
        """The columns of answers that are reported beside the window, keys, rank and score."""
        return board_columns(self.leaders, self.query, SERVED)

    @property
    def catches_up(self) -> bool:
        """Whether there is nothing left to rank, only to deliver."""
        return self._catches_up

    def sinks_behind(self) -> list[dict[str, Any]]:
        """How many batches wait for each of several sinks, the last that it has, and failures."""
        if self._deliveries is None:
            return []
        behind = self._deliveries.behind()
        return [
            {
                "name": sink.name,
                "waiting": behind[sink.name],
                "delivered": sink.delivered if sink.delivered >= 0 else None,
                "error": "" if sink.failure is None else self.job.masked(first_line(sink.failure)),
            }
            for sink in self._deliveries.sinks
        ]

    def make_ready(self, stop: threading.Event) -> None:
        """Have the executors of a cluster ready, and see to it that they see the job's files."""
        if not is_cluster(self.job.session.master):
            return
        with self._reworded():
            context: Any = self.spark.sparkContext
            default = context._jsc.hadoopConfiguration().get("fs.defaultFS")
            prepare(self.spark, *self.job.shared_places(default), stop)

    def prepare(self) -> None:
        """Check the job against its columns, and its checkpoint against the job."""
        with self._reworded():
            brokers.check(self.job)
            if sources.may_be_scanned(self.job):
                start_scanning_workers(self.spark)
            rows = sources.rows(self.spark, self.job, self._records if self.job.batch else None)
            if self.job.batch:
                self._answer(rows)
                for each in self.job.each_sink:
                    self._writers[each.sink.title] = sinks.writer(self.leaders, each)
                return
            manifest = manifests.read(self.spark, self.checkpoint)
            if manifest is None:
                for each in self.job.each_sink:
                    sinks.check_new(self.spark, each)
            elif self.job.session.shuffle_partitions is None:  # they are frozen into a checkpoint
                self._partitions = self.spark.conf.get(PARTITIONS)
                self.spark.conf.set(PARTITIONS, str(manifest["shuffle_partitions"]))
            self._answer(rows, self.drain, self.checkpoint)
            for each in self.job.each_sink:
                sinks.check_layout(self.spark, each, bool(self.job.sinks))
                sinks.check_type(self.leaders, each)
            self._make_writers(is_new=manifest is None)
            self._catches_up = manifest is not None and self._is_drained_with_sinks_behind()
            if not self._catches_up:
                manifests.claim(self.leaders, self.checkpoint)

    def _make_writers(self, is_new: bool) -> None:
        """Have each sink ready; of several, each takes its batches from an outbox."""
        job, leaders, checkpoint = self.job, self.leaders, self.checkpoint.rstrip("/")
        if not job.sinks:
            if not is_new and not is_remote():
                refuse_waiting(self.spark, checkpoint)
            self._writers[job.sink.title] = sinks.writer(leaders, job, checkpoint)
            return
        made = {
            each.sink.title: sinks.outbox_writer(leaders, each, checkpoint, self.notes)
            for each in job.each_sink
        }
        outbox = Outbox(self.spark, checkpoint, leaders.schema)
        self._deliveries = Deliveries(outbox, made)
        if not is_new:
            self._deliveries.refuse_lost()
            self.notes += self._deliveries.notes()
        self._writers[job.sink.title] = outbox.writer(self._deliveries.add)

    def _is_drained_with_sinks_behind(self) -> bool:
        waiting = self._deliveries is not None and any(self._deliveries.behind().values())
        return waiting and manifests.finished(self.spark, self.checkpoint)

    def _answer(self, rows: DataFrame, *places: str) -> None:
        source = sources.parquet_source(self.job, rows)
        with _noted(self.job, self.notes):
            rows, self._plan = _resolved(self.job, rows, *places)
        counts = self._read if self.job.batch else None
        files = pipeline.reading(rows, self._plan, source)
        self._leaders = pipeline.answer(rows, self._plan, counts, files)
        self._files = None if files is None else files.words
        self.progress.query_columns = family_of(self.query).query_columns

    def go(self, stop: threading.Event, show: Callable[[], None]) -> None:
        """Run until the job ends or ``stop`` is set; call ``show`` again and again meanwhile."""
        shortage = Shortage(self.spark)

        def see() -> None:
            shortage.look()
            show()

        try:
            with self._reworded(), brokers.watched(self.job):
                if not stop.is_set():
                    self._go(stop, see)
        finally:
            STOPPING.clear()

    def _go(self, stop: threading.Event, see: Callable[[], None]) -> None:
        if self.job.batch:
            self._batch(stop, see)
            return
        if self._deliveries is None:
            self._streams(stop, see)
            return
        with self._deliveries.running():
            try:
                if not self._catches_up:
                    self._streams(stop, see)
                while not self._deliveries.settled() and not _stopped(stop):
                    see()
                see()  # what the last delivery has changed
            finally:
                STOPPING.set()  # sinks wait for their servers no longer
        failure = self._deliveries.failure()
        if failure is not None and not stop.is_set():
            raise failure

    def _streams(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Run over what there is; then once more, if the stream is to be drained."""
        marked = self.job.drain and draining.drained(self.spark, self.drain)
        self._stream(stop, see)
        if self.job.drain and not marked and not stop.is_set():
            draining.drain(self.spark, self.drain)
            self._stream(stop, see)
        self.drained = self.progress.last is not None and self.progress.last.drained

    def _stream(self, stop: threading.Event, see: Callable[[], None]) -> None:
        bad = self._keep_bad_records()
        try:
            self._rank(stop, see, bad)
            ends = self.job.trigger.every is None
            while bad is not None and ends and bad.isActive and not _stopped(stop):
                see()
            failure = None if bad is None else bad.exception()
            if failure is not None and not stop.is_set():
                raise failure
        finally:
            if bad is not None:
                _stop(bad)

    def _keep_bad_records(self) -> StreamingQuery | None:
        """Write the records that cannot be parsed where the job wants them."""
        path = self.job.source.bad_records
        if path is None:
            return None
        writer: Any = sources.bad_records(self.spark, self.job).writeStream.format("parquet")
        writer = writer.option("path", self.job.place(path))
        writer = writer.queryName(self.job.masked(f"{self.job.title} bad"))
        writer = writer.option("checkpointLocation", f"{self.checkpoint.rstrip('/')}/skyband/bad")
        query: StreamingQuery = sinks.triggered(writer, self.job).start()
        return query

    def _rank(
        self, stop: threading.Event, see: Callable[[], None], bad: StreamingQuery | None
    ) -> None:
        """Run the stream of ranked windows; it ends where ``bad``, beside it, fails.

        Spark gives a Python worker ten seconds to start, which a busy machine may pass: the stream
        is then started again, from its checkpoint.
        """
        for start in range(1, STARTS + 1):
            failure = self._rank_once(stop, see, bad)
            if failure is None or stop.is_set():
                return
            if LATE_WORKER not in str(failure) or start == STARTS:
                raise failure
            LOG.warning("Python did not start in time, starting the stream again")

    def _rank_once(
        self, stop: threading.Event, see: Callable[[], None], bad: StreamingQuery | None
    ) -> Exception | None:
        """Run the stream until it ends; what it failed with, if it did."""
        leaders = observed(self.leaders, BOARD, self.query, self._served)
        if self._served is not None and self._recent is None:  # reports are large
            self._recent = self.spark.conf.get(_RECENT)
            self.spark.conf.set(_RECENT, _FEW_REPORTS)
        query = sinks.start(leaders, self.job, self.checkpoint, self._writers[self.job.sink.title])
        try:
            while query.isActive and not _stopped(stop):
                self._collect(query)
                see()
                failure = None if bad is None else bad.exception()
                if failure is not None:
                    raise failure
        finally:
            _stop(query)
        self._collect(query, ended=True)
        see()
        return query.exception()

    def _collect(self, query: StreamingQuery, ended: bool = False) -> None:
        """Add up the batches that were reported since the last call.

        A report may hold many answers: the longer it takes to read, the longer the next is left.
        """
        began = time.monotonic()
        if began < self._next_look and not ended:
            return
        missed = self.progress.missed
        self.progress.collect(self._reports.read(query, self.progress.last))
        self._next_look = began + _PATIENT * (time.monotonic() - began)
        if self.progress.missed > missed:
            LOG.warning(
                "%d batches were over before they were looked at: their counts are missing",
                self.progress.missed - missed,
            )

    def _batch(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Write everything at once, in a thread of its own, so that it can be interrupted."""
        board = Observation(BOARD)
        leaders = observed(self.leaders, board, self.query, self._served)
        failed: list[Exception] = []
        began = time.monotonic()

        def write() -> None:
            try:
                self._write(leaders)
                self._write_bad_records()
            except Exception as error:
                failed.append(error)

        writing = threading.Thread(target=write, name="skyband batch", daemon=True)
        writing.start()
        while writing.is_alive() and not _stopped(stop, 0):
            writing.join(_POLL)
            see()
        if stop.is_set():
            self.spark.interruptAll()
            writing.join()
            return
        if failed:
            raise failed[0]
        answered = dict(board.get)
        counts = read_counts(self._read.get)
        counts |= {name: answered[name] for name in ("windows", "ranked")}
        if self.job.source.has_records:
            counts["bad"] = self._records.get["bad"]
        seconds = time.monotonic() - began
        batch = Batch(0, seconds=seconds, **counts)
        batch.leaders, batch.answers = leaders_of(answered), answers_of(answered)
        self.progress.add(batch)
        see()

    def _write(self, leaders: DataFrame) -> None:
        """Write all ranked windows into each sink; one that fails holds up no other."""
        jobs = self.job.each_sink
        if len(jobs) == 1 and sinks.kind_of(jobs[0].sink).reports_counts:
            sinks.write(leaders, jobs[0], self._writers[jobs[0].sink.title])
            return
        failed: list[Exception] = []
        leaders.persist()
        leaders.write.format("noop").mode("overwrite").save()  # counts, whatever the sinks do
        for each in jobs:
            try:
                sinks.write(leaders, each, self._writers[each.sink.title])
            except Exception as error:
                failed.append(error)
        leaders.unpersist()
        if failed:
            raise failed[0]

    def _write_bad_records(self) -> None:
        path = self.job.source.bad_records
        if path is not None:
            sources.bad_records(self.spark, self.job).write.parquet(self.job.place(path))

    @contextmanager
    def _reworded(self) -> Iterator[None]:
        with masking(self.job.variables):
            try:
                yield
            except (*GONE, *FAILURES) as error:
                if java_process.is_gone(error):
                    raise java_process.gone(self._resumes) from error
                if failures.is_of_kafka(error):
                    brokers.refuse_lost(self.job)
                raise failures.reworded(error, self.log, self.job.query.score_field) from error


def _stopped(stop: threading.Event, seconds: float = _POLL) -> bool:
    """Wait for a request to stop; it ends all waiting for servers as well."""
    if stop.wait(seconds):
        STOPPING.set()
    return stop.is_set()


def _stop(query: StreamingQuery) -> None:
    """Stop a stream, in a thread of its own: Java answers when the batch under way has ended.

    So whoever waits may be interrupted, and can still talk to Java.
    """
    if not query.isActive:
        return
    failed: list[Exception] = []

    def stop() -> None:
        try:
            query.stop()
        except Exception as error:
            failed.append(error)

    stopping = threading.Thread(target=stop, name="skyband stop", daemon=True)
    stopping.start()
    while stopping.is_alive():
        stopping.join(_POLL)
    if failed:
        raise failed[0]


class Explained(NamedTuple):
    """A job that was checked against its columns, and not run."""

    plan: Plan
    leaders: DataFrame
    columns: str
    notes: list[str]
    files: str | None


def explained(spark: SparkSession, job: Job) -> Explained:
    """Check a job as a run would, and leave nothing behind."""
    notes: list[str] = list(job.notes)
    try:
        rows = sources.rows(spark, job)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema.fields)
        source = sources.parquet_source(job, rows)
        with _noted(job, notes):
            rows, plan = _resolved(job, rows)
        files = pipeline.reading(rows, plan, source)
        leaders = pipeline.answer(rows, plan, files=files)
        return Explained(plan, leaders, columns, notes, None if files is None else files.words)
    except FAILURES as error:
        reworded = failures.reworded(error, None, job.query.score_field)
        raise masked_error(reworded, job.variables) from (None if job.variables else error)


def job_lines(job: Job, plan: Plan, files: str | None = None) -> explain.Lines:
    """The plan of a job: that of its query, where results go, and when it runs.

    ``files`` says who reads them.
    """
    return [
        *explain.explain_lines(plan),
        *([] if files is None else [("files", files)]),
        *(("sink", job.masked(sinks.promise(each))) for each in job.each_sink),
        ("run", _when(job)),
    ]


def _when(job: Job) -> str:
    if job.batch:
        return "a batch: everything is read once, every window is answered"
    often = "over what is there now, then it ends"
    if job.trigger.every is not None:
        often = f"every {job.trigger.every} until it is stopped"
    drain = "; then it is drained: every window is answered" if job.drain else ""
    if job.checkpoint is None:
        return f"{often}{drain}; no checkpoint: a new run begins anew"
    return job.masked(f"{often}{drain}; checkpoint {job.place(job.checkpoint)}")


def _resolved(
    job: Job, rows: DataFrame, drain: str | None = None, checkpoint: str | None = None
) -> tuple[DataFrame, Plan]:
    """The rows of a job's query, and its plan; ``drain`` is for streams that can be drained."""
    safe = partial(safe_score, columns=rows.columns)
    options = job.query.options(safe)
    drain = drain if options.drainable else None
    options = replace(options, drain=drain, checkpoint=checkpoint)
    rows, options = derived(rows, options, lambda text, option: safe(text, option=option))
    return rows, job.family.resolve(rows, options)


@contextmanager
def _noted(job: Job, notes: list[str]) -> Iterator[None]:
    """Keep warnings for people instead of printing where in the code they arose."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [job.masked(str(warning.message)) for warning in caught]
