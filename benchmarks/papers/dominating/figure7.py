"""Top-k dominating, Figure 7: windows of one to five million points."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import Sweep, grid
from benchmarks.study import main

STUDY = Sweep(
    figure="figure7",
    title="speed along the window",
    axis="n",
    points=grid(
        ("ind", "ant"),
        ("bfa", "eva", "ada", "ada partial", "contenders"),
        n=range(1_000_000, 5_000_001, 1_000_000),
    ),
    remark="BFA begins with estimated scores: counting them would take hours.",
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
