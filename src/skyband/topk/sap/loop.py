"""Algorithm 1: expire, take in, answer, step by step.

The answer is read off a *view*: the best of all candidates, somewhat more than k of them. New
candidates that beat its worst object join it, expired ones leave; it is made again only when fewer
than k remain or when a meaningful set was formed. So a slide that changes nothing costs nothing.

Reference: Zhu et al., TKDE 2017, section 3.1, Algorithm 1.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.emission import Out, skip, write
from skyband.kernels.jit import entry, jit
from skyband.kernels.ranked import Ranked, absorb, better, drop_older, grown
from skyband.kernels.ring import store
from skyband.kernels.savl import SIZE as SAVL_SIZE
from skyband.kernels.savl import best as best_node
from skyband.kernels.savl import clear, pop
from skyband.kernels.work import CANDIDATES, MEANINGFUL, SLIDES
from skyband.order import Floats, Ints
from skyband.panes import Steps
from skyband.topk.sap.meaningful import (
    UNIT_SLOTS,
    barrier,
    form,
    form_ahead,
    form_list,
    needed,
    open_units,
)
from skyband.topk.sap.partition import close_all, close_unit, forget_list, unit_is_full
from skyband.topk.sap.state import (
    AMORTISE,
    BEGIN,
    COUNTED,
    DELAY,
    DIRTY,
    END,
    FRONT,
    HEAD,
    K,
    LIST_FROM,
    LIST_UPTO,
    NEXT_FROM,
    NEXT_UNIT,
    PART_FROM,
    SAFE_FROM,
    SAVL,
    SETTLING,
    SLIDE,
    TAIL,
    UNITS_FROM,
    UNITS_HEAD,
    UNITS_UPTO,
    LEADERS_OLDEST,
    State,
    row_of,
    with_meaningful,
)
from skyband.topk.sap.units import settle_anew, take_in

_LIST = -2  # source: the front partition's meaningful list
_NONE = -1


@entry
def advance(state: State, scores: Floats, steps: Steps, target: Out) -> tuple[State, Out]:
    """Take in a batch. O(log k) amortised per object at worst, O(k) per slide that is answered."""
    numbers = state.numbers
    raw = state.raw
    base = steps.base[0]
    position = 0
    for step in range(len(steps.stop)):
        first = steps.first[step]
        if first > raw.bounds[0]:
            state = _expire(state, first, steps.starts)
        stop = steps.stop[step]
        if stop > position:
            store(raw, scores, position, stop)
            take_in(state, scores, position, stop, base)
            position = stop
        if steps.emit[step]:
            state = _answer(state, first)
            target = write(target, step, state.leaders, numbers[K], state.memory, numbers[DIRTY] == 1)
            numbers[DIRTY] = 0
            _count(state)
        else:
            skip(target, step)
        whole = not numbers[COUNTED] or base + stop == steps.window[step] * numbers[SLIDE]
        if whole and unit_is_full(state):
            state = close_unit(state)
    return state, target


@jit
def _count(state: State) -> None:
    work = state.work
    work[SLIDES] += 1
    current = state.part.size[0] + state.unit.size[0]
    work[CANDIDATES] += state.best.size[0] + state.front.size[0] + min(current, state.numbers[K])
    work[MEANINGFUL] += state.savl.numbers[SAVL_SIZE] + state.meaningful.size[0]


@jit
def _expire(state: State, first: int, starts: Ints) -> State:
    """Let go of the objects numbered below ``first``."""
    numbers = state.numbers
    if first > numbers[PART_FROM] and numbers[PART_FROM] < state.raw.bounds[1]:
        state = close_all(state)  # the window has reached the current partition
    state.raw.bounds[0] = first
    while (
        numbers[HEAD] < numbers[TAIL]
        and state.table[row_of(numbers[HEAD], state.table), END] <= first
    ):
        _drop_partition(state)
    if numbers[HEAD] < numbers[TAIL]:
        row = row_of(numbers[HEAD], state.table)
        begin, end = state.table[row, BEGIN], state.table[row, END]
        if begin < first:
            if not numbers[FRONT]:
                state = _activate(state, starts)
            drop_older(state.front, first)
            state = open_units(state, first, starts)
            if numbers[AMORTISE]:
                state = form_ahead(state, first - begin, end - begin, starts)
    if numbers[LEADERS_OLDEST] < first:
        _shrink_leaders(state, first)
    return state


@jit
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
        numbers[NEXT_FROM] = -1
    for unit in range(state.table[row, UNITS_FROM], state.table[row, UNITS_UPTO]):
        forget_list(state, unit)
    numbers[UNITS_HEAD] = max(numbers[UNITS_HEAD], state.table[row, UNITS_UPTO])
    numbers[HEAD] += 1
    _drop_list(state)


@jit
def _drop_candidates(state: State, end: int) -> None:
    kept = 0
    for at in range(state.best.size[0]):
        if state.best.seq[at] >= end:
            state.best.score[kept] = state.best.score[at]
            state.best.seq[kept] = state.best.seq[at]
            state.dominators[kept] = state.dominators[at]
            kept += 1
    state.best.size[0] = kept


@jit
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


@jit
def _activate(state: State, starts: Ints) -> State:
    """The front partition begins to expire: separate its candidates, form its meaningful set."""
    numbers, best = state.numbers, state.best
    index = numbers[HEAD]
    row = row_of(index, state.table)
    begin, end = state.table[row, BEGIN], state.table[row, END]
    front = grown(state.front, min(numbers[K], best.size[0]))
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
    state = with_meaningful(state, state.savl, state.meaningful, state.buffer, front)
    numbers[FRONT] = 1
    numbers[NEXT_UNIT] = state.table[row, UNITS_FROM]
    if numbers[DELAY]:
        stacks = 0
        if taken > 0:
            worst = (front.score[taken - 1], front.seq[taken - 1])
            stacks = needed(state, index, taken, counted, worst)
        if stacks == 0:
            clear(state.savl, index & 1, 0)
            numbers[NEXT_UNIT] = state.table[row, UNITS_UPTO]
        elif not numbers[SAVL]:
            state = form_list(state, row, barrier(state, end), stacks)
        else:
            if numbers[NEXT_FROM] < 0:
                clear(state.savl, index & 1, stacks)
                state.threshold[1] = barrier(state, end)
                numbers[NEXT_FROM] = end
            if numbers[NEXT_FROM] > begin:
                state = form(state, index, numbers[NEXT_FROM], begin, starts)
    numbers[NEXT_FROM] = -1
    state.leaders.size[0] = 0
    return state


@jit
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


@jit
def _answer(state: State, first: int) -> State:
    """Make sure that the first k of the view are the answer."""
    numbers = state.numbers
    if not numbers[SETTLING] and state.unit.size[0] < numbers[K] and first > numbers[SAFE_FROM]:
        # too few objects above the threshold are alive: look below it
        settle_anew(state, state.raw.bounds[1])
    if state.leaders.size[0] < numbers[K]:
        state = _refill(state, first)
    return state


@jit
def _refill(state: State, first: int) -> State:
    """Make the view anew: the best of all candidates, with meaningful objects as they come up.

    A merge of five ranked sources that takes runs: O(k), a comparison per object of a run.
    """
    leaders, numbers = state.leaders, state.numbers
    pulled = state.buffer
    pulled.size[0] = 0
    room = len(leaders.score)
    if len(pulled.score) < room:
        pulled = grown(pulled, room)
    at_best, at_front, at_part, at_unit = 0, 0, 0, 0
    size = 0
    while size < room:
        pick = 0
        score, seq = -np.inf, np.int64(-1)
        next_score, next_seq = -np.inf, np.int64(-1)
        if at_best < state.best.size[0]:
            pick, score, seq = 1, state.best.score[at_best], state.best.seq[at_best]
        for source in range(2, 6):
            if source == 2:
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
    front = state.front
    if pulled.size[0] > 0:
        front = grown(front, front.size[0] + pulled.size[0])
        absorb(front, pulled, front.size[0] + pulled.size[0])
        pulled.size[0] = 0
    oldest = np.int64(1) << 62
    for at in range(size):
        oldest = min(oldest, leaders.seq[at])
    numbers[LEADERS_OLDEST] = oldest if size > 0 else first
    numbers[DIRTY] = 1
    return with_meaningful(state, state.savl, state.meaningful, pulled, front)


@jit
def _head(items: Ranked, at: int) -> tuple[bool, float, int]:
    if at < items.size[0]:
        return True, items.score[at], items.seq[at]
    return False, -np.inf, np.int64(-1)


@jit
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


@jit
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


@jit
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
