"""MTopMerge: one ranked list for all windows of a workload, brought up to date in bulk.

New rows wait, in the order of arrival, until there are enough of them to be worth a merge; a window
is answered from the list and the waiting rows that rank within its k. A merge ends with one pass
over the list that finds the union of the predicted results, in constant time per row: see
:func:`_prune`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.kernels.answers import Ranked, ranked
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import rank
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints
from skyband.workload.radix import Radix, radix, sort_up, sortable
from skyband.workload.schedule import Piece, Windows
from skyband.workload.structure import Answers, PlacedRows, Structure

_SORTED_APART = 256  # waiting rows that an answer may sort without a merge
_BLOCK = 6  # bits: waiting rows in blocks of 64, each with its highest score


Slots = NDArray[np.int32]


class State(NamedTuple):
    """Rows in order of arrival, and their slots in rank order.

    ``list`` has the slots of the merged rows, best first, and ``key`` numbers that sort like their
    scores, in that order. Rows in slots from ``merged`` on wait, with their keys; ``peaks`` are the
    highest scores of their blocks.

    ``now``  rows, merged and waiting (``count``); merged ones (``merged``); how many may wait
             (``most_waiting``); a score below which no row at a place before ``limit_until`` can
             be in an answer (``limit``)
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
    now: Record


_NOW = fields("count", "merged", "most_waiting", "limit_until", real=("limit",))
_NEVER = 1 << 62


