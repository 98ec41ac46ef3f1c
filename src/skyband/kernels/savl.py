"""S-AVL: stacks whose ordered tops find, and prune, the objects of a partition that may still win.

Objects are offered newest first. Each goes on the stack with the best top that it beats; who beats
no top while every stack is in use is dominated by that many newer objects and is pruned. So within
a stack scores rise and ages rise towards the top, the best of all is the best top, and expired
objects are only ever found at tops. Several slots share one pool of nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import lean
from skyband.kernels.ranked import better
from skyband.order import Floats, Ints


class Savl(NamedTuple):
    """Nodes as parallel arrays, and per slot its tops in ascending rank order (the best last)."""

    score: Floats
    seq: Ints
    below: Ints  # node: the one under it in its stack, -1 at the bottom; also links free nodes
    top: Ints  # slot * width + i: node on top of stack i
    top_score: Floats  # its score, side by side for the search
    stacks: Ints  # slot: stacks in use
    limit: Ints  # slot: stacks allowed
    numbers: Ints


FREE, USED, SIZE, WIDTH = 0, 1, 2, 3


def savl(slots: int, width: int) -> Savl:
    """Empty slots of at most ``width`` stacks each."""
    room = 64
    return Savl(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(slots * width, np.int64),
        np.zeros(slots * width),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.array([-1, 0, 0, width], np.int64),
    )


@lean
def clear(items: Savl, slot: int, stacks: int) -> None:
    """Empty a slot and allow it ``stacks`` stacks from now on. O(nodes freed)."""
    base = slot * items.numbers[WIDTH]
    for i in range(items.stacks[slot]):
        node = items.top[base + i]
        while node >= 0:
            following = items.below[node]
            _free(items, node)
            node = following
    items.stacks[slot] = 0
    items.limit[slot] = stacks


@lean
def _free(items: Savl, node: int) -> None:
    items.below[node] = items.numbers[FREE]
    items.numbers[FREE] = node
    items.numbers[SIZE] -= 1


def with_nodes(items: Savl, more: int) -> Savl:
    """The same stacks with at least ``more`` further nodes."""
    used = len(items.score)
    room = max(2 * used, used + more)

    def longer(array: NDArray[Any]) -> NDArray[Any]:
        larger = np.zeros(room, array.dtype)
        larger[:used] = array
        return larger

    return items._replace(
        score=longer(items.score), seq=longer(items.seq), below=longer(items.below)
    )


@lean
def nodes_left(items: Savl) -> int:
    """How many objects can be offered before nodes run out."""
    return len(items.score) - items.numbers[SIZE]


@lean
def offer(items: Savl, slot: int, score: float, seq: int) -> None:
    """Offer an object older than all offered before it (or of the same pane and worse).

    The caller has made sure of a node, see :func:`nodes_left`. O(log stacks); O(1) if it beats the
    best top or none.
    """
    count, limit = items.stacks[slot], items.limit[slot]
    base = slot * items.numbers[WIDTH]
    tops = items.top_score
    if count == limit:
        if limit == 0 or tops[base] >= score:
            return  # every top is newer and no worse: pruned
        place = count - 1
        if tops[base + place] >= score:
            low, high = 0, place  # the best top below the score lies in [low, high)
            while high - low > 1:
                middle = (low + high) >> 1
                if tops[base + middle] < score:
                    low = middle
                else:
                    high = middle
            place = low
        under = items.top[base + place]
    else:
        place = count
        while place > 0 and tops[base + place - 1] >= score:
            tops[base + place] = tops[base + place - 1]
            items.top[base + place] = items.top[base + place - 1]
            place -= 1
        items.stacks[slot] = count + 1
        under = np.int64(-1)
    node = items.numbers[FREE]
    if node >= 0:
        items.numbers[FREE] = items.below[node]
    else:
        node = items.numbers[USED]
        items.numbers[USED] = node + 1
    items.numbers[SIZE] += 1
    items.score[node] = score
    items.seq[node] = seq
    items.below[node] = under
    items.top[base + place] = node
    items.top_score[base + place] = score


@lean
def pop(items: Savl, slot: int) -> None:
    """Remove the best object of a slot. O(stacks that rank between it and the one below it)."""
    base = slot * items.numbers[WIDTH]
    place = items.stacks[slot] - 1
    node = items.top[base + place]
    under = items.below[node]
    _free(items, node)
    if under < 0:
        items.stacks[slot] = place
        return
    score, seq = items.score[under], items.seq[under]
    while place > 0:
        other = items.top[base + place - 1]
        if not better(items.score[other], items.seq[other], score, seq):
            break
        items.top[base + place] = other
        items.top_score[base + place] = items.top_score[base + place - 1]
        place -= 1
    items.top[base + place] = under
    items.top_score[base + place] = score


@lean
def best(items: Savl, slot: int, first: int) -> int:
    """Node of the best object numbered ``first`` or above, -1 if there is none.

    Expired tops met on the way are removed. Amortised O(log stacks).
    """
    base = slot * items.numbers[WIDTH]
    while items.stacks[slot] > 0:
        node = items.top[base + items.stacks[slot] - 1]
        if items.seq[node] >= first:
            return node
        pop(items, slot)
    return np.int64(-1)
