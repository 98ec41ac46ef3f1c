"""The rankings of all shards, merged: the best of each window, by the one total order.

All shards answer a window in the same micro-batch, so nothing has to be remembered. Windows are
spread over tasks; a task gets the few best of each shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from skyband.spark.state import batch as backfill
from skyband.spark.state.batch import Columns, batch_of
from skyband.spark.state.engine import sortable
from skyband.spark.state.processor import answer_fields

if TYPE_CHECKING:
    import pyarrow as pa


class Ranks(Protocol):
    """What is to be known of a query: its k, the types of an id, whether there are many shards."""

    @property
    def k(self) -> int:
        """Objects per window."""

    @property
    def types(self) -> tuple[DataType, ...]:
        """Those of the parts of an id."""

    @property
    def merged(self) -> bool:
        """Whether there are several shards."""


def merged(answers: DataFrame, kept: Ranks, keys: int) -> DataFrame:
    """One row per window and key, of which there are ``keys``, laid out as by ``answer_fields``."""
    answers = answers.drop(f"key_{keys}")
    if not kept.merged:
        return answers
    names = [f"key_{i}" for i in range(keys)]
    schema = StructType(
        [
            *(StructField(name, answers.schema[name].dataType) for name in names),
            *answer_fields(kept.types, False),
        ]
    )
    names.append("window")
    k = kept.k
    if not answers.isStreaming:
        return backfill.answered(answers, names, partial(_of_window, k), schema, _ranked_rows)
    together = answers.repartition(*names)
    return together.mapInArrow(partial(_of_batch, k, len(names), schema), schema)


def _ranked_rows(row: tuple[Any, ...]) -> int:
    return len(row[1])


def _of_window(k: int, columns: Columns) -> Iterator[tuple[Any, ...]]:
    yield best(k, columns)


def _of_batch(
    k: int, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The windows of a micro-batch, which cannot be sorted by Spark, and is not long."""
    found: dict[Any, tuple[tuple[Any, ...], list[Any]]] = {}
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            key = row[:width]
            same = found.setdefault(backfill.comparable(key), (key, []))
            same[1].append(row[width:])
    rows = [
        key + best(k, [list(column) for column in zip(*parts, strict=True)])
        for key, parts in found.values()
    ]
    if rows:
        yield batch_of(rows, schema)


def best(k: int, columns: Columns) -> tuple[Any, ...]:
    """The k best of some rankings: how many are kept, scores, ids.

    ``columns`` hold, per shard, how many objects it keeps, scores, parts of ids, newest times.
    """
    candidates, scores, *rest = columns
    told = [left for left in candidates if left is not None]
    score = np.array(list(chain(*scores)), np.float64)
    *ids, at = (list(chain(*column)) for column in rest)
    newest = np.array(at, np.int64)
    order = np.lexsort((-newest, -score))
    upper, lower = order[:-1], order[1:]
    tied = (score[upper] == score[lower]) & (newest[upper] == newest[lower])
    ranks: list[int] = order.tolist()
    if tied[:k].any():
        tie = [[sortable(part[i]) for part in ids] for i in range(len(at))]
        ranks.sort(key=lambda i: (score[i], at[i], tie[i]), reverse=True)
    few = ranks[:k]
    left = sum(told) if told else None
    return (left, score[few].tolist(), *([part[i] for i in few] for part in ids))
