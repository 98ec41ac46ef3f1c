"""What is known of the objects that can still be reported, by sequence number."""

from __future__ import annotations

import numpy as np

from skyband.order import Ints

_ROOM = 1024


class Ids:
    """Maintains id and time of each object that may still be an answer.

    The kernels see sequence numbers only. New rows come in whole batches; rows that the algorithm
    no longer keeps are dropped once they outnumber the others, so the directory stays within a
    constant factor of what is kept.

    Complexity: O(1) amortised per row, O(log size) per look-up.
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self._columns = np.empty((3 if timed else 2, _ROOM), np.int64)  # seq, id, time
        self._size = 0
        self.worth_pruning = _ROOM  # rows from which on pruning pays

    @classmethod
    def of(cls, columns: Ints, timed: bool) -> Ids:
        """A directory with these :attr:`columns`."""
        directory = cls(timed)
        directory._fill(columns)
        return directory

    @property
    def columns(self) -> Ints:
        """Sequence numbers, ids and, if timed, times: one row each."""
        return self._columns[:, : self._size]

    @property
    def seq(self) -> Ints:
        """Ascending sequence numbers."""
        found: Ints = self.columns[0]
        return found

    @property
    def id(self) -> Ints:
        """Their ids."""
        found: Ints = self.columns[1]
        return found

    @property
    def time(self) -> Ints:
        """Their times."""
        found: Ints = self.columns[2]
        return found

    def admit(self, base: int, ids: Ints, times: Ints | None) -> None:
        """Add a batch whose objects are numbered from ``base`` on."""
        size = self._size + len(ids)
        if size > self._columns.shape[1]:
            larger = np.empty((len(self._columns), 2 * size), np.int64)
            larger[:, : self._size] = self.columns
            self._columns = larger
        fresh = self._columns[:, self._size : size]
        fresh[0] = np.arange(base, base + len(ids), dtype=np.int64)
        fresh[1] = ids
        if times is not None:
            fresh[2] = times
        self._size = size

    def places(self, seq: Ints) -> Ints:
        """Where these objects stand in the directory's columns."""
        return np.searchsorted(self.seq, seq).astype(np.int64, copy=False)

    @property
    def crowded(self) -> bool:
        """Whether it is time to :meth:`prune`."""
        return self._size > self.worth_pruning

    def prune(self, kept: Ints) -> None:
        """Forget all objects but these (ascending sequence numbers)."""
        self._fill(self.columns[:, np.isin(self.seq, kept, assume_unique=True)])

    def _fill(self, columns: Ints) -> None:
        self._size = columns.shape[1]
        self._columns = np.empty((len(columns), max(_ROOM, 2 * self._size)), np.int64)
        self._columns[:, : self._size] = columns
        self.worth_pruning = max(_ROOM, 2 * self._size)
