"""Meaningful objects: those of the front partition that become answers when its best expire.

Formed as late as possible (the delay policy), from the raw scores, by S-AVL; for enhanced
partitions unit by unit (UBSA), so that only what is about to matter is read. As a plain list where
S-AVL is switched off.

Reference: Zhu et al., TKDE 2017, sections 3.1, 5.1, 5.2 and Appendix C.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.heap import replace_worst, sift_up
from skyband.kernels.jit import jit
from skyband.kernels.ranked import Ranked, append, better, grown, place_of, rank
from skyband.kernels.savl import Savl, clear, offer
from skyband.kernels.work import RESCANNED, RESCANS
from skyband.order import Ints
from skyband.topk.sap.state import (
    BEGIN,
    COUNTED,
    END,
    HEAD,
    K,
    KEPT,
    LIST_FROM,
    LIST_UPTO,
    LISTED,
    NEXT_FROM,
    NEXT_UNIT,
    PLACE,
    SAVL,
    SIZE,
    SLIDE,
    TAIL,
    UNITS_FROM,
    UNITS_UPTO,
    State,
    row_of,
    with_meaningful,
)

UNIT_SLOTS = 2  # S-AVL slots 0 and 1 serve partitions by parity, 2 and 3 serve k-units


@jit
def dominated(state: State, score: float, seq: int, counted: int) -> int:
    """A lower bound of the later objects that rank before one of the front partition.

    ``counted``: those known among the candidates. The current partition's are added.
    """
    return counted + place_of(state.part, score, seq) + place_of(state.unit, score, seq)


@jit
def barrier(state: State, first: int) -> float:
    """[F_theta] the k-th best score of later partitions, NaN if there are fewer. O(k).

    ``first``: candidates numbered below it do not count (they belong to the partition in question).
    """
    one, two, three = state.best, state.part, state.unit
    i, j, m = 0, 0, 0
    score = np.nan
    for _ in range(state.numbers[K]):
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


@jit
def form_list(state: State, row: int, theta: float, limit: int) -> State:
    """Form a partition's meaningful set as a ranked list: its exact local skyband.

    Newest first, an object is kept if fewer than ``limit`` newer ones rank before it. O(length log
    limit).
    """
    raw, pool, heap = state.raw, state.meaningful, state.buffer
    heap = grown(heap, limit)
    begin, end = max(state.table[row, BEGIN], raw.bounds[0]), state.table[row, END]
    worst_score, worst_seq = _last_kept(state, state.table[row, BEGIN], end)
    start = pool.size[0]
    size = 0
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
        pool = append(pool, score, seq)
    stop = pool.size[0]
    segment = Ranked(pool.score[start:stop], pool.seq[start:stop], np.array([stop - start]))
    rank(segment)
    state.table[row, LIST_FROM] = start
    state.table[row, LIST_UPTO] = stop
    state.work[RESCANS] += 1
    state.work[RESCANNED] += end - begin
    return with_meaningful(state, state.savl, pool, heap, state.front)


@jit
def _last_kept(state: State, begin: int, end: int) -> tuple[float, int]:
    """[o_i^k] the worst candidate of a partition: in the front list or among the candidates."""
    for at in range(state.best.size[0] - 1, -1, -1):
        if begin <= state.best.seq[at] < end:
            return state.best.score[at], state.best.seq[at]
    last = state.front.size[0] - 1
    return state.front.score[last], state.front.seq[last]


@jit
def pane_from(state: State, seq: int, starts: Ints) -> int:
    """Where the pane of an object begins: all from there to it expire together."""
    numbers = state.numbers
    if numbers[COUNTED]:
        window = (seq + numbers[SIZE]) // numbers[SLIDE]
        return window * numbers[SLIDE] - numbers[SIZE]
    place = np.searchsorted(starts, seq, side="right") - 1
    return starts[place] if place >= 0 else np.int64(0)


@jit
def scan(
    state: State, slot: int, begin: int, end: int, theta: float, worst: tuple[float, int],
    starts: Ints,
) -> State:  # fmt: skip
    """Offer the objects ``begin .. end`` to an S-AVL, newest first, that may be meaningful.

    Global pruning: who does not beat ``theta`` is beaten by k later objects. Objects that do not
    rank behind ``worst`` are candidates already. Of a pane, whose objects expire together, only the
    best as many as there are stacks matter (Appendix C).
    """
    raw, stacks, buffer = state.raw, state.savl, state.buffer
    limit = stacks.limit[slot]
    worst_score, worst_seq = worst
    state.work[RESCANS] += 1
    state.work[RESCANNED] += end - begin
    # whether panes can hold more objects than there are stacks
    crowded = not state.numbers[COUNTED] or state.numbers[SLIDE] > limit
    stop = end
    while stop > begin:
        start = max(begin, pane_from(state, stop - 1, starts)) if crowded else begin
        if not crowded or stop - start <= limit:
            for seq in range(stop - 1, start - 1, -1):
                score = raw.score[seq & raw.mask[0]]
                if not score <= theta and better(worst_score, worst_seq, score, seq):
                    stacks = offer(stacks, slot, score, seq)
        else:
            stacks, buffer = _scan_pane(
                state, stacks, buffer, slot, start, stop, theta, worst_score, worst_seq
            )
        stop = start
    return with_meaningful(state, stacks, state.meaningful, buffer, state.front)


@jit
def _scan_pane(
    state: State, stacks: Savl, buffer: Ranked, slot: int, start: int, stop: int, theta: float,
    worst_score: float, worst_seq: int,
) -> tuple[Savl, Ranked]:  # fmt: skip
    """Offer the best objects of one pane, best first."""
    raw = state.raw
    limit = stacks.limit[slot]
    buffer = grown(buffer, 2 * limit)
    buffer.size[0] = 0
    for seq in range(stop - 1, start - 1, -1):
        score = raw.score[seq & raw.mask[0]]
        if not score <= theta and better(worst_score, worst_seq, score, seq):
            size = buffer.size[0]
            buffer.score[size] = score
            buffer.seq[size] = seq
            buffer.size[0] = size + 1
            if size + 1 == 2 * limit:
                rank(buffer)
                buffer.size[0] = limit
                theta = buffer.score[limit - 1]
    rank(buffer)
    for at in range(min(buffer.size[0], limit)):
        stacks = offer(stacks, slot, buffer.score[at], buffer.seq[at])
    buffer.size[0] = 0
    return stacks, buffer


@jit
def form(state: State, index: int, upto: int, downto: int, starts: Ints) -> State:
    """Go on forming the S-AVL of finished partition ``index``: its objects ``downto .. upto``.

    The slot has been cleared with its number of stacks; the barrier is ``threshold[1]``. With unit
    records whole units are taken (UBSA, first phase): of a k-unit its list, of another unit all its
    objects if its best beats the barrier, else none. Where it stopped is left in NEXT_FROM.
    """
    row = row_of(index, state.table)
    slot = index & 1
    theta = state.threshold[1]
    worst = _last_kept(state, state.table[row, BEGIN], state.table[row, END])
    low = max(state.table[row, BEGIN], state.raw.bounds[0])
    unit = state.table[row, UNITS_UPTO] - 1
    if unit < state.table[row, UNITS_FROM]:
        state = scan(state, slot, max(downto, low), upto, theta, worst, starts)
        state.numbers[NEXT_FROM] = downto
        return state
    while unit >= state.table[row, UNITS_FROM]:
        at = row_of(unit, state.units)
        begin, end = state.units[at, BEGIN], state.units[at, END]
        if end <= downto:
            break
        if begin < upto and end > low:
            if state.unit_best[at] <= theta:
                pass  # nothing in this unit beats the barrier
            elif state.units[at, PLACE] >= 0:
                state = _offer_list(state, slot, at, theta, worst)
            else:
                state = scan(state, slot, max(begin, low), end, theta, worst, starts)
        state.numbers[NEXT_FROM] = begin
        unit -= 1
    return state


@jit
def _offer_list(
    state: State, slot: int, at: int, theta: float, worst: tuple[float, int]
) -> State:
    """Offer a k-unit's list, newest first."""
    lists, stacks = state.lists, state.savl
    place, listed = state.units[at, PLACE], state.units[at, LISTED]
    order = np.argsort(lists.seq[place : place + listed])
    for i in range(listed - 1, -1, -1):
        score, seq = lists.score[place + order[i]], lists.seq[place + order[i]]
        if not score <= theta and better(worst[0], worst[1], score, seq):
            stacks = offer(stacks, slot, score, seq)
    return with_meaningful(state, stacks, state.meaningful, state.buffer, state.front)


