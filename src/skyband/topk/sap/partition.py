"""Where partitions end: equal units, or units merged while the rank test finds nothing special.

Reference: Zhu et al., TKDE 2017, section 4 (equal, dynamic and enhanced dynamic partitions), and
the merge-refine of section 3.1.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.ranked import Ranked, better, copy_best, merge_best
from skyband.kernels.ranktest import tends_larger
from skyband.kernels.work import DELETIONS, EVENTS
from skyband.topk.sap.meaningful import form_list
from skyband.topk.sap.state import (
    BEGIN,
    COUNTED,
    DELAY,
    END,
    ENHANCED,
    EQUAL,
    FREE_LIST,
    HEAD,
    K,
    KEEP,
    KEPT,
    LIST_FROM,
    LIST_UPTO,
    LISTED,
    LONGEST,
    MANY,
    MODE,
    MOST,
    PART_FROM,
    PART_UNITS,
    PLACE,
    SAFE_FROM,
    SAVL,
    SETTLING,
    SIZE,
    SLIDE,
    TAIL,
    UNIT,
    UNIT_FROM,
    UNITS_FROM,
    UNITS_HEAD,
    UNITS_TAIL,
    UNITS_UPTO,
    State,
    row_of,
    with_best,
    with_table,
    with_units,
)
from skyband.topk.sap.units import settle_anew


@jit
def unit_is_full(state: State) -> bool:
    """Whether the current unit has its objects."""
    numbers = state.numbers
    return state.raw.bounds[1] - numbers[UNIT_FROM] >= numbers[UNIT]


@jit
def close_unit(state: State) -> State:
    """End the current unit; merge it into the current partition, or end that one before it.

    O(k + eta k) besides the occasional second look at a unit and the merge of a partition.
    """
    numbers, unit, part = state.numbers, state.unit, state.part
    end = state.raw.bounds[1]
    begin = numbers[UNIT_FROM]
    if begin == end:
        return state
    settled = numbers[SETTLING] == 0
    fell = settled and unit.size[0] < numbers[K]
    if fell:
        settle_anew(state, end)
    state = _record(state, begin, end, settled and not fell)
    k = numbers[K]
    if numbers[PART_FROM] == begin:
        copy_best(unit, k, part)
    elif _belongs(state, end):
        merge_best(part, unit, k, state.buffer)
        copy_best(state.buffer, k, part)
    else:
        state = finish(state, begin, numbers[UNITS_TAIL] - _records(state))
        copy_best(unit, k, state.part)
    if numbers[MODE] == EQUAL:
        state = finish(state, end, numbers[UNITS_TAIL])
    _next_unit(state, end, fell)
    return state


@jit
def close_all(state: State) -> State:
    """End the current unit and the current partition, however small."""
    state = close_unit(state)
    end = state.raw.bounds[1]
    if state.numbers[PART_FROM] < end:
        state = finish(state, end, state.numbers[UNITS_TAIL])
    return state


@jit
def _records(state: State) -> int:
    """1 if units are recorded (enhanced partitions with S-AVL), else 0."""
    return 1 if state.numbers[MODE] == ENHANCED and state.numbers[SAVL] else 0


@jit
def _next_unit(state: State, end: int, fell: bool) -> None:
    numbers, unit = state.numbers, state.unit
    if numbers[MODE] == ENHANCED and not fell and unit.size[0] >= numbers[KEEP]:
        numbers[SETTLING] = 0  # the threshold has shown itself: keep it
        numbers[SAFE_FROM] = numbers[UNIT_FROM]
    elif numbers[MODE] == ENHANCED and numbers[SETTLING] == 0:
        numbers[SAFE_FROM] = numbers[UNIT_FROM]
    else:
        numbers[SETTLING] = 1
        state.threshold[0] = -np.inf
    unit.size[0] = 0
    numbers[UNIT_FROM] = end
    if not numbers[COUNTED]:
        alive = end - state.raw.bounds[0]
        arriving = alive * (numbers[SLIDE] / numbers[SIZE])
        numbers[UNIT] = max(np.int64(math.sqrt(alive * max(arriving, numbers[K]))), 1)
        numbers[LONGEST] = np.int64(alive / (1.0 + numbers[MANY] / numbers[K]))


@jit
def _belongs(state: State, end: int) -> bool:
    """Whether the current partition with its new unit is a proper one: not too long, not special.

    The k best of both are compared with the best candidates that arrived before them, within a
    window less their own length: they stand for what will arrive after them.
    """
    numbers = state.numbers
    length = end - numbers[PART_FROM]
    if length > numbers[LONGEST]:
        return False
    rival = state.fresh  # empty between steps
    bound = end + length
    if numbers[COUNTED]:
        bound -= numbers[SIZE]
    else:
        bound -= end - state.raw.bounds[0]
    _interval(state, bound, rival)
    merge_best(state.part, state.unit, numbers[K], state.buffer)
    ours, theirs = state.buffer.size[0], rival.size[0]
    i, j = 0, 0
    rank_sum = 0
    for place in range(ours + theirs):
        if j == theirs or (
            i < ours
            and better(state.buffer.score[i], state.buffer.seq[i], rival.score[j], rival.seq[j])
        ):
            rank_sum += ours + theirs - place
            i += 1
        else:
            j += 1
    rival.size[0] = 0
    return not tends_larger(rank_sum, ours, theirs, state.critical)


@jit
def _interval(state: State, bound: int, target: Ranked) -> None:
    """The best eta * k candidates of finished partitions numbered ``bound`` or above."""
    one, two = state.best, state.front
    i, j, size = 0, 0, 0
    while size < state.numbers[MANY]:
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


@jit
def finish(state: State, end: int, units_upto: int) -> State:
    """End the current partition: its k best become candidates, and drop who they dominate.

    One pass over candidates and newcomers, best first: a candidate is dominated by every newcomer
    that ranks before it. O(|C| + k).
    """
    numbers, old, part = state.numbers, state.best, state.part
    k = numbers[K]
    size, more = old.size[0], part.size[0]
    score = np.zeros(size + more + k)
    seq = np.zeros(size + more + k, np.int64)
    dominators = np.zeros(size + more + k, np.int64)
    i, j, at = 0, 0, 0
    while i < size or j < more:
        if j < more and (
            i == size or better(part.score[j], part.seq[j], old.score[i], old.seq[i])
        ):
            score[at] = part.score[j]
            seq[at] = part.seq[j]
            dominators[at] = 0
            at += 1
            j += 1
        else:
            count = state.dominators[i] + j
            if count < k:
                score[at] = old.score[i]
                seq[at] = old.seq[i]
                dominators[at] = count
                at += 1
            i += 1
    state.work[DELETIONS] += size + more - at
    state.work[EVENTS] += 1
    old.size[0] = at
    state = with_best(state, Ranked(score, seq, old.size), dominators)
    state = _entered(state, end, more, units_upto)
    part.size[0] = 0
    numbers[PART_FROM] = end
    numbers[PART_UNITS] = units_upto
    return state


@jit
def _entered(state: State, end: int, kept: int, units_upto: int) -> State:
    """Add the current partition to the table of finished ones."""
    numbers = state.numbers
    if numbers[TAIL] - numbers[HEAD] == len(state.table):
        table = np.zeros((2 * len(state.table), state.table.shape[1]), np.int64)
        for index in range(numbers[HEAD], numbers[TAIL]):
            table[row_of(index, table)] = state.table[row_of(index, state.table)]
        state = with_table(state, table)
    row = row_of(numbers[TAIL], state.table)
    state.table[row, BEGIN] = numbers[PART_FROM]
    state.table[row, END] = end
    state.table[row, KEPT] = kept
    state.table[row, UNITS_FROM] = numbers[PART_UNITS]
    state.table[row, UNITS_UPTO] = units_upto
    state.table[row, LIST_FROM] = state.meaningful.size[0]
    state.table[row, LIST_UPTO] = state.meaningful.size[0]
    numbers[TAIL] += 1
    if not numbers[DELAY] and kept == numbers[K]:
        state = form_list(state, row, np.nan, numbers[K])
    return state


@jit
def _record(state: State, begin: int, end: int, level: bool) -> State:
    """Note the unit and its best objects; one on the same level shows its predecessor is no k-unit."""
    if not _records(state):
        return state
    numbers = state.numbers
    previous = numbers[UNITS_TAIL] - 1
    if level and previous >= numbers[PART_UNITS]:
        forget_list(state, previous)
    if numbers[UNITS_TAIL] - numbers[UNITS_HEAD] == len(state.units) or numbers[FREE_LIST] < 0:
        state = _more_units(state)
    place = numbers[FREE_LIST]
    lists, unit = state.lists, state.unit
    numbers[FREE_LIST] = lists.seq[place]
    row = row_of(numbers[UNITS_TAIL], state.units)
    listed = unit.size[0]
    lists.score[place : place + listed] = unit.score[:listed]
    lists.seq[place : place + listed] = unit.seq[:listed]
    state.units[row, BEGIN] = begin
    state.units[row, END] = end
    state.units[row, PLACE] = place
    state.units[row, LISTED] = listed
    state.unit_best[row] = unit.score[0] if listed > 0 else -np.inf
    numbers[UNITS_TAIL] += 1
    return state


@jit
def forget_list(state: State, index: int) -> None:
    """Free a unit's list: it is no k-unit, or it has expired."""
    row = row_of(index, state.units)
    place = state.units[row, PLACE]
    if place >= 0:
        state.lists.seq[place] = state.numbers[FREE_LIST]
        state.numbers[FREE_LIST] = place
        state.units[row, PLACE] = -1


@jit
def _more_units(state: State) -> State:
    """Room for twice as many units and lists."""
    numbers = state.numbers
    most = numbers[MOST]
    units, unit_best, lists = state.units, state.unit_best, state.lists
    if numbers[UNITS_TAIL] - numbers[UNITS_HEAD] == len(units):
        units = np.zeros((2 * len(state.units), state.units.shape[1]), np.int64)
        unit_best = np.zeros(2 * len(state.units))
        for index in range(numbers[UNITS_HEAD], numbers[UNITS_TAIL]):
            units[row_of(index, units)] = state.units[row_of(index, state.units)]
            unit_best[row_of(index, units)] = state.unit_best[row_of(index, state.units)]
    if numbers[FREE_LIST] < 0:
        held = lists.size[0]  # places handed out so far, in objects
        room = max(2 * held, 4 * most)
        score = np.zeros(room)
        seq = np.zeros(room, np.int64)
        score[:held] = lists.score[:held]
        seq[:held] = lists.seq[:held]
        for place in range(held, room - most + 1, most):
            seq[place] = numbers[FREE_LIST]
            numbers[FREE_LIST] = place
            lists.size[0] = place + most
        lists = Ranked(score, seq, lists.size)
    return with_units(state, units, unit_best, lists)
