"""Taking in objects, and TBUI: which units hold many objects that may still win.

A unit keeps its best objects. With TBUI (enhanced partitioning) the threshold carries over from
unit to unit: while the scores keep their level, a unit finds more than k objects above it without
settling a threshold of its own, which shows that the unit before it is no *k-unit*.

Reference: Zhu et al., TKDE 2017, section 4.3, Algorithm 2.

Deviations: a unit with fewer than k objects above the threshold (falling scores) is read once more
to find its k best; the paper's line 16 would record fewer than k objects for it. The unit before
one whose threshold had to be settled anew stays a k-unit, as the text says and Algorithm 2 does
not. The threshold carries over from one partition to the next.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import absorb, copy_run, keep_best, place_of, rank
from skyband.kernels.work import DELETIONS, INSERTIONS, RESCANNED, RESCANS, UNRANKED
from skyband.order import Floats
from skyband.topk.ring import Ring
from skyband.topk.sap.state import MIXED, RANKED, RISING, Current

_BLOCK = 64  # objects that are compared with the threshold at once


@lean
def gather(current: Current, scores: Floats, start: int, stop: int, base: int) -> None:
    """Look at ``scores[start:stop]`` and keep what reaches the unit's threshold.

    O(1) per object below the threshold, O(1) amortised per other, O(log) more per new leader.
    """
    unit, fresh, now = current.unit, current.fresh, current.now[0]
    most = now.most
    threshold = now.threshold
    bar = _bar(current)
    size = unit.size[0]
    last = unit.score[size - 1] if size > 0 else -np.inf
    falls = False  # whether a score was ever below the one before it
    # new leaders are put down from the back: if scores rise, they stand in rank order
    low = len(fresh.score)
    arriving, number = scores[start:stop], base + start
    for begin in range(0, len(arriving), _BLOCK):
        block = arriving[begin : begin + _BLOCK]
        if _all_below(block, threshold):
            continue
        for at in range(len(block)):  # from zero on: the compiler sees that no index is negative
            score = block[at]
            if not score < threshold:  # a NaN is neither below nor above
                if score != score:
                    current.work[UNRANKED] += 1
                    continue
                falls |= score < last
                last = score
                unit.score[size] = score
                unit.seq[size] = number + begin + at
                size += 1
                if score >= bar:
                    low -= 1
                    fresh.score[low] = score
                    fresh.seq[low] = number + begin + at
                    if low == 0:
                        _lead(current, low, falls)
                        low = len(fresh.score)
                        bar = _bar(current)
                if size == most:
                    unit.size[0] = size
                    if falls or now.unit_shape != RISING:
                        now.unit_shape = MIXED
                    _cut(current)
                    size = unit.size[0]
                    threshold = now.threshold
    if size != unit.size[0] and (falls or now.unit_shape != RISING):
        now.unit_shape = MIXED
    unit.size[0] = size
    if low < len(fresh.score):
        _lead(current, low, falls)


@lean
def _all_below(block: Floats, threshold: float) -> bool:
    """Whether every score is below the threshold, without a branch per score. O(size)."""
    below = 0
    for at in range(len(block)):
        below += 1 if block[at] < threshold else 0
    return below == len(block)


@lean
def _bar(current: Current) -> float:
    """The score of the worst leader, from which on a new object joins; NaN if there are none."""
    size = current.leaders.size[0]
    return current.leaders.score[size - 1] if size > 0 else np.nan


@lean
def _lead(current: Current, low: int, falls: bool) -> None:
    """Merge the fresh objects from ``low`` on, which beat the worst leader, into the leaders."""
    leaders, now = current.leaders, current.now[0]
    fresh = Ranked(current.fresh.score[low:], current.fresh.seq[low:], current.fresh.size)
    fresh.size[0] = len(fresh.score)
    if falls:
        rank(fresh)
    if place_of(leaders, fresh.score[0], fresh.seq[0]) < now.k:
        now.dirty = 1
    absorb(leaders, fresh, len(leaders.score))
    fresh.size[0] = 0


@lean
def _cut(current: Current) -> None:
    """Keep the best of the unit so far; the worst of them is the threshold from now on."""
    unit, now = current.unit, current.now[0]
    keep, size = now.keep, unit.size[0]
    if size < keep:
        return
    if now.unit_shape == RISING:
        copy_run(unit, size - keep, unit, 0, keep)  # rising scores: the last are the best
        unit.size[0] = keep
        now.threshold = unit.score[0]
    else:
        keep_best(unit, keep)
        lowest = unit.score[0]
        for at in range(1, keep):
            lowest = min(lowest, unit.score[at])
        now.threshold = lowest
    current.work[INSERTIONS] += size - keep
    current.work[DELETIONS] += size - keep


@lean
def put_in_order(current: Current) -> None:
    """Rank the unit's objects. O(size log size); O(size) if their scores rise or fall."""
    now = current.now[0]
    if now.unit_shape != RANKED:
        rank(current.unit)
        now.unit_shape = RANKED if current.unit.size[0] > 0 else RISING


@lean
def settle_anew(current: Current, raw: Ring) -> None:
    """Find the best objects of the current unit again, without a threshold from before."""
    now, unit = current.now[0], current.unit
    begin, stop = now.unit_from, raw.bounds[1]
    unit.size[0] = 0
    now.settling = 1
    now.unit_shape = MIXED
    now.threshold = -np.inf
    for seq in range(begin, stop):
        score = raw.score[seq & raw.mask[0]]
        if score >= now.threshold:
            size = unit.size[0]
            unit.score[size] = score
            unit.seq[size] = seq
            unit.size[0] = size + 1
            if size + 1 == now.most:
                _cut(current)
    put_in_order(current)
    current.leaders.size[0] = 0  # new candidates: the leaders are found again
    current.work[RESCANS] += 1
    current.work[RESCANNED] += stop - begin
