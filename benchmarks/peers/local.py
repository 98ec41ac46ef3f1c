"""Skyband without Spark: files read with Arrow, row by row pushed into a monitor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.peers.question import Question
from benchmarks.spark.stream import SLIDE
from skyband import Monitor, TopK, TopKTotals, TotalsMonitor, last

_DELAY = f"{SLIDE} seconds"
_WARM = 100_000  # rows


def prepare(question: Question) -> None:
    """Compile, or load, the kernels that a question needs, as everywhere in the benchmarks.

    So many rows at once take the ways through the code that a file takes.
    """
    chance = np.random.default_rng(0)
    times = np.sort(chance.integers(0, 40 * SLIDE * 1_000_000, _WARM))
    values = chance.integers(1, 1000, _WARM)
    if question.kind == "rows":
        monitor = _monitor(question)
        assert monitor.algorithm.name  # "auto" would answer few rows with NumPy
        monitor.push(values.astype(float), ids=np.arange(_WARM), times=times)
        monitor.finish()
    else:
        totals = _totals_monitor(question)
        totals.push(values, values, times=times)
        totals.finish()


def answer(question: Question, source: Path, target: Path) -> None:
    """Push file after file, and write what is ranked as it comes."""
    target.mkdir(parents=True, exist_ok=True)
    ranked = _rows(question, source) if question.kind == "rows" else _totals(question, source)
    writer = None
    for table in ranked:
        if writer is None:
            writer = pq.ParquetWriter(target / "answers.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _window(question: Question) -> Any:
    return last(time=f"{question.seconds} seconds", slide=f"{SLIDE} seconds")


def _monitor(question: Question) -> Monitor:
    return Monitor(TopK(question.k, _window(question)), delay=_DELAY)


def _totals_monitor(question: Question) -> TotalsMonitor:
    query = TopKTotals(question.k, "sum", _window(question), numbers="int64")
    return TotalsMonitor(query, delay=_DELAY)


def _rows(question: Question, source: Path) -> Iterator[pa.Table]:
    monitor = _monitor(question)
    for file in sorted(source.glob("*.parquet")):
        table = pq.read_table(file, columns=["ts", "id", "price", "volume"]).combine_chunks()
        scores = pc.multiply(table["price"], table["volume"])
        yield monitor.push(scores, ids=table["id"], times=table["ts"]).to_arrow()
    yield monitor.finish().to_arrow()


def _totals(question: Question, source: Path) -> Iterator[pa.Table]:
    monitor = _totals_monitor(question)
    numbers: dict[str, int] = {}  # of sectors, as they come

    def named(table: pa.Table) -> pa.Table:
        names = pa.array(list(numbers)).take(table["id"].combine_chunks())
        return table.drop_columns("id").append_column("sector", names)

    for file in sorted(source.glob("*.parquet")):
        table = pq.read_table(
            file, columns=["ts", "sector", "volume"], read_dictionary=["sector"]
        ).unify_dictionaries()
        sectors = table["sector"].combine_chunks()
        known = [numbers.setdefault(s, len(numbers)) for s in sectors.dictionary.to_pylist()]
        keys = np.array(known)[sectors.indices.to_numpy()]
        yield named(monitor.push(keys, table["volume"], times=table["ts"]).to_arrow())
    yield named(monitor.finish().to_arrow())
