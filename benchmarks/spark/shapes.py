"""Lines of ``skyband bench spark`` for keys and for kept columns, beside the floor of each.

The best rows per key, of ever more keys: the floor is Spark's tumbling max per key. With many keys
only the first slides are read, so that all lines rank about as many keys and panes. Then a single
ranking that carries more columns. On few rows both ways of reading files are compared first: with
each other, row by row, and their scores with the oracle's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.stream import SLIDES

RATIO = 60
COLUMNS = {
    "two numbers": ("price", "volume"),
    "five mixed": ("id", "ts", "sector", "price", "volume"),
}
"""Kept columns, by what a table calls them."""

_COMPARED = 50_000  # rows
_OURS = ("skyband", "skyband-scan")
_TIMED = ("floor", *_OURS)


@dataclass(frozen=True)
class Shape:
    """A query: the k best of how many keys (0: a single ranking), and which columns are kept."""

    keys: int
    k: int
    columns: str

    @property
    def part(self) -> str:
        """What the line is about: keys, or columns."""
        return "keys" if self.keys else "columns"

    def slides(self, groups: int) -> int:
        """How many slides are read, so that there are at most so many keys and panes."""
        return max(2, min(SLIDES, groups // max(self.keys, 1)))

    def write(self, folder: Path, rows: int, total: int, files: int) -> Path:
        """The first of ``total`` trades of so many keys."""
        path = folder / f"keys-{self.keys}-{rows}-{total}"
        return stream.write(path, rows, total, files, self.keys or 20)

    def query(self, system: str, source: Any) -> Any:
        """What a system is asked of files."""
        from benchmarks.spark import systems

        by = "sector" if self.keys else None
        if system == "floor":
            return systems.floor(source.frame, RATIO, self.k, by)
        rows = source if system == systems.SCAN else source.frame
        keep = [name for name in COLUMNS[self.columns] if name != by]
        return systems.skyband(rows, RATIO, self.k, keep=keep, partition_by=by)


SHAPES = (
    *(Shape(keys, 10, "two numbers") for keys in (1, 500, 20_000)),
    *(Shape(0, 100, columns) for columns in COLUMNS),
)
QUICK = (Shape(500, 10, "two numbers"), Shape(0, 100, "five mixed"))


@dataclass(frozen=True)
class Shapes:
    """Systems and shapes, over the beginning of a stream of so many rows."""

    shapes: tuple[Shape, ...]
    rows: int
    groups: int  # keys and panes of a line, at most
    files: int
    per_trigger: int
    repeats: int

    def measure(self, spark: Any, home: Path) -> list[Record]:
        """A record per shape and system; raises if answers differ."""
        from benchmarks.spark.systems import files, timed

        def run(shape: Shape, system: str, folder: Path) -> Record:
            source = files(spark, folder, self.per_trigger)
            took = timed(shape.query(system, source), home / system)
            return {
                "part": shape.part,
                "system": system,
                "window_over_slide": RATIO,
                "k": shape.k,
                "keys": shape.keys,
                "columns": shape.columns,
                "rows": took.rows,
                "seconds": took.seconds,
                "rows_per_s": took.rows / took.seconds,
                "state_bytes": took.state_bytes,
            }

        records: list[Record] = []
        with report.progress("spark, keys and columns", len(self.shapes)) as step:
            for shape in self.shapes:
                few = shape.write(home, _COMPARED, _COMPARED, 4)
                for system in _TIMED:  # compiles what each of them needs, too
                    run(shape, system, few)
                _compare(home, few, shape)
                rows = self.rows * shape.slides(self.groups) // SLIDES
                folder = shape.write(home, rows, self.rows, self.files)
                runs = [
                    run(shape, system, folder) for _ in range(self.repeats) for system in _TIMED
                ]
                for system in _TIMED:
                    same = [r for r in runs if r["system"] == system]
                    records.append(min(same, key=lambda r: r["seconds"]))
                step(f"{shape.keys:,} keys" if shape.keys else shape.columns)
        return records


def show(records: list[Record], console: Console) -> None:
    """One table."""
    rows = []
    for r in records:
        floor = _beside(records, r)["floor"]
        rows.append(
            (
                r["keys"] or "none", r["k"], r["columns"], r["system"], r["rows"], r["seconds"],
                r["rows_per_s"], report.ratio(floor, r["rows_per_s"]),
                report.size(r["state_bytes"]),
            )
        )  # fmt: skip
    console.print(
        report.table(
            f"Keys and kept columns, window/slide {RATIO}",
            ("keys", "k", "columns", "system", "rows", "s", "rows/s", "x floor time", "state"),
            rows,
            "floor: Spark's tumbling max per pane, and per key. Of many keys the first slides are "
            "read, at most as many as give no more keys and panes than the other lines have. Both "
            "ways of reading files gave the same rows, and the oracle's scores, on "
            f"{_COMPARED:,} rows.",
        )
    )  # fmt: skip


def goals(records: list[Record]) -> list[tuple[str, str, float, str]]:
    """What rankings per key must reach, as far as the records show."""
    rows: list[tuple[str, str, float, str]] = []
    for r in records:
        if r["system"] in _OURS and r["keys"] > 1:
            cost = _beside(records, r)["floor"] / r["rows_per_s"]
            label = f"per key, {r['keys']:,} keys: {r['system']}, time / floor's"
            rows.append((label, "at most 2.5", cost, "yes" if cost <= 2.5 else "NO"))
    return rows


def _beside(records: list[Record], record: Record) -> dict[str, float]:
    """Rows per second of each system in the same line."""
    same = ("keys", "k", "columns")
    return {
        r["system"]: r["rows_per_s"]
        for r in records
        if all(r[name] == record[name] for name in same)
    }


def _compare(home: Path, part: Path, shape: Shape) -> None:
    """Raise unless both ways gave the same rows, with the oracle's scores."""
    spark_reads, tasks_read = (_ranked(home / system / "out", shape) for system in _OURS)
    line = f"{shape.keys:,} keys, {shape.columns}"
    if not spark_reads.equals(tasks_read):
        raise AssertionError(
            f"{line}: {_OURS[0]} has {spark_reads.num_rows:,} rows, {_OURS[1]} "
            f"{tasks_read.num_rows:,}, and they are not the same"
        )
    assert spark_reads.num_rows, "nothing was answered"
    names = ["end", *(["sector"] if shape.keys else []), "rank", "score"]
    scores = spark_reads.select(names)
    until = max(scores["end"].to_pylist())
    expected = stream.ranked(part, RATIO, shape.k, until, by_sector=shape.keys > 0)
    if not scores.equals(expected.select(names).cast(scores.schema)):
        raise AssertionError(
            f"{line}: {scores.num_rows:,} rows and the {expected.num_rows:,} of the oracle are not "
            "the same"
        )


def _ranked(folder: Path, shape: Shape) -> pa.Table:
    """What was written, in order: the end of a window in microseconds, keys, ranks, the rest."""
    table = pq.read_table(folder)
    end = table["window"].combine_chunks().field("end").cast(pa.timestamp("us")).cast(pa.int64())
    table = table.drop_columns("window").append_column("end", end)
    keys = ["sector"] if shape.keys else []
    order = [(name, "ascending") for name in ("end", *keys, "rank")]
    return table.sort_by(order).combine_chunks().replace_schema_metadata()
