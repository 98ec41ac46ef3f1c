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
    """``place[(stream * maps + map) * LEVELS + level]``; ``numbers``: streams, maps."""

    place: Ints
    clear: Ints  # scratch: bits that are not set, per level
    numbers: Ints


def sketch(streams: int, maps: int) -> Sketch:
    """Empty sketches with ``maps`` bitmaps each, a power of two.

    The standard error of a count is about ``0.65 / sqrt(maps)``. Space: 256 bytes a bitmap.
    """
    assert maps > 0, "one bitmap at least"
    assert maps & (maps - 1) == 0, "a power of two"
    place = np.full(streams * maps * LEVELS, _NEVER, np.int64)
    return Sketch(place, np.zeros(LEVELS, np.int64), np.array([streams, maps], np.int64))


@lean
def _turn(left: int, right: int, factor: int) -> int:
    """One half of a number, changed by the other; products stay below 2**63."""
    return left ^ (((right * factor) >> 13) & _HALF)


@lean
def mixed(id: int) -> tuple[int, int]:
    """Two numbers of 32 bits, as good as random, of an id."""
    left, right = (id >> 32) & _HALF, (id & _HALF) ^ 0x5BD1E995
    left = _turn(left, right, 0x2545F491)
    right = _turn(right, left, 0x1F4914F7)
    left = _turn(left, right, 0x27D4EB2F)
    right = _turn(right, left, 0x165667B1)
    left = _turn(left, right, 0x3C6EF35F)
    return left, right


@lean
def note(seen: Sketch, stream: int, id: int, place: int) -> None:
    """An object came in a stream; places never fall. O(1)."""
    left, right = mixed(id)
    level = 0
    while level < LEVELS - 1 and (left >> level) & 1 == 0:
        level += 1
    maps = seen.numbers[1]
    seen.place[(stream * maps + (right & (maps - 1))) * LEVELS + level] = place


@entry
def note_all(seen: Sketch, stream: Ints, id: Ints, place: Ints) -> None:
    """:func:`note` for many rows."""
    for at in range(len(id)):
        note(seen, stream[at], id[at], place[at])


@entry
def distinct(seen: Sketch, streams: int, since: int) -> float:
    """About how many objects came in any of ``streams`` (as bits) at ``since`` or later.

    The number under which the bits are most likely, found by halving an interval. O(streams *
    maps).
    """
    _count_clear(seen, streams, since)
    maps = seen.numbers[1]
    low, high = 0.0, 2.0**40
    if seen.clear[0] == maps and _excess(seen, 1e-9) <= 0.0:
        return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _excess(seen, middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@lean
def _count_clear(seen: Sketch, streams: int, since: int) -> None:
    maps = seen.numbers[1]
    for level in range(LEVELS):
        seen.clear[level] = 0
    for at in range(maps * LEVELS):
        found = False
        for stream in range(seen.numbers[0]):
            if (streams >> stream) & 1 and seen.place[stream * maps * LEVELS + at] >= since:
                found = True
        if not found:
            seen.clear[at % LEVELS] += 1


@lean
def _excess(seen: Sketch, count: float) -> float:
    """The derivative of the likelihood: above zero if more than ``count`` are more likely."""
    maps = seen.numbers[1]
    found = 0.0
    for level in range(LEVELS):
        share = 0.5 ** min(level + 1, LEVELS - 1) / maps
        clear = seen.clear[level]
        found -= clear * share
        if clear < maps:
            found += (maps - clear) * share / np.expm1(min(count * share, 700.0))
    return found
