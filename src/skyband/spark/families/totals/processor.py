"""Shards in Spark's state store: blocks of closed panes in, the best keys of each window out.

The state of a shard is its living panes, each written once, and removed once it has expired; that
is all an engine is made of. Workers remember engines, so that a micro-batch costs the panes that
come and go, however long windows are. An engine is known by the digests of its panes: one that is
behind catches up, and one that fits no more, as after a task that failed, is made anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
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
from skyband.spark.state.batch import batch_of, comparable
from skyband.spark.state.candidates import FOREVER, Answer, Lives
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    KeyProcessor,
    answer_fields,
    answer_rows,
    check_version,
    move_timer,
)
from skyband.totals.query import TopKTotals

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.families.totals.shard import Layout, ShardTotals

_PANES = "panes"
_TOGETHER = 100_000  # ranked rows that are handed over at once

PaneBlocks = tuple[int, list[bytes]]


@dataclass(frozen=True)
class TotalsKept:
    """What a processor has to know of a query; plain values only, for it travels to workers.

    The query's window counts microseconds; ``rows`` is the layout of a pane's rows, ``types`` are
    those of the parts of a key, ``digest`` names the query; ``merged`` says that rankings of
    several shards are merged.
    """

    query: TopKTotals
    held: str
    scale: int
    lives: Lives
    clock: Clock
    rows: StructType
    types: tuple[DataType, ...]
    merged: bool
    digest: str

    @property
    def k(self) -> int:
        """Keys per window."""
        return self.query.k

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.query.emit == "changes"

    @property
    def state(self) -> StructType:
        """The layout of the state, besides the panes: how far it is, and which panes live."""
        return StructType(
            [
                StructField("version", IntegerType(), False),
                StructField("timer", LongType(), False),
                StructField("closed", LongType(), False),
                StructField("alive", ArrayType(LongType(), False), False),
                StructField("digests", BinaryType(), False),
            ]
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without key and shard."""
        carried = (*self.types, LongType()) if self.merged else self.types
        return answer_fields(carried, self.changes)

    def layout(self) -> Layout:
        """How the rows of a pane are laid out in Arrow."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from skyband.spark.families.totals.shard import Layout

        counted = self.query.by in ("count", "mean")
        return Layout(to_arrow_schema(self.rows), self.held, len(self.types), counted)

    def new(self) -> ShardTotals:
        """A shard of which nothing is known."""
        from skyband.spark.families.totals.shard import ShardTotals

        return ShardTotals(self.query, self.layout(), self.lives, self.scale)

    def pane(self, row: Any, keys: int) -> PaneBlocks:
        """Blocks of a pane: what tells shards apart, the pane's number, their bytes."""
        return row[keys], [bytes(block) for block in row[keys + 1]]

    def told(self, answers: Iterator[Answer], found: ShardTotals) -> Iterator[tuple[Any, ...]]:
        """Answers as output rows."""
        if not self.merged:
            answers = (one._replace(kept=one.kept[:-1]) for one in answers)
        return answer_rows(answers, lambda: found.held, self.changes)


class Remembered:
    """Maintains engines for later micro-batches; those used least recently are forgotten first."""

    def __init__(self, most: int = 512 << 20) -> None:
        self._most = most  # bytes
        self._engines: OrderedDict[Any, tuple[ShardTotals, int]] = OrderedDict()
        self._held = 0

    def keep(self, name: Any, found: ShardTotals) -> None:
        """Remember an engine, if it is not too large by itself."""
        size = found.nbytes
        self._engines[name] = found, size
        self._held += size
        while self._held > self._most:
            self._held -= self._engines.popitem(last=False)[1][1]

    def take(self, name: Any) -> ShardTotals | None:
        """An engine by its name, which is forgotten until it is kept again."""
        found, size = self._engines.pop(name, (None, 0))
        self._held -= size
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._engines)


_remembered = Remembered()


