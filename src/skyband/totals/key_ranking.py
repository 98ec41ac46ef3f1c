"""Keys by their totals: the best of them in a heap, the others below a threshold.

Most totals change far below the k best. So only a share of the keys, those at or above a
*threshold*, are in the heap; the threshold is set anew when fewer than k are left above it, or too
many. Where keys of equal totals share ranks, the threshold is a total, and never parts equal ones.

The single numbers are fields of the record of the state: ``ranked`` slots have a total, ``above``
of them are in the heap; ``threshold`` and ``threshold_seq`` are its score and sequence number.
``rank_by`` says how ranks count, and ``written`` how many keys the last window ranked if they share
ranks. Where the oldest of equal totals rank first, the sequence numbers here have their signs
turned: ``turn`` is -1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, keep_best, rank
from skyband.order import Floats, Ints

OUT, BELOW = -2, -1
"""Where slots stand that are not in the heap: they have no total, or one below the threshold."""

ROW_NUMBER, RANK, DENSE_RANK = 0, 1, 2
"""How ranks count, see :class:`skyband.TopK`."""

LOWEST = -(1 << 62)
"""A sequence number that ranks behind all others."""

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
    needed = max(min(now.k, now.ranked), now.written)
    return min(needed + now.ranked // _SHARE, now.ranked)


@lean
def threshold_is_due(now: Any) -> bool:
    """Whether fewer than k slots are in the heap although there are more, or far too many.

    A dense rank counts better totals, not keys, so that more than k may be needed: that, only
    :func:`write_best` finds out.
    """
    return now.above < min(now.k, now.ranked) or now.above > 2 * _planned(now) + _SHARE


@lean
def set_threshold(ranking: KeyRanking, now: Any) -> None:
    """Set the threshold anew; scores and sequence numbers of all slots are up to date.

    O(slots), which so many changes of totals come before that it is O(1) for each of them. Where
    keys share ranks O(slots log slots), since equal totals must be known.
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
    threshold, threshold_seq = -np.inf, LOWEST
    if 0 < planned < filled and now.rank_by != ROW_NUMBER:
        threshold = _shared_threshold(room, now, planned)
    elif 0 < planned < filled:
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
def _shared_threshold(room: Ranked, now: Any, planned: int) -> float:
    """The total of a threshold that leaves all keys of rank k or less in the heap.

    It leaves about as many as planned, but for keys of equal totals, of which all are left or none.
    Where that would be far too many, it leaves those that are needed and no more.
    """
    rank(room)
    filled, needed, groups = room.size[0], 0, 0
    while needed < filled:
        if needed == 0 or room.score[needed] != room.score[needed - 1]:
            groups += 1
            if (groups if now.rank_by == DENSE_RANK else needed + 1) > now.k:
                break
        needed += 1
    wanted = max(needed, planned)
    threshold, end = room.score[wanted - 1], wanted
    while end < filled and room.score[end] == threshold:
        end += 1
    return room.score[needed - 1] if end > 2 * wanted + _SHARE else threshold


@lean
def write_best(ranking: KeyRanking, now: Any, target: Out, step: int) -> bool:
    """Write the k best as the window of a step, or all of rank k or less. O(rows log rows).

    Returns False, and writes no window, if there is no room for it: then ``unwritten`` says how
    many rows it may have. Or if the heap has too few slots: then a threshold is due.
    """
    front, above, room = ranking.front, now.above, len(target.rows.score)
    waiting = 0
    if above > 0:
        front[0] = 0
        waiting = 1
    first = row = target.rows.size[0]
    place, score, rank_by, k, turn = 0, 0.0, now.rank_by, now.k, now.turn
    while waiting > 0:
        at = front[0]
        slot = ranking.heap[at]
        if rank_by == ROW_NUMBER or row == first or ranking.score[slot] != score:
            place = place + 1 if rank_by == DENSE_RANK else row - first + 1
            if place > k:
                break
        if row == room:
            now.unwritten = above
            return False
        score = ranking.score[slot]
        target.rows.score[row] = score
        target.rows.seq[row] = turn * ranking.seq[slot]
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
    if rank_by == DENSE_RANK and place < k and above < now.ranked:
        return False
    if rank_by != ROW_NUMBER:
        now.written = row - first
    target.rows.size[0] = row
    target.upto[step] = row
    return True


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
