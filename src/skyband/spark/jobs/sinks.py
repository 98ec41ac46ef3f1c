"""Where a job's ranked windows go, as a stream or all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from skyband.durations import microseconds
from skyband.errors import QueryError
from skyband.spark.families.workload.plan import QUERY
from skyband.spark.jobs.file import Job
from skyband.spark.jobs.sources import text
from skyband.spark.panes import quoted


def start(leaders: DataFrame, job: Job, checkpoint: str) -> StreamingQuery:
    """Start the stream into the job's sink."""
    sink = job.sink
    kind = sink.format.lower()
    stream: Any = _flat(leaders, job).writeStream.outputMode("append").queryName(job.title)
    stream = stream.option("checkpointLocation", checkpoint)
    if kind == "console":
        stream = stream.format("noop")
    elif kind == "files":
        stream = stream.foreachBatch(directory_per_batch(job))
    else:
        stream = stream.format(sink.format).options(**_options(job))
    if job.trigger.every is not None:
        milliseconds = max(1, microseconds(job.trigger.every) // 1000)
        stream = stream.trigger(processingTime=f"{milliseconds} milliseconds")
    else:
        stream = stream.trigger(availableNow=True)
    query: StreamingQuery = stream.start()
    return query


def write(leaders: DataFrame, job: Job) -> None:
    """Write all ranked windows at once into the job's sink."""
    rows = _flat(leaders, job)
    kind = job.sink.format.lower()
    if kind == "console":
        rows.write.format("noop").mode("overwrite").save()
    elif kind == "files":
        directory_per_batch(job)(rows, 0)
    else:
        rows.write.format(job.sink.format).options(**_options(job)).mode("error").save()


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


def directory_per_batch(job: Job) -> Callable[[DataFrame, int], None]:
    """A writer that gives each batch a directory of its own.

    A batch that is run again, after a crash, replaces what it wrote before: every row once, in
    files that anything can read.
    """
    place = job.place(job.sink.path or "").rstrip("/")
    format = job.sink.file_format or "parquet"
    options = {name: text(value) for name, value in job.sink.options.items()}

    def write(rows: DataFrame, batch: int) -> None:
        writer = rows.write.format(format).options(**options).mode("overwrite")
        writer.save(f"{place}/batch={batch}")

    return write


def _options(job: Job) -> dict[str, str]:
    options = {name: text(value) for name, value in job.sink.options.items()}
    if job.sink.path is not None:
        options["path"] = job.place(job.sink.path)
    return options


def _flat(leaders: DataFrame, job: Job) -> DataFrame:
    """CSV has no structures: the window becomes two columns. Kafka takes keys and values."""
    if job.sink.format.lower() == "kafka":
        query = leaders.schema["rank"].metadata["skyband"]
        keys = [*([QUERY] if "workload" in query else []), *query["keys"]]
        end = F.col("window.end").alias("end")
        key = F.to_json(F.struct(end, *(F.col(quoted(name)) for name in keys), "rank"))
        return leaders.select(key.alias("key"), F.to_json(F.struct("*")).alias("value"))
    if "csv" not in (job.sink.format.lower(), (job.sink.file_format or "").lower()):
        return leaders
    bounds = [F.col(f"window.{side}").alias(f"window_{side}") for side in ("start", "end")]
    at = leaders.columns.index("window")
    columns = [F.col(quoted(name)) for name in leaders.columns]
    return leaders.select(*columns[:at], *bounds, *columns[at + 1 :])
