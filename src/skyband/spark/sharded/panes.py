"""Rows spread over shards by their ids, and the closed panes of each shard as arrays."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType

from skyband.spark.aggregation import AT, HALF, LABEL, SCORE, pane_number
from skyband.spark.question import Question
from skyband.spark.sharded.placing import shard_keys

SHARD = "shard"
MOST = 64
"""Shards at most."""
USUAL = 16
"""Shards, unless they are named: as many as shuffle partitions, but not more than this."""
_HASH = "_sky_hash"
_ROWS = "_sky_rows"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)


def is_whole(types: tuple[DataType, ...]) -> bool:
    """Whether an id is one whole number, which an engine can take as it is."""
    return len(types) == 1 and isinstance(types[0], _WHOLE)


def names_of(question: Question) -> list[str]:
    """The columns that tell shards apart: the keys, and the shard."""
    return [*(f"key_{i}" for i in range(len(question.keys))), SHARD]


def spread(rows: DataFrame, question: Question, shards: int, partitions: int) -> DataFrame:
    """Add the shard of each row; what is kept of a row is its id.

    Without keys the shards are whole numbers that Spark puts into different tasks.
    """
    ids = [F.col(f"kept_{i}") for i in range(len(question.kept))]
    hashed = F.xxhash64(*ids)
    place = F.pmod(hashed, F.lit(shards)).cast("int")
    if not question.keys:
        places = partitions if rows.isStreaming else shards
        keys = F.array(*(F.lit(key) for key in shard_keys(shards, places)))
        place = F.get(keys, place)
    return rows.withColumns({_HASH: hashed, SHARD: place})


def collected(rows: DataFrame, question: Question, columns: list[str]) -> DataFrame:
    """The panes of each shard: all rows that have a score, by time and id, then these columns."""
    ids = [f"kept_{i}" for i in range(len(question.kept))]
    names = names_of(question)
    hashes = [] if is_whole(tuple(column.travels for column in question.kept)) else [_HASH]
    row = F.struct(AT, *ids, *columns, *hashes)
    ranked = F.when(F.col(SCORE).isNotNull(), row)  # others are not collected
    half = [HALF] if HALF in rows.columns else []
    found = rows.groupBy(*names, LABEL, *half).agg(
        F.array_sort(F.collect_list(ranked)).alias(_ROWS)
    )
    few = F.col(_ROWS)
    return found.select(
        *names,
        LABEL,
        pane_number(found, question).alias("pane"),
        *(few[name].alias(name) for name in (AT, *hashes, *ids, *columns)),
    )
