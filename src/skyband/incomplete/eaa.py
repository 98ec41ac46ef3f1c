"""EAA, the early aggregation algorithm: keep what is not surely outranked for the rest of its life.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from typing_extensions import override

from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.incomplete.aggregation import (
    EarlyAggregation,
    answer,
    expire,
    finish_sweep,
    first_row,
    insert,
    is_full,
    last_window,
    stays_full,
)
from skyband.incomplete.combine import MAX, score_at
from skyband.incomplete.interval_dominance import (
    NEVER,
    Sweep,
    begin,
    can_reach,
    drop_dominated,
    highest_score,
    meet_pane,
    threshold_of,
)
from skyband.incomplete.invariants import check_dominance
from skyband.incomplete.objects import NONE, Batch, Store, batch_of, find, scores_are_current
from skyband.incomplete.top_view import TopView
from skyband.kernels.answers import Out
from skyband.kernels.emission import skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record
from skyband.order import Ints


class State(NamedTuple):
    """Rows by object, the best objects, and room for sweeps."""

    store: Store
    top_view: TopView
    sweep: Sweep
    work: Ints
    now: Record  # of AGGREGATION


class Eaa(EarlyAggregation):
    """Maintains the objects, and of each the rows, that may still matter to an answer.

    The *instance* of an object for a window is what it will be there if nothing more arrives: made
    of the rows that live that long. It has a current score, and a best score that it may reach
    until it expires: what was seen is known, what was seen and will have expired counts least, and
    what was not seen may be the highest. An instance is dominated by one of another object that
    lives at least as long and whose current score is higher than its best. Current scores only
    rise, best scores only fall: once dominated, always dominated.

    Instances of one last window live equally long. So one threshold per last window tells which
    are dominated by ``k`` objects: the k-th best, over distinct objects, of the current scores that
    live at least that long. A sweep from the newest rows to the oldest finds all of them with one
    heap, and no counters.

    With ``repeats="max"`` a value may be seen again, so nothing is known for sure: there, the best
    score of a row is what the object can reach while that very row matters.

    Options: ``slack`` (0.5), the share of rows that may arrive before the next sweep. With 0 there
    is one at every answer, and what is kept then is the k dominance set and nothing else.

    Invariants: (1) the rows kept are rows of the window; (2) an instance that is not kept has k
    dominators among those kept; (3) after a sweep, an instance that is kept has fewer than k, its
    best score being as high as the rows kept allow; (4) the scores of objects are those of their
    rows.

    Complexity: O(streams) per arrival, and a sweep of O(kept (streams + log k)) for every
    ``slack * kept`` arrivals; O(k) for a change among the best. Space: O(k dominance set).

    A sweep within a step is as right as one after it: rows that have come are there when it ends.

    Reference: section 3.2.

    Deviations: thresholds instead of counters and lists of dominators; windows instead of moments
    as expiry times; sweeps.
    """

    name = "eaa"
    state: State

    @override
    def new_state(self) -> State:
        return State(**self.common_state())

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, step)

    @override
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        # alive: the id, stream number and value of each row so far, of a count window
        sweep_up(self.state)
        rows, count = self.stored_rows(), int(self.state.now[0].kept)
        check_dominance(
            self.query, self.setting.k, self.last_window, alive, rows, self.seen(), count
        )
        assert scores_are_current(self.state.store), "4"


@entry
def advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step in which room ran out."""
    store, view, work, now = state.store, state.top_view, state.work, state.now[0]
    position = first_row(now, steps, step)
    while step < len(steps.stop):
        expire(store, view, now, steps.window[step])
        for at in range(position, steps.stop[step]):
            if is_full(store):
                sweep_up(state)
                if stays_full(store, now):
                    now.resume_at = at
                    return step
            if batch.value[at] == batch.value[at]:  # not NaN
                until = last_window(store, steps, step, at)
                obj = find(store, batch.id[at])
                insert(store, view, now, work, obj, batch, at, steps.base[0] + at, until)
        position = steps.stop[step]
        if steps.emit[step]:
            if now.unswept >= now.sweep_after:
                sweep_up(state)
            answer(store, view, now, work, target, step)
        else:
            skip(target, step)
        step += 1
    now.resume_at = 0
    return step


@entry
def sweep_up(state: State) -> None:
    """Drop the instances that k objects dominate. O(rows * (streams + log k))."""
    store = state.store
    if store.rule.form[0].repeats == MAX:
        kept = _sweep_rows(store, state.sweep, state.work)
    else:
        kept = _sweep_instances(store, state.sweep, state.work)
    finish_sweep(store, state.top_view, state.now[0], state.work, kept)


@lean
def _sweep_instances(store: Store, sweep: Sweep, work: Ints) -> int:
    """Mark the rows of dominated instances; returns how many instances are not."""
    rows, now = store.rows, store.now[0]
    begin(store, sweep)
    size, kept, high = 0, 0, now.end
    while high > now.first:
        low, size = meet_pane(store, sweep, high, size, work)
        threshold = threshold_of(store, sweep, size)
        for row in range(low, high):
            obj, until = rows.owner[row], rows.until[row]
            if obj == NONE or sweep.since[obj] == until:
                continue
            if can_reach(store.rule, highest_score(store, sweep, obj), threshold):
                sweep.since[obj] = until
                kept += 1
        high = low
    drop_dominated(store, sweep)
    return kept


@lean
def _sweep_rows(store: Store, sweep: Sweep, work: Ints) -> int:
    """Mark the rows with which no object can reach the threshold; returns how many can.

    The newest row of an object is left: it decides between equal scores while others are kept.
    """
    rows, rule, values, now = store.rows, store.rule, store.values, store.now[0]
    begin(store, sweep)
    for stream in range(rule.form[0].streams):
        values[stream] = rule.high[stream]
    size, kept, high = 0, 0, now.end
    while high > now.first:
        low, size = meet_pane(store, sweep, high, size, work)
        threshold = threshold_of(store, sweep, size)
        for row in range(low, high):
            obj, stream = rows.owner[row], rows.stream[row]
            if obj == NONE:
                continue
            values[stream] = rows.value[row]
            if not threshold > score_at(rule, values, 0):
                sweep.since[obj] = rows.until[row]
                kept += 1
            elif row != store.objects.newest[obj]:
                rows.owner[row] = NONE
            values[stream] = rule.high[stream]
        high = low
    _drop_lonely(store, sweep)
    return kept


@lean
def _drop_lonely(store: Store, sweep: Sweep) -> None:
    """Mark the newest rows of objects of which nothing else is kept."""
    for obj in range(store.now[0].objects):
        newest = store.objects.newest[obj]
        if newest != NONE and sweep.since[obj] == NEVER:
            store.rows.owner[newest] = NONE
