"""Answers to all queries, as the ranked rows that people read.

A processor hands over each row once, however many rankings it is in; rankings are lists of places
among those rows, and become rows here, inside the JVM.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skyband.spark.families.workload.plan import QUERY, SharedQuestion
from skyband.spark.output import bounds, metric_name


def ranked(answers: DataFrame, question: SharedQuestion) -> DataFrame:
    """One row per rank: query, window, keys, rank, score, kept columns.

    The rank column carries the description of the workload as metadata, for the manifest.
    """
    base = question.base
    keys = [f"key_{i}" for i in range(len(base.keys))]
    kept = [f"kept_{i}" for i in range(len(base.kept))]
    windows = F.inline(F.arrays_zip("queries", "starts", "ends", "rows"))
    rows = _counted(answers, question).select(*keys, "scores", *kept, windows)
    rows = rows.select("*", F.posexplode("rows").alias("place", "slot"))
    slot = F.col("slot")
    return rows.select(
        F.col("queries").alias(QUERY),
        bounds(F.col("starts"), F.col("ends"), base).alias("window"),
        *(
            column.unpack(F.col(key)).alias(column.name)
            for key, column in zip(keys, base.key_columns, strict=True)
        ),
        (F.col("place") + 1).cast("int").alias("rank", metadata={"skyband": question.metadata()}),
        F.get("scores", slot).alias("score"),
        *(
            column.unpack(F.get(name, slot)).alias(column.name)
            for name, column in zip(kept, base.kept, strict=True)
        ),
    )


def _counted(answers: DataFrame, question: SharedQuestion) -> DataFrame:
    """Report how many windows were answered, and from how many candidates."""
    ranks = F.aggregate("rows", F.lit(0).cast("bigint"), lambda sum, row: sum + F.size(row))
    return answers.observe(
        metric_name(question.digest),
        F.coalesce(F.sum(F.size("rows")), F.lit(0)).alias("windows"),
        F.coalesce(F.sum("candidates"), F.lit(0)).alias("candidates"),
        F.coalesce(F.sum(ranks), F.lit(0)).alias("ranked"),
    )
