"""MTopS, Figure 15: memory for different windows, slides and k."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ALL_ARBITRARY
from benchmarks.study import main

FIGURE = Curves(
    figure="15",
    title="memory for different windows, slides and k",
    metric="memory",
    parameters=ALL_ARBITRARY,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
