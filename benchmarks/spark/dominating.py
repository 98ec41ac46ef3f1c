"""``skyband bench spark-dominating``: one core and all of them, and what a slide costs.

One ranking over all points, which are independent. First the same stream on one core and on all of
them. Then windows of more and more panes, of always the same size: what a slide takes on Spark once
the window is full, and what one shard counts for it, in pairs of points, which no machine changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark.study import STYLES

SLIDE = 10  # seconds
START = 1_700_000_000_000_000  # microseconds
WIDTH, K, SHARDS = 4, 10, 2
SYSTEMS = ("skyband", "skyband-scan")
NAMES = [f"x{i}" for i in range(WIDTH)]
SCHEMA = "ts timestamp, id bigint, " + ", ".join(f"{name} double" for name in NAMES)


@dataclass(frozen=True)
class Dominating:
    """More cores, each in a process of its own; then longer windows."""

    rows: int = 4_000_000
    pane: int = 20_000
    span: int = 60
    repeats: int = 2
    spans: tuple[int, ...] = (10, 100, 1_000)
    small: int = 2_000  # points of a pane, for longer windows
    slides: int = 100  # that are measured at once
    name: str = field(default="spark_dominating", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Dominating:
        """Over 4x10^6 rows, or fewer."""
        if quick:
            return cls(rows or 400_000, 10_000, 10, 1, (10, 50), 1_000, 20)
        return cls(rows or 4_000_000)

    def collect(self) -> list[Record]:
        """A record per number of cores, and two per length of a window: Spark's and a shard's."""
        cores = os.cpu_count() or 1
        records: list[Record] = []
        with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
            home = Path(name)
            report.note(f"writing {self.rows:,} points")
            panes = self.rows // self.pane
            whole = write(home / "whole", panes, self.pane, [panes // 8] * 8)
            with report.progress("spark-dominating", 6 + 2 * len(self.spans)) as step:
                for count, bound in ((1, True), (1, False), (cores, False)):
                    for system in SYSTEMS:
                        record = _run(home, system, count, whole, self.span, 4, self.repeats, bound)
                        records.append({"part": "cores", "cores": count, "bound": bound, **record})
                        step(f"{system}, {count} cores")
                for span in self.spans:
                    files = [span, *[self.slides] * 4]
                    part = write(home / f"span-{span}", sum(files), self.small, files)
                    record = _run(home, "skyband", cores, part, span, 1, 1)
                    pane = {"panes": span, "pane": self.small}
                    records.append({"part": "slide", "cores": cores, **pane, **record})
                    step(f"{span} panes on Spark")
                    shard = counted(span, self.small, min(self.slides, 60))
                    records.append({"part": "shard", **pane, **shard})
                    step(f"{span} panes in a shard")
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """Cores, slides, goals."""
        cores = [r for r in records if r["part"] == "cores"]
        base = {r["system"]: r["rows_per_s"] for r in cores if r["cores"] == 1 and not r["bound"]}
        console.print(
            report.table(
                f"One ranking, k = {K}, d = {WIDTH}, {self.span} panes of {self.pane:,} points",
                ("system", "cores", "bound", "rows", "s", "rows/s", "x one core", "candidates",
                 "state"),
                [
                    (
                        r["system"], r["cores"], "yes" if r["bound"] else "no", r["rows"],
                        r["seconds"], r["rows_per_s"],
                        report.ratio(r["rows_per_s"], base[r["system"]]), r["candidates"],
                        report.size(r["state_bytes"]),
                    )
                    for r in cores
                ],
                f"{SHARDS} shards. skyband-scan: tasks read the files. Seconds are those of all "
                "micro-batches. Spark on one core runs one task at a time; its worker in Python, "
                "the collector of garbage and the compiler use the other core meanwhile, unless "
                "all are bound to one.",
            )
        )  # fmt: skip
        shards = {r["panes"]: r for r in records if r["part"] == "shard"}
        rows = []
        for r in (r for r in records if r["part"] == "slide"):
            shard = shards[r["panes"]]
            rows.append(
                (
                    r["panes"], r["panes"] * r["pane"], 1e3 * r["seconds_per_slide"],
                    shard["cpu_ms_per_slide"], shard["pairs_per_slide"],
                    shard["first_pairs_per_slide"], shard["candidates"], shard["counted"],
                )
            )  # fmt: skip
        console.print(
            report.table(
                f"What a slide costs, panes of {self.small:,} points, k = {K}, d = {WIDTH}",
                ("panes", "points", "ms on Spark", "CPU ms of a shard", "pairs", "first pairs",
                 "candidates", "counted"),
                rows,
                "On Spark: micro-batches of full windows, all that they do, over the windows they "
                "answer. Pairs of a candidate and a point that one of the shards counts, for the "
                "pane that came and the one that went; first pairs: for candidates that were not "
                "counted before, with the whole window.",
            )
        )  # fmt: skip
        console.print(
            report.table("Goals", ("goal", "wanted", "measured", "met"), goals(records), "")
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """What a slide costs against the panes of a window, beside the window itself."""
        figure, axes = report.panels(1, 1, "What a slide costs as windows grow", panel=(4.6, 3.4))
        panel = axes[0][0]
        on_spark = [r for r in records if r["part"] == "slide"]
        shard = [r for r in records if r["part"] == "shard"]
        x = [r["panes"] for r in on_spark]
        lines = {
            "points of the window": ([r["panes"] for r in shard], "#555555", "s"),
            "time on Spark": ([r["seconds_per_slide"] for r in on_spark], *STYLES["skyband"]),
            "pairs counted": ([_pairs(r) for r in shard], "#009E73", "^"),
        }
        for label, (y, colour, marker) in lines.items():
            relative = [value / y[0] for value in y]
            panel.plot(x, relative, color=colour, marker=marker, label=label)
        panel.set_xscale("log")
        panel.set_yscale("log")
        report.plain_ticks(panel)
        panel.set_xlabel("panes of the window")
        panel.set_ylabel(f"relative to {x[0]} panes")
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)


def goals(records: list[Record]) -> list[tuple[str, str, float, str]]:
    """What a query over all points must reach, as far as the records show."""
    rows: list[tuple[str, str, float, str]] = []
    cores = [r for r in records if r["part"] == "cores"]
    for system in SYSTEMS if cores[-1]["cores"] > 1 else ():
        bound, one, many = (r["rows_per_s"] for r in cores if r["system"] == system)
        label = f"{system}: {cores[-1]['cores']} cores / one"
        rows.append((label, "at least 1.6", many / one, "yes" if many / one >= 1.6 else "NO"))
        rows.append((f"{label}, bound", "", many / bound, ""))
    for part, label in (("slide", "time on Spark"), ("shard", "pairs")):
        part_records = [r for r in records if r["part"] == part]
        cost = [r["seconds_per_slide"] if part == "slide" else _pairs(r) for r in part_records]
        times = part_records[-1]["panes"] / part_records[0]["panes"]
        growth = cost[-1] / cost[0]
        met = "yes" if growth < times**0.5 else "NO"
        target = f"far below {times:,.0f}, as many times the points"
        rows.append(
            (f"a slide's {label}: {part_records[-1]['panes']:,} panes / 10", target, growth, met)
        )
    return rows


def _pairs(record: Record) -> float:
    return float(record["pairs_per_slide"] + record["first_pairs_per_slide"])


def points(pane: int, rows: int) -> np.ndarray:
    """The points of a pane, always the same ones."""
    return np.random.default_rng([11, pane]).random((rows, WIDTH))


def write(folder: Path, panes: int, rows: int, files: list[int]) -> Path:
    """Panes of so many points, ``files`` says how many of them in each file."""
    folder.mkdir(parents=True)
    low = 0
    for number, count in enumerate(files):
        parts = []
        for pane in range(low, min(panes, low + count)):
            pane_points = points(pane, rows)
            at = START + (pane * rows + np.arange(rows)) * (SLIDE * 1_000_000) // rows
            columns = {name: pane_points[:, i] for i, name in enumerate(NAMES)}
            ts = pa.array(at.astype("datetime64[us]"), pa.timestamp("us", tz="UTC"))
            parts.append(pa.table({"ts": ts, "id": pane * rows + np.arange(rows), **columns}))
        low += count
        file = folder / f"part-{number:03d}.parquet"
        pq.write_table(pa.concat_tables(parts), file, row_group_size=1 << 17)
        os.utime(file, (START // 1_000_000 + number,) * 2)  # Spark reads the older first
    return folder


def counted(span: int, rows: int, slides: int) -> Record:
    """What one shard does for a slide, once the window is full; in this process."""
    from skyband.dominating.panes import PaneCounts, undominated
    from skyband.spark.axis import PaneLifetimes

    counts = PaneCounts(K, WIDTH, PaneLifetimes(span, 1))
    before, began, spent = (0, 0, 0, 0), 0.0, 0.0
    for pane in range(span + slides):
        pane_points = points(pane, rows)
        survivors = pane_points[undominated(pane_points, K)]
        if pane == span:
            work = counts.work
            before = (work.compared, work.first_compared, work.candidates, work.counted)
            spent = 0.0
        began = time.process_time()
        for _ in counts.answer_before(pane):
            pass
        counts.insert(2 * pane, pane_points[::SHARDS], survivors)
        spent += time.process_time() - began
    work = counts.work
    after = (work.compared, work.first_compared, work.candidates, work.counted)
    pairs, first, candidates, counted_candidates = (
        b - a for a, b in zip(before, after, strict=True)
    )
    return {
        "slides": slides,
        "cpu_ms_per_slide": 1e3 * spent / slides,
        "pairs_per_slide": pairs / slides,
        "first_pairs_per_slide": first / slides,
        "candidates": candidates / slides,
        "counted": counted_candidates / slides,
    }


def _run(
    home: Path,
    system: str,
    cores: int,
    folder: Path,
    span: int,
    files: int,
    repeats: int,
    bound: bool = False,
) -> Record:
    """Measure in a process of its own, whose Spark has so many cores.

    ``bound`` ties it and all that it starts to one core, where the system can do that.
    """

    def tie() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    numbers = [str(span), str(files), str(repeats)]
    arguments = [str(home), system, f"local[{cores},4]", str(folder), *numbers]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark.dominating", *arguments],
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[2],
        preexec_fn=tie if bound and hasattr(os, "sched_setaffinity") else None,
    )
    record: Record = json.loads(ran.stdout)
    return record


def _measure(arguments: list[str]) -> Record:
    from skyband.spark import session

    home, system, master, folder, span, files, repeats = arguments
    spark = session(master, shuffle_partitions=SHARDS, settings={"spark.sql.warehouse.dir": home})
    warm = write(Path(home) / f"warm-{os.getpid()}", 40, 500, [20, 20])
    _stream(spark, system, Path(home), warm, 10, 1)
    runs = [
        _stream(spark, system, Path(home), Path(folder), int(span), int(files))
        for _ in range(int(repeats))
    ]  # fmt: skip
    spark.stop()
    return min(runs, key=lambda record: record["seconds"])


def _stream(spark: Any, system: str, home: Path, folder: Path, span: int, files: int) -> Record:
    """One bounded run, and what a slide took in the micro-batches after the window was full."""
    import shutil

    from benchmarks.spark.systems import rows_read
    from skyband.spark import parquet, top_k_dominating

    out = home / "run"
    shutil.rmtree(out, ignore_errors=True)
    options = {"maxFilesPerTrigger": str(files)}
    source = parquet(spark, folder, schema=SCHEMA, stream=True, options=options)
    best = top_k_dominating(
        source if system == "skyband-scan" else source.frame,
        k=K,
        dimensions=[(name, "min") for name in NAMES],
        time="ts",
        window=f"{SLIDE * span} seconds",
        slide=f"{SLIDE} seconds",
        delay="0 seconds",
        id="id",
        keep=["id", "ts"],
    )
    writer = best.writeStream.format("parquet").option("path", str(out / "out"))
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = query.recentProgress
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in batches]
    answered = [_metric(p, "windows") for p in batches]
    # the first batch answers nothing, the second what filled the window
    late = range(2, len(batches)) if len(batches) > 3 else range(1, len(batches))
    slides = sum(answered[i] for i in late)
    rows = sum(map(rows_read, batches))
    return {
        "system": system,
        "rows": rows,
        "seconds": sum(took),
        "rows_per_s": rows / sum(took),
        "windows": sum(answered),
        "seconds_per_slide": sum(took[i] for i in late) / max(slides, 1),
        "candidates": max(_metric(p, "candidates") for p in batches),
        "state_bytes": max(
            sum(op["memoryUsedBytes"] for op in p["stateOperators"]) for p in batches
        ),
    }


def _metric(progress: Any, name: str) -> int:
    for metric, row in (progress["observedMetrics"] or {}).items():
        if metric.startswith("skyband windows"):
            return int(row[name] or 0)
    return 0


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1:])))