class TotalsProcessor(KeyProcessor):
    """Keeps the panes of each shard in Spark's state store, and answers its windows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: one value, and the panes by number."""
        super().init(handle)
        key = StructType([StructField("pane", LongType(), False)])
        value = StructType([StructField("rows", BinaryType(), False)])
        self._panes = handle.getMapState(_PANES, key, value)

    def _run(
        self, key: Any, panes: list[PaneBlocks], timers: Any, fired: int = NO_TIMER
    ) -> Iterator[Row]:
        value = self._state.get()
        if value is None and not panes:
            return
        name = (self._kept.digest, comparable(tuple(key)))
        found, stored = self._found(name, value)
        closed = self._kept.clock.closed(timers.getCurrentWatermarkInMs())
        answers = self._answers(found, panes, closed)
        for row in self._kept.told(answers, found):
            yield self._row(*key, *row)
        for number in stored:
            if number not in found.alive:
                self._panes.removeKey((number,))
        self._save(name, found, NO_TIMER if value is None else value[1], fired)

    def _answers(
        self, found: ShardTotals, panes: list[PaneBlocks], closed: int
    ) -> Iterator[Answer]:
        """Take in panes, write those that live on, and answer every window up to ``closed``."""
        new: dict[int, bytes] = {}
        for number, blocks in by_pane(panes):
            new[number], answers = found.take(number, blocks)
            yield from answers
        yield from found.close(closed)
        for number in found.alive:
            if number in new:
                self._panes.updateValue((number,), (new[number],))

    def _found(self, name: Any, value: Any) -> tuple[ShardTotals, list[int]]:
        """The engine as it was after the last micro-batch, and the panes that are stored."""
        from skyband.spark.families.totals.shard import DIGEST

        found = _remembered.take(name)
        if value is None:
            return self._kept.new(), []
        check_version(value[0])
        closed, stored, digests = value[2], list(value[3]), bytes(value[4])
        alive = {n: digests[at * DIGEST : (at + 1) * DIGEST] for at, n in enumerate(stored)}
        missing = None if found is None else found.catches_up(alive, closed)
        if found is None or missing is None:
            found, missing = self._kept.new(), stored
        for number in missing:
            held: Any = self._panes.getValue((number,))
            found.again(number, bytes(held[0]))
        for _ in found.close(closed):
            pass
        return found, stored

    def _save(self, name: Any, found: ShardTotals, timer: int, fired: int) -> None:
        """Store which panes are left, under one timer for the next window."""
        idle = found.last <= found.closed
        alarm = NO_TIMER if idle else self._kept.clock.alarm(found.closed + 1)
        move_timer(self._handle, timer, alarm, fired)
        if idle:
            for number in found.alive:
                self._panes.removeKey((number,))
            self._state.clear()
            return
        digests = b"".join(found.alive.values())
        self._state.update((STATE_VERSION, alarm, found.closed, list(found.alive), digests))
        _remembered.keep(name, found)


def by_pane(panes: list[PaneBlocks]) -> Iterator[PaneBlocks]:
    """The blocks of each pane, in ascending order."""
    for number, same in groupby(sorted(panes), key=lambda pane: pane[0]):
        yield number, [block for _, blocks in same for block in blocks]


def answered(panes: DataFrame, kept: TotalsKept, names: list[str]) -> DataFrame:
    """The windows of each shard.

    Panes hold ``names``, the columns that tell shards apart, the pane's number, an array of blocks.
    """
    keys = [StructField(f"key_{i}", panes.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *kept.output])
    if panes.isStreaming:
        return panes.groupBy(*names).transformWithState(
            statefulProcessor=TotalsProcessor(kept, len(names)),
            outputStructType=schema,
            outputMode="append",
            timeMode="EventTime",
        )
    placed = panes.repartition(*names).sortWithinPartitions(*names, "pane")
    return placed.mapInArrow(partial(_of_blocks, kept, len(names), schema), schema)


def _of_blocks(
    kept: TotalsKept, width: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All panes of some shards, which stand in order, pane after pane."""
    out: list[tuple[Any, ...]] = []
    held = 0
    for key, rows in groupby(_rows(batches), key=lambda row: comparable(row[:width])):
        del key
        for row in _of_shard(kept, width, rows):
            out.append(row)
            held += len(row[width + 2])
            if held > _TOGETHER:
                yield batch_of(out, schema)
                out, held = [], 0
    if out:
        yield batch_of(out, schema)


def _of_shard(
    kept: TotalsKept, width: int, rows: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    found = kept.new()
    key: tuple[Any, ...] = ()

    def answers() -> Iterator[Answer]:
        nonlocal key
        for number, same in groupby(rows, key=lambda row: row[width]):
            own = list(same)
            key = own[0][:width]
            yield from found.take(number, [block for row in own for block in row[width + 1]])[1]
            yield from found.close(kept.lives.step(number) - 1)
        yield from found.close(FOREVER)

    for row in kept.told(answers(), found):
        yield (*key, *row)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
