"""Where partitions end: equal units, or units merged while the rank test finds nothing special.

Reference: Zhu et al., TKDE 2017, section 4 (equal, dynamic and enhanced dynamic partitions), the
merge-refine of section 3.1, and Appendix A (time windows).

Deviations: in time windows the sizes of units and partitions follow the objects alive when a unit
begins; Appendix A puts times into a formula with k in it.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, copy_best, copy_run, merge_best
from skyband.kernels.work import DELETIONS, EVENTS, INSERTIONS
from skyband.topk.sap.rank_test import tends_larger
from skyband.topk.sap.state import (
    BEGIN,
    COUNTED,
    END,
    ENHANCED,
    EQUAL,
    FREE_LIST,
    HEAD,
    KEEP,
    KEPT,
    LIST_FROM,
    LIST_UPTO,
    LISTED,
    LONGEST,
    MANY,
    MODE,
    PART_FROM,
    PART_UNITS,
    PLACE,
    RISING,
    ROOM_BEST,
    ROOM_LISTS,
    ROOM_TABLE,
    ROOM_UNITS,
    SAFE_FROM,
    SAVL,
    SETTLING,
    SIZE,
    SLIDE,
    TAIL,
    UNIT,
    UNIT_FROM,
    UNIT_SHAPE,
    UNITS_FROM,
    UNITS_HEAD,
    UNITS_TAIL,
    UNITS_UPTO,
    K,
    State,
    row_of,
)
from skyband.topk.sap.units import put_in_order, settle_anew


@lean
def lacks_room_to_close(state: State) -> int:
    """What is missing to end a unit and two partitions: a ROOM_* code, 0 if nothing."""
    numbers = state.now.numbers
    if state.best.size[0] + 2 * numbers[K] > len(state.best.score):
        return ROOM_BEST
    if numbers[TAIL] - numbers[HEAD] + 2 > len(state.table):
        return ROOM_TABLE
    if _records(state):
        if numbers[UNITS_TAIL] - numbers[UNITS_HEAD] == len(state.units):
            return ROOM_UNITS
        if numbers[FREE_LIST] < 0:
            return ROOM_LISTS
    return 0


@lean
def close_unit(state: State) -> None:
    """End the current unit; merge it into the current partition, or end that one before it.

    O(k + eta k) besides the occasional second look at a unit and the merge of a partition.
    """
    numbers, unit, part = state.now.numbers, state.now.unit, state.part
    end = state.raw.bounds[1]
    begin = numbers[UNIT_FROM]
    if begin == end:
        return
    settled = numbers[SETTLING] == 0
    fell = settled and unit.size[0] < numbers[K]
    if fell:
        settle_anew(state.now, state.raw)
    put_in_order(state.now)
    state.now.work[INSERTIONS] += unit.size[0]
    if numbers[SETTLING] and unit.size[0] >= numbers[KEEP]:
        unit.size[0] = numbers[KEEP]
        state.now.threshold[0] = unit.score[numbers[KEEP] - 1]
    recorded = _records(state)
    if recorded:
        _record(state, begin, end, settled and not fell)
    k = numbers[K]
    if numbers[PART_FROM] == begin:
        copy_best(unit, k, part)
    elif _belongs(state, end):
        merge_best(part, unit, k, state.buffer)
        copy_best(state.buffer, k, part)
    else:
        finish(state, begin, numbers[UNITS_TAIL] - (1 if recorded else 0))
        copy_best(unit, k, part)
    if numbers[MODE] == EQUAL:
        finish(state, end, numbers[UNITS_TAIL])
    _next_unit(state, end, fell)


@lean
def close_all(state: State) -> None:
    """End the current unit and the current partition, however small."""
    close_unit(state)
    end = state.raw.bounds[1]
    if state.now.numbers[PART_FROM] < end:
        finish(state, end, state.now.numbers[UNITS_TAIL])


@lean
def _records(state: State) -> bool:
    """Whether units are recorded: enhanced partitions with S-AVL."""
    return state.now.numbers[MODE] == ENHANCED and state.now.numbers[SAVL] == 1


@lean
def _next_unit(state: State, end: int, fell: bool) -> None:
    numbers, unit = state.now.numbers, state.now.unit
    level = numbers[SETTLING] == 0 or unit.size[0] >= numbers[KEEP]
    if numbers[MODE] == ENHANCED and level and not fell:
        numbers[SETTLING] = 0  # the threshold has shown itself: it serves the next unit too
        numbers[SAFE_FROM] = numbers[UNIT_FROM]
    else:
        numbers[SETTLING] = 1
        state.now.threshold[0] = -np.inf
    unit.size[0] = 0
    numbers[UNIT_SHAPE] = RISING
    numbers[UNIT_FROM] = end
    if not numbers[COUNTED]:
        alive = end - state.raw.bounds[0]
        arriving = alive * (numbers[SLIDE] / numbers[SIZE])
        numbers[UNIT] = max(int(math.sqrt(alive * max(arriving, numbers[K]))), 1)
        numbers[LONGEST] = int(alive / (1.0 + numbers[MANY] / numbers[K]))


@lean
def _belongs(state: State, end: int) -> bool:
    """Whether the current partition with its new unit is a proper one: not too long, not special.

    The k best of both are compared with the best candidates that arrived before them, within a
    window less their own length: they stand for what will arrive after them.
    """
    numbers = state.now.numbers
    length = end - numbers[PART_FROM]
    if length > numbers[LONGEST]:
        return False
    rival, ours = state.now.fresh, state.buffer  # both empty between steps
    window = numbers[SIZE] if numbers[COUNTED] else end - state.raw.bounds[0]
    _interval(state, end - window + length, rival)
    merge_best(state.part, state.now.unit, numbers[K], ours)
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
    while size < state.now.numbers[MANY]:
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
    numbers, best, dominators, part = state.now.numbers, state.best, state.dominators, state.part
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
        if count < numbers[K]:
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
    state.now.work[DELETIONS] += total - best.size[0]
    state.now.work[EVENTS] += 1
    row = row_of(numbers[TAIL], state.table)
    state.table[row, BEGIN] = numbers[PART_FROM]
    state.table[row, END] = end
    state.table[row, KEPT] = newcomers
    state.table[row, UNITS_FROM] = numbers[PART_UNITS]
    state.table[row, UNITS_UPTO] = units_upto
    state.table[row, LIST_FROM] = -1
    state.table[row, LIST_UPTO] = -1
    numbers[TAIL] += 1
    part.size[0] = 0
    numbers[PART_FROM] = end
    numbers[PART_UNITS] = units_upto


@lean
def _record(state: State, begin: int, end: int, level: bool) -> None:
    """Note the unit and its best objects; if it is level, the unit before it is no k-unit."""
    numbers, lists, unit = state.now.numbers, state.lists, state.now.unit
    previous = numbers[UNITS_TAIL] - 1
    if level and previous >= numbers[PART_UNITS]:
        forget_list(state, previous)
    place = numbers[FREE_LIST]
    numbers[FREE_LIST] = lists.seq[place]
    row = row_of(numbers[UNITS_TAIL], state.units)
    listed = unit.size[0]
    copy_run(unit, 0, lists, place, listed)
    state.units[row, BEGIN] = begin
    state.units[row, END] = end
    state.units[row, PLACE] = place
    state.units[row, LISTED] = listed
    state.unit_best[row] = unit.score[0] if listed > 0 else -np.inf
    numbers[UNITS_TAIL] += 1


@lean
def forget_list(state: State, index: int) -> None:
    """Free a unit's list: it is no k-unit, or it has expired."""
    row = row_of(index, state.units)
    place = state.units[row, PLACE]
    if place >= 0:
        state.lists.seq[place] = state.now.numbers[FREE_LIST]
        state.now.numbers[FREE_LIST] = place
        state.units[row, PLACE] = -1
