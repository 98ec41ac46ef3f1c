"""The stateful part: panes of a key in, ranked windows of all queries out.

The state of a key is its candidate rows and how far it has been answered. Queries are not part of
it: a job that goes on with other queries answers those from the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from skyband.query import TopK
from skyband.spark.axis import Clock
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    KeyProcessor,
    check_version,
    move_timer,
)

if TYPE_CHECKING:
    from skyband.spark.families.workload.candidates import Found, SharedCandidates
    from skyband.workload.schedule import Schedule

FOREVER = 1 << 62
_FIXED = 4  # version, timer, done, reached
_ROWS = 4  # where an output row holds the slots of its windows

Panes = list[tuple[Any, ...]]
"""Panes as Spark aggregated them, without keys: place, then columns by each score, reached."""


@dataclass(frozen=True)
class Asker:
    """A query as it travels to workers: its name, its score, and where its windows begin."""

    name: str
    query: TopK
    score: int
    since: int | None


@dataclass(frozen=True)
class SharedKept:
    """What a processor has to know of a workload; plain values only.

    ``types`` are those of the carried columns; ``clock`` counts places, not windows.
    """

    askers: tuple[Asker, ...]
    scores: int
    clock: Clock
    types: tuple[DataType, ...]

    @property
    def counted(self) -> bool:
        """Whether windows count rows; panes then tell how far their rows complete them."""
        return self.clock.per_ms == 1

    @property
    def state(self) -> StructType:
        """The layout of the state: one array per column of the candidates by each score."""
        fields = [
            StructField("version", IntegerType(), False),
            StructField("timer", LongType(), False),
            StructField("done", LongType(), False),
            StructField("reached", LongType(), False),
        ]
        for i in range(self.scores):
            fields += [
                StructField(f"place_{i}", ArrayType(LongType(), False), False),
                StructField(f"score_{i}", ArrayType(DoubleType(), False), False),
            ]
            fields += [
                StructField(f"kept_{j}_by_{i}", ArrayType(type), False)
                for j, type in enumerate(self.types)
            ]
        return StructType(fields)

    @property
    def output(self) -> tuple[StructField, ...]:
        """Some windows, without the key: their rows once, and each ranking as places in them."""
        return (
            StructField("candidates", LongType()),
            StructField("queries", ArrayType(StringType(), False)),
            StructField("starts", ArrayType(LongType(), False)),
            StructField("ends", ArrayType(LongType(), False)),
            StructField("rows", ArrayType(ArrayType(IntegerType(), False), False)),
            StructField("scores", ArrayType(DoubleType(), False)),
            *(StructField(f"kept_{i}", ArrayType(type)) for i, type in enumerate(self.types)),
        )

    @cached_property
    def schedules(self) -> list[tuple[Schedule, float]]:
        """The windows of the queries by each score, and how many rows they rank per unit."""
        from skyband.workload.schedule import Schedule

        found = []
        for score in range(self.scores):
            schedule, rate = Schedule(counted=False, farewell=False), 0.0
            for number, asker in enumerate(self.askers):
                if asker.score == score:
                    schedule.add(number, asker.query, asker.since)
                    rate += asker.query.k / asker.query.window.slide
            found.append((schedule, rate))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "schedules"}

    def pane(self, row: Any, keys: int) -> tuple[Any, ...]:
        """A pane as Spark aggregated it, without its keys."""
        return tuple(row[keys:])

    def new(self, done: int = -FOREVER // 2) -> Key:
        """A key of which no rows are known; its windows up to ``done`` were answered."""
        from skyband.spark.families.workload.candidates import SharedCandidates

        width = len(self.types)
        return Key(
            self,
            [SharedCandidates(schedule, rate, width, done) for schedule, rate in self.schedules],
        )

    def load(self, value: Any) -> Key:
        """A key from its state."""
        check_version(value[0])
        key = self.new(value[2])
        key.reached = value[3]
        width = 2 + len(self.types)
        for i, candidates in enumerate(key.candidates):
            place, score, *kept = value[_FIXED + i * width : _FIXED + (i + 1) * width]
            candidates.load(place, score, list(kept))
        return key


class Key:
    """One key at work: its candidates by each score, and the last place its rows complete."""

    def __init__(self, kept: SharedKept, candidates: list[SharedCandidates]) -> None:
        self._kept = kept
        self.candidates = candidates
        self.reached = -FOREVER
        self.due: int | None = None

    @property
    def left(self) -> int:
        """Rows that are kept."""
        return sum(map(len, self.candidates))

    def rows(self, panes: Panes, closed: int, ended: bool) -> Iterator[tuple[Any, ...]]:
        """Take in panes; answer, in the layout of ``output``, what ends at ``closed`` or before.

        Once the stream has ``ended``, windows that count rows are answered as far as this key's
        rows complete them, and then nothing is left.
        """
        width = 1 + len(self._kept.types)
        if self._kept.counted:
            self.reached = max([self.reached, *(pane[-1] for pane in panes)])
            closed = min(closed, self.reached) if ended else closed
        last = None
        for i, candidates in enumerate(self.candidates):
            for found in candidates.run(_panes(panes, 1 + i * width, width), closed):
                if last is not None:
                    yield (None, *last)
                last = self._row(candidates, found)
        dues = [candidates.due for candidates in self.candidates if candidates.due is not None]
        self.due = None if ended or not dues else min(dues)
        if last is not None:
            yield (self.left, *last)

    def _row(self, candidates: SharedCandidates, found: Found) -> tuple[Any, ...]:
        used, slots = np.unique(found.slots, return_inverse=True)
        flat, upto = slots.tolist(), found.upto.tolist()
        rankings = [flat[a:b] for a, b in zip([0, *upto], upto, strict=False)]
        where = used.tolist()
        windows = found.windows
        return (
            [self._kept.askers[number].name for number in windows.query.tolist()],
            windows.start.tolist(),
            windows.end.tolist(),
            rankings,
            candidates.score[used].tolist(),
            *([column[i] for i in where] for column in candidates.pool.columns),
        )

    def columns(self) -> list[Any]:
        """The columns of all candidates, as the state has them."""
        return [column for candidates in self.candidates for column in candidates.columns()]


def weight(row: tuple[Any, ...]) -> int:
    """How many ranked rows an output row without its key holds."""
    return sum(map(len, row[_ROWS]))


def _panes(panes: Panes, at: int, width: int) -> list[Any]:
    from skyband.spark.families.workload.candidates import SharedPane

    return [
        SharedPane(pane[0], pane[at], list(pane[at + 1 : at + width])) for pane in panes if pane[at]
    ]


class SharedProcessor(KeyProcessor):
    """Keeps the candidates of each key in Spark's state store, and answers all queries."""

    def _run(self, key: Any, panes: Panes, timers: Any, fired: int = NO_TIMER) -> Iterator[Row]:
        value = self._state.get()
        found = self._kept.new() if value is None else self._kept.load(value)
        timer = NO_TIMER if value is None else value[1]
        clock, watermark = self._kept.clock, timers.getCurrentWatermarkInMs()
        closed, ended = clock.closed(watermark), clock.ended(watermark)
        for row in found.rows(panes, closed, ended):
            yield self._row(*key, *row)
        alarm = NO_TIMER if found.due is None else clock.alarm(found.due)
        move_timer(self._handle, timer, alarm, fired)
        if found.due is None:
            self._state.clear()
            return
        self._state.update((STATE_VERSION, alarm, closed, found.reached, *found.columns()))
