"""MinTopk, Figure 7: CPU time for different k."""

from __future__ import annotations

from benchmarks.papers.mintopk.curves import Curves
from benchmarks.study import main

FIGURE = Curves(
    figure="7",
    title="CPU time for different k",
    metric="cpu",
    dataset="stock",
    parameter="k",
    values=(10, 100, 1_000, 10_000),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
