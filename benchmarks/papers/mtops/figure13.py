"""MTopS, Figure 13: memory for different windows and slides."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_WINDOW_AND_SLIDE
from benchmarks.study import main

FIGURE = Curves(
    figure="13",
    title="memory for different windows and slides",
    metric="memory",
    parameters=ARBITRARY_WINDOW_AND_SLIDE,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
