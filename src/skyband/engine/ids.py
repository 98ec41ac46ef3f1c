"""Which id and time belong to a sequence number: kernels see sequence numbers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved
from skyband.order import Ints

_ROOM = 1024  # rows that the ring holds at least
_MANY = 8192  # rows from which on forgetting pays
_NONE: Ints = np.empty(0, np.int64)


class Ids:
    """Maintains id and time of each object that may still be reported.

    Rows are numbered in sequence, so those of a push are looked up in its own columns, and what
    came before in ``recent``, a ring of consecutive numbers from ``first`` on. An algorithm that
    keeps the whole window keeps the ring; for others, which keep little, rows are moved out of the
    ring to ``old``, sorted by number, and all that they do not keep is forgotten, once the ring
    outgrows the rest.

    Complexity: O(1) amortised per row, O(log size) per look-up.
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self._width = 2 if timed else 1
        self._old_seq = _NONE
        self._old = np.empty((self._width, 0), np.int64)  # ids and, if timed, times
        self._recent = np.empty((self._width, _ROOM), np.int64)  # number s stands at s & mask
        self._first = 0  # numbers first .. last - 1 stand in the ring
        self._last = 0
        self._batch: list[Ints] = []  # columns of the push under way
        self._worth_pruning = _MANY

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._old_seq) + self._last - self._first

    def admit(self, rows: Rows) -> None:
        """Take in the rows of a push: they can be looked up, and :meth:`settle` keeps them."""
        assert rows.id is not None
        self._batch = [rows.id]
        if self.timed:
            assert rows.time is not None
            self._batch.append(rows.time)

    def lookup(self, seq: Ints) -> tuple[Ints, Ints | None]:
        """Ids and, if timed, times of objects."""
        columns = [self._column(seq, at) for at in range(self._width)]
        return columns[0], columns[1] if self.timed else None

    def _column(self, seq: Ints, at: int) -> Ints:
        batch = self._batch[at] if self._batch else _NONE
        ring = self._recent[at]
        oldest = int(seq.min(initial=self._last))
        newest = int(seq.max(initial=0))
        if oldest >= self._last:
            return batch[seq - self._last]
        values: Ints = ring[seq & (len(ring) - 1)]
        if newest >= self._last:
            fresh = seq >= self._last
            values[fresh] = batch[seq[fresh] - self._last]
        if oldest < self._first:
            old = seq < self._first
            values[old] = self._old[at, np.searchsorted(self._old_seq, seq[old])]
        return values

    def settle(self, first: int, kept: Callable[[], Ints] | None) -> None:
        """Keep what may be reported later: all from number ``first`` on, or what ``kept`` says.

        ``kept`` gives ascending numbers, and is asked only when forgetting pays.
        """
        if not self._batch:
            return
        count = len(self._batch[0])
        if kept is not None and len(self) + count > self._worth_pruning:
            self.forget(kept())
            return
        if kept is None:
            self._first = min(max(self._first, first), self._last + count)
        self._make_room(self._last + count - self._first)
        begin = max(self._last, self._first)
        size = self._recent.shape[1]
        for at in range(self._width):
            column = self._batch[at][begin - self._last :]
            low = begin & (size - 1)
            head = min(len(column), size - low)
            self._recent[at, low : low + head] = column[:head]
            self._recent[at, : len(column) - head] = column[head:]
        self._last += count
        self._batch = []

    def forget(self, kept: Ints) -> None:
        """Forget all objects but these (ascending numbers)."""
        ids, times = self.lookup(kept)
        self._last += len(self._batch[0]) if self._batch else 0
        self._batch = []
        self._old_seq = kept.copy()
        self._old = np.stack([ids] if times is None else [ids, times])
        self._first = self._last
        self._worth_pruning = max(_MANY, 2 * len(kept))

    def _make_room(self, count: int) -> None:
        """Let the ring hold so many rows, a power of two; give back what is much too large."""
        size = self._recent.shape[1]
        wanted = max(_ROOM, 1 << (count - 1).bit_length()) if count else _ROOM
        if wanted <= size <= 64 * wanted:
            return
        ring = np.empty((self._width, wanted), np.int64)
        seq = np.arange(self._first, self._last, dtype=np.int64)
        ring[:, seq & (wanted - 1)] = self._recent[:, seq & (size - 1)]
        self._recent = ring

    def saved(self) -> Saved:
        """What is known, as plain values and arrays."""
        seq = np.arange(self._first, self._last, dtype=np.int64)
        recent = self._recent[:, seq & (self._recent.shape[1] - 1)]
        header = {"timed": self.timed, "first": self._first, "worth_pruning": self._worth_pruning}
        return header, {"old_seq": self._old_seq, "old": self._old, "recent": recent}

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Ids:
        """What :meth:`saved` gave."""
        ids = cls(header["timed"])
        ids._old_seq, ids._old = arrays["old_seq"], arrays["old"]
        ids._first = ids._last = header["first"]
        ids._worth_pruning = header["worth_pruning"]
        recent = arrays["recent"]
        ids._make_room(recent.shape[1])
        ids._last += recent.shape[1]
        seq = np.arange(ids._first, ids._last, dtype=np.int64)
        ids._recent[:, seq & (ids._recent.shape[1] - 1)] = recent
        return ids
