"""Keys that Spark puts into different tasks.

Spark spreads keys by a hash, and a few shards would often meet in one task while others idle. So
the keys are chosen by what their hashes are: Murmur3 with the seed 42, as of all its exchanges.
"""

from __future__ import annotations

_ALL = 0xFFFFFFFF


def shard_keys(shards: int, partitions: int) -> list[int]:
    """Whole numbers, as many as shards, spread over so many partitions as evenly as possible."""
    room = {at: -(-(shards - at) // partitions) for at in range(partitions)}
    found: list[int] = []
    key = 0
    while len(found) < shards:
        at = hashed(key) % partitions
        if room[at] > 0:
            room[at] -= 1
            found.append(key)
        key += 1
    return found


def hashed(value: int, seed: int = 42) -> int:
    """Spark's hash of an integer column: 32 bits with a sign.

    >>> hashed(0), hashed(1)
    (933211791, -559580957)
    """
    mixed = (value * 0xCC9E2D51) & _ALL
    mixed = _turned(mixed, 15) * 0x1B873593 & _ALL
    found = (_turned(seed ^ mixed, 13) * 5 + 0xE6546B64) & _ALL
    found ^= 4
    found = ((found ^ found >> 16) * 0x85EBCA6B) & _ALL
    found = ((found ^ found >> 13) * 0xC2B2AE35) & _ALL
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _turned(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _ALL
