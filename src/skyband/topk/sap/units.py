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
from skyband.kernels.ranked import absorb, place_of, rank
from skyband.kernels.ring import Ring
from skyband.kernels.work import DELETIONS, INSERTIONS, RESCANNED, RESCANS
from skyband.order import Floats
from skyband.topk.sap.state import DIRTY, K, KEEP, MOST, SETTLING, UNIT_FROM, Now


@lean
def gather(now: Now, scores: Floats, start: int, stop: int, base: int) -> None:
    """Look at ``scores[start:stop]`` and keep what reaches the unit's threshold.

    O(1) per object below the threshold, O(log) amortised per other.
    """
    fresh, most = now.fresh, now.numbers[MOST]
    threshold = now.threshold[0]
    held = 0
    arriving = scores[start:stop]
    for at in range(len(arriving)):  # from zero on: the compiler sees that no index is negative
        score = arriving[at]
        if score >= threshold:
            fresh.score[held] = score
            fresh.seq[held] = base + start + at
            held += 1
            if held == most:
                fresh.size[0] = held
                settle(now, True)
                held = 0
                threshold = now.threshold[0]
    fresh.size[0] = held
    if held > 0:
        settle(now, True)


@lean
def settle(now: Now, show: bool) -> None:
    """Merge the fresh objects into the unit's best, and into the leaders if ``show``."""
    fresh, unit, leaders, numbers = now.fresh, now.unit, now.leaders, now.numbers
    rank(fresh)
    size = fresh.size[0]
    last = leaders.size[0] - 1
    if show and last >= 0:
        # the leaders are all candidates better than their worst: only such objects belong there
        entering = place_of(fresh, leaders.score[last], leaders.seq[last])
        if entering > 0:
            if place_of(leaders, fresh.score[0], fresh.seq[0]) < numbers[K]:
                numbers[DIRTY] = 1
            fresh.size[0] = entering
            absorb(leaders, fresh, len(leaders.score))
            fresh.size[0] = size
    before = unit.size[0]
    now.work[INSERTIONS] += absorb(unit, fresh, numbers[MOST])
    fresh.size[0] = 0
    keep = numbers[KEEP]
    if unit.size[0] >= (keep if numbers[SETTLING] else numbers[MOST]):
        unit.size[0] = keep
        now.threshold[0] = unit.score[keep - 1]
    now.work[DELETIONS] += max(before + size - unit.size[0], 0)


@lean
def settle_anew(now: Now, raw: Ring) -> None:
    """Find the best objects of the current unit again, without a threshold from before."""
    numbers, fresh = now.numbers, now.fresh
    begin, stop = numbers[UNIT_FROM], raw.bounds[1]
    now.unit.size[0] = 0
    fresh.size[0] = 0
    numbers[SETTLING] = 1
    now.threshold[0] = -np.inf
    held = 0
    for seq in range(begin, stop):
        score = raw.score[seq & raw.mask[0]]
        if score >= now.threshold[0]:
            fresh.score[held] = score
            fresh.seq[held] = seq
            held += 1
            if held == numbers[MOST]:
                fresh.size[0] = held
                settle(now, False)
                held = 0
    fresh.size[0] = held
    settle(now, False)
    now.leaders.size[0] = 0  # new candidates: the leaders are found again
    now.work[RESCANS] += 1
    now.work[RESCANNED] += stop - begin
