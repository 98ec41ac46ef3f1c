"""SLA, the sorted list algorithm: keep every row, and find the best by the threshold algorithm.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.incomplete.combine import ADD, MOST, REPEATS, ROUNDING, WIDTH, score_at
from skyband.incomplete.invariants import window_rows
from skyband.incomplete.objects import FIRST, LAST, OBJECTS, Batch, Store, enlarged, store, tidy
from skyband.incomplete.planner import MOST as LARGEST_K
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.rows import batch_of
from skyband.incomplete.sorted_lists import Lists, lists, merge, place_of_seq, roomier_lists
from skyband.incomplete.store import SMALL, StoreAlgorithm, rule_of
from skyband.incomplete.top_view import (
    View,
    admit,
    clear,
    dismiss,
    falls_short,
    follow,
    offer,
    raise_floor,
    view,
)
from skyband.kernels.emission import Emission, Out, emission, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, INSERTIONS, RESCANNED, RESCANS, SLIDES, counters
from skyband.order import Ints

_K, _SPAN = 0, 1


class State(NamedTuple):
    """All rows by object, the best objects, and the rows of each stream by value."""

    held: Store
    seen: View
    by_value: Lists
    met: Ints  # scratch: per object, whether the search has met it
    memory: Emission
    work: Ints
    numbers: Ints  # k, span


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

    Deviations: lists are brought up to date when a search is about to read them.
    """

    name = "sla"
    options = ("k_max",)
    state: State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        most = setting.options.get("k_max", 2 * setting.k + 16)
        whole = isinstance(most, int) and not isinstance(most, bool)
        if not whole or not setting.k <= most <= 4 * LARGEST_K:
            raise QueryError(
                f"k_max is {most!r}",
                f"a whole number from k = {setting.k} to {4 * LARGEST_K:,}",
                "leave it out",
            )
        self._listed = most
        super().__init__(setting, query)

    @override
    def new_state(self) -> State:
        setting = self.setting
        return State(
            store(rule_of(self.query), SMALL),
            view(self._listed),
            lists(SMALL, len(self.query.streams)),
            np.zeros(SMALL, np.int64),
            emission(setting.k, False),
            counters(),
            np.array([setting.k, setting.span], np.int64),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, batch_of(rows), steps, target, step)

    @override
    def make_room(self, arriving: int) -> None:
        held = self.state.held
        kept = int(held.numbers[LAST] - held.numbers[FIRST])
        room = 2 * (kept + arriving) + SMALL
        self.state = self.state._replace(
            held=enlarged(held, room),
            by_value=roomier_lists(self.state.by_value, room),
            met=np.zeros(room, np.int64),
        )
        _tidy(self.state)

    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        """``alive``: the id, stream number and value of each row so far, of a count window."""
        assert self.held_rows() == window_rows(alive, self.setting.size), "1"


@entry
def _advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    numbers, held = state.numbers, state.held
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        arriving = steps.stop[step] - position
        if held.numbers[LAST] + arriving > len(held.rows.seq):
            alive = held.numbers[LAST] - held.numbers[FIRST]
            if 4 * (alive + arriving) > 3 * len(held.rows.seq):
                return step
            _tidy(state)
        while held.numbers[FIRST] < held.numbers[LAST]:
            if held.rows.until[held.numbers[FIRST]] >= steps.window[step]:
                break
            dismiss(state.seen, held)
        until = steps.window[step] - 1 + numbers[_SPAN]
        for at in range(position, steps.stop[step]):
            if batch.value[at] == batch.value[at]:
                longer = 1 if at >= steps.split[step] else 0
                admit(state.seen, held, batch, at, steps.base[0] + at, until + longer)
                state.work[INSERTIONS] += 1
        position = steps.stop[step]
        if steps.emit[step]:
            if falls_short(state.seen, numbers[_K]):
                _search(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += held.numbers[LAST] - held.numbers[FIRST]
            report(target, step, state.seen.best, numbers[_K], state.memory, True)
        else:
            skip(target, step)
        step += 1
    return step


@entry
def _tidy(state: State) -> None:
    tidy(state.held)
    follow(state.seen, state.held)


@lean
def _search(state: State) -> None:
    """Fill the view by the threshold algorithm. Stops at the depth that proves it right."""
    held, seen, by_value = state.held, state.seen, state.by_value
    merge(by_value, held)
    clear(seen, held)
    for one in range(held.numbers[OBJECTS]):
        state.met[one] = 0
    state.work[RESCANS] += 1
    depth, left = 0, True
    while left:
        left = _read(state, depth)
        threshold = _threshold(held, by_value, depth + 1)
        size = seen.best.size[0]
        if left and size == len(seen.owner) and seen.best.score[size - 1] > threshold:
            raise_floor(seen, threshold, 1 << 62)
            return
        depth += 1


@lean
def _read(state: State, depth: int) -> bool:
    """Meet the objects at one depth of all lists; returns whether there is more below."""
    held, by_value = state.held, state.by_value
    left = False
    for stream in range(held.by.numbers[WIDTH]):
        at = by_value.start[stream] + depth
        if at >= by_value.start[stream + 1]:
            continue
        left = left or at + 1 < by_value.start[stream + 1]
        one = held.rows.owner[place_of_seq(held, by_value.seq[at])]
        state.work[RESCANNED] += 1
        if state.met[one] == 0:
            state.met[one] = 1
            offer(state.seen, held, one)
    return left


@lean
def _threshold(held: Store, by_value: Lists, depth: int) -> float:
    """The best score of an object all of whose rows are at this depth or below."""
    values, by = held.values, held.by
    for stream in range(by.numbers[WIDTH]):
        at = by_value.start[stream] + depth
        values[stream] = np.nan
        if at < by_value.start[stream + 1]:
            values[stream] = by_value.value[at]
            if by.numbers[REPEATS] == ADD:  # sums may have been rounded up
                values[stream] *= by.numbers[MOST] * (1.0 + ROUNDING)
    return score_at(by, values, 0)
