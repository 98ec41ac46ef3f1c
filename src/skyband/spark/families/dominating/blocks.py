"""Panes as blocks: rows of each task, by pane, as the points of each shard and the few that matter.

A block holds, for every shard, the coordinates of its share of the points as bytes, and for all
shards the rows that fewer than k rows of the block's pane dominate: nobody else can be an answer.
Rows of different panes never prune each other here, since a window may hold the older one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StructField,
    StructType,
)

from skyband.order import Floats, Ints
from skyband.spark.families.dominating.plan import DominatingQuestion
from skyband.spark.panes import AT, HALF, LABEL, SCORE, pane_number, reached, watermarked
from skyband.spark.state.shard_keys import shard_keys

if TYPE_CHECKING:
    import pyarrow as pa

SHARD = "shard"
_ROWS = "_sky_rows"
_TOGETHER = 250_000  # rows that become blocks at once


@dataclass(frozen=True)
class Cut:
    """What a task has to know to make blocks of rows; plain values only.

    ``names`` are the columns of a row that may be an answer: place, ties, coordinates, kept ones.
    """

    k: int
    width: int
    shards: int
    split: bool
    names: tuple[str, ...]

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's rows."""
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
        """Blocks of some rows: label, half, newest place, points by shard, rows that matter."""
        import pyarrow as pa

        from skyband.dominating.panes import undominated

        label, place = rows[LABEL].to_numpy(), rows[AT].to_numpy()
        half = rows[HALF].to_numpy() if self.split else np.zeros(len(label), np.bool_)
        ranked = rows[SCORE].is_valid().to_numpy()
        points = np.stack([rows[f"x_{i}"].to_numpy() for i in range(self.width)], axis=1)
        home = np.where(ranked, shares(points, place, self.shards), self.shards)
        order = np.lexsort((home, half, label))
        pane = (2 * label + half)[order]
        starts = np.flatnonzero(np.diff(pane, prepend=pane[0] - 1))
        ends = np.append(starts[1:], len(pane))
        shares_of: list[bytes] = []
        matter: list[Ints] = []
        for low, high in zip(starts.tolist(), ends.tolist(), strict=True):
            own = order[low:high]
            cuts = np.searchsorted(home[own], np.arange(self.shards + 1))
            inside = points[own]
            shares_of += [inside[a:b].tobytes() for a, b in pairwise(cuts)]
            some = undominated(inside[: cuts[-1]], self.k)
            matter.append(own[: cuts[-1]][some])
        newest = np.maximum.reduceat(place[order], starts)
        few = rows.select(list(self.names)).take(np.concatenate(matter)).combine_chunks()
        columns = [few[name].combine_chunks() for name in self.names]
        within = np.concatenate([[0], np.cumsum([len(one) for one in matter])])
        shard_cuts = np.arange(0, len(shares_of) + 1, self.shards)
        arrays = [
            pa.array(label[order[starts]]),
            *([pa.array(half[order[starts]])] if self.split else []),
            pa.array(newest),
            pa.ListArray.from_arrays(pa.array(shard_cuts, pa.int32()), pa.array(shares_of)),
            pa.ListArray.from_arrays(
                pa.array(within, pa.int32()), pa.StructArray.from_arrays(columns, list(self.names))
            ),
        ]
        names = [LABEL, *([HALF] if self.split else []), AT, "points", _ROWS]
        return pa.RecordBatch.from_arrays(arrays, names)


def shares(points: Floats, at: Ints, shards: int) -> Ints:
    """The shard of each point, by its bits: the same one whenever a task is run again."""
    mixed = at.astype(np.uint64)
    for column in points.T:
        mixed = (mixed ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(shards)).astype(np.int64)


def panes(blocks: DataFrame, question: DominatingQuestion) -> DataFrame:
    """The panes of each shard, whole.

    Shard, label, pane number, points as bytes, coordinates of the rows that matter, kept columns
    (for the first shard alone), reached.
    """
    found = _aggregated(_shared(blocks, question))
    few = F.col(_ROWS)
    first = F.col(SHARD) == F.lit(keys_of(blocks, question)[0])
    newest = [] if question.timed else [reached(F.col(AT), question.query.window.slide)]
    return found.select(
        SHARD,
        LABEL,
        pane_number(found, question).alias("pane"),
        F.col("points"),
        *(few[f"x_{i}"].alias(f"x_{i}") for i in range(len(question.points))),
        *(
            F.when(first, few[f"kept_{i}"]).alias(f"kept_{i}")
            for i in range(len(question.kept))
        ),
        *(column.alias("reached") for column in newest),
    )  # fmt: skip


def keys_of(rows: DataFrame, question: DominatingQuestion) -> list[int]:
    """The shards' keys, which Spark puts into different tasks."""
    partitions = question.partitions if rows.isStreaming else question.shards
    return shard_keys(question.shards, partitions)


def cut(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    """Blocks of the rows of each task, whose labels are numbers.

    On a stream they have the watermark that closes panes.
    """
    split = HALF in rows.columns
    ties = [f"tie_{i}" for i in range(len(question.ties))]
    coordinates = [f"x_{i}" for i in range(len(question.points))]
    kept = [f"kept_{i}" for i in range(len(question.kept))]
    names = [AT, *ties, *coordinates, *kept]  # equal places and ties: any order will do
    into = Cut(question.query.k, len(question.points), question.shards, split, tuple(names))
    needed = rows.select(LABEL, *([HALF] if split else []), SCORE, *names)
    types: dict[str, DataType] = {field.name: field.dataType for field in needed.schema.fields}
    schema = StructType(
        [
            StructField(LABEL, LongType()),
            *([StructField(HALF, BooleanType())] if split else []),
            StructField(AT, LongType()),
            StructField("points", ArrayType(BinaryType(), False)),
            StructField(_ROWS, ArrayType(StructType([StructField(n, types[n]) for n in names]))),
        ]
    )

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return into.blocks(batches)

    blocks = needed.mapInArrow(run, schema)
    return watermarked(blocks, question) if rows.isStreaming else blocks


def _shared(blocks: DataFrame, question: DominatingQuestion) -> DataFrame:
    """A row per shard: its points, and the rows that matter, whose columns go to the first."""
    keys = F.array(*(F.lit(key) for key in keys_of(blocks, question)))
    rest = [name for name in blocks.columns if name != "points"]
    rows = blocks.select(*rest, F.posexplode("points").alias("place", "points"))
    few = F.when(F.col("place") == 0, F.col(_ROWS)).otherwise(_bare(question))
    return rows.withColumn(_ROWS, few).withColumn(SHARD, F.get(keys, F.col("place"))).drop("place")


def _bare(question: DominatingQuestion) -> Column:
    """The rows that matter without what is only carried."""

    def bare(row: Column) -> Column:
        for i, column in enumerate(question.kept):
            row = row.withField(f"kept_{i}", F.lit(None).cast(column.travels))
        return row

    return F.transform(_ROWS, bare)


def _aggregated(blocks: DataFrame) -> DataFrame:
    """Whole panes: all their blocks, once the watermark has closed them, in the order of time."""
    half = [HALF] if HALF in blocks.columns else []
    found = blocks.groupBy(SHARD, LABEL, *half).agg(
        F.collect_list("points").alias("points"),
        F.flatten(F.collect_list(_ROWS)).alias(_ROWS),
        F.max(AT).alias(AT),
    )
    return found.withColumn(_ROWS, F.array_sort(_ROWS))
