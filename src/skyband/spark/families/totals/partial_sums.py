"""Rows of a stream to partials, task by task, in Arrow: what each key adds up to in each pane.

Spark's own aggregation of a stream writes a row of state for each key and pane, which costs more
than all the rest. So a stream is added up before Spark sees keys: its tasks make blocks of a pane
and shard, and Spark's state holds these. Batches, which keep no state, are added up by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.order import Bools, Floats, Ints
from skyband.spark.families.totals.blocks import Cut
from skyband.spark.families.totals.partials import BUCKET, EXACT, HIGHEST, LOWEST, ROWS, WIDTH
from skyband.spark.panes import AT, SCORE

if TYPE_CHECKING:
    import pyarrow as pa

_TOGETHER = 250_000  # rows that are added up at once
_BELOW = 12
_PART = 32


@dataclass(frozen=True)
class Adding:
    """What a task has to know to add rows up; plain values only.

    ``names`` tell shards apart, ``key`` are the columns of the key; ``slide``, ``rest`` (by how
    much the window is longer than whole slides) and ``offset`` place panes.
    """

    names: tuple[str, ...]
    key: tuple[str, ...]
    held: str
    by: str
    slide: int
    rest: int
    offset: int

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's rows."""
        import pyarrow as pa

        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(part.num_rows for part in held) >= _TOGETHER:
                yield from self._blocks(pa.Table.from_batches(held))
                held = []
        if sum(part.num_rows for part in held):
            yield from self._blocks(pa.Table.from_batches(held))

    def _blocks(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Blocks of rows, and an empty one of the newest row that adds to nothing, if any."""
        import pyarrow.compute as pc

        ranked = pc.is_valid(rows[self.value])
        others = rows.filter(pc.invert(ranked))
        cut = Cut(self.names)
        if others.num_rows:  # it moves the watermark all the same
            newest = others.take([int(np.argmax(others[AT].to_numpy()))])
            pane = self.panes(newest[AT].to_numpy())
            yield cut.empty([newest[name].combine_chunks() for name in self.names], pane)
            rows = rows.filter(ranked)
        if rows.num_rows:
            (batch,) = rows.combine_chunks().to_batches()
            yield cut.cut(self.added(batch))

    @property
    def value(self) -> str:
        """The column that is added up."""
        return EXACT if self.held in ("ints", "longs") else SCORE

    def panes(self, at: Ints) -> Ints:
        """The pane number of each row, as ``aggregation.pane_number`` tells it."""
        step = (at - self.offset) // self.slide
        inside = at - self.offset - step * self.slide
        half = inside >= self.slide - self.rest if self.rest else np.zeros(len(at), np.bool_)
        found: Ints = 2 * (step + 1) + half
        return found

    def added(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A row per key and pane, laid out as by ``partials``."""
        import pyarrow as pa

        from skyband.spark.families.totals.keys import codes

        at = rows.column(AT).to_numpy()
        columns: dict[str, Any] = {}
        same = [pa.array(self.panes(at)), *(rows.column(n) for n in (*self.names[:-1], *self.key))]
        if self.held == "doubles":
            bucket, parts = cut_doubles(rows.column(self.value).to_numpy())
            columns |= {f"part_{i}": part for i, part in enumerate(parts)}
            same.append(pa.array(bucket))
        elif self.held == "longs":
            exact = rows.column(self.value).to_numpy()
            columns |= {"part_0": exact >> _PART, "part_1": exact & ((1 << _PART) - 1)}
        elif self.held in ("ints", "extremes"):
            columns["part_0"] = rows.column(self.value)
        parts_by = self.by if self.held == "extremes" else "sum"
        wanted = [("first", "min"), (AT, "max"), *((name, parts_by) for name in columns)]
        if self.by in ("count", "mean"):
            wanted.append(("first", "count"))
        table = pa.table(
            {
                "code": codes(same, len(at)),
                "first": np.arange(len(at)),
                AT: rows.column(AT),
                **columns,
            }
        )
        found = table.group_by("code", use_threads=False).aggregate(wanted).combine_chunks()
        first = found["first_min"]
        laid: dict[str, Any] = {n: rows.column(n).take(first) for n in self.names}
        laid |= {"pane": same[0].take(first), AT: found[f"{AT}_max"]}
        laid |= {name: rows.column(name).take(first) for name in self.key}
        if self.held == "doubles":
            laid[BUCKET] = same[-1].take(first)
        if self.by in ("count", "mean"):
            laid[ROWS] = found["first_count"]
        laid |= {name: found[f"{name}_{parts_by}"] for name in columns}
        (batch,) = pa.table(laid).combine_chunks().to_batches()
        return batch


def cut_doubles(values: Floats) -> tuple[Any, list[Ints]]:
    """The bucket of each value, and its three parts in it, as ``partials`` has them."""
    infinite: Bools = np.isinf(values)
    finite = np.where(infinite, 0.0, values)
    power = np.where(finite == 0, 0, np.frexp(finite)[1] - 1)
    bucket = np.maximum((power + _BELOW) // WIDTH, LOWEST)
    scaled = np.ldexp(finite, -WIDTH * bucket)
    parts: list[Ints] = []
    for _ in range(3):
        whole = scaled.astype(np.int64)
        parts.append(whole)
        scaled = np.ldexp(scaled - whole, _PART)
    beyond = np.where(values > 0, HIGHEST + 1, LOWEST - 1)
    return np.where(infinite, beyond, bucket).astype(np.int32), parts
