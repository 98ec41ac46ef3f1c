"""``skyband generate``: a data set as a file."""

from __future__ import annotations

import sys

from skyband.cli import options, progress
from skyband.datasets import dataset, write
from skyband.datasets.arrivals import Rate


def run(name: str, rows: str, seed: str, out: str, rate: str) -> None:
    """Write the first rows of a data set."""
    found = dataset(name.lower().replace("-", "_"))
    count = options.whole(rows, "--rows")
    start = options.whole(seed, "--seed", least=0)
    options.choice(rate, "--rate", ("even", "bursty"))
    pace: Rate = "bursty" if rate == "bursty" else "even"
    with progress.rows_done(f"generating {found.name}", count) as watch:
        before = 0

        def told(done: int) -> None:
            nonlocal before
            watch(done - before)
            before = done

        written = write(found, out, rows=count, seed=start, rate=pace, progress=told)
    print(f"skyband: wrote {written:,} rows to {out}; score: {found.score}", file=sys.stderr)
