"""The points of a file, ranked on an embedded Spark by how many others they dominate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from typing_extensions import override

from skyband.dominating.query import TopKDominating
from skyband.spark.api import top_k_dominating
from skyband.spark.files import FileRanking

if TYPE_CHECKING:
    from skyband.engine.adapter import AnyMonitor


@dataclass(frozen=True)
class DominatingFile(FileRanking):
    """How points are ranked: a staged column ``number_0``, ``number_1``, ... per dimension."""

    query: TopKDominating

    @property
    @override
    def numbers(self) -> tuple[str, ...]:
        return tuple(f"number_{at}" for at in range(len(self.query.dimensions)))

    @property
    @override
    def sharded(self) -> bool:
        return not self.keyed and self.algorithm == "auto" and self.query.emit == "all"

    @override
    def best(self, rows: DataFrame, **window: Any) -> DataFrame:
        directions = [way for _, way in self.query.dimensions]
        dimensions = list(zip(self.numbers, directions, strict=True))
        return top_k_dominating(
            rows,
            k=self.query.k,
            dimensions=dimensions,
            id="row",
            keep="row",
            ties=self.query.ties,
            rank_by=self.query.rank_by,
            **window,
        )

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.dominating.monitor import DominatingMonitor

        return DominatingMonitor

    @override
    def pushed(self, columns: list[np.ndarray]) -> np.ndarray:
        return np.stack(columns, axis=1)
