"""Incomplete streams, Table 3: more servers of a request log."""

from __future__ import annotations

from benchmarks.papers.incomplete.running import Point
from benchmarks.papers.incomplete.sweep import ALGORITHMS, Sweep
from benchmarks.study import main

STUDY = Sweep(
    table="table3",
    title="number of servers, requests of 1998",
    axis="streams",
    points=tuple(
        Point(name, streams=n, window=500, k=20, xi=None)
        for n in (2, 3, 4)
        for name in ALGORITHMS[1:]
    ),
    remark="The log is a look-alike, in chunks of 5 s.",
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