class MTopMerge(Structure):
    """Maintains the union of the predicted results of all open windows as one ranked list.

    Invariants, after a merge: (1) the list is in rank order; (2) it is the union of the predicted
    results of all open windows, each with the largest k of its view, and no other rows. Between
    merges up to 2,048 more rows wait.

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
                ranked(_SORTED_APART),
                radix(self.waiting),
                record(_NOW, most_waiting=self.waiting, limit_until=-_NEVER, limit=-np.inf),
            ]
        )

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Record) -> bool:
        keys = sortable(rows.score)
        windows = (piece.open, piece.due, piece.upto, piece.closed)
        return bool(_advance(self.state, rows, keys, *windows, target, progress))

    @override
    def make_room(self) -> None:
        state = self.state
        more = len(state.score) // 2 + self.waiting
        longer = [np.concatenate([column, np.zeros(more, column.dtype)]) for column in state[:8]]
        self.state = State._make([*longer, *state[8:]])

    @override
    def forget(self, piece: Piece) -> None:
        _merge(self.state, piece.open, piece.closed)

    @override
    def size_from(self, starts: Ints) -> Ints:
        size = self.size()
        return size - np.searchsorted(self.state.at[:size], starts)

    @override
    def check_structure(self) -> None:
        state, now = self.state, self.state.now[0]
        merged, size = int(now.merged), int(now.count)
        listed = state.list[:merged].tolist()
        ranks = [(float(state.score[slot]), slot) for slot in listed]
        assert ranks == sorted(ranks, reverse=True), "1: the list is not in rank order"
        assert sorted(listed) == list(range(merged)), "1: the list is not of the merged rows"
        assert (np.diff(state.at[:size]) >= 0).all(), "slots are not in the order of places"
        assert size - merged <= now.most_waiting, "too many rows wait"

    @override
    def kept(self) -> Ints:
        return self.state.seq[: self.size()].copy()

    @override
    def size(self) -> int:
        return int(self.state.now["count"][0])


@entry
def _advance(
    state: State,
    rows: PlacedRows,
    keys: Ints,
    windows: Windows,
    due: Windows,
    upto: Ints,
    closed: int,
    target: Answers,
    progress: Record,
) -> bool:
    """Take in the rows before each due window, then answer it; False if room ran out."""
    now, reached = state.now[0], progress[0]
    room = len(state.score)
    now.limit_until = -_NEVER  # windows that open in this piece were not known before
    while True:
        last = reached.due == len(upto)
        stop = len(rows.score) if last else upto[reached.due]
        # every window that ends here or before has been answered
        done = closed if last else due.end[reached.due] - 1
        for row in range(reached.row, stop):
            score = rows.score[row]
            if score != score or (score < now.limit and rows.at[row] < now.limit_until):
                continue
            size = now.count
            if size - now.merged == now.most_waiting:
                _merge(state, windows, done)
                size = now.count
            if size == room:
                reached.row = row
                return False
            state.score[size] = score + 0.0  # -0.0 becomes 0.0
            block = (size - now.merged) >> _BLOCK
            state.peaks[block] = max(state.peaks[block], score)
            state.key[size] = keys[row]
            state.seq[size] = rows.seq[row]
            state.at[size] = rows.at[row]
            state.id[size] = rows.id[row]
            now.count = size + 1
        reached.row = stop
        if last:
            return True
        which = reached.due
        _answer(state, windows, done, due.start[which], due.k[which], target, reached)
        target.upto[which] = reached.written
        reached.due = which + 1


@lean
def _answer(
    state: State,
    windows: Windows,
    done: int,
    start: int,
    k: int,
    target: Answers,
    reached: np.record,
) -> None:
    """Write the best ``k`` rows from ``start`` on: those of the list, then waiting ones between."""
    begin = reached.written
    taken = _from_list(state, start, k, target, begin)
    bound = target.score[begin + k - 1] if taken == k else -np.inf
    if not _reaching(state, start, bound):
        _merge(state, windows, done)
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
    reached.written = begin + taken


@lean
def _from_list(state: State, start: int, k: int, target: Answers, to: int) -> int:
    """Write the best ``k`` rows of the list from ``start`` on; returns how many there were."""
    taken, at, listed = 0, 0, state.now[0].merged
    first = _first_from(state, start)  # slots stand in the order of places
    while taken < k and at < listed:  # no branch on the slot: it would often be mispredicted
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
    low, high = 0, state.now[0].merged
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
    fresh, merged, count = state.fresh, state.now[0].merged, state.now[0].count
    waiting = count - merged
    size = 0
    for block in range((waiting + (1 << _BLOCK) - 1) >> _BLOCK):
        if state.peaks[block] < bound:
            continue
        first = merged + (block << _BLOCK)
        for slot in range(first, min(first + (1 << _BLOCK), count)):
            if state.score[slot] >= bound and state.at[slot] >= start:
                if size == _SORTED_APART:
                    return False
                fresh.score[size] = state.score[slot]
                fresh.seq[size] = slot
                size += 1
    fresh.size[0] = size
    return True


@entry
def _merge(state: State, windows: Windows, done: int) -> None:
    """Rank the waiting rows, merge them into the list, and drop rows that cannot win any more."""
    room, key = state.room, state.key
    listed, size = state.now[0].merged, state.now[0].count
    waiting = size - listed
    for i in range(waiting):
        room.key[i] = key[listed + i]
        room.item[i] = listed + i
    other = sort_up(room, waiting)
    new_key = room.other_key if other else room.key
    new_slot = room.other_item if other else room.item
    # from the worst up, in place; of equal keys, which are sorted upward, the last is the newest
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
    _prune(state, windows, done)


@lean
def _prune(state: State, windows: Windows, done: int) -> None:
    """Keep of the ranked rows the union of the predicted results.

    Windows with the same oldest row differ only in k: ``need`` has the largest, by the slot of that
    row. Rows are visited in rank order; a window is *full* once k rows that are not older than its
    oldest have been visited. The oldest window that is not full decides alone: a row from before it
    is only in full windows and cannot win, any other row is in this window and can. Windows only
    become full, so the deciding one moves in one direction, and each row is counted in once and out
    at most once: O(rows + windows).
    """
    now, need, is_kept = state.now[0], state.need, state.scratch
    size = now.count
    begins = _needs(state, windows, done)
    for slot in range(size):
        is_kept[slot] = 0
    decides, visited, kept = 0, 0, 0  # visited: rows kept that are in the deciding window
    while decides < size and need[decides] == 0:
        decides += 1
    for place in range(size):  # no branch on `keep`: the processor would often mispredict it
        slot = state.list[place]
        keep = 1 if slot >= decides else 0
        state.list[kept] = slot
        state.key[kept] = state.key[place]
        is_kept[slot] = keep
        kept += keep
        visited += keep
        while decides < size and need[decides] <= visited:
            visited -= is_kept[decides]
            decides += 1
    settled = kept > 0 and decides == size  # every window that holds a row is full
    now.limit = state.score[state.list[kept - 1]] if settled else -np.inf
    now.limit_until = begins if settled else -_NEVER
    _compact(state, kept)


@lean
def _needs(state: State, windows: Windows, done: int) -> int:
    """Fill in ``need``; returns the start of the first window that holds no row yet."""
    size = state.now[0].count
    for slot in range(size):
        state.need[slot] = 0
    slot = 0
    for which in range(len(windows.start)):
        if windows.end[which] <= done:
            continue
        start = windows.start[which]
        while slot < size and state.at[slot] < start:
            slot += 1
        if slot == size:
            return start
        # a k above the number of rows is never reached: size + 1 is as good, and fits 32 bits
        state.need[slot] = max(state.need[slot], min(windows.k[which], size + 1))
    return _NEVER


@lean
def _compact(state: State, kept: int) -> None:
    """Close the gaps between rows that are kept, by ``scratch``; the list follows."""
    now = state.now[0]
    to = 0
    for slot in range(now.count):
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
    now.count = now.merged = kept
