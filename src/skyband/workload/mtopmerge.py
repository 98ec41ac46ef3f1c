"""MTopMerge: one ranked list for all windows of a workload, brought up to date in bulk.

New rows wait, in the order of arrival, until there are enough of them to be worth a merge; a window
is answered from the list and the few waiting rows that reach its rank. One pass over the merged
list then finds the union of the predicted results, in constant time per row: see :func:`_prune`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import Ranked, rank, ranked
from skyband.order import Floats, Ints
from skyband.workload.radix import Radix, radix, sort_up, sortable
from skyband.workload.schedule import Piece, Windows
from skyband.workload.structure import Answers, PlacedRows, Structure

_FEW = 256  # waiting rows that an answer may sort by itself
_BLOCK = 6  # bits: waiting rows in blocks of 64, each with its highest score


Slots = NDArray[np.int32]


class State(NamedTuple):
    """PlacedRows in order of arrival, and their slots in rank order.

    ``list`` holds the slots of the rows that were merged, best first, and ``key`` numbers that sort
    like their scores, in that order. Rows in slots from ``numbers[_MERGED]`` on wait, with their
    keys; ``peaks`` are the highest scores of their blocks. ``limit`` is a
    score below which no row can matter, for rows at places before ``numbers[_UNTIL]``.
    """

    score: Floats
    key: Ints
    seq: Ints
    at: Ints
    id: Ints
    list: Slots
    need: Slots
    scratch: Slots
    peaks: Floats
    fresh: Ranked
    room: Radix
    limit: Floats
    numbers: Ints


_SIZE, _MERGED, _UNTIL, _WAITING = 0, 1, 2, 3
_ROW, _DUE, _WRITTEN = 0, 1, 2
_NEVER = 1 << 62


class MTopMerge(Structure):
    """Maintains the union of the predicted results of all open windows as one ranked list.

    Invariants, after a merge: (1) the list is in rank order; (2) it is the union of the predicted
    results of all open windows, each with the largest k that is asked of its view, and nothing
    else. Between merges at most 2,048 rows wait besides.

    Complexity: O(log b + (c + v) / b) amortised per row, for b waiting rows, c rows kept and v
    open windows; an answer costs the rows of the list above its last. Space: O(c + b).

    Reference: the minimal object set and the integrated list of MTopS (2011), sections 5 and 6;
    the maintenance in bulk is ours.
    """

    name = "mtopmerge"
    waiting = 2048  # rows that wait before they are merged
    state: State

    @override
    def new_state(self) -> State:
        room = 2 * self.waiting
        return State._make(
            [
                np.zeros(room),
                *(np.zeros(room, np.int64) for _ in range(4)),
                *(np.zeros(room, np.int32) for _ in range(3)),
                np.full((self.waiting >> _BLOCK) + 1, -np.inf),
                ranked(_FEW),
                radix(self.waiting),
                np.array([-np.inf]),
                np.array([0, 0, -_NEVER, self.waiting], np.int64),
            ]
        )

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Ints) -> bool:
        keys = sortable(rows.score)
        windows = (piece.open, piece.due, piece.upto, piece.closed)
        return bool(_advance(self.state, rows, keys, *windows, target, progress))

    @override
    def make_room(self) -> None:
        state = self.state
        held = len(state.score)
        longer = [
            np.concatenate([column, np.zeros(held // 2 + self.waiting, column.dtype)])
            for column in state[:8]
        ]
        self.state = State._make([*longer, *state[8:]])

    def forget(self, piece: Piece) -> None:
        """Merge what waits, whether it is worth it or not."""
        _merge(self.state, piece.open, piece.closed)

    @override
    def held_from(self, starts: Ints) -> Ints:
        size = self.held()
        return size - np.searchsorted(self.state.at[:size], starts)

    @override
    def check_own(self) -> None:
        state = self.state
        merged, size = int(state.numbers[_MERGED]), int(state.numbers[_SIZE])
        listed = state.list[:merged].tolist()
        ranks = [(float(state.score[slot]), slot) for slot in listed]
        assert ranks == sorted(ranks, reverse=True), "1: the list is not in rank order"
        assert sorted(listed) == list(range(merged)), "1: the list is not of the merged rows"
        assert (np.diff(state.at[:size]) >= 0).all(), "slots are not in the order of places"
        assert size - merged <= self.state.numbers[_WAITING], "too many rows wait"

    @override
    def kept(self) -> Ints:
        return self.state.seq[: self.held()].copy()

    @override
    def held(self) -> int:
        return int(self.state.numbers[_SIZE])


@entry
def _advance(
    state: State,
    rows: PlacedRows,
    keys: Ints,
    open: Windows,
    due: Windows,
    upto: Ints,
    closed: int,
    target: Answers,
    progress: Ints,
) -> bool:
    """Take in the rows before each due window, then answer it."""
    numbers = state.numbers
    room = len(state.score)
    numbers[_UNTIL] = -_NEVER  # windows that open in this piece were not known before
    while True:
        last = progress[_DUE] == len(upto)
        stop = len(rows.score) if last else upto[progress[_DUE]]
        # every window that ends here or before has been answered
        done = closed if last else due.end[progress[_DUE]] - 1
        for row in range(progress[_ROW], stop):
            score = rows.score[row]
            if score != score or (score < state.limit[0] and rows.at[row] < numbers[_UNTIL]):
                continue
            size = numbers[_SIZE]
            if size - numbers[_MERGED] == numbers[_WAITING]:
                _merge(state, open, done)
                size = numbers[_SIZE]
            if size == room:
                progress[_ROW] = row
                return False
            state.score[size] = score + 0.0  # -0.0 becomes 0.0
            block = (size - numbers[_MERGED]) >> _BLOCK
            state.peaks[block] = max(state.peaks[block], score)
            state.key[size] = keys[row]
            state.seq[size] = rows.seq[row]
            state.at[size] = rows.at[row]
            state.id[size] = rows.id[row]
            numbers[_SIZE] = size + 1
        progress[_ROW] = stop
        if last:
            return True
        which = progress[_DUE]
        _answer(state, open, done, due.start[which], due.k[which], target, progress)
        target.upto[which] = progress[_WRITTEN]
        progress[_DUE] = which + 1


@lean
def _answer(
    state: State, open: Windows, done: int, start: int, k: int, target: Answers, progress: Ints
) -> None:
    """Write the best ``k`` rows from ``start`` on: those of the list, then waiting ones between."""
    begin = progress[_WRITTEN]
    taken = _from_list(state, start, k, target, begin)
    bound = target.score[begin + k - 1] if taken == k else -np.inf
    if not _reaching(state, start, bound):
        _merge(state, open, done)
        taken = _from_list(state, start, k, target, begin)
        state.fresh.size[0] = 0
    fresh = state.fresh
    j = fresh.size[0]
    if j > 0:
        rank(fresh)
        while taken + j > k:  # the worst give way; of equal scores the waiting one is newer
            if taken > 0 and target.score[begin + taken - 1] <= fresh.score[j - 1]:
                taken -= 1
            else:
                j -= 1
        i = taken
        taken += j
        to = begin + taken
        while j > 0:
            to -= 1
            if i > 0 and target.score[begin + i - 1] <= fresh.score[j - 1]:
                i -= 1
                _move(target, begin + i, to)
            else:
                j -= 1
                _write(state, fresh.seq[j], target, to)
    progress[_WRITTEN] = begin + taken


@lean
def _from_list(state: State, start: int, k: int, target: Answers, to: int) -> int:
    """Write the best ``k`` rows of the list from ``start`` on; returns how many there were."""
    taken, at, listed = 0, 0, state.numbers[_MERGED]
    first = _first_from(state, start)  # slots stand in the order of places
    while taken < k and at < listed:  # without a branch that the processor would have to guess
        slot = state.list[at]
        state.scratch[taken] = slot
        taken += 1 if slot >= first else 0
        at += 1
    for i in range(taken):
        slot = state.scratch[i]
        target.score[to + i] = state.score[slot]
        target.id[to + i] = state.id[slot]
    if len(target.at) > 0:
        for i in range(taken):
            target.at[to + i] = state.at[state.scratch[i]]
    if len(target.seq) > 0:
        for i in range(taken):
            target.seq[to + i] = state.seq[state.scratch[i]]
    return taken


@lean
def _first_from(state: State, start: int) -> int:
    """The first slot of a merged row that is not before ``start``. O(log size)."""
    low, high = 0, state.numbers[_MERGED]
    while low < high:
        middle = (low + high) >> 1
        if state.at[middle] < start:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def _write(state: State, slot: int, target: Answers, to: int) -> None:
    target.score[to] = state.score[slot]
    target.id[to] = state.id[slot]
    if len(target.at) > 0:
        target.at[to] = state.at[slot]
    if len(target.seq) > 0:
        target.seq[to] = state.seq[slot]


@lean
def _move(target: Answers, here: int, to: int) -> None:
    target.score[to] = target.score[here]
    target.id[to] = target.id[here]
    if len(target.at) > 0:
        target.at[to] = target.at[here]
    if len(target.seq) > 0:
        target.seq[to] = target.seq[here]


@lean
def _reaching(state: State, start: int, bound: float) -> bool:
    """Leave in ``fresh`` the waiting rows that reach a score; False if they are too many."""
    numbers, fresh = state.numbers, state.fresh
    found = 0
    merged = numbers[_MERGED]
    waiting = numbers[_SIZE] - merged
    for block in range((waiting + (1 << _BLOCK) - 1) >> _BLOCK):
        if state.peaks[block] < bound:
            continue
        first = merged + (block << _BLOCK)
        for slot in range(first, min(first + (1 << _BLOCK), numbers[_SIZE])):
            if state.score[slot] >= bound and state.at[slot] >= start:
                if found == _FEW:
                    return False
                fresh.score[found] = state.score[slot]
                fresh.seq[found] = slot
                found += 1
    fresh.size[0] = found
    return True


@entry
def _merge(state: State, open: Windows, done: int) -> None:
    """Rank the waiting rows, merge them into the list, and forget what cannot win any more."""
    numbers, room, key = state.numbers, state.room, state.key
    listed, size = numbers[_MERGED], numbers[_SIZE]
    waiting = size - listed
    for i in range(waiting):
        room.key[i] = key[listed + i]
        room.item[i] = listed + i
    other = sort_up(room, waiting)
    new_key = room.other_key if other else room.key
    new_slot = room.other_item if other else room.item
    # from the worst up, in place; sorted upward, of equal keys the newer stands last: it is better
    last = listed - 1
    to = size - 1
    for i in range(waiting):
        fresh = new_key[i]
        while last >= 0 and key[last] <= fresh:
            key[to] = key[last]
            state.list[to] = state.list[last]
            to -= 1
            last -= 1
        key[to] = fresh
        state.list[to] = new_slot[i]
        to -= 1
    _prune(state, open, done)


@lean
def _prune(state: State, open: Windows, done: int) -> None:
    """Keep of the ranked rows the union of the predicted results.

    Windows whose oldest row is the same are alike but for k: ``need`` holds, by that row's slot,
    the largest. Down the ranking, such a window is *full* once k rows from its oldest on have been
    met. The oldest that is not full yet decides alone: a row from before it is only in full windows
    and cannot win; any other row is in this one and can. Rows are met in rank order and windows
    only become full, so the deciding one moves on in one direction, and each row is counted in once
    and out at most once: O(rows + windows).
    """
    numbers, need, is_kept = state.numbers, state.need, state.scratch
    size = numbers[_SIZE]
    begins = _needs(state, open, done)
    for slot in range(size):
        is_kept[slot] = 0
    decides, met, kept = 0, 0, 0
    while decides < size and need[decides] == 0:
        decides += 1
    for place in range(size):  # no branch but the loop's: rows to keep are hard to guess
        slot = state.list[place]
        keep = 1 if slot >= decides else 0
        state.list[kept] = slot
        state.key[kept] = state.key[place]
        is_kept[slot] = keep
        kept += keep
        met += keep
        while decides < size and need[decides] <= met:
            met -= is_kept[decides]
            decides += 1
    settled = kept > 0 and decides == size  # every window that holds a row is full
    state.limit[0] = state.score[state.list[kept - 1]] if settled else -np.inf
    numbers[_UNTIL] = begins if settled else -_NEVER
    _compact(state, kept)


@lean
def _needs(state: State, open: Windows, done: int) -> int:
    """Fill in ``need``; returns the start of the first window that holds no row yet."""
    size = state.numbers[_SIZE]
    for slot in range(size):
        state.need[slot] = 0
    slot = 0
    for which in range(len(open.start)):
        if open.end[which] <= done:
            continue
        start = open.start[which]
        while slot < size and state.at[slot] < start:
            slot += 1
        if slot == size:
            return start
        # more than there are rows is as much as any: it is never full
        state.need[slot] = max(state.need[slot], min(open.k[which], size + 1))
    return _NEVER


@lean
def _compact(state: State, kept: int) -> None:
    """Close the gaps between rows that are kept, by ``scratch``; the list follows."""
    numbers = state.numbers
    to = 0
    for slot in range(numbers[_SIZE]):
        state.score[to] = state.score[slot]
        state.seq[to] = state.seq[slot]
        state.at[to] = state.at[slot]
        state.id[to] = state.id[slot]
        keep = state.scratch[slot]
        state.scratch[slot] = to
        to += keep
    for place in range(kept):
        state.list[place] = state.scratch[state.list[place]]
    for block in range(len(state.peaks)):
        state.peaks[block] = -np.inf
    numbers[_SIZE] = numbers[_MERGED] = kept
