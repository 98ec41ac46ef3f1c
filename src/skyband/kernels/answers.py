"""Ranked lists and the answers of a push, as arrays: what kernels fill and Python reads.

They stand apart from the kernels, so that whoever reads them need not load a compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.order import Floats, Ints


class Ranked(NamedTuple):
    """Objects in rank order: scores descending, and of equal scores the newer first.

    ``size[0]`` is their number; the rest of that array is scratch for sorting.
    """

    score: Floats
    seq: Ints
    size: Ints


STACK = 128  # slots behind the size that sorting uses as its stack


def ranked(capacity: int) -> Ranked:
    """An empty list with room for ``capacity`` objects."""
    room = max(capacity, 1)
    return Ranked(np.zeros(room), np.zeros(room, np.int64), np.zeros(1 + STACK, np.int64))


def roomier(items: Ranked, capacity: int) -> Ranked:
    """The same list with room for at least ``capacity`` objects."""
    room = len(items.score)
    if capacity <= room:
        return items
    score, seq = np.zeros(capacity), np.zeros(capacity, np.int64)
    score[:room], seq[:room] = items.score, items.seq
    return Ranked(score, seq, items.size)


class Out(NamedTuple):
    """Answers of one push: the rows of all windows, one after the other.

    ``rows``      scores and sequence numbers
    ``rank``      rank now, 0 for an object that left (changes only)
    ``previous``  rank in the window before, 0 for an object that entered (changes only)
    ``upto``      per step: rows written up to its end
    """

    rows: Ranked
    rank: Ints
    previous: Ints
    upto: Ints


def out(steps: int, emitted: int, k: int, changes: bool) -> Out:
    """Room for the answers of a push with ``steps`` steps of which ``emitted`` are answered."""
    capacity = 4 * k + emitted if changes else emitted * k
    ranks = capacity if changes else 0
    capacity = max(capacity, 1)
    return Out(
        Ranked(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64)),
        np.empty(ranks, np.int64),
        np.empty(ranks, np.int64),
        np.zeros(steps, np.int64),
    )


def short_of_room(target: Out, k: int, changes: bool) -> bool:
    """Whether one more report of changes might not fit: tells why a kernel stopped."""
    return changes and int(target.rows.size[0]) + 2 * k > len(target.rows.score)


def roomier_out(target: Out, k: int) -> Out:
    """The same answers with room for more reports of changes."""
    room = len(target.rows.score)
    more = room + 2 * k

    def longer(array: Ints) -> Ints:
        return np.concatenate([array, np.empty(more, array.dtype)])

    return Out(
        roomier(target.rows, room + more), longer(target.rank), longer(target.previous), target.upto
    )
