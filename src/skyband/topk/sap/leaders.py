"""The leaders: the best of all candidates, somewhat more than k of them, in rank order.

They are merged from five ranked sources: candidates of finished partitions, of the front partition,
of the current partition and of the current unit, and the front partition's meaningful objects.
Meaningful objects that become leaders are candidates from then on.

Reference: Zhu et al., TKDE 2017, section 3.1, Algorithm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import absorb, better, drop_older
from skyband.topk.ring import Ring
from skyband.topk.sap.meaningful import UNIT_SLOTS
from skyband.topk.sap.savl import Savl, drop_best, run_end, second_score
from skyband.topk.sap.savl import best as best_of_slot
from skyband.topk.sap.state import WHOLE, State, row_of
from skyband.topk.sap.units import put_in_order, settle_anew


@lean
def find_leaders(state: State, first: int, unsettled: bool) -> None:
    """Find the leaders anew: the best of all candidates, with meaningful objects as they come up.

    ``unsettled``: too few objects above the unit's threshold are alive, so look below it as well. A
    merge of five ranked sources that takes runs: O(k), a comparison per object of a run.
    """
    current = state.current
    if unsettled:
        settle_anew(current, state.raw)
    put_in_order(current)
    leaders, now = current.leaders, current.now[0]
    at_best, at_front, at_part, at_unit = 0, 0, 0, 0
    size, room = 0, len(leaders.score)
    while size < room:
        pick = 0
        score, seq = -np.inf, -1
        next_score, next_seq = -np.inf, -1
        for source in range(1, 6):
            if source == 1:
                exists, head_score, head_seq = _head(state.best, at_best)
            elif source == 2:
                exists, head_score, head_seq = _head(state.front, at_front)
            elif source == 3:
                exists, head_score, head_seq = _head(state.part, at_part)
            elif source == 4:
                exists, head_score, head_seq = _head(current.unit, at_unit)
            else:
                exists, head_score, head_seq = _next_meaningful(state, first)
            if not exists:
                continue
            if pick == 0 or better(head_score, head_seq, score, seq):
                next_score, next_seq = score, seq
                pick, score, seq = source, head_score, head_seq
            elif better(head_score, head_seq, next_score, next_seq):
                next_score, next_seq = head_score, head_seq
        if pick == 0:
            break
        if pick == 1:
            at_best, size = _take(state.best, at_best, leaders, size, next_score, next_seq)
        elif pick == 2:
            at_front, size = _take(state.front, at_front, leaders, size, next_score, next_seq)
        elif pick == 3:
            at_part, size = _take(state.part, at_part, leaders, size, next_score, next_seq)
        elif pick == 4:
            at_unit, size = _take(current.unit, at_unit, leaders, size, next_score, next_seq)
        else:
            before = size
            size = _take_meaningful(state, first, size, next_score, next_seq)
            at_front += size - before  # they joined the front list where its reading stands
    leaders.size[0] = size
    now.leaders_oldest = drop_older(leaders, first)  # nothing is older: find the oldest
    now.dirty = 1


@lean
def _head(items: Ranked, at: int) -> tuple[bool, float, int]:
    """The object at a place of a list: whether there is one, its score and number."""
    if at < items.size[0]:
        return True, items.score[at], items.seq[at]
    return False, -np.inf, -1


@lean
def _take(
    items: Ranked, at: int, leaders: Ranked, size: int, next_score: float, next_seq: int
) -> tuple[int, int]:
    """Append a run to the leaders: objects that rank before the best of all other sources.

    Returns where the list's reading and the leaders stand then.
    """
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
def _next_meaningful(state: State, first: int) -> tuple[bool, float, int]:
    """The best meaningful object: whether there is one, its score and number."""
    now, lists = state.current.now[0], state.meaningful
    if now.front_stage == WHOLE:
        return False, -np.inf, -1
    if now.use_savl:
        slot, score, seq = _best_of_slots(state.savl, state.raw, now.head & 1, first)
        return slot >= 0, score, seq
    partition = state.partitions[row_of(now.head, state.partitions)]
    at, stop = partition.list_from, partition.list_upto
    while at < stop and lists.seq[at] < first:
        at += 1
    partition.list_from = at
    if at == stop:
        return False, -np.inf, -1
    return True, lists.score[at], lists.seq[at]


@lean
def _best_of_slots(
    stacks: Savl, raw: Ring, partition_slot: int, first: int
) -> tuple[int, float, int]:
    """The best object of the front partition's S-AVL and those of its units: slot, score, number.

    The slot is -1 if all are empty.
    """
    best_slot = -1
    best_score, best_seq = -np.inf, -1
    for i in range(3):
        slot = partition_slot if i == 0 else UNIT_SLOTS + i - 1
        if stacks.slots[slot].stacks == 0:
            continue
        seq = best_of_slot(stacks, raw, slot, first)
        if seq >= 0:
            score = raw.score[seq & raw.mask[0]]
            if best_slot < 0 or better(score, seq, best_score, best_seq):
                best_slot, best_score, best_seq = slot, score, seq
    return best_slot, best_score, best_seq


@lean
def _take_meaningful(state: State, first: int, size: int, next_score: float, next_seq: int) -> int:
    """Append a run of meaningful objects to the leaders; from now on they are candidates."""
    now, leaders, front = state.current.now[0], state.current.leaders, state.front
    begin = size
    if now.use_savl:
        stacks, slot = state.savl, now.head & 1
        size = _take_stacks(stacks, state.raw, slot, first, leaders, size, next_score, next_seq)
    else:
        lists, partition = state.meaningful, state.partitions[row_of(now.head, state.partitions)]
        size = _take_list(partition, lists, first, leaders, size, next_score, next_seq)
    # the scratch list lends its size to this stretch of the leaders
    taken = Ranked(leaders.score[begin:size], leaders.seq[begin:size], state.buffer.size)
    taken.size[0] = size - begin
    for i in range(begin, size):
        now.front_oldest = min(now.front_oldest, leaders.seq[i])
    absorb(front, taken, front.size[0] + size - begin)
    taken.size[0] = 0
    return size


@lean
def _take_list(
    partition: Any, lists: Ranked, first: int, leaders: Ranked, size: int, next_score: float,
    next_seq: int,
) -> int:  # fmt: skip
    """Append a run of the partition's meaningful list to the leaders; return their number."""
    at, stop, room = partition.list_from, partition.list_upto, len(leaders.score)
    while size < room:
        while at < stop and lists.seq[at] < first:
            at += 1
        if at == stop or not better(lists.score[at], lists.seq[at], next_score, next_seq):
            break
        leaders.score[size], leaders.seq[size] = lists.score[at], lists.seq[at]
        size += 1
        at += 1
    partition.list_from = at
    return size


@lean
def _take_stacks(
    stacks: Savl, raw: Ring, partition_slot: int, first: int, leaders: Ranked, size: int,
    next_score: float, next_seq: int,
) -> int:  # fmt: skip
    """Move a run of objects from the S-AVL stacks to the leaders; return their number."""
    room = len(leaders.score)
    while size < room:
        slot, score, seq = _best_of_slots(stacks, raw, partition_slot, first)
        if slot < 0 or not better(score, seq, next_score, next_seq):
            break
        # a run of this stack, as far as it beats every other stack, slot and source
        bar = max(next_score, second_score(stacks, slot))
        for i in range(3):
            other = partition_slot if i == 0 else UNIT_SLOTS + i - 1
            if other != slot and stacks.slots[other].stacks > 0:
                rival = best_of_slot(stacks, raw, other, first)
                if rival >= 0:
                    bar = max(bar, raw.score[rival & raw.mask[0]])
        end = run_end(stacks, slot)
        while True:
            leaders.score[size], leaders.seq[size] = score, seq
            size += 1
            seq += 1
            if seq == end or size == room:
                break
            score = raw.score[seq & raw.mask[0]]
            if score <= bar:
                break
        drop_best(stacks, raw, slot, seq)
    return size
