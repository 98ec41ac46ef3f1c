"""MinTopk, Figure 13: response time per window under non-uniform arrival rates."""

from __future__ import annotations

from benchmarks.papers.mintopk.response import Response
from benchmarks.study import main

FIGURE = Response()

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
