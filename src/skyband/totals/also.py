"""Aggregates carried beside the one that ranks: the totals of the keys that a window ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from typing_extensions import override

from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.order import Floats, Ints
from skyband.totals.loop import Wanted, advance
from skyband.totals.panes import PaneTotals, batch_of
from skyband.totals.query import Total
from skyband.totals.state import alive_entries


class CarriedTotals(PaneTotals):
    """Maintains what :class:`PaneTotals` does of one aggregate, but ranks no key.

    Its totals are those of keys that another ranking names. So a window costs the panes that come
    and go, and a look-up for each of its k keys.
    """

    name = "carried-totals"

    def __init__(self, setting: Setting, total: Total) -> None:
        super().__init__(
            replace(setting, k=1, changes=False), total.by, total.whole, 10**total.scale
        )
        self._absent = 0.0 if total.by == "count" else np.nan
        self._wanted: Wanted

    def totals(self, rows: Rows, steps: Steps, keys: Ints, offsets: Ints) -> Floats:
        """Take in a batch; the totals of the keys of each window that it answers, NaN for none.

        ``keys[offsets[i]:offsets[i + 1]]`` are those of the i-th window that is answered.
        """
        begin, end = np.zeros((2, len(steps.stop)), np.int64)
        begin[steps.emit], end[steps.emit] = offsets[:-1], offsets[1:]
        self._wanted = Wanted(keys, begin, end, np.full(len(keys), np.nan))
        self.push(rows, steps)
        total = self._wanted.total
        return np.where(np.isnan(total), self._absent, total)

    def keys(self) -> Ints:
        """The keys that have rows in the window."""
        state, now = self.state, self.state.now[0]
        slots = [state.entries.slot[alive_entries(state)], state.pane.slot[: now.opened]]
        return np.unique(state.slots.key[np.concatenate(slots)])

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, self._wanted, step)
