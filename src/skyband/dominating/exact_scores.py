"""Points whose scores are kept up to date: an arrival or expiry is compared with all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.point_window import NONE, OLDEST, SLOTS, WIDTH, Field, slot_of
from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, rank
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints

_CHUNK = 512
_PATIENCE = 8  # moves per point after which sorting anew is cheaper


class Tracked(NamedTuple):
    """Points in no order, by place; coordinates by dimension so that many are compared at once.

    ``size``: points.
    """

    points: Floats  # dimension * room + place
    score: Ints
    seq: Ints
    no_worse: Ints  # scratch
    better: Ints  # scratch
    size: Ints


def tracked(room: int, width: int) -> Tracked:
    """An empty list with room for ``room`` points."""
    room = max(room, 1)
    return Tracked(
        np.zeros(room * width),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(_CHUNK, np.int64),
        np.zeros(_CHUNK, np.int64),
        np.zeros(1, np.int64),
    )


def roomier_tracked(items: Tracked, room: int, width: int) -> Tracked:
    """The same points with room for at least ``room``."""
    held = len(items.seq)
    if room <= held:
        return items
    room = max(room, 2 * held)
    new = tracked(room, width)
    for at in range(width):
        new.points[at * room : at * room + held] = items.points[at * held : (at + 1) * held]
    new.score[:held], new.seq[:held] = items.score, items.seq
    new.size[0] = items.size[0]
    return new


@lean
def track(items: Tracked, held: Field, seq: int, score: int) -> int:
    """Add a point with its score; return its place."""
    room, width = len(items.seq), held.numbers[WIDTH]
    place, slot = items.size[0], slot_of(held, seq)
    for at in range(width):
        items.points[at * room + place] = held.points[slot * width + at]
    items.score[place] = score
    items.seq[place] = seq
    items.size[0] = place + 1
    return place


@lean
def untrack(items: Tracked, place: int, width: int) -> int:
    """Remove a point; return the sequence number of the one that took its place, or NONE."""
    room = len(items.seq)
    last = items.size[0] - 1
    items.size[0] = last
    if place == last:
        return NONE
    for at in range(width):
        items.points[at * room + place] = items.points[at * room + last]
    items.score[place] = items.score[last]
    items.seq[place] = items.seq[last]
    return items.seq[place]


@lean
def credit(items: Tracked, held: Field, slot: int, amount: int, work: Ints) -> None:
    """Add ``amount`` to the score of every tracked point that dominates the one in a slot. O(m d).

    Written without branches, and dimension by dimension, so that many points are compared at once.
    """
    room, width = len(items.seq), held.numbers[WIDTH]
    size = items.size[0]
    start = 0
    while start < size:
        count = min(_CHUNK, size - start)
        no_worse, better = items.no_worse[:count], items.better[:count]
        for at in range(width):
            value = held.points[slot * width + at]
            column = items.points[at * room + start : at * room + start + count]
            if at == 0:
                for i in range(len(column)):
                    no_worse[i] = column[i] <= value
                    better[i] = column[i] < value
            else:
                for i in range(len(column)):
                    no_worse[i] &= column[i] <= value
                    better[i] |= column[i] < value
        score = items.score[start : start + count]
        for i in range(len(score)):
            score[i] += amount * (no_worse[i] & better[i])
        start += count
    work[COMPARISONS] += size * width


@lean
def outlived(items: Tracked, held: Field, seq: int, k: int, work: Ints) -> bool:
    """Whether k later points among those tracked are no worse than this one: it is never an answer.

    Each of them outranks it while it lives: by what it dominates, or, if equal, by age. O(m d).
    """
    room, width = len(items.seq), held.numbers[WIDTH]
    slot = slot_of(held, seq)
    start, found = 0, 0
    while start < items.size[0] and found < k:
        count = min(_CHUNK, items.size[0] - start)
        no_worse = items.no_worse[:count]
        seqs = items.seq[start : start + count]
        for i in range(len(seqs)):
            no_worse[i] = seqs[i] > seq
        for at in range(width):
            value = held.points[slot * width + at]
            column = items.points[at * room + start : at * room + start + count]
            for i in range(len(column)):
                no_worse[i] &= column[i] <= value
        for i in range(len(no_worse)):
            found += no_worse[i]
        start += count
        work[COMPARISONS] += count * width
    return found >= k


@lean
def rank_again(order: Ranked, items: Tracked, place: Ints, held: Field) -> None:
    """Bring a rank order of tracked points up to date, and forget those not tracked any more.

    ``place`` gives the place by slot, or NONE. O(m) and a little more, as scores change by one at a
    time.
    """
    mask, oldest = held.numbers[SLOTS] - 1, held.numbers[OLDEST]
    kept, patience = 0, _PATIENCE * order.size[0]
    for at in range(order.size[0]):
        seq = order.seq[at]
        found = place[seq & mask] if seq >= oldest else NONE
        if found == NONE or items.seq[found] != seq:
            continue
        score = float(items.score[found])
        to = kept
        while (
            patience > 0 and to > 0 and better(score, seq, order.score[to - 1], order.seq[to - 1])
        ):
            order.score[to] = order.score[to - 1]
            order.seq[to] = order.seq[to - 1]
            to -= 1
            patience -= 1
        order.score[to] = score
        order.seq[to] = seq
        kept += 1
    order.size[0] = kept
    if patience == 0:
        rank(order)
