"""SLA, the sorted list algorithm: keep every row, and find the best by the threshold algorithm.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.incomplete.combine import ADD, ROUNDING, score_at
from skyband.incomplete.invariants import window_rows
from skyband.incomplete.objects import Batch, Store, batch_of, enlarged, find, tidy
from skyband.incomplete.planner import MOST as LARGEST_K
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.sorted_lists import Lists, lists, merge, place_of_seq, roomier_lists
from skyband.incomplete.store import SMALL, StoreAlgorithm
from skyband.incomplete.top_view import (
    TopView,
    admit,
    clear,
    dismiss,
    empty_view,
    falls_short,
    follow,
    offer,
    raise_floor,
)
from skyband.kernels.answers import Out
from skyband.kernels.emission import report_whole, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, INSERTIONS, RESCANNED, RESCANS, SLIDES, counters
from skyband.order import Ints


class State(NamedTuple):
    """All rows by object, the best objects, and the rows of each stream by value."""

    store: Store
    top_view: TopView
    by_value: Lists
    met: Ints  # scratch: per object, whether the search has met it
    work: Ints


class Sla(StoreAlgorithm):
    """Maintains all rows of the window, and a view of the best ``k_max`` objects.

    Arrivals and expiries change the score of one object at a time, found by its id; the view
    follows. When fewer than k are left in it, the threshold algorithm fills it again: it reads the
    lists of all streams side by side, from the largest value down, and stops when no object that it
    has not met can be among the best.

    Options: ``k_max``, objects in the view (default: twice k, and 16).

    Invariants: (1) the rows are those of the window.

    Complexity: O(streams) per arrival, O(k_max) for a change of the view, O(n) to merge the lists
    before a search. Space: O(n).

    Reference: section 3.1.

    Deviations: lists are brought up to date when a search is about to read them.
    """

    name = "sla"
    options = ("k_max",)
    state: State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        k_max = setting.options.get("k_max", 2 * setting.k + 16)
        whole = isinstance(k_max, int) and not isinstance(k_max, bool)
        if not whole or not setting.k <= k_max <= 4 * LARGEST_K:
            raise QueryError(
                f"k_max is {k_max!r}",
                f"a whole number from k = {setting.k} to {4 * LARGEST_K:,}",
                "leave it out",
            )
        self._k_max = k_max
        super().__init__(setting, query)

    @override
    def new_state(self) -> State:
        return State(
            self.new_store(),
            empty_view(self._k_max),
            lists(SMALL, len(self.query.streams)),
            np.zeros(SMALL, np.int64),
            counters(),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, step)

    @override
    def make_room(self, arriving: int) -> None:
        store = self.state.store
        kept = int(store.now[0].end - store.now[0].first)
        room = 2 * (kept + arriving) + SMALL
        self.state = self.state._replace(
            store=enlarged(store, room),
            by_value=roomier_lists(self.state.by_value, room),
            met=np.zeros(room, np.int64),
        )
        _tidy(self.state)

    @override
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        # alive: the id, stream number and value of each row so far, of a count window
        assert self.stored_rows() == window_rows(alive, self.setting.size), "1"


@entry
def advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    store, view, work = state.store, state.top_view, state.work
    now, rows = store.now[0], store.rows
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        window = steps.window[step]
        arriving = steps.stop[step] - position
        if now.end + arriving > len(rows.seq):
            if 4 * (now.end - now.first + arriving) > 3 * len(rows.seq):
                return step
            _tidy(state)
        while now.first < now.end and rows.until[now.first] < window:
            dismiss(view, store)
        for at in range(position, steps.stop[step]):
            if batch.value[at] == batch.value[at]:  # not NaN
                until = window - 1 + now.span + (1 if at >= steps.split[step] else 0)
                obj = find(store, batch.id[at])
                admit(view, store, obj, batch, at, steps.base[0] + at, until)
                work[INSERTIONS] += 1
        position = steps.stop[step]
        if steps.emit[step]:
            if falls_short(view, store):
                _search(state)
            work[SLIDES] += 1
            work[CANDIDATES] += now.end - now.first
            report_whole(target, step, view.best, now.k)
        else:
            skip(target, step)
        step += 1
    return step


@entry
def _tidy(state: State) -> None:
    tidy(state.store)
    follow(state.top_view, state.store)


@lean
def _search(state: State) -> None:
    """Fill the view by the threshold algorithm; stop at the depth that proves it right."""
    store, view, by_value = state.store, state.top_view, state.by_value
    merge(by_value, store)
    clear(view, store)
    for obj in range(store.now[0].objects):
        state.met[obj] = 0
    state.work[RESCANS] += 1
    depth, more = 0, True
    while more:
        more = _read(state, depth)
        threshold = _threshold(store, by_value, depth + 1)
        size = view.best.size[0]
        if more and size == len(view.owner) and view.best.score[size - 1] > threshold:
            raise_floor(store, threshold, 1 << 62)
            return
        depth += 1


@lean
def _read(state: State, depth: int) -> bool:
    """Meet the objects at one depth of all lists; returns whether there is more below."""
    store, by_value = state.store, state.by_value
    more = False
    for stream in range(store.rule.form[0].streams):
        at = by_value.start[stream] + depth
        if at >= by_value.start[stream + 1]:
            continue
        more = more or at + 1 < by_value.start[stream + 1]
        obj = store.rows.owner[place_of_seq(store, by_value.seq[at])]
        state.work[RESCANNED] += 1
        if state.met[obj] == 0:
            state.met[obj] = 1
            offer(state.top_view, store, obj)
    return more


@lean
def _threshold(store: Store, by_value: Lists, depth: int) -> float:
    """The best score of an object all of whose rows are at this depth or below."""
    values, form = store.values, store.rule.form[0]
    for stream in range(form.streams):
        at = by_value.start[stream] + depth
        values[stream] = np.nan
        if at < by_value.start[stream + 1]:
            values[stream] = by_value.value[at]
            if form.repeats == ADD:  # sums may have been rounded up
                values[stream] *= form.most * (1.0 + ROUNDING)
    return score_at(store.rule, values, 0)
