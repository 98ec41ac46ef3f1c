"""Rankings that several tasks share: objects are spread over shards, and the best are merged.

Each shard answers for its own objects, by their ids. All shards see the same watermark, so each
answers a window in the micro-batch in which the watermark passes its end: rankings are merged
without any state.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from skyband.spark.columns import POSITION, indexed
from skyband.spark.panes import all_rows, numbered_rows
from skyband.spark.plan import BasePlan, WindowPlan
from skyband.spark.state.batch import (
    Columns,
    by_key,
    comparable,
    handed_over,
    python_rows,
    record_batch,
    sortable,
)
from skyband.spark.state.candidates import turned
from skyband.spark.state.processor import answer_fields

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.state.shard import ShardSpec

SHARD = "shard"
HASH = "_sky_hash"
_BITS, _SEED = 0xFFFFFFFF, 42  # of Spark's hash


def shard_groups(base: BasePlan) -> list[str]:
    """The columns that tell shards apart: the keys, and the shard."""
    return [*indexed("key", len(base.keys)), SHARD]


def spread(rows: DataFrame, base: BasePlan, shards: int) -> DataFrame:
    """Add the shard of each row, by a hash of its id, which is what it carries.

    Without keys the shards are whole numbers that Spark puts into different tasks.
    """
    hashed = F.xxhash64(*base.column_names)
    shard = F.pmod(hashed, F.lit(shards)).cast("int")
    if not base.keys:
        partitions = base.partitions if rows.isStreaming else shards
        keys = F.array(*(F.lit(key) for key in shard_keys(shards, partitions)))
        shard = F.get(keys, shard)
    return rows.withColumns({HASH: hashed, SHARD: shard})


def shard_panes(
    rows: DataFrame, plan: WindowPlan, spec: ShardSpec, newest: Column | None
) -> DataFrame:
    """The closed panes of each shard, of rows that :func:`spread` has spread.

    On a stream panes are arrays; the rows of a batch stay rows, which Spark sorts.
    """
    names, order = list(spec.groups), spec.row_order
    columns = [POSITION, *([] if spec.whole else [HASH]), *order[1:]]
    if rows.isStreaming:
        return all_rows(rows, plan, names, order, columns)
    return numbered_rows(rows, plan, names, columns, newest)


def merged(
    answers: DataFrame,
    base: BasePlan,
    shards: int,
    k: int,
    types: tuple[DataType, ...],
    score: DataType | None = None,
) -> DataFrame:
    """One ranking per window and key, of those of its shards.

    ``types`` are those of the parts of an id; behind them is the time of the newest row. A
    ``score`` is a double unless its type is given.
    """
    answers = answers.drop(f"key_{len(base.keys)}")  # the shard
    if shards == 1:
        return answers
    keys = indexed("key", len(base.keys))
    fields = [StructField(name, answers.schema[name].dataType) for name in keys]
    schema = StructType([*fields, *answer_fields(types, False, score)])
    names = [*keys, "window"]
    together = answers.repartition(*names)
    merge = _merge_sorted
    if answers.isStreaming:  # a stream cannot be sorted by Spark, and a micro-batch is not long
        merge = _merge_any
    else:
        together = together.sortWithinPartitions(*names)
    return together.mapInArrow(partial(merge, k, len(names), schema), schema)


def _merge_sorted(
    k: int, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[tuple[Any, ...]]:
        for key, pieces in by_key(batches, width):
            parts = zip(*(piece.columns for piece in pieces), strict=True)
            yield key + best(k, [list(chain.from_iterable(column)) for column in parts])

    return handed_over(rows(), schema, lambda row: len(row[width + 1]))


def _merge_any(
    k: int, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rankings: dict[Any, tuple[tuple[Any, ...], list[Any]]] = {}
    for row in python_rows(batches):
        key = row[:width]
        rankings.setdefault(comparable(key), (key, []))[1].append(row[width:])
    rows = [
        key + best(k, [list(column) for column in zip(*parts, strict=True)])
        for key, parts in rankings.values()
    ]
    if rows:
        yield record_batch(rows, schema)


def best(k: int, columns: Columns) -> tuple[Any, ...]:
    """The k best of some rankings: how many candidates there are, scores, ids.

    ``columns`` hold, per shard, how many objects it keeps, scores, parts of ids, newest times.
    """
    candidates, scores, *rest = columns
    counts = [count for count in candidates if count is not None]
    all_scores = list(chain(*scores))
    is_whole = bool(all_scores) and isinstance(all_scores[0], int)
    score = np.array(all_scores, np.int64 if is_whole else np.float64)
    *ids, times = (list(chain(*column)) for column in rest)
    newest = np.array(times, np.int64)
    order = np.lexsort((-newest, turned(score)))
    upper, lower = order[:-1], order[1:]
    tied = (score[upper] == score[lower]) & (newest[upper] == newest[lower])
    ranks: list[int] = order.tolist()
    if tied[:k].any():
        tie = [[sortable(part[i]) for part in ids] for i in range(len(times))]
        ranks.sort(key=lambda i: (score[i], times[i], tie[i]), reverse=True)
    top = ranks[:k]
    total = sum(counts) if counts else None
    return (total, score[top].tolist(), *([part[i] for i in top] for part in ids))


def shard_keys(shards: int, partitions: int) -> list[int]:
    """Whole numbers, as many as shards, spread over so many partitions as evenly as possible.

    Spark spreads keys by a hash, and a few shards would often meet in one task while others idle.
    So the keys are chosen by their hashes.
    """
    room = {at: -(-(shards - at) // partitions) for at in range(partitions)}
    keys: list[int] = []
    key = 0
    while len(keys) < shards:
        at = spark_hash(key) % partitions
        if room[at] > 0:
            room[at] -= 1
            keys.append(key)
        key += 1
    return keys


def spark_hash(value: int) -> int:
    """Spark's hash of an integer column, Murmur3: 32 bits with a sign.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = (value * 0xCC9E2D51) & _BITS
    mixed = _rotated(mixed, 15) * 0x1B873593 & _BITS
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    mixed ^= 4
    mixed = ((mixed ^ mixed >> 16) * 0x85EBCA6B) & _BITS
    mixed = ((mixed ^ mixed >> 13) * 0xC2B2AE35) & _BITS
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _BITS
