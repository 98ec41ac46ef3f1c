"""The stateful part: panes of a shard in, counts of each window out.

All shards hold the same candidates and see the same panes close, so they answer the same windows in
the same micro-batch, each with the counts of its own points. Points stay in the state store by pane
and are written and removed once; a worker that has seen a pane need not read it again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
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

from skyband.engine import snapshot
from skyband.order import Floats, Ints
from skyband.spark.axis import Clock
from skyband.spark.families.dominating.blocks import SHARD
from skyband.spark.state.batch import batch_of
from skyband.spark.state.candidates import FOREVER, Lives
from skyband.spark.state.processor import (
    NO_TIMER,
    STATE_VERSION,
    KeyProcessor,
    check_version,
    move_timer,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.dominating.dominance_counts import Index
    from skyband.dominating.panes import PaneCounts

_POINTS = "points"
_DIGEST = 16
_TOGETHER = 1_000_000  # counts that are handed over at once
_CACHE = 512 << 20  # bytes of indexed panes that a worker remembers


class ShardPane(NamedTuple):
    """A closed pane: the shard's points, all shards' rows that matter, their columns, reached."""

    number: int
    points: Floats
    survivors: Floats
    kept: list[list[Any]] | None
    reached: int = FOREVER


@dataclass(frozen=True)
class ShardKept:
    """What a processor has to know of a query; plain values only, for it travels to workers."""

    k: int
    width: int
    lives: Lives
    clock: Clock
    types: tuple[DataType, ...]
    begins: int

    @property
    def state(self) -> StructType:
        """The layout of the state: counts as bytes, and the columns of the candidates."""
        return StructType(
            [
                StructField("version", IntegerType(), False),
                StructField("timer", LongType(), False),
                StructField("counts", BinaryType(), False),
                StructField("digests", BinaryType(), False),
                *(
                    StructField(f"kept_{i}", ArrayType(type), False)
                    for i, type in enumerate(self.types)
                ),
            ]
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """Counts of a window, without the shard.

        The first shard also tells which candidates the counts belong to, and the columns of those
        that are ``new`` since its last row.
        """
        return (
            StructField("window", LongType()),
            StructField("candidates", LongType()),
            StructField("counts", BinaryType()),
            StructField("slots", BinaryType()),
            StructField("new", BinaryType()),
            *(StructField(f"kept_{i}", ArrayType(type)) for i, type in enumerate(self.types)),
        )

    def pane(self, row: Any, keys: int) -> ShardPane:
        """A pane as Spark aggregated it: shard, label, number, points, coordinates, columns."""
        first = keys + 3
        carried = first + self.width
        last = carried + len(self.types)
        points = np.frombuffer(b"".join(map(bytes, row[keys + 2])), np.float64)
        survivors = np.array([list(column) for column in row[first:carried]], np.float64)
        kept = [list(column) for column in row[carried:last] if column is not None]
        return ShardPane(
            row[keys + 1],
            points.reshape(-1, self.width),
            np.ascontiguousarray(survivors.T),
            kept if len(kept) == len(self.types) else None,
            *row[last:],
        )


class ShardCounts:
    """One shard at work: its counts, and in the first shard the columns of the candidates."""

    def __init__(self, kept: ShardKept, panes: MutableMapping[int, Index] | None = None) -> None:
        from skyband.dominating.panes import PaneCounts

        self._kept = kept
        found = {} if panes is None else panes
        self.counts: PaneCounts = PaneCounts(kept.k, kept.width, kept.lives, found)
        self.columns: dict[int, tuple[Any, ...]] = {}  # by slot
        self.first = False
        self._told: set[int] = set()

    def run(self, panes: list[ShardPane], closed: int, ended: bool) -> Iterator[tuple[Any, ...]]:
        """Take in panes, in any order, and answer every window up to ``closed``.

        Once the stream has ``ended``, windows that count rows are answered as far as the rows
        complete them, and then nothing is left.
        """
        counts = self.counts
        for pane in sorted(panes, key=lambda pane: pane.number):
            yield from self._answers(self._kept.lives.step(pane.number))
            self._insert(pane)
        last = min(closed, counts.reached) if ended else closed
        yield from self._answers(last + 1)
        if ended and counts.reached < closed:
            self._clear()
        self._forget()

    def feed(self, pane: ShardPane) -> Iterator[tuple[Any, ...]]:
        """Take in a pane that is newer than all before, and answer what ends before it."""
        yield from self._answers(self._kept.lives.step(pane.number))
        self._insert(pane)
        self._forget()

    def _insert(self, pane: ShardPane) -> None:
        base = self.counts.slots
        fresh = self.counts.insert(pane.number, pane.points, pane.survivors)
        self.counts.reached = max(self.counts.reached, pane.reached)
        if pane.kept is not None:
            self.first = True
            rows = zip(*pane.kept, strict=True) if pane.kept else [()] * len(fresh)
            for at, row in enumerate(rows):
                if fresh[at]:
                    self.columns[base + at] = row

    def _answers(self, before: int) -> Iterator[tuple[Any, ...]]:
        for window, slot, count in self.counts.answer_before(before):
            if window >= self._kept.begins:
                yield self._row(window, slot, count)

    def _row(self, window: int, slot: Ints, count: Ints) -> tuple[Any, ...]:
        width = len(self._kept.types)
        if not self.first:
            return (window, None, count.tobytes(), None, None, *([None] * width))
        new = [one for one in slot.tolist() if one not in self._told]
        self._told.update(new)
        rows = [self.columns[one] for one in new]
        columns = [[row[i] for row in rows] for i in range(width)]
        told = np.array(new, np.int64).tobytes()
        return (window, len(self.counts), count.tobytes(), slot.tobytes(), told, *columns)

    def _forget(self) -> None:
        """Let go of the columns of rows that can no longer be answers."""
        if self.first and len(self.columns) > len(self.counts):
            slots = self.counts.candidates.slot.tolist()
            self.columns = {slot: self.columns[slot] for slot in slots}
            self._told.intersection_update(slots)

    def _clear(self) -> None:
        for pane in self.counts.alive:
            del self.counts.panes[pane]
        self.counts = type(self.counts)(self._kept.k, self._kept.width, self._kept.lives)
        self.columns = {}


_remembered: OrderedDict[bytes, Index] = OrderedDict()


class StoredPanes(MutableMapping[int, "Index"]):
    """The indexed points of living panes, in Spark's state store.

    A worker remembers panes by a digest of their points: nothing can be mistaken for another pane,
    whatever the worker did before, and nothing is lost if it is new.
    """

    def __init__(self, store: Any, width: int, digests: dict[int, bytes]) -> None:
        self._store = store
        self._width = width
        self._new: dict[int, Index] = {}
        self.digests = digests

    def __getitem__(self, pane: int) -> Index:
        if pane in self._new:
            return self._new[pane]
        digest = self.digests[pane]
        if digest in _remembered:
            _remembered.move_to_end(digest)
            return _remembered[digest]
        from skyband.dominating.dominance_counts import index

        points = np.frombuffer(bytes(self._store.getValue((pane,))[0]), np.float64)
        found = index(points.reshape(-1, self._width))
        remember(digest, found)
        return found

    def __setitem__(self, pane: int, found: Index) -> None:
        self._new[pane] = found

    def __delitem__(self, pane: int) -> None:
        if self._new.pop(pane, None) is None:
            self._store.removeKey((pane,))
            _remembered.pop(self.digests.pop(pane), None)

    def __iter__(self) -> Iterator[int]:
        return iter([*self.digests, *self._new])

    def __len__(self) -> int:
        return len(self.digests) + len(self._new)

    def save(self) -> None:
        """Write the panes that are new and still alive."""
        for pane, found in self._new.items():
            points = found.points.tobytes()
            digest = hashlib.blake2b(points, digest_size=_DIGEST).digest()
            self._store.updateValue((pane,), (points,))
            self.digests[pane] = digest
            remember(digest, found)
        self._new = {}


def remember(digest: bytes, found: Index) -> None:
    """Keep an indexed pane for later micro-batches, and forget those used least recently."""
    _remembered[digest] = found
    held = sum(one.bytes for one in _remembered.values())
    while held > _CACHE and len(_remembered) > 1:
        held -= _remembered.popitem(last=False)[1].bytes


class ShardProcessor(KeyProcessor):
    """Keeps the points and counts of each shard in Spark's state store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: one value, and the points by pane."""
        super().init(handle)
        key = StructType([StructField("pane", LongType(), False)])
        value = StructType([StructField("points", BinaryType(), False)])
        self._points = handle.getMapState(_POINTS, key, value)

    def _run(
        self, key: Any, panes: list[ShardPane], timers: Any, fired: int = NO_TIMER
    ) -> Iterator[Row]:
        found, store, timer = self._load()
        clock, watermark = self._kept.clock, timers.getCurrentWatermarkInMs()
        for row in found.run(panes, clock.closed(watermark), clock.ended(watermark)):
            yield self._row(*key, *row)
        self._save(found, store, timer, fired)

    def _load(self) -> tuple[ShardCounts, StoredPanes, int]:
        value = self._state.get()
        if value is None:
            store = StoredPanes(self._points, self._kept.width, {})
            return ShardCounts(self._kept, store), store, NO_TIMER
        check_version(value[0])
        header, arrays = snapshot.load(bytes(value[2]))
        digests = bytes(value[3])
        cut = range(0, len(digests), _DIGEST)
        panes = arrays["alive"].tolist()
        known = dict(zip(panes, (digests[at : at + _DIGEST] for at in cut), strict=True))
        store = StoredPanes(self._points, self._kept.width, known)
        found = ShardCounts(self._kept, store)
        found.counts.adopt(arrays)
        found.first = header["first"]
        if found.first:
            columns = [list(column) for column in value[4:]]
            slots = found.counts.candidates.slot.tolist()
            rows = zip(*columns, strict=True) if columns else [()] * len(slots)
            found.columns = dict(zip(slots, rows, strict=True))
        return found, store, value[1]

    def _save(self, found: ShardCounts, store: StoredPanes, timer: int, fired: int) -> None:
        """Store what is left, under one timer for the next window."""
        counts = found.counts
        alarm = NO_TIMER if counts.idle else self._kept.clock.alarm(counts.due)
        move_timer(self._handle, timer, alarm, fired)
        if counts.idle:
            self._state.clear()
            return
        store.save()
        digests = b"".join(store.digests[pane] for pane in counts.alive)
        engine = snapshot.dump({"first": found.first}, counts.arrays())
        slots = counts.candidates.slot.tolist()
        rows = [found.columns[slot] for slot in slots] if found.first else []
        columns = [[row[i] for row in rows] for i in range(len(self._kept.types))]
        self._state.update((STATE_VERSION, alarm, engine, digests, *columns))


