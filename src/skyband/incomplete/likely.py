"""Likely: keep the objects that are expected to answer enough windows, for an error that is set.

Ours, beside the approximate algorithm of Haghani, Michel, Aberer (CIKM 2009).
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
from skyband.incomplete import eaa
from skyband.incomplete.aggregation import (
    MOST_STREAMS,
    EarlyAggregation,
    answer,
    check_streams,
    expire,
    finish_sweep,
    first_row,
    insert,
    is_full,
    is_stale,
    last_window,
    stays_full,
)
from skyband.incomplete.appearance_model import AppearanceModel, new_model
from skyband.incomplete.combine import score_at
from skyband.incomplete.expected_answers import expected_answers, make_tables
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
from skyband.incomplete.model_update import (
    adjust_rate,
    follow_sample,
    is_ready,
    learn_value,
    note_answer,
    note_dropped,
    was_dropped,
)
from skyband.incomplete.objects import NONE, Batch, Store, batch_of, find
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.top_view import TopView
from skyband.kernels.answers import Out
from skyband.kernels.emission import skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record
from skyband.order import Floats, Ints


class Worth(NamedTuple):
    """Scratch room of a sweep: what is expected of each object."""

    answers: Floats  # windows in which it is expected to be an answer,
    rate: Floats  # and their share of the windows for which it would have to be kept


class State(NamedTuple):
    """The state of EAA, a model of appearances, and the worth of objects."""

    store: Store
    top_view: TopView
    sweep: Sweep
    work: Ints
    now: Record  # of AGGREGATION
    worth: Worth
    model: AppearanceModel


class Likely(EarlyAggregation):
    """Maintains the objects that are expected to be an answer often enough.

    An object is worth the number of windows in which it is expected to be an answer: how long it
    lives, times the probability that it reaches the score of an answer, given its values, the
    streams in which it came and how long ago that was. What is learnt for that, see
    :mod:`skyband.incomplete.appearance_model`. Objects worth less than a threshold are dropped,
    unless they are answers now. The worth of all that is dropped in a while is the number of
    answers that windows are expected to miss; the threshold moves so that this is the share
    ``error`` of all answers. So the error is an expectation: it holds as far as streams go on as
    they did, and objects come and score independently of each other given what is learnt.

    Options: ``error`` (0.05), the share of answers that may be missed; with 0 it is EAA, state and
    kernel; ``sample`` (64, or four times the number of sets of streams), objects that are followed
    through all streams; ``slack`` as of EAA.

    Invariants: (1) and (4) of EAA.

    Complexity: as of EAA with a larger constant; tables of O(2**streams * streams) are made for
    each thirty-second part of a window. Space: as of EAA, for fewer objects, and constant space to
    learn.
    """

    name = "likely"
    options = ("slack", "error", "sample")
    state: State | eaa.State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        error = setting.options.get("error", 0.05)
        if not isinstance(error, (int, float)) or isinstance(error, bool) or not 0 <= error < 1:
            raise QueryError(
                f"error is {error!r}", "the share of answers that may be missed", "write error=0.05"
            )
        sample = setting.options.get("sample", max(64, 4 << min(len(query.streams), MOST_STREAMS)))
        if not isinstance(sample, int) or isinstance(sample, bool) or not 1 <= sample <= 1 << 20:
            raise QueryError(f"sample is {sample!r}", "a number of objects", "leave it out")
        check_streams(query, self.name)
        self._error, self._sample = float(error), sample
        super().__init__(setting, query)

    @override
    def new_state(self) -> State | eaa.State:
        common = self.common_state()
        if not self._error:
            return eaa.State(**common)
        model = new_model(common["store"].rule, self.setting.span, self._error, self._sample)
        return State(**common, model=model)

    @override
    def scratch(self, room: int) -> dict[str, Any]:
        scratch = super().scratch(room)
        if self._error:
            scratch["worth"] = Worth(np.zeros(room), np.zeros(room))
        return scratch

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        if isinstance(self.state, State):
            return advance(self.state, batch_of(rows), steps, target, step)
        return eaa.advance(self.state, batch_of(rows), steps, target, step)

    @override
    def counters(self) -> dict[str, float]:
        # expected_error: the share of answers that windows are expected to miss now
        counts = super().counters()
        del counts["broken_promises"]  # objects that were dropped are taken for complete
        loss = float(self.state.model.now[0].loss) if isinstance(self.state, State) else 0.0
        return {**counts, "expected_error": loss / self.setting.k}

    @override
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        self.check_rows(alive)


@entry
def advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step in which room ran out."""
    store, view, work, now = state.store, state.top_view, state.work, state.now[0]
    k, span = store.now[0].k, store.now[0].span
    position = first_row(now, steps, step)
    while step < len(steps.stop):
        window = steps.window[step]
        expire(store, view, now, window)
        for at in range(position, steps.stop[step]):
            if is_full(store):
                _sweep_up(state, window)
                if stays_full(store, now):
                    now.resume_at = at
                    return step
            if batch.value[at] == batch.value[at]:  # not NaN
                until = last_window(store, steps, step, at)
                obj = find(store, batch.id[at])
                _learn(state.model, store, obj, batch, at, until)
                insert(store, view, now, work, obj, batch, at, steps.base[0] + at, until)
        position = steps.stop[step]
        if steps.emit[step]:
            if now.unswept >= now.sweep_after:
                _sweep_up(state, window)
            answer(store, view, now, work, target, step)
            if view.best.size[0] >= k:
                note_answer(state.model, span, view.best.score[k - 1])
        else:
            skip(target, step)
        step += 1
    now.resume_at = 0
    return step


