"""A job at work: its session, its query, its sink, and how it is doing."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from skyband.spark import draining
from skyband.spark.expressions import safe_score
from skyband.spark.families.dominating.answer import answer_dominating
from skyband.spark.families.dominating.plan import DominatingQuestion, dominating_question
from skyband.spark.families.incomplete.answer import answer_incomplete
from skyband.spark.families.incomplete.plan import IncompleteQuestion, incomplete_question
from skyband.spark.families.top_k import answer
from skyband.spark.families.totals.answer import answer_totals
from skyband.spark.families.totals.plan import TotalsQuestion, totals_question
from skyband.spark.families.workload.answer import answer_shared
from skyband.spark.families.workload.answer import checked as checked_workload
from skyband.spark.families.workload.plan import QUERY, SharedAsked, SharedQuestion
from skyband.spark.jobs import checkpoint as manifest
from skyband.spark.jobs import failures, sinks, sources
from skyband.spark.jobs import progress as health
from skyband.spark.jobs.file import DominatingJob, IncompleteJob, Job, SharedJob, TotalsJob
from skyband.spark.options import Asked
from skyband.spark.plan import Question, question
from skyband.spark.sessions import FAILURES, SETTINGS, log_file, session
from skyband.spark.shards import PARTITIONS
from skyband.workload.queries import Workload

_POLL = 0.2  # seconds
_ROWS, _COLUMNS, _LETTERS = 40, 6, 40  # of a leaderboard: kept columns, letters of a text


@contextmanager
def opened(job: Job) -> Iterator[SparkSession]:
    """The session that is running, or one of the job's own, which ends with the block.

    What Spark had to say is thrown away if all went well.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    spark = _session(job)
    try:
        yield spark
    finally:
        spark.stop()
    log_file().unlink(missing_ok=True)


def _session(job: Job) -> SparkSession:
    asked = job.session
    settings = {name: sources.text(value) for name, value in asked.settings.items()}
    if asked.master is None or not asked.master.startswith("sc://"):
        return session(
            asked.master,
            app=f"skyband {job.title}",
            shuffle_partitions=asked.shuffle_partitions,
            memory=asked.memory,
            settings=settings,
        )
    try:
        spark: SparkSession = SparkSession.builder.remote(asked.master).getOrCreate()
        if asked.shuffle_partitions is not None:
            settings[PARTITIONS] = str(asked.shuffle_partitions)
        for name, value in {**SETTINGS, **settings}.items():
            if name.startswith("spark.sql.") and spark.conf.isModifiable(name):
                spark.conf.set(name, value)
    except FAILURES as error:
        raise failures.reworded(error, None) from None
    return spark


