"""One shard without Spark: the partials of closed panes into the local engine, its windows out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.engine.results import Ranked
from skyband.order import Ints
from skyband.spark.families.totals.blocks import packed
from skyband.spark.families.totals.exact_parts import (
    Pieces,
    double_pieces,
    single_pieces,
    whole_pieces,
)
from skyband.spark.families.totals.keys import Numbers, in_order
from skyband.spark.state.candidates import FOREVER, Answer, Lives
from skyband.totals.monitor import TotalsMonitor
from skyband.totals.query import TopKTotals
from skyband.windows import TimeWindow

DIGEST = 16
_FEW = 1024  # keys that nobody needs to look for


@dataclass(frozen=True)
class Layout:
    """How the rows of a pane are laid out: newest time, key, bucket, rows, parts."""

    schema: pa.Schema
    held: str
    keys: int
    counted: bool

    @property
    def key(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.schema.field(1 + i) for i in range(self.keys)])

    def read(self, blocks: list[bytes]) -> pa.RecordBatch:
        """The rows of blocks, together."""
        parts = [pa.ipc.read_record_batch(pa.py_buffer(one), self.schema) for one in blocks]
        if len(parts) == 1:
            return parts[0]
        (found,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return found

    def sorted(self, blocks: list[bytes]) -> pa.RecordBatch:
        """The rows of blocks by time, then key."""
        found = self.read(blocks)
        return found.take(pa.array(in_order(_ints(found, 0), self.key_columns(found))))

    def key_columns(self, rows: pa.RecordBatch) -> list[Any]:
        """The parts of the key."""
        return list(rows.columns[1 : 1 + self.keys])

    def pieces(self, rows: pa.RecordBatch) -> tuple[Pieces, Ints | None]:
        """Values to push, and how many rows each of them stands for, if that matters."""
        at = 1 + self.keys
        bucket = _ints(rows, at) if self.held == "doubles" else None
        at += self.held == "doubles"
        counts = _ints(rows, at) if self.counted else None
        parts = [column.to_numpy() for column in rows.columns[at + self.counted :]]
        if bucket is not None:
            found = double_pieces(bucket, parts)
        elif self.held == "rows":
            found = single_pieces(np.zeros(rows.num_rows))
        elif self.held == "extremes":
            found = single_pieces(np.array(parts[0]))
        else:
            found = whole_pieces(parts)
        if counts is None:
            return found, None
        return found, np.where(found.first, counts[found.row], 0)


def _ints(rows: pa.RecordBatch, at: int) -> Ints:
    found: Ints = rows.column(at).to_numpy().astype(np.int64, copy=False)
    return found


class ShardTotals:
    """Maintains the engine of one shard, and knows which panes it has taken in.

    ``alive`` holds the digests of the panes that it still needs, by number, in ascending order, and
    ``closed`` the last window that was answered. An engine is made of its panes alone: so whoever
    has their bytes can make it anew, and one that took in fewer panes can catch up.
    """

    def __init__(self, query: TopKTotals, layout: Layout, lives: Lives, scale: int) -> None:
        self._layout = layout
        self._lives = lives
        self._scale = 10.0**scale
        self._changes = query.emit == "changes"
        self._window: TimeWindow = query.window  # type: ignore[assignment]
        self.monitor = TotalsMonitor(query, options={"ties": "arrival"})
        self.numbers = Numbers(layout.key)
        self.alive: dict[int, bytes] = {}
        self.closed = -FOREVER

    @property
    def nbytes(self) -> int:
        """Memory in use, about."""
        return self.monitor.state_bytes() + self.numbers.nbytes + 32 * len(self.alive)

    @property
    def held(self) -> int:
        """Keys that have a total."""
        return int(self.monitor.algorithm.state.now[0].ranked)

    @property
    def last(self) -> int:
        """The last window that has anything to tell."""
        farewell = int(self._changes)
        return max((self._lives.last(pane) + farewell for pane in self.alive), default=-FOREVER)

    def take(self, number: int, blocks: list[bytes]) -> tuple[bytes, Iterator[Answer]]:
        """Take in a closed pane that is newer than all before; answers what ended before it.

        Returns its bytes, too, as they are to be kept.
        """
        rows = self._layout.sorted(blocks)
        data = packed(rows)
        return data, self.insert(number, rows, data)

    def insert(self, number: int, rows: pa.RecordBatch, data: bytes) -> Iterator[Answer]:
        """Take in a pane whose rows stand in order."""
        before = self._lives.step(number) - 1
        found, counts = self._layout.pieces(rows)
        keys = self.numbers.number(self._layout.key_columns(rows))
        times = _ints(rows, 0)
        ranked = self.monitor.push(
            keys[found.row],
            found.value,
            counts=counts,
            times=times[found.row],
            watermark=self._end(before),
        )
        self.alive[number] = hashlib.blake2b(data, digest_size=DIGEST).digest()
        self.closed = max(self.closed, before)
        return self._answers(ranked)

    def again(self, number: int, data: bytes) -> None:
        """Take in a pane whose windows were answered already, so far as they were due."""
        for _ in self.insert(number, self._layout.read([data]), data):
            pass

    def close(self, window: int) -> Iterator[Answer]:
        """Answer the windows up to this one, and let go of what is in no later one."""
        if self.alive and window > self.closed:
            upto = min(window, max(self.last, self.closed))  # beyond it, nothing is left
            ranked = self.monitor.push(watermark=self._end(upto))
            yield from self._answers(ranked)
        self.closed = max(self.closed, window)
        gone = window if not self._changes else window - 1  # the last ranking must be known
        self.alive = {n: digest for n, digest in self.alive.items() if self._lives.last(n) > gone}
        self._forget()

    def catches_up(self, alive: dict[int, bytes], closed: int) -> list[int] | None:
        """The panes that are missing to stand where these panes stand; None if it cannot."""
        if closed < self.closed:
            return None
        gone = closed if not self._changes else closed - 1
        for number, digest in self.alive.items():
            if self._lives.last(number) > gone and alive.get(number) != digest:
                return None
        missing = [number for number in alive if number not in self.alive]
        newest = max(self.alive, default=-FOREVER)
        late = any(n < newest or self._lives.step(n) <= self.closed for n in missing)
        return None if late else missing

    def _end(self, window: int) -> int:
        return self._window.offset + window * self._window.slide

    def _answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with their keys and the times of their newest rows."""
        if self.monitor.dropped.total:
            raise AssertionError(f"partials of a pane were dropped: {self.monitor.dropped}")
        if not ranked.rows:
            return
        assert ranked.time is not None
        columns = [*self.numbers.columns(ranked.id), ranked.time.tolist()]
        score: list[float] = (ranked.score / self._scale).tolist()
        window = (ranked.window_end - self._window.offset) // self._window.slide
        cuts = ranked.offsets.tolist()
        rank = previous = None
        if self._changes:
            assert ranked.previous_rank is not None
            rank, previous = ranked.rank.tolist(), ranked.previous_rank.tolist()
        for i, number in enumerate(window.tolist()):
            low, high = cuts[i], cuts[i + 1]
            if low == high:
                continue
            kept = [column[low:high] for column in columns]
            if rank is None or previous is None:
                yield Answer(number, score[low:high], kept)
            else:
                yield Answer(number, score[low:high], kept, rank[low:high], previous[low:high])

    def _forget(self) -> None:
        """Let go of keys that can no longer be reported."""
        if len(self.numbers) > 2 * self.held + _FEW:
            self.numbers.keep(np.unique(self.monitor.reportable()[0]))
