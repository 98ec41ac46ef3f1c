"""How many tasks share a ranking, by an option or by Spark's own setting."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from skyband.errors import QueryError

PARTITIONS = "spark.sql.shuffle.partitions"
MOST = 64
"""Shards at most."""
USUAL = 16
"""Shards at most, unless more are asked for."""


def check_shards(shards: Any) -> None:
    """Refuse what is no number of shards; None leaves the choice to :func:`usual_shards`."""
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if shards is not None and not (whole and 1 <= shards <= MOST):
        raise QueryError(f"shards is {shards!r}", f"a whole number, 1 to {MOST}", "leave it out")


def usual_shards(partitions: int) -> int:
    """As many as shuffle partitions, up to a few."""
    return min(partitions, USUAL)


def shuffle_partitions(spark: SparkSession) -> int:
    """Tasks after a shuffle, as the session is set."""
    return int(spark.conf.get(PARTITIONS) or 1)
