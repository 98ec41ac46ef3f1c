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

from skyband.spark.axis import Axis
from skyband.spark.columns import LABEL, POSITION
from skyband.spark.options import plain_path

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


def with_mark(rows: DataFrame, axis: Axis, directory: str) -> DataFrame:
    """Rows of a stream, and the mark that ends it once there is one."""
    spark = rows.sparkSession
    directory = plain_path(directory, "drain")
    spark.createDataFrame([], _SCHEMA).write.mode("append").json(directory)
    mark = spark.readStream.schema(_SCHEMA).json(directory)
    nothing = [
        F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
        if field.name != POSITION
    ]
    marks = mark.select(F.lit(axis.end).cast("bigint").alias(POSITION), *nothing)
    return rows.unionByName(marks)


def without_mark(labelled: DataFrame, axis: Axis) -> DataFrame:
    """Drop the mark where it has moved the watermark: the predicate must mention the label."""
    return labelled.filter(F.col(LABEL) < axis.moment_sql(F.lit(axis.end)))
