"""MTopS, Figure 8: CPU time for different k."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_K
from benchmarks.study import main

FIGURE = Curves(
    figure="8",
    title="CPU time for different k",
    metric="cpu",
    parameters=ARBITRARY_K,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
