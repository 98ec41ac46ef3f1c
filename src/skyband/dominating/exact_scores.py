"""Points whose scores are kept up to date: an arrival or expiry is compared with all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.point_window import NONE, PointWindow, slot_of
from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, rank
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints

_CHUNK = 512
_PATIENCE = 8  # moves per point after which sorting anew is cheaper


class ExactScores(NamedTuple):
    """Points in no order, by place; coordinates by dimension so that many are compared at once.

    ``size``: points.
    """

    points: Floats  # dimension * room + place
    score: Ints
    seq: Ints
    no_worse: Ints  # scratch
    better: Ints  # scratch
    size: Ints


def exact_scores(room: int, width: int) -> ExactScores:
    """An empty list with room for ``room`` points."""
    room = max(room, 1)
    return ExactScores(
        np.zeros(room * width),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(_CHUNK, np.int64),
        np.zeros(_CHUNK, np.int64),
        np.zeros(1, np.int64),
    )


def roomier_scores(items: ExactScores, room: int, width: int) -> ExactScores:
    """The same points with room for at least ``room``."""
    before = len(items.seq)
    if room <= before:
        return items
    room = max(room, 2 * before)
    new = exact_scores(room, width)
    for at in range(width):
        new.points[at * room : at * room + before] = items.points[at * before : (at + 1) * before]
    new.score[:before], new.seq[:before] = items.score, items.seq
    new.size[0] = items.size[0]
    return new


@lean
def add_point(items: ExactScores, window: PointWindow, seq: int, score: int) -> int:
    """Add a point with its score; return its place."""
    room, width = len(items.seq), window.now[0].width
    place, slot = items.size[0], slot_of(window, seq)
    for at in range(width):
        items.points[at * room + place] = window.points[slot * width + at]
    items.score[place] = score
    items.seq[place] = seq
    items.size[0] = place + 1
    return place


@lean
def remove_point(items: ExactScores, place: int, width: int) -> int:
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
def update_scores(
    items: ExactScores, window: PointWindow, slot: int, change: int, work: Ints
) -> None:
    """Add ``change`` to the score of each of these points that dominates the one in a slot. O(m d).

    Written without branches, and dimension by dimension, so that many points are compared at once.
    """
    room, width = len(items.seq), window.now[0].width
    size = items.size[0]
    start = 0
    while start < size:
        count = min(_CHUNK, size - start)
        no_worse, better = items.no_worse[:count], items.better[:count]
        for at in range(width):
            value = window.points[slot * width + at]
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
            score[i] += change * (no_worse[i] & better[i])
        start += count
    work[COMPARISONS] += size * width


@lean
def outlived(items: ExactScores, window: PointWindow, seq: int, k: int, work: Ints) -> bool:
    """Whether k later ones of these points are no worse than a point: it is never an answer.

    Each of them outranks it while it lives: by what it dominates, or, if equal, by age. O(m d).
    """
    room, width = len(items.seq), window.now[0].width
    slot = slot_of(window, seq)
    start, no_worse_later = 0, 0
    while start < items.size[0] and no_worse_later < k:
        count = min(_CHUNK, items.size[0] - start)
        no_worse = items.no_worse[:count]
        seqs = items.seq[start : start + count]
        for i in range(len(seqs)):
            no_worse[i] = seqs[i] > seq
        for at in range(width):
            value = window.points[slot * width + at]
            column = items.points[at * room + start : at * room + start + count]
            for i in range(len(column)):
                no_worse[i] &= column[i] <= value
        for i in range(len(no_worse)):
            no_worse_later += no_worse[i]
        start += count
        work[COMPARISONS] += count * width
    return no_worse_later >= k


@lean
def rank_again(order: Ranked, items: ExactScores, place: Ints, window: PointWindow) -> None:
    """Bring a rank order of these points up to date, and drop those that have been removed.

    ``place`` gives the place by slot, or NONE. O(m) and a little more, as scores change by one at a
    time.
    """
    now = window.now[0]
    mask, oldest = now.slots - 1, now.oldest
    kept, patience = 0, _PATIENCE * order.size[0]
    for at in range(order.size[0]):
        seq = order.seq[at]
        at_place = place[seq & mask] if seq >= oldest else NONE
        if at_place == NONE or items.seq[at_place] != seq:
            continue
        score = float(items.score[at_place])
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
