"""Top-k dominating, Table 4: what 1,000 updates cost."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import ALGORITHMS, Sweep, grid
from benchmarks.study import main

STUDY = Sweep(
    figure="table4",
    title="cost of 1,000 updates",
    axis="k",
    points=grid(("ant",), ALGORITHMS, k=(16, 64, 256, 512)),
    metrics=("events", "exact_computations", "comparisons"),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