class Run:
    """One run of a job: checked, claimed, started, watched, stopped.

    ``notes`` are warnings for people; ``health`` is kept up to date while the run goes on.
    """

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self.notes: list[str] = []
        self.health = health.Health()
        self.drained = False
        self._own = job.checkpoint is None and not job.batch
        self.checkpoint = (
            tempfile.mkdtemp(prefix="skyband-checkpoint-")
            if self._own
            else job.place(job.checkpoint or "")
        )
        self.log = log_file() if log_file().exists() else None
        self._leaders: DataFrame | None = None
        self._partitions: str | None = None  # the session's own
        self._read = Observation("skyband read")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        if self._partitions is not None:
            with suppress(*FAILURES):  # it may be gone
                self.spark.conf.set(PARTITIONS, self._partitions)

    @property
    def drain(self) -> str:
        """The directory in which the stream is told to end."""
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
            if not self.job.batch:
                held = manifest.read(self.spark, self.checkpoint)
                if held is None:
                    sinks.check_new(self.spark, self.job)
                self._adopt(held)
            drain, checkpoint = (None, None) if self.job.batch else (self.drain, self.checkpoint)
            with _noted(self.notes):
                checked = _checked(self.job, rows, drain, checkpoint)
            self._leaders = _answer(rows, checked, self._read if self.job.batch else None)
            if not self.job.batch:
                manifest.claim(self._leaders, self.checkpoint)

    def _adopt(self, held: dict[str, Any] | None) -> None:
        """Shuffle partitions are frozen into a checkpoint: go on with its own."""
        if held is not None and self.job.session.shuffle_partitions is None:
            self._partitions = self.spark.conf.get(PARTITIONS)
            self.spark.conf.set(PARTITIONS, str(held["shuffle_partitions"]))

    def go(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Run until the job ends or ``stop`` is set; ``see`` is called again and again."""
        with self._reworded():
            if stop.is_set():
                return
            if self.job.batch:
                self._batch(stop, see)
                return
            told = self.job.drain and draining.drained(self.spark, self.drain)
            self._stream(stop, see)
            if self.job.drain and not told and not stop.is_set():
                draining.drain(self.spark, self.drain)
                self._stream(stop, see)
            self.drained = self.health.last is not None and self.health.last.drained

    def _stream(self, stop: threading.Event, see: Callable[[], None]) -> None:
        query = sinks.start(
            observed(self.leaders, health.BOARD, self.query), self.job, self.checkpoint
        )
        try:
            while query.isActive and not stop.wait(_POLL):
                self._look(query)
                see()
        finally:
            if query.isActive:
                query.stop()
        self._look(query, ended=True)
        see()
        failure = query.exception()
        if failure is not None and not stop.is_set():
            raise failure

    def _look(self, query: StreamingQuery, ended: bool = False) -> None:
        """Take in the batches that were reported since the last look."""
        newest = query.lastProgress
        if newest is None:
            return
        known = self.health.last
        if not ended and known is not None and newest["batchId"] == known.number:
            return
        for progress in query.recentProgress:
            batch = health.batch_of(progress)
            if batch is not None:
                self.health.add(batch)

    def _batch(self, stop: threading.Event, see: Callable[[], None]) -> None:
        """Write everything at once, in a thread of its own, so that it can be interrupted."""
        board = Observation(health.BOARD)
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
        found = board.get
        counts = {**self._read.get, **{n: found[n] for n in ("windows", "ranked")}}
        seconds = time.monotonic() - began
        self.health.add(health.Batch(0, seconds, leaders=health.leaders_of(found), **counts))
        see()

    @contextmanager
    def _reworded(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise failures.reworded(error, self.log) from error


class Explained(NamedTuple):
    """A job that was checked against its columns, and not run."""

    question: Question | SharedQuestion
    leaders: DataFrame
    columns: str
    notes: list[str]


def explained(spark: SparkSession, job: Job) -> Explained:
    """Check a job as a run would, and leave nothing behind."""
    notes: list[str] = []
    try:
        rows = sources.rows(spark, job)
        with _noted(notes):
            checked = _checked(job, rows)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema.fields)
        return Explained(checked, _answer(rows, checked), columns, notes)
    except FAILURES as error:
        raise failures.reworded(error, None) from error


def _checked(
    job: Job, rows: DataFrame, drain: str | None = None, checkpoint: str | None = None
) -> Question | SharedQuestion:
    """The query of a job, its scores checked against the columns.

    ``drain`` is for streams that can be drained.
    """
    if isinstance(job, DominatingJob):
        found = job.query.asked(lambda name: safe_score(name, rows.columns), drain)
        return dominating_question(rows, found)
    if isinstance(job, IncompleteJob):
        objects = job.query.asked(lambda value: safe_score(value, rows.columns))
        drain = drain if objects.drainable else None
        return incomplete_question(rows, replace(objects, drain=drain))
    if isinstance(job, TotalsJob):
        totals = job.query.asked(lambda value: safe_score(value, rows.columns), drain)
        return totals_question(rows, totals)
    if not isinstance(job, SharedJob):
        query = job.query.model_dump()
        asked = Asked(**{**query, "by": safe_score(query["by"], rows.columns)})
        return question(rows, replace(asked, drain=drain) if asked.drainable else asked)
    by = {name: safe_score(score, rows.columns) for name, score in job.queries.by.items()}
    shared = SharedAsked(
        Workload(job.queries.queries, by),
        **job.query.model_dump(exclude={"workload", "by"}),
        checkpoint=checkpoint,
    )
    drainable = shared.like_one(shared.workload.scores).drainable
    return checked_workload(rows, replace(shared, drain=drain) if drainable else shared)


def _answer(
    rows: DataFrame, checked: Question | SharedQuestion, counts: Observation | None = None
) -> DataFrame:
    if isinstance(checked, SharedQuestion):
        return answer_shared(rows, checked, counts)
    if isinstance(checked, DominatingQuestion):
        return answer_dominating(rows, checked, counts)
    if isinstance(checked, IncompleteQuestion):
        return answer_incomplete(rows, checked, counts)
    if isinstance(checked, TotalsQuestion):
        return answer_totals(rows, checked, counts)
    return answer(rows, checked, counts)


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Keep warnings for people instead of printing where in the code they arose."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    notes += [str(warning.message) for warning in told]


def observed(leaders: DataFrame, name: Any, query: dict[str, Any]) -> DataFrame:
    """Have a run report the best rows of its newest window, whatever the sink.

    They come with the progress of each batch, as JSON: nothing is read twice.
    """
    end, rank = F.col("window.end"), F.col("rank")
    if query["emit"] == "changes":
        rank = F.coalesce(rank, F.lit(1 << 20) + F.col("previous_rank"))
    shown = F.struct(*(_cell(leaders, name) for name in _shown(leaders, query)))
    best = F.max_by(shown, F.struct(end, *_tag(query), -rank, "score"), _ROWS)
    if "workload" in query:  # of one query only
        first = best[0][QUERY]
        best = F.filter(best, lambda row: row[QUERY] == first)
    firsts = F.count_if(F.col("rank") == 1)  # one in each whole ranking
    return leaders.observe(
        name,
        F.to_json(best, {"ignoreNullFields": "false"}).alias("leaders"),
        F.count(F.lit(1)).alias("ranked"),
        (firsts if query["emit"] == "all" else F.count_if(F.lit(False))).alias("windows"),
    )


def _tag(query: dict[str, Any]) -> list[str]:
    """The column that tells the queries of a workload apart."""
    return [QUERY] if "workload" in query else []


def _shown(leaders: DataFrame, query: dict[str, Any]) -> list[str]:
    """The columns that a leaderboard has room for."""
    fixed = ["window", *_tag(query), *query["keys"], "rank", "score"]
    fixed += ["change", "previous_rank"] if query["emit"] == "changes" else []
    plain = [
        field.name
        for field in leaders.schema.fields
        if field.name not in fixed
        and not field.dataType.simpleString().startswith(("array", "map", "struct", "binary"))
    ]
    return [*fixed, *plain[:_COLUMNS]]


def _cell(leaders: DataFrame, name: str) -> Any:
    column = F.col("`" + name.replace("`", "``") + "`")
    if leaders.schema[name].dataType.simpleString() == "string":
        column = F.substring(column, 1, _LETTERS)
    return column.alias(name)
