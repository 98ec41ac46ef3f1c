"""MinTopk, Figure 10: memory for different windows."""

from __future__ import annotations

from benchmarks.papers.mintopk.curves import Curves
from benchmarks.study import main

FIGURE = Curves(
    figure="10",
    title="memory for different windows",
    metric="memory",
    dataset="gmti",
    parameter="n",
    values=(1_000, 10_000, 100_000, 1_000_000),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
