"""All rows together, on workers: panes of a shard in, counts out, which one task sums.

All shards hold the same candidates and see the same panes close, so they answer the same windows in
the same micro-batch, each with the counts of its own points: sums need no state. Points stay in the
state store by pane and are written and removed once; a worker that has seen a pane need not read it
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StructField,
    StructType,
)

from skyband.engine import snapshot
from skyband.order import Floats, Ints, ranks_of_best
from skyband.query import RankBy
from skyband.spark.axis import EVERYTHING, FOREVER, WatermarkProgress
from skyband.spark.state.batch import Piece, handed_over, python_rows, rows_of
from skyband.spark.state.cache import EngineCache
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    and_last,
    answer_fields,
    column_fields,
    named_columns,
    saved_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.dominating.dominance_counts import Index
    from skyband.dominating.panes import PaneCounts

_DIGEST = 16
_BYTES_PER_RANKED_ROW = 80  # a count is 8 bytes, and a million of them may be handed over at once

indexed_panes: EngineCache[Index] = EngineCache(512 << 20, least=1)
"""The panes that this worker has seen, by a digest of their points."""


class ShardCountsPane(NamedTuple):
    """A closed pane: the shard's points, and all shards' rows that may be answers.

    ``columns`` are those of the latter, in the first shard only. ``last_complete_window`` is the
    last that the pane's newest row completes, if windows count rows.
    """

    number: int
    points: Floats
    survivors: Floats
    columns: list[list[Any]] | None
    last_complete_window: int = FOREVER


@dataclass(frozen=True)
class ShardCountsSpec(StateSpec):
    """Keeps the points of each shard, and how many of them each possible answer dominates."""

    k: int
    width: int  # dimensions
    shards: int
    types: tuple[DataType, ...]
    first_full_window: int
    dense: bool = False  # whether ranks count different scores

    @property
    def pane_store(self) -> tuple[str, str] | None:
        """Where points are kept."""
        return "points", "points"

    @property
    def tasks(self) -> int:
        """One for each shard: their keys were chosen so."""
        return self.shards

    @property
    def batch_order(self) -> tuple[str, ...]:
        """Pane after pane."""
        return ("pane",)

    @property
    def fields(self) -> tuple[StructField, ...]:
        """Counts as bytes, digests of the panes' points, and the columns of the candidates."""
        return (
            StructField("counts", BinaryType(), False),
            StructField("digests", BinaryType(), False),
            *column_fields(self.types),
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

    def weight(self, row: tuple[Any, ...]) -> int:
        """Counts are smaller than ranked rows."""
        return -(-len(row[2]) // _BYTES_PER_RANKED_ROW)

    def pane(self, values: tuple[Any, ...]) -> ShardCountsPane:
        """A pane of its label, number, points, coordinates, carried columns, complete window."""
        _, number, blocks, *rest = values
        carried = self.width + len(self.types)
        points = np.frombuffer(b"".join(map(bytes, blocks)), np.float64)
        survivors = np.array([list(column) for column in rest[: self.width]], np.float64)
        columns = [list(column) for column in rest[self.width : carried] if column is not None]
        return ShardCountsPane(
            number,
            points.reshape(-1, self.width),
            np.ascontiguousarray(survivors.T),
            columns if len(columns) == len(self.types) else None,
            *rest[carried:],
        )

    def last_at_end(self, pane: ShardCountsPane) -> int:
        """The last window that is answered if the input ends with a pane.

        Rows that cannot be ranked complete windows only if those count rows.
        """
        if not len(pane.survivors) and not self.axis.counts_rows:
            return -FOREVER
        return min(pane.last_complete_window, self.grid.last_at_end(pane.number))

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> ShardCounts:
        """The counts of a shard."""
        stored: PaneStore | dict[int, bytes] = {} if store is None else store
        if fields is None:
            return ShardCounts(self, StoredPanes(stored, self.width))
        header, arrays = snapshot.load(bytes(fields["counts"]))
        digests = bytes(fields["digests"])
        cuts = range(0, len(digests), _DIGEST)
        parts = (digests[at : at + _DIGEST] for at in cuts)
        alive = dict(zip(arrays["alive"].tolist(), parts, strict=True))
        state = ShardCounts(self, StoredPanes(stored, self.width, alive), header["first"])
        state.counts.adopt(arrays)
        if state.first:
            slots = state.counts.candidates.slot.tolist()
            columns = saved_columns(fields, len(self.types))
            rows = zip(*columns, strict=True) if columns else [()] * len(slots)
            state.columns = dict(zip(slots, rows, strict=True))
        return state

    def answer_all(self, pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
        """Answer all panes of a shard, which come in order, pane after pane."""
        state = self.open(None, None)
        for piece in pieces:
            numbers, complete = piece.columns[1], piece.columns[-1]
            upto = self.grid.last_at_end(max(numbers))
            state.require_few_windows(numbers, max(complete) if self.axis.counts_rows else upto)
            for row in rows_of(iter([piece])):
                yield from state.feed(self.pane(row))
        yield from state.run([], EVERYTHING)


class StoredPanes(MutableMapping[int, "Index"]):
    """The indexed points of living panes, in Spark's state store.

    A worker remembers panes by a digest of their points: nothing can be mistaken for another pane,
    whatever the worker did before, and nothing is lost if it is new.
    """

    def __init__(
        self,
        store: PaneStore | dict[int, bytes],
        width: int,
        digests: dict[int, bytes] | None = None,
    ) -> None:
        self._store = store
        self._width = width
        self._new: dict[int, Index] = {}
        self.digests = {} if digests is None else digests

    def __getitem__(self, pane: int) -> Index:
        if pane in self._new:
            return self._new[pane]
        digest = self.digests[pane]
        indexed = indexed_panes.get(digest)
        if indexed is None:
            from skyband.dominating.dominance_counts import index

            points = np.frombuffer(self._store[pane], np.float64)
            indexed = index(points.reshape(-1, self._width))
            indexed_panes.keep(digest, indexed, indexed.bytes)
        return indexed

    def __setitem__(self, pane: int, indexed: Index) -> None:
        self._new[pane] = indexed

    def __delitem__(self, pane: int) -> None:
        if self._new.pop(pane, None) is None:
            del self._store[pane]
            indexed_panes.take(self.digests.pop(pane))

    def __iter__(self) -> Iterator[int]:
        return iter([*self.digests, *self._new])

    def __len__(self) -> int:
        return len(self.digests) + len(self._new)

    def save(self) -> None:
        """Write the panes that are new and still alive."""
        for pane, indexed in self._new.items():
            points = indexed.points.tobytes()
            digest = hashlib.blake2b(points, digest_size=_DIGEST).digest()
            self._store[pane] = points
            self.digests[pane] = digest
            indexed_panes.keep(digest, indexed, indexed.bytes)
        self._new = {}


@dataclass
class ShardCounts(KeyState):
    """One shard at work: its counts, and in the first shard the columns of the candidates."""

    spec: ShardCountsSpec
    panes: StoredPanes
    first: bool = False
    columns: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by slot
    counts: PaneCounts = field(init=False)
    _sent: set[int] = field(default_factory=set)  # slots whose columns are in an answer

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        from skyband.dominating.panes import PaneCounts

        spec = self.spec
        self.counts = PaneCounts(spec.k, spec.width, spec.grid, self.panes, dense=spec.dense)

    def run(
        self, panes: list[ShardCountsPane], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes, and answer every window up to the last that is closed.

        Once the stream has ended, windows that count rows, and those of all time, are answered as
        far as the rows complete them, and then nothing is left.
        """
        closed, ended, _ = progress
        panes = sorted(panes, key=lambda pane: pane.number)
        newest = max([self.counts.last_complete_window, *map(self.spec.last_at_end, panes)])
        upto = min(closed, newest) if ended else closed
        self.require_few_windows([pane.number for pane in panes], upto)
        for pane in panes:
            yield from self._take(pane)
        complete = self.counts.last_complete_window
        yield from self._answers((min(closed, complete) if ended else closed) + 1)
        if ended and complete < closed:
            for number in self.counts.alive:
                del self.panes[number]
            self._begin()
            self.columns = {}
        self._forget()

    def require_few_windows(self, panes: list[int], upto: int) -> None:
        """Refuse new panes, ascending, that would complete too many windows."""
        numbers = [*self.counts.alive[-1:], *panes]
        self.spec.grid.require_few_windows(numbers, self.counts.due, upto)

    def feed(self, pane: ShardCountsPane) -> Iterator[tuple[Any, ...]]:
        """Take in a pane that is newer than all before, and answer what ends before it."""
        yield from self._take(pane)
        self._forget()

    def _take(self, pane: ShardCountsPane) -> Iterator[tuple[Any, ...]]:
        if not len(pane.survivors) and not self.spec.axis.counts_rows:
            return
        yield from self._answers(self.spec.grid.step(pane.number))
        counts = self.counts
        base = counts.slots
        fresh = counts.insert(pane.number, pane.points, pane.survivors)
        counts.last_complete_window = max(counts.last_complete_window, self.spec.last_at_end(pane))
        if pane.columns is not None:
            self.first = True
            rows = zip(*pane.columns, strict=True) if pane.columns else [()] * len(fresh)
            for at, row in enumerate(rows):
                if fresh[at]:
                    self.columns[base + at] = row

    def _answers(self, before: int) -> Iterator[tuple[Any, ...]]:
        for window, slots, counts in self.counts.answer_before(before):
            if window >= self.spec.first_full_window:
                yield self._row(window, slots, counts)

    def _row(self, window: int, slots: Ints, counts: Ints) -> tuple[Any, ...]:
        width = len(self.spec.types)
        if not self.first:
            return (window, None, counts.tobytes(), None, None, *([None] * width))
        new = [slot for slot in slots.tolist() if slot not in self._sent]
        self._sent.update(new)
        columns = self._columns_of(new)
        sent = np.array(new, np.int64).tobytes()
        return (window, len(self.counts), counts.tobytes(), slots.tobytes(), sent, *columns)

    def _columns_of(self, slots: list[int]) -> list[list[Any]]:
        rows = [self.columns[slot] for slot in slots]
        return [[row[i] for row in rows] for i in range(len(self.spec.types))]

    def _forget(self) -> None:
        """Let go of the columns of rows that can no longer be answers."""
        if self.first and len(self.columns) > len(self.counts):
            slots = self.counts.candidates.slot.tolist()
            self.columns = {slot: self.columns[slot] for slot in slots}
            self._sent.intersection_update(slots)

    @property
    def alarm(self) -> int | None:
        """When the next window ends that holds anything."""
        if self.counts.idle:
            return None
        return self.spec.axis.alarm(self.spec.grid.window_end(self.counts.due))

    def save(self) -> dict[str, Any]:
        """Write new panes; the counts, and the columns of the candidates."""
        self.panes.save()
        slots = self.counts.candidates.slot.tolist() if self.first else []
        return {
            "counts": snapshot.dump({"first": self.first}, self.counts.arrays()),
            "digests": b"".join(self.panes.digests[pane] for pane in self.counts.alive),
            **named_columns(self._columns_of(slots)),
        }


def summed(
    counted: DataFrame, k: int, types: tuple[DataType, ...], oldest_first: bool, rank_by: RankBy
) -> DataFrame:
    """Rank each window by the sums of its counts, in the layout of ``answer_fields``.

    One task gets what shards counted, a few numbers per candidate, and no points.
    """
    schema = StructType(list(answer_fields(types, False, shared=rank_by != "row_number")))
    together = counted.drop("key_0").repartition(1)  # without the shard
    if not counted.isStreaming:
        together = together.sortWithinPartitions("window")
    order = (oldest_first, rank_by)
    return together.mapInArrow(partial(_summed, k, order, schema, counted.isStreaming), schema)


def _summed(
    k: int,
    order: tuple[bool, RankBy],
    schema: StructType,
    streams: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    rows = python_rows(batches)
    if streams:  # a stream cannot be sorted by Spark, and a micro-batch of it is not long
        rows = iter(sorted(rows, key=lambda row: row[0]))
    return handed_over(CountSums(k, *order).answers(rows), schema, lambda row: len(row[2]))


class CountSums:
    """Adds up the counts of shards, window after window, and knows the candidates' columns."""

    def __init__(self, k: int, oldest_first: bool = False, rank_by: RankBy = "row_number") -> None:
        self._k = k
        self._oldest_first = oldest_first
        self._rank_by = rank_by
        self._columns: dict[int, tuple[Any, ...]] = {}  # by slot

    def answers(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Rankings of the windows, of counts that come in the order of windows.

        The last one tells how many candidates are left, as in ``answer_rows``.
        """
        windows = (self._answer(*group) for group in groupby(rows, key=lambda row: row[0]))
        for (window, candidates, *ranking), is_last in and_last(windows):
            yield (window, candidates if is_last else None, *ranking)

    def _answer(self, window: int, rows: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The k best: more points dominated, then the newer or the older; ranks if shared."""
        parts: list[Ints] = []
        slots = candidates = None
        for _, left, counts, counted, new, *columns in rows:
            parts.append(np.frombuffer(counts, np.int64))
            if counted is not None:  # by the first shard, which tells what the counts belong to
                slots, candidates = np.frombuffer(counted, np.int64), left
                self._remember(slots, np.frombuffer(new, np.int64).tolist(), columns)
        assert slots is not None, "the first shard tells which candidates were counted"
        total = np.sum(parts, axis=0)
        best, ranks = self._ranked(total, slots)
        ranked = [self._columns[slot] for slot in slots[best].tolist()]
        columns = [list(column) for column in zip(*ranked, strict=True)]
        return (window, candidates, total[best].astype(np.float64).tolist(), *ranks, *columns)

    def _ranked(self, total: Ints, slots: Ints) -> tuple[Ints, list[list[int]]]:
        """The places of candidates that rank, the best first, and their ranks if they share any."""
        order = np.lexsort((slots if self._oldest_first else -slots, -total))
        ranks = ranks_of_best(total[order], self._k, self._rank_by)
        shared = [] if self._rank_by == "row_number" else [ranks.tolist()]
        return order[: len(ranks)], shared

    def _remember(self, slots: Ints, new: list[int], columns: list[Any]) -> None:
        """Keep the columns of new candidates, and let go of those that are gone."""
        if len(slots):  # slots ascend with time: older ones are gone
            oldest = int(slots[0])
            self._columns = {at: row for at, row in self._columns.items() if at >= oldest}
        rows = zip(*columns, strict=True) if columns else [()] * len(new)
        self._columns.update(zip(new, rows, strict=True))
