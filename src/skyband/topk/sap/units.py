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

from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, absorb, copy_run, keep_best, place_of, rank
from skyband.kernels.work import DELETIONS, INSERTIONS, RESCANNED, RESCANS, UNRANKED
from skyband.order import Floats
from skyband.topk.ring import Ring
from skyband.topk.sap.state import (
    DIRTY,
    KEEP,
    MIXED,
    MOST,
    RANKED,
    RISING,
    SETTLING,
    UNIT_FROM,
    UNIT_SHAPE,
    K,
    Now,
)


@lean
def gather(now: Now, scores: Floats, start: int, stop: int, base: int) -> None:
    """Look at ``scores[start:stop]`` and keep what reaches the unit's threshold.

    O(1) per object below the threshold, O(1) amortised per other, O(log) more per new leader.
    """
    unit, fresh, numbers = now.unit, now.fresh, now.numbers
    most = numbers[MOST]
    threshold = now.threshold[0]
    bar = _bar(now)
    held = unit.size[0]
    last = unit.score[held - 1] if held > 0 else -np.inf
    falls = False  # whether a score was ever below the one before it
    # new leaders are put down from the back: if scores rise, they stand in rank order
    low = len(fresh.score)
    arriving = scores[start:stop]
    for at in range(len(arriving)):  # from zero on: the compiler sees that no index is negative
        score = arriving[at]
        if not score < threshold:  # a NaN is neither below nor above
            if score != score:
                now.work[UNRANKED] += 1
                continue
            falls |= score < last
            last = score
            unit.score[held] = score
            unit.seq[held] = base + start + at
            held += 1
            if score >= bar:
                low -= 1
                fresh.score[low] = score
                fresh.seq[low] = base + start + at
                if low == 0:
                    _lead(now, low, falls)
                    low = len(fresh.score)
                    bar = _bar(now)
            if held == most:
                unit.size[0] = held
                if falls or numbers[UNIT_SHAPE] != RISING:
                    numbers[UNIT_SHAPE] = MIXED
                _cut(now)
                held = unit.size[0]
                threshold = now.threshold[0]
    if held != unit.size[0] and (falls or numbers[UNIT_SHAPE] != RISING):
        numbers[UNIT_SHAPE] = MIXED
    unit.size[0] = held
    if low < len(fresh.score):
        _lead(now, low, falls)


@lean
def _bar(now: Now) -> float:
    """The score from which on a new object joins the leaders; NaN, so that none does, at first."""
    size = now.leaders.size[0]
    return now.leaders.score[size - 1] if size > 0 else np.nan


@lean
def _lead(now: Now, low: int, falls: bool) -> None:
    """Merge the fresh objects from ``low`` on, which beat the worst leader, into the leaders."""
    leaders, numbers = now.leaders, now.numbers
    fresh = Ranked(now.fresh.score[low:], now.fresh.seq[low:], now.fresh.size)
    fresh.size[0] = len(fresh.score)
    if falls:
        rank(fresh)
    if place_of(leaders, fresh.score[0], fresh.seq[0]) < numbers[K]:
        numbers[DIRTY] = 1
    absorb(leaders, fresh, len(leaders.score))
    fresh.size[0] = 0


@lean
def _cut(now: Now) -> None:
    """Keep the best of the unit so far; the worst of them is the threshold from now on."""
    unit, numbers = now.unit, now.numbers
    keep, size = numbers[KEEP], unit.size[0]
    if size < keep:
        return
    if numbers[UNIT_SHAPE] == RISING:
        copy_run(unit, size - keep, unit, 0, keep)  # rising scores: the last are the best
        unit.size[0] = keep
        now.threshold[0] = unit.score[0]
    else:
        keep_best(unit, keep)
        lowest = unit.score[0]
        for at in range(1, keep):
            lowest = min(lowest, unit.score[at])
        now.threshold[0] = lowest
    now.work[INSERTIONS] += size - keep
    now.work[DELETIONS] += size - keep


@lean
def put_in_order(now: Now) -> None:
    """Rank the unit's objects. O(size log size); O(size) if their scores rise or fall."""
    if now.numbers[UNIT_SHAPE] != RANKED:
        rank(now.unit)
        now.numbers[UNIT_SHAPE] = RANKED if now.unit.size[0] > 0 else RISING


@lean
def settle_anew(now: Now, raw: Ring) -> None:
    """Find the best objects of the current unit again, without a threshold from before."""
    numbers, unit = now.numbers, now.unit
    begin, stop = numbers[UNIT_FROM], raw.bounds[1]
    unit.size[0] = 0
    numbers[SETTLING] = 1
    numbers[UNIT_SHAPE] = MIXED
    now.threshold[0] = -np.inf
    for seq in range(begin, stop):
        score = raw.score[seq & raw.mask[0]]
        if score >= now.threshold[0]:
            size = unit.size[0]
            unit.score[size] = score
            unit.seq[size] = seq
            unit.size[0] = size + 1
            if size + 1 == numbers[MOST]:
                _cut(now)
    put_in_order(now)
    now.leaders.size[0] = 0  # new candidates: the leaders are found again
    now.work[RESCANS] += 1
    now.work[RESCANNED] += stop - begin
