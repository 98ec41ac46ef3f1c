"""The keys of a file, ranked on an embedded Spark by their totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType
from typing_extensions import override

from skyband.engine.adapter import Adapter
from skyband.spark.api import top_k
from skyband.spark.columns import decimal_of
from skyband.spark.files import FileRanking
from skyband.totals.query import TopKTotals
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
        return ("value",)

    @property
    @override
    def whole(self) -> tuple[str, ...]:
        return self.numbers if self.query.numbers == "int64" else ()

    @property
    @override
    def score_type(self) -> str:
        return "bigint" if self.whole and self.query.by not in ("count", "mean") else "double"

    @property
    @override
    def sharded(self) -> bool:
        return not self.keyed and self.query.emit == "all"

    @override
    def best(self, rows: DataFrame, **window: Any) -> DataFrame:
        aggregate = f"{'avg' if self.query.by == 'mean' else self.query.by}(value)"
        if self.query.scale and self.query.by == "mean":
            decimal = decimal_of(F.col("value"), DecimalType(18, self.query.scale))
            rows = rows.withColumn("value", decimal)
        best = top_k(rows, k=self.query.k, by=aggregate, key="object", **window)
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

        return partial(Adapter, TotalsMonitor, lambda values, ids: (ids, values))
