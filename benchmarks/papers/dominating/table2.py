"""Top-k dominating, Table 2: accuracy along error and probability."""

from __future__ import annotations

from benchmarks.papers.dominating.sweep import Sweep, hoeffding
from benchmarks.study import main

STUDY = Sweep(
    figure="table2",
    title="accuracy of AHBA along error and probability",
    axis="epsilon",
    points=hoeffding(("ant", "cover")),
    metrics=("accuracy",),
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
