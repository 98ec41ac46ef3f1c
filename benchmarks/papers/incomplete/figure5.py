"""Incomplete streams, Figure 5: longer windows, and streams that have more in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from benchmarks.measure import Record
from benchmarks.papers.incomplete.running import Point
from benchmarks.papers.incomplete.sweep import ALGORITHMS, Sweep
from benchmarks.study import main

WINDOWS = Sweep(
    table="figure5",
    title="(a, b) rows in the window",
    axis="window",
    points=tuple(
        Point(name, window=window) for window in (250, 500, 1000, 1500, 2000) for name in ALGORITHMS
    ),
)
CORRELATION = Sweep(
    table="figure5",
    title="(c, d) probability to pick a recent object, two streams",
    axis="xi",
    points=tuple(
        Point(name, streams=2, window=window, xi=xi)
        for window in (500, 1000)
        for xi in (0.1, 0.3, 0.5, 0.7, 0.9)
        for name in ALGORITHMS
    ),
    by="window",
)


class Both(NamedTuple):
    """The two halves of the figure."""

    windows: Sweep
    correlation: Sweep
    name: str = "incomplete_figure5"

    def sized(self, quick: bool) -> Both:
        """Both, smaller."""
        return Both(self.windows.sized(quick), self.correlation.sized(quick))

    def collect(self) -> list[Record]:
        """One record per point."""
        return [*self.windows.collect(), *self.correlation.collect()]

    def show(self, records: list[Record], console: Console) -> None:
        """One table each."""
        half = len(self.windows.points)
        self.windows.show(records[:half], console)
        self.correlation.show(records[half:], console)

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """One picture each."""
        half = len(self.windows.points)
        first = replace(self.windows, table="figure5ab").draw(records[:half], folder)
        return [
            *first,
            *replace(self.correlation, table="figure5cd").draw(records[half:], folder),
        ]


STUDY = Both(WINDOWS, CORRELATION)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
