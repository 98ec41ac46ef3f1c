"""Where a job's ranked windows go: the ``sink`` of a job file, and a table of kinds of sinks.

A new kind is an entry in :data:`SINKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from skyband.durations import microseconds
from skyband.errors import QueryError, ServerDownError
from skyband.spark.columns import quoted
from skyband.spark.jobs.queries import Part
from skyband.spark.jobs.sources import FILE_FORMATS, Value, option_texts
from skyband.spark.sinks import kafka
from skyband.spark.sinks.ranked_batch import BatchWriter

if TYPE_CHECKING:
    from skyband.spark.jobs.file import Job


class Sink(Part):
    """Where ranked windows go; one of several is known by its name, which is its format's."""

    name: str | None = Field(default=None, description="a name")
    format: str = Field(description="console, files, or a format that Spark writes")
    path: str | None = Field(default=None, description="a directory")
    file_format: str | None = Field(default=None, description="parquet, csv, json or orc")
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")

    @property
    def title(self) -> str:
        """The name of the sink, or of its format."""
        return self.name or self.format.lower()

    @property
    def files(self) -> str:
        """The format of the files that are written, if any are."""
        kind = self.format.lower()
        return self.file_format or ("parquet" if kind == "files" else kind)


def directory_per_batch(job: Job) -> BatchWriter:
    """A writer that gives each batch a directory of its own.

    A batch that is run again, after a crash, replaces what it wrote before: every row once, in
    files that anything can read.
    """
    place = job.place(job.sink.path or "").rstrip("/")
    # plain texts: over Spark Connect the writer is sent to the server
    format, options = job.sink.files, option_texts(job.sink.options)

    def write(rows: DataFrame, batch: int) -> None:
        writer = rows.write.format(format).options(**options)
        writer.mode("overwrite").save(f"{place}/batch={batch}")

    return write


def _format_options(job: Job) -> dict[str, str]:
    path = {} if job.sink.path is None else {"path": job.place(job.sink.path)}
    return {**option_texts(job.sink.options), **path}


def _stream_format(writer: Any, job: Job) -> Any:
    return writer.format(job.sink.format).options(**_format_options(job))


def _write_format(rows: DataFrame, job: Job) -> None:
    rows.write.format(job.sink.format).options(**_format_options(job)).mode("error").save()


def _unnested(leaders: DataFrame, job: Job) -> DataFrame:
    """Make two columns of the window for CSV, which has no structures."""
    if job.sink.files.lower() != "csv":
        return leaders
    bounds = [F.col(f"window.{side}").alias(f"window_{side}") for side in ("start", "end")]
    at = leaders.columns.index("window")
    columns = [F.col(quoted(name)) for name in leaders.columns]
    return leaders.select(*columns[:at], *bounds, *columns[at + 1 :])


def _check_console(sink: Sink) -> None:
    if sink.path is not None or sink.options:
        raise QueryError(
            "sink.format is console with a path or options",
            "console by itself: it shows the leaderboard",
            "write format: parquet, or leave them out",
        )


MakeWriter = Callable[[DataFrame, "Job", str | None], BatchWriter]
"""Makes a writer of batches of ranked windows, from these, the job and its checkpoint."""


def _postgres(leaders: DataFrame, job: Job, checkpoint: str | None) -> BatchWriter:
    from skyband.spark.sinks import to_postgres

    options = {"name": job.title, **option_texts(job.sink.options)}
    return to_postgres(leaders, checkpoint=checkpoint, **options)


def _redis(leaders: DataFrame, job: Job, checkpoint: str | None) -> BatchWriter:
    from skyband.spark.sinks import to_redis

    options: dict[str, Any] = option_texts(job.sink.options)
    changes = job.sink.options.get("changes", 0)
    if isinstance(changes, bool) or not isinstance(changes, int) or changes < 0:
        raise QueryError(f"sink.options.changes is {changes!r}", "how many to keep, such as 1000")
    return to_redis(leaders, checkpoint=checkpoint, **{**options, "changes": changes})


