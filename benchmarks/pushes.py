"""Realistic pushes: ids, times, rows out of order, small batches; DuckDB for comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record, np_max
from skyband import Monitor, TopK, TopKTotals, TotalsMonitor, last

K = 100
_BATCH = 1_000_000
_APART = 1_000  # microseconds between two rows
_DISORDER = 50_000  # rows within which the shuffled ones are out of order
_KEYS = 20_000


class Columns:
    """Scores as in TIME-U, with ids and times; the same rows out of order; keys for totals."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.rows = rows
        self.score = self._rng.random(rows)
        self.id = self._rng.permutation(rows)
        self.time = np.arange(rows, dtype=np.int64) * _APART
        self.key = self._rng.integers(0, _KEYS, rows)

    @cached_property
    def shuffled(self) -> Any:
        """Where each row of the stream out of order comes from."""
        return np.argsort(np.arange(self.rows) + self._rng.random(self.rows) * _DISORDER)


@dataclass(frozen=True)
class Line:
    """One way to push all rows; ``goal`` is millions of rows a second where np.max does 3,400."""

    name: str
    what: str
    push: Callable[[Columns], Iterator[object]]
    goal: float | None = None


def _parts(rows: int, size: int) -> Iterator[slice]:
    for low in range(0, rows, size):
        yield slice(low, low + size)


def _counted(with_ids: bool, size: int) -> Callable[[Columns], Iterator[object]]:
    def push(columns: Columns) -> Iterator[object]:
        monitor = Monitor(TopK(K, last(count=1_000_000, slide=1_000)))
        for part in _parts(columns.rows, size):
            yield monitor.push(columns.score[part], ids=columns.id[part] if with_ids else None)

    return push


def _timed(window: str, slide: str) -> Callable[[Columns], Iterator[object]]:
    def push(columns: Columns) -> Iterator[object]:
        monitor = Monitor(TopK(K, last(time=window, slide=slide)))
        for part in _parts(columns.rows, _BATCH):
            times = columns.time[part]
            yield monitor.push(
                columns.score[part], ids=columns.id[part], times=times, watermark=times[-1]
            )
        yield monitor.finish()

    return push


def _shuffled(window: str, slide: str) -> Callable[[Columns], Iterator[object]]:
    def push(columns: Columns) -> Iterator[object]:
        order = columns.shuffled
        score, ids, time = columns.score[order], columns.id[order], columns.time[order]
        monitor = Monitor(TopK(K, last(time=window, slide=slide)), delay=2 * _DISORDER * _APART)
        yield None  # the clock starts here
        for part in _parts(columns.rows, _BATCH):
            yield monitor.push(score[part], ids=ids[part], times=time[part])
        yield monitor.finish()

    return push


def _totals(columns: Columns) -> Iterator[object]:
    monitor = TotalsMonitor(TopKTotals(K, "sum", last(time="1 hour", slide="1 minute")))
    for part in _parts(columns.rows, _BATCH):
        times = columns.time[part]
        yield monitor.push(columns.key[part], columns.score[part], times=times, watermark=times[-1])
    yield monitor.finish()


def _duckdb(slide: int) -> Callable[[Columns], Iterator[object]]:
    def push(columns: Columns) -> Iterator[object]:
        names = ("score", "id", "time")
        table = pa.table({name: pa.array(getattr(columns, name)) for name in names})
        connection = duckdb.connect()
        connection.register("rows", table)
        yield None  # the clock starts here
        yield (
            connection.sql(
                f"SELECT time // {slide} AS pane, max_by(id, score, {K}) FROM rows GROUP BY 1"
            )
            .arrow()
            .read_all()
        )

    return push


LINES = (
    Line("scores", "count window, scores alone, a million at a time", _counted(False, _BATCH)),
    Line("ids", "count window, with ids", _counted(True, _BATCH), 150),
    Line("small", "count window, scores alone, 1,000 at a time", _counted(False, 1_000), 30),
    Line("timed", "1 hour by the minute, with ids", _timed("1 hour", "1 minute"), 60),
    Line("seconds", "1,000 seconds by the second, with ids", _timed("1000 seconds", "1 second")),
    Line("shuffled", "1 hour by the minute, out of order within 50,000 rows",
         _shuffled("1 hour", "1 minute"), 20),
    Line("totals", "1 hour by the minute, sums of 20,000 keys", _totals, 15),
    Line("duckdb", "DuckDB, max_by(id, score, 100) of each minute alone", _duckdb(60_000_000)),
    Line("duckdb seconds", "DuckDB, the same of each second", _duckdb(1_000_000)),
)  # fmt: skip


