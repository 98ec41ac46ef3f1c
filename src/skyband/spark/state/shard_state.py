"""Shards in Spark's state store: panes of a shard in, its best objects of each window out.

All shards see the same watermark, so each answers a window in the micro-batch in which the
watermark passes its end: with news, or when its timer fires. So their rankings can be merged
without any state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.spark.axis import Clock
from skyband.spark.plan import Question
from skyband.spark.state import shard_batch as at_once
from skyband.spark.state import shards as panes
from skyband.spark.state.candidates import FOREVER, Lives
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    KeyProcessor,
    answer_fields,
    answer_rows,
    check_version,
    move_timer,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.state.shard import Shard, ShardPane
    from skyband.spark.state.shard_engine import Engine

_FIXED = 5  # version, timer, base, last, engine


@dataclass(frozen=True)
class ShardKept:
    """What a processor has to know of a query; plain values only, for it travels to workers.

    ``types`` are those of the parts of an id, ``whole`` says that the id is one whole number,
    ``merged`` that rankings of several shards are merged, ``columns`` how many the engine wants
    besides. Windows before ``begins`` are not answered.
    """

    engine: Engine
    lives: Lives
    clock: Clock
    types: tuple[DataType, ...]
    whole: bool
    merged: bool
    columns: int
    begins: int = -FOREVER

    @property
    def k(self) -> int:
        """Objects per window."""
        return self.engine.k

    @property
    def state(self) -> StructType:
        """The layout of the state: the engine as bytes, ids and times as arrays."""
        ids: list[tuple[str, DataType]] = []
        if not self.whole:
            ids = [("numbers", LongType()), ("own", IntegerType())]
            ids += [(f"id_{i}", type) for i, type in enumerate(self.types)]
        times: list[tuple[str, DataType]] = [("made", LongType()), ("at", LongType())]
        return StructType(
            [
                StructField("version", IntegerType(), False),
                StructField("timer", LongType(), False),
                StructField("base", LongType(), False),
                StructField("last", LongType(), False),
                StructField("engine", BinaryType(), False),
                *(
                    StructField(name, ArrayType(type, False), False)
                    for name, type in [*(times if self.merged else []), *ids]
                ),
            ]
        )

    @property
    def carried(self) -> tuple[DataType, ...]:
        """What an answer carries: the parts of the id and, if it is to be merged, the time."""
        return (*self.types, LongType()) if self.merged else self.types

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without key and shard."""
        return answer_fields(self.carried, self.engine.changes)

    def pane(self, row: Any, keys: int) -> ShardPane:
        """A pane as Spark collected it: keys, label, number, places, hashes, ids, columns."""
        from skyband.spark.state.shard import ShardPane

        number, at, *rest = row[keys + 1 :]
        hashes = [] if self.whole else rest.pop(0)
        ids, rest = rest[: len(self.types)], rest[len(self.types) :]
        return ShardPane(number, at, hashes, ids, rest[: self.columns])

    def pane_of(self, number: int, parts: list[list[pa.Array]]) -> ShardPane:
        """A pane of Arrow's arrays, which came in parts."""
        import pyarrow as pa

        from skyband.spark.state.shard import ShardPane

        at, *rest = (pa.concat_arrays(columns) for columns in zip(*parts, strict=True))
        hashes = [] if self.whole else rest.pop(0).to_pylist()
        ids, rest = rest[: len(self.types)], rest[len(self.types) :]
        named = [column.to_numpy() if self.whole else column.to_pylist() for column in ids]
        columns = [column.to_numpy() for column in rest[: self.columns]]
        return ShardPane(number, at.to_numpy(), hashes, named, columns)

    def new(self) -> Shard:
        """A shard of which nothing is known."""
        from skyband.spark.state.ids import Numbers
        from skyband.spark.state.shard import Shard

        numbers = Numbers(self.whole, len(self.types))
        return Shard(self.engine, self.lives, self.engine.new(), numbers, self.merged)

    def load(self, value: Any) -> Shard:
        """A shard from its state."""
        import numpy as np

        from skyband.spark.state.ids import Numbers
        from skyband.spark.state.shard import Shard

        check_version(value[0])
        monitor = self.engine.restore(zlib.decompress(bytes(value[4])))
        numbers = Numbers(self.whole, len(self.types))
        found = Shard(self.engine, self.lives, monitor, numbers, self.merged, value[2], value[3])
        columns = list(value[_FIXED:])
        if self.merged:
            found.made = np.array(columns.pop(0), np.int64)
            found.at = np.array(columns.pop(0), np.int64)
        numbers.adopt([list(column) for column in columns])
        return found

    def dump(self, found: Shard, timer: int) -> tuple[Any, ...]:
        """The state of a shard."""
        engine = zlib.compress(found.monitor.snapshot(), 1)
        times = [found.made.tolist(), found.at.tolist()] if self.merged else []
        columns = found.numbers.columns()
        return (STATE_VERSION, timer, found.base, found.last, engine, *times, *columns)

    def rows(self, found: Shard, panes: list[ShardPane], closed: int) -> Iterator[tuple[Any, ...]]:
        """Take in closed panes; answers up to a window as output rows."""
        answers = (one for one in found.run(panes, closed) if one.window >= self.begins)
        return answer_rows(answers, lambda: found.held, self.engine.changes)


class ShardProcessor(KeyProcessor):
    """Keeps the engine of each shard in Spark's state store, and answers its windows."""

    def _run(
        self, key: Any, panes: list[ShardPane], timers: Any, fired: int = NO_TIMER
    ) -> Iterator[Row]:
        value = self._state.get()
        if value is None and not any(len(pane.at) for pane in panes):
            return
        found = self._kept.new() if value is None else self._kept.load(value)
        timer = NO_TIMER if value is None else value[1]
        closed = self._kept.clock.closed(timers.getCurrentWatermarkInMs())
        for row in self._kept.rows(found, panes, closed):
            yield self._row(*key, *row)
        alarm = NO_TIMER if found.idle else self._kept.clock.alarm(closed + 1)
        move_timer(self._handle, timer, alarm, fired)
        if found.idle:
            self._state.clear()
        else:
            self._state.update(self._kept.dump(found, alarm))


def answered(rows: DataFrame, question: Question, kept: ShardKept, columns: list[str]) -> DataFrame:
    """The windows of each shard, of rows that :func:`panes.spread` has spread.

    ``columns`` are those that the engine wants besides ids and times.
    """
    names = panes.names_of(question)
    keys = [StructField(f"key_{i}", rows.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *kept.output])
    if not rows.isStreaming:
        found = panes.numbered(rows, question, columns)
        return at_once.answered(found, kept, names, panes.order_of(question, columns), schema)
    closed = panes.collected(rows, question, columns)
    return closed.groupBy(*names).transformWithState(
        statefulProcessor=ShardProcessor(kept, len(names)),
        outputStructType=schema,
        outputMode="append",
        timeMode="EventTime",
    )
