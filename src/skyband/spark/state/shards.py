"""Rankings that several tasks share: objects are spread over shards, and the best are merged.

Each shard answers for its own objects, by their ids. All shards see the same watermark, so each
answers a window in the micro-batch in which the watermark passes its end: rankings are merged
without any state. What changed is reported in the same way: a shard's answer has its ranking of the
window before, too, see :mod:`skyband.spark.state.previous`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType

from skyband.order import Scores, ranks_of_best
from skyband.query import RankBy
from skyband.spark.columns import POSITION, SCORE, indexed
from skyband.spark.panes import all_rows, numbered_rows, row_blocks
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
from skyband.spark.state.row_blocks import RowBlocks
from skyband.spark.state.shard import HASH

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.state.shard import ShardSpec

Rank = Callable[[Columns], tuple[Any, ...] | None]
"""What becomes of the rankings of some shards: one row, or none."""


class Order(NamedTuple):
    """How equal scores rank, as the query says."""

    oldest_first: bool = False
    rank_by: RankBy = "row_number"

    @property
    def shared(self) -> bool:
        """Whether objects of equal score share a rank."""
        return self.rank_by != "row_number"


USUAL = Order()

SHARD = "shard"
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
        names = F.array(*(F.lit(name) for name in shard_names(base, shards, rows.isStreaming)))
        shard = F.get(names, shard)
    return rows.withColumns({HASH: hashed, SHARD: shard})


def shard_names(base: BasePlan, shards: int, is_stream: bool) -> list[int]:
    """The shards by the remainder of a hash; without keys those that different tasks get."""
    if base.keys:
        return list(range(shards))
    return shard_keys(shards, base.partitions if is_stream else shards)


def shard_panes(
    rows: DataFrame, plan: WindowPlan, spec: ShardSpec, newest: Column | None
) -> DataFrame:
    """The closed panes of each shard, of rows that :func:`spread` has spread.

    On a stream panes are arrays; the rows of a batch stay rows, which Spark sorts.
    """
    names, columns = list(spec.groups), spec.row_names
    if rows.isStreaming and plan.updates:
        return row_blocks(rows, plan)
    if rows.isStreaming:
        return all_rows(rows, plan, names, spec.row_order, columns)
    return numbered_rows(rows, plan, names, columns, newest)


def shard_blocks(spec: ShardSpec, engine_types: tuple[DataType, ...]) -> RowBlocks:
    """All rows of each pane that have a score; the engine's columns are of ``engine_types``."""
    types = {
        POSITION: LongType(),
        HASH: LongType(),
        **dict(zip(indexed("kept", len(spec.types)), spec.types, strict=True)),
        **dict(zip(spec.columns, engine_types, strict=True)),
    }
    row = StructType([StructField(name, types[name]) for name in spec.row_names])
    return RowBlocks(spec.groups, row, score=SCORE, order=tuple(spec.row_order))


def merged(
    answers: DataFrame,
    base: BasePlan,
    shards: int,
    k: int,
    types: tuple[DataType, ...],
    score: DataType | None = None,
    changes: bool = False,
    carried: int = 0,
    order: Order = USUAL,
) -> DataFrame:
    """One ranking per window and key, of those of its shards, or its ``changes``.

    ``types`` are those of the parts of an id, and of the ``carried`` columns behind them; then
    comes the time of the newest row. A ``score`` is a double unless its type is given. In a shard
    nobody ranks below the rank among all, so each gives all that rank there.
    """
    answers = answers.drop(f"key_{len(base.keys)}")  # the shard
    if shards == 1:
        return answers
    keys = indexed("key", len(base.keys))
    fields = [StructField(name, answers.schema[name].dataType) for name in keys]
    schema = StructType([*fields, *answer_fields(types, changes, score, order.shared)])
    names = [*keys, "window"]
    together = answers.repartition(*names)
    merge = _merge_sorted
    if answers.isStreaming:  # a stream cannot be sorted by Spark, and a micro-batch is not long
        merge = _merge_any
    else:
        together = together.sortWithinPartitions(*names)
    rank: Rank = partial(best, k, order=order)
    if changes:
        rank = partial(changed, k, carried=carried, order=order)
    return together.mapInArrow(partial(merge, rank, len(names), schema), schema)


