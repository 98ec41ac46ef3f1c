"""Algorithm 1: expire, take in, answer, step by step.

The answer is read off a *view*: the best of all candidates, somewhat more than k of them. New
candidates that beat its worst object join it, expired ones leave; it is made again only when fewer
than k remain or when a meaningful set was formed. So a slide that changes nothing costs nothing.

Reference: Zhu et al., TKDE 2017, section 3.1, Algorithm 1.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.emission import Out, report, skip
from skyband.kernels.emission import lacks_room as lacks_out
from skyband.kernels.jit import lean, lean_entry
from skyband.kernels.ranked import Ranked, absorb, better, drop_older
from skyband.kernels.ring import store
from skyband.kernels.savl import SIZE as SAVL_SIZE
from skyband.kernels.savl import best as best_node
from skyband.kernels.savl import clear, pop
from skyband.kernels.work import CANDIDATES, MEANINGFUL, SLIDES
from skyband.order import Floats, Ints
from skyband.panes import Steps
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
    lacks_room,
    unit_is_full,
)
from skyband.topk.sap.state import (
    AMORTISE,
    BEGIN,
    COUNTED,
    DELAY,
    DIRTY,
    END,
    FORMING,
    FRONT,
    HEAD,
    K,
    LEADERS_OLDEST,
    LIST_FROM,
    LIST_UPTO,
    NEED,
    NEEDED,
    NEXT_FROM,
    NEXT_UNIT,
    PART_FROM,
    ROOM_FRONT,
    ROOM_OUT,
    SAFE_FROM,
    SAVL,
    SETTLING,
    SLIDE,
    TAIL,
    UNITS_FROM,
    UNITS_HEAD,
    UNITS_UPTO,
    WHOLE,
    WORST,
    State,
    row_of,
)
from skyband.topk.sap.units import settle_anew, take_in

_LIST = -2  # source: the front partition's meaningful list
_NONE = -1


@lean_entry
def advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out, or their number.

    O(log k) amortised per object at worst, O(k) per slide whose answer changes.
    """
    numbers, raw = state.numbers, state.raw
    base = steps.base[0]
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        first = steps.first[step]
        numbers[NEED] = _prepare(state, first, steps.starts, target)
        if numbers[NEED]:
            return step
        stop = steps.stop[step]
        if stop > position:
            store(raw, scores, position, stop)
            take_in(state, scores, position, stop, base)
            position = stop
        if steps.emit[step]:
            _answer(state, first)
            report(target, step, state.leaders, numbers[K], state.memory, numbers[DIRTY] == 1)
            numbers[DIRTY] = 0
            _count(state)
        else:
            skip(target, step)
        whole = not numbers[COUNTED] or base + stop == steps.window[step] * numbers[SLIDE]
        numbers[WHOLE] = 1 if whole else 0
        step += 1
    return step


@lean
def _prepare(state: State, first: int, starts: Ints, target: Out) -> int:
    """End the unit if it is full, expire what is older than ``first``, make sure of room.

    Returns a ROOM_* code, 0 if all is ready; it can be called again after room was made.
    """
    numbers = state.numbers
    need = lacks_room(state)
    if need:
        numbers[NEEDED] = 2 * numbers[K]
        return need
    if state.front.size[0] + len(state.leaders.score) > len(state.front.score):
        numbers[NEEDED] = state.front.size[0] + len(state.leaders.score)
        return ROOM_FRONT
    if lacks_out(target, numbers[K], state.memory):
        numbers[NEEDED] = numbers[K]
        return ROOM_OUT
    if numbers[WHOLE] and unit_is_full(state):
        close_unit(state)
    if not numbers[DELAY]:
        need = form_all_lists(state)
    if need == 0 and first > state.raw.bounds[0]:
        need = _expire(state, first, starts)
    return need


@lean
def _count(state: State) -> None:
    work = state.work
    work[SLIDES] += 1
    current = state.part.size[0] + state.unit.size[0]
    work[CANDIDATES] += state.best.size[0] + state.front.size[0] + min(current, state.numbers[K])
    work[MEANINGFUL] += state.savl.numbers[SAVL_SIZE] + state.meaningful.size[0]


@lean
def _expire(state: State, first: int, starts: Ints) -> int:
    """Let go of the objects numbered below ``first``; return a ROOM_* code."""
    numbers = state.numbers
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
            drop_older(state.front, first)
            need = open_units(state, first, starts)
            if need == 0 and numbers[AMORTISE]:
                need = form_ahead(state, first - begin, end - begin, starts)
            if need:
                return need
    state.raw.bounds[0] = first
    if numbers[LEADERS_OLDEST] < first:
        _shrink_leaders(state, first)
    return 0


@lean
def _drop_partition(state: State) -> None:
    """Remove the oldest finished partition: all its objects have expired."""
    numbers = state.numbers
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
    numbers, pool = state.numbers, state.meaningful
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
    numbers, best, front = state.numbers, state.best, state.front
    if numbers[FRONT] == 2:
        return 0
    index = numbers[HEAD]
    row = row_of(index, state.table)
    begin, end = state.table[row, BEGIN], state.table[row, END]
    if numbers[FRONT] == 0:
        kept, taken = 0, 0
        counted = np.int64(0)
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
        numbers[FRONT] = 1
        numbers[NEXT_UNIT] = state.table[row, UNITS_FROM]
        if numbers[DELAY]:
            score, seq = -np.inf, np.int64(-1)
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
            score, seq = state.threshold[2], numbers[WORST]
            need = form_list(state, index, state.threshold[1], limit, score, seq)
    if need == 0:
        numbers[FRONT] = 2
        state.leaders.size[0] = 0
    return need


