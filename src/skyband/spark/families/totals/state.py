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
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pyspark.sql.types import BinaryType, DataType, LongType, StructField

from skyband.spark.axis import FOREVER, PaneGrid, WatermarkProgress
from skyband.spark.families.totals.blocks import arrow_bytes
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
from skyband.totals.query import TopKTotals

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.results import Ranked

PaneBlocks = tuple[int, list[bytes]]

_DIGEST = 16  # bytes
_FEW_KEYS = 1024  # that are not worth a search
_MANY_PANES = 64  # that leave together, of which one is made


class ShardTotals:
    """Maintains the engine of one shard, and knows which panes it has taken in.

    ``alive`` holds the digests of the panes that it still needs, by number, in ascending order, and
    ``closed`` the last window that was answered. An engine is made of its panes alone: so whoever
    has their bytes can make it anew, and one that took in fewer panes can catch up.
    """

    def __init__(self, query: TopKTotals, sums: PartialSums) -> None:
        import pyarrow as pa

        from skyband.spark.families.totals.keys import KeyEncoder
        from skyband.totals.monitor import TotalsMonitor

        self._sums = sums
        self._grid = PaneGrid.of(query.window)
        self._changes = query.emit == "changes"
        self.monitor = TotalsMonitor(query, options={"ties": "arrival"})
        self.ids = KeyEncoder(pa.schema([sums.arrow.field(name) for name in sums.key]))
        self.alive: dict[int, bytes] = {}
        self.closed = -FOREVER

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
        import pyarrow as pa

        from skyband.spark.families.totals.keys import in_order

        rows = self._read(blocks)
        rows = rows.take(pa.array(in_order(int64(rows.column(0)), self._key_columns(rows))))
        data = arrow_bytes(rows)
        return data, self._insert(number, rows, data)

    def take_again(self, number: int, data: bytes) -> None:
        """Take in a pane whose windows were answered already, so far as they were due."""
        if self._grid.together:  # it may hold the rows of many
            self.monitor.pass_over(self._grid.window_end(self._grid.step(number) - 1))
        for _ in self._insert(number, self._read([data]), data):
            pass

    def _read(self, blocks: list[bytes]) -> pa.RecordBatch:
        """The rows of blocks, together."""
        import pyarrow as pa

        schema = self._sums.arrow
        parts = [pa.ipc.read_record_batch(pa.py_buffer(block), schema) for block in blocks]
        if len(parts) == 1:
            return parts[0]
        (batch,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return batch

    def _key_columns(self, rows: pa.RecordBatch) -> list[Any]:
        return [rows.column(name) for name in self._sums.key]

    def _insert(self, number: int, rows: pa.RecordBatch, data: bytes) -> Iterator[Answer]:
        """Take in a pane whose rows stand in order."""
        before = self._grid.step(number) - 1
        exact, counts = self._sums.exact_parts(rows)
        keys = self.ids.number(self._key_columns(rows))
        times = int64(rows.column(0))
        ranked = self.monitor.push(
            keys[exact.row],
            exact.value,
            counts=counts,
            times=times[exact.row],
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
        import pyarrow as pa

        from skyband.spark.families.totals.keys import in_order

        newest = max(self.alive, default=0)
        same = [n for n in self.alive if self._grid.last(n) == self._grid.last(newest)]
        if not self._grid.together or len(same) <= _MANY_PANES:
            return dict(panes)
        rows = self._sums.add_again(self._read([panes.get(n) or read(n) for n in same]))
        rows = rows.take(pa.array(in_order(int64(rows.column(0)), self._key_columns(rows))))
        data = arrow_bytes(rows)
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
        if self.monitor.dropped.total:
            raise AssertionError(f"partial sums of a pane were dropped: {self.monitor.dropped}")
        if not ranked.rows:
            return
        assert ranked.time is not None
        columns = [*self.ids.columns(ranked.id), ranked.time.tolist()]
        score = ranked.score.tolist()
        for window, low, high, ranks in ranked_windows(ranked, self.monitor.query):
            yield Answer(window, score[low:high], [column[low:high] for column in columns], *ranks)

    def _forget(self) -> None:
        """Let go of keys that can no longer be reported."""
        if len(self.ids) > 2 * self.ranked_keys + _FEW_KEYS:
            self.ids.keep(np.unique(self.monitor.reportable()[0]))


_engines: EngineCache[ShardTotals] = EngineCache()


@dataclass(frozen=True)
class TotalsSpec(StateSpec):
    """Keeps the panes of each shard.

    The query's window counts microseconds. ``score`` is the type of totals; ``merged`` says that
    rankings of several shards are merged, ``digest`` names the query. Rankings that are merged to
    tell changes are ``paired`` with those of the window before.
    """

    query: TopKTotals
    sums: PartialSums
    score: DataType
    merged: bool
    digest: str
    paired: bool = False

    pane_store: ClassVar[tuple[str, str] | None] = ("panes", "rows")

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
        fields = answer_fields(self._types, self.changes, self.score)
        return (*fields, *pair_fields(self._types, self.score)) if self.paired else fields

    @property
    def _types(self) -> tuple[DataType, ...]:
        return (*self.sums.types, LongType()) if self.merged else self.sums.types

    def pane(self, values: tuple[Any, ...]) -> PaneBlocks:
        """Blocks of a pane: its number, their bytes."""
        number, blocks = values
        return number, [bytes(block) for block in blocks]

    def new(self) -> ShardTotals:
        """A shard of which nothing is known."""
        return ShardTotals(self.query, self.sums)

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
        return answer_rows(answers, lambda: shard.ranked_keys, self.changes)


@dataclass
class TotalsState(KeyState):
    """A shard, which of its panes are stored, and what it ranked last."""

    spec: TotalsSpec
    name: tuple[str, Any]
    shard: ShardTotals
    store: PaneStore
    stored: list[int]
    before: LastRanking

    def run(
        self, panes: list[PaneBlocks], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes, write those that live on, and answer what the watermark has passed."""
        answers = self._answers(panes, progress)
        yield from self.spec.rows(answers, self.shard, self.before, progress.closed)
        for number in self.stored:
            if number not in self.shard.alive:
                del self.store[number]

    def _answers(self, panes: list[PaneBlocks], progress: WatermarkProgress) -> Iterator[Answer]:
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


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _by_pane(panes: Any) -> Iterator[PaneBlocks]:
    """The blocks of each pane, of panes in ascending order."""
    for number, same in groupby(panes, key=lambda pane: pane[0]):
        yield number, [block for _, blocks in same for block in blocks]
