"""``skyband generate``: a data set as a file."""

from __future__ import annotations

import sys
from typing import Any

from skyband.cli import options, progress
from skyband.datasets import dataset, write
from skyband.datasets.arrivals import Rate


def run(name: str, rows: str, seed: str, out: str, rate: str, **shape: str | float | None) -> None:
    """Write the first rows of a data set; ``shape`` is what some of them let people choose."""
    given: dict[str, Any] = {
        option: options.whole(value, f"--{option}", example=3) if isinstance(value, str) else value
        for option, value in shape.items()
        if value is not None
    }
    found = dataset(name.lower().replace("-", "_"), **given)
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
    ways = " ".join(f"--on {name}:{way}" for name, way in found.dimensions)
    meant = f"dimensions: {ways}" if ways else f"score: {found.score}"
    if found.seen is not None:
        meant = "objects: --id {} --stream {} --value {}".format(*found.seen)
    print(f"skyband: wrote {written:,} rows to {out}; {meant}", file=sys.stderr)
