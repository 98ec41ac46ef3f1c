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
_ROWS = SIGNS  # behind the counters: how many rows came
_STRIDE = SIGNS + 1


class SelfJoin(NamedTuple):
    """``sums[(stream * _RING + slot) * _STRIDE + counter]``; ``block`` says whose a slot is."""

    sums: Ints
    block: Ints
    numbers: Ints  # streams, span


def self_join(streams: int, span: int) -> SelfJoin:
    """Empty sketches of windows that live for ``span`` steps. Space: 5 KiB a stream."""
    return SelfJoin(
        np.zeros(streams * _RING * _STRIDE, np.int64),
        np.full(_RING, -1, np.int64),
        np.array([streams, max(span, 1)], np.int64),
    )


@lean
def note_repeat(held: SelfJoin, stream: int, id: int, place: int) -> None:
    """An object came in a stream; places are steps, and never fall. O(SIGNS)."""
    block = place * BLOCKS // held.numbers[1]
    slot = block % _RING
    if held.block[slot] != block:
        held.block[slot] = block
        for each in range(held.numbers[0]):
            base = (each * _RING + slot) * _STRIDE
            for at in range(base, base + _STRIDE):
                held.sums[at] = 0
    base = (stream * _RING + slot) * _STRIDE
    left, right = mixed(id)
    for at in range(SIGNS // 2):
        held.sums[base + at] += 1 - 2 * ((left >> at) & 1)
        held.sums[base + SIGNS // 2 + at] += 1 - 2 * ((right >> at) & 1)
    held.sums[base + _ROWS] += 1


@entry
def note_repeats(held: SelfJoin, stream: Ints, id: Ints, place: Ints) -> None:
    """:func:`note_repeat` for many rows."""
    for at in range(len(id)):
        note_repeat(held, stream[at], id[at], place[at])


@entry
def repeats(held: SelfJoin, stream: int, since: int) -> float:
    """About how often the object of a row came, on average over the rows since a step.

    That is the self-join size over the number of rows. The standard error of the former is about
    ``sqrt(2 / SIGNS)`` of it.
    """
    first = since * BLOCKS // held.numbers[1]
    found, rows = 0.0, 0
    for at in range(_STRIDE):
        total = 0
        for slot in range(_RING):
            if held.block[slot] >= first:
                total += held.sums[(stream * _RING + slot) * _STRIDE + at]
        if at == _ROWS:
            rows = total
        else:
            found += float(total) * float(total) / SIGNS
    return max(found / rows, 1.0) if rows > 0 else 1.0
