"""Flat memory: resident set and state over a long run, generated while it is read."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Point, Record, streamed, warm, window_bytes

_MB = 1 << 20


@dataclass(frozen=True)
class Memory:
    """Each algorithm over ``objects`` objects of TIME_U, sampled ``samples`` times."""

    objects: int = 100_000_000
    n: int = 1_000_000
    s: int = 1_000
    k: int = 100
    samples: int = 50
    algorithms: tuple[str, ...] = ("sap", "mintopk")
    name: str = "memory"

    @classmethod
    def sized(cls, quick: bool) -> Memory:
        """10^8 objects, or a tenth of them."""
        return cls(objects=10_000_000) if quick else cls()

    def collect(self) -> list[Record]:
        """One record per algorithm and sample."""
        records: list[Record] = []
        every = max(self.objects // self.samples, 1)
        with report.progress("memory", self.samples * len(self.algorithms)) as step:
            for algorithm in self.algorithms:
                point = Point(algorithm, self.n, self.s, self.k)
                warm(point)
                monitor = point.monitor()
                fed, due, chunk = 0, every, min(point.chunk, every)
                for block in streamed("time_u", self.objects):
                    for at in range(0, len(block), chunk):
                        piece = block[at : at + chunk]
                        monitor.push(piece)
                        fed += len(piece)
                        if fed >= due or fed == self.objects:
                            records.append(
                                {
                                    "workload": "time_u",
                                    "algorithm": algorithm,
                                    "n": self.n,
                                    "s": self.s,
                                    "k": self.k,
                                    "objects": fed,
                                    "rss_bytes": resident_set(),
                                    "state_bytes": monitor.state_bytes(),
                                    "window_bytes": window_bytes(monitor),
                                }
                            )
                            due = fed + every
                            step(algorithm)
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """How much memory grew from the first tenth of each run to its end."""
        rows = []
        for algorithm in self.algorithms:
            mine = [r for r in records if r["algorithm"] == algorithm]
            early = next(r for r in mine if r["objects"] >= max(self.objects // 10, 1))
            late = mine[-1]
            rows.append(
                (
                    algorithm, late["objects"], report.size(early["rss_bytes"]),
                    report.size(late["rss_bytes"]),
                    report.size(late["rss_bytes"] - early["rss_bytes"]),
                    report.size(late["state_bytes"]), report.size(late["window_bytes"]),
                )
            )  # fmt: skip
        console.print(
            report.table(
                f"time_u: n = {self.n:,}, s = {self.s:,}, k = {self.k}",
                ("algorithm", "objects", "RSS at a tenth", "RSS at the end", "growth", "state",
                 "of which raw scores"),
                rows,
                "RSS is of the whole process: interpreter, compiled kernels, one block of the "
                "stream, answers of one push.",
            )
        )  # fmt: skip

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Resident set and state over the objects seen."""
        figure, axes = report.panels(
            1, 2, f"Memory over {self.objects:,} objects of TIME_U", panel=(4.6, 3.2)
        )
        for panel, field, what in zip(
            axes[0],
            ("rss_bytes", "state_bytes"),
            ("resident set of the process", "state of the algorithm"),
            strict=True,
        ):
            for algorithm in self.algorithms:
                mine = [r for r in records if r["algorithm"] == algorithm]
                report.curve(
                    panel,
                    [r["objects"] / 1e6 for r in mine],
                    [r[field] / _MB for r in mine],
                    algorithm,
                    markevery=max(len(mine) // 10, 1),
                )
            panel.set_title(what, loc="left")
            panel.set_xlabel("million objects")
            panel.set_ylabel("MB")
            panel.set_ylim(0, 1.2 * max(r[field] for r in records) / _MB)
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)


def resident_set() -> int:
    """Bytes of this process in memory now; its peak where the system does not report that."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
