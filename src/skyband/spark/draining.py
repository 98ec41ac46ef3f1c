"""Answering the last windows of a stream that has ended.

A window is answered when the watermark passes its end, and the watermark follows the rows; so the
last windows of a bounded stream would wait for ever. To drain is to say that nothing more will
come: a mark is left in a directory that the stream reads beside its own source; it moves the
watermark past everything and is itself dropped. A drained checkpoint is finished.
"""

from __future__ import annotations

from os import PathLike

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.spark.axis import END_OF_ROWS, END_OF_TIME
from skyband.spark.panes import AT, LABEL
from skyband.spark.paths import plain_path
from skyband.spark.plan import Question

_SCHEMA = "ended boolean"


def drain(spark: SparkSession, directory: str | PathLike[str]) -> None:
    """Say that the stream which watches this directory (``top_k(..., drain=directory)``) ended.

    Its next run answers all windows that are still open. Call it once the stream has read
    everything: rows that it reads after the mark are late.
    """
    directory = plain_path(directory, "drain")
    spark.createDataFrame([(True,)], _SCHEMA).coalesce(1).write.mode("append").json(directory)


def drained(spark: SparkSession, directory: str) -> bool:
    """Whether a stream was told to drain."""
    return bool(spark.read.schema(_SCHEMA).json(directory).count())


def drainable(rows: DataFrame, question: Question, directory: str) -> DataFrame:
    """Rows of a stream, and the mark that ends it once there is one."""
    spark = rows.sparkSession
    directory = plain_path(directory, "drain")
    spark.createDataFrame([], _SCHEMA).write.mode("append").json(directory)
    mark = spark.readStream.schema(_SCHEMA).json(directory)
    end = END_OF_TIME if question.timed or question.arrival else END_OF_ROWS
    nothing = [
        F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
        if field.name != AT
    ]
    marks = mark.select(F.lit(end).cast("bigint").alias(AT), *nothing)
    return rows.unionByName(marks)


def without_mark(labelled: DataFrame, question: Question) -> DataFrame:
    """Drop the mark where it has moved the watermark: the predicate must mention the label."""
    if question.timed or question.arrival:
        return labelled.filter(F.col(LABEL) < F.timestamp_micros(F.lit(END_OF_TIME)))
    return labelled.filter(F.col(LABEL) < F.timestamp_millis(F.lit(END_OF_ROWS)))
