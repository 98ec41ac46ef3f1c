"""The objects of incomplete streams in a file, ranked on an embedded Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from typing_extensions import override

from skyband.engine.adapter import Adapter
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.api import top_k_incomplete
from skyband.spark.files import FileRanking

if TYPE_CHECKING:
    from skyband.engine.adapter import AnyMonitor


@dataclass(frozen=True)
class IncompleteFile(FileRanking):
    """How objects are ranked: staged are their values, and the places of streams in the query.

    ``options`` are the algorithm's own.
    """

    query: TopKIncomplete
    options: Mapping[str, Any] | None = None

    ids = "object"

    @property
    @override
    def numbers(self) -> tuple[str, ...]:
        return "value", "stream"

    @property
    @override
    def sharded(self) -> bool:
        return not self.keyed and self.query.emit == "all"

    @override
    def best(self, rows: DataFrame, **window: Any) -> DataFrame:
        names = [str(at) for at in range(len(self.query.streams))]
        combine: Any = self.query.combine
        bounds = zip(self.query.low.tolist(), self.query.high.tolist(), strict=True)
        return top_k_incomplete(
            rows,
            k=self.query.k,
            streams=names,
            id="object",
            stream="stream",
            value="value",
            combine=combine,
            bounds=dict(zip(names, bounds, strict=True)),
            outside=self.query.outside,
            repeats=self.query.repeats,
            algorithm=self.algorithm,
            options=self.options,
            ties=self.query.ties,
            rank_by=self.query.rank_by,
            **window,
        )

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.incomplete.monitor import IncompleteMonitor

        return partial(Adapter, IncompleteMonitor, _columns, options=self.options)

    @override
    def pushed(self, columns: list[np.ndarray]) -> np.ndarray:
        return np.stack(columns, axis=1)


def _columns(rows: np.ndarray, ids: Any) -> tuple[Any, ...]:
    """What an :class:`IncompleteMonitor` takes, of a matrix of values and stream numbers."""
    return ids, rows[:, 1].astype(np.int64), np.ascontiguousarray(rows[:, 0])
