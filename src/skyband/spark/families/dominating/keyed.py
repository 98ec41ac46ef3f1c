"""Queries by key: the closed panes of a key go to the local engine, whose snapshot is the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.dominating.query import TopKDominating
from skyband.spark.axis import Clock
from skyband.spark.families.dominating.plan import DominatingQuestion
from skyband.spark.panes import AT, LABEL, SCORE, clock, key_names, pane_number
from skyband.spark.state import batch as backfill
from skyband.spark.state.batch import Answers, Columns
from skyband.spark.state.candidates import FOREVER
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    KeyProcessor,
    answer_fields,
    answer_rows,
    check_version,
    move_timer,
)
from skyband.windows import TimeWindow

if TYPE_CHECKING:
    from skyband.spark.families.dominating.points import Points

_ROWS = "_sky_rows"


class PanePoints(NamedTuple):
    """All rows of a pane that can be ranked, in the order of time."""

    number: int
    at: list[int]
    points: list[list[float]]  # by dimension
    kept: list[list[Any]]


@dataclass(frozen=True)
class KeyedKept:
    """What a processor has to know of a query by key; plain values only.

    The query is that of the local engine, over plain numbers of microseconds, less being better.
    """

    query: TopKDominating
    algorithm: str
    clock: Clock
    types: tuple[DataType, ...]

    @property
    def width(self) -> int:
        """Dimensions."""
        return len(self.query.dimensions)

    @property
    def state(self) -> StructType:
        """The layout of the state: the engine as bytes, the columns of its rows as arrays."""
        return StructType(
            [
                StructField("version", IntegerType(), False),
                StructField("timer", LongType(), False),
                StructField("last", LongType(), False),
                StructField("engine", BinaryType(), False),
                StructField("ids", ArrayType(LongType(), False), False),
                *(
                    StructField(f"kept_{i}", ArrayType(type), False)
                    for i, type in enumerate(self.types)
                ),
            ]
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""
        return answer_fields(self.types, self.query.emit == "changes")

    def pane(self, row: Any, keys: int) -> PanePoints:
        """A pane as Spark collected it: keys, label, number, places, coordinates, columns."""
        first = keys + 3
        number, at = row[keys + 1], list(row[keys + 2])
        columns = [list(column) for column in row[first:]]
        return PanePoints(number, at, columns[: self.width], columns[self.width :])

    def new(self) -> Points:
        """A key of which nothing is known."""
        from skyband.dominating.monitor import DominatingMonitor
        from skyband.spark.families.dominating.points import Points

        monitor = DominatingMonitor(self.query, self.algorithm)
        width = len(self.types)
        return Points(self.query, monitor, [], [[] for _ in range(width)])

    def load(self, value: Any) -> Points:
        """A key from its state."""
        from skyband.dominating.monitor import DominatingMonitor
        from skyband.spark.families.dominating.points import Points

        check_version(value[0])
        monitor = DominatingMonitor.restore(
            bytes(value[3]),
            self.query,
        )
        ids, *kept = (list(column) for column in value[4:])
        return Points(self.query, monitor, ids, kept, value[2])

    def rows(
        self, found: Points, panes: list[PanePoints], closed: int
    ) -> Iterator[tuple[Any, ...]]:
        """Take in closed panes; answers up to a window as output rows."""
        for pane in sorted(panes, key=lambda pane: pane.number):
            points = np.array(pane.points, np.float64).T.reshape(-1, self.width)
            found.admit(points, pane.at, pane.kept)
        changes = self.query.emit == "changes"
        return answer_rows(found.close(closed), lambda: len(found.ids), changes)


class KeyedProcessor(KeyProcessor):
    """Keeps the engine of each key in Spark's state store, and answers its windows."""

    def _run(
        self, key: Any, panes: list[PanePoints], timers: Any, fired: int = NO_TIMER
    ) -> Iterator[Row]:
        value = self._state.get()
        found = self._kept.new() if value is None else self._kept.load(value)
        timer = NO_TIMER if value is None else value[1]
        closed = self._kept.clock.closed(timers.getCurrentWatermarkInMs())
        for row in self._kept.rows(found, panes, closed):
            yield self._row(*key, *row)
        alarm = NO_TIMER if found.last <= closed else self._kept.clock.alarm(closed + 1)
        move_timer(self._handle, timer, alarm, fired)
        if found.last <= closed:
            self._state.clear()
            return
        engine = found.monitor.snapshot()
        self._state.update((STATE_VERSION, alarm, found.last, engine, found.ids, *found.kept))


def answered(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    """The windows of each key, answered by the local engine."""
    kept, names = kept_of(question), key_names(question)
    panes = _collected(rows, question)
    keys = [StructField(f"key_{i}", panes.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *kept.output])
    if not panes.isStreaming:
        return backfill.answered(panes, names, _of_panes(kept), schema)
    return panes.groupBy(*names).transformWithState(
        statefulProcessor=KeyedProcessor(kept, len(names)),
        outputStructType=schema,
        outputMode="append",
        timeMode="EventTime",
    )


def kept_of(question: DominatingQuestion) -> KeyedKept:
    """What the processor has to know of a query."""
    window = question.query.window
    assert isinstance(window, TimeWindow), "queries by key have windows of time"
    plain = TopKDominating(
        question.query.k,
        [(f"x_{i}", "min") for i in range(len(question.points))],
        replace(window, unit="tick"),
        question.query.emit,
    )
    types = tuple(column.travels for column in question.kept)
    return KeyedKept(plain, question.algorithm, clock(question), types)


def _collected(rows: DataFrame, question: DominatingQuestion) -> DataFrame:
    """All rows of each key and pane that can be ranked, in the order of time."""
    ties = [f"tie_{i}" for i in range(len(question.ties))]
    coordinates = [f"x_{i}" for i in range(len(question.points))]
    kept = [f"kept_{i}" for i in range(len(question.kept))]
    names = key_names(question)
    row = F.struct(AT, *ties, *coordinates, *kept)
    ranked = F.when(F.col(SCORE).isNotNull(), row)  # others are not collected
    found = rows.groupBy(*names, LABEL).agg(F.array_sort(F.collect_list(ranked)).alias(_ROWS))
    few = F.col(_ROWS)
    return found.select(
        *names,
        LABEL,
        pane_number(found, question).alias("pane"),
        *(few[name].alias(name) for name in (AT, *coordinates, *kept)),
    )


def _of_panes(kept: KeyedKept) -> Answers:
    """What answers all panes of a key."""

    def answers(columns: Columns) -> Iterator[tuple[Any, ...]]:
        panes = [kept.pane(row, 0) for row in zip(*columns, strict=True)]
        return kept.rows(kept.new(), panes, FOREVER)

    return answers
