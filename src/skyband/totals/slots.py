"""Keys and their slots: a row of numbers for each key, found by a hash table.

All that is known of a key stands together, so that a change of its total touches little memory.
Slots are only given, never taken back; when they run out, a new table is made without idle keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import entry, lean
from skyband.order import Ints

KEY, LATEST, SEEN, CHANGED, TOTAL = 0, 1, 2, 3, 4
"""What stands where in a row: the key; its newest entry, -1 at first; the sequence number of its
newest row; 1 if its total has changed since it was ranked; then its total."""

USED, STRIDE = 0, 1
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class Slots(NamedTuple):
    """Rows of keys.

    ``cells``    STRIDE numbers for each slot
    ``table``    slots by where the hash of their key points, or the next free place; -1 is free
    ``numbers``  slots in use, and the numbers in a row
    """

    cells: Ints
    table: NDArray[np.int32]
    numbers: Ints

    def rows(self) -> Ints:
        """The rows of the slots in use."""
        found: Ints = self.cells.reshape(-1, self.numbers[STRIDE])[: self.numbers[USED]]
        return found


def hashes(keys: Ints) -> Ints:
    """Numbers below 2**32 over which keys, however regular, are spread."""
    mixed = (keys.view(np.uint64) ^ (keys.view(np.uint64) >> np.uint64(32))) * _SPREAD
    return (mixed >> np.uint64(32)).view(np.int64)


def slots_with(room: int, rows: NDArray[Any]) -> Slots:
    """Room for ``room`` keys, a power of two; the first have these rows."""
    used, stride = rows.shape
    cells = np.zeros((room, stride), np.int64)
    cells[:used, KEY] = rows[:, KEY]
    numbers = np.array([0, stride], np.int64)
    found = Slots(cells.reshape(-1), np.full(2 * room, -1, np.int32), numbers)
    keys = np.ascontiguousarray(rows[:, KEY])
    _give_slots(found, keys, hashes(keys))
    cells[:used] = rows
    return found


@lean
def slot_of(held: Slots, key: int, hashed: int) -> int:
    """The slot of a key, a fresh one if it has none; -1 if there is no room. O(1) expected."""
    mask, stride = len(held.table) - 1, held.numbers[STRIDE]
    at = hashed & mask
    slot = int(held.table[at])
    while slot >= 0:
        if held.cells[slot * stride + KEY] == key:
            return slot
        at = (at + 1) & mask
        slot = int(held.table[at])
    slot = held.numbers[USED]
    if 2 * slot == len(held.table):
        return -1
    held.table[at] = slot
    held.cells[slot * stride + KEY] = key
    held.cells[slot * stride + LATEST] = -1
    held.numbers[USED] = slot + 1
    return slot


@entry
def _give_slots(held: Slots, key: Ints, hashed: Ints) -> None:
    for i in range(len(key)):
        slot_of(held, key[i], hashed[i])
