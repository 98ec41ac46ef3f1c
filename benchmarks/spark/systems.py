"""The systems: Spark's tumbling max, its sliding max_by, and Skyband, also reading files itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.spark.stream import SCHEMA, SLIDE
from skyband.spark import parquet, top_k
from skyband.spark.scan.source import ParquetSource

SCORE = "price * volume"
DELAY = f"{SLIDE} seconds"


@dataclass(frozen=True)
class Run:
    """What one bounded run took."""

    rows: int
    seconds: float
    state_bytes: int
    candidates: int
    written_bytes: int  # by the last batch, into the store of the candidates


def floor(rows: DataFrame, ratio: int, k: int, partition_by: str | None = None) -> DataFrame:
    """The best score of each pane, or of each key's, by Spark: the least that anybody must do."""
    keys = [] if partition_by is None else [partition_by]
    scored = rows.select("ts", *keys, F.expr(SCORE).alias("score"))
    return (
        scored.withWatermark("ts", DELAY)
        .groupBy(F.window("ts", f"{SLIDE} seconds"), *keys)
        .agg(F.max("score").alias("score"))
    )


def native(rows: DataFrame, ratio: int, k: int) -> DataFrame:
    """The k best rows of each sliding window, by Spark: every row is copied into each window."""
    scored = rows.select("ts", "id", F.expr(SCORE).alias("score"))
    size, slide = f"{SLIDE * ratio} seconds", f"{SLIDE} seconds"
    best = F.max_by(F.struct("score", "id", "ts"), F.col("score"), k)
    return (
        scored.withWatermark("ts", DELAY)
        .groupBy(F.window("ts", size, slide))
        .agg(best.alias("best"))
    )


def skyband(
    rows: DataFrame | ParquetSource,
    ratio: int,
    k: int,
    keep: Sequence[str] = ("id", "ts"),
    **more: Any,
) -> DataFrame:
    """The same by Skyband."""
    return top_k(
        rows,
        k=k,
        by=SCORE,
        time="ts",
        window=f"{SLIDE * ratio} seconds",
        slide=f"{SLIDE} seconds",
        delay=DELAY,
        id="id",
        keep=list(keep),
        **more,
    )


SCAN = "skyband-scan"
SYSTEMS: dict[str, Callable[..., DataFrame]] = {
    "floor": floor,
    "native": native,
    "skyband": skyband,
    SCAN: skyband,
}


def stream(spark: SparkSession, folder: Path, per_trigger: int) -> DataFrame:
    """The files of a folder, some per micro-batch."""
    return files(spark, folder, per_trigger).frame


def files(spark: SparkSession, folder: Path, per_trigger: int) -> ParquetSource:
    """The same for tasks that read the files by themselves."""
    options = {"maxFilesPerTrigger": str(per_trigger)}
    return parquet(spark, folder, schema=SCHEMA, stream=True, options=options)


def timed(leaders: DataFrame, home: Path) -> Run:
    """Run a query over all that is there into Parquet; time is the sum over its micro-batches."""
    shutil.rmtree(home, ignore_errors=True)
    writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.recentProgress
    state = [sum(op["memoryUsedBytes"] for op in p["stateOperators"]) for p in progress]
    return Run(
        sum(map(rows_read, progress)),
        sum(p["durationMs"]["triggerExecution"] for p in progress) / 1000,
        max(state, default=0),
        _candidates(progress),
        _written(progress),
    )


def rows_read(report: Any) -> int:
    """The rows that a micro-batch read; where tasks read files, Spark counts those."""
    for name, row in (report["observedMetrics"] or {}).items():
        if name.startswith("skyband rows"):
            return int(row["rows"])
    return int(report["numInputRows"])


def _candidates(progress: list[Any]) -> int:
    """Candidates kept, as the last micro-batch that answered anything reports them."""
    for report in reversed(progress):
        for name, row in (report["observedMetrics"] or {}).items():
            if name.startswith("skyband windows") and row["windows"]:
                return int(row["candidates"])
    return 0


def _written(progress: list[Any]) -> int:
    """What the last micro-batch wrote into the candidates' store: all of it, if all have news."""
    for operator in progress[-1]["stateOperators"]:
        if operator["operatorName"].startswith("transformWithState"):
            return int(operator["customMetrics"]["rocksdbTotalBytesWritten"])
    return 0
