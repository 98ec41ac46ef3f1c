"""MTopS, Figure 10: CPU time for different slides."""

from __future__ import annotations

from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.workloads import ARBITRARY_SLIDE
from benchmarks.study import main

FIGURE = Curves(
    figure="10",
    title="CPU time for different slides",
    metric="cpu",
    parameters=ARBITRARY_SLIDE,
    remark=(
        "The text of this figure has slides of 100,000 to 1,000,000; these are 10,000 to 100,000, "
        "as it says of all experiments, and as the many windows per slide that it speaks of need."
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
