"""Algorithm 1: expire, take in, answer, step by step.

The answer is read off the *leaders*: the best of all candidates, somewhat more than k of them. New
candidates that beat the worst of them join, expired ones leave; they are found anew only when fewer
than k remain or when a meaningful set was formed. So a slide that changes nothing costs nothing.

Reference: Zhu et al., TKDE 2017, section 3.1, Algorithm 1.
"""

from __future__ import annotations

import numpy as np

from skyband.engine.steps import Steps
from skyband.kernels.emission import Out, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import Ranked, absorb, better, drop_older
from skyband.kernels.work import CANDIDATES, MEANINGFUL, SLIDES
from skyband.order import Floats, Ints
from skyband.topk.ring import store
from skyband.topk.sap.meaningful import (
    UNIT_SLOTS,
    begin_forming,
    form,
    form_ahead,
    form_all_lists,
    form_list,
    open_units,
    stacks_for,
)
from skyband.topk.sap.partition import (
    close_all,
    close_unit,
    forget_list,
    lacks_room_to_close,
)
from skyband.topk.sap.savl import OBJECTS, clear, drop_best, run_end, second_score
from skyband.topk.sap.savl import best as best_of_slot
from skyband.topk.sap.state import (
    AMORTISE,
    BEGIN,
    COUNTED,
    DELAY,
    DIRTY,
    END,
    FORMING,
    FRONT,
    FRONT_OLDEST,
    HEAD,
    LEADERS_OLDEST,
    LIST_FROM,
    LIST_UPTO,
    NEED,
    NEEDED,
    NEXT_FROM,
    NEXT_UNIT,
    PART_FROM,
    QUIET,
    ROOM_FRONT,
    ROOM_OUT,
    SAFE_FROM,
    SAVL,
    SETTLING,
    SLIDE,
    TAIL,
    UNIT,
    UNIT_FROM,
    UNITS_FROM,
    UNITS_HEAD,
    UNITS_UPTO,
    WHOLE,
    WORST,
    K,
    State,
    row_of,
)
from skyband.topk.sap.units import gather, put_in_order, settle_anew

_LIST = -2  # source: the front partition's meaningful list
_NONE = -1


