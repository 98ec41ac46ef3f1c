"""Rows that tasks read from files, added up there: blocks of partial sums are all that Spark sees.

A stream's tasks add up their rows in any case; those that read files need no rows from Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.spark.columns import POSITION
from skyband.spark.families.totals.blocks import PaneAdder, also_column
from skyband.spark.scan.hashes import xxhash64
from skyband.spark.scan.row_maker import Columns, RowMaker, ScannedRows
from skyband.spark.scan.values import without_nan
from skyband.spark.state.shards import SHARD


@dataclass(frozen=True)
class AddedByTasks(RowMaker):
    """Makes blocks of rows; ``shards`` has the name of each shard, by the remainder of a hash."""

    adder: PaneAdder
    shards: tuple[int, ...]

    hands_on: ClassVar[str] = "only partial sums"

    def made(self, rows: ScannedRows) -> Iterator[Columns]:
        """Blocks of the rows of a batch, whose numbers are the values of each total."""
        sums = self.adder.sums
        keys = [rows.columns[name] for name in sums.key]
        shard = np.array(self.shards, np.int32)[np.mod(xxhash64(keys), len(self.shards))]
        ranked, *others = map(_added_up, rows.values)
        table = pa.table(
            {
                **{name: rows.columns[name] for name in self.adder.groups if name != SHARD},
                SHARD: pa.array(shard),
                **dict(zip(sums.key, keys, strict=True)),
                POSITION: pa.array(rows.positions),
                sums.value: ranked,
                **{also_column(at): value for at, value in enumerate(others)},
            }
        )
        newest = int(rows.positions.max())
        for blocks in self.adder.of_rows(table):
            at = pa.array(np.full(blocks.num_rows, newest))
            yield {POSITION: at, **dict(zip(blocks.schema.names, blocks.columns, strict=True))}


def _added_up(value: Any) -> Any:
    """What is added up: a whole number or a double, and NULL for NaN."""
    return without_nan(value) if pa.types.is_floating(value.type) else value.cast(pa.int64())
