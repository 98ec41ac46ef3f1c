"""Top-k dominating, Figure 11: how many obsolete events are kept."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import Sweep, grid, point
from benchmarks.study import main

STUDY = Sweep(
    figure="figure11",
    title="obsolete events kept",
    axis="obsolete",
    points=(
        *grid(
            ("ant",),
            ("ada", "ada partial", "ahba", "amsa", "amsa paper"),
            obsolete=(0.01, 0.1, 0.25, 0.5, 0.75, 1.0),
        ),
        point("ant", "eva"),
    ),
    metrics=("updates_per_s", "events", "state_bytes"),
    remark="The paper's memory is the worst over its data sets, with all obsolete events kept.",
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
