"""The approximate algorithm: EAA, with best scores by the chance that streams see an object, too.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009, sections
4 and 5.
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
from skyband.incomplete.aggregation import (
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
from skyband.incomplete.combine import ADD, Rule, score_at
from skyband.incomplete.interval_dominance import (
    Sweep,
    begin,
    can_reach,
    drop_dominated,
    meet_pane,
    threshold_of,
)
from skyband.incomplete.objects import NONE, Batch, Store, batch_of, find, streams_seen
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.self_join import SelfJoin, note_repeat, repeats, self_join
from skyband.incomplete.sketch import Sketch, distinct, note, sketch
from skyband.incomplete.top_view import TopView
from skyband.kernels.answers import Out
from skyband.kernels.emission import skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record
from skyband.order import Floats, Ints


class Chances(NamedTuple):
    """How likely streams see an object, learnt from the streams themselves.

    Of the objects of a window that came in some streams, how many came in another, too? A sketch
    per stream counts the objects that came in any of several, and sums and differences of those
    counts tell how many came in all of them.
    """

    value: Floats  # seen * streams + stream: expected, given the streams seen as bits
    times: Floats  # per stream: how often an object comes at most
    union: Floats  # per set of streams: objects that came in any of them
    sketch: Sketch
    joins: SelfJoin
    refreshed: Ints  # one element: the window for which these were computed


class State(NamedTuple):
    """The state of EAA, and chances."""

    store: Store
    top_view: TopView
    sweep: Sweep
    work: Ints
    now: Record  # of AGGREGATION
    chances: Chances


class Approximate(EarlyAggregation):
    """Maintains the objects that may still matter if each comes as others did before it.

    As :class:`skyband.incomplete.eaa.Eaa`, but an attribute that was not seen is not worth the
    highest bound: it is worth that much of the way from the lowest to the highest as is the chance
    to see it, given all streams in which the object came. One sketch per stream, with the last
    window of each bit, counts distinct objects of the window; sums and differences of the counts of
    unions tell how many came in several streams.

    Answers may miss objects that were dropped and came again against the odds; no bound is known
    for how many. Answers that are given have scores that are never too high.

    Options: ``slack`` as of EAA; ``maps`` (256), bitmaps a sketch, a power of two: a count is off
    by about ``0.65 / sqrt(maps)`` of itself, counts of several streams by more.

    With ``repeats=("sum", m)`` an object is taken to come as often, at most, as the average row's
    does, by an AMS sketch of the self-join size, and never more than m times. With
    ``repeats="max"`` values that were seen are taken for known.

    Invariants: (1) and (4) of EAA.

    Complexity: as of EAA, and O(2**streams * maps) for each thirty-second part of a window. Space:
    as of EAA, for fewer objects, and 256 bytes a bitmap.

    Reference: sections 4 and 5.

    Deviations: chances of at most 8 streams; the self-join size over the rows stands for the
    maximum number of occurrences, of which the paper does not say how it follows from it.
    """

    name = "approximate"
    options = ("slack", "maps")
    state: State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        maps = setting.options.get("maps", 256)
        whole = isinstance(maps, int) and not isinstance(maps, bool)
        if not whole or not 1 <= maps <= 1 << 20 or maps & (maps - 1):
            raise QueryError(f"maps is {maps!r}", "a power of two", "leave it out")
        check_streams(query, self.name)
        self._maps = maps
        super().__init__(setting, query)

    @override
    def new_state(self) -> State:
        common = self.common_state()
        chances = new_chances(common["store"].rule, self.setting.span, self._maps)
        return State(**common, chances=chances)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, step)

    @override
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        self.check_rows(alive)


def new_chances(rule: Rule, span: int, maps: int) -> Chances:
    """Chances to be learnt from sketches with so many bitmaps; the highest bounds at first."""
    width = len(rule.high)
    return Chances(
        np.tile(rule.high, 1 << width),
        np.full(width, float(rule.form[0].most)),
        np.zeros(1 << width),
        sketch(width, maps),
        self_join(width, span),
        np.zeros(1, np.int64),
    )


@entry
def advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step in which room ran out."""
    store, view, work, now = state.store, state.top_view, state.work, state.now[0]
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
                count_row(state.chances, store.rule, batch.stream[at], batch.id[at], until)
                obj = find(store, batch.id[at])
                insert(store, view, now, work, obj, batch, at, steps.base[0] + at, until)
        position = steps.stop[step]
        if steps.emit[step]:
            if now.unswept >= now.sweep_after:
                _sweep_up(state, window)
            answer(store, view, now, work, target, step)
        else:
            skip(target, step)
        step += 1
    now.resume_at = 0
    return step


