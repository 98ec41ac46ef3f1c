"""A doubly linked list in rank order with a skip list as its index, in flat arrays.

Node 0 is the head and ranks before everything; link 0 means "none" in both directions. Levels are
drawn from a generator whose state is part of the list, so a restored list goes on bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import lean
from skyband.kernels.ranked import better
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints

LEVELS = 8  # a quarter of the nodes reach each next level: enough for 4**8 objects and more


class SkipList(NamedTuple):
    """Nodes as parallel arrays.

    ``now``  objects in the list (``count``), first free node (``free``, 0: none), nodes used at
             least once (``used``), state of the random generator (``random``)
    """

    score: Floats
    seq: Ints
    after: Ints  # node * LEVELS + level: the next node on that level
    before: Ints  # the previous node on level 0
    height: Ints
    last: Ints  # per level: its last node
    path: Ints  # scratch, per level: the last node before the object that was searched for
    now: Record


_NOW = fields("count", "free", "used", "random")


def skiplist(capacity: int) -> SkipList:
    """An empty list with room for ``capacity`` objects."""
    room = max(capacity, 1) + 1
    return SkipList(
        np.full(room, np.inf),
        np.full(room, np.iinfo(np.int64).max, np.int64),
        np.zeros(room * LEVELS, np.int64),
        np.zeros(room, np.int64),
        np.full(room, LEVELS, np.int64),
        np.zeros(LEVELS, np.int64),
        np.zeros(LEVELS, np.int64),
        record(_NOW, used=1, random=0x2545F4914F6CDD1D),
    )


def with_room(items: SkipList) -> SkipList:
    """The same list with room for half as many objects more."""
    before = len(items.score)
    room = before + max(before // 2, 16)

    def longer(array: NDArray[Any], per_node: int = 1) -> NDArray[Any]:
        larger = np.zeros(room * per_node, array.dtype)
        larger[: len(array)] = array
        return larger

    return items._replace(
        score=longer(items.score),
        seq=longer(items.seq),
        after=longer(items.after, LEVELS),
        before=longer(items.before),
        height=longer(items.height),
    )


@lean
def room_left(items: SkipList) -> int:
    """How many objects can be linked before nodes run out."""
    return len(items.score) - 1 - items.now[0].count


@lean
def _search(items: SkipList, score: float, seq: int) -> None:
    """Leave in ``path`` the last node before this object on each level. O(log size)."""
    node = 0
    for level in range(LEVELS - 1, -1, -1):
        following = items.after[node * LEVELS + level]
        while following != 0 and better(items.score[following], items.seq[following], score, seq):
            node = following
            following = items.after[node * LEVELS + level]
        items.path[level] = node


@lean
def link(items: SkipList, score: float, seq: int) -> int:
    """Insert an object; return its node. O(log size); O(1) at either end of the list.

    The caller has checked for room, see :func:`room_left`.
    """
    now, path = items.now[0], items.path
    tail = items.last[0]
    first = items.after[0]
    if tail == 0 or better(items.score[tail], items.seq[tail], score, seq):
        for level in range(LEVELS):
            path[level] = items.last[level]
    elif better(score, seq, items.score[first], items.seq[first]):
        for level in range(LEVELS):
            path[level] = 0
    else:
        _search(items, score, seq)
    node = now.free
    if node != 0:
        now.free = items.before[node]
    else:
        node = now.used
        now.used = node + 1
    height = _draw(now)
    items.score[node] = score
    items.seq[node] = seq
    items.height[node] = height
    items.before[node] = path[0]
    for level in range(height):
        previous = path[level]
        following = items.after[previous * LEVELS + level]
        items.after[node * LEVELS + level] = following
        items.after[previous * LEVELS + level] = node
        if following == 0:
            items.last[level] = node
        elif level == 0:
            items.before[following] = node
    now.count += 1
    return node


@lean
def unlink(items: SkipList, node: int) -> None:
    """Remove a node. O(log size); O(1) at the head of the list."""
    if items.before[node] == 0:
        for level in range(LEVELS):
            items.path[level] = 0
    else:
        _search(items, items.score[node], items.seq[node])
    for level in range(items.height[node]):
        previous = items.path[level]
        following = items.after[node * LEVELS + level]
        items.after[previous * LEVELS + level] = following
        if following == 0:
            items.last[level] = previous
        elif level == 0:
            items.before[following] = previous
    now = items.now[0]
    items.before[node] = now.free  # free nodes are chained by this link
    now.free = node
    now.count -= 1


@lean
def _draw(now: np.record) -> int:
    """A height, geometric with ratio 1/4, from a 64 bit xorshift generator."""
    state = now.random
    state ^= state << 13
    state ^= (state >> 7) & 0x01FFFFFFFFFFFFFF
    state ^= state << 17
    now.random = state
    height = 1
    bits = (state >> 20) & 0xFFFFFFFF
    while height < LEVELS and bits & 3 == 0:
        height += 1
        bits >>= 2
    return height