def _merge_sorted(
    rank: Rank, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[tuple[Any, ...]]:
        for key, pieces in by_key(batches, width):
            parts = zip(*(piece.columns for piece in pieces), strict=True)
            ranking = rank([list(chain.from_iterable(column)) for column in parts])
            if ranking is not None:
                yield key + ranking

    return handed_over(rows(), schema, lambda row: len(row[width + 1]))


def _merge_any(
    rank: Rank, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rankings: dict[Any, tuple[tuple[Any, ...], list[Any]]] = {}
    for row in python_rows(batches):
        key = row[:width]
        rankings.setdefault(comparable(key), (key, []))[1].append(row[width:])
    rows = []
    for key, parts in rankings.values():
        ranking = rank([list(column) for column in zip(*parts, strict=True)])
        if ranking is not None:
            rows.append(key + ranking)
    if rows:
        yield record_batch(rows, schema)


def best(k: int, columns: Columns, order: Order = USUAL) -> tuple[Any, ...]:
    """The k best of some rankings: how many candidates there are, scores, shared ranks, ids.

    ``columns`` hold, per shard, how many objects it keeps, scores, parts of ids, newest times.
    """
    candidates, *rankings = columns
    ranks, (scores, *ids, _) = _best(k, rankings, order)
    return (_total(candidates), scores, *([ranks] if order.shared else []), *ids)


def changed(
    k: int, columns: Columns, carried: int = 0, order: Order = USUAL
) -> tuple[Any, ...] | None:
    """What became of the k best of some rankings since the window before; None if nothing did.

    ``columns`` are those of :func:`best`, and behind them the scores, ids and times of the window
    before. An object is known by its id, without the ``carried`` columns behind it; one that left
    has what it had last. All stand in order, as if they were one ranking; behind their scores are
    their ranks and the previous ones.
    """
    candidates, *rankings = columns
    half = len(rankings) // 2
    ranks_now, now = _best(k, rankings[:half], order)
    ranks_before, before = _best(k, rankings[half:], order)
    ids = slice(1, -1 - carried)
    left = {
        comparable(row[ids]): (was, row)
        for was, row in zip(ranks_before, zip(*before, strict=True), strict=True)
    }
    rows = []
    for rank, row in zip(ranks_now, zip(*now, strict=True), strict=True):
        was, _ = left.pop(comparable(row[ids]), (0, None))
        if was != rank:
            rows.append((rank, was, *row))
    rows += [(0, was, *row) for was, row in left.values()]
    if not rows:
        return None
    parts = [list(column) for column in zip(*rows, strict=True)]
    places = _order(len(rows), parts[2:], order.oldest_first)
    ranks, previous, scores, *others, _ = ([part[i] for i in places] for part in parts)
    return (_total(candidates), scores, ranks, previous, *others)


def _total(candidates: list[int | None]) -> int | None:
    """How many there are in all shards that say so."""
    counts = [count for count in candidates if count is not None]
    return sum(counts) if counts else None


def _best(k: int, rankings: Columns, order: Order) -> tuple[list[int], Columns]:
    """The ranks of the k best of some rankings; their scores, parts of ids, newest times."""
    together = [list(chain(*column)) for column in rankings]
    places = _order(len(together[0]) if order.shared else k, together, order.oldest_first)
    scores = _scores([together[0][i] for i in places])
    ranks: list[int] = ranks_of_best(scores, k, order.rank_by).tolist()
    return ranks, [[column[i] for i in places[: len(ranks)]] for column in together]


def _scores(scores: list[Any]) -> Scores:
    """Scores as an array; whole ones are never rounded."""
    is_whole = bool(scores) and isinstance(scores[0], int)
    return np.array(scores, np.int64 if is_whole else np.float64)


def _order(k: int, columns: Columns, oldest_first: bool) -> list[int]:
    """The places of rows, the best first; only the first k need be in order."""
    scores, *ids, times = columns
    score, newest = _scores(scores), np.array(times, np.int64)
    falling = turned(score)
    order = np.lexsort((newest if oldest_first else -newest, falling))
    upper, lower = order[:-1], order[1:]
    tied = (score[upper] == score[lower]) & (newest[upper] == newest[lower])
    places: list[int] = order.tolist()
    if tied[:k].any():
        tie = [[sortable(part[i]) for part in ids] for i in range(len(times))]
        places.sort(key=lambda i: (times[i], tie[i]), reverse=not oldest_first)
        places.sort(key=lambda i: falling[i])
    return places


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
