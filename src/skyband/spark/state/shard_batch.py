"""Batch DataFrames: the rows of each shard, sorted by Spark, pane after pane into the engine.

A task holds the rows of a few panes at a time, as columns of Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from skyband.order import Bools
from skyband.spark.state.batch import comparable, handed_over
from skyband.spark.state.candidates import FOREVER, Answer
from skyband.spark.state.processor import answer_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.state.shard import Shard, ShardPane
    from skyband.spark.state.shard_state import ShardKept

_TOGETHER = 500_000  # rows that are handed to the engine at once


class Piece(NamedTuple):
    """Rows of one pane that came together: the key and the shard, and the columns behind them."""

    key: tuple[Any, ...]
    pane: int
    columns: list[pa.Array]


def answered(
    rows: DataFrame, kept: ShardKept, names: list[str], order: list[str], schema: StructType
) -> DataFrame:
    """The windows of each shard.

    Rows hold ``names``, which tell shards apart, the number of the pane, and what stands in a
    pane's arrays; ``order`` is how the rows of a pane are sorted.
    """
    placed = rows.repartition(*names).sortWithinPartitions(*names, "pane", *order)
    return placed.mapInArrow(partial(_of_rows, kept, len(names), schema), schema)


def _of_rows(
    kept: ShardKept, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[tuple[Any, ...]]:
        for _, mine in groupby(pieces(batches, width), key=lambda piece: comparable(piece.key)):
            yield from _of_shard(kept, mine)

    return handed_over(rows(), schema, lambda row: len(row[width + 2]))  # behind the candidates


def _of_shard(kept: ShardKept, mine: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
    """The output rows of one shard."""
    first, shard = next(mine), kept.new()
    closed = first.columns[-1][0].as_py() if kept.clock.per_ms == 1 else FOREVER
    answers = _answers(kept, shard, chain([first], mine), closed)
    fresh = (one for one in answers if one.window >= kept.begins)
    for row in answer_rows(fresh, lambda: shard.held, kept.engine.changes):
        yield first.key + row


def _answers(kept: ShardKept, shard: Shard, mine: Iterator[Piece], closed: int) -> Iterator[Answer]:
    """Hand the panes of a shard to its engine, a few at a time."""
    waiting: list[ShardPane] = []
    for number, parts in groupby(mine, key=lambda piece: piece.pane):
        if sum(len(pane.at) for pane in waiting) > _TOGETHER:
            yield from shard.run(waiting, kept.lives.step(number) - 1)
            waiting = []
        waiting.append(kept.pane_of(number, [piece.columns for piece in parts]))
    yield from shard.run(waiting, closed)


def pieces(batches: Iterator[pa.RecordBatch], width: int) -> Iterator[Piece]:
    """Sorted rows, cut where the pane or one of the first columns changes."""
    for batch in batches:
        if not batch.num_rows:
            continue
        keys, pane = batch.columns[:width], np.asarray(batch.columns[width])
        begins = _changes([np.asarray(keys[-1]), pane])
        told = [column.to_pylist() for column in keys[:-1]]
        if told:
            same = [comparable(key) for key in zip(*told, strict=True)]
            begins |= np.array([True, *(a != b for a, b in zip(same[1:], same, strict=False))])
        lows = np.flatnonzero(begins).tolist()
        for low, high in zip(lows, [*lows[1:], batch.num_rows], strict=True):
            key = (*(column[low] for column in told), keys[-1][low].as_py())
            columns = [column.slice(low, high - low) for column in batch.columns[width + 1 :]]
            yield Piece(key, int(pane[low]), columns)


def _changes(columns: list[Any]) -> Bools:
    """Where rows begin that differ from the one before."""
    found = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return found
