"""Top-k dominating, Figure 8: dimensions."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import ALGORITHMS, Sweep, grid
from benchmarks.study import main

STUDY = Sweep(
    figure="figure8",
    title="speed along the dimensions",
    axis="d",
    points=(
        *grid(("ind", "ant", "cover"), ALGORITHMS, d=range(2, 7)),
        *grid(("homes",), ALGORITHMS, d=range(2, 6)),
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