@lean
def _learn(
    model: AppearanceModel, store: Store, obj: int, batch: Batch, at: int, until: int
) -> None:
    """Learn from a row that is about to be added to its object. O(streams)."""
    objects, form, span = store.objects, store.rule.form[0], store.now[0].span
    stream, object_id = batch.stream[at], batch.id[at]
    learn_value(model, store, obj, stream, batch.value[at])
    if objects.newest[obj] == NONE and was_dropped(model, span, object_id, until):
        base = obj * form.streams
        for each in range(base, base + form.streams):
            objects.seen[each] = form.most  # its earlier rows are lost: expect no more of it
    follow_sample(model, store, stream, object_id, until)


@lean
def _sweep_up(state: State, window: int) -> None:
    """Drop the objects that are dominated, or unlikely to answer the windows from this one on."""
    store, model = state.store, state.model
    if is_stale(store, model.now[0].refreshed, window):
        make_tables(model, store, window)
    kept = _sweep_instances(store, state.sweep, state.worth, model, window, state.work)
    if is_ready(model, store.now[0].span):
        adjust_rate(model, store, window)
        _note_dropped(model, store)
    finish_sweep(store, state.top_view, state.now[0], state.work, kept)


@lean
def _sweep_instances(
    store: Store, sweep: Sweep, worth: Worth, model: AppearanceModel, window: int, work: Ints
) -> int:
    """Mark the rows of dominated and of unlikely objects; returns the instances not dominated.

    O(rows * (streams + log k)).
    """
    rows, now = store.rows, store.now[0]
    begin(store, sweep)
    for obj in range(now.objects):
        worth.answers[obj] = 0.0
        worth.rate[obj] = 0.0
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
                answers, wait = expected_answers(
                    model, store, obj, sweep.values, threshold, until, window
                )
                worth.answers[obj] = max(worth.answers[obj], answers)
                worth.rate[obj] = max(worth.rate[obj], answers / wait)
        high = low
    if is_ready(model, now.span):
        _drop_unlikely(store, sweep, worth, model, threshold_of(store, sweep, size))
    drop_dominated(store, sweep)
    return kept


@lean
def _drop_unlikely(
    store: Store, sweep: Sweep, worth: Worth, model: AppearanceModel, threshold: float
) -> None:
    """Keep nothing of objects that are expected to answer too few windows, and are no answers."""
    now, width = model.now[0], store.rule.form[0].streams
    for obj in range(store.now[0].objects):
        if sweep.since[obj] == NEVER or worth.rate[obj] >= now.least_rate:
            continue
        if score_at(store.rule, sweep.values, obj * width) < threshold:
            sweep.since[obj] = NEVER
            now.lost += worth.answers[obj]


@lean
def _note_dropped(model: AppearanceModel, store: Store) -> None:
    """Note the objects of which no row is kept."""
    objects, rows = store.objects, store.rows
    for obj in range(store.now[0].objects):
        newest = objects.newest[obj]
        if newest != NONE and rows.owner[newest] == NONE:
            note_dropped(model, objects.id[obj], rows.until[newest])
