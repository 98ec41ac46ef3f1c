"""The loop of early aggregation: rows by object, the best of them, and sweeps over what is kept.

EAA keeps what is not surely outranked, the approximate algorithms what is likely enough to matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.incomplete.appearance_model import REFRESHED as FORESEEN
from skyband.incomplete.appearance_model import Foresight, nothing_foreseen
from skyband.incomplete.best_score import (
    CHANCES,
    FORESIGHT,
    KIND,
    REFRESHED,
    STREAMS,
    Hopes,
    learn,
    refresh,
)
from skyband.incomplete.combine import MOST, WIDTH, Rule
from skyband.incomplete.expected_answers import look_ahead
from skyband.incomplete.interval_dominance import Outlook, Sweep, roomier_sweep, sweep, sweeping
from skyband.incomplete.invariants import window_rows
from skyband.incomplete.model_update import (
    account,
    follow_sample,
    is_ready,
    note_answer,
    remember,
    was_dropped,
    watch,
)
from skyband.incomplete.objects import (
    FIRST,
    LAST,
    NONE,
    OBJECTS,
    Batch,
    Store,
    enlarged,
    find,
    rescore,
    store,
    tidy,
)
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.rows import batch_of
from skyband.incomplete.store import SMALL, StoreAlgorithm, rule_of
from skyband.incomplete.top_view import View, admit, dismiss, falls_short, fill, view
from skyband.kernels.emission import Emission, Out, emission, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import (
    CANDIDATES,
    DELETIONS,
    EVENTS,
    INSERTIONS,
    RESCANNED,
    RESCANS,
    SLIDES,
    counters,
)
from skyband.order import Floats, Ints

_K, _SPAN, _UNSETTLED, _WORTH, _SLACK, KEPT, _OBJECTS, _AT = range(8)
_PER_CENT = 100
_REFRESHES = 32  # of estimates, a window


class State(NamedTuple):
    """Rows by object, the best objects, and room to find what is dominated."""

    held: Store
    seen: View
    room: Sweep
    hopes: Hopes
    ahead: Foresight
    memory: Emission
    work: Ints
    numbers: Ints  # see the names above; objects kept are summed over the slides
    error: Floats  # the share of answers that may be missed


class EarlyAggregation(StoreAlgorithm):
    """Maintains the objects, and of each the rows, that may still matter to an answer.

    A subclass says what attributes that were not seen may be worth.
    """

    options: ClassVar[tuple[str, ...]] = ("slack",)
    state: State
    error = 0.0

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        slack = setting.options.get("slack", 0.5)
        if not isinstance(slack, (int, float)) or isinstance(slack, bool) or not 0 <= slack <= 10:
            raise QueryError(f"slack is {slack!r}", "a number from 0 to 10", "leave it out")
        self._slack = float(slack)
        super().__init__(setting, query)

    @override
    def new_state(self) -> State:
        setting = self.setting
        by = rule_of(self.query)
        slack = int(self._slack * _PER_CENT)
        return State(
            store(by, SMALL),
            view(2 * setting.k + 16),
            sweeping(setting.k, SMALL, len(self.query.streams)),
            self.hopes(by),
            self.ahead(by),
            emission(setting.k, False),
            counters(),
            np.array([setting.k, setting.span, 0, 0, slack, 0, 0, 0], np.int64),
            np.array([self.error]),
        )

    def hopes(self, by: Rule) -> Hopes:
        """What unseen attributes may be worth."""
        raise NotImplementedError

    def ahead(self, by: Rule) -> Foresight:
        """What is foreseen of objects."""
        del by
        return nothing_foreseen()

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, step)

    def reserve(self, rows: Rows, steps: Steps) -> None:
        """Begin with the first row of the batch."""
        del rows, steps
        self.state.numbers[_AT] = 0

    def make_room(self, arriving: int) -> None:
        """Make room for more than is kept, right after a sweep; arrivals are swept meanwhile."""
        del arriving
        held = self.state.held
        kept = int(held.numbers[LAST] - held.numbers[FIRST])
        room = kept + 2 * int(self.state.numbers[_WORTH]) + kept // 4 + 2 * SMALL
        larger = enlarged(held, room)
        tidy(larger)
        width = len(self.query.streams)
        self.state = self.state._replace(
            held=larger, room=roomier_sweep(self.state.room, room, width)
        )

    def counters(self) -> dict[str, float]:
        """Work counters: ``candidates`` are instances and ``objects`` distinct ones, kept.

        Exact at answers that follow a sweep, somewhat too many at others.
        """
        found = super().counters()
        return {**found, "objects": int(self.state.numbers[_OBJECTS]) / max(found["slides"], 1)}

    def check_rows(self, alive: Mapping[int, Any]) -> None:
        """Assert what also holds if answers are approximate: (1) and (4) of EAA."""
        past = window_rows(alive, self.query.window.size)
        assert all(past.get(seq) == row for seq, row in self.held_rows().items()), "1"
        assert knows_scores(self.state.held), "4"

    def seen(self) -> dict[int, list[int]]:
        """How often each object that is kept was seen in each stream while it was known."""
        held, width = self.state.held, len(self.query.streams)
        objects = int(held.numbers[OBJECTS])
        seen = held.objects.seen[: objects * width].reshape(objects, width)
        return dict(zip(held.objects.id[:objects].tolist(), seen.tolist(), strict=True))


def check_streams(query: TopKIncomplete, name: str) -> None:
    """Refuse more streams than there can be chances of."""
    if len(query.streams) > STREAMS:
        raise QueryError(
            f"{len(query.streams)} streams for {name}", f"{STREAMS} at most", "use eaa, or auto"
        )


@entry
def advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step in which room ran out.

    ``numbers[_AT]`` notes the row before which that was.
    """
    numbers, held = state.numbers, state.held
    position = max(steps.stop[step - 1] if step > 0 else 0, numbers[_AT])
    while step < len(steps.stop):
        _expire(state, steps.window[step])
        until = steps.window[step] - 1 + numbers[_SPAN]
        for at in range(position, steps.stop[step]):
            if held.numbers[LAST] == len(held.rows.seq):
                settle(state, steps.window[step])
                if held.numbers[LAST] + numbers[_WORTH] + SMALL > len(held.rows.seq):
                    numbers[_AT] = at
                    return step
            if batch.value[at] == batch.value[at]:
                longer = 1 if at >= steps.split[step] else 0
                _insert(state, batch, at, steps.base[0] + at, until + longer)
        position = steps.stop[step]
        if steps.emit[step]:
            if numbers[_UNSETTLED] >= numbers[_WORTH]:
                settle(state, steps.window[step])
            if falls_short(state.seen, numbers[_K]):
                fill(state.seen, held)
                state.work[RESCANS] += 1
                state.work[RESCANNED] += held.numbers[OBJECTS]
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += numbers[KEPT]
            numbers[_OBJECTS] += held.numbers[OBJECTS]
            if state.hopes.numbers[KIND] == FORESIGHT and state.seen.best.size[0] >= numbers[_K]:
                note_answer(state.ahead, state.seen.best.score[numbers[_K] - 1])
            report(target, step, state.seen.best, numbers[_K], state.memory, True)
        else:
            skip(target, step)
        step += 1
    return step


