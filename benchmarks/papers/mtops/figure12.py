"""MTopS, Figure 12: CPU time for different windows and slides."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_WINDOW_AND_SLIDE
from benchmarks.study import main

FIGURE = Curves(
    figure="12",
    title="CPU time for different windows and slides",
    metric="cpu",
    parameters=ARBITRARY_WINDOW_AND_SLIDE,
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
