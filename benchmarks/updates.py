"""What rankings so far cost: a push with ``emit="updates"`` beside one with ``emit="all"``."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from skyband import Monitor, TopK, TopKTotals, TotalsMonitor, last
from skyband.windows import Window

_KEYS = 2_000
_SLIDE = 10_000  # rows, and ticks, in a slide
_WARM = 2  # windows that pass before the clock starts
Open = Literal["all", "current"]


@dataclass(frozen=True)
class Point:
    """One query, and how many rows each push brings."""

    family: str
    kind: str
    windows: int  # slides in a window: as many are open at a time
    k: int
    rows: int


@dataclass(frozen=True)
class Updates:
    """Pushes of each size into windows of each length, by each family: CPU time per push."""

    families: tuple[str, ...] = ("top-k", "totals")
    kinds: tuple[str, ...] = ("count", "time")
    windows: tuple[int, ...] = (1, 10, 60)
    ks: tuple[int, ...] = (10, 100)
    rows: tuple[int, ...] = (1, 100, 10_000)
    pushes: int = 200
    name: str = "updates"

    @classmethod
    def sized(cls, quick: bool) -> Updates:
        """All settings, or the smaller k with fewer pushes."""
        return cls(ks=(10,), pushes=50) if quick else cls()

    def collect(self) -> list[Record]:
        """One record per setting."""
        settings = (self.families, self.kinds, self.windows, self.ks, self.rows)
        points = [Point(*setting) for setting in itertools.product(*settings)]
        records: list[Record] = []
        with report.progress("updates", len(points)) as step:
            for point in points:
                pushes = self.pushes if point.rows < _SLIDE else min(self.pushes, 40)
                records.append(
                    {
                        "workload": "updates",
                        "family": point.family,
                        "window": point.kind,
                        "open_windows": point.windows,
                        "k": point.k,
                        "rows_per_push": point.rows,
                        "all_us": _microseconds(point, pushes, "all"),
                        "updates_us": _microseconds(point, pushes, "updates"),
                        "current_us": _microseconds(point, pushes, "updates", "current"),
                    }
                )
                step(f"{point.family} {point.kind} {point.windows} {point.rows}")
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table."""
        console.print(
            report.table(
                f"Rankings so far: slides of {_SLIDE:,} rows",
                ("family", "window", "open", "k", "rows", "all, us", "updates, us", "current, us"),
                [
                    (
                        r["family"], r["window"], r["open_windows"], r["k"],
                        f"{r['rows_per_push']:,}",
                        *(f"{r[name]:,.0f}" for name in ("all_us", "updates_us", "current_us")),
                    )
                    for r in records
                ],
                "CPU microseconds per push: emit='all'; emit='updates'; the same with "
                "open_windows='current'.",
            )
        )  # fmt: skip

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Bars of top-k in windows of time, on a log axis."""
        figure, axes = report.panels(1, 1, "Microseconds per push", panel=(7.0, 4.2))
        panel = axes[0][0]
        shown = [r for r in records if r["family"] == "top-k" and r["k"] == self.ks[0]]
        names = [
            f"{r['window']}, {r['open_windows']} open, {r['rows_per_push']:,} rows" for r in shown
        ]
        places = np.arange(len(shown))
        for at, (key, label) in enumerate((("all_us", "all"), ("updates_us", "updates"))):
            panel.barh(places + 0.4 * at, [r[key] for r in shown], height=0.4, label=label)
        panel.set_yticks(places + 0.2, names, fontsize=8)
        panel.set_xscale("log")
        panel.invert_yaxis()
        panel.set_xlabel("CPU microseconds per push")
        panel.grid(axis="y", visible=False)
        panel.legend()
        return report.save(figure, folder, self.name)


def _microseconds(
    point: Point, pushes: int, emit: Literal["all", "updates"], open_windows: Open = "all"
) -> float:
    """CPU microseconds of a push, once windows are full and kernels compiled."""
    size = point.windows * _SLIDE
    window: Window = last(count=size, slide=_SLIDE)
    if point.kind == "time":
        window = last(time=size, slide=_SLIDE)
    monitor: Monitor | TotalsMonitor
    if point.family == "top-k":
        monitor = Monitor(TopK(point.k, window, emit, open_windows=open_windows), "sap")
    else:
        query = TopKTotals(point.k, "sum", window, emit, open_windows=open_windows)
        monitor = TotalsMonitor(query)
    rng = np.random.default_rng(0)
    first = _WARM * size + _SLIDE // 2  # in the middle of a slide
    arrived = 0
    spent = 0.0
    for number, rows in enumerate((first, *([point.rows] * pushes))):
        scores = rng.random(rows)
        keys = rng.integers(0, _KEYS, rows)
        times = np.arange(arrived, arrived + rows, dtype=np.int64)
        arrived += rows
        began = time.process_time()
        timed = {"times": times, "watermark": arrived} if point.kind == "time" else {}
        if isinstance(monitor, Monitor):
            monitor.push(scores, **timed)
        else:
            monitor.push(keys, scores, **timed)
        if number:
            spent += time.process_time() - began
    return 1e6 * spent / pushes
