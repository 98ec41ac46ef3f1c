"""MinTopk, Figure 12: memory for different slides."""

from __future__ import annotations

from benchmarks.papers.mintopk.curves import Curves
from benchmarks.study import main

FIGURE = Curves(
    figure="12",
    title="memory for different slides",
    metric="memory",
    dataset="stock",
    parameter="s",
    values=(100, 1_000, 10_000, 100_000),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
