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

from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, copy_run, place_of, rank, rank_by_age
from skyband.kernels.work import RESCANNED, RESCANS
from skyband.order import Ints
from skyband.topk.heap import replace_worst, sift_up
from skyband.topk.ring import Ring
from skyband.topk.sap.savl import Savl, clear, leads_run, nodes_left, offer, stretch_run
from skyband.topk.sap.state import ROOM_LIST, ROOM_NODES, State, row_of
from skyband.topk.sap.units import put_in_order

UNIT_SLOTS = 2  # S-AVL slots 0 and 1 serve partitions by parity, 2 and 3 serve k-units


@lean
def stacks_for(state: State, index: int, kept: int, counted: int, score: float, seq: int) -> int:
    """Stacks that a partition's S-AVL needs: k less its dominance number; 0 if it needs none.

    ``kept``: how many of its k best are still candidates, ``counted`` the dominators known of the
    worst of them, which is given. If one was dropped, or there never were k, nothing else of the
    partition can be an answer. O(log k).
    """
    k = state.current.now[0].k
    if kept < k or kept < state.partitions[row_of(index, state.partitions)].candidates:
        return 0
    put_in_order(state.current)
    counted += place_of(state.part, score, seq) + place_of(state.current.unit, score, seq)
    return max(k - counted, 0)


@lean
def barrier(state: State, first: int) -> float:
    """[F_theta] the k-th best score of objects numbered ``first`` or above; NaN if there are fewer.

    As far as candidates show it: an object that does not beat it cannot be an answer. O(k).
    """
    one, two, three = state.best, state.part, state.current.unit
    i, j, m = 0, 0, 0
    score = np.nan
    for _ in range(state.current.now[0].k):
        while i < one.size[0] and one.seq[i] < first:
            i += 1
        picked = 0
        if i < one.size[0]:
            picked, score = 1, one.score[i]
        if j < two.size[0] and (picked == 0 or two.score[j] > score):
            picked, score = 2, two.score[j]
        if m < three.size[0] and (picked == 0 or three.score[m] > score):
            picked, score = 3, three.score[m]
        if picked == 0:
            return np.nan
        if picked == 1:
            i += 1
        elif picked == 2:
            j += 1
        else:
            m += 1
    return score


@lean
def begin_forming(state: State, index: int, stacks: int, score: float, seq: int) -> None:
    """Prepare the S-AVL of a finished partition whose worst candidate is given."""
    now, end = state.current.now[0], state.partitions[row_of(index, state.partitions)].end
    clear(state.savl, index & 1, stacks)
    now.barrier = barrier(state, end) if stacks > 0 else np.nan
    now.worst_score = score
    now.worst_seq = seq
    now.forming = index
    now.formed_from = end


@lean
def form(state: State, downto: int, starts: Ints) -> int:
    """Go on forming the S-AVL under way, down to the object ``downto``.

    ``formed_from`` tells how far it has come.
    With unit records whole units are taken (UBSA, first phase): of a k-unit its list, of another
    unit all its objects if its best beats the barrier, else none. Returns a ROOM_* code, 0 if done.
    """
    now = state.current.now[0]
    index = now.forming
    partition = state.partitions[row_of(index, state.partitions)]
    slot = index & 1
    theta, score, seq = now.barrier, now.worst_score, now.worst_seq
    low = state.raw.bounds[0]
    at = partition.units_upto - 1
    if at < partition.units_from:
        goal = max(downto, low)
        done = _scan(state, slot, goal, now.formed_from, theta, score, seq, starts)
        now.formed_from = downto if done <= goal else done
        return 0 if done <= goal else ROOM_NODES
    while at >= partition.units_from:
        unit = state.units[row_of(at, state.units)]
        begin, end = unit.begin, unit.end
        if end <= downto:
            break
        if begin < now.formed_from:
            if end <= low or unit.best <= theta:
                pass  # expired, or nothing in this unit beats the barrier
            elif unit.place >= 0:
                if _offer_list(state, slot, unit.place, unit.listed, theta, score, seq):
                    return ROOM_NODES
            else:
                goal = max(begin, low)
                end = min(end, now.formed_from)
                done = _scan(state, slot, goal, end, theta, score, seq, starts)
                if done > goal:
                    now.formed_from = done
                    return ROOM_NODES
            now.formed_from = begin
        at -= 1
    return 0