@entry
def knows_scores(held: Store) -> bool:
    """Whether scores are what rows make them."""
    for one in range(held.numbers[OBJECTS]):
        known = held.objects.score[one]
        if held.objects.newest[one] != NONE:
            rescore(held, one)
        if known != held.objects.score[one]:
            return False
    return True


@lean
def _expire(state: State, window: int) -> None:
    """Rows whose last window is before this one leave."""
    held = state.held
    while held.numbers[FIRST] < held.numbers[LAST]:
        if held.rows.until[held.numbers[FIRST]] >= window:
            return
        dismiss(state.seen, held)
        state.numbers[KEPT] -= 1


@lean
def _insert(state: State, batch: Batch, at: int, seq: int, until: int) -> None:
    held, kind = state.held, state.hopes.numbers[KIND]
    if kind == CHANCES:
        learn(state.hopes, held.by, batch.stream[at], batch.id[at], until)
    elif kind == FORESIGHT:
        one, width = find(held, batch.id[at]), held.by.numbers[WIDTH]
        watch(state.ahead, held, one, batch.stream[at], batch.value[at])
        if held.objects.newest[one] == NONE and was_dropped(state.ahead, batch.id[at], until):
            for each in range(one * width, one * width + width):
                held.objects.seen[each] = held.by.numbers[MOST]  # nothing more is hoped for
        follow_sample(state.ahead, width, batch.stream[at], batch.id[at], until)
    admit(state.seen, held, batch, at, seq, until)
    state.numbers[_UNSETTLED] += 1
    state.numbers[KEPT] += 1
    state.work[INSERTIONS] += 1


@entry
def settle(state: State, window: int) -> None:
    """Drop what is dominated by k objects, or unlikely to matter, before a window is answered."""
    held, numbers = state.held, state.numbers
    _look_around(state, window)
    before = held.numbers[LAST] - held.numbers[FIRST]
    outlook = Outlook(state.hopes, state.ahead, window)
    numbers[KEPT] = sweep(held, state.room, outlook, numbers[_K], state.work)
    if state.hopes.numbers[KIND] == FORESIGHT and is_ready(state.ahead):
        account(state.ahead, window, state.error[0])
        _remember_dropped(state)
    tidy(held)
    for one in range(held.numbers[OBJECTS]):
        rescore(held, one)
        held.objects.listed[one] = 0
    state.seen.best.size[0] = 0
    fill(state.seen, held)
    after = held.numbers[LAST]
    state.work[DELETIONS] += before - after
    state.work[EVENTS] += 1
    numbers[_UNSETTLED] = 0
    numbers[_WORTH] = after * numbers[_SLACK] // _PER_CENT


@lean
def _remember_dropped(state: State) -> None:
    """Note the objects of which no row is kept."""
    held = state.held
    for one in range(held.numbers[OBJECTS]):
        newest = held.objects.newest[one]
        if newest != NONE and held.rows.owner[newest] == NONE:
            remember(state.ahead, held.objects.id[one], held.rows.until[newest])


@lean
def _look_around(state: State, window: int) -> None:
    """Bring estimates up to date, if they have grown old."""
    old = max(state.numbers[_SPAN] // _REFRESHES, 1)
    kind = state.hopes.numbers[KIND]
    if kind == CHANCES and window - state.hopes.numbers[REFRESHED] >= old:
        refresh(state.hopes, state.held.by, window)
    elif kind == FORESIGHT and window - state.ahead.numbers[FORESEEN] >= old:
        look_ahead(state.ahead, state.held.by, window)
