"""Partial sums of a task as blocks: the rows of a shard and a pane together, as bytes.

So Python handles panes, not rows: neither the shuffle to the shards nor their state sees one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.spark.axis import PaneGrid
from skyband.spark.columns import POSITION
from skyband.spark.families.totals.sums import PartialSums
from skyband.spark.state.batch import tables
from skyband.spark.state.row_blocks import BLOCK, arrow_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_FRAME = struct.Struct("<BQ")  # number of a total, length of its bytes


@dataclass(frozen=True)
class SumBlockWriter:
    """Makes blocks of partial sums; ``groups`` are the columns that tell shards apart."""

    groups: tuple[str, ...]

    together: ClassVar[int] = 1_000_000  # rows that become blocks at once

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's rows: groups, pane, bytes."""
        for rows in tables(batches, self.together):
            yield from self.of_rows(rows)

    def of_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Blocks of partial sums, behind groups and pane."""
        (sums,) = rows.combine_chunks().to_batches()
        yield self.write(sums)

    def write(self, sums: pa.RecordBatch, number: int | None = None) -> pa.RecordBatch:
        """Cut partial sums, behind groups and pane, into blocks; frame one of several totals."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import codes

        width = len(self.groups) + 1
        groups = sums.columns[:width]
        code = codes(groups, sums.num_rows)
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        ends = np.append(first[1:], len(order))
        inside = sums.select(sums.schema.names[width:]).take(pa.array(order))
        cuts = zip(first.tolist(), ends.tolist(), strict=True)
        blocks = [arrow_bytes(inside.slice(low, high - low)) for low, high in cuts]
        if number is not None:
            blocks = [framed(number, block) for block in blocks]
        places = pa.array(order[first])
        return self._record_batch([column.take(places) for column in groups], blocks)

    def _record_batch(self, groups: list[Any], blocks: Sequence[bytes | None]) -> pa.RecordBatch:
        import pyarrow as pa

        names = [*self.groups, "pane", BLOCK]
        return pa.RecordBatch.from_arrays([*groups, pa.array(blocks, pa.binary())], names)


@dataclass(frozen=True)
class PaneAdder(SumBlockWriter):
    """Adds up rows by key and pane, and makes blocks of their partial sums.

    With ``also`` there are partial sums of each further total, of the columns that
    :func:`also_column` names.
    """

    sums: PartialSums
    grid: PaneGrid
    also: tuple[PartialSums, ...] = ()

    together: ClassVar[int] = 250_000

    def of_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Blocks of rows, and an empty one of the newest row that adds to nothing, if any."""
        yield from self._ranked(rows)
        for at, sums in enumerate(self.also):
            yield from self._carried(rows, at, sums)

    def _carried(self, rows: pa.Table, at: int, sums: PartialSums) -> Iterator[pa.RecordBatch]:
        """Blocks of a total that is carried."""
        import pyarrow.compute as pc

        names = [*self.groups, *sums.key, POSITION]
        rows = rows.select([*names, also_column(at)]).rename_columns([*names, sums.value])
        if not sums.takes_nulls:
            rows = rows.filter(pc.is_valid(rows[sums.value]))
        if rows.num_rows:
            yield self._added(rows, sums, at + 1)

    def _added(self, rows: pa.Table, sums: PartialSums, number: int | None) -> pa.RecordBatch:
        (batch,) = rows.combine_chunks().to_batches()
        panes = self.grid.pane(batch.column(POSITION).to_numpy())
        return self.write(sums.add_arrow(batch, self.groups, panes), number)

    def _ranked(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Blocks of the total that ranks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.sums.takes_nulls:
            ranked = pc.is_valid(rows[self.sums.value])
            others = rows.filter(pc.invert(ranked))
            if others.num_rows:  # it moves the watermark all the same
                newest = others.take([int(np.argmax(others[POSITION].to_numpy()))])
                pane = pa.array(self.grid.pane(newest[POSITION].to_numpy()))
                groups = [newest[name].combine_chunks() for name in self.groups]
                yield self._record_batch([*groups, pane], [None])
                rows = rows.filter(ranked)
        if rows.num_rows:
            yield self._added(rows, self.sums, 0 if self.also else None)


def also_column(at: int) -> str:
    """The column of the values of a total that is carried."""
    return f"_sky_also_{at}"


def framed(number: int, data: bytes) -> bytes:
    """The bytes of one of several totals, so that those of all can stand one behind the other."""
    return _FRAME.pack(number, len(data)) + data


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """What :func:`framed` put together: numbers of totals, and their bytes."""
    at = 0
    while at < len(data):
        number, length = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        yield number, data[at : at + length]
        at += length


@dataclass(frozen=True)
class SumBlocks:
    """Joins the partial sums of a pane that is still open, of one total or of several."""

    sums: PartialSums
    also: tuple[PartialSums, ...] = ()

    def read(self, data: bytes) -> list[bytes]:
        """The block as it is: what adds up closed panes reads it."""
        return [data]

    def join(self, blocks: list[bytes]) -> bytes:
        """Several blocks of a pane as one."""
        if len(blocks) == 1:
            return blocks[0]
        if not self.also:
            return self._added(self.sums, blocks)
        parts: dict[int, list[bytes]] = {}
        for block in blocks:
            for number, data in frames(block):
                parts.setdefault(number, []).append(data)
        totals = (self.sums, *self.also)
        return b"".join(
            framed(number, self._added(totals[number], same))
            for number, same in sorted(parts.items())
        )

    def _added(self, sums: PartialSums, blocks: list[bytes]) -> bytes:
        import pyarrow as pa

        if len(blocks) == 1:
            return blocks[0]
        parts = [pa.ipc.read_record_batch(pa.py_buffer(data), sums.arrow) for data in blocks]
        (rows,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return arrow_bytes(sums.add_again(rows))
