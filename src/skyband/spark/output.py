"""Answers, one row per window, as the ranked rows that people read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.spark.plan import Question


def ranked(answers: DataFrame, question: Question) -> DataFrame:
    """One row per rank: window, keys, rank, score, changes, kept columns.

    The rank column carries the description of the query as metadata, for the manifest.
    """
    changes = question.query.emit == "changes"
    arrays = ["scores", *(["ranks", "previous"] if changes else [])]
    arrays += [f"kept_{i}" for i in range(len(question.kept))]
    rows = _counted(answers, question).select(
        _bounds(question).alias("window"),
        *(F.col(f"key_{i}") for i in range(len(question.keys))),
        F.posexplode(F.arrays_zip(*arrays)).alias("place", "row"),
    )
    row = F.col("row")
    rank = F.nullif(row["ranks"], F.lit(0)) if changes else F.col("place") + 1
    return rows.select(
        F.col("window"),
        *(
            column.unpack(F.col(f"key_{i}")).alias(column.name)
            for i, column in enumerate(question.key_columns)
        ),
        rank.cast("int").alias("rank", metadata={"skyband": question.description()}),
        row["scores"].alias("score"),
        *(_change(row) if changes else []),
        *(
            column.unpack(row[f"kept_{i}"]).alias(column.name)
            for i, column in enumerate(question.kept)
        ),
    )


def metric_name(digest: str) -> str:
    """The name under which a stream's progress reports windows answered and candidates kept."""
    return f"skyband windows {digest}"


def _counted(answers: DataFrame, question: Question) -> DataFrame:
    """Report how many windows were answered, and from how many candidates."""
    return answers.observe(
        metric_name(question.digest),
        F.count(F.lit(1)).alias("windows"),
        F.coalesce(F.sum("candidates"), F.lit(0)).alias("candidates"),
        F.coalesce(F.sum(F.size("scores")), F.lit(0)).alias("ranked"),
    )


def _bounds(question: Question) -> Column:
    window = question.query.window
    end = F.col("window") * F.lit(window.slide) + F.lit(question.offset)
    return bounds(end - F.lit(window.size), end, question)


def bounds(start: Column, end: Column, question: Question) -> Column:
    """A window as Spark has them: moments, or row numbers from 0 on."""
    if not question.timed:
        start = F.greatest(start, F.lit(0).cast("bigint"))
        return F.struct(start.alias("start"), end.alias("end"))
    found = [F.timestamp_micros(start), F.timestamp_micros(end)]
    if question.ntz:
        found = [bound.cast("timestamp_ntz") for bound in found]
    return F.struct(found[0].alias("start"), found[1].alias("end"))


def _change(row: Column) -> list[Column]:
    change = F.when(row["ranks"] == 0, "left").when(row["previous"] == 0, "entered")
    return [
        change.otherwise("moved").alias("change"),
        F.nullif(row["previous"], F.lit(0)).cast("int").alias("previous_rank"),
    ]
