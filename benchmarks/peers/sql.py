"""DuckDB: SQL over the files, every row copied into its windows; or panes first, by hand."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from benchmarks.peers.question import Question
from benchmarks.spark.stream import SLIDE

_SLIDE = SLIDE * 1_000_000
_END = f"(pane + 1 + slide) * {_SLIDE} AS window_end"
_BEST = "unnest(max(score, {k})) AS score, unnest(max_by({column}, score, {k})) AS {column}"
"""Two lists in the same order, side by side."""


def direct(question: Question, source: Path, target: Path) -> None:
    """Copy every row into each of its windows, and group them."""
    copies = f"FROM {_read(source)} CROSS JOIN range({question.ratio}) AS slides(slide)"
    if question.kind == "rows":
        scored = f"SELECT {_END}, id, score {copies}"
    else:
        scored = f"SELECT {_END}, sector, sum(volume) AS score {copies} GROUP BY ALL"
    _write(question, scored, target)


def by_panes(question: Question, source: Path, target: Path) -> None:
    """Group the rows of each slide first, and copy only what is left into windows.

    DuckDB does not do so by itself; who knows the trick can write it.
    """
    slides = f"CROSS JOIN range({question.ratio}) AS slides(slide)"
    if question.kind == "rows":
        best = _BEST.format(column="id", k=question.k)
        panes = f"SELECT pane, {best} FROM {_read(source)} GROUP BY pane"
        scored = f"SELECT {_END}, id, score FROM ({panes}) {slides}"
    else:
        panes = f"SELECT pane, sector, sum(volume) AS volume FROM {_read(source)} GROUP BY ALL"
        summed = f"sum(volume) AS score FROM ({panes}) {slides}"
        scored = f"SELECT {_END}, sector, {summed} GROUP BY ALL"
    _write(question, scored, target)


def _read(source: Path) -> str:
    columns = f"epoch_us(ts) // {_SLIDE} AS pane, id, sector, volume, price * volume AS score"
    return f"(SELECT {columns} FROM read_parquet('{source}/*.parquet'))"


def _write(question: Question, scored: str, target: Path) -> None:
    """Take the best of each window, and write them, a row each."""
    column = "id" if question.kind == "rows" else "sector"
    best = _BEST.format(column=column, k=question.k)
    query = f"SELECT window_end, {best} FROM ({scored}) GROUP BY window_end"
    target.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = '{target.parent / 'duckdb'}'")
        connection.execute(f"SET threads = {os.cpu_count()}")
        connection.execute(f"COPY ({query}) TO '{target / 'answers.parquet'}' (FORMAT parquet)")
