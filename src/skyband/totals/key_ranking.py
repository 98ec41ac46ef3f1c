"""Keys by their totals: the best of them in a heap, the others below a threshold.

Most totals change far below the k best. So only a share of the keys, those at or above a
*threshold*, are in the heap; the threshold is set anew when fewer than k are left above it, or too
many.

The single numbers are fields of the record of the state: ``ranked`` slots have a total, ``above``
of them are in the heap; ``threshold`` and ``threshold_seq`` are its score and sequence number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, keep_best
from skyband.order import Floats, Ints

OUT, BELOW = -2, -1
"""Where slots stand that are not in the heap: they have no total, or one below the threshold."""

_SHARE = 16  # one key of so many is above the threshold, besides k


class KeyRanking(NamedTuple):
    """Totals by slot, and the heap of the best of them.

    ``score``  total of each slot in the heap
    ``seq``    sequence number of its newest row
    ``heap``   slots at or above the threshold; none ranks before its parent
    ``place``  where a slot stands in the heap, or :data:`OUT` or :data:`BELOW`
    ``front``  scratch: places whose slots may come next in a ranking, a heap of its own
    ``room``   scratch: totals among which a threshold is chosen
    """

    score: Floats
    seq: Ints
    heap: Ints
    place: Ints
    front: Ints
    room: Ranked


def key_ranking(room: int) -> KeyRanking:
    """No ranked slot yet."""
    return KeyRanking(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.full(room, OUT, np.int64),
        np.zeros(room + 1, np.int64),
        ranked(room),
    )


def moved_ranking(old: KeyRanking, above: int, slots: Ints, moved: Ints, room: int) -> KeyRanking:
    """The same ranking with room for ``room`` slots: ``slots`` are the first now.

    ``moved`` gives for each old slot its new one; ``above`` slots are in the heap.
    """
    new, count = key_ranking(room), len(slots)
    new.score[:count], new.seq[:count], new.place[:count] = (
        column[slots] for column in (old.score, old.seq, old.place)
    )
    new.heap[:above] = moved[old.heap[:above]]
    return new


@lean
def _before(ranking: KeyRanking, one: int, other: int) -> bool:
    return better(ranking.score[one], ranking.seq[one], ranking.score[other], ranking.seq[other])


@lean
def _put(ranking: KeyRanking, at: int, slot: int) -> None:
    ranking.heap[at] = slot
    ranking.place[slot] = at


@lean
def _rise(ranking: KeyRanking, at: int, slot: int) -> int:
    """Move a slot from place ``at`` towards the root, as far as it must; returns its place."""
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(ranking, slot, ranking.heap[parent]):
            break
        _put(ranking, at, ranking.heap[parent])
        at = parent
    _put(ranking, at, slot)
    return at


@lean
def _sink(ranking: KeyRanking, above: int, at: int, slot: int) -> None:
    """Move a slot from place ``at`` away from the root, as far as it must."""
    while True:
        child = 2 * at + 1
        if child >= above:
            break
        if child + 1 < above and _before(ranking, ranking.heap[child + 1], ranking.heap[child]):
            child += 1
        if not _before(ranking, ranking.heap[child], slot):
            break
        _put(ranking, at, ranking.heap[child])
        at = child
    _put(ranking, at, slot)


@lean
def rank_slot(ranking: KeyRanking, now: Any, slot: int, score: float, seq: int) -> None:
    """Rank a slot, or rank it anew. O(1) below the threshold, else O(log above)."""
    at = ranking.place[slot]
    if at == OUT:
        now.ranked += 1
    if better(now.threshold, now.threshold_seq, score, seq):
        if at >= 0:
            _take_out(ranking, now, at)
        ranking.place[slot] = BELOW
        return
    ranking.score[slot] = score
    ranking.seq[slot] = seq
    if at < 0:
        at = now.above
        now.above = at + 1
    if _rise(ranking, at, slot) == at:
        _sink(ranking, now.above, at, slot)


@lean
def drop_slot(ranking: KeyRanking, now: Any, slot: int) -> None:
    """Rank a slot no more, if it was. O(1) below the threshold, else O(log above)."""
    at = ranking.place[slot]
    if at == OUT:
        return
    now.ranked -= 1
    if at >= 0:
        _take_out(ranking, now, at)
    ranking.place[slot] = OUT


@lean
def _take_out(ranking: KeyRanking, now: Any, at: int) -> None:
    """Close the gap that a slot leaves in the heap."""
    above = now.above - 1
    now.above = above
    if at < above:
        last = ranking.heap[above]
        if _rise(ranking, at, last) == at:
            _sink(ranking, above, at, last)


@lean
def _planned(now: Any) -> int:
    """How many slots a new threshold would leave in the heap."""
    return min(min(now.k, now.ranked) + now.ranked // _SHARE, now.ranked)


@lean
def threshold_is_due(now: Any) -> bool:
    """Whether fewer than k slots are in the heap although there are more, or far too many."""
    return now.above < min(now.k, now.ranked) or now.above > 2 * _planned(now) + _SHARE


@lean
def set_threshold(ranking: KeyRanking, now: Any) -> None:
    """Set the threshold anew; scores and sequence numbers of all slots are up to date.

    O(slots), which so many changes of totals come before that it is O(1) for each of them.
    """
    planned = _planned(now)
    room = ranking.room
    filled = 0
    for slot in range(now.used):
        if ranking.place[slot] != OUT:
            room.score[filled] = ranking.score[slot]
            room.seq[filled] = ranking.seq[slot]
            filled += 1
    room.size[0] = filled
    threshold, threshold_seq = -np.inf, -1
    if 0 < planned < filled:
        keep_best(room, planned)
        threshold, threshold_seq = room.score[planned - 1], room.seq[planned - 1]
    above = 0
    for slot in range(now.used):
        if ranking.place[slot] == OUT:
            continue
        if better(threshold, threshold_seq, ranking.score[slot], ranking.seq[slot]):
            ranking.place[slot] = BELOW
        else:
            _put(ranking, above, slot)
            above += 1
    for at in range(above // 2 - 1, -1, -1):
        _sink(ranking, above, at, ranking.heap[at])
    now.above, now.threshold, now.threshold_seq = above, threshold, threshold_seq


@lean
def write_best(ranking: KeyRanking, now: Any, target: Out, step: int) -> None:
    """Write the k best as the window of a step. O(k log k)."""
    front, above = ranking.front, now.above
    waiting = 0
    if above > 0:
        front[0] = 0
        waiting = 1
    row = target.rows.size[0]
    end = row + min(now.k, above)
    while row < end:
        at = front[0]
        slot = ranking.heap[at]
        target.rows.score[row] = ranking.score[slot]
        target.rows.seq[row] = ranking.seq[slot]
        row += 1
        # the children come next in question: one in the place of their parent, one at the end
        child = 2 * at + 1
        if child < above:
            _front_sink(ranking, child, waiting)
            if child + 1 < above:
                _front_rise(ranking, child + 1, waiting)
                waiting += 1
        else:
            waiting -= 1
            _front_sink(ranking, front[waiting], waiting)
    target.rows.size[0] = row
    target.upto[step] = row


@lean
def _front_sink(ranking: KeyRanking, place: int, waiting: int) -> None:
    """Put a place at the root of the front."""
    front, heap = ranking.front, ranking.heap
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= waiting:
            break
        if child + 1 < waiting and _before(ranking, heap[front[child + 1]], heap[front[child]]):
            child += 1
        if not _before(ranking, heap[front[child]], heap[place]):
            break
        front[hole] = front[child]
        hole = child
    front[hole] = place


@lean
def _front_rise(ranking: KeyRanking, place: int, hole: int) -> None:
    """Put a place at the end of the front."""
    front, heap = ranking.front, ranking.heap
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _before(ranking, heap[place], heap[front[parent]]):
            break
        front[hole] = front[parent]
        hole = parent
    front[hole] = place
