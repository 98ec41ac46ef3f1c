"""MTopBand: for each view of a workload, the list of its predicted results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints
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
    """Objects, each stored once, and per view a ranked list of references to them.

    ``refs``     lists that hold an object; in a free entry, the next free one
    ``cells``    the lists, one after the other; a view's ``held`` says where its list begins
    ``numbers``  objects, first free entry, entries used, cells used
    """

    score: Floats
    seq: Ints
    at: Ints
    id: Ints
    refs: Ints
    cells: Ints
    views: Views
    numbers: Ints


_SIZE, _FREE, _USED, _CELLS = 0, 1, 2, 3
_ROW, _DUE, _WRITTEN = 0, 1, 2


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
        numbers = np.array([0, 0, 1, 0], np.int64)
        columns = (np.zeros(room, np.int64) for _ in range(4))
        cells = np.zeros(1024, np.int64)
        return State._make([np.zeros(room), *columns, cells, views(64), numbers])

    @override
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Ints) -> bool:
        return bool(_advance(self.state, rows, piece.open, piece.due, piece.upto, target, progress))

    @override
    def make_room(self) -> None:
        state = self.state
        held = state.views
        if state.numbers[_SIZE] + 1 >= len(state.score):
            columns = [
                np.concatenate([column, np.zeros(len(column) // 2, column.dtype)])
                for column in state[:5]
            ]
            state = State._make([*columns, *state[5:]])
        if 2 * (held.numbers[COUNT] - held.numbers[HEAD]) >= len(held.start):
            state = state._replace(views=with_room(held))
        elif state is self.state:
            cells = np.concatenate([state.cells, np.zeros(len(state.cells) // 2, np.int64)])
            state = state._replace(cells=cells)
        self.state = state

    @override
    def forget(self, piece: Piece) -> None:
        _renew(self.state, piece.open, piece.closed)

    @override
    def check_own(self) -> None:
        state, held = self.state, self.state.views
        refs: dict[int, int] = {}
        for view in range(int(held.numbers[HEAD]), int(held.numbers[COUNT])):
            here, filled, k = int(held.held[view]), int(held.filled[view]), int(held.k[view])
            own = state.cells[here : here + filled].tolist() if k else []
            ranks = [(float(state.score[node]), int(state.seq[node])) for node in own]
            assert ranks == sorted(ranks, reverse=True), "1: a list is not in rank order"
            assert len(own) <= k, "2: a list is too long"
            for node in own:
                assert state.at[node] >= held.start[view], "2: a row is older than its view"
                refs[node] = refs.get(node, 0) + 1
        assert all(state.refs[node] == count for node, count in refs.items()), "3: a counter"
        assert len(refs) == state.numbers[_SIZE], "3: an object that no list holds"

    @override
    def kept(self) -> Ints:
        state = self.state
        held: list[int] = []
        for view in range(int(state.views.numbers[HEAD]), int(state.views.numbers[COUNT])):
            first = int(state.views.held[view])
            held += state.cells[first : first + int(state.views.filled[view])].tolist()
        return np.unique(state.seq[np.array(held, np.int64)])

    @override
    def held(self) -> int:
        return int(self.state.numbers[_SIZE])


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
            if not _open(state, open, rows.at[row]):
                return False
            if rows.score[row] == rows.score[row]:
                if state.numbers[_SIZE] + 1 >= len(state.score):
                    return False
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
        start = open.start[which]
        if lacks_view(held) or not _room(state, open.k[which]):
            return False
        most = 0
        while which < len(open.start) and open.start[which] == start:
            if open.end[which] > place:  # else it holds nothing
                most = max(most, open.k[which])
            which += 1
        if most > 0:
            if not _room(state, most):
                return False
            view = open_view(held, start)
            held.k[view] = most
            held.held[view] = state.numbers[_CELLS]
            state.numbers[_CELLS] += most
        held.numbers[NEWEST] = start  # where to go on if room lacks
    return True


@lean
def _room(state: State, cells: int) -> bool:
    """Whether a list of so many cells fits; closes the gaps between lists if need be."""
    if state.numbers[_CELLS] + cells <= len(state.cells):
        return True
    held = state.views
    to = 0
    for view in range(held.numbers[HEAD], held.numbers[COUNT]):
        if held.k[view] > 0:
            here = held.held[view]
            for i in range(held.filled[view]):
                state.cells[to + i] = state.cells[here + i]
            held.held[view] = to
            to += held.k[view]
    state.numbers[_CELLS] = to
    return 2 * (to + cells) <= len(state.cells)


@lean
def _insert(state: State, score: float, seq: int, at: int, id: int) -> None:
    """Put a new row in all lists that it enters."""
    held = state.views
    node = state.numbers[_FREE]
    if node == 0:
        node = state.numbers[_USED]
    state.score[node] = score
    head, count = held.numbers[HEAD], held.numbers[COUNT]
    refs = 0
    for block in range(head >> BLOCK, ((count - 1) >> BLOCK) + 1):
        if held.floor[block] > score:
            continue
        floor = np.inf
        for view in range(max(block << BLOCK, head), min((block + 1) << BLOCK, count)):
            if held.k[view] == 0:
                continue
            if held.least[view] <= score:
                _enter(state, view, node, score)
                refs += 1
            floor = min(floor, held.least[view])
        held.floor[block] = floor
    if refs == 0:
        return
    _claim(state, node)
    state.seq[node], state.at[node], state.id[node] = seq, at, id
    state.refs[node] = refs


@lean
def _enter(state: State, view: int, node: int, score: float) -> None:
    """Put a new row on the list of a view, in the place of its worst if it is full."""
    held, cells = state.views, state.cells
    k, filled, here = held.k[view], held.filled[view], held.held[view]
    if filled == k:
        filled -= 1
        _release(state, cells[here + filled])
    to = here + filled
    while to > here and state.score[cells[to - 1]] <= score:
        cells[to] = cells[to - 1]
        to -= 1
    cells[to] = node
    held.filled[view] = filled + 1
    _note_least(state, view)


@lean
def _note_least(state: State, view: int) -> None:
    held = state.views
    k = held.k[view]
    if k > 0 and held.filled[view] == k:
        held.least[view] = state.score[state.cells[held.held[view] + k - 1]]


@lean
def _claim(state: State, node: int) -> None:
    """Take the entry that was meant for a new row; others may have been freed since."""
    numbers = state.numbers
    if node == numbers[_USED]:
        numbers[_USED] += 1
    elif numbers[_FREE] == node:
        numbers[_FREE] = state.refs[node]
    else:
        before = numbers[_FREE]
        while state.refs[before] != node:
            before = state.refs[before]
        state.refs[before] = state.refs[node]
    numbers[_SIZE] += 1


@lean
def _release(state: State, node: int) -> None:
    """A list has let go of an object."""
    state.refs[node] -= 1
    if state.refs[node] == 0:
        state.refs[node] = state.numbers[_FREE]
        state.numbers[_FREE] = node
        state.numbers[_SIZE] -= 1


@lean
def _narrow(state: State, start: int, k: int) -> None:
    """Keep only what the windows that are left of a view ask for."""
    held = state.views
    view = find_view(held, start)
    if view == held.numbers[COUNT] or held.start[view] != start or held.k[view] <= k:
        return
    here = held.held[view]
    for i in range(k, held.filled[view]):
        _release(state, state.cells[here + i])
    held.k[view] = k
    held.filled[view] = min(held.filled[view], k)
    _note_least(state, view)


@lean
def _answer(state: State, start: int, k: int, target: Answers, progress: Ints) -> None:
    held = state.views
    view = find_view(held, start)
    to = progress[_WRITTEN]
    if view < held.numbers[COUNT] and held.start[view] == start:
        here = held.held[view]
        for i in range(min(k, held.filled[view])):
            node = state.cells[here + i]
            target.score[to] = state.score[node]
            target.id[to] = state.id[node]
            if len(target.at) > 0:
                target.at[to] = state.at[node]
            if len(target.seq) > 0:
                target.seq[to] = state.seq[node]
            to += 1
    progress[_WRITTEN] = to
