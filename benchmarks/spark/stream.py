"""The stream: trades of two hours in Parquet files, generated once per run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SLIDE = 10  # seconds
SLIDES = 720
START = 1_700_000_000_000_000  # microseconds
SCHEMA = "ts timestamp, id bigint, sector string, price double, volume bigint"
SECTORS = pa.array([f"sector {i:02d}" for i in range(20)])


def write(folder: Path, rows: int, total: int, files: int, keys: int = 20) -> Path:
    """The first ``rows`` of ``total`` trades, which are spread evenly over two hours."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    edges = np.linspace(0, rows, files + 1).astype(int)
    for number in range(files):
        low, high = int(edges[number]), int(edges[number + 1])
        pq.write_table(
            trades(low, high, total, keys),
            folder / f"part-{number:03d}.parquet",
            row_group_size=1 << 20,
        )
    return folder


def trades(low: int, high: int, total: int, keys: int = 20) -> pa.Table:
    """Some of ``total`` trades, the same in whatever file: they are random by blocks."""
    gap = SLIDES * SLIDE * 1_000_000 / total
    block = 100_000
    parts = []
    for first in range(low - low % block, high, block):
        chance = np.random.default_rng([7, first])
        id = np.arange(first, first + block)
        jitter = chance.random(block) * 2e6  # rows are up to two seconds out of order
        ts = (START + id * gap + jitter).astype("datetime64[us]")
        key = chance.integers(0, keys, block)
        price = chance.normal(100.0, 15.0, block)
        volume = chance.integers(1, 1000, block)
        inside = slice(max(low - first, 0), min(high - first, block))
        sector = (
            SECTORS.take(pa.array(key[inside])) if keys <= len(SECTORS) else _names(key[inside])
        )
        parts.append(
            pa.table(
                {
                    "ts": pa.array(ts[inside], pa.timestamp("us", tz="UTC")),
                    "id": id[inside],
                    "sector": sector,
                    "price": price[inside],
                    "volume": volume[inside],
                }
            )
        )
    return pa.concat_tables(parts)


def _names(keys: np.ndarray) -> pa.Array:
    return pa.array([f"key {key}" for key in keys.tolist()])


def windows(folder: Path, size: int, k: int, until: int) -> dict[int, list[float]]:
    """The oracle: each window's k best scores, by sorting it. Bounds in microseconds."""
    at, score = scores(folder)
    slide, length = SLIDE * 1_000_000, size * 1_000_000
    best_scores: dict[int, list[float]] = {}
    end = (int(at[0]) // slide + 1) * slide
    while end <= until:
        low, high = np.searchsorted(at, [end - length, end])
        inside = score[low:high]
        if len(inside):
            best_scores[end] = np.sort(inside)[::-1][:k].tolist()
        end += slide
    return best_scores


def ranked(folder: Path, ratio: int, k: int, until: int, by_sector: bool) -> pa.Table:
    """The oracle for all windows at once: every row in each of its windows, sorted, and cut at k.

    In the order of window ends, sectors and ranks; windows are so many slides long, and end at
    ``until`` at the latest.
    """
    table = pq.read_table(folder, columns=["ts", "id", "sector", "price", "volume"])
    at = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    score = table["price"].to_numpy() * table["volume"].to_numpy()
    slide = SLIDE * 1_000_000
    names, sector = np.unique(table["sector"].to_numpy(zero_copy_only=False), return_inverse=True)
    if not by_sector:
        sector = np.zeros_like(sector)
    end = ((at // slide + 1)[:, None] + np.arange(ratio)).ravel() * slide
    row = np.repeat(np.arange(len(at)), ratio)[end <= until]
    end = end[end <= until]
    order = np.lexsort((-at[row], -score[row], sector[row], end))
    end, row = end[order], row[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (end[1:] != end[:-1]) | (sector[row][1:] != sector[row][:-1])
    starts = np.flatnonzero(begins)
    rank = np.arange(1, len(row) + 1) - np.repeat(starts, np.diff([*starts, len(row)]))
    best = rank <= k
    return pa.table(
        {
            "end": end[best],
            "sector": names[sector[row[best]]],
            "rank": rank[best],
            "score": score[row[best]],
        }
    )


def scores(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Times in microseconds, ascending, and scores of all rows."""
    table = pq.read_table(folder, columns=["ts", "price", "volume"])
    at = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    score = table["price"].to_numpy() * table["volume"].to_numpy()
    order = np.argsort(at, kind="stable")
    return at[order], score[order]
