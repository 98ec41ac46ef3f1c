"""The keys of a file, ranked on an embedded Spark by their totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType
from typing_extensions import override

from skyband.engine.adapter import Adapter
from skyband.spark.api import top_k
from skyband.spark.columns import decimal_of
from skyband.spark.files import FileRanking
from skyband.totals.aggregate import Aggregate
from skyband.totals.query import TopKTotals, Total
from skyband.windows import CountWindow

if TYPE_CHECKING:
    from skyband.engine.adapter import AnyMonitor


@dataclass(frozen=True)
class TotalsFile(FileRanking):
    """How keys are ranked: staged are the numbers of the keys that rows are added up by."""

    query: TopKTotals

    ids = "object"
    takes_sequence = False

    @property
    @override
    def numbers(self) -> tuple[str, ...]:
        return ("value", *self._carried)

    @property
    @override
    def whole(self) -> tuple[str, ...]:
        totals = (self.query.total, *self.query.carried.values())
        return tuple(n for n, total in zip(self.numbers, totals, strict=True) if total.whole)

    @property
    def _carried(self) -> tuple[str, ...]:
        """The staged columns of the totals that are carried."""
        return tuple(f"also_{at}" for at in range(len(self.query.also)))

    @property
    @override
    def also(self) -> dict[str, str]:
        totals = zip(self._carried, self.query.carried.values(), strict=True)
        return {name: _type(total) for name, total in totals}

    @property
    @override
    def score_type(self) -> str:
        return _type(self.query.total)

    @property
    @override
    def sharded(self) -> bool:
        return not self.keyed and self.query.emit == "all"

    @override
    def best(self, rows: DataFrame, **window: Any) -> DataFrame:
        totals = (self.query.total, *self.query.carried.values())
        for name, total in zip(self.numbers, totals, strict=True):
            if total.scale and total.by == "mean":
                decimal = decimal_of(F.col(name), DecimalType(18, total.scale))
                rows = rows.withColumn(name, decimal)
        by, *also = (
            str(Aggregate(total.by, name)) for name, total in zip(self.numbers, totals, strict=True)
        )
        carried = dict(zip(self._carried, also, strict=True))
        best = top_k(
            rows,
            k=self.query.k,
            by=by,
            key="object",
            also=carried or None,
            ties=self.query.ties,
            rank_by=self.query.rank_by,
            **window,
        )
        if not isinstance(self.query.window, CountWindow):
            return best
        # arrivals are as good as moments, if windows end with the last one
        last = rows.agg((F.max("place") + 1).alias("last")).collect()[0]["last"]
        first = self.query.window.size if self.query.window.full else 0
        end = F.unix_micros("window.end")
        return best.filter((end <= (last or 0)) & (end >= first))

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.totals.monitor import TotalsMonitor

        names = list(self.query.also)

        def columns_of(rows: Any, ids: Any) -> tuple[Any, ...]:
            if not names:
                return ids, rows
            value, *also = rows.columns
            return ids, value, dict(zip(names, also, strict=True))

        return partial(Adapter, TotalsMonitor, columns_of)

    @override
    def pushed(self, columns: list[np.ndarray]) -> Any:
        import pyarrow as pa

        if not self.query.also:
            return super().pushed(columns)
        arrays = [pa.array(column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, list(self.numbers))


def _type(total: Total) -> str:
    """The type of totals in answers."""
    return "bigint" if total.whole and total.by not in ("count", "mean") else "double"
