"""Rows of a stream's tasks as blocks: of each key and pane the rows that may still win, as bytes.

Spark's own aggregation of a stream hands a pane over when it is closed. Blocks are handed over in
every micro-batch, and what keeps them joins those of a pane: so windows can be shown while they are
open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from skyband.order import Ints, as_good_as_kth, place_in_group
from skyband.query import RankBy
from skyband.spark.columns import LABEL, POSITION
from skyband.spark.state.batch import tables

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = "block"
CLOSES, NEWEST, PANE = "closes", "newest", "pane"
BESIDE = (LABEL, CLOSES, PANE, NEWEST, BLOCK)
"""What a block has besides the columns that tell keys apart."""

WATERMARK = "spark.watermarkDelayMs"
"""What Spark marks the column of a watermark with: its delay."""

_ROWS_PER_BLOCK = 250_000  # rows of a task that become blocks at once


@dataclass(frozen=True)
class Best:
    """The k best rows by a score: ``order`` names the score, then what breaks ties.

    The best come first: each column falls, or, of ``rising`` ones, rises. Where rows of equal score
    share a rank, as ``rank_by`` says, all rows of rank k or less are the best.
    """

    k: int
    order: tuple[str, ...]
    rising: tuple[str, ...] = ()
    rank_by: RankBy = "row_number"

    @property
    def score(self) -> str:
        """The column of the score."""
        return self.order[0]

    def places(self, rows: pa.RecordBatch, groups: Ints) -> Ints:
        """Where the k best rows of each group are, group after group, the best first."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import sorted_places

        score = rows.column(self.score)
        ranked = np.flatnonzero(score.is_valid().to_numpy(zero_copy_only=False))
        rising = score.take(pa.array(ranked)).to_numpy()
        dense = self.rank_by == "dense_rank"
        ranked = ranked[as_good_as_kth(rising, groups[ranked], self.k, dense)]
        places = pa.array(ranked)
        columns = [rows.column(name).take(places) for name in self.order]
        falling = [name not in self.rising for name in self.order]
        order = ranked[sorted_places([pa.array(groups[ranked]), *columns], [False, *falling])]
        if self.rank_by != "row_number":
            return order
        best: Ints = order[place_in_group(groups[order]) < self.k]
        return best


@dataclass(frozen=True)
class RowBlocks:
    """Reduces rows to the best of each key and pane; plain values only, for workers get it.

    ``groups`` tell keys apart, ``row`` is the layout of a row in a block. A row stays if it is
    among the ``best`` by any of several scores; without them all rows with a ``score`` stay, in
    rising order of ``order``.
    """

    groups: tuple[str, ...]
    row: StructType
    best: tuple[Best, ...] = ()
    score: str = ""
    order: tuple[str, ...] = ()

    @cached_property
    def arrow(self) -> pa.Schema:
        """The layout of a row in Arrow."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.row)

    def of_rows(self, rows: DataFrame, pane: Column, closes: Column, delay: int) -> DataFrame:
        """Blocks of the rows of each task, which have labels: keys, :data:`BESIDE`.

        A block ``closes`` with a window, and is NULL where no row has a score; ``delay`` is that of
        the watermark, in milliseconds.
        """
        names = list(dict.fromkeys([*self.row.names, POSITION]))
        laid_out = rows.select(*self.groups, LABEL, closes.alias(CLOSES), pane.alias(PANE), *names)
        fields = [StructField(name, rows.schema[name].dataType) for name in self.groups]
        # rows that Python hands back are nobody's to Spark: say again which column is watermarked
        label = StructField(LABEL, rows.schema[LABEL].dataType, True, {WATERMARK: delay})
        numbers = [StructField(name, LongType()) for name in (CLOSES, PANE, NEWEST)]
        block = StructField(BLOCK, BinaryType())
        return laid_out.mapInArrow(self.blocks, StructType([*fields, label, *numbers, block]))

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's rows."""
        for table in tables(batches, _ROWS_PER_BLOCK):
            (rows,) = table.combine_chunks().to_batches()
            yield self._blocks(rows)

    def _blocks(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from skyband.spark.state.arrow_order import codes

        group_columns = [rows.column(name) for name in (*self.groups, PANE)]
        groups = codes(group_columns, rows.num_rows)
        newest = np.full(int(groups.max()) + 1, -(1 << 63), np.int64)
        np.maximum.at(newest, groups, rows.column(POSITION).to_numpy())
        first = np.unique(groups, return_index=True)[1]
        places = self._places(rows, groups)
        cuts = np.searchsorted(groups[places], np.arange(len(newest) + 1)).tolist()
        inside = rows.select(self.row.names).take(pa.array(places))
        data = [
            arrow_bytes(inside.slice(low, high - low)) if low < high else None
            for low, high in pairwise(cuts)
        ]
        firsts = pa.array(first)
        names = [*self.groups, LABEL, CLOSES, PANE]
        beside = [rows.column(name).take(firsts) for name in names]
        return pa.RecordBatch.from_arrays(
            [*beside, pa.array(newest), pa.array(data, pa.binary())], [*names, NEWEST, BLOCK]
        )

    def _places(self, rows: pa.RecordBatch, groups: Ints) -> Ints:
        """The rows that stay, group after group."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import sorted_places

        if self.best:
            parts = [best.places(rows, groups) for best in self.best]
            if len(parts) == 1:
                return parts[0]
            places = np.unique(np.concatenate(parts))
            return places[np.argsort(groups[places], kind="stable")]
        ranked = np.flatnonzero(rows.column(self.score).is_valid().to_numpy(zero_copy_only=False))
        taken = pa.array(ranked)
        columns = [rows.column(name).take(taken) for name in self.order]
        keys = [pa.array(groups[ranked]), *columns]
        return ranked[sorted_places(keys, [False] * len(keys))]

    def read(self, data: bytes) -> list[pa.RecordBatch]:
        """The rows of a block in their order; if they are the best by several scores, by each."""
        import pyarrow as pa

        rows = self._read(data)
        if len(self.best) < 2:
            return [rows]
        together = np.zeros(rows.num_rows, np.int64)
        return [rows.take(pa.array(best.places(rows, together))) for best in self.best]

    def _read(self, data: bytes) -> pa.RecordBatch:
        import pyarrow as pa

        if not data:
            return pa.RecordBatch.from_pylist([], self.arrow)
        return pa.ipc.read_record_batch(pa.py_buffer(data), self.arrow)

    def join(self, blocks: list[bytes]) -> bytes:
        """Several blocks of a pane as one."""
        import pyarrow as pa

        if len(blocks) == 1:
            return blocks[0]
        table = pa.Table.from_batches([self._read(data) for data in blocks])
        (rows,) = table.combine_chunks().to_batches()
        places = self._places(rows, np.zeros(rows.num_rows, np.int64))
        return arrow_bytes(rows.take(pa.array(places)))


def arrow_bytes(batch: pa.RecordBatch) -> bytes:
    """Rows as bytes, without their schema."""
    import pyarrow as pa

    # a slice would be written with all of its texts
    alone = pa.RecordBatch.from_arrays(
        [pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema
    )
    return bytes(alone.serialize())
