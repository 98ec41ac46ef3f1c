"""Keys by their totals: a heap that knows where each key stands, best key at its root."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.emission import Out
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better
from skyband.order import Floats, Ints


class Standings(NamedTuple):
    """Totals by slot, and the heap of the slots that are ranked.

    ``score``  total of each slot, as it stands in the heap
    ``seq``    sequence number of its newest row
    ``heap``   slots; none ranks before its parent
    ``place``  where a slot stands in the heap, -1 if it does not
    ``front``  scratch: places whose slots may come next in a ranking, a heap of its own
    ``size``   one element: slots in the heap
    """

    score: Floats
    seq: Ints
    heap: Ints
    place: Ints
    front: Ints
    size: Ints


def standings(room: int) -> Standings:
    """No ranked slot yet."""
    return Standings(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.full(room, -1, np.int64),
        np.zeros(room + 1, np.int64),
        np.zeros(1, np.int64),
    )


@lean
def _before(held: Standings, one: int, other: int) -> bool:
    return better(held.score[one], held.seq[one], held.score[other], held.seq[other])


@lean
def _put(held: Standings, at: int, slot: int) -> None:
    held.heap[at] = slot
    held.place[slot] = at


@lean
def _rise(held: Standings, at: int, slot: int) -> int:
    """Move a slot from place ``at`` towards the root, as far as it must; returns its place."""
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(held, slot, held.heap[parent]):
            break
        _put(held, at, held.heap[parent])
        at = parent
    _put(held, at, slot)
    return at


@lean
def _sink(held: Standings, at: int, slot: int) -> None:
    """Move a slot from place ``at`` away from the root, as far as it must."""
    size = held.size[0]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(held, held.heap[child + 1], held.heap[child]):
            child += 1
        if not _before(held, held.heap[child], slot):
            break
        _put(held, at, held.heap[child])
        at = child
    _put(held, at, slot)


@lean
def stand(held: Standings, slot: int, score: float, seq: int) -> None:
    """Rank a slot, or rank it anew. O(log size), O(1) if few others lie between."""
    held.score[slot] = score
    held.seq[slot] = seq
    at = held.place[slot]
    if at < 0:
        at = held.size[0]
        held.size[0] = at + 1
    if _rise(held, at, slot) == at:
        _sink(held, at, slot)


@lean
def leave(held: Standings, slot: int) -> None:
    """Rank a slot no more, if it was. O(log size)."""
    at = held.place[slot]
    if at < 0:
        return
    held.place[slot] = -1
    size = held.size[0] - 1
    held.size[0] = size
    if at < size:
        moved = held.heap[size]
        if _rise(held, at, moved) == at:
            _sink(held, at, moved)


@lean
def write_best(held: Standings, k: int, target: Out, step: int) -> None:
    """Write the k best as the window of a step. O(k log k)."""
    front = held.front
    waiting = 0
    if held.size[0] > 0:
        front[0] = 0
        waiting = 1
    row = target.rows.size[0]
    end = row + min(k, held.size[0])
    while row < end:
        at = front[0]
        slot = held.heap[at]
        target.rows.score[row] = held.score[slot]
        target.rows.seq[row] = held.seq[slot]
        row += 1
        # the children come next in question: one in the place of their parent, one at the end
        child = 2 * at + 1
        if child < held.size[0]:
            _front_sink(held, child, waiting)
            if child + 1 < held.size[0]:
                _front_rise(held, child + 1, waiting)
                waiting += 1
        else:
            waiting -= 1
            _front_sink(held, front[waiting], waiting)
    target.rows.size[0] = row
    target.upto[step] = row


@lean
def _front_sink(held: Standings, place: int, waiting: int) -> None:
    """Put a place at the root of the front."""
    front, heap = held.front, held.heap
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= waiting:
            break
        if child + 1 < waiting and _before(held, heap[front[child + 1]], heap[front[child]]):
            child += 1
        if not _before(held, heap[front[child]], heap[place]):
            break
        front[hole] = front[child]
        hole = child
    front[hole] = place


@lean
def _front_rise(held: Standings, place: int, hole: int) -> None:
    """Put a place at the end of the front."""
    front, heap = held.front, held.heap
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _before(held, heap[place], heap[front[parent]]):
            break
        front[hole] = front[parent]
        hole = parent
    front[hole] = place
