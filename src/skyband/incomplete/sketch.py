"""How many distinct objects came in a window, in one stream or in several: FM sketches.

One sketch per stream: bitmaps, each bit with the place (a sequence number or a time) at which it
was last set. A bit counts as set in a window if that place lies within. Sketches of several streams
use the same hash, so the union of streams is the later of two places, bit by bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import entry, lean
from skyband.order import Ints

LEVELS = 32
_HALF = 0xFFFFFFFF
_NEVER = -(1 << 62)
_HALVINGS = 64


class Sketch(NamedTuple):
    """Bitmaps of all streams, and room to count their bits."""

    place: Ints  # [stream, map * LEVELS + level]: where the bit was last set
    unset: Ints  # scratch: bits that are not set, per level


def sketch(streams: int, maps: int) -> Sketch:
    """Empty sketches with ``maps`` bitmaps each, a power of two.

    The standard error of a count is about ``0.65 / sqrt(maps)``. Space: 256 bytes a bitmap.
    """
    assert maps > 0, "one bitmap at least"
    assert maps & (maps - 1) == 0, "a power of two"
    place = np.full((streams, maps * LEVELS), _NEVER, np.int64)
    return Sketch(place, np.zeros(LEVELS, np.int64))


@lean
def _maps(counts: Sketch) -> int:
    """The number of bitmaps a stream."""
    return counts.place.shape[1] // LEVELS


@lean
def _turn(left: int, right: int, factor: int) -> int:
    """One half of a number, changed by the other; products stay below 2**63."""
    return left ^ (((right * factor) >> 13) & _HALF)


@lean
def mixed(object_id: int) -> tuple[int, int]:
    """Hash an id to two numbers of 32 bits, as good as random."""
    left, right = (object_id >> 32) & _HALF, (object_id & _HALF) ^ 0x5BD1E995
    left = _turn(left, right, 0x2545F491)
    right = _turn(right, left, 0x1F4914F7)
    left = _turn(left, right, 0x27D4EB2F)
    right = _turn(right, left, 0x165667B1)
    left = _turn(left, right, 0x3C6EF35F)
    return left, right


@lean
def note(counts: Sketch, stream: int, object_id: int, place: int) -> None:
    """Note that an object came in a stream; places never fall. O(1)."""
    left, right = mixed(object_id)
    level = 0
    while level < LEVELS - 1 and (left >> level) & 1 == 0:
        level += 1
    counts.place[stream, (right & (_maps(counts) - 1)) * LEVELS + level] = place


@entry
def note_all(counts: Sketch, stream: Ints, object_id: Ints, place: Ints) -> None:
    """Apply :func:`note` to many rows."""
    for at in range(len(object_id)):
        note(counts, stream[at], object_id[at], place[at])


@entry
def distinct(counts: Sketch, streams: int, since: int) -> float:
    """Estimate how many objects came in any of ``streams`` (as bits) at ``since`` or later.

    The number under which the bits are most likely, found by halving an interval. O(streams *
    maps).
    """
    _count_unset(counts, streams, since)
    low, high = 0.0, 2.0**40
    if counts.unset[0] == _maps(counts) and _excess(counts, 1e-9) <= 0.0:
        return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _excess(counts, middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@lean
def _count_unset(counts: Sketch, streams: int, since: int) -> None:
    """Count, per level, the bits that none of the streams has set since then."""
    for level in range(LEVELS):
        counts.unset[level] = 0
    for at in range(counts.place.shape[1]):
        is_set = False
        for stream in range(counts.place.shape[0]):
            if (streams >> stream) & 1 and counts.place[stream, at] >= since:
                is_set = True
        if not is_set:
            counts.unset[at % LEVELS] += 1


@lean
def _excess(counts: Sketch, count: float) -> float:
    """The derivative of the likelihood: above zero if more than ``count`` are more likely."""
    maps, slope = _maps(counts), 0.0
    for level in range(LEVELS):
        share = 0.5 ** min(level + 1, LEVELS - 1) / maps
        unset = counts.unset[level]
        slope -= unset * share
        if unset < maps:
            slope += (maps - unset) * share / np.expm1(min(count * share, 700.0))
    return slope
