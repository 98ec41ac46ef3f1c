"""Shards in Spark's state store: blocks of closed panes in, the best keys of each window out.

The state of a shard is its living panes, each written once, and removed once it has expired; that
is all an engine is made of. Of many panes that leave together, one is made now and then. Workers
remember engines, so that a micro-batch costs the panes that come and go, however long windows are.
An engine is known by the digests of its panes: one that is behind catches up, and one that fits no
more, as after a task that failed, is made anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, StructField

from skyband.errors import DataError
from skyband.order import Ints
from skyband.spark.axis import FOREVER, PaneGrid, WatermarkProgress
from skyband.spark.families.totals.blocks import framed, frames
from skyband.spark.families.totals.sums import PartialSums, int64
from skyband.spark.state.batch import Piece, comparable, few_windows, rows_of
from skyband.spark.state.cache import EngineCache
from skyband.spark.state.candidates import Answer
from skyband.spark.state.engine import ranked_windows
from skyband.spark.state.previous import LastRanking, pair_fields
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    answer_fields,
    answer_rows,
    array_field,
)
from skyband.spark.state.row_blocks import arrow_bytes
from skyband.totals.query import TopKTotals

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.results import Ranked

PaneSums = tuple[int, list[bytes]]
"""The number of a pane, and the blocks of sums that it is made of."""

_DIGEST = 16  # bytes
_FEW_KEYS = 1024  # that are not worth a search
_MANY_PANES = 64  # that leave together, of which one is made


class ShardTotals:
    """Maintains the engine of one shard, and knows which panes it has taken in.

    ``alive`` holds the digests of the panes that it still needs, by number, in ascending order, and
    ``closed`` the last window that was answered. An engine is made of its panes alone: so whoever
    has their bytes can make it anew, and one that took in fewer panes can catch up.
    """

    def __init__(
        self, query: TopKTotals, sums: PartialSums, also: tuple[PartialSums, ...] = ()
    ) -> None:
        import pyarrow as pa

        from skyband.spark.families.totals.keys import KeyEncoder
        from skyband.totals.monitor import TotalsMonitor

        self._sums, self._also = sums, also
        self._grid = PaneGrid.of(query.window)
        self._changes = query.emit == "changes"
        self.monitor = TotalsMonitor(query, options={"ties": "arrival"})
        self.ids = KeyEncoder(pa.schema([sums.arrow.field(name) for name in sums.key]))
        self.alive: dict[int, bytes] = {}
        self.closed = -FOREVER

    def fork(self) -> ShardTotals:
        """A copy that may go on by itself."""
        other = copy(self)
        other.monitor, other.ids = deepcopy(self.monitor), copy(self.ids)
        other.alive = dict(self.alive)
        return other

    @property
    def nbytes(self) -> int:
        """Memory in use, about."""
        return self.monitor.state_bytes() + self.ids.nbytes + 32 * len(self.alive)

    @property
    def ranked_keys(self) -> int:
        """How many keys have a total."""
        return int(self.monitor.algorithm.state.now[0].ranked)

    @property
    def last(self) -> int:
        """The last window that has anything to tell."""
        farewell = int(self._changes)
        return max((self._grid.last(pane) + farewell for pane in self.alive), default=-FOREVER)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to answer until a pane arrives."""
        return self.last <= self.closed

    def require_few_windows(self, panes: list[int], progress: WatermarkProgress) -> None:
        """Refuse ascending panes that complete more windows than can be answered."""
        numbers = [*list(self.alive)[-1:], *panes]
        upto = progress.closed
        if progress.ended:
            upto = min(upto, max(map(self._grid.last_at_end, numbers), default=upto))
        self._grid.require_few_windows(numbers, self.closed + 1, upto)

    def take(self, number: int, blocks: list[bytes]) -> tuple[bytes, Iterator[Answer]]:
        """Take in a closed pane that is newer than all before; answers what ended before it.

        Returns its bytes, too, as they are to be kept.
        """
        totals = [self._ordered(rows) for rows in self._read(blocks)]
        data = self._bytes(totals)
        return data, self._insert(number, totals, data)

    def take_again(self, number: int, data: bytes) -> None:
        """Take in a pane whose windows were answered already, so far as they were due."""
        if self._grid.together:  # it may hold the rows of many
            self.monitor.pass_over(self._grid.window_end(self._grid.step(number) - 1))
        for _ in self._insert(number, self._read([data]), data):
            pass

    def _read(self, blocks: list[bytes], add_again: bool = False) -> list[pa.RecordBatch]:
        """The rows of blocks, together: of the total that ranks, and of those that are carried.

        First and last values of several blocks are picked from; others are ``add_again``ed up if
        the blocks are those of several panes.
        """
        import pyarrow as pa

        totals = (self._sums, *self._also)
        parts: list[list[pa.RecordBatch]] = [[] for _ in totals]
        for block in blocks:
            for number, data in frames(block) if self._also else [(0, block)]:
                schema = totals[number].arrow
                parts[number].append(pa.ipc.read_record_batch(pa.py_buffer(data), schema))
        read = []
        for sums, batches in zip(totals, parts, strict=True):
            if len(batches) == 1 and not add_again:
                read.append(batches[0])
                continue
            table = pa.Table.from_batches(batches, sums.arrow).combine_chunks()
            if not table.num_rows:
                read.append(pa.RecordBatch.from_pylist([], sums.arrow))
                continue
            (batch,) = table.to_batches()
            read.append(sums.add_again(batch) if add_again or sums.takes_nulls else batch)
        return read

    def _ordered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows by time, then by key."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import in_order

        return rows.take(pa.array(in_order(int64(rows.column(0)), self._key_columns(rows))))

    def _bytes(self, totals: list[pa.RecordBatch]) -> bytes:
        """The rows of a pane as they are kept."""
        if not self._also:
            return arrow_bytes(totals[0])
        return b"".join(framed(number, arrow_bytes(rows)) for number, rows in enumerate(totals))

    def _key_columns(self, rows: pa.RecordBatch) -> list[Any]:
        return [rows.column(name) for name in self._sums.key]

    def _insert(self, number: int, totals: list[pa.RecordBatch], data: bytes) -> Iterator[Answer]:
        """Take in a pane whose rows stand in order."""
        before = self._grid.step(number) - 1
        keys, times, values, counts = [], [], [], []
        for sums, rows in zip((self._sums, *self._also), totals, strict=True):
            try:
                exact, count = sums.exact_parts(rows)
            except DataError:  # of one task; those of others may bring it back
                rows = self._ordered(sums.add_again(rows))
                exact, count = sums.exact_parts(rows)
            keys.append(self.ids.number(self._key_columns(rows))[exact.row])
            times.append(int64(rows.column(0))[exact.row])
            values.append(exact.value)
            counts.append(count)
        columns: dict[str, Any] = {"values": values[0], "counts": counts[0]}
        if self._also:  # a row belongs to one of the totals
            query = self.monitor.query
            whole = [total.whole for total in (query.total, *query.carried.values())]
            pairs = _of_several(values, counts, whole)
            also = dict(zip(query.also, pairs[1:], strict=True))
            columns = {"values": pairs[0][0], "counts": pairs[0][1], "also": also}
        ranked = self.monitor.push(
            np.concatenate(keys),
            **columns,
            times=np.concatenate(times),
            watermark=self._grid.window_end(before),
        )
        self.alive[number] = _digest(data)
        self.closed = max(self.closed, before)
        return self._answers(ranked)

    def close(self, window: int) -> Iterator[Answer]:
        """Answer the windows up to this one, and let go of what is in no later one."""
        if self.alive and window > self.closed:
            upto = min(window, max(self.last, self.closed))  # beyond it, nothing is left
            yield from self._answers(self.monitor.push(watermark=self._grid.window_end(upto)))
        self.closed = max(self.closed, window)
        gone = self._gone(window)
        self.alive = {n: digest for n, digest in self.alive.items() if self._grid.last(n) > gone}
        self._forget()

    def end(self) -> Iterator[Answer]:
        """Answer the windows that are left, as no more panes will come."""
        yield from self.close(max(map(self._grid.last_at_end, self.alive), default=FOREVER))
        self.alive = {}

    def join(self, panes: Mapping[int, bytes], read: Callable[[int], bytes]) -> dict[int, bytes]:
        """Make one pane of many that leave together; returns it, and the others of ``panes``.

        ``panes`` are those that were not written yet; ``read`` gives the bytes of the others.
        """
        newest = max(self.alive, default=0)
        same = [n for n in self.alive if self._grid.last(n) == self._grid.last(newest)]
        if not self._grid.together or len(same) <= _MANY_PANES:
            return dict(panes)
        totals = self._read([panes.get(n) or read(n) for n in same], add_again=True)
        data = self._bytes([self._ordered(rows) for rows in totals])
        self.alive = {n: digest for n, digest in self.alive.items() if n not in same}
        self.alive[newest] = _digest(data)
        return {**panes, newest: data}

    def _gone(self, closed: int) -> int:
        """The window after which panes must live to be needed; changes need the last ranking."""
        return closed - int(self._changes)

    def catches_up(self, alive: Mapping[int, bytes], closed: int) -> list[int] | None:
        """The panes that are missing to stand where these panes stand; None if it cannot."""
        if closed < self.closed:
            return None
        gone = self._gone(closed)
        for number, digest in self.alive.items():
            if self._grid.last(number) > gone and alive.get(number) != digest:
                return None
        missing = [number for number in alive if number not in self.alive]
        newest = max(self.alive, default=-FOREVER)
        late = any(n < newest or self._grid.step(n) <= self.closed for n in missing)
        return None if late else missing

    def _answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with their keys and the times of their newest rows."""
        dropped = self.monitor.dropped
        if dropped.late or (dropped.total and not self._also):  # whose rows have no other value
            raise AssertionError(f"partial sums of a pane were dropped: {dropped}")
        if not ranked.rows:
            return
        assert ranked.time is not None
        also = [_nullable(column) for column in (ranked.also or {}).values()]
        columns = [*self.ids.columns(ranked.id), *also, ranked.time.tolist()]
        score = ranked.score.tolist()
        for window, low, high, ranks in ranked_windows(ranked, self.monitor.query):
            yield Answer(window, score[low:high], [column[low:high] for column in columns], *ranks)

    def _forget(self) -> None:
        """Let go of keys that can no longer be reported."""
        if len(self.ids) > 2 * self.ranked_keys + _FEW_KEYS:
            needed = [self.monitor.reportable()[0], *self.monitor.carried_keys()]
            self.ids.keep(np.unique(np.concatenate(needed)))


_engines: EngineCache[ShardTotals] = EngineCache()


@dataclass(frozen=True)
class TotalsSpec(StateSpec):
    """Keeps the panes of each shard.

    The query's window counts microseconds. ``score`` is the type of totals; ``merged`` says that
    rankings of several shards are merged, ``digest`` names the query. Rankings that are merged to
    tell changes are ``paired`` with those of the window before. ``also`` are the totals that are
    carried, and ``carried`` the types of their columns.
    """

    query: TopKTotals
    sums: PartialSums
    score: DataType
    merged: bool
    digest: str
    paired: bool = False
    also: tuple[PartialSums, ...] = ()
    carried: tuple[DataType, ...] = ()

    @property
    def pane_store(self) -> tuple[str, str] | None:
        """Where panes are kept."""
        return "panes", "rows"

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.query.emit == "changes"

    @property
    def batch_order(self) -> tuple[str, ...]:
        """Pane after pane."""
        return ("pane",)

    @property
    def fields(self) -> tuple[StructField, ...]:
        """How far the shard is, and which panes live, besides the panes."""
        return (
            StructField("closed", LongType(), False),
            array_field("alive", LongType(), False),
            StructField("digests", BinaryType(), False),
            *(LastRanking.fields(self._types, self.score) if self.paired else ()),
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without key and shard; behind ids is the time, for merging."""
        fields = answer_fields(self._types, self.changes, self.score, self.shares_ranks)
        return (*fields, *pair_fields(self._types, self.score)) if self.paired else fields

    @property
    def shares_ranks(self) -> bool:
        """Whether answers say ranks that keys share; those of several shards are ranked anew."""
        return self.query.shares_ranks and not self.merged

    @property
    def _types(self) -> tuple[DataType, ...]:
        types = (*self.sums.types, *self.carried)
        return (*types, LongType()) if self.merged else types

    def pane(self, values: tuple[Any, ...]) -> PaneSums:
        """Blocks of a pane: its number, their bytes."""
        number, blocks = values
        return number, [bytes(block) for block in blocks]

    def pane_of_rows(self, number: int, rows: list[bytes], newest: int) -> PaneSums:
        """Partial sums of a pane."""
        return number, rows

    def empty_window(self, name: str) -> tuple[Any, ...]:
        """A window whose keys have gone off the board."""
        _, *others = self.output
        return (int(name), *([] if isinstance(f.dataType, ArrayType) else None for f in others))

    def new(self) -> ShardTotals:
        """A shard of which nothing is known."""
        return ShardTotals(self.query, self.sums, self.also)

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> TotalsState:
        """The engine of a shard as it was after the last micro-batch."""
        assert store is not None
        name = self.digest, comparable(tuple(key))
        shard = _engines.take(name)
        before = LastRanking(len(self._types))
        if fields is None:
            return TotalsState(self, name, self.new(), store, [], before)
        closed, stored, digests = fields["closed"], list(fields["alive"]), bytes(fields["digests"])
        alive = {n: digests[at * _DIGEST : (at + 1) * _DIGEST] for at, n in enumerate(stored)}
        missing = None if shard is None else shard.catches_up(alive, closed)
        if shard is None or missing is None:
            shard, missing = self.new(), stored
        for number in missing:
            shard.take_again(number, store[number])
        for _ in shard.close(closed):
            pass
        if self.paired:
            before.restore(fields)
        return TotalsState(self, name, shard, store, stored, before)

    def answer_all(self, pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
        """Answer a whole shard of a batch, pane after pane."""
        shard = self.new()

        def answers() -> Iterator[Answer]:
            few = few_windows(pieces, self.grid)
            for number, blocks in _by_pane(map(self.pane, rows_of(few))):
                yield from shard.take(number, blocks)[1]
                yield from shard.close(self.grid.step(number) - 1)
            yield from shard.end()

        before = LastRanking(len(self._types))
        return self.rows(answers(), shard, before, FOREVER)

    def rows(
        self, answers: Iterator[Answer], shard: ShardTotals, before: LastRanking, closed: int
    ) -> Iterator[tuple[Any, ...]]:
        """Answers up to a window as output rows."""
        if self.paired:
            answers = before.paired(answers, closed)
        if not self.merged:
            answers = (answer._replace(columns=answer.columns[:-1]) for answer in answers)
        return answer_rows(answers, lambda: shard.ranked_keys, self.changes, self.shares_ranks)


@dataclass
class TotalsState(KeyState):
    """A shard, which of its panes are stored, and what it ranked last."""

    spec: TotalsSpec
    name: tuple[str, Any]
    shard: ShardTotals
    store: PaneStore
    stored: list[int]
    before: LastRanking

    def run(self, panes: list[PaneSums], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in panes, write those that live on, and answer what the watermark has passed."""
        answers = self._answers(panes, progress)
        yield from self.spec.rows(answers, self.shard, self.before, progress.closed)
        for number in self.stored:
            if number not in self.shard.alive:
                del self.store[number]

    def _answers(self, panes: list[PaneSums], progress: WatermarkProgress) -> Iterator[Answer]:
        shard = self.shard
        new: dict[int, bytes] = {}
        shard.require_few_windows(sorted({number for number, _ in panes}), progress)
        for number, blocks in _by_pane(sorted(panes)):
            new[number], answers = shard.take(number, blocks)
            yield from answers
        yield from shard.end() if progress.ended else shard.close(progress.closed)
        new = shard.join(new, self.store.__getitem__)
        for number in shard.alive:
            if number in new:
                self.store[number] = new[number]

    @property
    def alarm(self) -> int | None:
        """When the next window ends."""
        if self.shard.idle and self.before.next_window is None:
            return None
        return self.spec.axis.alarm(self.spec.grid.window_end(self.shard.closed + 1))

    def fork(self) -> TotalsState:
        """A copy whose panes are not written."""
        store: Any = UnwrittenPanes(self.store)
        shard, before = self.shard.fork(), deepcopy(self.before)
        return TotalsState(self.spec, self.name, shard, store, list(self.stored), before)

    def save(self) -> dict[str, Any]:
        """Say which panes are left, and remember the engine."""
        shard = self.shard
        _engines.keep(self.name, shard, shard.nbytes)
        return {
            "closed": shard.closed,
            "alive": list(shard.alive),
            "digests": b"".join(shard.alive.values()),
            **(self.before.save() if self.spec.paired else {}),
        }

    def remove(self) -> None:
        """Remove the panes that are left."""
        for number in self.shard.alive:
            del self.store[number]


class UnwrittenPanes:
    """Panes by number: those of a store, and what is written, which the store never sees."""

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self._written: dict[int, bytes] = {}

    def __getitem__(self, pane: int) -> bytes:
        return self._written[pane] if pane in self._written else self._store[pane]

    def __setitem__(self, pane: int, data: bytes) -> None:
        self._written[pane] = data

    def __delitem__(self, pane: int) -> None:
        self._written.pop(pane, None)


def _of_several(
    values: list[Any], counts: list[Ints | None], whole: list[bool]
) -> list[tuple[Any, Ints]]:
    """Rows of several totals, one behind the other: of each total all values, and their counts.

    A row has a value of its own total only, and counts 0 for the others.
    """
    lengths = [len(part) for part in values]
    pairs: list[tuple[Any, Ints]] = []
    for at, (part, count, is_whole) in enumerate(zip(values, counts, whole, strict=True)):
        mine = slice(sum(lengths[:at]), sum(lengths[: at + 1]))
        number = np.zeros(sum(lengths), np.int64 if is_whole else np.float64)
        null = np.ones(len(number), np.bool_)
        if hasattr(part, "is_null"):
            null[mine] = part.is_null().to_numpy(zero_copy_only=False)
            number[mine] = part.fill_null(0).to_numpy(zero_copy_only=False)
        else:
            null[mine], number[mine] = False, part
        of_rows = np.zeros(len(number), np.int64)
        of_rows[mine] = 1 if count is None else count
        column = np.ma.array(number, mask=null) if is_whole else np.where(null, np.nan, number)
        pairs.append((column, of_rows))
    return pairs


def _nullable(column: Any) -> list[Any]:
    """A column of totals for Spark: NULL where there is none."""
    values = column.tolist()  # of a masked one, None already
    return [None if value is None or value != value else value for value in values]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _by_pane(panes: Any) -> Iterator[PaneSums]:
    """The blocks of each pane, of panes in ascending order."""
    for number, same in groupby(panes, key=lambda pane: pane[0]):
        yield number, [block for _, blocks in same for block in blocks]
