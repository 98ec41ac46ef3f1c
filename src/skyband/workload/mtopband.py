"""MTopBand: for each view of a workload, the list of its predicted results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints
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
    """Objects, each stored once, and per view a ranked list of references to them.

    ``refs``   how many lists contain an object; in a free entry, the next free one
    ``cells``  the lists, one after the other; a view's ``pointer`` says where its list begins
    ``now``    objects (``count``), first free entry (``free``, 0: none), entries used at least once
               (``used``), cells used (``cells``)
    """

    score: Floats
    seq: Ints
    at: Ints
    id: Ints
    refs: Ints
    cells: Ints
    views: Views
    now: Record


_NOW = fields("count", "free", "used", "cells")


class MTopBand(Structure):
    """Maintains the predicted results of every view, separately.

    Invariants: (1) each list is in rank order; (2) it holds the best k rows from its view's start
    on, as far as there are any; (3) an object is stored as long as a list holds it.

    Complexity: O(v / 64) per row for v views, and O(k) for each list that it enters; O(k) per
    answer. Space: O(v k) references.

    Reference: MTopS (2011), section 5, Figures 4 and 5.

    Deviation: of equal scores the newer is predicted, so that all algorithms keep the same rows.
    """

    name = "mtopband"
    state: State

    @override
    def new_state(self) -> State:
        room = 256
        columns = (np.zeros(room, np.int64) for _ in range(4))
        cells = np.zeros(1024, np.int64)
        return State._make([np.zeros(room), *columns, cells, no_views(64), record(_NOW, used=1)])

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Record) -> bool:
        return bool(_advance(self.state, rows, piece.open, piece.due, piece.upto, target, progress))

    @override
    def make_room(self) -> None:
        state, views = self.state, self.state.views
        bounds = views.bounds[0]
        if state.now[0].count + 1 >= len(state.score):
            columns = [
                np.concatenate([column, np.zeros(len(column) // 2, column.dtype)])
                for column in state[:5]
            ]
            state = State._make([*columns, *state[5:]])
        if 2 * (bounds.end - bounds.first) >= len(views.start):
            state = state._replace(views=with_room(views))
        elif state is self.state:
            cells = np.concatenate([state.cells, np.zeros(len(state.cells) // 2, np.int64)])
            state = state._replace(cells=cells)
        self.state = state

    @override
    def forget(self, piece: Piece) -> None:
        _renew(self.state, piece.open, piece.closed)

    @override
    def check_structure(self) -> None:
        state, views = self.state, self.state.views
        refs: dict[int, int] = {}
        for view in range(views.bounds[0].first, views.bounds[0].end):
            here, filled, k = int(views.pointer[view]), int(views.filled[view]), int(views.k[view])
            nodes = state.cells[here : here + filled].tolist() if k else []
            ranks = [(float(state.score[node]), int(state.seq[node])) for node in nodes]
            assert ranks == sorted(ranks, reverse=True), "1: a list is not in rank order"
            assert len(nodes) <= k, "2: a list is too long"
            for node in nodes:
                assert state.at[node] >= views.start[view], "2: a row is older than its view"
                refs[node] = refs.get(node, 0) + 1
        assert all(state.refs[node] == count for node, count in refs.items()), "3: a counter"
        assert len(refs) == state.now[0].count, "3: an object that no list holds"

    @override
    def kept(self) -> Ints:
        state, views = self.state, self.state.views
        nodes: list[int] = []
        for view in range(views.bounds[0].first, views.bounds[0].end):
            first = int(views.pointer[view])
            nodes += state.cells[first : first + int(views.filled[view])].tolist()
        return np.unique(state.seq[np.array(nodes, np.int64)])

    @override
    def size(self) -> int:
        return int(self.state.now["count"][0])


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
            if not _open(state, windows, rows.at[row]):
                return False
            if rows.score[row] == rows.score[row]:
                if state.now[0].count + 1 >= len(state.score):
                    return False
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
        start = windows.start[which]
        if lacks_view(views) or not _room(state, windows.k[which]):
            return False
        most = 0
        while which < len(windows.start) and windows.start[which] == start:
            if windows.end[which] > place:  # else it holds no row
                most = max(most, windows.k[which])
            which += 1
        if most > 0:
            if not _room(state, most):
                return False
            view = open_view(views, start)
            views.k[view] = most
            views.pointer[view] = state.now[0].cells
            state.now[0].cells += most
        bounds.newest = start  # where to go on if room ran out
    return True


@lean
def _room(state: State, cells: int) -> bool:
    """Whether a list of so many cells fits; if not, closes the gaps between lists first."""
    now, views = state.now[0], state.views
    if now.cells + cells <= len(state.cells):
        return True
    to = 0
    for view in range(views.bounds[0].first, views.bounds[0].end):
        if views.k[view] > 0:
            here = views.pointer[view]
            for i in range(views.filled[view]):
                state.cells[to + i] = state.cells[here + i]
            views.pointer[view] = to
            to += views.k[view]
    now.cells = to
    return 2 * (to + cells) <= len(state.cells)


@lean
def _insert(state: State, score: float, seq: int, at: int, row_id: int) -> None:
    """Put a new row in all lists that it enters."""
    views = state.views
    node = state.now[0].free
    if node == 0:
        node = state.now[0].used
    state.score[node] = score
    first, end = views.bounds[0].first, views.bounds[0].end
    refs = 0
    for block in range(first >> BLOCK, ((end - 1) >> BLOCK) + 1):
        if views.floor[block] > score:
            continue
        floor = np.inf
        for view in range(max(block << BLOCK, first), min((block + 1) << BLOCK, end)):
            if views.k[view] == 0:
                continue
            if views.least[view] <= score:
                _enter(state, view, node, score)
                refs += 1
            floor = min(floor, views.least[view])
        views.floor[block] = floor
    if refs == 0:
        return
    _claim(state, node)
    state.seq[node], state.at[node], state.id[node] = seq, at, row_id
    state.refs[node] = refs


@lean
def _enter(state: State, view: int, node: int, score: float) -> None:
    """Put a new row on the list of a view, in the place of its worst if it is full."""
    views, cells = state.views, state.cells
    k, filled, here = views.k[view], views.filled[view], views.pointer[view]
    if filled == k:
        filled -= 1
        _release(state, cells[here + filled])
    to = here + filled
    while to > here and state.score[cells[to - 1]] <= score:
        cells[to] = cells[to - 1]
        to -= 1
    cells[to] = node
    views.filled[view] = filled + 1
    _note_least(state, view)


@lean
def _note_least(state: State, view: int) -> None:
    """Note the score of the worst row of a view that is full."""
    views = state.views
    k = views.k[view]
    if k > 0 and views.filled[view] == k:
        views.least[view] = state.score[state.cells[views.pointer[view] + k - 1]]


@lean
def _claim(state: State, node: int) -> None:
    """Take an entry out of the free ones, not always the first: others were freed since."""
    now = state.now[0]
    if node == now.used:
        now.used += 1
    elif now.free == node:
        now.free = state.refs[node]
    else:
        before = now.free
        while state.refs[before] != node:
            before = state.refs[before]
        state.refs[before] = state.refs[node]
    now.count += 1


@lean
def _release(state: State, node: int) -> None:
    """Count one list less for an object; free its entry if that was the last."""
    state.refs[node] -= 1
    if state.refs[node] == 0:
        now = state.now[0]
        state.refs[node] = now.free
        now.free = node
        now.count -= 1


@lean
def _narrow(state: State, start: int, k: int) -> None:
    """Lower the k of the view that starts at a place, and release the rows beyond it."""
    views = state.views
    view = find_view(views, start)
    if view == views.bounds[0].end or views.start[view] != start or views.k[view] <= k:
        return
    here = views.pointer[view]
    for i in range(k, views.filled[view]):
        _release(state, state.cells[here + i])
    views.k[view] = k
    views.filled[view] = min(views.filled[view], k)
    _note_least(state, view)


@lean
def _answer(state: State, start: int, k: int, target: Answers, reached: np.record) -> None:
    """Write the best ``k`` rows of the view that starts at a place."""
    views = state.views
    view = find_view(views, start)
    to = reached.written
    if view < views.bounds[0].end and views.start[view] == start:
        here = views.pointer[view]
        for i in range(min(k, views.filled[view])):
            node = state.cells[here + i]
            target.score[to] = state.score[node]
            target.id[to] = state.id[node]
            if len(target.at) > 0:
                target.at[to] = state.at[node]
            if len(target.seq) > 0:
                target.seq[to] = state.seq[node]
            to += 1
    reached.written = to
