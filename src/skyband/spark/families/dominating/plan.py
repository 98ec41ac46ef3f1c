"""A top-k dominating query on a DataFrame, checked against its columns before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.dominating import ALGORITHMS
from skyband.dominating.query import Direction, TopKDominating
from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.spark.options import Asked, Names, like_one
from skyband.spark.plan import Question, names_score, question, score_of
from skyband.spark.shards import check_shards, shuffle_partitions, usual_shards
from skyband.windows import CountWindow


@dataclass(frozen=True)
class DominatingAsked:
    """What :func:`skyband.spark.top_k_dominating` was asked, as it was written."""

    k: int
    dimensions: Sequence[tuple[str, Direction]]
    window: Any
    time: str | None = None
    slide: Any = None
    offset: Any = None
    sequence: str | None = None
    partition_by: Names | None = None
    id: Names | None = None
    keep: Names | None = None
    emit: str = "all"
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    algorithm: str = "auto"
    full: bool = False
    drain: str | None = None
    shards: int | None = None

    def query(self) -> TopKDominating:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        model = self.like_one("score").query()
        found = TopKDominating(self.k, self.dimensions, model.window, model.emit)
        if isinstance(model.window, CountWindow) and self.sequence is None:
            raise QueryError(
                "windows that count rows as they arrive",
                "sequence=, a dense number 0, 1, 2, ..., or windows of time",
                "write sequence='offset', or window='1 hour', time='ts'",
            )
        if self.partition_by:
            self._check_keyed()
        else:
            self._check_global()
        return found

    def _check_keyed(self) -> None:
        if self.sequence is not None:
            raise QueryError(
                f"both sequence={self.sequence!r} and partition_by were given",
                "windows of time for each key, or windows over a sequence of all rows",
                "leave partition_by out, or write time='ts', window='1 hour'",
            )
        if self.algorithm not in ("auto", *ALGORITHMS):
            raise QueryError(
                f"algorithm is {self.algorithm!r}",
                f"one of {', '.join(ALGORITHMS)}, auto",
                "use 'auto'",
            )
        if self.shards is not None:
            raise QueryError(
                f"shards is {self.shards!r} with partition_by",
                "no shards: each key is counted by itself",
                "leave shards out",
            )

    def _check_global(self) -> None:
        if self.algorithm != "auto":
            raise QueryError(
                f"algorithm is {self.algorithm!r} for all rows together",
                "'auto': only queries by key run one of the local engine's",
                "leave algorithm out, or write partition_by=...",
            )
        if self.emit != "all":
            raise QueryError(
                f"emit is {self.emit!r} for all rows together",
                "emit='all', or a query by key: shards answer with whole rankings",
                "leave emit out",
            )
        check_shards(self.shards)

    def like_one(self, by: str) -> Asked:
        """The same as a query by one score, for all but its dimensions."""
        return like_one(self, by, algorithm="auto")


@dataclass(frozen=True)
class DominatingQuestion(Question):
    """A query that fits a DataFrame: ``points`` are its dimensions, less being better.

    ``score`` is 0, or NULL or NaN where an attribute is, which is how such rows are counted and
    left out. ``algorithm`` is for keys, ``shards`` is 0 with them.
    """

    query: TopKDominating  # type: ignore[assignment]
    points: tuple[Column, ...]
    algorithm: str
    shards: int
    partitions: int

    def description(self) -> dict[str, Any]:
        """What a checkpoint depends on, as plain values: see the manifest."""
        found = super().description()
        found["score"] = "points dominated"
        found["algorithm"] = self.algorithm
        dimensions = [f"{name} {way}" for name, way in self.query.dimensions]
        return {**found, "dominating": dimensions, "shards": self.shards}


def dominating_question(df: DataFrame, asked: DominatingAsked) -> DominatingQuestion:
    """Check a query against a DataFrame; raises before any row is read."""
    query = asked.query()
    by = sorted(query.names, key=names_score, reverse=True)[0]
    base = question(df, asked.like_one(by))
    streams = df.isStreaming
    if streams and base.deduplicate and not base.keys:
        raise QueryError(
            "deduplicate_by for all rows of a stream together",
            "rows that come once, a batch, or a query by key: Spark cannot set a second watermark",
            "remove repeats before, in a stream of its own, or leave deduplicate_by out",
        )
    columns = tuple(base.score if n == by else score_of(df, n) for n in query.names)
    points = tuple(
        (column * F.lit(sign) + F.lit(0.0)).alias(f"x_{i}")
        for i, (column, sign) in enumerate(zip(columns, query.signs, strict=True))
    )
    partitions = shuffle_partitions(df.sparkSession)
    # each shard gets a copy of all candidates
    shards = 0 if base.keys else asked.shards or usual_shards(partitions)
    fields = {**vars(base), "query": query, "score": _missing(columns)}
    return DominatingQuestion(
        **fields, points=points, algorithm=asked.algorithm, shards=shards, partitions=partitions
    )


def _missing(columns: tuple[Column, ...]) -> Column:
    """NULL or NaN where an attribute is, else 0: how rows are told that cannot be ranked."""
    nulls = reduce(Column.__or__, (column.isNull() for column in columns))
    nans = reduce(Column.__or__, (F.isnan(column) for column in columns))
    nothing = F.lit(None).cast("double")
    return F.when(nulls, nothing).when(nans, F.lit(float("nan"))).otherwise(F.lit(0.0))
