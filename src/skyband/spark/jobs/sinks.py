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
from skyband.errors import QueryError
from skyband.spark.columns import quoted
from skyband.spark.families import family_of
from skyband.spark.jobs.queries import Part
from skyband.spark.jobs.sources import FILE_FORMATS, Value, option_texts
from skyband.spark.state.updates import UPDATE_COLUMNS

if TYPE_CHECKING:
    from skyband.spark.jobs.file import Job


class Sink(Part):
    """Where ranked windows go."""

    format: str = Field(description="console, files, or a format that Spark writes")
    path: str | None = Field(default=None, description="a directory")
    file_format: str | None = Field(default=None, description="parquet, csv, json or orc")
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")

    @property
    def files(self) -> str:
        """The format of the files that are written, if any are."""
        kind = self.format.lower()
        return self.file_format or ("parquet" if kind == "files" else kind)


def directory_per_batch(job: Job) -> Callable[[DataFrame, int], None]:
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


def _keyed(leaders: DataFrame, job: Job) -> DataFrame:
    """Make keys and values of rows, as Kafka takes them, in JSON: a key names a place in a ranking.

    A row that is written twice has the same key both times. Rows that left have no rank, but one
    that they had. Where rows share ranks, all that is known of a row is part of its key.
    """
    query = leaders.schema["rank"].metadata["skyband"]
    names = [*family_of(query).query_columns, *query["keys"]]
    if query["emit"] == "changes":
        names.append("previous_rank")
    if "rank_by" in query:
        others = ("window", "rank", "score", *UPDATE_COLUMNS)
        names = [name for name in leaders.columns if name not in others]
    end = F.col("window.end").alias("end")
    key = F.to_json(F.struct(end, *(F.col(quoted(name)) for name in names), "rank"))
    return leaders.select(key.alias("key"), F.to_json(F.struct("*")).alias("value"))


def _check_console(sink: Sink) -> None:
    if sink.path is not None or sink.options:
        raise QueryError(
            "sink.format is console with a path or options",
            "console by itself: it shows the leaderboard",
            "write format: parquet, or leave them out",
        )


@dataclass(frozen=True)
class SinkKind:
    """What a sink needs, what it promises, and how ranked rows get there.

    ``formats`` are as a job file names them; a kind without any takes all that no other does.
    ``promise`` is what ``explain`` shows: it may name the ``{format}``, that of the ``{files}``,
    and the ``{place}``. ``reshape`` changes ranked rows into what the sink takes; ``stream`` sets
    the writer of a stream, ``write`` writes a batch. A sink that ``needs_checkpoint`` keeps what
    it was given: a run has to go on where the last one was.
    """

    formats: tuple[str, ...]
    promise: str
    needs_path: bool = False
    takes_file_format: bool = False
    needs_checkpoint: bool = True
    check: Callable[[Sink], None] = lambda sink: None
    reshape: Callable[[DataFrame, Job], DataFrame] = lambda leaders, job: leaders
    stream: Callable[[Any, Job], Any] = _stream_format
    write: Callable[[DataFrame, Job], None] = _write_format


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
        stream=lambda writer, job: writer.foreachBatch(directory_per_batch(job)),
        write=lambda rows, job: directory_per_batch(job)(rows, 0),
    ),
    SinkKind(
        FILE_FORMATS,
        "{files} files{place}: each row exactly once",
        needs_path=True,
        reshape=_unnested,
    ),
    SinkKind(
        ("kafka",),
        "{format}{place}: at least once, unless that sink can do better",
        reshape=_keyed,
    ),
    SinkKind((), "{format}{place}: at least once, unless that sink can do better"),
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
    if form is not None and not kind.takes_file_format:
        raise QueryError(
            f"sink.file_format is given for {sink.format}", "format: files, or no file_format"
        )
    if form is not None and form.lower() not in FILE_FORMATS:
        raise QueryError(f"sink.file_format is {form!r}", f"one of {', '.join(FILE_FORMATS)}")


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
            spark.read.text(f"{place}/{part}")
        except AnalysisException:
            continue
        raise QueryError(
            f"sink.path {place} holds what a stream with another checkpoint wrote",
            "a sink of its own for a new checkpoint",
            "name another sink.path, or go on with the old checkpoint",
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


def start(leaders: DataFrame, job: Job, checkpoint: str) -> StreamingQuery:
    """Start the stream into the job's sink."""
    kind = kind_of(job.sink)
    writer: Any = kind.reshape(leaders, job).writeStream.outputMode("append").queryName(job.title)
    writer = kind.stream(writer.option("checkpointLocation", checkpoint), job)
    if job.trigger.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        milliseconds = max(1, microseconds(job.trigger.every) // 1000)
        writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
    query: StreamingQuery = writer.start()
    return query


def write(leaders: DataFrame, job: Job) -> None:
    """Write all ranked windows at once into the job's sink."""
    kind = kind_of(job.sink)
    kind.write(kind.reshape(leaders, job), job)
