"""MTopS, Figure 14: CPU time for different windows, slides and k."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ALL_ARBITRARY
from benchmarks.study import main

FIGURE = Curves(
    figure="14",
    title="CPU time for different windows, slides and k",
    metric="cpu",
    parameters=ALL_ARBITRARY,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
