"""Algorithm 1: expire, take in, answer, step by step.

The answer is read off the *leaders*, see :mod:`skyband.topk.sap.leaders`. New candidates that beat
the worst leader join them, expired ones leave, and they are found anew only when fewer than k
remain or when a meaningful set was formed. So a slide that changes nothing costs nothing.

Reference: Zhu et al., TKDE 2017, section 3.1, Algorithm 1.
"""

from __future__ import annotations

import numpy as np

from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.kernels.emission import lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import drop_older
from skyband.kernels.work import CANDIDATES, MEANINGFUL, SLIDES
from skyband.order import Floats, Ints
from skyband.topk.ring import store
from skyband.topk.sap.leaders import find_leaders
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
from skyband.topk.sap.partition import close_all, close_unit, forget_list, lacks_room_to_close
from skyband.topk.sap.savl import clear
from skyband.topk.sap.state import (
    EXPIRING,
    FORMED,
    ROOM_FRONT,
    ROOM_OUT,
    WHOLE,
    State,
    row_of,
)
from skyband.topk.sap.units import gather


@entry
def advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out, or their number.

    O(log k) amortised per object at worst, O(k) per slide whose answer changes. What a quiet step
    needs stands here, in view of the compiler: handing the whole state to a function has its price.
    """
    current, raw = state.current, state.raw
    now, leaders = current.now[0], current.leaders
    k, base = now.k, steps.base[0]
    changes = state.memory.changes[0] == 1
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        first, stop = steps.first[step], steps.stop[step]
        raw.bounds[0] = max(raw.bounds[0], first)
        full = raw.bounds[1] - now.unit_from >= now.unit_length
        if first > now.quiet_until or (full and now.whole_step):
            now.need = _prepare(state, first, steps.starts)
            if now.need:
                return step
        if changes and lacks_room(target, k, state.memory):
            now.need = ROOM_OUT
            now.needed = k
            return step
        if now.front_oldest < first and state.front.size[0] > 0:
            now.front_oldest = drop_older(state.front, first)
        if state.front.size[0] + len(leaders.score) > len(state.front.score):
            now.need = ROOM_FRONT
            now.needed = state.front.size[0] + len(leaders.score)
            return step
        if now.leaders_oldest < first:
            before = leaders.size[0]
            now.leaders_oldest = drop_older(leaders, first)
            if leaders.size[0] < before:
                now.dirty = 1
        if stop > position:
            store(raw, scores, position, stop)
            gather(current, scores, position, stop, base)
            position = stop
        if steps.emit[step]:
            # too few objects of the unit may be above a threshold that carried over from before
            unsettled = current.unit.size[0] < k and not now.settling and first > now.safe_from
            if unsettled or leaders.size[0] < k:
                find_leaders(state, first, unsettled)
            if changes and not now.dirty:
                skip(target, step)
            else:
                report(target, step, leaders, k, state.memory, True)
                now.dirty = 0
            current.work[SLIDES] += 1
            newest = min(state.part.size[0] + current.unit.size[0], k)
            current.work[CANDIDATES] += state.best.size[0] + state.front.size[0] + newest
            current.work[MEANINGFUL] += state.savl.pool[0].objects + state.meaningful.size[0]
        else:
            skip(target, step)
        whole = not now.counted or base + stop == steps.window[step] * now.slide
        now.whole_step = 1 if whole else 0
        step += 1
    return step


@lean
def _prepare(state: State, first: int, starts: Ints) -> int:
    """End the unit if it is full, let partitions expire, make sure of room for all that.

    Returns a ROOM_* code, 0 if all is ready; it can be called again after room was made.
    """
    now = state.current.now[0]
    need = lacks_room_to_close(state)
    if need:
        now.needed = 2 * now.k
        return need
    if now.whole_step and state.raw.bounds[1] - now.unit_from >= now.unit_length:
        close_unit(state)
        now.whole_step = 0
    if not now.delay:
        need = form_all_lists(state)
    if need == 0:
        need = _expire(state, first, starts)
    if need == 0:
        now.quiet_until = _quiet_until(state)
    return need


@lean
def _quiet_until(state: State) -> int:
    """Up to which first object of the window partitions have nothing to do."""
    now = state.current.now[0]
    quiet = now.part_from
    if now.amortise:
        return -1
    if now.head < now.tail:
        partition = state.partitions[row_of(now.head, state.partitions)]
        if now.front_stage == WHOLE:
            return min(quiet, partition.begin)
        quiet = min(quiet, partition.end - 1)
        if now.next_unit < partition.units_upto:
            ahead = state.units[row_of(now.next_unit - 2, state.units)]
            quiet = min(quiet, ahead.end - 1)
    return quiet


@lean
def _expire(state: State, first: int, starts: Ints) -> int:
    """Let go of the objects numbered below ``first``; return a ROOM_* code."""
    now = state.current.now[0]
    if first > now.part_from and now.part_from < state.raw.bounds[1]:
        close_all(state)  # the window has reached the current partition
        if not now.delay:
            need = form_all_lists(state)
            if need:
                return need
    while now.head < now.tail and state.partitions[row_of(now.head, state.partitions)].end <= first:
        _drop_partition(state)
    if now.head < now.tail:
        partition = state.partitions[row_of(now.head, state.partitions)]
        begin, end = partition.begin, partition.end
        if begin < first:
            need = _separate_front(state, starts)
            if need:
                return need
            need = open_units(state, first, starts)
            if need == 0 and now.amortise:
                need = form_ahead(state, first - begin, end - begin, starts)
            if need:
                return need
    return 0


@lean
def _drop_partition(state: State) -> None:
    """Remove the oldest finished partition: all its objects have expired."""
    now = state.current.now[0]
    partition = state.partitions[row_of(now.head, state.partitions)]
    if now.front_stage != WHOLE:
        state.front.size[0] = 0
        clear(state.savl, now.head & 1, 0)
        clear(state.savl, UNIT_SLOTS, 0)
        clear(state.savl, UNIT_SLOTS + 1, 0)
        now.front_stage = WHOLE
    else:
        _drop_candidates(state, partition.end)
    for unit in range(partition.units_from, partition.units_upto):
        forget_list(state, unit)
    now.units_head = max(now.units_head, partition.units_upto)
    now.head += 1
    _drop_lists(state)


@lean
def _drop_candidates(state: State, end: int) -> None:
    """Remove the candidates numbered below ``end``, with their dominance counters. O(|C|)."""
    best, dominators = state.best, state.dominators
    kept = 0
    for at in range(best.size[0]):
        if best.seq[at] >= end:
            best.score[kept] = best.score[at]
            best.seq[kept] = best.seq[at]
            dominators[kept] = dominators[at]
            kept += 1
    best.size[0] = kept


@lean
def _drop_lists(state: State) -> None:
    """Reclaim the room of meaningful lists whose partitions are gone."""
    now, meaningful = state.current.now[0], state.meaningful
    if meaningful.size[0] == 0:
        return
    start = meaningful.size[0]
    if now.head < now.tail and not now.delay:
        start = state.partitions[row_of(now.head, state.partitions)].list_from
    if 2 * start < meaningful.size[0]:
        return
    size = meaningful.size[0] - start
    for at in range(size):
        meaningful.score[at] = meaningful.score[start + at]
        meaningful.seq[at] = meaningful.seq[start + at]
    meaningful.size[0] = size
    for index in range(now.head, now.tail):
        partition = state.partitions[row_of(index, state.partitions)]
        partition.list_from = max(partition.list_from - start, 0)
        partition.list_upto = max(partition.list_upto - start, 0)


@lean
def _separate_front(state: State, starts: Ints) -> int:
    """Make the oldest partition the front one: its candidates apart, its meaningful set formed.

    Called as its objects expire; does nothing once that is done. Returns a ROOM_* code.
    """
    now = state.current.now[0]
    if now.front_stage == FORMED:
        return 0
    index = now.head
    partition = state.partitions[row_of(index, state.partitions)]
    begin = partition.begin
    if now.front_stage == WHOLE:
        dominators = _move_to_front(state, partition.end)
        now.front_oldest = begin
        now.front_stage = EXPIRING
        now.next_unit = partition.units_from
        if now.delay:
            front = state.front
            size = front.size[0]
            score, seq = -np.inf, -1
            if size > 0:
                score, seq = front.score[size - 1], front.seq[size - 1]
            stacks = stacks_for(state, index, size, dominators, score, seq)
            if stacks == 0 or now.forming != index:
                begin_forming(state, index, stacks, score, seq)
            if stacks == 0:
                now.next_unit = partition.units_upto
                now.formed_from = begin
    need = 0
    limit = state.savl.slots[index & 1].limit
    if now.delay and now.formed_from > begin:
        if now.use_savl:
            need = form(state, begin, starts)
        else:
            need = form_list(state, index, now.barrier, limit, now.worst_score, now.worst_seq)
    if need == 0:
        now.front_stage = FORMED
        if not now.delay or limit > 0:
            state.current.leaders.size[0] = 0  # there may be meaningful objects among the best
    return need


@lean
def _move_to_front(state: State, end: int) -> int:
    """Move the candidates numbered below ``end`` to the front list.

    Returns the dominators counted of the worst of them, 0 if there are none. O(|C|).
    """
    best, dominators, front = state.best, state.dominators, state.front
    kept, moved, of_worst = 0, 0, 0
    for at in range(best.size[0]):
        if best.seq[at] < end:
            front.score[moved] = best.score[at]
            front.seq[moved] = best.seq[at]
            of_worst = dominators[at]
            moved += 1
        else:
            best.score[kept] = best.score[at]
            best.seq[kept] = best.seq[at]
            dominators[kept] = dominators[at]
            kept += 1
    best.size[0] = kept
    front.size[0] = moved
    return of_worst
