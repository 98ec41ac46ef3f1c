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


def numbers_in(items: Ring) -> Ints:
    """Ascending sequence numbers of the objects in the ring."""
    return np.arange(items.bounds[0], items.bounds[1], dtype=np.int64)


def fitted(items: Ring, more: int, most: int | None = None) -> Ring:
    """The ring with room for ``more`` further objects, ``most`` in all; not much larger than that.

    Amortised O(1) per object.
    """
    low, high = items.bounds.tolist()
    need = high - low + more
    if most is not None:
        need = min(need, most)
    room = len(items.score)
    if need <= room and (most is not None or room <= 4096 or 8 * need > room):
        return items
    if need > room:
        need = max(need, 2 * room) if most is None else min(max(need, 2 * room), most)
    refitted = ring(need)
    seq = max(low, high - len(refitted.score))
    while seq < high:  # copy stretches that wrap around in neither ring
        here, there = seq & int(items.mask[0]), seq & int(refitted.mask[0])
        count = min(high - seq, room - here, len(refitted.score) - there)
        refitted.score[there : there + count] = items.score[here : here + count]
        seq += count
    refitted.bounds[:] = items.bounds
    return refitted


@lean
def store(items: Ring, scores: Floats, start: int, stop: int) -> None:
    """Append ``scores[start:stop]``. O(stop - start), two plain copies at most."""
    at = items.bounds[1] & items.mask[0]
    wrap = min(stop, start + len(items.score) - at)  # the scores from here on go to the beginning
    _copy(scores[start:wrap], items.score[at:])
    _copy(scores[wrap:stop], items.score)
    items.bounds[1] += stop - start


@lean
def _copy(source: Floats, target: Floats) -> None:
    """Copy an array to the beginning of another."""
    for i in range(len(source)):  # from zero on: the compiler sees that no index is negative
        target[i] = source[i]
