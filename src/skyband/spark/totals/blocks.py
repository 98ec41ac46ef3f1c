"""Partials of a task as blocks: the rows of a shard and a pane together, as bytes.

So Python handles panes, not rows: neither the shuffle to the shards nor their processor sees one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from skyband.spark.sharded.panes import names_of
from skyband.spark.totals.question import TotalsQuestion

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = "block"
_TOGETHER = 1_000_000  # partials that become blocks at once


@dataclass(frozen=True)
class Cut:
    """What a task has to know to make blocks: how many columns tell shards apart."""

    keys: int

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's partials."""
        import pyarrow as pa

        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(part.num_rows for part in held) >= _TOGETHER:
                yield self._blocks(pa.Table.from_batches(held))
                held = []
        if sum(part.num_rows for part in held):
            yield self._blocks(pa.Table.from_batches(held))

    def _blocks(self, rows: pa.Table) -> pa.RecordBatch:
        import pyarrow as pa

        from skyband.spark.totals.keys import codes

        (whole,) = rows.combine_chunks().to_batches()
        groups = whole.columns[: self.keys + 1]
        code = codes(groups, whole.num_rows)
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        ends = np.append(first[1:], len(order))
        inside = whole.select(whole.schema.names[self.keys + 1 :]).take(pa.array(order))
        cuts = zip(first.tolist(), ends.tolist(), strict=True)
        blocks = [packed(inside.slice(low, high - low)) for low, high in cuts]
        places = pa.array(order[first])
        return pa.RecordBatch.from_arrays(
            [*(column.take(places) for column in groups), pa.array(blocks, pa.binary())],
            [*whole.schema.names[: self.keys + 1], BLOCK],
        )


def packed(batch: pa.RecordBatch) -> bytes:
    """Rows as bytes, without their schema."""
    import pyarrow as pa

    # a slice would be written with all of its texts
    own = pa.RecordBatch.from_arrays(
        [pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema
    )
    return bytes(own.serialize())


def cut(partials: DataFrame, question: TotalsQuestion) -> DataFrame:
    """The blocks of each shard and pane: what tells shards apart, the pane, and the block."""
    names = names_of(question)
    types = [StructField(name, partials.schema[name].dataType) for name in names]
    schema = StructType([*types, StructField("pane", LongType()), StructField(BLOCK, BinaryType())])
    into = Cut(len(names))

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return into.blocks(batches)

    return partials.mapInArrow(run, schema)
