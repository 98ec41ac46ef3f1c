"""A run of a job: its session, its query, its sink, and its progress."""

from __future__ import annotations

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

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from skyband.spark import draining, explain, pipeline
from skyband.spark.columns import quoted
from skyband.spark.derive import derived
from skyband.spark.expressions import safe_score
from skyband.spark.families import family_of
from skyband.spark.jobs import checkpoint as manifests
from skyband.spark.jobs import failures, sinks, sources
from skyband.spark.jobs.file import Job
from skyband.spark.jobs.progress import BOARD, Batch, Progress, leaders_of, read_counts
from skyband.spark.plan import PARTITIONS, Plan
from skyband.spark.sessions import FAILURES, SETTINGS, connected, log_file, session

_POLL = 0.2  # seconds
_ROWS, _COLUMNS, _LETTERS = 40, 6, 40  # of a leaderboard: kept columns, letters of a text


@contextmanager
def opened(job: Job) -> Iterator[SparkSession]:
    """The active session, or a new one for the job, which ends with the block.

    The log of a new session is deleted after success.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    spark = _session(job)
    try:
        yield spark
    finally:
        spark.stop()
    log_file().unlink(missing_ok=True)


def _session(job: Job) -> SparkSession:
    wanted = job.session
    app, settings = f"skyband {job.title}", sources.option_texts(wanted.settings)
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

    ``notes`` are warnings for people; ``progress`` is kept up to date while the run goes on.
    """

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self.notes: list[str] = []
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
        self._partitions: str | None = None  # of the session, while the run has others
        self._read = Observation("skyband read")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        if self._partitions is not None:
            with suppress(*FAILURES):  # it may be gone
                self.spark.conf.set(PARTITIONS, self._partitions)

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
    def query(self) -> dict[str, Any]:
        """The description of the query."""
        return dict(self.leaders.schema["rank"].metadata["skyband"])

    def prepare(self) -> None:
        """Check the job against its columns, and its checkpoint against the job."""
        with self._reworded():
            rows = sources.rows(self.spark, self.job)
            if self.job.batch:
                self._answer(rows)
                return
            manifest = manifests.read(self.spark, self.checkpoint)
            if manifest is None:
                sinks.check_new(self.spark, self.job)
            elif self.job.session.shuffle_partitions is None:  # they are frozen into a checkpoint
                self._partitions = self.spark.conf.get(PARTITIONS)
                self.spark.conf.set(PARTITIONS, str(manifest["shuffle_partitions"]))
            self._answer(rows, self.drain, self.checkpoint)
            manifests.claim(self.leaders, self.checkpoint)
            sinks.check_type(self.leaders, self.job)

    def _answer(self, rows: DataFrame, *places: str) -> None:
        with _noted(self.notes):
            rows, plan = _resolved(self.job, rows, *places)
        self._leaders = pipeline.answer(rows, plan, self._read if self.job.batch else None)

    def go(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Run until the job ends or ``stop`` is set; call ``see`` again and again meanwhile."""
        with self._reworded():
            if stop.is_set():
                return
            if self.job.batch:
                self._batch(stop, see)
                return
            marked = self.job.drain and draining.drained(self.spark, self.drain)
            self._stream(stop, see)
            if self.job.drain and not marked and not stop.is_set():
                draining.drain(self.spark, self.drain)
                self._stream(stop, see)
            self.drained = self.progress.last is not None and self.progress.last.drained

    def _stream(self, stop: threading.Event, see: Callable[[], None]) -> None:
        leaders = observed(self.leaders, BOARD, self.query)
        query = sinks.start(leaders, self.job, self.checkpoint)
        try:
            while query.isActive and not stop.wait(_POLL):
                self._collect(query)
                see()
        finally:
            if query.isActive:
                query.stop()
        self._collect(query, ended=True)
        see()
        failure = query.exception()
        if failure is not None and not stop.is_set():
            raise failure

    def _collect(self, query: StreamingQuery, ended: bool = False) -> None:
        """Add up the batches that were reported since the last call."""
        newest = query.lastProgress
        if newest is None:
            return
        last = self.progress.last
        if not ended and last is not None and newest["batchId"] == last.number:
            return
        self.progress.collect(query.recentProgress)

    def _batch(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Write everything at once, in a thread of its own, so that it can be interrupted."""
        board = Observation(BOARD)
        leaders = observed(self.leaders, board, self.query)
        failed: list[Exception] = []
        began = time.monotonic()

        def write() -> None:
            try:
                sinks.write(leaders, self.job)
            except Exception as error:
                failed.append(error)

        writing = threading.Thread(target=write, name="skyband batch", daemon=True)
        writing.start()
        while writing.is_alive() and not stop.is_set():
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
        seconds = time.monotonic() - began
        self.progress.add(Batch(0, leaders=leaders_of(answered), seconds=seconds, **counts))
        see()

    @contextmanager
    def _reworded(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise failures.reworded(error, self.log, self.job.query.score_field) from error


class Explained(NamedTuple):
    """A job that was checked against its columns, and not run."""

    plan: Plan
    leaders: DataFrame
    columns: str
    notes: list[str]


def explained(spark: SparkSession, job: Job) -> Explained:
    """Check a job as a run would, and leave nothing behind."""
    notes: list[str] = []
    try:
        rows = sources.rows(spark, job)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema.fields)
        with _noted(notes):
            rows, plan = _resolved(job, rows)
        return Explained(plan, pipeline.answer(rows, plan), columns, notes)
    except FAILURES as error:
        raise failures.reworded(error, None, job.query.score_field) from error


def job_lines(job: Job, plan: Plan) -> explain.Lines:
    """The plan of a job: that of its query, where results go, and when it runs."""
    return [*explain.explain_lines(plan), ("sink", sinks.promise(job)), ("run", _when(job))]


def _when(job: Job) -> str:
    if job.batch:
        return "a batch: everything is read once, every window is answered"
    often = "over what is there now, then it ends"
    if job.trigger.every is not None:
        often = f"every {job.trigger.every} until it is stopped"
    drain = "; then it is drained: every window is answered" if job.drain else ""
    if job.checkpoint is None:
        return f"{often}{drain}; no checkpoint: a new run begins anew"
    return f"{often}{drain}; checkpoint {job.place(job.checkpoint)}"


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
def _noted(notes: list[str]) -> Iterator[None]:
    """Keep warnings for people instead of printing where in the code they arose."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [str(warning.message) for warning in caught]


def observed(leaders: DataFrame, name: Any, query: dict[str, Any]) -> DataFrame:
    """Have a run report the best rows of its newest window, whatever the sink.

    They come with the progress of each batch, as JSON: nothing is read twice.
    """
    end, rank = F.col("window.end"), F.col("rank")
    if query["emit"] == "changes":
        rank = F.coalesce(rank, F.lit(1 << 20) + F.col("previous_rank"))
    queries = family_of(query).query_columns
    shown = F.struct(*(_cell(leaders, name) for name in _shown(leaders, query)))
    best = F.max_by(shown, F.struct(end, *queries, -rank, "score"), _ROWS)
    for column in queries:
        best = _of_first(best, column)
    firsts = F.count_if(F.col("rank") == 1)  # one in each whole ranking, unless rows share ranks
    if query["emit"] == "updates":
        firsts = F.count_if((F.col("rank") == 1) & F.col("final"))
    whole = query["emit"] != "changes" and "rank_by" not in query
    return leaders.observe(
        name,
        F.to_json(best, {"ignoreNullFields": "false"}).alias("leaders"),
        F.count(F.lit(1)).alias("ranked"),
        (firsts if whole else F.count_if(F.lit(False))).alias("windows"),
    )


def _of_first(best: Column, name: str) -> Column:
    """The rows that agree with the first in a column: those of one query of several."""
    first = best[0][name]
    return F.filter(best, lambda row: row[name] == first)


def _shown(leaders: DataFrame, query: dict[str, Any]) -> list[str]:
    """The columns that a leaderboard has room for."""
    fixed = ["window", *family_of(query).query_columns, *query["keys"], "rank", "score"]
    fixed += {"changes": ["change", "previous_rank"], "updates": ["revision", "final"]}.get(
        query["emit"], []
    )
    plain = [
        field.name
        for field in leaders.schema.fields
        if field.name not in fixed
        and not field.dataType.simpleString().startswith(("array", "map", "struct", "binary"))
    ]
    return [*fixed, *plain[:_COLUMNS]]


def _cell(leaders: DataFrame, name: str) -> Any:
    column = F.col(quoted(name))
    if leaders.schema[name].dataType.simpleString() == "string":
        column = F.substring(column, 1, _LETTERS)
    return column.alias(name)
