"""MTopS, Figure 11: memory for different slides."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_SLIDE
from benchmarks.study import main

FIGURE = Curves(
    figure="11",
    title="memory for different slides",
    metric="memory",
    parameters=ARBITRARY_SLIDE,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
