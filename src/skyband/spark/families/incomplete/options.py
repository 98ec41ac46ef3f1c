"""What ``top_k_incomplete`` was asked, checked as far as no DataFrame is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.incomplete import ALGORITHMS
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.options import Asked, Names, like_one
from skyband.spark.shards import check_shards
from skyband.windows import CountWindow


@dataclass(frozen=True)
class IncompleteAsked:
    """What :func:`skyband.spark.top_k_incomplete` was asked, as it was written."""

    k: int
    streams: Sequence[str]
    id: Names
    value: str | Column
    window: Any
    stream: str | None = None
    time: str | None = None
    slide: Any = None
    offset: Any = None
    sequence: str | None = None
    combine: Any = "sum"
    bounds: Any = (0.0, 1.0)
    outside: str = "error"
    repeats: Any = "max"
    partition_by: Names | None = None
    emit: str = "all"
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    algorithm: str = "auto"
    options: Mapping[str, Any] | None = None
    full: bool = False
    drain: str | None = None
    shards: int | None = None

    def query(self) -> TopKIncomplete:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        window = self.like_one("value").query().window
        if isinstance(window, CountWindow) and self.sequence is None:
            raise QueryError(
                "windows that count rows as they arrive",
                "sequence=, a dense number 0, 1, 2, ..., or windows of time",
                "write sequence='offset', or window='1 hour', time='ts'",
            )
        if callable(self.combine):
            raise QueryError(
                "combine is a function",
                "'sum', 'min', 'max' or weights: on Spark, streams outlive the code of a function",
                "write combine='sum', or run the local engine, skyband.IncompleteMonitor",
            )
        found = TopKIncomplete(
            self.k,
            self.streams,
            window,
            self.combine,
            self.bounds,
            self.outside,  # type: ignore[arg-type]
            self.repeats,
            self.emit,  # type: ignore[arg-type]
        )
        self._check_shards()
        self._check_sequence()
        self._check_algorithm(found)
        return found

    def _check_shards(self) -> None:
        check_shards(self.shards)
        several = not self.partition_by if self.shards is None else self.shards > 1
        if self.emit == "changes" and several:
            raise QueryError(
                "emit is 'changes' for several shards",
                "one shard, or emit='all': shards answer with whole rankings",
                "write shards=1, or leave emit out",
            )

    def _check_sequence(self) -> None:
        if self.sequence is None:
            return
        if self.partition_by:
            raise QueryError(
                f"both sequence={self.sequence!r} and partition_by were given",
                "windows of time for each key, or windows over a sequence of all rows",
                "leave partition_by out, or write time='ts', window='1 hour'",
            )
        if self.drain is not None:
            raise QueryError(
                "drain is given for windows over a sequence",
                "no drain: a shard cannot know which windows the rows of others complete",
                "leave drain out, or answer it as a batch, which knows all rows",
            )
        if self.full and self.emit == "changes":
            raise QueryError(
                "full=True with emit='changes'",
                "one of them: changes are told from the first window on",
                "leave full out",
            )

    def _check_algorithm(self, query: TopKIncomplete) -> None:
        if self.algorithm not in ("auto", *ALGORITHMS):
            raise QueryError(
                f"algorithm is {self.algorithm!r}",
                f"one of {', '.join(ALGORITHMS)}, auto",
                "use 'auto'",
            )
        if self.algorithm != "auto" or self.options:
            from skyband.incomplete.monitor import IncompleteMonitor

            IncompleteMonitor(query, self.algorithm, options=self.options)

    @property
    def drainable(self) -> bool:
        """Whether a stream can answer its last windows when it is told that it has ended."""
        return self.sequence is None

    def like_one(self, by: str | Column) -> Asked:
        """The same as a query by one score, for all but its streams."""
        return like_one(self, by, keep=self.id, algorithm="auto")
