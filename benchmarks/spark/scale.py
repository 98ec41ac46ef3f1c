"""``skyband bench spark-scale``: one core and all of them, and state as keys grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.study import FILES, STYLES

RATIO, K = 60, 100
WARM_UPS = 4  # turns over few rows: a JVM compiles what a query needs in several of them
SYSTEMS = ("floor", "skyband", "skyband-scan")


TITLES = {
    "floor": "Spark's tumbling max",
    "skyband": "one ranking",
    "skyband-scan": "one ranking, tasks read files",
}
"""The systems, as tables call them."""


@dataclass(frozen=True)
class Scale:
    """The pane path on more cores, each in a process of its own; then over more keys.

    Beside it Spark's own tumbling max: how far this machine's cores go at all.
    """

    rows: int = 60_000_000
    keys: tuple[int, ...] = (100, 1_000, 10_000)
    repeats: int = 2
    name: str = field(default="spark_scale", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Scale:
        """Over 6x10^7 rows, or fewer."""
        if quick:
            return cls(rows or 1_000_000, (100, 1_000), 1)
        return cls(rows or 60_000_000)

    def collect(self) -> list[Record]:
        """A record per number of cores, and per number of keys."""
        cores = os.cpu_count() or 1
        records: list[Record] = []
        with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
            home = Path(name)
            report.note(f"writing {self.rows:,} trades")
            whole = stream.write(home / "whole", self.rows, self.rows, FILES)
            warm_up = stream.write(home / "few", min(self.rows, 400_000), self.rows, 4)
            with report.progress("spark-scale", 2 + len(self.keys)) as step:
                for count in sorted({1, cores}):
                    master = f"local[{count},4]"
                    for record in run_apart(home, SYSTEMS, master, whole, warm_up, 0, self.repeats):
                        records.append({"cores": count, "keys": 0, **record})
                    step(f"{count} cores")
                for keys in self.keys:
                    rows = min(self.rows, 1_000_000)
                    part = stream.write(home / f"keys-{keys}", rows, 60 * rows, FILES, keys)
                    master = f"local[{cores},4]"
                    [record] = run_apart(home, ["skyband"], master, part, part, keys, 1)
                    records.append({"cores": cores, "keys": keys, **record})
                    step(f"{keys} keys")
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table, then the goal."""
        base = {r["system"]: r["rows_per_s"] for r in records if r["cores"] == 1}
        rows = [
            (
                r["keys"] or TITLES[r["system"]],
                r["cores"], r["rows"], r["seconds"], r["rows_per_s"],
                None if r["keys"] else report.ratio(r["rows_per_s"], base.get(r["system"])),
                r["candidates"], report.size(r["state_bytes"]),
                None if not r["keys"] else r["state_bytes"] / r["keys"],
            )
            for r in records
        ]  # fmt: skip
        title = f"Skyband, window/slide = {RATIO}, k = {K}; per key k = 10"
        columns = (
            "keys", "cores", "rows", "s", "rows/s", "x one core", "candidates", "state",
            "bytes per key",
        )  # fmt: skip
        note = (
            "The tumbling max shows how far more cores go on this machine. State of the "
            "candidates: what the last micro-batch wrote of it."
        )
        console.print(report.table(title, columns, rows, note))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """State against keys."""
        figure, axes = report.panels(1, 1, "State as keys grow", panel=(4.4, 3.2))
        panel = axes[0][0]
        keyed = [r for r in records if r["keys"]]
        colour, marker = STYLES["skyband"]
        x, y = [r["keys"] for r in keyed], [r["state_bytes"] / 1e6 for r in keyed]
        panel.plot(x, y, color=colour, marker=marker)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("keys")
        panel.set_ylabel("candidate state, MB")
        return report.save(figure, folder, self.name)


def run_apart(
    home: Path,
    systems: Sequence[str],
    master: str,
    folder: Path,
    warm_up: Path,
    keys: int,
    repeats: int,
) -> list[Record]:
    """Measure systems in turns, in a process of its own whose Spark runs on a master.

    A record per system, of its fastest turn; nothing that starts or warms up is counted.
    """
    numbers = [str(keys), str(repeats)]
    arguments = [str(home), ",".join(systems), master, str(folder), str(warm_up), *numbers]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark.scale", *arguments],
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    records: list[Record] = json.loads(ran.stdout)
    return records


def _measure(arguments: list[str]) -> list[Record]:
    from benchmarks.spark.standalone import SETTINGS
    from benchmarks.spark.systems import SCAN, Run, files, timed
    from benchmarks.spark.systems import SYSTEMS as QUERIES
    from skyband.spark import session

    home, systems, master, folder, warm_up, keys, repeats = arguments
    more = SETTINGS if master.startswith("spark://") else {}
    spark = session(
        master, shuffle_partitions=2, settings={"spark.sql.warehouse.dir": home, **more}
    )
    options: dict[str, Any] = {"partition_by": "sector"} if int(keys) else {}
    k = 10 if int(keys) else K

    def run(system: str, source: str) -> Run:
        trades = files(spark, Path(source), FILES)
        rows = trades if system == SCAN else trades.frame
        return timed(QUERIES[system](rows, RATIO, k, **options), Path(home) / "run")

    fastest: dict[str, Run] = {}
    for turn, source in enumerate([*WARM_UPS * [warm_up], *int(repeats) * [folder]]):
        for system in systems.split(","):
            took = run(system, source)
            report.note(f"{system}, {took.rows:,} rows: {took.seconds:.1f} s")
            if turn >= WARM_UPS:
                fastest[system] = min(fastest.get(system, took), took, key=lambda r: r.seconds)
    spark.stop()
    return [
        {
            "system": system,
            "rows": best.rows,
            "seconds": best.seconds,
            "rows_per_s": best.rows / best.seconds,
            "candidates": best.candidates,
            "state_bytes": best.written_bytes,
        }
        for system, best in fastest.items()
    ]


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1:])))
