"""Rows that tasks read from files, made blocks of points there: no row passes through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.spark.axis import PaneGrid
from skyband.spark.columns import LABEL, LONGER, POSITION, SCORE, indexed
from skyband.spark.families.dominating.blocks import ROWS_PER_BLOCK, PointBlockWriter
from skyband.spark.scan.row_maker import Columns, RowMaker, ScannedRows
from skyband.spark.scan.values import without_nan


@dataclass(frozen=True)
class PointsByTasks(RowMaker):
    """Makes blocks of rows whose numbers are attributes; a sign is -1 where more is better."""

    writer: PointBlockWriter
    grid: PaneGrid
    signs: tuple[float, ...]

    hands_on: ClassVar[str] = "blocks of points"

    def checked(self, values: list[Any], columns: Columns, extra: dict[str, int]) -> list[Any]:
        """0 for each row, or NULL or NaN where an attribute is; then the coordinates."""
        null = reduce(pc.or_, map(pc.is_null, values))
        nan = reduce(pc.or_kleene, map(pc.is_nan, values))
        ranked = pc.if_else(nan, float("nan"), 0.0)
        score = pc.if_else(null, pa.scalar(None, pa.float64()), ranked)
        signed = zip(values, self.signs, strict=True)
        return [score, *(pc.add(pc.multiply(value, sign), 0.0) for value, sign in signed)]

    def made(self, rows: ScannedRows) -> Iterator[Columns]:
        """Blocks of the rows of a batch."""
        score, *points = rows.values
        split = {LONGER: pa.array(self.grid.in_longer_pane(rows.positions))}
        table = pa.table(
            {
                LABEL: pa.array(np.asarray(self.grid.label(rows.positions))),
                **(split if self.writer.split else {}),
                SCORE: without_nan(score),
                POSITION: pa.array(rows.positions),
                **dict(zip(indexed("x", len(points)), points, strict=True)),
                **rows.columns,
            }
        )
        for low in range(0, table.num_rows, ROWS_PER_BLOCK):
            blocks = self.writer.of_rows(table.slice(low, ROWS_PER_BLOCK))
            yield dict(zip(blocks.schema.names, blocks.columns, strict=True))
