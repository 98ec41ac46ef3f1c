"""Keys and their slots, in a hash table.

Slots are only given, never taken back; when they run out, a new table is made without idle keys.
Keys are looked up in blocks, one memory access for all rows of a block after the other: so memory
delivers side by side what rows need, however many keys there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints

BLOCK = 256
"""Rows that are looked up together."""

_HALF = (1 << 32) - 1
# odd numbers below 2**30: a sum of two products with 32 bits fits; multiples of the first are
# spread evenly (it is 2**32 times sqrt(5) - 2), so that keys that count up rarely meet
_LOW, _HIGH = 1_013_904_243, 889_516_853


class Slots(NamedTuple):
    """Keys by slot, and slots by key.

    ``key``    key of each slot in use
    ``table``  slots by where the hash of their key points, or the next free place; -1 is free
    ``block``  scratch: slots of the rows of a block, -1 for a row that is left out; then the keys
               of slots that may be theirs
    """

    key: Ints
    table: NDArray[np.int32]
    block: Ints


def slots_with(room: int, keys: Ints) -> Slots:
    """Room for ``room`` keys, a power of two; these have the first slots."""
    key = np.zeros(room, np.int64)
    key[: len(keys)] = keys
    slots = Slots(key, np.full(2 * room, -1, np.int32), np.zeros(2 * BLOCK, np.int64))
    _enter(slots, len(keys))
    return slots


@lean
def _shift(slots: Slots) -> int:
    """Bits of a hash, of 32, that the table has no room for."""
    shift, room = 32, len(slots.table)
    while room > 1:
        room >>= 1
        shift -= 1
    return shift


@lean
def _home(key: int, shift: int) -> int:
    """Where the table is searched for a key first. O(1)."""
    return (((key & _HALF) * _LOW + ((key >> 32) & _HALF) * _HIGH) & _HALF) >> shift


@entry
def _enter(slots: Slots, used: int) -> None:
    """Enter all keys, which differ, into an empty table."""
    shift, mask = _shift(slots), len(slots.table) - 1
    for slot in range(used):
        at = _home(slots.key[slot], shift)
        while slots.table[at] >= 0:
            at = (at + 1) & mask
        slots.table[at] = slot


@lean
def look_up(
    slots: Slots, now: Any, keys: Ints, values: Floats, low: int, high: int, with_nan: bool
) -> int:
    """Write the slots of a block of rows to ``slots.block``, fresh ones for new keys.

    Rows whose value is NaN have none, unless they count ``with_nan``. Returns the row at which
    slots ran out, or ``high``. O(1) expected for each row.
    """
    table, key, block = slots.table, slots.key, slots.block
    match = block[BLOCK:]
    shift = _shift(slots)
    rows = high - low
    for i in range(rows):
        block[i] = table[_home(keys[low + i], shift)]
    for i in range(rows):
        match[i] = key[max(block[i], 0)]
    for i in range(rows):
        if values[low + i] != values[low + i] and not with_nan:
            block[i] = -1
        elif match[i] != keys[low + i] or block[i] < 0:
            slot = _slot_of(slots, now, keys[low + i], shift)
            if slot < 0:
                return low + i
            block[i] = slot
    return high


@lean
def _place_of(slots: Slots, key: int, shift: int) -> int:
    """Where the slot of a key stands in the table, or would stand. O(1) expected."""
    mask = len(slots.table) - 1
    at = _home(key, shift)
    while slots.table[at] >= 0 and slots.key[slots.table[at]] != key:
        at = (at + 1) & mask
    return at


@lean
def known_slot(slots: Slots, key: int) -> int:
    """The slot of a key; -1 if it has none."""
    return int(slots.table[_place_of(slots, key, _shift(slots))])


@lean
def _slot_of(slots: Slots, now: Any, key: int, shift: int) -> int:
    """The slot of a key, a fresh one if it has none; -1 if there is no room."""
    at = _place_of(slots, key, shift)
    slot = int(slots.table[at])
    if slot >= 0:
        return slot
    slot = now.used
    if slot == len(slots.key):
        return -1
    slots.table[at] = slot
    slots.key[slot] = key
    now.used = slot + 1
    return slot
