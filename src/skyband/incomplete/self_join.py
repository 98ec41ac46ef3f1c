"""How often objects repeat in a window: AMS sketches of the self-join size, a block at a time.

The self-join size of a stream is the sum of the squares of how often each object came. A counter to
which each object adds its own sign, plus or minus one, has that as the mean of its square. Counters
add up: those of a window are the sums of those of its blocks, and old blocks are dropped whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.sketch import mixed
from skyband.kernels.jit import entry, lean
from skyband.order import Ints

SIGNS = 64  # counters a sketch: the signs are the bits of one number
BLOCKS = 8  # of a window
_RING = BLOCKS + 2
_ROWS = SIGNS  # the counter behind the others: how many rows came


class SelfJoin(NamedTuple):
    """Counters by stream and block; blocks take turns in a ring of slots."""

    sums: Ints  # [stream, slot, counter]
    block: Ints  # per slot: the block that it holds
    span: Ints  # one element: steps in a window


def self_join(streams: int, span: int) -> SelfJoin:
    """Empty sketches of windows that live for ``span`` steps. Space: 5 KiB a stream."""
    return SelfJoin(
        np.zeros((streams, _RING, _ROWS + 1), np.int64),
        np.full(_RING, -1, np.int64),
        np.array([max(span, 1)], np.int64),
    )


@lean
def note_repeat(joins: SelfJoin, stream: int, object_id: int, place: int) -> None:
    """Note that an object came in a stream; places are steps, and never fall. O(SIGNS)."""
    sums, block = joins.sums, place * BLOCKS // joins.span[0]
    slot = block % _RING
    if joins.block[slot] != block:
        joins.block[slot] = block
        for each in range(sums.shape[0]):
            for at in range(_ROWS + 1):
                sums[each, slot, at] = 0
    left, right = mixed(object_id)
    for at in range(SIGNS // 2):
        sums[stream, slot, at] += 1 - 2 * ((left >> at) & 1)
        sums[stream, slot, SIGNS // 2 + at] += 1 - 2 * ((right >> at) & 1)
    sums[stream, slot, _ROWS] += 1


@entry
def note_repeats(joins: SelfJoin, stream: Ints, object_id: Ints, place: Ints) -> None:
    """Apply :func:`note_repeat` to many rows."""
    for at in range(len(object_id)):
        note_repeat(joins, stream[at], object_id[at], place[at])


@entry
def repeats(joins: SelfJoin, stream: int, since: int) -> float:
    """Estimate how often the object of a row came, on average over the rows since a step.

    That is the self-join size over the number of rows. The standard error of the former is about
    ``sqrt(2 / SIGNS)`` of it.
    """
    first = since * BLOCKS // joins.span[0]
    size, rows = 0.0, 0
    for at in range(_ROWS + 1):
        total = 0
        for slot in range(_RING):
            if joins.block[slot] >= first:
                total += joins.sums[stream, slot, at]
        if at == _ROWS:
            rows = total
        else:
            size += float(total) * float(total) / SIGNS
    return max(size / rows, 1.0) if rows > 0 else 1.0
