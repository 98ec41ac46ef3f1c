"""Count windows by arrival, per key, on the local engine.

Which rows arrived last is a question of order, and Spark shuffles; so rows wait in the state until
the watermark has passed them and then arrive by time. Every row of a key goes through one task: a
count window over all rows of a stream is better asked with ``sequence=``, which is answered from
panes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, ClassVar

import numpy as np
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StructField

from skyband.query import TopK
from skyband.spark.axis import EVERYTHING, WatermarkProgress
from skyband.spark.state.batch import Piece, sortable
from skyband.spark.state.candidates import Answer
from skyband.spark.state.candidates import Column as Values
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
from skyband.spark.state.updates import revision_fields

_RANKED_ROWS = 1_000_000  # that one push should not exceed


@dataclass
class WaitingRows:
    """Rows that the watermark has not passed: position, score, ties and carried columns."""

    position: Values
    score: Values
    ties: list[Values]
    columns: list[Values]

    @classmethod
    def empty(cls, ties: int, columns: int) -> WaitingRows:
        """No rows."""
        return cls([], [], [[] for _ in range(ties)], [[] for _ in range(columns)])

    @classmethod
    def of(cls, values: list[Values], ties: int) -> WaitingRows:
        """Rows of all their columns, in a fixed order."""
        position, score, *rest = values
        return cls(position, score, rest[:ties], rest[ties:])

    def values(self) -> list[Values]:
        """All columns, in a fixed order."""
        return [self.position, self.score, *self.ties, *self.columns]

    def take(self, which: list[int]) -> WaitingRows:
        """The rows at these places."""
        values = [[column[i] for i in which] for column in self.values()]
        return WaitingRows.of(values, len(self.ties))

    def order(self) -> list[int]:
        """The rows' places by time; rows of one moment by what tells them apart."""
        by_time = np.argsort(np.array(self.position, np.int64), kind="stable").tolist()
        order: list[int] = []
        for _, same in groupby(by_time, key=self.position.__getitem__):
            rows = list(same)
            order += sorted(rows, key=self._tie) if len(rows) > 1 else rows
        return order

    def _tie(self, row: int) -> list[Any]:
        return [sortable(column[row]) for column in self.ties]


