"""The row path: count windows by arrival."""

from __future__ import annotations

from pyspark.sql import DataFrame

from skyband.spark.question import Question


def answered(rows: DataFrame, question: Question) -> DataFrame:
    """Not yet."""
    raise NotImplementedError
