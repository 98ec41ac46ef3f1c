"""Incomplete streams, Table 1: more streams."""

from __future__ import annotations

from benchmarks.papers.incomplete.running import Point
from benchmarks.papers.incomplete.sweep import ALGORITHMS, Sweep
from benchmarks.study import main

STUDY = Sweep(
    table="table1",
    title="number of streams",
    axis="streams",
    points=tuple(Point(name, streams=n) for n in (3, 4, 6) for name in ALGORITHMS[1:]),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
