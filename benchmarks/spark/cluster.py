"""``skyband bench spark-cluster``: one worker of one core, and two of them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.scale import RATIO, SYSTEMS, TITLES, K, run_apart
from benchmarks.spark.standalone import Standalone
from benchmarks.spark.study import FILES, SCAN_STYLE, STYLES

WANTED = 1.6


@dataclass(frozen=True)
class Cluster:
    """The pane path on a standalone master with one and with two workers, pinned to a core each.

    Master, workers, executors and driver are processes of this machine; the driver may use any
    core. Beside it Spark's own tumbling max, as in ``spark-scale``.
    """

    rows: int = 80_000_000
    repeats: int = 2
    name: str = field(default="spark_cluster", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Cluster:
        """Over 8x10^7 rows, or fewer."""
        return cls(rows or 8_000_000, 1) if quick else cls(rows or 80_000_000)

    def collect(self) -> list[Record]:
        """A record per system and number of workers."""
        records: list[Record] = []
        with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
            home = Path(name)
            report.note(f"writing {self.rows:,} trades")
            whole = stream.write(home / "whole", self.rows, self.rows, FILES)
            warm_up = stream.write(home / "few", min(self.rows, 1_000_000), self.rows, 4)
            with report.progress("spark-cluster", 2) as step:
                for workers in (1, 2):
                    place = home / f"workers-{workers}"
                    with Standalone(place, workers, memory="2g", pinned=True) as cluster:
                        places = home, SYSTEMS, cluster.master, whole, warm_up
                        for took in run_apart(*places, 0, self.repeats):
                            load = os.getloadavg()[0]
                            records.append({"workers": workers, "load": load, **took})
                    step(f"{workers} workers")
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table, then the goal."""
        base = {r["system"]: r["rows_per_s"] for r in records if r["workers"] == 1}
        rows = [
            (
                TITLES[r["system"]], r["workers"], r["rows"], r["seconds"], r["rows_per_s"],
                report.ratio(r["rows_per_s"], base[r["system"]]), r["load"],
            )
            for r in records
        ]  # fmt: skip
        title = f"Workers of one core each, window/slide = {RATIO}, k = {K}"
        columns = ("system", "workers", "rows", "s", "rows/s", "x one worker", "load")
        note = (
            "Load: the machine's at the end, over a minute; master, driver and workers are a part "
            "of it."
        )
        console.print(report.table(title, columns, rows, note))
        goals = []
        for r in records:
            if r["workers"] == 2 and r["system"] != "floor":
                gain = r["rows_per_s"] / base[r["system"]]
                met = "yes" if gain >= WANTED else "NO"
                label = f"{TITLES[r['system']]}: two workers x one"
                goals.append((label, f"at least {WANTED}", gain, met))
        console.print(report.table("Goals", ("goal", "wanted", "measured", "met"), goals, ""))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Rows per second against workers."""
        figure, axes = report.panels(1, 1, "Rows per second with more workers", panel=(4.4, 3.2))
        panel = axes[0][0]
        for system, (colour, marker) in {**STYLES, **SCAN_STYLE}.items():
            points = [r for r in records if r["system"] == system]
            if points:
                x, y = [r["workers"] for r in points], [r["rows_per_s"] for r in points]
                panel.plot(x, y, color=colour, marker=marker, label=system)
        panel.set_xticks([1, 2])
        panel.set_xlabel("workers of one core")
        panel.set_ylabel("rows per second")
        panel.set_ylim(bottom=0)
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)
