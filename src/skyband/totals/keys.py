"""Keys and their slots: a hash table that only grows, and is made anew without the idle keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import entry, lean
from skyband.order import Ints

_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class Keys(NamedTuple):
    """Slots of keys.

    ``key``    the key of each slot
    ``table``  slots by where the hash of their key points, or the next free place; -1 is free
    ``size``   one element: slots given so far
    """

    key: Ints
    table: Ints
    size: Ints


def hashes(keys: Ints) -> Ints:
    """Numbers below 2**32 that keys, however regular, are spread over."""
    mixed = (keys.view(np.uint64) ^ (keys.view(np.uint64) >> np.uint64(32))) * _SPREAD
    return (mixed >> np.uint64(32)).view(np.int64)


def keys_in(room: int, held: Ints) -> Keys:
    """These keys in the first slots, with room for ``room``, a power of two."""
    key = np.zeros(room, np.int64)
    found = Keys(key, np.full(2 * room, -1, np.int64), np.zeros(1, np.int64))
    _give_slots(found, held, hashes(held))
    return found


@lean
def slot_of(held: Keys, key: int, hashed: int) -> int:
    """The slot of a key, a fresh one if it has none; -1 if there is no room. O(1) expected."""
    mask = len(held.table) - 1
    at = hashed & mask
    slot = held.table[at]
    while slot >= 0:
        if held.key[slot] == key:
            return slot
        at = (at + 1) & mask
        slot = held.table[at]
    slot = held.size[0]
    if slot == len(held.key):
        return -1
    held.table[at] = slot
    held.key[slot] = key
    held.size[0] = slot + 1
    return slot


@entry
def _give_slots(held: Keys, key: Ints, hashed: Ints) -> None:
    for i in range(len(key)):
        slot_of(held, key[i], hashed[i])
