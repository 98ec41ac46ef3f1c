"""Pane totals: what each key adds up to in each pane, and in the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.order import Ints
from skyband.query import RANK_BYS
from skyband.totals.invariants import check
from skyband.totals.loop import Batch, Wanted, advance
from skyband.totals.slots import BLOCK
from skyband.totals.state import (
    COUNTS,
    ENTRIES,
    EXTREMES,
    FIRSTS,
    LASTS,
    LATEST,
    LIMBS,
    MEANS,
    PANE_SUM,
    SEEN,
    SUMS,
    State,
    new_scratch,
    new_state,
    sum_width,
    total_width,
    with_fresh_slots,
    with_joined_entries,
    with_limbs,
    with_more_entries,
)

_AGGREGATES = {
    "count": (COUNTS, 1),
    "sum": (SUMS, 1),
    "mean": (MEANS, 1),
    "max": (EXTREMES, 1),
    "min": (EXTREMES, -1),
    "first": (FIRSTS, 1),
    "last": (LASTS, 1),
}
_NONE = np.empty(0, np.int64)
_NOTHING = Wanted(_NONE, _NONE, _NONE, np.empty(0))


class PaneTotals(Algorithm):
    """Maintains, for each key, an entry per pane that it occurs in, and its total in the window.

    Rows are added to the open pane. A pane that closes is added to the totals, one that expires is
    taken away: sums as limbs, which lose nothing (:mod:`skyband.totals.exact`). Maxima cannot be
    taken away; so each key has its entries of falling maxima, newest last, linked: the first of
    them is the maximum of the window. Of first values all entries are linked, of last values only
    the newest. Keys whose totals changed are ranked anew when the window is answered.

    Rows come with their keys as ids and, if rows stand for several, with a column of counts. If
    values are ``whole`` numbers, scores are their codes, and so are sums, maxima and minima; means
    are told in ``unit`` of them.

    Invariants: (1) entries alive are those of the window's panes, and hold what their rows add up
    to; (2) totals are sums over entries alive, or the largest, oldest or newest of them; (3) every
    key that has a total is ranked: in a heap if it is at or above the threshold; (4) the k best are
    in the heap and, where keys of equal totals share a rank, all of rank k or less.

    Complexity: O(1) per row; per slide O(log n) at most for each key of the panes that came and
    went, and O(r log r) for the r keys that are ranked, k unless they share ranks; space
    O(entries + n), n being the keys of the window. Where panes leave together, a key's entries are
    joined into one when room runs out: space O(n).
    """

    name = "pane-totals"
    options = ("ties",)
    state: State
    """Set by the monitor, and no longer read here."""

    def __init__(self, setting: Setting, by: str, whole: bool = False, unit: int = 1) -> None:
        self._aggregate = _AGGREGATES[by]
        self._whole, self._unit = whole, unit
        super().__init__(setting)

    @override
    def new_state(self) -> State:
        setting = self.setting
        order = setting.oldest_first, RANK_BYS.index(setting.rank_by)
        return new_state(setting.k, *self._aggregate, self._whole, self._unit, *order)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        self.state.now["position"] = 0  # several times as fast as by the record's attribute

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, batch_of(rows), steps, target, _NOTHING, step)

    @override
    def lacking(self, target: Out) -> int:
        return int(self.state.now[0].unwritten)

    @override
    def make_room(self, arriving: int) -> None:
        lacking = int(self.state.now[0].lacking)
        if lacking == LIMBS:
            self.state = with_limbs(self.state)
        elif lacking == ENTRIES:
            if self.setting.together:
                self.state = with_joined_entries(self.state)
            now = self.state.now[0]
            if 2 * (now.next - now.oldest + now.opened + BLOCK) > len(self.state.entries.slot):
                self.state = with_more_entries(self.state)
        else:
            self.state = with_fresh_slots(self.state)

    @override
    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        # snapshots of earlier versions do not say it, and have less room to divide a sum in
        unspoken = {
            "now.whole": np.zeros(1, np.int64),
            "now.unit": np.ones(1, np.int64),
            "pane.time": np.zeros(1, np.int64),
            "now.turn": np.ones(1, np.int64),
            **{f"now.{n}": np.zeros(1, np.int64) for n in ("rank_by", "written", "unwritten")},
        }
        super().restored(header, {**unspoken, **arrays})
        self.state = self.state._replace(scratch=new_scratch(int(self.state.now[0].limbs)))

    @override
    def kept(self) -> Ints:
        """Ascending sequence numbers of the newest row of each key."""
        state, now = self.state, self.state.now[0]
        aggregate, limbs, used = int(now.aggregate), int(now.limbs), int(now.used)
        seen = state.pane.sums.reshape(-1, PANE_SUM + sum_width(aggregate, limbs))[:used, SEEN]
        latest = state.totals.reshape(-1, total_width(aggregate, limbs))[:used, LATEST]
        is_open = np.zeros(used, np.bool_)
        is_open[state.pane.slot[: now.opened]] = True
        kept: Ints = np.sort(seen[(latest >= now.oldest) | is_open])
        return kept

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(
        self, alive: Mapping[int, float], keys: Mapping[int, int] | None = None
    ) -> None:
        """Assert the invariants, given the values of the rows alive, and their keys."""
        assert keys is not None, "keys of the rows are needed"
        check(self.state, alive, keys)


def batch_of(rows: Rows) -> Batch:
    """Rows as the kernel takes them."""
    assert rows.id is not None, "rows of totals have keys"
    counts = rows.columns[0] if rows.columns else _NONE
    times = _NONE if rows.time is None else rows.time
    return rows.id, rows.score, rows.score.view(np.int64), counts, times