@lean
def _shrink_leaders(state: State, first: int) -> None:
    """Drop expired objects from the view; note whether one of the k best was among them."""
    leaders, numbers = state.leaders, state.numbers
    kept = 0
    oldest = np.int64(1) << 62
    for at in range(leaders.size[0]):
        seq = leaders.seq[at]
        if seq < first:
            if at < numbers[K]:
                numbers[DIRTY] = 1
            continue
        oldest = min(oldest, seq)
        leaders.score[kept] = leaders.score[at]
        leaders.seq[kept] = seq
        kept += 1
    leaders.size[0] = kept
    numbers[LEADERS_OLDEST] = oldest if kept > 0 else first


@lean
def _answer(state: State, first: int) -> None:
    """Make sure that the first k of the leaders are the answer."""
    numbers = state.numbers
    if not numbers[SETTLING] and state.unit.size[0] < numbers[K] and first > numbers[SAFE_FROM]:
        # too few objects above the threshold are alive: look below it
        settle_anew(state, state.raw.bounds[1])
    if state.leaders.size[0] < numbers[K]:
        _refill(state, first)


@lean
def _refill(state: State, first: int) -> None:
    """Find the leaders anew: the best of all candidates, with meaningful objects as they come up.

    A merge of five ranked sources that takes runs: O(k), a comparison per object of a run.
    """
    leaders, numbers, pulled = state.leaders, state.numbers, state.buffer
    pulled.size[0] = 0
    at_best, at_front, at_part, at_unit = 0, 0, 0, 0
    size, room = 0, len(leaders.score)
    while size < room:
        pick = 0
        score, seq = -np.inf, np.int64(-1)
        next_score, next_seq = -np.inf, np.int64(-1)
        for source in range(1, 6):
            if source == 1:
                found, one_score, one_seq = _head(state.best, at_best)
            elif source == 2:
                found, one_score, one_seq = _head(state.front, at_front)
            elif source == 3:
                found, one_score, one_seq = _head(state.part, at_part)
            elif source == 4:
                found, one_score, one_seq = _head(state.unit, at_unit)
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
            at_unit, size = _take(state.unit, at_unit, leaders, size, next_score, next_seq)
        else:
            size = _pull(state, first, pulled, leaders, size, next_score, next_seq)
    leaders.size[0] = size
    if pulled.size[0] > 0:
        absorb(state.front, pulled, state.front.size[0] + pulled.size[0])
        pulled.size[0] = 0
    oldest = np.int64(1) << 62
    for at in range(size):
        oldest = min(oldest, leaders.seq[at])
    numbers[LEADERS_OLDEST] = oldest if size > 0 else first
    numbers[DIRTY] = 1


@lean
def _head(items: Ranked, at: int) -> tuple[bool, float, int]:
    if at < items.size[0]:
        return True, items.score[at], items.seq[at]
    return False, -np.inf, np.int64(-1)


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
    numbers, stacks = state.numbers, state.savl
    if not numbers[FRONT]:
        return _NONE, -np.inf, np.int64(-1)
    if not numbers[SAVL]:
        row = row_of(numbers[HEAD], state.table)
        at = state.table[row, LIST_FROM]
        while at < state.table[row, LIST_UPTO] and state.meaningful.seq[at] < first:
            at += 1
        state.table[row, LIST_FROM] = at
        if at == state.table[row, LIST_UPTO]:
            return _NONE, -np.inf, np.int64(-1)
        return _LIST, state.meaningful.score[at], state.meaningful.seq[at]
    found = _NONE
    score, seq = -np.inf, np.int64(-1)
    for i in range(3):
        slot = numbers[HEAD] & 1 if i == 0 else UNIT_SLOTS + i - 1
        node = best_node(stacks, slot, first)
        if node >= 0 and (found == _NONE or better(stacks.score[node], stacks.seq[node], score, seq)):
            found, score, seq = slot, stacks.score[node], stacks.seq[node]
    return found, score, seq


@lean
def _pull(
    state: State, first: int, pulled: Ranked, leaders: Ranked, size: int, next_score: float,
    next_seq: int,
) -> int:  # fmt: skip
    """Move a run of meaningful objects to the view; from now on they are candidates."""
    while size < len(leaders.score):
        source, score, seq = _next_meaningful(state, first)
        if source == _NONE or not better(score, seq, next_score, next_seq):
            break
        if source == _LIST:
            state.table[row_of(state.numbers[HEAD], state.table), LIST_FROM] += 1
        else:
            pop(state.savl, source)
        leaders.score[size] = score
        leaders.seq[size] = seq
        size += 1
        held = pulled.size[0]
        pulled.score[held] = score
        pulled.seq[held] = seq
        pulled.size[0] = held + 1
    return size
