"""MTopS, Figure 9: memory for different k."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_K
from benchmarks.study import main

FIGURE = Curves(
    figure="9",
    title="memory for different k",
    metric="memory",
    parameters=ARBITRARY_K,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
