"""Incomplete streams, Table 4: longer windows over a request log."""

from __future__ import annotations

from benchmarks.papers.incomplete.running import Point
from benchmarks.papers.incomplete.sweep import ALGORITHMS, Sweep
from benchmarks.study import main

STUDY = Sweep(
    table="table4",
    title="rows in the window, requests of 1998",
    axis="window",
    points=tuple(
        Point(name, streams=2, window=window, k=20, xi=None)
        for window in (500, 750, 1000)
        for name in ALGORITHMS[1:]
    ),
    remark="The log is a look-alike, in chunks of 5 s.",
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
