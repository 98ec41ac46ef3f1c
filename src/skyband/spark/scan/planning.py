"""Whether the tasks of a query can read its files by themselves, and what they hand on.

What they hand on has the columns that the pipeline would project, and one with counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from skyband.spark.axis import Axis
from skyband.spark.columns import COUNTS, TransportColumn, score_names
from skyband.spark.plan import Plan
from skyband.spark.scan import NotScannedError
from skyband.spark.scan.arithmetic import NUMBERS, Node
from skyband.spark.scan.columns_of_files import readable
from skyband.spark.scan.pieces import COUNTED, Scan
from skyband.spark.scan.row_maker import RowMaker
from skyband.spark.scan.source import ParquetSource
from skyband.spark.scan.translation import column_value, translated, type_name
from skyband.spark.scan.values import ScanAxis, ScanColumn, ScanScore


@dataclass(frozen=True)
class Reading:
    """Who reads the files of a query: tasks, by a ``scan``, or Spark, for a ``reason``."""

    source: ParquetSource
    layout: StructType
    scan: Scan | None
    reason: str = ""

    @property
    def words(self) -> str:
        """Who reads the files, and why, in words."""
        if self.scan is None:
            return f"read by Spark: {self.reason}"
        reduction = self.scan.reduction
        made = reduction.hands_on if isinstance(reduction, RowMaker) else "only rows that may win"
        return f"read by tasks, with Arrow: {made} are handed to Spark"

    def rows(self, partitions: int) -> DataFrame | None:
        """The rows that tasks hand on which read the files; None if Spark reads them."""
        if self.scan is None:
            return None
        return self.source.pieces(partitions).mapInArrow(self.scan, self.layout)


def reading(source: ParquetSource, projected: StructType, plan: Plan) -> Reading:
    """Decide who reads; ``projected`` is the layout of the rows that the pipeline projects."""
    try:
        scan = scan_of(source, projected, plan)
        return Reading(source, handed_on_layout(projected, plan), scan)
    except NotScannedError as reason:
        return Reading(source, projected, None, str(reason))


def scan_of(source: ParquetSource, projected: StructType, plan: Plan) -> Scan:
    """What tasks do with the files of a source; raises :class:`NotScannedError` if Spark must read.

    ``projected`` is the layout of the rows that the pipeline would project.
    """
    why_not = source.why_not
    if why_not is not None:
        raise NotScannedError(why_not)
    if plan.base.deduplicate_by:
        raise NotScannedError("rows that repeat each other must meet before any is left out")
    reduction = plan.scan_reduction(source.frame.isStreaming)
    translation = _Columns(source.frame, plan)
    scores = translation.scores()
    axis = _axis(plan.base.axis)
    keys = translation.columns("key", plan.base.keys, is_key=True)
    others = [
        *translation.columns("tie", plan.base.ties),
        *translation.columns("kept", plan.base.columns),
        *translation.extra_columns(),
    ]
    where = translation.where()
    first = [axis.column]
    for node in [*(score.node for score in scores), *(key.node for key in keys)]:
        first += node.columns
    if where is not None:
        first += where.columns
    names = list(dict.fromkeys([*first, *(name for one in others for name in one.node.columns)]))
    types = {name: translation.type(name) for name in names}
    layout = handed_on_layout(projected, plan)
    return Scan(
        types,
        where,
        tuple(scores),
        axis,
        (*keys, *others),
        reduction,
        to_arrow_schema(layout),
        tuple(dict.fromkeys(first)),
    )


def handed_on_layout(projected: StructType, plan: Plan) -> StructType:
    """The columns that tasks hand on, and what they have counted."""
    names = (*COUNTED, *plan.extra_counts)
    counts = StructType([StructField(name, LongType()) for name in names])
    columns = plan.scan_layout(projected)
    fields = [StructField(field.name, field.dataType) for field in columns.fields]
    return StructType([*fields, StructField(COUNTS, counts)])


def _axis(axis: Axis) -> ScanAxis:
    skew = getattr(axis, "skew", None)
    limit = None if axis.kind == "time" else axis.end // 2
    return ScanAxis(axis.column, getattr(axis, "dates", False), skew, limit)


class _Columns:
    """The columns and expressions of a plan, over those of the files."""

    def __init__(self, df: DataFrame, plan: Plan) -> None:
        self._df, self._plan = df, plan
        derivation = plan.base.derivation
        self._texts = {one.name: one.sql for one in derivation.expressions}
        self._where = derivation.where

    def where(self) -> Node | None:
        """The condition."""
        return None if self._where is None else self._translated(self._where, "where")

    def scores(self) -> list[ScanScore]:
        """What rows are ranked by."""
        scores = self._plan.scan_scores()
        parts = []
        for name, (text, exact, option, needs) in zip(
            score_names(len(scores)), scores, strict=True
        ):
            node = self._translated(text, option)
            scale = None
            if node.type not in NUMBERS and not node.type.startswith("decimal("):
                raise NotScannedError(f"{text} is of type {node.type}")
            if node.type.startswith("decimal("):
                scale = int(node.type[:-1].split(",")[1])
            needed = tuple(map(self._column, needs))
            parts.append(ScanScore(name, node, exact, scale, option, needed))
        return parts

    def extra_columns(self) -> list[ScanColumn]:
        """Columns that only this family hands on."""
        extra = self._plan.scan_columns()
        return [ScanColumn(name, self._column(column)) for name, column in extra.items()]

    def columns(
        self, prefix: str, columns: tuple[TransportColumn, ...], is_key: bool = False
    ) -> list[ScanColumn]:
        """Columns that are handed on, under our names."""
        return [
            ScanColumn(f"{prefix}_{number}", self._column(column.name), is_key)
            for number, column in enumerate(columns)
        ]

    def _column(self, name: str) -> Node:
        if name in self._texts:
            return self._translated(self._texts[name], name)
        return column_value(self._df, name)

    def type(self, name: str) -> str:
        """The type of a column that is read."""
        type = type_name(self._df.schema[name].dataType)
        if not readable(type):
            raise NotScannedError(f"{name} is of type {type}")
        return type

    def _translated(self, text: Any, option: str) -> Node:
        if not isinstance(text, str) or text.startswith("Column<"):
            raise NotScannedError(f"{option} is a Column, not SQL text")
        return translated(self._df, text)
