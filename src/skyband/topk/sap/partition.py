"""Where partitions end: equal units, or units merged while the rank test finds nothing special.

Reference: Zhu et al., TKDE 2017, section 4 (equal, dynamic and enhanced dynamic partitions), the
merge-refine of section 3.1, and Appendix A (time windows).

Deviations: in time windows the sizes of units and partitions follow the objects alive when a unit
begins; Appendix A puts times into a formula with k in it.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, copy_best, copy_run, merge_best
from skyband.kernels.work import DELETIONS, EVENTS, INSERTIONS
from skyband.topk.sap.rank_test import tends_larger
from skyband.topk.sap.state import (
    ENHANCED,
    EQUAL,
    RISING,
    ROOM_BEST,
    ROOM_LISTS,
    ROOM_PARTITIONS,
    ROOM_UNITS,
    State,
    row_of,
)
from skyband.topk.sap.units import put_in_order, settle_anew


@lean
def lacks_room_to_close(state: State) -> int:
    """What is missing to end a unit and two partitions: a ROOM_* code, 0 if nothing."""
    now = state.current.now[0]
    if state.best.size[0] + 2 * now.k > len(state.best.score):
        return ROOM_BEST
    if now.tail - now.head + 2 > len(state.partitions):
        return ROOM_PARTITIONS
    if _records(state):
        if now.units_tail - now.units_head == len(state.units):
            return ROOM_UNITS
        if now.free_list < 0:
            return ROOM_LISTS
    return 0


@lean
def close_unit(state: State) -> None:
    """End the current unit; merge it into the current partition, or end that one before it.

    O(k + eta k) besides the occasional second look at a unit and the merge of a partition.
    """
    now, unit, part = state.current.now[0], state.current.unit, state.part
    end = state.raw.bounds[1]
    begin = now.unit_from
    if begin == end:
        return
    settled = now.settling == 0
    fell = settled and unit.size[0] < now.k
    if fell:
        settle_anew(state.current, state.raw)
    put_in_order(state.current)
    state.current.work[INSERTIONS] += unit.size[0]
    if now.settling and unit.size[0] >= now.keep:
        unit.size[0] = now.keep
        now.threshold = unit.score[now.keep - 1]
    recorded = _records(state)
    if recorded:
        _record(state, begin, end, settled and not fell)
    k = now.k
    if now.part_from == begin:
        copy_best(unit, k, part)
    elif _belongs(state, end):
        merge_best(part, unit, k, state.buffer)
        copy_best(state.buffer, k, part)
    else:
        finish(state, begin, now.units_tail - (1 if recorded else 0))
        copy_best(unit, k, part)
    if now.mode == EQUAL:
        finish(state, end, now.units_tail)
    _next_unit(state, end, fell)


@lean
def close_all(state: State) -> None:
    """End the current unit and the current partition, however small."""
    close_unit(state)
    now, end = state.current.now[0], state.raw.bounds[1]
    if now.part_from < end:
        finish(state, end, now.units_tail)


@lean
def _records(state: State) -> bool:
    """Whether units are recorded: enhanced partitions with S-AVL."""
    now = state.current.now[0]
    return now.mode == ENHANCED and now.use_savl == 1


@lean
def _next_unit(state: State, end: int, fell: bool) -> None:
    now, unit = state.current.now[0], state.current.unit
    level = now.settling == 0 or unit.size[0] >= now.keep
    if now.mode == ENHANCED and level and not fell:
        now.settling = 0  # the threshold has shown itself: it serves the next unit too
        now.safe_from = now.unit_from
    else:
        now.settling = 1
        now.threshold = -np.inf
    unit.size[0] = 0
    now.unit_shape = RISING
    now.unit_from = end
    if not now.counted:
        alive = end - state.raw.bounds[0]
        arriving = alive * (now.slide / now.window_size)
        now.unit_length = max(int(math.sqrt(alive * max(arriving, now.k))), 1)
        now.longest = int(alive / (1.0 + now.rivals / now.k))


@lean
def _belongs(state: State, end: int) -> bool:
    """Whether the current partition with its new unit is a proper one: not too long, not special.

    The k best of both are compared with the best candidates that arrived before them, within a
    window less their own length: they stand for what will arrive after them.
    """
    now = state.current.now[0]
    length = end - now.part_from
    if length > now.longest:
        return False
    rival, ours = state.current.fresh, state.buffer  # both empty between steps
    window = now.window_size if now.counted else end - state.raw.bounds[0]
    _interval(state, end - window + length, rival)
    merge_best(state.part, state.current.unit, now.k, ours)
    i, j = 0, 0
    rank_sum = 0
    total = ours.size[0] + rival.size[0]
    for place in range(total):
        if j == rival.size[0] or (
            i < ours.size[0] and better(ours.score[i], ours.seq[i], rival.score[j], rival.seq[j])
        ):
            rank_sum += total - place
            i += 1
        else:
            j += 1
    special = tends_larger(rank_sum, i, j, state.critical)
    rival.size[0] = 0
    ours.size[0] = 0
    return not special


@lean
def _interval(state: State, bound: int, target: Ranked) -> None:
    """The best eta * k candidates of finished partitions numbered ``bound`` or above."""
    one, two = state.best, state.front
    i, j, size = 0, 0, 0
    while size < state.current.now[0].rivals:
        while i < one.size[0] and one.seq[i] < bound:
            i += 1
        while j < two.size[0] and two.seq[j] < bound:
            j += 1
        if i < one.size[0] and (
            j == two.size[0] or better(one.score[i], one.seq[i], two.score[j], two.seq[j])
        ):
            target.score[size] = one.score[i]
            target.seq[size] = one.seq[i]
            i += 1
        elif j < two.size[0]:
            target.score[size] = two.score[j]
            target.seq[size] = two.seq[j]
            j += 1
        else:
            break
        size += 1
    target.size[0] = size


@lean
def finish(state: State, end: int, units_upto: int) -> None:
    """End the current partition: its k best become candidates, and drop who they dominate.

    One pass over candidates and newcomers, worst first, in place: a candidate is dominated by every
    newcomer that ranks before it. O(|C| + k).
    """
    now, best, dominators, part = state.current.now[0], state.best, state.dominators, state.part
    i, j = best.size[0], part.size[0]
    newcomers = j
    total = i + j
    at = total
    while j > 0:
        at -= 1
        if i == 0 or better(best.score[i - 1], best.seq[i - 1], part.score[j - 1], part.seq[j - 1]):
            j -= 1
            best.score[at] = part.score[j]
            best.seq[at] = part.seq[j]
            dominators[at] = 0
            continue
        i -= 1
        count = dominators[i] + j
        if count < now.k:
            best.score[at] = best.score[i]
            best.seq[at] = best.seq[i]
            dominators[at] = count
        else:
            at += 1
    if at > i:  # close the gap that the dropped ones left
        for source in range(at, total):
            best.score[i] = best.score[source]
            best.seq[i] = best.seq[source]
            dominators[i] = dominators[source]
            i += 1
        best.size[0] = i
    else:
        best.size[0] = total
    state.current.work[DELETIONS] += total - best.size[0]
    state.current.work[EVENTS] += 1
    partition = state.partitions[row_of(now.tail, state.partitions)]
    partition.begin = now.part_from
    partition.end = end
    partition.candidates = newcomers
    partition.units_from = now.part_units
    partition.units_upto = units_upto
    partition.list_from = -1
    partition.list_upto = -1
    now.tail += 1
    part.size[0] = 0
    now.part_from = end
    now.part_units = units_upto


@lean
def _record(state: State, begin: int, end: int, level: bool) -> None:
    """Note the unit and its best objects; if it is level, the unit before it is no k-unit."""
    now, lists, unit = state.current.now[0], state.lists, state.current.unit
    previous = now.units_tail - 1
    if level and previous >= now.part_units:
        forget_list(state, previous)
    place = now.free_list
    now.free_list = lists.seq[place]
    recorded = state.units[row_of(now.units_tail, state.units)]
    listed = unit.size[0]
    copy_run(unit, 0, lists, place, listed)
    recorded.begin = begin
    recorded.end = end
    recorded.place = place
    recorded.listed = listed
    recorded.best = unit.score[0] if listed > 0 else -np.inf
    now.units_tail += 1


@lean
def forget_list(state: State, index: int) -> None:
    """Free a unit's list: it is no k-unit, or it has expired."""
    now, recorded = state.current.now[0], state.units[row_of(index, state.units)]
    place = recorded.place
    if place >= 0:
        state.lists.seq[place] = now.free_list
        now.free_list = place
        recorded.place = -1
