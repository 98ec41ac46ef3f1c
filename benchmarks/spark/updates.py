"""``skyband bench spark-updates``: what it costs to report windows while they are open.

The same trades run through a stream in several micro-batches, with whole rankings alone, with
updates of all open windows, and with updates of the current one. Whole rankings are found by
Spark's own aggregation, updates by tasks that reduce rows to blocks: the table shows which is
faster, and what the rest costs.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.sessions import session_and_folder
from benchmarks.spark.stream import SLIDE

K = 10
WAYS = (("all", "all"), ("updates", "current"), ("updates", "all"))
"""How windows are reported: ``emit`` and ``open_windows``."""


@dataclass(frozen=True)
class Updates:
    """The k best rows of few keys, in windows of one and of many slides."""

    rows: int = 10_000_000
    keys: int = 4
    batches: int = 10
    ratios: tuple[int, ...] = (1, 60)
    turns: int = 2
    name: str = field(default="spark_updates", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Updates:
        """Over 10^7 rows, or fewer."""
        return cls(rows or (2_000_000 if quick else 10_000_000))

    def collect(self) -> list[Record]:
        """A record per window, way and turn."""
        with session_and_folder() as (spark, home):
            return self.measure(spark, home)

    def measure(self, spark: Any, home: Path) -> list[Record]:
        """The same on a session that is there, in a folder that may be filled."""
        report.note(f"writing {self.rows:,} trades")
        folder = stream.write(home / "trades", self.rows, self.rows, self.batches, self.keys)
        records: list[Record] = []
        with report.progress("spark-updates", self.turns * len(self.ratios) * len(WAYS)) as step:
            self._run(spark, folder, home / "warm", 1, "all", "all")  # starts what Spark needs
            for turn in range(self.turns):
                for ratio in self.ratios:
                    for emit, shown in WAYS:
                        name = f"{ratio}-{emit}-{shown}-{turn}"
                        record = self._run(spark, folder, home / name, ratio, emit, shown)
                        records.append({"turn": turn, **record})
                        step(name)
        return records

    def _run(
        self, spark: Any, folder: Path, home: Path, ratio: int, emit: str, shown: str
    ) -> Record:
        from benchmarks.spark.systems import DELAY, SCORE
        from benchmarks.spark.systems import stream as read
        from skyband.spark import top_k

        shutil.rmtree(home, ignore_errors=True)
        leaders = top_k(
            read(spark, folder, 1),
            k=K,
            by=SCORE,
            window=f"{ratio * SLIDE} seconds",
            slide=f"{SLIDE} seconds",
            time="ts",
            delay=DELAY,
            partition_by="sector",
            id="id",
            keep=["id", "ts"],
            emit=emit,
            open_windows=shown,
        )
        writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        begin = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - begin
        return {
            "window_slides": ratio,
            "emit": emit,
            "open_windows": shown,
            "rows": self.rows,
            "seconds": seconds,
            "reported": spark.read.parquet(str(home / "out")).count(),
        }

    def show(self, records: list[Record], console: Console) -> None:
        """One table: each way beside whole rankings, the faster turn of each."""
        rows = []
        for ratio in self.ratios:
            whole = _fastest(records, ratio, "all", "all")
            for emit, shown in WAYS:
                record = _fastest(records, ratio, emit, shown)
                way = emit if emit == "all" else f"{emit}, {shown} open windows"
                times = record["seconds"] / whole["seconds"]
                speed = record["rows"] / record["seconds"]
                rows.append((ratio, way, record["seconds"], times, speed, record["reported"]))
        console.print(
            report.table(
                f"{self.rows:,} rows, {self.keys} keys, k = {K}, {self.batches} micro-batches",
                ("window/slide", "emit", "seconds", "x all", "rows/s", "rows reported"),
                rows,
                "The faster of the turns. Rows reported: all revisions, and the final ones.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Seconds of each way."""
        figure, axes = report.panels(1, len(self.ratios), "Windows while open", panel=(3.8, 3.2))
        for panel, ratio in zip(axes[0], self.ratios, strict=True):
            seconds = [_fastest(records, ratio, *way)["seconds"] for way in WAYS]
            panel.bar(["all", "current", "all open"], seconds)
            panel.set_title(f"window/slide {ratio}", loc="left")
            panel.set_ylabel("seconds")
        return report.save(figure, folder, self.name)


def _fastest(records: list[Record], ratio: int, emit: str, shown: str) -> Record:
    wanted = (ratio, emit, shown)
    names = ("window_slides", "emit", "open_windows")
    same = [record for record in records if tuple(record[name] for name in names) == wanted]
    return min(same, key=lambda record: record["seconds"])
