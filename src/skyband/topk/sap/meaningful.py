"""Meaningful objects: those of the front partition that become answers when its best expire.

Formed as late as possible (the delay policy), from the raw scores, by S-AVL; for enhanced
partitions unit by unit (UBSA), so that only what is about to matter is read. As a plain list where
S-AVL is switched off. Forming can stop for want of room and goes on where it stopped.

Reference: Zhu et al., TKDE 2017, sections 3.1, 5.1, 5.2 and Appendix C.

Deviations: the dominance number also counts objects of the current partition, which are later too.
Of a pane with more objects than stacks the best are offered best first, which prunes more than
their order of arrival and keeps the stacks valid, since they expire together.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, copy_run, place_of, rank, rank_by_age
from skyband.kernels.work import RESCANNED, RESCANS
from skyband.order import Ints
from skyband.topk.heap import replace_worst, sift_up
from skyband.topk.ring import Ring
from skyband.topk.sap.savl import Savl, clear, leads_run, nodes_left, offer, stretch_run
from skyband.topk.sap.state import (
    BEGIN,
    COUNTED,
    END,
    FORMING,
    HEAD,
    KEPT,
    LIST_FROM,
    LIST_UPTO,
    LISTED,
    NEEDED,
    NEXT_FROM,
    NEXT_UNIT,
    PLACE,
    ROOM_LIST,
    ROOM_NODES,
    SIZE,
    SLIDE,
    TAIL,
    UNITS_FROM,
    UNITS_UPTO,
    WORST,
    K,
    State,
    row_of,
)
from skyband.topk.sap.units import put_in_order

UNIT_SLOTS = 2  # S-AVL slots 0 and 1 serve partitions by parity, 2 and 3 serve k-units


@lean
def stacks_for(state: State, index: int, kept: int, counted: int, score: float, seq: int) -> int:
    """Stacks that a partition's S-AVL needs: k less its dominance number; 0 if it needs none.

    ``kept``: how many of its k best are still candidates, ``counted`` the dominators known of the
    worst of them, which is given. If one was dropped, or there never were k, nothing else of the
    partition can be an answer. O(log k).
    """
    if kept < state.now.numbers[K] or kept < state.table[row_of(index, state.table), KEPT]:
        return 0
    put_in_order(state.now)
    counted += place_of(state.part, score, seq) + place_of(state.now.unit, score, seq)
    return max(state.now.numbers[K] - counted, 0)


@lean
def barrier(state: State, first: int) -> float:
    """[F_theta] the k-th best score of objects numbered ``first`` or above; NaN if there are fewer.

    As far as candidates show it: nobody who does not beat it can be an answer. O(k).
    """
    one, two, three = state.best, state.part, state.now.unit
    i, j, m = 0, 0, 0
    score = np.nan
    for _ in range(state.now.numbers[K]):
        while i < one.size[0] and one.seq[i] < first:
            i += 1
        found = 0
        if i < one.size[0]:
            found, score = 1, one.score[i]
        if j < two.size[0] and (found == 0 or two.score[j] > score):
            found, score = 2, two.score[j]
        if m < three.size[0] and (found == 0 or three.score[m] > score):
            found, score = 3, three.score[m]
        if found == 0:
            return np.nan
        if found == 1:
            i += 1
        elif found == 2:
            j += 1
        else:
            m += 1
    return score


@lean
def begin_forming(state: State, index: int, stacks: int, score: float, seq: int) -> None:
    """Prepare the S-AVL of a finished partition whose worst candidate is given."""
    end = state.table[row_of(index, state.table), END]
    clear(state.savl, index & 1, stacks)
    state.now.threshold[1] = barrier(state, end) if stacks > 0 else np.nan
    state.now.threshold[2] = score
    state.now.numbers[WORST] = seq
    state.now.numbers[FORMING] = index
    state.now.numbers[NEXT_FROM] = end


@lean
def form(state: State, downto: int, starts: Ints) -> int:
    """Go on forming the S-AVL under way, down to the object ``downto``; NEXT_FROM tells how far.

    With unit records whole units are taken (UBSA, first phase): of a k-unit its list, of another
    unit all its objects if its best beats the barrier, else none. Returns a ROOM_* code, 0 if done.
    """
    numbers = state.now.numbers
    index = numbers[FORMING]
    row = row_of(index, state.table)
    slot = index & 1
    theta, score, seq = state.now.threshold[1], state.now.threshold[2], numbers[WORST]
    low = state.raw.bounds[0]
    unit = state.table[row, UNITS_UPTO] - 1
    if unit < state.table[row, UNITS_FROM]:
        goal = max(downto, low)
        done = _scan(state, slot, goal, numbers[NEXT_FROM], theta, score, seq, starts)
        numbers[NEXT_FROM] = downto if done <= goal else done
        return 0 if done <= goal else ROOM_NODES
    while unit >= state.table[row, UNITS_FROM]:
        at = row_of(unit, state.units)
        begin, end = state.units[at, BEGIN], state.units[at, END]
        if end <= downto:
            break
        if begin < numbers[NEXT_FROM]:
            if end <= low or state.unit_best[at] <= theta:
                pass  # expired, or nothing in this unit beats the barrier
            elif state.units[at, PLACE] >= 0:
                if _offer_list(state, slot, at, theta, score, seq):
                    return ROOM_NODES
            else:
                goal = max(begin, low)
                end = min(end, numbers[NEXT_FROM])
                done = _scan(state, slot, goal, end, theta, score, seq, starts)
                if done > goal:
                    numbers[NEXT_FROM] = done
                    return ROOM_NODES
            numbers[NEXT_FROM] = begin
        unit -= 1
    return 0


@lean
def form_ahead(state: State, slid: int, length: int, starts: Ints) -> int:
    """Amortised formation: while the front partition slides out, form the next one in step.

    ``slid`` of the front partition's ``length`` objects have expired. Returns a ROOM_* code.
    """
    numbers, best = state.now.numbers, state.best
    index = numbers[HEAD] + 1
    if index >= numbers[TAIL]:
        return 0
    row = row_of(index, state.table)
    begin, end = state.table[row, BEGIN], state.table[row, END]
    if numbers[FORMING] != index:
        kept, worst = 0, 0
        for at in range(best.size[0]):
            if begin <= best.seq[at] < end:
                kept += 1
                worst = at
        score, seq, counted = best.score[worst], best.seq[worst], state.dominators[worst]
        begin_forming(state, index, stacks_for(state, index, kept, counted, score, seq), score, seq)
    if state.savl.limit[index & 1] == 0:
        return 0
    goal = end - (end - begin) * slid // length
    return form(state, goal, starts) if goal < numbers[NEXT_FROM] else 0


@lean
def open_units(state: State, first: int, starts: Ints) -> int:
    """UBSA, second phase: read k-units of the front partition two units before they expire.

    Returns a ROOM_* code.
    """
    numbers, lists = state.now.numbers, state.lists
    row = row_of(numbers[HEAD], state.table)
    while numbers[NEXT_UNIT] < state.table[row, UNITS_UPTO]:
        unit = numbers[NEXT_UNIT]
        ahead = row_of(unit - 2, state.units)
        if unit - 2 >= state.table[row, UNITS_FROM] and state.units[ahead, END] > first:
            return 0
        at = row_of(unit, state.units)
        slot = UNIT_SLOTS + (unit & 1)
        clear(state.savl, slot, 0)
        place, listed = state.units[at, PLACE], state.units[at, LISTED]
        if place >= 0 and listed >= numbers[K] and state.units[at, END] > first:
            score, seq = lists.score[place + listed - 1], lists.seq[place + listed - 1]
            put_in_order(state.now)
            later = place_of(state.best, score, seq)
            later += place_of(state.part, score, seq) + place_of(state.now.unit, score, seq)
            if later < numbers[K]:  # else its list already holds all that can matter
                state.savl.limit[slot] = numbers[K] - later
                begin = max(state.units[at, BEGIN], first)
                theta = barrier(state, state.table[row, END])
                end = state.units[at, END]
                if _scan(state, slot, begin, end, theta, score, seq, starts) > begin:
                    return ROOM_NODES  # and begin again with more room
                state.now.leaders.size[0] = 0
        numbers[NEXT_UNIT] = unit + 1
    return 0


@lean
def _scan(
    state: State, slot: int, begin: int, end: int, theta: float, worst_score: float,
    worst_seq: int, starts: Ints,
) -> int:  # fmt: skip
    """Offer the objects ``begin .. end`` to an S-AVL, newest first, that may be meaningful.

    Global pruning: who does not beat ``theta`` is beaten by k later objects. Objects that do not
    rank behind the given one are candidates already. Of a pane, whose objects expire together, only
    the best as many as there are stacks matter (Appendix C). Returns ``begin``, or if nodes run out
    the last object that is done. O(length + offered log stacks).
    """
    raw, stacks, numbers = state.raw, state.savl, state.now.numbers
    limit = stacks.limit[slot]
    # whether panes can hold more objects than there are stacks
    crowded = not numbers[COUNTED] or numbers[SLIDE] > limit
    stop = end
    while stop > begin:
        start = max(begin, _pane_from(state, stop - 1, starts)) if crowded else begin
        if crowded and stop - start > limit:
            if nodes_left(stacks) < limit:
                break
            _scan_pane(state, slot, start, stop, theta, worst_score, worst_seq)
            stop = start
            continue
        stop = _scan_stretch(raw, stacks, slot, start, stop, theta, worst_score, worst_seq)
        if stop > start:
            break
    if stop > begin:
        numbers[NEEDED] = limit
    state.now.work[RESCANS] += 1
    state.now.work[RESCANNED] += end - stop
    return stop


@lean
def _scan_stretch(
    raw: Ring, stacks: Savl, slot: int, start: int, stop: int, theta: float, worst_score: float,
    worst_seq: int,
) -> int:  # fmt: skip
    """Offer objects one by one, newest first; return ``start``, or where nodes ran out.

    As long as scores rise towards older objects, the run on top of the best stack just grows.
    """
    mask = raw.mask[0]
    running = False
    top = np.inf
    while stop > start:
        score = raw.score[(stop - 1) & mask]
        if running and score > top and score < worst_score:
            top = score
            stop -= 1
            continue
        if running:
            stretch_run(stacks, slot, stop, top)
            running = False
        if not score <= theta and better(worst_score, worst_seq, score, stop - 1):
            if nodes_left(stacks) == 0:
                return stop
            offer(stacks, slot, score, stop - 1)
            running = leads_run(stacks, slot, stop - 1)
            top = score
        stop -= 1
    if running:
        stretch_run(stacks, slot, stop, top)
    return stop


@lean
def _scan_pane(
    state: State, slot: int, start: int, stop: int, theta: float, worst_score: float,
    worst_seq: int,
) -> None:  # fmt: skip
    """Offer the best objects of one pane, best first."""
    raw, buffer = state.raw, state.buffer
    limit = state.savl.limit[slot]
    size = 0
    for seq in range(stop - 1, start - 1, -1):
        score = raw.score[seq & raw.mask[0]]
        if not score <= theta and better(worst_score, worst_seq, score, seq):
            buffer.score[size] = score
            buffer.seq[size] = seq
            size += 1
            if size == 2 * limit:
                buffer.size[0] = size
                rank(buffer)
                size = limit
                theta = buffer.score[limit - 1]
    buffer.size[0] = size
    rank(buffer)
    for at in range(min(size, limit)):
        offer(state.savl, slot, buffer.score[at], buffer.seq[at])
    buffer.size[0] = 0


@lean
def _pane_from(state: State, seq: int, starts: Ints) -> int:
    """Where the pane of an object begins: all from there to it expire together."""
    numbers = state.now.numbers
    if numbers[COUNTED]:
        window = (seq + numbers[SIZE]) // numbers[SLIDE]
        return window * numbers[SLIDE] - numbers[SIZE]
    place = np.searchsorted(starts, seq, side="right") - 1
    return starts[place] if place >= 0 else 0


@lean
def _offer_list(
    state: State, slot: int, at: int, theta: float, worst_score: float, worst_seq: int
) -> bool:
    """Offer a k-unit's list, newest first; returns whether nodes are lacking."""
    lists, buffer = state.lists, state.buffer
    place, listed = state.units[at, PLACE], state.units[at, LISTED]
    if listed > nodes_left(state.savl):
        state.now.numbers[NEEDED] = listed
        return True
    copy_run(lists, place, buffer, 0, listed)
    buffer.size[0] = listed
    rank_by_age(buffer)
    for i in range(listed):
        score, seq = buffer.score[i], buffer.seq[i]
        if not score <= theta and better(worst_score, worst_seq, score, seq):
            offer(state.savl, slot, score, seq)
    buffer.size[0] = 0
    return False


