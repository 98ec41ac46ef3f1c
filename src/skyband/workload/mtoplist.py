"""MTopList: one ranked list for all views of a workload."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import better
from skyband.kernels.records import Record
from skyband.kernels.skiplist import LEVELS, SkipList, link, room_left, skiplist, unlink
from skyband.kernels.skiplist import with_room as roomier_list
from skyband.order import Ints
from skyband.workload.schedule import Piece, Windows
from skyband.workload.structure import Answers, PlacedRows, Structure
from skyband.workload.views import (
    BLOCK,
    Views,
    drop_answered,
    find_view,
    lacks_view,
    largest_k,
    next_window,
    no_views,
    open_view,
    with_room,
)


class State(NamedTuple):
    """The list; of its nodes place, id, marks and the number of views that predict them.

    A view's ``pointer`` is the node of its worst predicted row (the pointer to the least score).
    """

    items: SkipList
    at: Ints
    id: Ints
    first: Ints  # node: start of the oldest view that has predicted it (start mark)
    last: Ints  # node: start of the newest one (end mark)
    refs: Ints
    views: Views


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
            [skiplist(room), *(np.zeros(room + 1, np.int64) for _ in range(5)), no_views(64)]
        )

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Record) -> bool:
        return bool(_advance(self.state, rows, piece.open, piece.due, piece.upto, target, progress))

    @override
    def make_room(self) -> None:
        state, views = self.state, self.state.views
        bounds = views.bounds[0]
        if 2 * (bounds.end - bounds.first) >= len(views.start):
            state = state._replace(views=with_room(views))
        if state.items.now[0].count + 1 >= len(state.at):
            items = roomier_list(state.items)
            more = len(items.score) - len(state.at)
            columns = [np.concatenate([column, np.zeros(more, np.int64)]) for column in state[1:6]]
            state = State._make([items, *columns, state.views])
        self.state = state

    @override
    def forget(self, piece: Piece) -> None:
        _renew(self.state, piece.open, piece.closed)

    @override
    def check_structure(self) -> None:
        state, views = self.state, self.state.views
        nodes = self.nodes()
        items = [(float(state.items.score[node]), int(state.items.seq[node])) for node in nodes]
        assert items == sorted(items, reverse=True), "1: the list is not in rank order"
        refs = dict.fromkeys(nodes, 0)
        for view in range(views.bounds[0].first, views.bounds[0].end):
            start, k = int(views.start[view]), int(views.k[view])
            if k == 0:
                continue
            predicted = [node for node in nodes if state.at[node] >= start][: views.filled[view]]
            assert len(predicted) == views.filled[view] <= k, "2: a view predicts too few or many"
            assert not predicted or predicted[-1] == views.pointer[view], "2: a pointer is off"
            full = len(predicted) == k
            assert views.least[view] == (state.items.score[predicted[-1]] if full else -np.inf)
            assert views.floor[view >> BLOCK] <= views.least[view], "a block's bound is too high"
            for node in predicted:
                refs[node] += 1
                assert state.first[node] <= start <= state.last[node], "4: outside its marks"
        assert all(refs[node] == state.refs[node] > 0 for node in nodes), "3: a counter is off"

    def nodes(self) -> list[int]:
        """The nodes of the list, best first."""
        nodes, node = [], int(self.state.items.after[0])
        while node:
            nodes.append(node)
            node = int(self.state.items.after[node * LEVELS])
        return nodes

    @override
    def kept(self) -> Ints:
        return np.sort(self.state.items.seq[np.array(self.nodes(), np.int64)])

    @override
    def size(self) -> int:
        return int(self.state.items.now["count"][0])


@entry
def _advance(
    state: State,
    rows: PlacedRows,
    windows: Windows,
    due: Windows,
    upto: Ints,
    target: Answers,
    progress: Record,
) -> bool:
    """Take in the rows before each due window, then answer it; False if room ran out."""
    views, reached = state.views, progress[0]
    bounds = views.bounds[0]
    while True:
        last = reached.due == len(upto)
        stop = len(rows.score) if last else upto[reached.due]
        for row in range(reached.row, stop):
            reached.row = row
            if room_left(state.items) == 0 or not _open(state, windows, rows.at[row]):
                return False
            if rows.score[row] == rows.score[row]:
                _insert(state, rows.score[row] + 0.0, rows.seq[row], rows.at[row], rows.id[row])
            bounds.newest = rows.at[row]
        reached.row = stop
        if last:
            return True
        which = reached.due
        _answer(state, due.start[which], due.k[which], target, reached)
        target.upto[which] = reached.written
        reached.due = which + 1
        end = due.end[which]
        if which + 1 == len(upto) or due.end[which + 1] > end:
            while which >= 0 and due.end[which] == end:
                _narrow(state, due.start[which], largest_k(windows, due.start[which], end))
                which -= 1
            drop_answered(views)


@entry
def _renew(state: State, windows: Windows, done: int) -> None:
    """Lower the k of every view to the largest of its windows that end after ``done``."""
    views = state.views
    for view in range(views.bounds[0].first, views.bounds[0].end):
        _narrow(state, views.start[view], largest_k(windows, views.start[view], done))
    drop_answered(views)


@lean
def _open(state: State, windows: Windows, place: int) -> bool:
    """Append the views that start after the newest place read, up to this; False without room."""
    views = state.views
    bounds = views.bounds[0]
    if place == bounds.newest:
        return True
    which = next_window(views, windows)
    while which < len(windows.start) and windows.start[which] <= place:
        if lacks_view(views):
            return False
        start = windows.start[which]
        most = 0
        while which < len(windows.start) and windows.start[which] == start:
            if windows.end[which] > place:  # else it holds no row
                most = max(most, windows.k[which])
            which += 1
        if most > 0:
            views.k[open_view(views, start)] = most
        bounds.newest = start  # where to go on if room ran out
    return True


@lean
def _insert(state: State, score: float, seq: int, at: int, row_id: int) -> None:
    """Put a new row on the list, if any view predicts it, and release the rows it displaces."""
    views, items = state.views, state.items
    first, end = views.bounds[0].first, views.bounds[0].end
    node = 0
    for block in range(first >> BLOCK, ((end - 1) >> BLOCK) + 1):
        if views.floor[block] > score:
            continue
        floor = np.inf
        for view in range(max(block << BLOCK, first), min((block + 1) << BLOCK, end)):
            if views.k[view] == 0:
                continue
            if views.least[view] <= score:
                if node == 0:
                    node = link(items, score, seq)
                    state.at[node], state.id[node], state.refs[node] = at, row_id, 0
                    state.first[node] = views.start[view]
                state.last[node] = views.start[view]
                state.refs[node] += 1
                _enter(state, view, node)
            floor = min(floor, views.least[view])
        views.floor[block] = floor


@lean
def _enter(state: State, view: int, node: int) -> None:
    """Predict a new row for a view, in the place of its worst if it is full."""
    views, items = state.views, state.items
    worst = views.pointer[view]
    if views.filled[view] < views.k[view]:
        views.filled[view] += 1
        if worst == 0 or better(
            items.score[worst], items.seq[worst], items.score[node], items.seq[node]
        ):
            views.pointer[view] = node
    else:
        views.pointer[view] = _above(state, worst, views.start[view])
        _release(state, worst)
    _note_least(state, view)


@lean
def _note_least(state: State, view: int) -> None:
    """Note the score of the worst row of a view that is full."""
    views = state.views
    if views.filled[view] == views.k[view] and views.k[view] > 0:
        views.least[view] = state.items.score[views.pointer[view]]


@lean
def _above(state: State, node: int, start: int) -> int:
    """The next better row that is not older than ``start``; 0 if there is none."""
    node = state.items.before[node]
    while node != 0 and state.at[node] < start:
        node = state.items.before[node]
    return node


@lean
def _release(state: State, node: int) -> None:
    """Count one view less for a row; remove it from the list if that was the last."""
    state.refs[node] -= 1
    if state.refs[node] == 0:
        unlink(state.items, node)


@lean
def _narrow(state: State, start: int, k: int) -> None:
    """Lower the k of the view that starts at a place, and release the rows beyond it."""
    views = state.views
    view = find_view(views, start)
    if view == views.bounds[0].end or views.start[view] != start or views.k[view] <= k:
        return
    while views.filled[view] > k:
        worst = views.pointer[view]
        views.pointer[view] = _above(state, worst, start)
        _release(state, worst)
        views.filled[view] -= 1
    views.k[view] = k
    _note_least(state, view)


@lean
def _answer(state: State, start: int, k: int, target: Answers, reached: np.record) -> None:
    """Write the best ``k`` rows of the list that are not before ``start``."""
    items = state.items
    to, taken = reached.written, 0
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
    reached.written = to