@dataclass
class Arrivals(EngineRows):
    """Maintains one key: rows that wait for the watermark, the engine, its candidates' columns.

    Rows arrive at the engine in the order of time, once the watermark has passed them: so answers
    do not depend on how the stream was cut into batches.
    """

    waiting: WaitingRows = field(default_factory=lambda: WaitingRows.empty(0, 0))

    def run(self, rows: WaitingRows, until: int) -> Iterator[Answer]:
        """Take in rows, in any order, and answer what those up to this moment complete."""
        for column, new in zip(self.waiting.values(), rows.values(), strict=True):
            column.extend(new)
        ready = [i for i in self.waiting.order() if self.waiting.position[i] <= until]
        if not ready:
            return
        rest = sorted(set(range(len(self.waiting.position))).difference(ready))
        released, self.waiting = self.waiting.take(ready), self.waiting.take(rest)
        query = self.monitor.query
        room = max(1, _RANKED_ROWS * query.window.slide // min(query.k, query.window.size))
        for low in range(0, len(ready), room):
            yield from self._push(released.take(list(range(low, min(len(ready), low + room)))))

    def _push(self, rows: WaitingRows) -> Iterator[Answer]:
        monitor: Any = self.monitor
        numbers = monitor.query.numbers
        missing = np.array([score is None for score in rows.score], np.bool_)
        scores = np.array([0 if score is None else score for score in rows.score], numbers)
        self.carry(len(scores), rows.columns)
        yield from self.answers(monitor.push(np.ma.array(scores, mask=missing)))


@dataclass(frozen=True)
class ArrivalSpec(StateSpec):
    """Keeps the engine of each key, and the rows that wait."""

    query: TopK
    algorithm: str
    ties: tuple[DataType, ...]
    types: tuple[DataType, ...]

    name: ClassVar[str] = "arrivals"

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The engine as bytes, everything else as arrays."""
        return (
            StructField("engine", BinaryType(), False),
            array_field("waiting_at", LongType()),
            array_field("waiting_score", self._score),
            *column_fields(self.ties, "waiting_tie"),
            *column_fields(self.types, "waiting_kept"),
            array_field("ids", LongType(), False),
            *column_fields(self.types),
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""
        fields = answer_fields(self.types, self.changes, self._score, self.query.shares_ranks)
        return (*fields, *revision_fields()) if self.query.emit == "updates" else fields

    @property
    def _score(self) -> DataType:
        return LongType() if self.query.numbers == "int64" else DoubleType()

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.query.emit == "changes"

    def pane(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of a stream; behind it is its label."""
        return values[:-1]

    def waiting(self, rows: list[tuple[Any, ...]]) -> WaitingRows:
        """Rows as columns."""
        if not rows:
            return WaitingRows.empty(len(self.ties), len(self.types))
        values = [list(column) for column in zip(*rows, strict=True)]
        return WaitingRows.of(values, len(self.ties))

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> ArrivalState:
        """The engine of a key, and its rows that wait."""
        from skyband.topk.monitor import Monitor
        from skyband.topk.planner import plan

        ties, width = len(self.ties), len(self.types)
        if fields is None:
            # planned now: "auto" would remember rows until it decides, for each key
            name = plan(self.query).algorithm if self.algorithm == "auto" else self.algorithm
            waiting = WaitingRows.empty(ties, width)
            arrivals = Arrivals(Monitor(self.query, name), [], [[] for _ in range(width)], waiting)
        else:
            waiting = WaitingRows(
                list(fields["waiting_at"]),
                list(fields["waiting_score"]),
                saved_columns(fields, ties, "waiting_tie"),
                saved_columns(fields, width, "waiting_kept"),
            )
            monitor = Monitor.restore(bytes(fields["engine"]), self.query)
            columns = saved_columns(fields, width)
            arrivals = Arrivals(monitor, list(fields["ids"]), columns, waiting)
        return ArrivalState(self, arrivals)

    def progress(self, watermark: int) -> WatermarkProgress:
        """The moment that rows must not be after to arrive."""
        return WatermarkProgress(self.axis.position_at(watermark), self.axis.ended(watermark))

    def answer_all(self, pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
        """Answer all rows of a key."""
        parts = zip(*(piece.columns for piece in pieces), strict=True)
        columns = [list(chain.from_iterable(column)) for column in parts]
        rows = WaitingRows.of(columns, len(self.ties))
        return self.open(None, None).arrive(rows, EVERYTHING)


@dataclass
class ArrivalState(KeyState):
    """One key."""

    spec: ArrivalSpec
    arrivals: Arrivals

    def run(self, panes: list[Any], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in rows, and answer what those that the watermark passed complete."""
        return self.arrive(self.spec.waiting(panes), progress)

    def arrive(self, rows: WaitingRows, progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """The same, of rows as columns."""
        answers = self.arrivals.run(rows, progress.closed)
        shared = self.spec.query.shares_ranks
        return answer_rows(answers, lambda: len(self.arrivals.ids), self.spec.changes, shared)

    @property
    def alarm(self) -> int | None:
        """When the first of the rows that wait may arrive."""
        waiting = self.arrivals.waiting.position
        return self.spec.axis.alarm(min(waiting)) if waiting else None

    @property
    def finished(self) -> bool:
        """Never: the next window may hold any of the last rows."""
        return False

    def save(self) -> dict[str, Any]:
        """The engine, the rows that wait, and the columns of those that may be reported."""
        arrivals, waiting = self.arrivals, self.arrivals.waiting
        return {
            "engine": arrivals.monitor.snapshot(),
            "waiting_at": waiting.position,
            "waiting_score": waiting.score,
            **named_columns(waiting.ties, "waiting_tie"),
            **named_columns(waiting.columns, "waiting_kept"),
            "ids": arrivals.ids,
            **named_columns(arrivals.columns),
        }
