"""Rows spread over shards by their ids, and the closed panes of each shard as arrays."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType

from skyband.spark.panes import AT, HALF, LABEL, SCORE, all_reached, pane_number
from skyband.spark.plan import Question
from skyband.spark.state.shard_keys import shard_keys

SHARD = "shard"
_HASH = "_sky_hash"
_ROWS = "_sky_rows"
_RANKED = "_sky_ranked"
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


def columns_of(question: Question, columns: list[str]) -> list[str]:
    """What a pane has arrays of: times, hashes of ids unless they are whole, ids, columns."""
    ids = [f"kept_{i}" for i in range(len(question.kept))]
    hashes = [] if is_whole(tuple(column.travels for column in question.kept)) else [_HASH]
    return [AT, *hashes, *ids, *columns]


def order_of(question: Question, columns: list[str]) -> list[str]:
    """How the rows of a pane are sorted: by time, by id, then by these columns."""
    return [AT, *(f"kept_{i}" for i in range(len(question.kept))), *columns]


def collected(rows: DataFrame, question: Question, columns: list[str]) -> DataFrame:
    """The panes of each shard of a stream: all rows that have a score, sorted."""
    names, arrays = names_of(question), columns_of(question, columns)
    first = order_of(question, columns)
    row = F.struct(*first, *(name for name in arrays if name not in first))
    ranked = F.when(F.col(SCORE).isNotNull(), row)  # others are not collected
    half = [HALF] if HALF in rows.columns else []
    found = rows.groupBy(*names, LABEL, *half).agg(
        F.array_sort(F.collect_list(ranked)).alias(_ROWS)
    )
    return found.select(
        *names,
        LABEL,
        pane_number(found, question).alias("pane"),
        *(F.col(_ROWS)[name].alias(name) for name in arrays),
    )


def numbered(rows: DataFrame, question: Question, columns: list[str]) -> DataFrame:
    """All rows of a batch that have a score, with the numbers of their panes.

    Windows that count rows have a last column: the last window that any row completes.
    """
    found = rows.select(
        *names_of(question),
        pane_number(rows, question).alias("pane"),
        *columns_of(question, columns),
        F.col(SCORE).isNotNull().alias(_RANKED),
    )
    if not question.timed:
        found = all_reached(found, rows, question)
    return found.filter(_RANKED).drop(_RANKED)
