"""AMSA, the approximate algorithm that leaves points of low cells alone."""

from __future__ import annotations

from typing_extensions import override

from skyband.dominating.ada import (
    Ada,
    count_points,
    demote_candidates,
    examine,
    promote_candidates,
    renew_bounds,
    start_events,
    take_in,
)
from skyband.dominating.bounds import cell_at, count_cells, least, most
from skyband.dominating.contenders import State as Contending
from skyband.dominating.eva import reference_bound
from skyband.dominating.events.accuracy import gauge_at_times
from skyband.dominating.events.answers import bound_of_event, full
from skyband.dominating.events.loop import (
    finish_step,
    last_due,
    next_arrival,
    next_event,
    ready,
    start_answers,
)
from skyband.dominating.events.state import EXCLUDED, NOTHING, State
from skyband.dominating.point_window import NONE, is_point, seq_of, slot_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import EVENTS
from skyband.order import Floats, Ints

RULES = ("guarded", "paper")
_RENEWALS = 50  # times that bounds of smaller cells are counted while the window is replaced once


class Amsa(Ada):
    """Maintains what ADA does, for points of promising cells only.

    A point is excluded for good if its cell is low: if the smallest score of the cell is further
    behind the k-th score than that is behind the best one. Option ``rule`` says when that is
    applied: ``"paper"`` always, with the cells of the grid, as the paper has it; ``"guarded"``, the
    default, with smaller cells, and only if the largest score of the cell does not reach the k-th,
    so that no point is excluded that may be an answer at that moment. There is no guarantee; if the
    distribution of the stream changes, answers may be missed.

    Complexity: as ADA's, with fewer events; by the paper's rule hardly any, and hardly any exact
    scores, on streams whose best score is less than twice the k-th.

    Reference: Kontaki et al., TKDE 2012, section 7.2.

    Deviations: the rule ``"guarded"``, see PAPERS.md.
    """

    name = "amsa"
    options = ("obsolete", "partial", "rule")
    approximate = True

    @override
    def settings(self) -> dict[str, int]:
        rule = self.setting.options.get("rule", "guarded")
        if not isinstance(rule, str) or rule not in RULES:
            raise QueryError(
                f"rule is {rule!r}", "'guarded' or 'paper'", "leave it out for 'guarded'"
            )
        return {**super().settings(), "guarded": int(rule == "guarded")}

    @override
    def advance(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        attributes = rows.columns[0]
        return _advance(self.state, rows.score, attributes, steps, target, self.missed, step)

    @override
    def begin(self, contending: Contending) -> None:
        _begin(self.state, contending)


@entry
def _advance(
    state: State,
    scores: Floats,
    attributes: Floats,
    steps: Steps,
    target: Out,
    missed: Ints,
    step: int,
) -> int:
    """Take in a batch from a step on; return the step before which it must be started anew."""
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if not state.now[0].taken_in:
            take_in(state, scores, attributes, position, steps.stop[step], steps.first[step])
        if steps.emit[step]:
            if not ready(state):
                return step
            _settle(state)
        if not finish_step(state, steps, target, missed, step):
            return step
        position = steps.stop[step]
        step += 1
    return step


@entry
def _begin(state: State, contending: Contending) -> None:
    count_points(state)
    start_answers(state, contending)
    renew_bounds(state)
    _renew_fine_bounds(state)
    _exclude_points(state)
    start_events(state, contending)


@lean
def _settle(state: State) -> None:
    """Examine the new points and those whose events are due, unless they are excluded."""
    promote_candidates(state)
    renew_bounds(state)
    _renew_fine_bounds(state)
    slot = next_arrival(state)
    while slot != NONE:
        if not _exclude(state, slot):
            examine(state, seq_of(state.window, slot), slot, reference_bound(state, slot))
        slot = next_arrival(state)
    last = last_due(state)
    slot = next_event(state, last)
    while slot != NONE:
        if not _exclude(state, slot):
            examine(state, seq_of(state.window, slot), slot, bound_of_event(state, slot))
        slot = next_event(state, last)
    demote_candidates(state)
    gauge_at_times(state)


@lean
def _exclude_points(state: State) -> None:
    """Exclude points of the whole window, before events are generated for the others."""
    window, span = state.window, state.window.now[0]
    for seq in range(span.oldest, span.end):
        slot = slot_of(window, seq)
        if is_point(window, slot) and state.kind[slot] == NOTHING and _exclude(state, slot):
            state.work[EVENTS] += 1


@lean
def _exclude(state: State, slot: int) -> bool:
    """Exclude a point if its cell is low; whether it is excluded."""
    excluded = amsa_excludes(state, slot)
    if excluded:
        state.kind[slot] = EXCLUDED
    return excluded


@lean
def amsa_excludes(state: State, slot: int) -> bool:
    """Whether the cell of a point is so far behind the answers that the point is excluded.

    The paper's rule: score_1 - score_k < score_k - minscore(cell).
    """
    now, span, best = state.now[0], state.window.now[0], state.best
    if not full(state):
        return False
    first, last = best.score[0], best.score[now.k - 1]
    if now.guarded:
        if now.fine_bounded_at == NONE:
            return False
        cell = cell_at(state.window, slot, state.fine.side[0])
        highest = most(state.fine, cell) + span.arrived - now.fine_bounded_at
        return highest < last and first - last < last - least(state.fine, cell, span.width)
    if now.bounded_at == NONE:
        return False
    return first - last < last - least(state.limits, state.grid.cell[slot], span.width)


@lean
def _renew_fine_bounds(state: State) -> None:
    """Count the bounds of smaller cells anew if they have not been counted for long."""
    now, span = state.now[0], state.window.now[0]
    since = span.arrived - now.fine_bounded_at
    if full(state) and (now.fine_bounded_at == NONE or since * _RENEWALS >= span.points):
        now.fine_bounded_at = span.arrived
        count_cells(state.window, state.fine)
