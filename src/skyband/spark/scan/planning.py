"""Whether the tasks of a query can read its files by themselves, and what they hand on.

What they hand on has the columns that the pipeline would project, and one with counts.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from skyband.spark.axis import Axis
from skyband.spark.columns import ALL, COUNTS, POSITION, TransportColumn, score_names
from skyband.spark.plan import Plan
from skyband.spark.scan import NotScannedError
from skyband.spark.scan.arithmetic import Node
from skyband.spark.scan.columns_of_files import readable
from skyband.spark.scan.pieces import COUNTED, Scan, ScanAxis, ScanColumn, ScanScore
from skyband.spark.scan.source import ParquetSource
from skyband.spark.scan.translation import column_value, translated, type_name


def scanned(source: ParquetSource, projected: StructType, plan: Plan) -> DataFrame | None:
    """The rows that tasks hand on which read the files; None if Spark reads them."""
    try:
        scan = scan_of(source, projected, plan)
    except NotScannedError:
        return None
    return source.pieces(plan.base.partitions).mapInArrow(scan, handed_on_layout(projected))


def words(source: ParquetSource, projected: StructType, plan: Plan) -> str:
    """Who reads the files of a source, and why, in words."""
    try:
        scan_of(source, projected, plan)
    except NotScannedError as reason:
        return f"read by Spark: {reason}"
    return "read by tasks, with Arrow: only rows that may win are handed to Spark"


def scan_of(source: ParquetSource, projected: StructType, plan: Plan) -> Scan:
    """What tasks do with the files of a source; raises :class:`NotScannedError` if Spark must read.

    ``projected`` is the layout of the rows that the pipeline would project.
    """
    why_not = source.why_not
    if why_not is not None:
        raise NotScannedError(why_not)
    if plan.base.deduplicate_by:
        raise NotScannedError("rows that repeat each other must meet before any is left out")
    reduction = plan.scan_reduction()
    translation = _Columns(source.frame, plan)
    scores = translation.scores()
    axis = _axis(plan.base.axis)
    keys = translation.columns("key", plan.base.keys, is_key=True)
    others = [
        *translation.columns("tie", plan.base.ties),
        *translation.columns("kept", plan.base.columns),
    ]
    where = translation.where()
    first = [axis.column]
    for node in [*(score.node for score in scores), *(key.node for key in keys)]:
        first += node.columns
    if where is not None:
        first += where.columns
    names = list(dict.fromkeys([*first, *(name for one in others for name in one.node.columns)]))
    types = {name: translation.type(name) for name in names}
    layout = handed_on_layout(projected)
    return Scan(
        types,
        where,
        tuple(scores),
        axis,
        (*keys, *others),
        reduction,
        to_arrow_schema(layout),
        POSITION,
        ALL,
        COUNTS,
        tuple(dict.fromkeys(first)),
    )


def handed_on_layout(projected: StructType) -> StructType:
    """The columns that tasks hand on."""
    counts = StructType([StructField(name, LongType()) for name in COUNTED])
    fields = [StructField(field.name, field.dataType) for field in projected.fields]
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
        for name, (text, exact) in zip(score_names(len(scores)), scores, strict=True):
            node = self._translated(text, "by")
            scale = None
            if node.type.startswith("decimal("):
                scale = int(node.type[:-1].split(",")[1])
            parts.append(ScanScore(name, node, exact, scale))
        return parts

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
