"""MinTopk, Figure 9: CPU time for different windows."""

from __future__ import annotations

from benchmarks.papers.mintopk.curves import Curves
from benchmarks.study import main

FIGURE = Curves(
    figure="9",
    title="CPU time for different windows",
    metric="cpu",
    dataset="gmti",
    parameter="n",
    values=(1_000, 10_000, 100_000, 1_000_000),
)

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