@lean
def form_ahead(state: State, slid: int, length: int, starts: Ints) -> int:
    """Amortised formation: while the front partition slides out, form the next one in step.

    ``slid`` of the front partition's ``length`` objects have expired. Returns a ROOM_* code.
    """
    now, best = state.current.now[0], state.best
    index = now.head + 1
    if index >= now.tail:
        return 0
    partition = state.partitions[row_of(index, state.partitions)]
    begin, end = partition.begin, partition.end
    if now.forming != index:
        kept, worst = 0, 0
        for at in range(best.size[0]):
            if begin <= best.seq[at] < end:
                kept += 1
                worst = at
        score, seq, counted = best.score[worst], best.seq[worst], state.dominators[worst]
        begin_forming(state, index, stacks_for(state, index, kept, counted, score, seq), score, seq)
    if state.savl.slots[index & 1].limit == 0:
        return 0
    goal = end - (end - begin) * slid // length
    return form(state, goal, starts) if goal < now.formed_from else 0


@lean
def open_units(state: State, first: int, starts: Ints) -> int:
    """UBSA, second phase: read k-units of the front partition two units before they expire.

    Returns a ROOM_* code.
    """
    now, lists = state.current.now[0], state.lists
    partition = state.partitions[row_of(now.head, state.partitions)]
    while now.next_unit < partition.units_upto:
        at = now.next_unit
        ahead = state.units[row_of(at - 2, state.units)]
        if at - 2 >= partition.units_from and ahead.end > first:
            return 0
        unit = state.units[row_of(at, state.units)]
        slot = UNIT_SLOTS + (at & 1)
        clear(state.savl, slot, 0)
        place, listed = unit.place, unit.listed
        if place >= 0 and listed >= now.k and unit.end > first:
            score, seq = lists.score[place + listed - 1], lists.seq[place + listed - 1]
            put_in_order(state.current)
            later = place_of(state.best, score, seq)
            later += place_of(state.part, score, seq) + place_of(state.current.unit, score, seq)
            if later < now.k:  # else its list already holds all that can matter
                state.savl.slots[slot].limit = now.k - later
                begin, end = max(unit.begin, first), unit.end
                theta = barrier(state, partition.end)
                if _scan(state, slot, begin, end, theta, score, seq, starts) > begin:
                    return ROOM_NODES  # and begin again with more room
                state.current.leaders.size[0] = 0
        now.next_unit = at + 1
    return 0


@lean
def _scan(
    state: State, slot: int, begin: int, end: int, theta: float, worst_score: float,
    worst_seq: int, starts: Ints,
) -> int:  # fmt: skip
    """Offer the objects ``begin .. end`` to an S-AVL, newest first, that may be meaningful.

    Global pruning: an object that does not beat ``theta`` is beaten by k later ones. Objects that
    do not rank behind the given one are candidates already. Of a pane, whose objects expire
    together, only the best as many as there are stacks matter (Appendix C). Returns ``begin``, or
    if nodes run out the last object that is done. O(length + offered log stacks).
    """
    raw, stacks, now = state.raw, state.savl, state.current.now[0]
    limit = stacks.slots[slot].limit
    # whether panes can hold more objects than there are stacks
    crowded = not now.counted or now.slide > limit
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
        now.needed = limit
    state.current.work[RESCANS] += 1
    state.current.work[RESCANNED] += end - stop
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
    limit = state.savl.slots[slot].limit
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
    now = state.current.now[0]
    if now.counted:
        window = (seq + now.window_size) // now.slide
        return window * now.slide - now.window_size
    place = np.searchsorted(starts, seq, side="right") - 1
    return starts[place] if place >= 0 else 0


@lean
def _offer_list(
    state: State, slot: int, place: int, listed: int, theta: float, worst_score: float,
    worst_seq: int,
) -> bool:  # fmt: skip
    """Offer a k-unit's list, newest first; returns whether nodes are lacking."""
    lists, buffer = state.lists, state.buffer
    if listed > nodes_left(state.savl):
        state.current.now[0].needed = listed
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
    partition = state.partitions[row_of(index, state.partitions)]
    begin, end = max(partition.begin, raw.bounds[0]), partition.end
    start = pool.size[0]
    if start + end - begin > len(pool.score):
        state.current.now[0].needed = start + end - begin
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
    partition.list_from = start
    partition.list_upto = stop
    state.current.work[RESCANS] += 1
    state.current.work[RESCANNED] += end - begin
    return 0


@lean
def form_all_lists(state: State) -> int:
    """Without the delay policy: form the sets of partitions as soon as they are finished."""
    now, best = state.current.now[0], state.best
    for index in range(max(now.head, now.tail - 2), now.tail):
        partition = state.partitions[row_of(index, state.partitions)]
        if partition.list_from >= 0:
            continue
        worst = -1
        for at in range(best.size[0]):
            if partition.begin <= best.seq[at] < partition.end:
                worst = at
        if worst < 0 or partition.candidates < now.k:
            partition.list_from = state.meaningful.size[0]
            partition.list_upto = state.meaningful.size[0]
            continue
        need = form_list(state, index, np.nan, now.k, best.score[worst], best.seq[worst])
        if need:
            return need
    return 0
