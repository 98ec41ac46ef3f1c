"""``skyband bench spark-state``: what a stream keeps where rows of a window leave together.

Trades of two hours run through a stream in several micro-batches, for the k best of each sector,
of all time and of each day so far. After each micro-batch it prints how many rows were kept, by
our count and by Spark's: they must not grow with the stream.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.sessions import session_and_folder
from benchmarks.spark.stream import SLIDE
from skyband.windows import Window, all_time, cumulative

K = 10
_EVERY = f"{SLIDE} seconds"
WINDOWS: Mapping[str, Window] = {
    "all_time": all_time(every=_EVERY),
    "cumulative": cumulative("1 day", every=_EVERY),
}


@dataclass(frozen=True)
class State:
    """The k best rows of few keys, kept over ``rows`` rows in ``batches`` micro-batches."""

    rows: int = 10_000_000
    keys: int = 4
    batches: int = 10
    name: str = field(default="spark_state", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> State:
        """Over 10^7 rows, or fewer."""
        return cls(rows or (1_000_000 if quick else 10_000_000))

    def collect(self) -> list[Record]:
        """A record per kind of window and micro-batch."""
        with session_and_folder() as (spark, home):
            return self.measure(spark, home)

    def measure(self, spark: Any, home: Path) -> list[Record]:
        """The same on a session that is there, in a folder that may be filled."""
        report.note(f"writing {self.rows:,} trades")
        folder = stream.write(home / "trades", self.rows, self.rows, self.batches, self.keys)
        records: list[Record] = []
        with report.progress("spark-state", len(WINDOWS)) as step:
            for kind, window in WINDOWS.items():
                records += self._run(spark, folder, home / kind, kind, window)
                step(kind)
        return records

    def _run(self, spark: Any, folder: Path, home: Path, kind: str, window: Window) -> list[Record]:
        from benchmarks.spark.systems import DELAY, SCORE
        from benchmarks.spark.systems import stream as read
        from skyband.spark import top_k
        from skyband.spark.jobs.progress import batch_of

        shutil.rmtree(home, ignore_errors=True)
        settings = {"time": "ts", "delay": DELAY, "partition_by": "sector", "keep": ["id", "ts"]}
        leaders = top_k(read(spark, folder, 1), k=K, by=SCORE, window=window, id="id", **settings)
        writer = leaders.writeStream.format("parquet").option("path", str(home / "out"))
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        records: list[Record] = []
        fed = 0
        for progress in query.recentProgress:
            batch = batch_of(progress)
            if batch is None:
                continue
            fed += batch.rows
            records.append(
                {
                    "window": kind,
                    "k": K,
                    "keys": self.keys,
                    "batch": batch.number,
                    "rows": fed,
                    "windows": batch.windows,
                    "candidates": batch.candidates,
                    "per_key": None if batch.candidates is None else batch.candidates / self.keys,
                    **_stores(progress),
                }
            )
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table per kind of window, then the goal."""
        for kind, window in WINDOWS.items():
            rows = [
                (
                    r["batch"], r["rows"], r["windows"], r["candidates"], r["per_key"],
                    r["state_rows"], report.size(r["state_bytes"]), report.size(r["state_files"]),
                    r["pane_rows"], report.size(r["pane_bytes"]),
                )
                for r in records if r["window"] == kind
            ]  # fmt: skip
            console.print(
                report.table(
                    f"{window}: k = {K}, {self.keys} keys",
                    ("batch", "rows so far", "windows", "candidates", "per key", "state rows",
                     "state memory", "state files", "open panes", "panes memory"),
                    rows,
                    "Candidates by our count, where windows were answered. State: the store of "
                    "the candidates, by Spark's count, with RocksDB's own buffers. Open panes: the "
                    "store of Spark's aggregation, of the time that the watermark has not passed.",
                )
            )  # fmt: skip
        console.print(
            report.table("Goals", ("goal", "wanted", "measured", "met"), goals(records), "")
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Candidates of a key against rows."""
        figure, axes = report.panels(
            1, len(WINDOWS), f"Rows kept of a key over {self.rows:,} rows", panel=(3.8, 3.2)
        )
        for panel, kind in zip(axes[0], WINDOWS, strict=True):
            answered = [r for r in records if r["window"] == kind and r["per_key"] is not None]
            x, y = [r["rows"] / 1e6 for r in answered], [r["per_key"] for r in answered]
            panel.plot(x, y, marker="o")
            panel.set_title(kind, loc="left")
            panel.set_xlabel("million rows")
            panel.set_ylabel("candidates of a key")
            panel.set_ylim(0, 2 * K)
        return report.save(figure, folder, self.name)


def _stores(progress: Mapping[str, Any]) -> Record:
    """What Spark reports of the store of the candidates, and of that of the open panes."""
    record: Record = {}
    for operator in progress["stateOperators"]:
        keeps_candidates = operator["operatorName"].startswith("transformWithState")
        name = "state" if keeps_candidates else "pane"
        record[f"{name}_rows"] = operator["numRowsTotal"]
        record[f"{name}_bytes"] = operator["memoryUsedBytes"]
        record[f"{name}_files"] = int(operator["customMetrics"].get("rocksdbSstFileSize") or 0)
    return record


def goals(records: list[Record]) -> list[tuple[str, str, float, str]]:
    """What is to be kept at most."""
    rows: list[tuple[str, str, float, str]] = []
    for kind in WINDOWS:
        of_kind = [r for r in records if r["window"] == kind]
        most = max((r["per_key"] for r in of_kind if r["per_key"] is not None), default=0.0)
        rows.append((f"rows kept of a key, {kind}", f"<= {K}", most, _met(most <= K)))
        stored = max((r["state_rows"] / r["keys"] for r in of_kind), default=0.0)
        rows.append((f"Spark's state rows of a key, {kind}", "<= 1", stored, _met(stored <= 1)))
    return rows


def _met(met: bool) -> str:
    return "yes" if met else "NO"
