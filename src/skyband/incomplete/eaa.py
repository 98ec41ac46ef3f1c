"""EAA, the early aggregation algorithm: keep what is not surely outranked for the rest of its life.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from skyband.errors import QueryError
from skyband.incomplete.checking import check_dominance
from skyband.incomplete.dominance import Sweep, roomier_sweep, sweep, sweeping
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.rows import batch_of
from skyband.incomplete.store import SMALL, StoreAlgorithm, rule_of
from skyband.kernels.emission import Emission, Out, emission, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.objects import (
    FIRST,
    LAST,
    NONE,
    OBJECTS,
    Batch,
    Store,
    enlarged,
    rescore,
    store,
    tidy,
)
from skyband.kernels.view import View, admit, dismiss, falls_short, fill, view
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
from skyband.panes import Steps
from skyband.topk.algorithm import Setting

_K, _SPAN, _UNSETTLED, _WORTH, _SLACK, _KEPT, _OBJECTS, _AT = range(8)
_PER_CENT = 100


class State(NamedTuple):
    """Rows by object, the best objects, and room to find what is dominated."""

    held: Store
    seen: View
    room: Sweep
    memory: Emission
    work: Ints
    numbers: Ints  # see the names above; objects kept are summed over the slides


class Eaa(StoreAlgorithm):
    """Maintains the objects, and of each the rows, that may still matter to an answer.

    The *instance* of an object for a window is what it will be there if nothing more arrives: made
    of the rows that live that long. It has a current score, and a best score that it may reach
    until it expires: what was seen is known, what was seen and will have expired counts least, and
    what was not seen may be the highest. An instance is dominated by one of another object that
    lives at least as long and whose current score is higher than its best. Current scores only
    rise, best scores only fall: once dominated, always dominated.

    Instances of one last window live equally long. So one threshold per last window tells who is
    dominated by ``k`` objects: the k-th best, over distinct objects, of the current scores that
    live at least that long. A sweep from the newest rows to the oldest finds all of them with one
    heap, and no counters.

    With ``repeats="max"`` a value may be seen again, so nothing is known for sure: there, the best
    score of a row is what the object can reach while that very row matters.

    Options: ``slack`` (0.5), the share of rows that may arrive before the next sweep. With 0 there
    is one at every answer, and what is kept then is the k dominance set and nothing else.

    Invariants: (1) the rows kept are rows of the window; (2) an instance that is not kept has k
    dominators among those kept; (3) after a sweep, an instance that is kept has fewer than k, its
    best score being as high as the rows kept allow; (4) objects know their scores.

    Complexity: O(streams) per arrival, and a sweep of O(kept (streams + log k)) for every
    ``slack * kept`` arrivals; O(k) for a change among the best. Space: O(k dominance set).

    A sweep within a step is as right as one after it: who has come will be there when it ends.

    Deviations: thresholds instead of counters and lists of dominators; windows instead of moments
    as expiry times; sweeps.
    """

    name = "eaa"
    options = ("slack",)
    state: State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        slack = setting.options.get("slack", 0.5)
        if not isinstance(slack, (int, float)) or isinstance(slack, bool) or not 0 <= slack <= 10:
            raise QueryError(f"slack is {slack!r}", "a number from 0 to 10", "leave it out")
        self._slack = float(slack)
        super().__init__(setting, query)

    def new_state(self) -> State:  # noqa: D102
        setting = self.setting
        by = rule_of(self.query)
        slack = int(self._slack * _PER_CENT)
        return State(
            store(by, SMALL),
            view(2 * setting.k + 16),
            sweeping(setting.k, SMALL, len(self.query.streams)),
            emission(setting.k, False),
            counters(),
            np.array([setting.k, setting.span, 0, 0, slack, 0, 0, 0], np.int64),
        )

    def run(  # noqa: D102
        self, scores: Floats, attributes: Floats | None, steps: Steps, target: Out, step: int
    ) -> int:
        assert attributes is not None
        return _advance(self.state, batch_of(scores, attributes), steps, target, step)

    def welcome(self, scores: Floats, steps: Steps) -> None:
        """Begin with the first row of the batch."""
        del scores, steps
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

    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        """``alive``: the id, stream number and value of each row so far, of a count window."""
        _settle(self.state)
        kept = self.held_rows()
        count = int(self.state.numbers[_KEPT])
        check_dominance(
            self.query, self.setting.k, self.last_window, alive, kept, self.seen(), count
        )
        assert _knows_scores(self.state.held), "4"

    def seen(self) -> dict[int, list[int]]:
        """How often each object that is kept was seen in each stream while it was known."""
        held, width = self.state.held, len(self.query.streams)
        objects = int(held.numbers[OBJECTS])
        seen = held.objects.seen[: objects * width].reshape(objects, width)
        return dict(zip(held.objects.id[:objects].tolist(), seen.tolist(), strict=True))


@entry
def _advance(state: State, batch: Batch, steps: Steps, target: Out, step: int) -> int:
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
                _settle(state)
                if held.numbers[LAST] + numbers[_WORTH] + SMALL > len(held.rows.seq):
                    numbers[_AT] = at
                    return step
            if batch.value[at] == batch.value[at]:
                longer = 1 if at >= steps.split[step] else 0
                _insert(state, batch, at, steps.base[0] + at, until + longer)
        position = steps.stop[step]
        if steps.emit[step]:
            if numbers[_UNSETTLED] >= numbers[_WORTH]:
                _settle(state)
            if falls_short(state.seen, numbers[_K]):
                fill(state.seen, held)
                state.work[RESCANS] += 1
                state.work[RESCANNED] += held.numbers[OBJECTS]
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += numbers[_KEPT]
            numbers[_OBJECTS] += held.numbers[OBJECTS]
            report(target, step, state.seen.best, numbers[_K], state.memory, True)
        else:
            skip(target, step)
        step += 1
    return step


@entry
def _knows_scores(held: Store) -> bool:
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
        state.numbers[_KEPT] -= 1


@lean
def _insert(state: State, batch: Batch, at: int, seq: int, until: int) -> None:
    admit(state.seen, state.held, batch, at, seq, until)
    state.numbers[_UNSETTLED] += 1
    state.numbers[_KEPT] += 1
    state.work[INSERTIONS] += 1


@entry
def _settle(state: State) -> None:
    """Drop what is dominated by k objects."""
    held, numbers = state.held, state.numbers
    before = held.numbers[LAST] - held.numbers[FIRST]
    numbers[_KEPT] = sweep(held, state.room, numbers[_K], state.work)
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
