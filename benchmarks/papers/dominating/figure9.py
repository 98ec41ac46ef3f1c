"""Top-k dominating, Figure 9: the number of answers."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import ALGORITHMS, DATASETS, Sweep, grid
from benchmarks.study import main

STUDY = Sweep(
    figure="figure9",
    title="speed along k",
    axis="k",
    points=grid(DATASETS, ALGORITHMS, k=(1, 4, 16, 64, 256, 512)),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
