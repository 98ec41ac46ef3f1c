"""Partials of a task as blocks: the rows of a shard and a pane together, as bytes.

So Python handles panes, not rows: neither the shuffle to the shards nor their processor sees one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.order import Ints

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = "block"
_TOGETHER = 1_000_000  # partials that become blocks at once


@dataclass(frozen=True)
class Cut:
    """What a task has to know to make blocks: the columns that tell shards apart."""

    names: tuple[str, ...]

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's partials."""

        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(part.num_rows for part in held) >= _TOGETHER:
                yield self.cut(_joined(held))
                held = []
        if sum(part.num_rows for part in held):
            yield self.cut(_joined(held))

    def cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Blocks of partials, which begin with what tells shards apart, and the pane."""
        import pyarrow as pa

        from skyband.spark.families.totals.keys import codes

        groups = rows.columns[: len(self.names) + 1]
        code = codes(groups, rows.num_rows)
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        ends = np.append(first[1:], len(order))
        inside = rows.select(rows.schema.names[len(self.names) + 1 :]).take(pa.array(order))
        cuts = zip(first.tolist(), ends.tolist(), strict=True)
        blocks = [packed(inside.slice(low, high - low)) for low, high in cuts]
        places = pa.array(order[first])
        return self._told([column.take(places) for column in groups], blocks)

    def empty(self, names: list[Any], pane: Ints) -> pa.RecordBatch:
        """What is told of panes without partials."""
        import pyarrow as pa

        return self._told([*names, pa.array(pane)], [None] * len(pane))

    def _told(self, groups: list[Any], blocks: Sequence[bytes | None]) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [*groups, pa.array(blocks, pa.binary())], [*self.names, "pane", BLOCK]
        )


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    (found,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def packed(batch: pa.RecordBatch) -> bytes:
    """Rows as bytes, without their schema."""
    import pyarrow as pa

    # a slice would be written with all of its texts
    own = pa.RecordBatch.from_arrays(
        [pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema
    )
    return bytes(own.serialize())
