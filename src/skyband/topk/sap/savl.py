"""S-AVL: stacks whose ordered tops find, and prune, the objects of a partition that may still win.

Objects are offered newest first. Each goes on the stack with the best top that it beats. An object
that beats no top while every stack is in use is dominated by that many newer objects: it is pruned.
So within a stack scores rise and ages rise towards the top, the best of all is the best top, and
expired objects are only ever found at tops. Several slots share one pool of nodes.

A node stands for a *run*: consecutive objects on the same stack. Their scores stay in the ring, so
a falling stream, on which every object is meaningful, costs one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints
from skyband.topk.ring import Ring

POOL = fields(
    "free",  # first free node, -1 if none; the others are linked through ``below``
    "touched",  # nodes from here on were never in use
    "nodes",  # nodes in use
    "objects",  # objects on all stacks
    "width",  # stacks that a slot has room for
)
NODE = fields(
    "oldest",  # number of the object at its top
    "newest",  # number of the object at its bottom
    "below",  # the node under it in its stack, -1 at the bottom
)
SLOT = fields("stacks", "limit")  # stacks in use, stacks allowed


class Savl(NamedTuple):
    """Nodes, and per slot the tops of its stacks in ascending rank order (the best last)."""

    pool: Record
    nodes: Record
    slots: Record
    top: Ints  # slot * width + i: node on top of stack i
    top_score: Floats  # the score of its top object


def savl(slots: int, width: int) -> Savl:
    """Empty slots of at most ``width`` stacks each."""
    return Savl(
        record(POOL, free=-1, width=width),
        np.zeros(64, NODE),
        np.zeros(slots, SLOT),
        np.zeros(slots * width, np.int64),
        np.zeros(slots * width),
    )


def with_nodes(items: Savl, more: int) -> Savl:
    """The same stacks with at least ``more`` further nodes."""
    count = len(items.nodes)
    nodes = np.zeros(max(2 * count, count + more), items.nodes.dtype)
    nodes[:count] = items.nodes
    return items._replace(nodes=nodes)


@lean
def nodes_left(items: Savl) -> int:
    """How many nodes there are for objects to come."""
    return len(items.nodes) - items.pool[0].nodes


@lean
def clear(items: Savl, slot: int, stacks: int) -> None:
    """Empty a slot and allow it ``stacks`` stacks from now on. O(nodes freed)."""
    pool, nodes = items.pool[0], items.nodes
    base = slot * pool.width
    for i in range(items.slots[slot].stacks):
        node = items.top[base + i]
        while node >= 0:
            following = nodes[node].below
            pool.objects -= nodes[node].newest - nodes[node].oldest + 1
            _free(items, node)
            node = following
    items.slots[slot].stacks = 0
    items.slots[slot].limit = stacks


@lean
def _free(items: Savl, node: int) -> None:
    """Give a node back to the pool."""
    pool, nodes = items.pool[0], items.nodes
    nodes[node].below = pool.free
    pool.free = node
    pool.nodes -= 1


@lean
def offer(items: Savl, slot: int, score: float, seq: int) -> None:
    """Offer an object older than all offered before it (or of the same pane and worse).

    The caller has made sure of a node, see :func:`nodes_left`. O(log stacks); O(1) if it beats the
    best top or none.
    """
    pool, nodes = items.pool[0], items.nodes
    count, limit = items.slots[slot].stacks, items.slots[slot].limit
    base = slot * pool.width
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
        if nodes[under].oldest == seq + 1:
            nodes[under].oldest = seq  # the run goes on
            tops[base + place] = score
            pool.objects += 1
            return
    else:
        place = count
        while place > 0 and tops[base + place - 1] >= score:
            tops[base + place] = tops[base + place - 1]
            items.top[base + place] = items.top[base + place - 1]
            place -= 1
        items.slots[slot].stacks = count + 1
        under = -1
    node = pool.free
    if node >= 0:
        pool.free = nodes[node].below
    else:
        node = pool.touched
        pool.touched = node + 1
    pool.nodes += 1
    pool.objects += 1
    nodes[node].oldest = seq
    nodes[node].newest = seq
    nodes[node].below = under
    items.top[base + place] = node
    tops[base + place] = score


@lean
def leads_run(items: Savl, slot: int, seq: int) -> bool:
    """Whether the object on top of the best of as many stacks as allowed is this one."""
    count = items.slots[slot].stacks
    if count < items.slots[slot].limit:
        return False
    return items.nodes[items.top[slot * items.pool[0].width + count - 1]].oldest == seq


@lean
def stretch_run(items: Savl, slot: int, seq: int, score: float) -> None:
    """Let the run on top of the best stack begin at ``seq``: scores rise all the way to it."""
    pool, nodes = items.pool[0], items.nodes
    place = slot * pool.width + items.slots[slot].stacks - 1
    node = items.top[place]
    pool.objects += nodes[node].oldest - seq
    nodes[node].oldest = seq
    items.top_score[place] = score


@lean
def drop_best(items: Savl, raw: Ring, slot: int, first: int) -> None:
    """Remove from the best stack of a slot its objects numbered below ``first``.

    O(stacks that rank between the old top and the new one).
    """
    pool, nodes = items.pool[0], items.nodes
    base = slot * pool.width
    place = items.slots[slot].stacks - 1
    node = items.top[base + place]
    while node >= 0 and nodes[node].newest < first:
        following = nodes[node].below
        pool.objects -= nodes[node].newest - nodes[node].oldest + 1
        _free(items, node)
        node = following
    if node < 0:
        items.slots[slot].stacks = place
        return
    if nodes[node].oldest < first:
        pool.objects -= first - nodes[node].oldest
        nodes[node].oldest = first
    seq = nodes[node].oldest
    score = raw.score[seq & raw.mask[0]]
    while place > 0:
        other = items.top_score[base + place - 1]
        if other < score or (other == score and nodes[items.top[base + place - 1]].oldest < seq):
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
    base = slot * items.pool[0].width
    while items.slots[slot].stacks > 0:
        seq = items.nodes[items.top[base + items.slots[slot].stacks - 1]].oldest
        if seq >= first:
            return seq
        drop_best(items, raw, slot, first)
    return -1


@lean
def run_end(items: Savl, slot: int) -> int:
    """One past the last object of the run at the top of the best stack."""
    base = slot * items.pool[0].width
    return items.nodes[items.top[base + items.slots[slot].stacks - 1]].newest + 1


@lean
def second_score(items: Savl, slot: int) -> float:
    """The score of the second best top, -inf if there is one stack only."""
    base = slot * items.pool[0].width
    count = items.slots[slot].stacks
    return items.top_score[base + count - 2] if count > 1 else -np.inf
