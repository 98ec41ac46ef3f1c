"""Top-k dominating, Table 3: accuracy along k."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import DATASETS, Sweep, grid
from benchmarks.study import main

STUDY = Sweep(
    figure="table3",
    title="accuracy along k",
    axis="k",
    points=grid((*DATASETS, "cor"), ("ahba", "amsa", "amsa paper"), k=(16, 64, 256, 512)),
    metrics=("accuracy",),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