@lean
def _sweep_up(state: State, window: int) -> None:
    """Drop the instances that k objects are expected to dominate."""
    if is_stale(state.store, state.chances.refreshed[0], window):
        refresh(state.chances, state.store.rule, window)
    kept = _sweep_instances(state.store, state.sweep, state.chances, state.work)
    finish_sweep(state.store, state.top_view, state.now[0], state.work, kept)


@lean
def _sweep_instances(store: Store, sweep: Sweep, chances: Chances, work: Ints) -> int:
    """Mark the rows of dominated instances; returns how many instances are not.

    O(rows * (streams + log k)).
    """
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
            if can_reach(store.rule, _expected_score(store, sweep, chances, obj), threshold):
                sweep.since[obj] = until
                kept += 1
        high = low
    drop_dominated(store, sweep)
    return kept


@lean
def _expected_score(store: Store, sweep: Sweep, chances: Chances, obj: int) -> float:
    """The best score, by chance, of the instance that consists of the rows met so far."""
    rule, values = store.rule, store.values
    width, streams = rule.form[0].streams, streams_seen(store, obj)
    base = obj * width
    for stream in range(width):
        times, value = store.objects.seen[base + stream], sweep.values[base + stream]
        values[stream] = expected_value(chances, rule, streams, stream, times, value)
    return score_at(rule, values, 0)


@lean
def expected_value(
    chances: Chances, rule: Rule, streams: int, stream: int, times: int, value: float
) -> float:
    """What an attribute may be worth that came so many times and is now worth ``value``.

    ``streams`` are those in which the object came; NaN stands for no value.
    """
    if times == 0:
        return chances.times[stream] * chances.value[streams * rule.form[0].streams + stream]
    left = chances.times[stream] - times
    if left <= 0.0:
        return value
    return left * rule.high[stream] if value != value else value + left * rule.high[stream]


@lean
def count_row(chances: Chances, rule: Rule, stream: int, object_id: int, until: int) -> None:
    """Count a row that lives until a window. O(1)."""
    note(chances.sketch, stream, object_id, until)
    if rule.form[0].repeats == ADD:
        note_repeat(chances.joins, stream, object_id, until)


@entry
def refresh(chances: Chances, rule: Rule, window: int) -> None:
    """Compute the chances from the objects of a window.

    O(2**streams * maps + 3**streams).
    """
    form = rule.form[0]
    width = form.streams
    for streams in range(1, 1 << width):
        chances.union[streams] = distinct(chances.sketch, streams, window)
    for streams in range(1, 1 << width):
        base = _in_all(chances.union, streams)
        for stream in range(width):
            both = _in_all(chances.union, streams | (1 << stream))
            chance = min(both / base, 1.0) if base >= 1.0 else 1.0
            low, high = rule.low[stream], rule.high[stream]
            chances.value[streams * width + stream] = low + chance * (high - low)
    if form.repeats == ADD:
        for stream in range(width):
            times = np.ceil(repeats(chances.joins, stream, window))
            chances.times[stream] = min(float(form.most), times)
    chances.refreshed[0] = window


@lean
def _in_all(union: Floats, streams: int) -> float:
    """How many objects came in each of these streams: unions, added and taken away."""
    count = 0.0
    some = streams
    while some > 0:
        count += union[some] if _is_odd(some) else -union[some]
        some = (some - 1) & streams
    return max(count, 0.0)


@lean
def _is_odd(streams: int) -> bool:
    """Whether the number of streams is odd."""
    odd = False
    while streams > 0:
        odd = not odd
        streams &= streams - 1
    return odd
