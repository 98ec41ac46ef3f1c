"""Panes as blocks: rows of each task, by pane, as the points of each shard and the few that matter.

A block holds, for every shard, the coordinates of its share of the points as bytes, and for all
shards the rows that can be answers as far as the block's pane tells: few others dominate them.
Rows of different panes never prune each other here, since a window may hold the older one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    LongType,
    StructField,
    StructType,
)

from skyband.order import Floats, Ints
from skyband.spark.columns import LABEL, LONGER, POSITION, SCORE
from skyband.spark.panes import last_complete_window, longer, or_else, pane_number
from skyband.spark.state.batch import tables
from skyband.spark.state.shards import SHARD, shard_keys

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.families.dominating.plan import DominatingPlan

POINTS = "points"
"""The points of each shard, as bytes."""

_ROWS = "_sky_rows"
ROWS_PER_BLOCK = 250_000
"""Rows of a task that become blocks at once."""


@dataclass(frozen=True)
class PointBlockWriter:
    """Makes blocks of the rows of a task; plain values only.

    ``names`` are the columns of a row that may be an answer: position, ties, coordinates, carried
    ones.
    """

    k: int
    width: int  # dimensions
    shards: int
    split: bool
    names: tuple[str, ...]
    dense: bool = False

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a task's rows."""
        return map(self.of_rows, tables(batches, ROWS_PER_BLOCK))

    def of_rows(self, rows: pa.Table) -> pa.RecordBatch:
        """Blocks of some rows: label, longer, newest position, points by shard, rows that matter.

        Rows that cannot be ranked take part with their positions only.
        """
        import pyarrow as pa

        from skyband.dominating.panes import possible_answers

        label, position = rows[LABEL].to_numpy(), rows[POSITION].to_numpy()
        lives_longer = rows[LONGER].to_numpy() if self.split else np.zeros(len(label), np.bool_)
        ranked = rows[SCORE].is_valid().to_numpy()
        points = np.stack([rows[f"x_{i}"].to_numpy() for i in range(self.width)], axis=1)
        shard = np.where(ranked, point_shards(points, position, self.shards), self.shards)
        order = np.lexsort((shard, lives_longer, label))
        pane = (2 * label + lives_longer)[order]
        starts = np.flatnonzero(np.diff(pane, prepend=pane[0] - 1))
        ends = np.append(starts[1:], len(pane))
        shares: list[bytes] = []
        survivors: list[Ints] = []
        for low, high in zip(starts.tolist(), ends.tolist(), strict=True):
            block = order[low:high]
            cuts = np.searchsorted(shard[block], np.arange(self.shards + 1))
            inside = points[block]
            shares += [inside[a:b].tobytes() for a, b in pairwise(cuts)]
            alive = possible_answers(inside[: cuts[-1]], self.k, self.dense)
            survivors.append(block[: cuts[-1]][alive])
        newest = np.maximum.reduceat(position[order], starts)
        table = rows.select(list(self.names)).take(np.concatenate(survivors)).combine_chunks()
        columns = [table[name].combine_chunks() for name in self.names]
        survivor_cuts = np.concatenate([[0], np.cumsum([len(block) for block in survivors])])
        share_cuts = np.arange(0, len(shares) + 1, self.shards)
        arrays = [
            pa.array(label[order[starts]]),
            *([pa.array(lives_longer[order[starts]])] if self.split else []),
            pa.array(newest),
            pa.ListArray.from_arrays(pa.array(share_cuts, pa.int32()), pa.array(shares)),
            pa.ListArray.from_arrays(
                pa.array(survivor_cuts, pa.int32()),
                pa.StructArray.from_arrays(columns, list(self.names)),
            ),
        ]
        names = [LABEL, *([LONGER] if self.split else []), POSITION, POINTS, _ROWS]
        return pa.RecordBatch.from_arrays(arrays, names)


def point_shards(points: Floats, position: Ints, shards: int) -> Ints:
    """The shard of each point, by its bits: the same one whenever a task is run again."""
    mixed = position.astype(np.uint64)
    for column in points.T:
        mixed = (mixed ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(shards)).astype(np.int64)