@entry
def advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out, or their number.

    O(log k) amortised per object at worst, O(k) per slide whose answer changes. What a quiet step
    needs stands here, in view of the compiler: handing the whole state to a function has its price.
    """
    now, raw = state.now, state.raw
    numbers, leaders = now.numbers, now.leaders
    k, base = numbers[K], steps.base[0]
    changes = state.memory.changes[0] == 1
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        first, stop = steps.first[step], steps.stop[step]
        raw.bounds[0] = max(raw.bounds[0], first)
        full = raw.bounds[1] - numbers[UNIT_FROM] >= numbers[UNIT]
        if first > numbers[QUIET] or (full and numbers[WHOLE]):
            numbers[NEED] = _prepare(state, first, steps.starts)
            if numbers[NEED]:
                return step
        if changes and lacks_room(target, k, state.memory):
            numbers[NEED], numbers[NEEDED] = ROOM_OUT, k
            return step
        if numbers[FRONT_OLDEST] < first and state.front.size[0] > 0:
            numbers[FRONT_OLDEST] = drop_older(state.front, first)
        if state.front.size[0] + len(leaders.score) > len(state.front.score):
            numbers[NEED] = ROOM_FRONT
            numbers[NEEDED] = state.front.size[0] + len(leaders.score)
            return step
        if numbers[LEADERS_OLDEST] < first:
            before = leaders.size[0]
            numbers[LEADERS_OLDEST] = drop_older(leaders, first)
            if leaders.size[0] < before:
                numbers[DIRTY] = 1
        if stop > position:
            store(raw, scores, position, stop)
            gather(now, scores, position, stop, base)
            position = stop
        if steps.emit[step]:
            few = now.unit.size[0] < k and not numbers[SETTLING] and first > numbers[SAFE_FROM]
            if few or leaders.size[0] < k:
                _find_leaders(state, first, few)
            if changes and not numbers[DIRTY]:
                skip(target, step)
            else:
                report(target, step, leaders, k, state.memory, True)
                numbers[DIRTY] = 0
            now.work[SLIDES] += 1
            current = state.part.size[0] + now.unit.size[0]
            now.work[CANDIDATES] += state.best.size[0] + state.front.size[0] + min(current, k)
            now.work[MEANINGFUL] += state.savl.numbers[OBJECTS] + state.meaningful.size[0]
        else:
            skip(target, step)
        whole = not numbers[COUNTED] or base + stop == steps.window[step] * numbers[SLIDE]
        numbers[WHOLE] = 1 if whole else 0
        step += 1
    return step


@lean
def _prepare(state: State, first: int, starts: Ints) -> int:
    """End the unit if it is full, let partitions expire, make sure of room for all that.

    Returns a ROOM_* code, 0 if all is ready; it can be called again after room was made.
    """
    numbers, raw = state.now.numbers, state.raw
    need = lacks_room_to_close(state)
    if need:
        numbers[NEEDED] = 2 * numbers[K]
        return need
    if numbers[WHOLE] and raw.bounds[1] - numbers[UNIT_FROM] >= numbers[UNIT]:
        close_unit(state)
        numbers[WHOLE] = 0
    if not numbers[DELAY]:
        need = form_all_lists(state)
    if need == 0:
        need = _expire(state, first, starts)
    if need == 0:
        numbers[QUIET] = _quiet(state)
    return need


@lean
def _quiet(state: State) -> int:
    """Up to which first object of the window partitions have nothing to do."""
    numbers = state.now.numbers
    quiet = numbers[PART_FROM]
    if numbers[AMORTISE]:
        return -1
    if numbers[HEAD] < numbers[TAIL]:
        row = row_of(numbers[HEAD], state.table)
        if not numbers[FRONT]:
            return min(quiet, state.table[row, BEGIN])
        quiet = min(quiet, state.table[row, END] - 1)
        unit = numbers[NEXT_UNIT]
        if unit < state.table[row, UNITS_UPTO]:
            quiet = min(quiet, state.units[row_of(unit - 2, state.units), END] - 1)
    return quiet


@lean
def _expire(state: State, first: int, starts: Ints) -> int:
    """Let go of the objects numbered below ``first``; return a ROOM_* code."""
    numbers = state.now.numbers
    if first > numbers[PART_FROM] and numbers[PART_FROM] < state.raw.bounds[1]:
        close_all(state)  # the window has reached the current partition
        if not numbers[DELAY]:
            need = form_all_lists(state)
            if need:
                return need
    while (
        numbers[HEAD] < numbers[TAIL]
        and state.table[row_of(numbers[HEAD], state.table), END] <= first
    ):
        _drop_partition(state)
    if numbers[HEAD] < numbers[TAIL]:
        row = row_of(numbers[HEAD], state.table)
        begin, end = state.table[row, BEGIN], state.table[row, END]
        if begin < first:
            need = _activate(state, starts)
            if need:
                return need
            need = open_units(state, first, starts)
            if need == 0 and numbers[AMORTISE]:
                need = form_ahead(state, first - begin, end - begin, starts)
            if need:
                return need
    return 0


@lean
def _drop_partition(state: State) -> None:
    """Remove the oldest finished partition: all its objects have expired."""
    numbers = state.now.numbers
    row = row_of(numbers[HEAD], state.table)
    if numbers[FRONT]:
        state.front.size[0] = 0
        clear(state.savl, numbers[HEAD] & 1, 0)
        clear(state.savl, UNIT_SLOTS, 0)
        clear(state.savl, UNIT_SLOTS + 1, 0)
        numbers[FRONT] = 0
    else:
        _drop_candidates(state, state.table[row, END])
    for unit in range(state.table[row, UNITS_FROM], state.table[row, UNITS_UPTO]):
        forget_list(state, unit)
    numbers[UNITS_HEAD] = max(numbers[UNITS_HEAD], state.table[row, UNITS_UPTO])
    numbers[HEAD] += 1
    _drop_list(state)


@lean
def _drop_candidates(state: State, end: int) -> None:
    kept = 0
    for at in range(state.best.size[0]):
        if state.best.seq[at] >= end:
            state.best.score[kept] = state.best.score[at]
            state.best.seq[kept] = state.best.seq[at]
            state.dominators[kept] = state.dominators[at]
            kept += 1
    state.best.size[0] = kept


@lean
def _drop_list(state: State) -> None:
    """Reclaim the room of meaningful lists whose partitions are gone."""
    numbers, pool = state.now.numbers, state.meaningful
    if pool.size[0] == 0:
        return
    start = pool.size[0]
    if numbers[HEAD] < numbers[TAIL] and not numbers[DELAY]:
        start = state.table[row_of(numbers[HEAD], state.table), LIST_FROM]
    if 2 * start < pool.size[0]:
        return
    size = pool.size[0] - start
    for at in range(size):
        pool.score[at] = pool.score[start + at]
        pool.seq[at] = pool.seq[start + at]
    pool.size[0] = size
    for index in range(numbers[HEAD], numbers[TAIL]):
        row = row_of(index, state.table)
        state.table[row, LIST_FROM] = max(state.table[row, LIST_FROM] - start, 0)
        state.table[row, LIST_UPTO] = max(state.table[row, LIST_UPTO] - start, 0)


@lean
def _activate(state: State, starts: Ints) -> int:
    """The front partition begins to expire: separate its candidates, form its meaningful set.

    Does nothing once that is done; returns a ROOM_* code.
    """
    numbers, best, front = state.now.numbers, state.best, state.front
    if numbers[FRONT] == 2:
        return 0
    index = numbers[HEAD]
    row = row_of(index, state.table)
    begin, end = state.table[row, BEGIN], state.table[row, END]
    if numbers[FRONT] == 0:
        kept, taken = 0, 0
        counted = 0
        for at in range(best.size[0]):
            if best.seq[at] < end:
                front.score[taken] = best.score[at]
                front.seq[taken] = best.seq[at]
                counted = state.dominators[at]
                taken += 1
            else:
                best.score[kept] = best.score[at]
                best.seq[kept] = best.seq[at]
                state.dominators[kept] = state.dominators[at]
                kept += 1
        best.size[0] = kept
        front.size[0] = taken
        numbers[FRONT_OLDEST] = begin
        numbers[FRONT] = 1
        numbers[NEXT_UNIT] = state.table[row, UNITS_FROM]
        if numbers[DELAY]:
            score, seq = -np.inf, -1
            if taken > 0:
                score, seq = front.score[taken - 1], front.seq[taken - 1]
            stacks = stacks_for(state, index, taken, counted, score, seq)
            if stacks == 0 or numbers[FORMING] != index:
                begin_forming(state, index, stacks, score, seq)
            if stacks == 0:
                numbers[NEXT_UNIT] = state.table[row, UNITS_UPTO]
                numbers[NEXT_FROM] = begin
    need = 0
    if numbers[DELAY] and numbers[NEXT_FROM] > begin:
        if numbers[SAVL]:
            need = form(state, begin, starts)
        else:
            limit = state.savl.limit[index & 1]
            score, seq = state.now.threshold[2], numbers[WORST]
            need = form_list(state, index, state.now.threshold[1], limit, score, seq)
    if need == 0:
        numbers[FRONT] = 2
        if not numbers[DELAY] or state.savl.limit[index & 1] > 0:
            state.now.leaders.size[0] = 0  # there may be meaningful objects among the best
    return need


@lean
def _find_leaders(state: State, first: int, few: bool) -> None:
    """Find the leaders anew: the best of all candidates, with meaningful objects as they come up.

    ``few``: too few objects above the unit's threshold are alive, so look below it as well. A merge
    of five ranked sources that takes runs: O(k), a comparison per object of a run.
    """
    if few:
        settle_anew(state.now, state.raw)
    put_in_order(state.now)
    leaders, numbers = state.now.leaders, state.now.numbers
    at_best, at_front, at_part, at_unit = 0, 0, 0, 0
    size, room = 0, len(leaders.score)
    while size < room:
        pick = 0
        score, seq = -np.inf, -1
        next_score, next_seq = -np.inf, -1
        for source in range(1, 6):
            if source == 1:
                found, one_score, one_seq = _head(state.best, at_best)
            elif source == 2:
                found, one_score, one_seq = _head(state.front, at_front)
            elif source == 3:
                found, one_score, one_seq = _head(state.part, at_part)
            elif source == 4:
                found, one_score, one_seq = _head(state.now.unit, at_unit)
            else:
                place, one_score, one_seq = _next_meaningful(state, first)
                found = place != _NONE
            if not found:
                continue
            if pick == 0 or better(one_score, one_seq, score, seq):
                next_score, next_seq = score, seq
                pick, score, seq = source, one_score, one_seq
            elif better(one_score, one_seq, next_score, next_seq):
                next_score, next_seq = one_score, one_seq
        if pick == 0:
            break
        if pick == 1:
            at_best, size = _take(state.best, at_best, leaders, size, next_score, next_seq)
        elif pick == 2:
            at_front, size = _take(state.front, at_front, leaders, size, next_score, next_seq)
        elif pick == 3:
            at_part, size = _take(state.part, at_part, leaders, size, next_score, next_seq)
        elif pick == 4:
            at_unit, size = _take(state.now.unit, at_unit, leaders, size, next_score, next_seq)
        else:
            before = size
            size = _pull(state, first, leaders, size, next_score, next_seq)
            at_front += size - before  # they joined the front list where its reading stands
    leaders.size[0] = size
    numbers[LEADERS_OLDEST] = drop_older(leaders, first)  # nothing is older: find the oldest
    numbers[DIRTY] = 1


@lean
def _head(items: Ranked, at: int) -> tuple[bool, float, int]:
    if at < items.size[0]:
        return True, items.score[at], items.seq[at]
    return False, -np.inf, -1


@lean
def _take(
    items: Ranked, at: int, leaders: Ranked, size: int, next_score: float, next_seq: int
) -> tuple[int, int]:
    """Move a run to the view: objects that rank before the best of all other sources."""
    room, stop = len(leaders.score), items.size[0]
    while (
        size < room and at < stop and better(items.score[at], items.seq[at], next_score, next_seq)
    ):
        leaders.score[size] = items.score[at]
        leaders.seq[size] = items.seq[at]
        size += 1
        at += 1
    return at, size


@lean
def _next_meaningful(state: State, first: int) -> tuple[int, float, int]:
    """The best meaningful object: its source, score and number."""
    numbers, stacks = state.now.numbers, state.savl
    if not numbers[FRONT]:
        return _NONE, -np.inf, -1
    if not numbers[SAVL]:
        row = row_of(numbers[HEAD], state.table)
        at = state.table[row, LIST_FROM]
        while at < state.table[row, LIST_UPTO] and state.meaningful.seq[at] < first:
            at += 1
        state.table[row, LIST_FROM] = at
        if at == state.table[row, LIST_UPTO]:
            return _NONE, -np.inf, -1
        return _LIST, state.meaningful.score[at], state.meaningful.seq[at]
    found = _NONE
    score, seq = -np.inf, -1
    for i in range(3):
        slot = numbers[HEAD] & 1 if i == 0 else UNIT_SLOTS + i - 1
        if stacks.stacks[slot] == 0:
            continue
        one = best_of_slot(stacks, state.raw, slot, first)
        if one >= 0:
            one_score = state.raw.score[one & state.raw.mask[0]]
            if found == _NONE or better(one_score, one, score, seq):
                found, score, seq = slot, one_score, one
    return found, score, seq


@lean
def _pull(
    state: State, first: int, leaders: Ranked, size: int, next_score: float, next_seq: int
) -> int:
    """Move a run of meaningful objects to the leaders; from now on they are candidates."""
    raw, room = state.raw, len(leaders.score)
    begin = size
    while size < room:
        source, score, seq = _next_meaningful(state, first)
        if source == _NONE or not better(score, seq, next_score, next_seq):
            break
        if source == _LIST:
            state.table[row_of(state.now.numbers[HEAD], state.table), LIST_FROM] += 1
            leaders.score[size], leaders.seq[size] = score, seq
            size += 1
            continue
        # a run of this stack, as far as it beats every other stack, slot and source
        bar = max(next_score, second_score(state.savl, source))
        for i in range(3):
            slot = state.now.numbers[HEAD] & 1 if i == 0 else UNIT_SLOTS + i - 1
            if slot != source and state.savl.stacks[slot] > 0:
                other = best_of_slot(state.savl, raw, slot, first)
                if other >= 0:
                    bar = max(bar, raw.score[other & raw.mask[0]])
        end = run_end(state.savl, source)
        while True:
            leaders.score[size], leaders.seq[size] = score, seq
            size += 1
            seq += 1
            if seq == end or size == room:
                break
            score = raw.score[seq & raw.mask[0]]
            if score <= bar:
                break
        drop_best(state.savl, raw, source, seq)
    pulled = Ranked(leaders.score[begin:size], leaders.seq[begin:size], state.buffer.size)
    pulled.size[0] = size - begin
    for i in range(begin, size):
        state.now.numbers[FRONT_OLDEST] = min(state.now.numbers[FRONT_OLDEST], leaders.seq[i])
    absorb(state.front, pulled, state.front.size[0] + size - begin)
    pulled.size[0] = 0
    return size
