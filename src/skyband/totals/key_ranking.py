"""Keys by their totals: the best of them in a heap, the others below a bar.

Most totals change far below the k best. So only a share of the keys, those at or above a *bar*, are
in the heap; the bar is set anew when fewer than k are left above it, or too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.emission import Out
from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, keep_best, ranked
from skyband.order import Floats, Ints

OUT, BELOW = -2, -1
"""Where slots stand that are not in the heap: they have no total, or one below the bar."""

SIZE, RANKED, BAR = 0, 1, 2
_SHARE = 16  # one key of so many is above the bar, besides k


class Standings(NamedTuple):
    """Totals by slot, and the heap of the best of them.

    ``score``  total of each slot in the heap
    ``seq``    sequence number of its newest row
    ``heap``   slots at or above the bar; none ranks before its parent
    ``place``  where a slot stands in the heap, or :data:`OUT` or :data:`BELOW`
    ``bar``    one element: the score of the bar, whose sequence number is the last of ``numbers``
    ``numbers``  slots in the heap; slots that have a total; sequence number of the bar
    ``front``  scratch: places whose slots may come next in a ranking, a heap of its own
    ``room``   scratch: totals among which a bar is chosen
    """

    score: Floats
    seq: Ints
    heap: Ints
    place: Ints
    bar: Floats
    numbers: Ints
    front: Ints
    room: Ranked


def standings(room: int) -> Standings:
    """No ranked slot yet, and a bar below everything."""
    return Standings(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.full(room, OUT, np.int64),
        np.full(1, -np.inf),
        np.array([0, 0, -1], np.int64),
        np.zeros(room + 1, np.int64),
        ranked(room),
    )


def moved_standings(old: Standings, slots: Ints, moved: Ints, room: int) -> Standings:
    """The same standings with room for ``room`` slots: ``slots`` are the first now.

    ``moved`` tells of each old slot which one it is now.
    """
    new, held, size = standings(room), len(slots), int(old.numbers[SIZE])
    new.score[:held], new.seq[:held], new.place[:held] = (
        column[slots] for column in (old.score, old.seq, old.place)
    )
    new.heap[:size] = moved[old.heap[:size]]
    return new._replace(bar=old.bar, numbers=old.numbers)


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
    size = held.numbers[SIZE]
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
    """Rank a slot, or rank it anew. O(1) below the bar, else O(log size)."""
    at = held.place[slot]
    if at == OUT:
        held.numbers[RANKED] += 1
    if better(held.bar[0], held.numbers[BAR], score, seq):
        if at >= 0:
            _take_out(held, at)
        held.place[slot] = BELOW
        return
    held.score[slot] = score
    held.seq[slot] = seq
    if at < 0:
        at = held.numbers[SIZE]
        held.numbers[SIZE] = at + 1
    if _rise(held, at, slot) == at:
        _sink(held, at, slot)


@lean
def leave(held: Standings, slot: int) -> None:
    """Rank a slot no more, if it was. O(1) below the bar, else O(log size)."""
    at = held.place[slot]
    if at == OUT:
        return
    held.numbers[RANKED] -= 1
    if at >= 0:
        _take_out(held, at)
    held.place[slot] = OUT


@lean
def _take_out(held: Standings, at: int) -> None:
    """Close the gap that a slot leaves in the heap."""
    size = held.numbers[SIZE] - 1
    held.numbers[SIZE] = size
    if at < size:
        moved = held.heap[size]
        if _rise(held, at, moved) == at:
            _sink(held, at, moved)


@lean
def _planned(held: Standings, k: int) -> int:
    """How many slots a new bar would leave in the heap."""
    there = held.numbers[RANKED]
    return min(min(k, there) + there // _SHARE, there)


@lean
def bar_is_due(held: Standings, k: int) -> bool:
    """Whether fewer than k slots are in the heap although there are more, or far too many."""
    size = held.numbers[SIZE]
    return size < min(k, held.numbers[RANKED]) or size > 2 * _planned(held, k) + _SHARE


@lean
def set_bar(held: Standings, k: int) -> None:
    """Set the bar anew; scores and sequence numbers of all slots are up to date.

    O(slots), which so many changes of totals come before that it is O(1) for each of them.
    """
    planned = _planned(held, k)
    room = held.room
    filled = 0
    for slot in range(len(held.place)):
        if held.place[slot] != OUT:
            room.score[filled] = held.score[slot]
            room.seq[filled] = held.seq[slot]
            filled += 1
    room.size[0] = filled
    held.bar[0] = -np.inf
    held.numbers[BAR] = -1
    if 0 < planned < filled:
        keep_best(room, planned)
        held.bar[0] = room.score[planned - 1]
        held.numbers[BAR] = room.seq[planned - 1]
    size = 0
    for slot in range(len(held.place)):
        if held.place[slot] == OUT:
            continue
        if better(held.bar[0], held.numbers[BAR], held.score[slot], held.seq[slot]):
            held.place[slot] = BELOW
        else:
            _put(held, size, slot)
            size += 1
    held.numbers[SIZE] = size
    for at in range(size // 2 - 1, -1, -1):
        _sink(held, at, held.heap[at])


@lean
def write_best(held: Standings, k: int, target: Out, step: int) -> None:
    """Write the k best as the window of a step. O(k log k)."""
    front = held.front
    waiting = 0
    if held.numbers[SIZE] > 0:
        front[0] = 0
        waiting = 1
    row = target.rows.size[0]
    end = row + min(k, held.numbers[SIZE])
    while row < end:
        at = front[0]
        slot = held.heap[at]
        target.rows.score[row] = held.score[slot]
        target.rows.seq[row] = held.seq[slot]
        row += 1
        # the children come next in question: one in the place of their parent, one at the end
        child = 2 * at + 1
        if child < held.numbers[SIZE]:
            _front_sink(held, child, waiting)
            if child + 1 < held.numbers[SIZE]:
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