@dataclass(frozen=True)
class Pushes:
    """Each line over the same rows, in turns; the median wall-clock time of the turns."""

    rows: int = 20_000_000
    turns: int = 3
    lines: tuple[Line, ...] = LINES
    name: str = "pushes"

    @classmethod
    def sized(cls, quick: bool) -> Pushes:
        """Over 2x10^7 rows, or a fifth of them."""
        return cls(rows=4_000_000) if quick else cls()

    def collect(self) -> list[Record]:
        """One record per line, and one for ``np.max`` over the scores."""
        columns = Columns(self.rows)
        seconds: dict[str, list[float]] = {line.name: [] for line in self.lines}
        passes = []
        with report.progress("pushes", len(self.lines) * (self.turns + 1)) as step:
            warm = Columns(min(self.rows, 200_000), seed=1)
            for line in self.lines:
                _seconds(line, warm)
                step(f"warm {line.name}")
            for _ in range(self.turns):
                passes.append(np_max((columns.score,)))
                for line in self.lines:
                    seconds[line.name].append(_seconds(line, columns))
                    step(line.name)
        pace = 1e9 / float(np.median(passes))
        records = [_record("np.max", "one pass over the scores", self.rows, pace, pace, None)]
        for line in self.lines:
            speed = self.rows / float(np.median(seconds[line.name]))
            records.append(_record(line.name, line.what, self.rows, speed, pace, line.goal))
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table, then the goals."""
        speeds = {r["line"]: r["rows_per_s"] for r in records}
        duckdb_of = {"timed": "duckdb", "shuffled": "duckdb", "seconds": "duckdb seconds"}
        rows = [
            (
                r["line"], r["what"], f"{r['rows_per_s'] / 1e6:,.1f}", r["np_max_ratio"],
                report.ratio(r["rows_per_s"], speeds.get(duckdb_of.get(r["line"], ""))),
                "" if r["goal"] is None else f"{r['goal'] * speeds['np.max'] / 3.4e9:,.0f}",
            )
            for r in records
        ]  # fmt: skip
        console.print(
            report.table(
                f"What people push: {self.rows:,} rows, k = {K}, algorithm auto",
                ("line", "what", "M rows/s", "np.max /", "x DuckDB", "goal here, M"),
                rows,
                "Time on the clock of push alone, every answer included. DuckDB reads the same "
                "columns from memory, on all cores, and answers tumbling windows only. Goals are "
                "scaled by np.max: they were set where it does 3,400 M rows/s.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Bars in millions of rows a second, on a log axis."""
        figure, axes = report.panels(1, 1, "What people push, in rows a second", panel=(7.0, 3.8))
        panel = axes[0][0]
        lines = [r for r in records if r["line"] != "np.max"][::-1]
        values = [r["rows_per_s"] / 1e6 for r in lines]
        colours = ["#E69F00" if r["line"].startswith("duckdb") else "#0072B2" for r in lines]
        bars = panel.barh([r["line"] for r in lines], values, color=colours)
        panel.bar_label(bars, [report.number(v) for v in values], padding=3, fontsize=8)
        panel.set_xscale("log")
        panel.set_xlim(min(values) / 2, max(values) * 3)
        panel.set_xlabel("million rows per second")
        panel.grid(axis="y", visible=False)
        return report.save(figure, folder, self.name)


def _seconds(line: Line, columns: Columns) -> float:
    """Seconds on the clock; preparations, until a line yields None, are not counted."""
    began = time.perf_counter()
    for answers in line.push(columns):
        if answers is None:
            began = time.perf_counter()
        del answers
    return time.perf_counter() - began


def _record(
    line: str, what: str, rows: int, speed: float, pace: float, goal: float | None
) -> Record:
    return {
        "line": line,
        "what": what,
        "rows": rows,
        "k": K,
        "rows_per_s": speed,
        "np_max_ratio": pace / speed,
        "goal": goal,
    }
