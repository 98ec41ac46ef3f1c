"""S-AVL: stacks whose ordered tops find, and prune, the objects of a partition that may still win.

Objects are offered newest first. Each goes on the stack with the best top that it beats; who beats
no top while every stack is in use is dominated by that many newer objects and is pruned. So within
a stack scores rise and ages rise towards the top, the best of all is the best top, and expired
objects are only ever found at tops. Several slots share one pool of nodes.

A node stands for a *run*: consecutive objects on the same stack. Their scores stay in the ring, so
a falling stream, on which every object is meaningful, costs one node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints
from skyband.topk.ring import Ring


class Savl(NamedTuple):
    """Nodes as parallel arrays, and per slot its tops in ascending rank order (the best last)."""

    oldest: Ints  # node: number of the object at its top
    newest: Ints  # node: number of the object at its bottom
    below: Ints  # node: the one under it in its stack, -1 at the bottom; also links free nodes
    top: Ints  # slot * width + i: node on top of stack i
    top_score: Floats  # the score of its top object
    stacks: Ints  # slot: stacks in use
    limit: Ints  # slot: stacks allowed
    numbers: Ints


FREE, USED, NODES, OBJECTS, WIDTH = 0, 1, 2, 3, 4


def savl(slots: int, width: int) -> Savl:
    """Empty slots of at most ``width`` stacks each."""
    room = 64
    return Savl(
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(slots * width, np.int64),
        np.zeros(slots * width),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.array([-1, 0, 0, 0, width], np.int64),
    )


def with_nodes(items: Savl, more: int) -> Savl:
    """The same stacks with at least ``more`` further nodes."""
    held = len(items.below)
    room = max(2 * held, held + more)

    def longer(array: NDArray[Any]) -> NDArray[Any]:
        larger = np.zeros(room, array.dtype)
        larger[:held] = array
        return larger

    return items._replace(
        oldest=longer(items.oldest), newest=longer(items.newest), below=longer(items.below)
    )


@lean
def nodes_left(items: Savl) -> int:
    """How many nodes there are for objects to come."""
    return len(items.below) - items.numbers[NODES]


@lean
def clear(items: Savl, slot: int, stacks: int) -> None:
    """Empty a slot and allow it ``stacks`` stacks from now on. O(nodes freed)."""
    base = slot * items.numbers[WIDTH]
    for i in range(items.stacks[slot]):
        node = items.top[base + i]
        while node >= 0:
            following = items.below[node]
            items.numbers[OBJECTS] -= items.newest[node] - items.oldest[node] + 1
            _free(items, node)
            node = following
    items.stacks[slot] = 0
    items.limit[slot] = stacks


@lean
def _free(items: Savl, node: int) -> None:
    items.below[node] = items.numbers[FREE]
    items.numbers[FREE] = node
    items.numbers[NODES] -= 1


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
        if items.oldest[under] == seq + 1:
            items.oldest[under] = seq  # the run goes on
            tops[base + place] = score
            items.numbers[OBJECTS] += 1
            return
    else:
        place = count
        while place > 0 and tops[base + place - 1] >= score:
            tops[base + place] = tops[base + place - 1]
            items.top[base + place] = items.top[base + place - 1]
            place -= 1
        items.stacks[slot] = count + 1
        under = -1
    node = items.numbers[FREE]
    if node >= 0:
        items.numbers[FREE] = items.below[node]
    else:
        node = items.numbers[USED]
        items.numbers[USED] = node + 1
    items.numbers[NODES] += 1
    items.numbers[OBJECTS] += 1
    items.oldest[node] = seq
    items.newest[node] = seq
    items.below[node] = under
    items.top[base + place] = node
    tops[base + place] = score


@lean
def leads_run(items: Savl, slot: int, seq: int) -> bool:
    """Whether the object on top of the best of as many stacks as allowed is this one."""
    count = items.stacks[slot]
    if count < items.limit[slot]:
        return False
    return items.oldest[items.top[slot * items.numbers[WIDTH] + count - 1]] == seq


@lean
def stretch_run(items: Savl, slot: int, seq: int, score: float) -> None:
    """Let the run on top of the best stack begin at ``seq``: scores rise all the way to it."""
    place = slot * items.numbers[WIDTH] + items.stacks[slot] - 1
    node = items.top[place]
    items.numbers[OBJECTS] += items.oldest[node] - seq
    items.oldest[node] = seq
    items.top_score[place] = score


@lean
def drop_best(items: Savl, raw: Ring, slot: int, first: int) -> None:
    """Remove from the best stack of a slot its objects numbered below ``first``.

    O(stacks that rank between the old top and the new one).
    """
    base = slot * items.numbers[WIDTH]
    place = items.stacks[slot] - 1
    node = items.top[base + place]
    while node >= 0 and items.newest[node] < first:
        following = items.below[node]
        items.numbers[OBJECTS] -= items.newest[node] - items.oldest[node] + 1
        _free(items, node)
        node = following
    if node < 0:
        items.stacks[slot] = place
        return
    if items.oldest[node] < first:
        items.numbers[OBJECTS] -= first - items.oldest[node]
        items.oldest[node] = first
    seq = items.oldest[node]
    score = raw.score[seq & raw.mask[0]]
    while place > 0:
        other = items.top_score[base + place - 1]
        if other < score or (other == score and items.oldest[items.top[base + place - 1]] < seq):
            break
        items.top[base + place] = items.top[base + place - 1]
        items.top_score[base + place] = other
        place -= 1
    items.top[base + place] = node
    items.top_score[base + place] = score


@lean
def best(items: Savl, raw: Ring, slot: int, first: int) -> int:
    """Number of the best object numbered ``first`` or above, -1 if there is none.

    Expired tops met on the way are removed. Amortised O(log stacks).
    """
    base = slot * items.numbers[WIDTH]
    while items.stacks[slot] > 0:
        seq = items.oldest[items.top[base + items.stacks[slot] - 1]]
        if seq >= first:
            return seq
        drop_best(items, raw, slot, first)
    return -1


@lean
def run_end(items: Savl, slot: int) -> int:
    """One past the last object of the run at the top of the best stack."""
    base = slot * items.numbers[WIDTH]
    return items.newest[items.top[base + items.stacks[slot] - 1]] + 1


@lean
def second_score(items: Savl, slot: int) -> float:
    """The score of the second best top, -inf if there is one stack only."""
    base = slot * items.numbers[WIDTH]
    count = items.stacks[slot]
    return items.top_score[base + count - 2] if count > 1 else -np.inf
