"""MTopList: one ranked list for all views of a workload."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import better
from skyband.kernels.skiplist import (
    LEVELS,
    SIZE,
    SkipList,
    link,
    room_left,
    skiplist,
    unlink,
)
from skyband.kernels.skiplist import with_room as roomier_list
from skyband.order import Ints
from skyband.workload.schedule import Piece, Windows
from skyband.workload.structure import Answers, PlacedRows, Structure
from skyband.workload.views import (
    BLOCK,
    COUNT,
    HEAD,
    NEWEST,
    Views,
    drop_gone,
    find_view,
    lacks_view,
    next_window,
    open_view,
    still_asked,
    views,
    with_room,
)


class State(NamedTuple):
    """The list; of its nodes place, id, marks and the number of views that predict them.

    A view's ``held`` is the node of its worst predicted row (the pointer to the least score).
    """

    items: SkipList
    at: Ints
    id: Ints
    first: Ints  # node: start of the oldest view that has predicted it (start mark)
    last: Ints  # node: start of the newest one (end mark)
    refs: Ints
    views: Views


_ROW, _DUE, _WRITTEN = 0, 1, 2


class MTopList(Structure):
    """Maintains the union of the predicted results of all views as one ranked list.

    Invariants: (1) the list is in rank order; (2) a view predicts its ``filled`` rows that rank at
    or above its pointer and are not older than its start; (3) a row stays in the list as long as a
    view predicts it; (4) it is predicted by no view outside its marks.

    Complexity: O(log c + v / 64 + w d) per row, for c rows kept, v views, w views near to being
    entered and d rows between a view's worst and the next; O(c) per answer and per view that ends.
    Space: O(c + v).

    Reference: MTopS (2011), section 6, Figures 6 and 7.

    Deviations: the next worst row of a view is looked for upward past rows that are older than the
    view (with different k the neighbour need not be in it, Lemma 6.2); a counter tells when no
    view predicts a row any more, since between its marks there may be gaps.
    """

    name = "mtoplist"
    state: State

    @override
    def new_state(self) -> State:
        room = 256
        return State._make(
            [skiplist(room), *(np.zeros(room + 1, np.int64) for _ in range(5)), views(64)]
        )

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Ints) -> bool:
        return bool(_advance(self.state, rows, piece.open, piece.due, piece.upto, target, progress))

    @override
    def make_room(self) -> None:
        state = self.state
        held = state.views
        if 2 * (held.numbers[COUNT] - held.numbers[HEAD]) >= len(held.start):
            state = state._replace(views=with_room(held))
        if state.items.numbers[SIZE] + 1 >= len(state.at):
            items = roomier_list(state.items)
            more = len(items.score) - len(state.at)
            columns = [np.concatenate([column, np.zeros(more, np.int64)]) for column in state[1:6]]
            state = State._make([items, *columns, state.views])
        self.state = state

    @override
    def forget(self, piece: Piece) -> None:
        _renew(self.state, piece.open, piece.closed)

    @override
    def check_own(self) -> None:
        state, held = self.state, self.state.views
        nodes = self.nodes()
        items = [(float(state.items.score[node]), int(state.items.seq[node])) for node in nodes]
        assert items == sorted(items, reverse=True), "1: the list is not in rank order"
        refs = dict.fromkeys(nodes, 0)
        for view in range(int(held.numbers[HEAD]), int(held.numbers[COUNT])):
            start, k = int(held.start[view]), int(held.k[view])
            if k == 0:
                continue
            own = [node for node in nodes if state.at[node] >= start][: int(held.filled[view])]
            assert len(own) == held.filled[view] <= k, "2: a view predicts too few or too many"
            assert not own or own[-1] == held.held[view], "2: a pointer is off"
            full = len(own) == k
            assert held.least[view] == (state.items.score[own[-1]] if full else -np.inf)
            assert held.floor[view >> BLOCK] <= held.least[view], "a block's bound is too high"
            for node in own:
                refs[node] += 1
                assert state.first[node] <= start <= state.last[node], "4: outside its marks"
        assert all(refs[node] == state.refs[node] > 0 for node in nodes), "3: a counter is off"

    def nodes(self) -> list[int]:
        """The nodes of the list, best first."""
        found, node = [], int(self.state.items.after[0])
        while node:
            found.append(node)
            node = int(self.state.items.after[node * LEVELS])
        return found

    @override
    def kept(self) -> Ints:
        return np.sort(self.state.items.seq[np.array(self.nodes(), np.int64)])

    @override
    def held(self) -> int:
        return int(self.state.items.numbers[SIZE])


@entry
def _advance(
    state: State,
    rows: PlacedRows,
    open: Windows,
    due: Windows,
    upto: Ints,
    target: Answers,
    progress: Ints,
) -> bool:
    """Take in the rows before each due window, then answer it."""
    held = state.views
    while True:
        last = progress[_DUE] == len(upto)
        stop = len(rows.score) if last else upto[progress[_DUE]]
        for row in range(progress[_ROW], stop):
            progress[_ROW] = row
            if room_left(state.items) == 0 or not _open(state, open, rows.at[row]):
                return False
            if rows.score[row] == rows.score[row]:
                _insert(state, rows.score[row] + 0.0, rows.seq[row], rows.at[row], rows.id[row])
            held.numbers[NEWEST] = rows.at[row]
        progress[_ROW] = stop
        if last:
            return True
        which = progress[_DUE]
        _answer(state, due.start[which], due.k[which], target, progress)
        target.upto[which] = progress[_WRITTEN]
        progress[_DUE] = which + 1
        end = due.end[which]
        if which + 1 == len(upto) or due.end[which + 1] > end:
            while which >= 0 and due.end[which] == end:
                _narrow(state, due.start[which], still_asked(open, due.start[which], end))
                which -= 1
            drop_gone(held)


@entry
def _renew(state: State, open: Windows, done: int) -> None:
    """Let every view ask for what its windows still ask for."""
    held = state.views
    for view in range(held.numbers[HEAD], held.numbers[COUNT]):
        _narrow(state, held.start[view], still_asked(open, held.start[view], done))
    drop_gone(held)


@lean
def _open(state: State, open: Windows, place: int) -> bool:
    """Begin the views that hold this place and none before; False if room lacks."""
    held = state.views
    if place == held.numbers[NEWEST]:
        return True
    which = next_window(held, open)
    while which < len(open.start) and open.start[which] <= place:
        if lacks_view(held):
            return False
        start = open.start[which]
        most = 0
        while which < len(open.start) and open.start[which] == start:
            if open.end[which] > place:  # else it holds nothing
                most = max(most, open.k[which])
            which += 1
        if most > 0:
            held.k[open_view(held, start)] = most
        held.numbers[NEWEST] = start  # where to go on if room lacks
    return True


@lean
def _insert(state: State, score: float, seq: int, at: int, id: int) -> None:
    """Put a new row on the list, if any view predicts it, and push out what it displaces."""
    held, items = state.views, state.items
    head, count = held.numbers[HEAD], held.numbers[COUNT]
    node = 0
    for block in range(head >> BLOCK, ((count - 1) >> BLOCK) + 1):
        if held.floor[block] > score:
            continue
        floor = np.inf
        for view in range(max(block << BLOCK, head), min((block + 1) << BLOCK, count)):
            if held.k[view] == 0:
                continue
            if held.least[view] <= score:
                if node == 0:
                    node = link(items, score, seq)
                    state.at[node], state.id[node], state.refs[node] = at, id, 0
                    state.first[node] = held.start[view]
                state.last[node] = held.start[view]
                state.refs[node] += 1
                _enter(state, view, node)
            floor = min(floor, held.least[view])
        held.floor[block] = floor


@lean
def _enter(state: State, view: int, node: int) -> None:
    """Predict a new row for a view, in the place of its worst if it is full."""
    held, items = state.views, state.items
    worst = held.held[view]
    if held.filled[view] < held.k[view]:
        held.filled[view] += 1
        if worst == 0 or better(
            items.score[worst], items.seq[worst], items.score[node], items.seq[node]
        ):
            held.held[view] = node
    else:
        held.held[view] = _above(state, worst, held.start[view])
        _release(state, worst)
    _note_least(state, view)


@lean
def _note_least(state: State, view: int) -> None:
    held = state.views
    if held.filled[view] == held.k[view] and held.k[view] > 0:
        held.least[view] = state.items.score[held.held[view]]


@lean
def _above(state: State, node: int, start: int) -> int:
    """The next better row that is not older than ``start``; 0 if there is none."""
    node = state.items.before[node]
    while node != 0 and state.at[node] < start:
        node = state.items.before[node]
    return node


@lean
def _release(state: State, node: int) -> None:
    """A view predicts a row no more."""
    state.refs[node] -= 1
    if state.refs[node] == 0:
        unlink(state.items, node)


@lean
def _narrow(state: State, start: int, k: int) -> None:
    """Keep only what the windows that are left of a view ask for."""
    held = state.views
    view = find_view(held, start)
    if view == held.numbers[COUNT] or held.start[view] != start or held.k[view] <= k:
        return
    while held.filled[view] > k:
        worst = held.held[view]
        held.held[view] = _above(state, worst, start)
        _release(state, worst)
        held.filled[view] -= 1
    held.k[view] = k
    _note_least(state, view)


@lean
def _answer(state: State, start: int, k: int, target: Answers, progress: Ints) -> None:
    items = state.items
    to, taken = progress[_WRITTEN], 0
    node = items.after[0]
    while node != 0 and taken < k:
        if state.at[node] >= start:
            target.score[to] = items.score[node]
            target.id[to] = state.id[node]
            if len(target.at) > 0:
                target.at[to] = state.at[node]
            if len(target.seq) > 0:
                target.seq[to] = items.seq[node]
            to += 1
            taken += 1
        node = items.after[node * LEVELS]
    progress[_WRITTEN] = to
