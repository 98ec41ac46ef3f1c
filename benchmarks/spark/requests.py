"""The stream of totals: requests of two hours in Parquet files, generated once per run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SLIDE = 10  # seconds
SLIDES = 720
START = 1_700_000_000_000_000  # microseconds
SCHEMA = "ts timestamp, client bigint, bytes bigint"
_BLOCK = 100_000


def write(folder: Path, rows: int, total: int, files: int, clients: int) -> Path:
    """The first ``rows`` of ``total`` requests, which are spread evenly over two hours."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    edges = np.linspace(0, rows, files + 1).astype(int).tolist()
    for number, (low, high) in enumerate(pairwise(edges)):
        first = low - low % _BLOCK
        parts = [_requests(at, total, clients) for at in range(first, high, _BLOCK)]
        table = pa.concat_tables(parts).slice(low - first, high - low)
        pq.write_table(table, folder / f"part-{number:03d}.parquet", row_group_size=1 << 20)
    return folder


def _requests(first: int, total: int, clients: int) -> pa.Table:
    """A block of requests by number, the same whatever file they are in: few clients ask often."""
    chance = np.random.default_rng([13, first])
    number = np.arange(first, first + _BLOCK)
    jitter = chance.random(_BLOCK) * 2e6  # rows are up to two seconds out of order
    ts = START + number * (SLIDES * SLIDE * 1_000_000 / total) + jitter
    client = (clients ** chance.random(_BLOCK)).astype(np.int64)  # as many of 10 to 100 as above
    size = (64 * chance.pareto(1.2, _BLOCK) + 64).astype(np.int64)
    return pa.table(
        {
            "ts": pa.array(ts.astype("datetime64[us]"), pa.timestamp("us", tz="UTC")),
            "client": client * 7919 % 1_000_003,
            "bytes": np.minimum(size, 1 << 40),
        }
    )
