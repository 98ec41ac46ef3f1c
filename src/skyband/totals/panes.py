"""Pane totals: what each key adds up to in each pane, and in the window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, Setting
from skyband.engine.ids import Ids
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.emission import Out
from skyband.order import Ints
from skyband.totals.exact import limbs_for
from skyband.totals.invariants import check
from skyband.totals.loop import advance
from skyband.totals.slots import LATEST, SEEN, hashes
from skyband.totals.state import (
    COUNTS,
    EXTREMES,
    MEANS,
    NEXT,
    OLDEST,
    POSITION,
    SUMS,
    State,
    new_state,
    with_fresh_slots,
    with_limbs,
    with_more_entries,
)

_KINDS = {
    "count": (COUNTS, 1),
    "sum": (SUMS, 1),
    "mean": (MEANS, 1),
    "max": (EXTREMES, 1),
    "min": (EXTREMES, -1),
}
_ONES = np.empty(0, np.int64)


class PaneTotals(Algorithm):
    """Maintains, for each key, an entry per pane that it occurs in, and its total in the window.

    A pane that closes is added to the totals, one that expires is taken away: sums as limbs, which
    lose nothing (:mod:`skyband.totals.exact`). Maxima cannot be taken away; so each key has its
    entries of falling maxima, newest last, linked: the first of them is the maximum of the window.
    Keys whose totals changed are ranked anew when the window is answered.

    Invariants: (1) entries alive are those of the window's panes, and hold what their rows add up
    to; (2) totals are sums over entries alive, or the largest of them; (3) every key that has a
    total is ranked: in a heap if it is at or above the bar.

    Complexity: O(1) per row; per slide O(log n) at most for each key of the panes that came and
    went, and O(k log k); space O(entries + n), n being the keys of the window.
    """

    name = "pane-totals"
    options = ("ties",)
    state: State
    directory: Ids
    """Where the monitor keeps the keys of rows, by sequence number."""

    def __init__(self, setting: Setting, by: str) -> None:
        self._kind = _KINDS[by]
        self.attributes = False  # type: ignore[misc]  # True once rows stand for many
        super().__init__(setting)

    @override
    def new_state(self) -> State:
        return new_state(self.setting.k, *self._kind)

    def reserve(self, rows: Rows, steps: Steps) -> None:
        """Make room for the limbs of these values, and look the batch's keys up."""
        self.state.numbers[POSITION] = 0
        assert rows.id is not None, "rows of totals have keys"
        self._hashes = hashes(rows.id)
        self._bits = rows.score.view(np.int64)
        if self._kind[0] in (SUMS, MEANS):
            lowest, beyond = limbs_for(self._bits)
            if beyond:
                self.state = with_limbs(self.state, lowest, beyond)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        counts = rows.columns[0] if rows.columns else _ONES
        assert rows.id is not None
        batch = (rows.id, self._hashes, rows.score, self._bits, counts)
        return advance(self.state, batch, steps, target, step)

    def make_room(self, arriving: int) -> None:
        """Make room for more keys, or for more entries."""
        state = self.state
        if int(state.numbers[NEXT] - state.numbers[OLDEST]) == len(state.entries.slot):
            self.state = with_more_entries(state)
        else:
            self.state = with_fresh_slots(state)

    def kept(self) -> Ints:
        """The newest row of each key."""
        rows = self.state.slots.rows()
        return np.sort(rows[rows[:, LATEST] >= self.state.numbers[OLDEST], SEEN])

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        check(self.state, self.directory, alive)