def _delta(leaders: DataFrame, job: Job, checkpoint: str | None) -> BatchWriter:
    from skyband.spark.sinks import to_delta

    storage = option_texts(job.sink.options)
    patience = {"patience": storage.pop("patience")} if "patience" in storage else {}
    place = job.place(job.sink.path or "")
    return to_delta(
        leaders, place, checkpoint=checkpoint, storage_options=storage or None, **patience
    )


def _check_no_path(sink: Sink) -> None:
    if sink.path is not None:
        raise QueryError(
            f"sink.path is given for {sink.format}",
            "options that say where the server is",
            "write options: {url: ...}",
        )


@dataclass(frozen=True)
class SinkKind:
    """What a sink needs, what it promises, and how ranked rows get there.

    ``formats`` are as a job file names them; a kind without any takes all that no other does.
    ``promise`` is what ``explain`` shows: it may name the ``{format}``, that of the ``{files}``,
    and the ``{place}``. ``reshape`` changes ranked rows into what the sink takes; ``stream`` sets
    the writer of a stream, ``write`` writes a batch; a kind that takes whole batches has a
    ``writer`` instead. A sink that ``needs_checkpoint`` keeps what it was given: a run has to go on
    where the last one was. One that ``reports_counts`` lets Spark say what was counted of the rows
    of a batch while they are written, which writers of Spark's first interface do not. Executors
    need not see what the ``driver_writes``. Where ``other_options`` are given, there are no more
    than these and the ``needed_options``.
    """

    formats: tuple[str, ...]
    promise: str
    needs_path: bool = False
    takes_file_format: bool = False
    needs_checkpoint: bool = True
    reports_counts: bool = True
    driver_writes: bool = False
    check: Callable[[Sink], None] = lambda sink: None
    reshape: Callable[[DataFrame, Job], DataFrame] = lambda leaders, job: leaders
    stream: Callable[[Any, Job], Any] = _stream_format
    write: Callable[[DataFrame, Job], None] = _write_format
    writer: MakeWriter | None = None
    needed_options: tuple[str, ...] = ()
    other_options: tuple[str, ...] | None = None


SINKS = (
    SinkKind(
        ("console",),
        "the leaderboard in the terminal only",
        needs_checkpoint=False,
        check=_check_console,
        stream=lambda writer, job: writer.format("noop"),
        write=lambda rows, job: rows.write.format("noop").mode("overwrite").save(),
    ),
    SinkKind(
        ("files",),
        "{files} files{place}, a directory per batch: each row exactly once",
        needs_path=True,
        takes_file_format=True,
        reshape=_unnested,
        writer=lambda leaders, job, checkpoint: directory_per_batch(job),
    ),
    SinkKind(
        FILE_FORMATS,
        "{files} files{place}: each row exactly once",
        needs_path=True,
        reshape=_unnested,
    ),
    SinkKind(
        ("kafka",),
        "a topic of Kafka: at least once; repeats have the same key",
        check=_check_no_path,
        reshape=lambda leaders, job: kafka.records(leaders),
        needed_options=(kafka.SERVERS, "topic"),
        reports_counts=False,
    ),
    SinkKind(
        ("postgres",),
        "a table of PostgreSQL: each row exactly once",
        check=_check_no_path,
        writer=_postgres,
        driver_writes=True,
        needed_options=("url", "table"),
        other_options=("name", "patience"),
    ),
    SinkKind(
        ("redis",),
        "boards in Redis: the present ranking of each key, replaced at once",
        check=_check_no_path,
        writer=_redis,
        driver_writes=True,
        needed_options=("url", "board"),
        other_options=("changes", "expire", "patience"),
    ),
    SinkKind(
        ("delta",),
        "a Delta table{place}: each row exactly once",
        needs_path=True,
        writer=_delta,
        driver_writes=True,
    ),
    SinkKind(
        (),
        "{format}{place}: at least once, unless that sink can do better",
        reports_counts=False,
    ),
)


