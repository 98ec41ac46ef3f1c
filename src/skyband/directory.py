"""What is known of the objects that can still be reported, by sequence number."""

from __future__ import annotations

import numpy as np

from skyband.order import Ints


class Directory:
    """Maintains id and time of each object that may still be an answer.

    The kernels see sequence numbers only. New rows come in whole batches; rows that the algorithm
    no longer keeps are dropped once they outnumber the others, so the directory stays within a
    constant factor of the candidates.

    Complexity: O(1) amortised per row, O(log size) per look-up.
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self.seq = np.empty(0, np.int64)
        self.id = np.empty(0, np.int64)
        self.time = np.empty(0, np.int64)
        self._worth_pruning = 1024

    def admit(self, base: int, ids: Ints, times: Ints | None) -> None:
        """Add a batch whose objects are numbered from ``base`` on."""
        self.seq = np.concatenate([self.seq, np.arange(base, base + len(ids), dtype=np.int64)])
        self.id = np.concatenate([self.id, ids])
        if self.timed:
            assert times is not None
            self.time = np.concatenate([self.time, times])

    def places(self, seq: Ints) -> Ints:
        """Where these objects stand in the directory's columns."""
        return np.searchsorted(self.seq, seq).astype(np.int64, copy=False)

    @property
    def crowded(self) -> bool:
        """Whether it is time to :meth:`prune`."""
        return len(self.seq) > self._worth_pruning

    def prune(self, kept: Ints) -> None:
        """Forget all objects but these (ascending sequence numbers)."""
        keep = np.isin(self.seq, kept, assume_unique=True)
        self.seq, self.id = self.seq[keep], self.id[keep]
        if self.timed:
            self.time = self.time[keep]
        self._worth_pruning = max(1024, 2 * len(self.seq))