@jit
def open_units(state: State, first: int, starts: Ints) -> State:
    """UBSA, second phase: read k-units of the front partition two units before they expire."""
    numbers = state.numbers
    row = row_of(numbers[HEAD], state.table)
    while numbers[NEXT_UNIT] < state.table[row, UNITS_UPTO]:
        unit = numbers[NEXT_UNIT]
        ahead = unit - 2
        if (
            ahead >= state.table[row, UNITS_FROM]
            and state.units[row_of(ahead, state.units), END] > first
        ):
            break
        numbers[NEXT_UNIT] = unit + 1
        at = row_of(unit, state.units)
        slot = UNIT_SLOTS + (unit & 1)
        clear(state.savl, slot, 0)
        place, listed = state.units[at, PLACE], state.units[at, LISTED]
        if place < 0 or listed < numbers[K] or state.units[at, END] <= first:
            continue
        score, seq = state.lists.score[place + listed - 1], state.lists.seq[place + listed - 1]
        better_ones = dominated(state, score, seq, place_of(state.best, score, seq))
        if better_ones >= numbers[K]:
            continue  # the list already holds all that can matter
        state.savl.limit[slot] = numbers[K] - better_ones
        begin = max(state.units[at, BEGIN], first)
        theta = barrier(state, state.table[row, END])
        state = scan(state, slot, begin, state.units[at, END], theta, (score, seq), starts)
        state.leaders.size[0] = 0
    return state