_TYPED_FILES = ("parquet", "orc")  # formats that hold the types of their columns


def kind_of(sink: Sink) -> SinkKind:
    """The first entry of the table that a sink fits."""
    name = sink.format.lower()
    return next(kind for kind in SINKS if name in kind.formats or not kind.formats)


def check(sink: Sink) -> None:
    """Refuse what the kind of sink does not take, or lacks."""
    kind, form = kind_of(sink), sink.file_format
    if kind.needs_path and sink.path is None:
        raise QueryError(f"sink.path is missing for {sink.format}", "a directory for the results")
    kind.check(sink)
    _check_options(sink, kind)
    if form is not None and not kind.takes_file_format:
        raise QueryError(
            f"sink.file_format is given for {sink.format}", "format: files, or no file_format"
        )
    if form is not None and form.lower() not in FILE_FORMATS:
        raise QueryError(f"sink.file_format is {form!r}", f"one of {', '.join(FILE_FORMATS)}")


def _check_options(sink: Sink, kind: SinkKind) -> None:
    missing = [name for name in kind.needed_options if name not in sink.options]
    if missing:
        raise QueryError(
            f"sink.options.{missing[0]} is missing for {sink.format}",
            f"options: {', '.join(kind.needed_options)}",
        )
    if kind.other_options is None:
        return
    known = (*kind.needed_options, *kind.other_options)
    unknown = [name for name in sink.options if name not in known]
    if unknown:
        raise QueryError(
            f"sink.options has {unknown[0]!r} for {sink.format}", f"one of {', '.join(known)}"
        )


def check_new(spark: SparkSession, job: Job) -> None:
    """Refuse a new checkpoint for a sink that another one has filled.

    Spark's file sink passes over batches whose numbers it has seen, and directories by batch would
    be replaced one by one: either way two streams would be mixed.
    """
    if job.sink.path is None:
        return
    place = job.place(job.sink.path).rstrip("/")
    for part in ("_spark_metadata", "batch=*"):
        try:
            spark.read.text(f"{place}/{part}").schema  # noqa: B018  # Spark Connect looks only then
        except AnalysisException:
            continue
        raise QueryError(
            f"sink.path {place} holds what a stream with another checkpoint wrote",
            "a sink of its own for a new checkpoint",
            "name another sink.path, or go on with the old checkpoint",
        )


def check_layout(spark: SparkSession, job: Job, is_one_of_several: bool) -> None:
    """Refuse files of the other layout: a log of Spark's, and directories by batch.

    Readers of a directory with a log see what is in the log alone, and Spark's own sink would not
    know of the batches in directories.
    """
    kind = kind_of(job.sink)
    by_batch = kind.formats == ("files",)
    if job.sink.path is None or not (by_batch or kind.formats == FILE_FORMATS):
        return
    by_batch = by_batch or is_one_of_several
    place = job.place(job.sink.path).rstrip("/")
    try:
        files = spark.read.text(f"{place}/{'_spark_metadata' if by_batch else 'batch=*'}")
        files.schema  # noqa: B018  # Spark Connect looks only then
    except AnalysisException:
        return
    layouts = ["files of Spark's own sink, with their log", "a directory per batch"]
    wanted, there = reversed(layouts) if by_batch else layouts
    raise QueryError(
        f"sink.path {place} holds {there}, and would get {wanted}: readers would miss rows",
        "one layout in a directory: format: files, and files among sinks:, have one per batch",
        "name another sink.path, or write the sink as it was: the checkpoint goes on",
    )