@lean
def form_list(
    state: State, index: int, theta: float, limit: int, worst_score: float, worst_seq: int
) -> int:
    """Form a partition's meaningful set as a ranked list: its exact local skyband.

    Newest first, an object is kept if fewer than ``limit`` newer ones rank before it. Returns a
    ROOM_* code. O(length log limit).
    """
    raw, pool, heap = state.raw, state.meaningful, state.buffer
    row = row_of(index, state.table)
    begin, end = max(state.table[row, BEGIN], raw.bounds[0]), state.table[row, END]
    start = pool.size[0]
    if start + end - begin > len(pool.score):
        state.now.numbers[NEEDED] = start + end - begin
        return ROOM_LIST
    size, stop = 0, start
    for seq in range(end - 1, begin - 1, -1):
        score = raw.score[seq & raw.mask[0]]
        if score <= theta or not better(worst_score, worst_seq, score, seq):
            continue
        if size < limit:
            sift_up(heap.score, heap.seq, 0, size, score, seq)
            size += 1
        elif better(score, seq, heap.score[0], heap.seq[0]):
            replace_worst(heap.score, heap.seq, 0, size, score, seq)
        else:
            continue
        pool.score[stop] = score
        pool.seq[stop] = seq
        stop += 1
    pool.size[0] = stop
    heap.size[0] = stop - start  # the scratch list lends its size to a segment of the pool
    rank(Ranked(pool.score[start:stop], pool.seq[start:stop], heap.size))
    heap.size[0] = 0
    state.table[row, LIST_FROM] = start
    state.table[row, LIST_UPTO] = stop
    state.now.work[RESCANS] += 1
    state.now.work[RESCANNED] += end - begin
    return 0


@lean
def form_all_lists(state: State) -> int:
    """Without the delay policy: form the sets of partitions as soon as they are finished."""
    numbers, best = state.now.numbers, state.best
    for index in range(max(numbers[HEAD], numbers[TAIL] - 2), numbers[TAIL]):
        row = row_of(index, state.table)
        if state.table[row, LIST_FROM] >= 0:
            continue
        worst = -1
        for at in range(best.size[0]):
            if state.table[row, BEGIN] <= best.seq[at] < state.table[row, END]:
                worst = at
        if worst < 0 or state.table[row, KEPT] < numbers[K]:
            state.table[row, LIST_FROM] = state.meaningful.size[0]
            state.table[row, LIST_UPTO] = state.meaningful.size[0]
            continue
        need = form_list(state, index, np.nan, numbers[K], best.score[worst], best.seq[worst])
        if need:
            return need
    return 0
