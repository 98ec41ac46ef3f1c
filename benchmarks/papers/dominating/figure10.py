"""Top-k dominating, Figure 10: error and probability of the Hoeffding bound."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import DATASETS, Sweep, hoeffding, point
from benchmarks.study import main

STUDY = Sweep(
    figure="figure10",
    title="speed of AHBA along the error, beside ADA",
    axis="epsilon",
    points=(
        *hoeffding(DATASETS),
        *(point(dataset, label) for dataset in DATASETS for label in ("ada", "ada partial")),
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