def check_type(leaders: DataFrame, job: Job) -> None:
    """Refuse scores of another type than those in files that the sink holds already.

    Whoever reads such files together would fail, or get neither type.
    """
    if job.sink.path is None or job.sink.files.lower() not in _TYPED_FILES:
        return
    place = job.place(job.sink.path).rstrip("/")
    try:
        written = leaders.sparkSession.read.format(job.sink.files).load(place).schema
    except AnalysisException:
        return  # nothing was written yet
    now = leaders.schema["score"].dataType
    if "score" in written.names and written["score"].dataType != now:
        was = written["score"].dataType.simpleString()
        raise QueryError(
            f"score is {now.simpleString()}, in sink.path {place} it is {was}",
            "one type of scores in a sink",
            "name another sink.path: the checkpoint goes on",
        )


def promise(job: Job) -> str:
    """Where results go, and how often each row gets there."""
    sink = job.sink
    place = "" if sink.path is None else f" in {job.place(sink.path)}"
    return kind_of(sink).promise.format(format=sink.format, files=sink.files, place=place)


def writer(leaders: DataFrame, job: Job, checkpoint: str | None = None) -> BatchWriter | None:
    """What writes batches, if the sink takes whole ones; raises if it cannot work.

    ``checkpoint`` is that of the stream, None for a batch.
    """
    make = kind_of(job.sink).writer
    return None if make is None else make(leaders, job, checkpoint)


def outbox_writer(leaders: DataFrame, job: Job, checkpoint: str, notes: list[str]) -> BatchWriter:
    """What writes the batches of an outbox into one of several sinks.

    A server that is down is noted, and tried again with the first batch: it holds up no other sink.
    Files get a directory per batch: Spark's own file sink counts the batches of a stream alone.
    """
    kind = kind_of(job.sink)
    writers: list[BatchWriter] = []

    def make() -> BatchWriter:
        if kind.formats == FILE_FORMATS:
            return directory_per_batch(job)
        return writer(leaders, job, checkpoint) or _append(job)

    def write_batch(rows: DataFrame, batch: int) -> None:
        if not writers:
            writers.append(make())
        writers[0](kind.reshape(rows, job), batch)

    try:
        writers.append(make())
    except ServerDownError as error:
        down = job.masked(error.found)
        notes.append(f"{down}: what sink {job.sink.title} is to get waits in the outbox")
    return write_batch


def _append(job: Job) -> BatchWriter:
    """A writer of batches into a format of Spark: at least once."""
    if job.sink.format.lower() == "console":
        return lambda rows, batch: None

    def write(rows: DataFrame, batch: int) -> None:
        format = rows.write.format(job.sink.format).options(**_format_options(job))
        format.mode("append").save()

    return write


def start(
    leaders: DataFrame, job: Job, checkpoint: str, writer: BatchWriter | None
) -> StreamingQuery:
    """Start the stream into the job's sink; ``writer`` is what :func:`writer` made for it."""
    rows = leaders if job.sinks else kind_of(job.sink).reshape(leaders, job)
    stream: Any = rows.writeStream.outputMode("append").queryName(job.masked(job.title))
    stream = stream.option("checkpointLocation", checkpoint)
    if writer is None:
        stream = kind_of(job.sink).stream(stream, job)
    else:
        stream = stream.foreachBatch(writer)
    query: StreamingQuery = triggered(stream, job).start()
    return query


def triggered(writer: Any, job: Job) -> Any:
    """A writer of a stream that runs when the job says."""
    if job.trigger.every is None:
        return writer.trigger(availableNow=True)
    milliseconds = max(1, microseconds(job.trigger.every) // 1000)
    return writer.trigger(processingTime=f"{milliseconds} milliseconds")


def write(leaders: DataFrame, job: Job, writer: BatchWriter | None) -> None:
    """Write all ranked windows at once into the job's sink."""
    kind = kind_of(job.sink)
    rows = kind.reshape(leaders, job)
    if writer is None:
        kind.write(rows, job)
    else:
        writer(rows, 0)
