"""The counts of all shards, summed, and the best of each window.

All shards answer a window in the same micro-batch, so nothing has to be remembered: one task gets
what they counted, a few numbers per candidate, and no points.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from skyband.order import Ints
from skyband.spark.families.dominating.blocks import SHARD
from skyband.spark.state.batch import batch_of
from skyband.spark.state.processor import answer_fields

if TYPE_CHECKING:
    import pyarrow as pa

_TOGETHER = 100_000  # ranked rows that are handed over at once


def ranked(counted: DataFrame, k: int, types: tuple[DataType, ...]) -> DataFrame:
    """One row per window, in the layout of ``answer_fields``."""
    schema = StructType(list(answer_fields(types, False)))
    together = counted.drop(SHARD).repartition(1)
    if not counted.isStreaming:
        together = together.sortWithinPartitions("window")
    return together.mapInArrow(partial(_ranked, k, schema, counted.isStreaming), schema)


def _ranked(
    k: int, schema: StructType, streams: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    out: list[tuple[Any, ...]] = []
    rows: Iterator[tuple[Any, ...]] = _rows(batches)
    if streams:  # a stream cannot be sorted by Spark, and a micro-batch of it is not long
        rows = iter(sorted(rows, key=lambda row: row[0]))
    for row in Sums(k).answers(rows):
        out.append(row)
        if len(out) * k > _TOGETHER:
            yield batch_of(out, schema)
            out = []
    if out:
        yield batch_of(out, schema)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class Sums:
    """Adds up the counts of shards, window after window, and knows the candidates' columns."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._columns: dict[int, tuple[Any, ...]] = {}  # by slot
        self._begin(0)

    def _begin(self, window: int) -> None:
        self._window = window
        self._parts: list[Ints] = []
        self._slots: Ints | None = None
        self._left: int | None = None

    def answers(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Rankings of the windows, of counts that come in the order of windows.

        The last one tells how many candidates are left, as in ``answer_rows``.
        """
        last: tuple[Any, ...] | None = None
        for row in rows:
            if self._parts and row[0] != self._window:
                if last is not None:
                    yield (last[0], None, *last[2:])
                last = self._answer()
            self._add(row)
        if self._parts:
            if last is not None:
                yield (last[0], None, *last[2:])
            last = self._answer()
        if last is not None:
            yield last

    def _add(self, row: tuple[Any, ...]) -> None:
        window, candidates, counts, slots, new, *kept = row
        if not self._parts:
            self._begin(window)
        self._parts.append(np.frombuffer(counts, np.int64))
        if slots is None:
            return
        self._slots, self._left = np.frombuffer(slots, np.int64), candidates
        if len(self._slots):  # slots ascend with time: older ones are gone
            oldest = int(self._slots[0])
            gone = [slot for slot in self._columns if slot < oldest]
            for slot in gone:
                del self._columns[slot]
        told = np.frombuffer(new, np.int64).tolist()
        rows = zip(*kept, strict=True) if kept else [()] * len(told)
        self._columns.update(zip(told, rows, strict=True))

    def _answer(self) -> tuple[Any, ...]:
        """The k best: more points dominated, then the newer."""
        assert self._slots is not None, "the first shard tells which candidates were counted"
        total = np.sum(self._parts, axis=0)
        best = np.lexsort((-self._slots, -total))[: self._k]
        rows = [self._columns[slot] for slot in self._slots[best].tolist()]
        columns = [list(column) for column in zip(*rows, strict=True)]
        found = (self._window, self._left, total[best].astype(np.float64).tolist(), *columns)
        self._parts = []
        return found
