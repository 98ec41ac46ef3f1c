"""A ring of raw scores, addressed by sequence number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints


class Ring(NamedTuple):
    """The scores of objects ``bounds[0] .. bounds[1]``; object ``seq`` sits at ``seq & mask``."""

    score: Floats
    mask: Ints
    bounds: Ints


def ring(capacity: int) -> Ring:
    """An empty ring with room for ``capacity`` objects (rounded up to a power of two)."""
    room = 1 << max(int(capacity) - 1, 1).bit_length()
    return Ring(np.zeros(room), np.array([room - 1], np.int64), np.zeros(2, np.int64))


def held(items: Ring) -> Ints:
    """Ascending sequence numbers of the objects in the ring."""
    return np.arange(items.bounds[0], items.bounds[1], dtype=np.int64)


def stretched(items: Ring, more: int) -> Ring:
    """The ring with room for ``more`` further objects. Amortised O(1) per object."""
    low, high = (int(bound) for bound in items.bounds)
    if high - low + more <= len(items.score):
        return items
    larger = ring(max(high - low + more, 2 * len(items.score)))
    seqs = np.arange(low, high)
    larger.score[seqs & larger.mask[0]] = items.score[seqs & items.mask[0]]
    larger.bounds[:] = items.bounds
    return larger


@lean
def store(items: Ring, scores: Floats, start: int, stop: int) -> None:
    """Append ``scores[start:stop]``. O(stop - start), two plain copies at most."""
    at = items.bounds[1] & items.mask[0]
    turn = min(stop, start + len(items.score) - at)
    _copy(scores[start:turn], items.score[at:])
    _copy(scores[turn:stop], items.score)
    items.bounds[1] += stop - start


@lean
def _copy(source: Floats, target: Floats) -> None:
    for i in range(len(source)):  # from zero on: the compiler sees that no index is negative
        target[i] = source[i]
