"""Spark's own sliding windows, and Skyband on Spark: a DataFrame, or files that tasks read."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.question import Question
from benchmarks.spark import systems
from benchmarks.spark.stream import SCHEMA, SLIDE
from skyband.spark import parquet, session, top_k
from skyband.spark.scan.source import ParquetSource


@cache
def _session() -> SparkSession:
    return session(app="skyband bench peers")


def start() -> None:
    """Start Spark before the first question."""
    _session()


def native(question: Question, source: Path, target: Path) -> None:
    """``max_by`` over ``window(ts, size, slide)``: Spark copies every row into its windows."""
    best_of_window(files(_session(), source).frame, question).write.parquet(str(target))


def from_frame(question: Question, source: Path, target: Path) -> None:
    """``top_k`` over a DataFrame."""
    ranked(files(_session(), source).frame, question).write.parquet(str(target))


def from_files(question: Question, source: Path, target: Path) -> None:
    """``top_k`` over ``skyband.spark.parquet``: tasks read the files, and prune them."""
    ranked(files(_session(), source), question).write.parquet(str(target))


def files(spark: SparkSession, source: Path) -> ParquetSource:
    """The trades of a folder, for Spark and for tasks."""
    return parquet(spark, source, schema=SCHEMA)


def best_of_window(rows: DataFrame, question: Question) -> DataFrame:
    """The answers of Spark itself, a row each."""
    if question.kind == "rows":
        best = systems.native(rows, question.ratio, question.k)
    else:
        window = F.window("ts", f"{question.seconds} seconds", f"{SLIDE} seconds")
        sums = rows.groupBy(window, "sector").agg(F.sum("volume").alias("score"))
        first = F.max_by(F.struct("score", "sector"), F.col("score"), question.k)
        best = sums.groupBy("window").agg(first.alias("best"))
    return best.select(_end(), F.inline("best"))


def ranked(rows: DataFrame | ParquetSource, question: Question) -> DataFrame:
    """The answers of Skyband."""
    if question.kind == "rows":
        return systems.skyband(rows, question.ratio, question.k).select(_end(), "score", "id")
    windows: dict[str, Any] = {
        "time": "ts", "window": f"{question.seconds} seconds", "slide": f"{SLIDE} seconds"
    }  # fmt: skip
    totals = top_k(rows, k=question.k, key="sector", by="sum(volume)", **windows)
    return totals.select(_end(), "score", "sector")


def _end() -> Any:
    return F.unix_micros("window.end").alias("window_end")