def block_writer(plan: DominatingPlan) -> PointBlockWriter:
    """What makes blocks of the rows of a task."""
    base = plan.base
    # equal positions and ties: any order will do
    names = (POSITION, *base.tie_names, *plan.coordinate_names, *base.column_names)
    return PointBlockWriter(
        plan.query.k, len(plan.points), plan.shards, plan.grid.split, names, plan.dense
    )


def block_layout(writer: PointBlockWriter, rows: StructType) -> StructType:
    """The columns of blocks of rows."""
    row = StructType([StructField(name, rows[name].dataType) for name in writer.names])
    return StructType(
        [
            StructField(LABEL, LongType()),
            *([StructField(LONGER, BooleanType())] if writer.split else []),
            StructField(POSITION, LongType()),
            StructField(POINTS, ArrayType(BinaryType(), False)),
            StructField(_ROWS, ArrayType(row)),
        ]
    )


def pane_blocks(rows: DataFrame, plan: DominatingPlan) -> DataFrame:
    """Blocks of the rows of each task, whose labels are numbers."""
    writer = block_writer(plan)
    needed = rows.select(LABEL, *longer(rows), SCORE, *writer.names)
    return needed.mapInArrow(writer.blocks, block_layout(writer, needed.schema))


def blocks_of_tasks(blocks: DataFrame, plan: DominatingPlan) -> DataFrame:
    """Blocks that tasks have made of files, and what only moves the watermark as empty ones.

    Spark would drop those before they do: it leaves out early what has nothing to explode.
    """
    grid, position = plan.grid, F.col(POSITION)
    labels = {LABEL: grid.label_sql(position)}
    if grid.split:
        labels[LONGER] = grid.in_longer_pane_sql(position)
    nothing = F.array_repeat(F.lit(b""), plan.shards)
    return blocks.withColumns(
        {
            **{name: or_else(F.col(name), value) for name, value in labels.items()},
            POINTS: F.coalesce(F.col(POINTS), nothing),
        }
    )


def panes_of_blocks(blocks: DataFrame, plan: DominatingPlan) -> DataFrame:
    """The panes of each shard, whole.

    Shard, label, pane number, points as bytes, coordinates of the rows that matter, carried columns
    (for the first shard alone), and the last complete window if windows count rows.
    """
    base = plan.base
    partitions = base.partitions if blocks.isStreaming else plan.shards
    keys = shard_keys(plan.shards, partitions)
    groups = _aggregated(_per_shard(blocks, plan, keys))
    rows = F.col(_ROWS)
    first = F.col(SHARD) == F.lit(keys[0])
    complete = [last_complete_window(F.col(POSITION), plan.grid).alias("reached")]
    return groups.select(
        SHARD,
        LABEL,
        pane_number(groups, plan),
        POINTS,
        *(rows[name].alias(name) for name in plan.coordinate_names),
        *(F.when(first, rows[name]).alias(name) for name in base.column_names),
        *(complete if base.axis.counts_rows else []),
    )


def _per_shard(blocks: DataFrame, plan: DominatingPlan, keys: list[int]) -> DataFrame:
    """A row per shard: its points, and the rows that matter, whose columns go to the first."""

    def bare(row: Column) -> Column:
        for name, type in zip(plan.base.column_names, plan.base.types, strict=True):
            row = row.withField(name, F.lit(None).cast(type))
        return row

    rest = [name for name in blocks.columns if name != POINTS]
    shares = blocks.select(*rest, F.posexplode(POINTS).alias("place", POINTS))
    rows = F.when(F.col("place") == 0, F.col(_ROWS)).otherwise(F.transform(_ROWS, bare))
    shard = F.get(F.array(*map(F.lit, keys)), F.col("place"))
    return shares.withColumn(_ROWS, rows).withColumn(SHARD, shard).drop("place")


def _aggregated(blocks: DataFrame) -> DataFrame:
    """Whole panes: all their blocks, once the watermark has closed them, in the order of time."""
    groups = blocks.groupBy(SHARD, LABEL, *longer(blocks)).agg(
        F.collect_list(POINTS).alias(POINTS),
        F.flatten(F.collect_list(_ROWS)).alias(_ROWS),
        F.max(POSITION).alias(POSITION),
    )
    return groups.withColumn(_ROWS, F.array_sort(_ROWS))
