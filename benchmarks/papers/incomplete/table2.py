"""Incomplete streams, Table 2: more answers."""

from __future__ import annotations

from benchmarks.papers.incomplete.running import Point
from benchmarks.papers.incomplete.sweep import ALGORITHMS, Sweep
from benchmarks.study import main

STUDY = Sweep(
    table="table2",
    title="number of answers",
    axis="k",
    points=tuple(Point(name, k=k) for k in (10, 20, 50, 100) for name in ALGORITHMS[1:]),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