@jit
def needed(state: State, index: int, kept: int, counted: int, worst: tuple[float, int]) -> int:
    """Stacks that a partition's S-AVL needs: k less its dominance number; 0 if it needs none.

    ``kept``: how many of its k best are still candidates, ``counted`` the dominators known of the
    worst of them. If one was dropped, or there never were k, nothing else of it can be an answer.
    """
    row = row_of(index, state.table)
    if kept < state.numbers[K] or kept < state.table[row, KEPT]:
        return 0
    return max(state.numbers[K] - dominated(state, worst[0], worst[1], counted), 0)


@jit
def form_ahead(state: State, slid: int, length: int, starts: Ints) -> State:
    """Amortised formation: while the front partition slides out, form the next one in step.

    ``slid`` of the front partition's ``length`` objects have expired.
    """
    numbers = state.numbers
    index = numbers[HEAD] + 1
    if index >= numbers[TAIL] or not numbers[SAVL]:
        return state
    row = row_of(index, state.table)
    begin, end = state.table[row, BEGIN], state.table[row, END]
    if numbers[NEXT_FROM] == begin:
        return state
    if numbers[NEXT_FROM] < 0:
        kept, counted = 0, np.int64(0)
        for at in range(state.best.size[0]):
            if begin <= state.best.seq[at] < end:
                kept += 1
                counted = state.dominators[at]
        stacks = 0
        if kept > 0:
            stacks = needed(state, index, kept, counted, _last_kept(state, begin, end))
        clear(state.savl, index & 1, stacks)
        state.threshold[1] = barrier(state, end)
        numbers[NEXT_FROM] = end
    if state.savl.limit[index & 1] == 0:
        return state
    goal = end - (end - begin) * slid // length
    if goal < numbers[NEXT_FROM]:
        state = form(state, index, numbers[NEXT_FROM], goal, starts)
    return state
