"""The stateful part of the pane path: panes of a key in, ranked windows out.

The rule that keeps answers exact whatever a micro-batch holds: sort the panes; before each, answer
every window that ends before it; then insert and prune; then answer all windows that the watermark
has passed; hold one timer, beyond the watermark, for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.errors import SnapshotError
from skyband.spark.axis import Clock
from skyband.spark.state.candidates import Answer, Candidates, Lives, Pane, Pool, Ranking

STATE = "candidates"
STATE_VERSION = 1
NO_TIMER = -(1 << 62)
_FIXED = 4  # version, timer, due, reached


def answer_fields(types: tuple[DataType, ...], changes: bool) -> tuple[StructField, ...]:
    """The columns of an answer, without the key: one row per window, one array per column."""
    ranks = (
        StructField("ranks", ArrayType(IntegerType(), False)),
        StructField("previous", ArrayType(IntegerType(), False)),
    )
    return (
        StructField("window", LongType()),
        StructField("candidates", LongType()),
        StructField("scores", ArrayType(DoubleType(), False)),
        *(ranks if changes else ()),
        *(StructField(f"kept_{i}", ArrayType(type)) for i, type in enumerate(types)),
    )


def answer_rows(
    answers: Iterator[Answer], candidates: Callable[[], int], changes: bool
) -> Iterator[tuple[Any, ...]]:
    """Answers in the layout of :func:`answer_fields`.

    The last one tells how many candidates were left after it: their sum over the keys is the size
    of the state.
    """

    def row(answer: Answer, left: int | None) -> tuple[Any, ...]:
        ranks = (answer.rank, answer.previous) if changes else ()
        return (answer.window, left, answer.score, *ranks, *answer.kept)

    last: Answer | None = None
    for answer in answers:
        if last is not None:
            yield row(last, None)
        last = answer
    if last is not None:
        yield row(last, candidates())


@dataclass(frozen=True)
class Kept:
    """What a processor has to know of a query; plain values only, for it travels to workers.

    ``types`` are the types of the carried columns.
    """

    k: int
    lives: Lives
    clock: Clock
    types: tuple[DataType, ...]
    changes: bool
    begins: int

    @property
    def state(self) -> StructType:
        """The layout of the state: one array per column of the candidates."""
        fields = [
            StructField("version", IntegerType(), False),
            StructField("timer", LongType(), False),
            StructField("due", LongType(), False),
            StructField("reached", LongType(), False),
            StructField("beaten", ArrayType(LongType(), False), False),
            *self._ranking(""),
        ]
        if self.changes:
            fields += self._ranking("previous_")
        return StructType(fields)

    def _ranking(self, prefix: str) -> list[StructField]:
        return [
            StructField(f"{prefix}pane", ArrayType(LongType(), False), False),
            StructField(f"{prefix}place", ArrayType(LongType(), False), False),
            StructField(f"{prefix}score", ArrayType(DoubleType(), False), False),
            *(
                StructField(f"{prefix}kept_{i}", ArrayType(type), False)
                for i, type in enumerate(self.types)
            ),
        ]

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""
        return answer_fields(self.types, self.changes)

    def candidates(self) -> Candidates:
        """A key of which nothing is known yet."""
        return Candidates(self.k, self.lives, len(self.types), self.changes, self.begins)

    def rows(
        self, found: Candidates, panes: list[Pane], closed: int, ended: bool
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes; answers up to a window as output rows."""
        return answer_rows(found.run(panes, closed, ended), lambda: len(found), self.changes)

    def pane(self, row: Any, keys: int) -> Pane:
        """A pane as Spark aggregated it: keys, label, number, scores, kept columns, reached."""
        kept = keys + 3
        last = kept + len(self.types)
        return Pane(row[keys + 1], row[keys + 2], list(row[kept:last]), *row[last:])


class KeyProcessor(StatefulProcessor):
    """What processors have in common: one state for each key, panes in, windows out.

    ``kept`` knows the layout of the state and of the output, and what a pane is.
    """

    def __init__(self, kept: Any, keys: int) -> None:
        self._kept = kept
        self._keys = keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        self._state = handle.getValueState(STATE, self._kept.state)
        names = [field.name for field in self._kept.output]
        self._row = Row(*(f"key_{i}" for i in range(self._keys)), *names)

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timerValues: Any
    ) -> Iterator[Row]:
        """Take in the panes that closed, and answer what they complete."""
        yield from self._run(key, [self._kept.pane(row, self._keys) for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Answer the windows of a key that nothing arrived for."""
        yield from self._run(key, [], timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def _run(self, key: Any, panes: list[Any], timers: Any, fired: int = NO_TIMER) -> Iterator[Row]:
        """Take in panes, and answer what the watermark has passed."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to give back."""


class PaneProcessor(KeyProcessor):
    """Keeps the candidates of each key in Spark's state store, and answers its windows."""

    def _run(
        self, key: Any, panes: list[Pane], timers: Any, fired: int = NO_TIMER
    ) -> Iterator[Row]:
        found, timer = self._load()
        watermark = timers.getCurrentWatermarkInMs()
        closed, ended = self._kept.clock.closed(watermark), self._kept.clock.ended(watermark)
        for row in self._kept.rows(found, panes, closed, ended):
            yield self._row(*key, *row)
        self._save(found, timer, fired)

    def _load(self) -> tuple[Candidates, int]:
        found = self._kept.candidates()
        value = self._state.get()
        if value is None:
            return found, NO_TIMER
        check_version(value[0])
        width = _FIXED + 1
        found.due, found.reached = value[2], value[3]
        found.beaten = np.array(value[4], np.int64)
        found.rows = _ranking(value[width:], found.pool)
        if self._kept.changes:
            width += 3 + len(self._kept.types)
            found.previous = _ranking(value[width:], found.pool)
        return found, value[1]

    def _save(self, found: Candidates, timer: int, fired: int) -> None:
        """Store what is left, under one timer for the next window."""
        alarm = NO_TIMER if found.idle else self._kept.clock.alarm(found.due)
        move_timer(self._handle, timer, alarm, fired)
        if found.idle:
            self._state.clear()
            return
        value = [STATE_VERSION, alarm, found.due, found.reached, found.beaten.tolist()]
        value += _columns(found.rows)
        if self._kept.changes:
            value += _columns(found.previous)
        self._state.update(tuple(value))


def move_timer(handle: StatefulProcessorHandle, timer: int, alarm: int, fired: int) -> None:
    """Hold one timer, at ``alarm``, instead of ``timer``; ``fired`` is the one that just did."""
    if alarm == timer:
        return
    if timer not in (NO_TIMER, fired):  # Spark removes the one that fired
        handle.deleteTimer(timer)
    if alarm != NO_TIMER:
        handle.registerTimer(alarm)


def check_version(found: int) -> None:
    """Refuse a state that another release wrote."""
    if found != STATE_VERSION:
        raise SnapshotError(
            f"the checkpoint holds state of version {found}",
            f"version {STATE_VERSION}",
            "finish this stream with the release that began it, or start a new checkpoint",
        )


def _columns(rows: Ranking) -> list[Any]:
    return [rows.pane.tolist(), rows.place.tolist(), rows.score.tolist(), *rows.kept]


def _ranking(values: Any, pool: Pool) -> Ranking:
    width = len(pool.columns)
    return Ranking(
        pool,
        np.array(values[0], np.int64),
        np.array(values[1], np.int64),
        np.array(values[2], np.float64),
        pool.add(list(values[3 : 3 + width]), len(values[0])),
    )