def counted(panes: DataFrame, kept: ShardKept, shards: int) -> DataFrame:
    """The counts of each window, by shard."""
    schema = StructType([StructField(SHARD, IntegerType()), *kept.output])
    if panes.isStreaming:
        return panes.groupBy(SHARD).transformWithState(
            statefulProcessor=ShardProcessor(kept, 1),
            outputStructType=schema,
            outputMode="append",
            timeMode="EventTime",
        )
    placed = panes.repartition(shards, SHARD).sortWithinPartitions(SHARD, "pane")
    return placed.mapInArrow(partial(_of_panes, kept, schema), schema)


def _of_panes(
    kept: ShardKept, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All panes of some shards, which stand in order, pane after pane."""
    shard: int | None = None
    found = ShardCounts(kept)
    out: list[tuple[Any, ...]] = []
    held = 0

    def taken(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        nonlocal out, held
        for row in rows:
            out.append((shard, *row))
            held += len(row[2]) // 8
            if held > _TOGETHER:
                yield batch_of(out, schema)
                out, held = [], 0

    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if row[0] != shard:
                if shard is not None:
                    yield from taken(found.run([], FOREVER, True))
                shard, found = row[0], ShardCounts(kept)
            yield from taken(found.feed(kept.pane(row, 1)))
    if shard is not None:
        yield from taken(found.run([], FOREVER, True))
    if out:
        yield batch_of(out, schema)
