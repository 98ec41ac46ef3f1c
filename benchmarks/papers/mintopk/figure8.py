"""MinTopk, Figure 8: memory for different k."""

from __future__ import annotations

from benchmarks.papers.mintopk.curves import Curves
from benchmarks.study import main

FIGURE = Curves(
    figure="8",
    title="memory for different k",
    metric="memory",
    dataset="stock",
    parameter="k",
    values=(10, 100, 1_000, 10_000),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
