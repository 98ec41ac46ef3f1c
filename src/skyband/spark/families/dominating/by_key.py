"""Queries by key: the closed panes of a key go to the local engine, whose snapshot is the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql.types import BinaryType, DataType, LongType, StructField

from skyband.dominating.query import TopKDominating
from skyband.spark.axis import FOREVER, WatermarkProgress
from skyband.spark.columns import POSITION, indexed
from skyband.spark.state.candidates import Answer, Column
from skyband.spark.state.engine import EngineRows
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    answer_fields,
    answer_rows,
    array_field,
    column_fields,
    named_columns,
    saved_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa


class PanePoints(NamedTuple):
    """All rows of a pane that can be ranked, in the order of time."""

    number: int
    position: list[int]
    points: list[Column]  # by dimension
    columns: list[Column]


@dataclass(frozen=True)
class PointsSpec(StateSpec):
    """Keeps the engine of each key, and the columns of the rows that it may report.

    The query is that of the local engine, over plain numbers of microseconds, less being better.
    """

    query: TopKDominating
    algorithm: str
    types: tuple[DataType, ...]

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.query.emit == "changes"

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The last window with anything to report, the engine as bytes, columns as arrays."""
        return (
            StructField("last", LongType(), False),
            StructField("engine", BinaryType(), False),
            array_field("ids", LongType(), False),
            *column_fields(self.types),
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""
        return answer_fields(self.types, self.changes, shared=self.query.shares_ranks)

    def pane(self, values: tuple[Any, ...]) -> PanePoints:
        """A pane of its label, number, positions, coordinates, carried columns."""
        _, number, position, *rest = values
        columns = [list(column) for column in rest]
        width = len(self.query.dimensions)
        return PanePoints(number, list(position), columns[:width], columns[width:])

    def pane_of_rows(self, number: int, rows: list[pa.RecordBatch], newest: int) -> PanePoints:
        """A pane of rows in the order of time."""
        (in_order,) = rows
        points = indexed("x", len(self.query.dimensions))
        columns = indexed("kept", len(self.types))
        return PanePoints(
            number,
            in_order.column(POSITION).to_pylist(),
            [in_order.column(name).to_pylist() for name in points],
            [in_order.column(name).to_pylist() for name in columns],
        )

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> PointsState:
        """The engine of a key."""
        from skyband.dominating.monitor import DominatingMonitor

        width = len(self.types)
        if fields is None:
            monitor = DominatingMonitor(self.query, self.algorithm)
            return PointsState(self, EngineRows(monitor, [], [[] for _ in range(width)]))
        monitor = DominatingMonitor.restore(bytes(fields["engine"]), self.query)
        engine = EngineRows(monitor, list(fields["ids"]), saved_columns(fields, width))
        return PointsState(self, engine, fields["last"])


@dataclass
class PointsState(KeyState):
    """One key: the engine, and the last window that has anything to report.

    Panes come once they are closed, in ascending order, so nothing waits in the engine: a row's
    arrival number is its sequence number.
    """

    spec: PointsSpec
    engine: EngineRows
    last_window: int = -FOREVER
    closed: int = -FOREVER
    ended: bool = False

    def run(
        self, panes: list[PanePoints], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes, and answer what the watermark has passed.

        Once the stream has ended, windows are answered as far as the engine goes on without rows.
        """
        for pane in sorted(panes, key=lambda pane: pane.number):
            self._push(pane)
        self.closed, self.ended, _ = progress
        shared = self.spec.query.shares_ranks
        return answer_rows(self._answers(), lambda: len(self.engine.ids), self.spec.changes, shared)

    def _push(self, pane: PanePoints) -> None:
        if not pane.position:
            return
        monitor: Any = self.engine.monitor
        points = np.array(pane.points, np.float64).T.reshape(-1, len(pane.points))
        self.engine.carry(len(points), pane.columns)
        times = np.array(pane.position, np.int64)
        monitor.push(points, times=times)
        # the pane may hold rows of two; with changes, one more window reports that the last left
        (newest,) = self.spec.grid.pane(times[-1:]).tolist()
        self.last_window = int(self.spec.grid.last(newest)) + self.spec.changes

    def _answers(self) -> Iterator[Answer]:
        monitor: Any = self.engine.monitor
        if self.ended:
            return self.engine.answers(monitor.finish())
        return self.engine.answers(monitor.push(watermark=self.spec.grid.window_end(self.closed)))

    @property
    def alarm(self) -> int | None:
        """When the next window ends, while there is anything to report."""
        if self.ended or self.last_window <= self.closed:
            return None
        return self.spec.axis.alarm(self.spec.grid.window_end(self.closed + 1))

    def save(self) -> dict[str, Any]:
        """The engine, and the columns of its rows."""
        return {
            "last": self.last_window,
            "engine": self.engine.monitor.snapshot(),
            "ids": self.engine.ids,
            **named_columns(self.engine.columns),
        }
