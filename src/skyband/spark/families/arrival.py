"""The row path: count windows by arrival, per key, on the local engine.

Which rows arrived last is a question of order, and Spark shuffles; so rows wait in the state until
the watermark has passed them and then arrive by time. Every row of a key goes through one task: a
count window over all rows of a stream is better asked with ``sequence=``, on the pane path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.query import TopK
from skyband.spark.panes import AT, LABEL, SCORE, key_names
from skyband.spark.plan import Question
from skyband.spark.state import batch as backfill
from skyband.spark.state.batch import Answers, Columns
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    answer_fields,
    answer_rows,
    check_version,
    move_timer,
)

if TYPE_CHECKING:
    from skyband.spark.state.engine import Arrivals, Waiting

STATE = "arrivals"
ALGORITHM = "mintopk"
"""What ``auto`` means here: its state, which each batch reads and writes, is the smallest."""


@dataclass(frozen=True)
class Line:
    """What a processor has to know of a query by arrival."""

    query: TopK
    algorithm: str
    ties: tuple[DataType, ...]
    kept: tuple[DataType, ...]

    @property
    def state(self) -> StructType:
        """The layout of the state: the engine as bytes, everything else as arrays."""
        ties = [(f"tie_{i}", type) for i, type in enumerate(self.ties)]
        kept = [(f"kept_{i}", type) for i, type in enumerate(self.kept)]
        waiting: list[tuple[str, DataType]] = [
            ("waiting_at", LongType()),
            ("waiting_score", DoubleType()),
        ]
        waiting += [(f"waiting_{name}", type) for name, type in [*ties, *kept]]
        return StructType(
            [
                StructField("version", IntegerType(), False),
                StructField("timer", LongType(), False),
                StructField("engine", BinaryType(), False),
                *(StructField(name, ArrayType(type), False) for name, type in waiting),
                StructField("ids", ArrayType(LongType(), False), False),
                *(StructField(name, ArrayType(type), False) for name, type in kept),
            ]
        )

    def new(self) -> Arrivals:
        """A key of which nothing has arrived."""
        from skyband.spark.state.engine import Arrivals

        return Arrivals.new(self.query, self.algorithm, len(self.ties), len(self.kept))

    def waiting(self, columns: list[list[Any]]) -> Waiting:
        """Rows from their columns: place, score, ties, kept."""
        from skyband.spark.state.engine import Waiting

        at, score, *rest = columns
        return Waiting(at, score, rest[: len(self.ties)], rest[len(self.ties) :])

    def load(self, value: tuple[Any, ...]) -> Arrivals:
        """A key from its state."""
        from skyband.spark.state.engine import Arrivals
        from skyband.topk.monitor import Monitor

        check_version(value[0])
        columns = [list(column) for column in value[3:]]
        width = 2 + len(self.ties) + len(self.kept)
        return Arrivals(
            self.query,
            Monitor.restore(bytes(value[2]), self.query),
            columns[width],
            columns[width + 1 :],
            self.waiting(columns[:width]),
        )

    def dump(self, found: Arrivals, timer: int) -> tuple[Any, ...]:
        """The state of a key."""
        engine = found.monitor.snapshot()
        columns = [*found.waiting.columns(), found.ids, *found.kept]
        return (STATE_VERSION, timer, engine, *columns)

    def rows(self, found: Arrivals, new: Waiting, until: int) -> Iterator[tuple[Any, ...]]:
        """Let rows arrive; answers as output rows."""
        answers = found.run(new, until)
        return answer_rows(answers, lambda: len(found.ids), self.query.emit == "changes")


class ArrivalProcessor(StatefulProcessor):
    """Keeps the engine of each key in Spark's state store, and answers its windows."""

    def __init__(self, line: Line, keys: int) -> None:
        self._line = line
        self._keys = keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        self._state = handle.getValueState(STATE, self._line.state)
        fields = answer_fields(self._line.kept, self._line.query.emit == "changes")
        names = [field.name for field in fields]
        self._row = Row(*(f"key_{i}" for i in range(self._keys)), *names)

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timerValues: Any
    ) -> Iterator[Row]:
        """Take in rows, and answer what those that the watermark passed complete."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        new = self._line.waiting(columns[self._keys : -1])  # the last column is the label
        yield from self._run(key, new, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Let rows arrive that the watermark has passed meanwhile."""
        none: list[list[Any]] = [[] for _ in range(2 + len(self._line.ties + self._line.kept))]
        fired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._run(key, self._line.waiting(none), timerValues, fired)

    def _run(self, key: Any, new: Waiting, timers: Any, fired: int = NO_TIMER) -> Iterator[Row]:
        value = self._state.get()
        found = self._line.new() if value is None else self._line.load(value)
        timer = NO_TIMER if value is None else value[1]
        until = timers.getCurrentWatermarkInMs() * 1000
        for row in self._line.rows(found, new, until):
            yield self._row(*key, *row)
        alarm = -(-min(found.waiting.at) // 1000) if found.waiting.at else NO_TIMER
        move_timer(self._handle, timer, alarm, fired)
        self._state.update(self._line.dump(found, alarm))

    def close(self) -> None:
        """Nothing to give back."""


def line_of(question: Question) -> Line:
    """What the processor has to know of a query."""
    asked = question.asked.algorithm
    return Line(
        question.query,
        ALGORITHM if asked == "auto" else asked,
        question.tie_types,
        tuple(column.travels for column in question.kept),
    )


def answered(rows: DataFrame, question: Question) -> DataFrame:
    """The windows of each key, answered by the local engine."""
    line, names = line_of(question), key_names(question)
    keys = [StructField(f"key_{i}", rows.schema[name].dataType) for i, name in enumerate(names)]
    fields = answer_fields(line.kept, question.query.emit == "changes")
    schema = StructType([*keys, *fields])
    columns = [*names, AT, SCORE]
    columns += [f"tie_{i}" for i in range(len(question.ties))]
    columns += [f"kept_{i}" for i in range(len(question.kept))]
    if not rows.isStreaming:
        return backfill.answered(rows.select(*columns), names, _answers(line), schema)
    return (
        rows.select(*columns, LABEL)
        .groupBy(*names)
        .transformWithState(
            statefulProcessor=ArrivalProcessor(line, len(names)),
            outputStructType=schema,
            outputMode="append",
            timeMode="EventTime",
        )
    )


def _answers(line: Line) -> Answers:
    """What answers all rows of a key."""

    def answers(columns: Columns) -> Iterator[tuple[Any, ...]]:
        return line.rows(line.new(), line.waiting(columns), 1 << 62)

    return answers
