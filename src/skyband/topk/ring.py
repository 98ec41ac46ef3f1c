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


AT_ONCE = 1 << 21  # objects for which a count window makes room before they arrive


def held(items: Ring) -> Ints:
    """Ascending sequence numbers of the objects in the ring."""
    return np.arange(items.bounds[0], items.bounds[1], dtype=np.int64)


def fitted(items: Ring, more: int, most: int | None = None) -> Ring:
    """The ring with room for ``more`` further objects, ``most`` in all; not much larger than that.

    Amortised O(1) per object.
    """
    low, high = (int(bound) for bound in items.bounds)
    need = high - low + more
    if most is not None:
        need = min(need, most)
    held = len(items.score)
    if need <= held and (most is not None or held <= 4096 or 8 * need > held):
        return items
    if need > held:
        need = max(need, 2 * held) if most is None else min(max(need, 2 * held), most)
    refitted = ring(need)
    seq = max(low, high - len(refitted.score))
    while seq < high:  # stretches that are whole in both rings
        here, there = seq & int(items.mask[0]), seq & int(refitted.mask[0])
        count = min(high - seq, held - here, len(refitted.score) - there)
        refitted.score[there : there + count] = items.score[here : here + count]
        seq += count
    refitted.bounds[:] = items.bounds
    return refitted


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
