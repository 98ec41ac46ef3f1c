"""TMA: a view of the k to k_max best, computed anew from a grid when it runs short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, best_of
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out, Ranked, ranked, roomier
from skyband.kernels.emission import Emission, emission, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import absorb, better, rank
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, DELETIONS, INSERTIONS, SLIDES, counters
from skyband.order import Ints
from skyband.topk.grid import (
    Arrivals,
    Grid,
    Scratch,
    check_grid,
    grid,
    insert,
    laid_out,
    scan,
    scratch,
    wants_layout,
    window_of,
    with_room,
)


class State(NamedTuple):
    """The window in a grid, and the view of its best.

    ``now``  ``k``; ``k_max``; a lower bound of the sequence numbers in the view (``oldest``); the
             newest object that may be outside of it (``outside``)
    """

    cells: Grid
    best: Ranked  # the view
    memory: Emission
    work: Ints
    now: Record


_NOW = fields("k", "k_max", "oldest", "outside")


class TMA(Algorithm):
    """Maintains the window in a grid, and a view of its k' best objects, k <= k' <= k_max.

    An arrival enters the view if it beats the view's worst object. When expiries leave fewer than
    k, the view is filled up to k_max from the grid, at most once per slide.

    Invariants: (1) the cells of the grid hold exactly the objects of the window; (2) the view is in
    rank order and holds exactly the best of the window, k_max at most; (3) no object outside the
    view is newer than ``outside``.

    Complexity: O(d) per arrival with d attributes, O(log k_max) amortised more if it enters the
    view, O(1) per expiry, O(k) per slide; a computation reads the cells that can hold one of the
    k_max best. Space O(n d).

    Parameters: option ``k_max``, the size of a computed view, 2k by default.

    Reference: Mouratidis et al., SIGMOD 2006, doi:10.1145/1142473.1142544 (TMA), with the view of
    k to k_max objects by which Zhu et al., TKDE 2017, section 2.1, describe the family.

    Deviations: the paper's TMA has k_max = k, which the option gives. Cells list their objects
    newest first, so that expiry costs nothing. The grid is laid out to fit the first full window,
    and again when computations have read too much in vain, as after a drift. It serves one query,
    so its axes are the weighted attributes, and it has no influence lists. The arrivals of a slide
    are merged into the view together.
    """

    name = "tma"
    options = ("k_max",)
    attributes = True
    keeps_window = True
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        self._k_max = view_size(setting, 2 * setting.k)
        return State(
            grid(setting.weights, setting.size if setting.counted else 1),
            ranked(min(self._k_max, 1024)),
            emission(setting.k, setting.changes),
            counters(),
            record(_NOW, k=setting.k, k_max=self._k_max, outside=-1),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        batch = Arrivals(rows.score, rows.columns[0] if rows.columns else rows.score.reshape(-1, 1))
        room = scratch(self.state.cells, self._k_max)
        return _advance(self.state, room, batch, steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        cells = roomy(self.state.cells, self.setting, steps)
        best = roomier(self.state.best, min(self._k_max, len(cells.raw.score)))
        self.state = self.state._replace(cells=cells, best=best)

    @override
    def make_room(self, arriving: int) -> None:
        if wants_layout(self.state.cells):
            self.state = self.state._replace(cells=laid_out(self.state.cells, self.work))

    @override
    def kept(self) -> Ints:
        return window_of(self.state.cells)

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        check_grid(self.state.cells, alive)  # 1
        view, size = self.state.best, int(self.state.best.size[0])
        assert size <= self.state.now[0].k_max, "2: the view is too large"
        seqs = view.seq[:size].tolist()
        assert seqs == best_of(alive, size), "2: the view is not the best of the window"
        assert view.score[:size].tolist() == [alive[seq] for seq in seqs], "2: a score is off"
        outside = set(alive) - set(seqs)
        assert max(outside, default=-1) <= self.state.now[0].outside, "3: the mark is off"


def view_size(setting: Setting, default: int) -> int:
    """The option ``k_max``, validated."""
    k_max = setting.options.get("k_max", default)
    if not isinstance(k_max, (int, np.integer)) or isinstance(k_max, bool) or k_max < setting.k:
        raise QueryError(
            f"k_max is {k_max!r}",
            f"a whole number of at least k = {setting.k}",
            f"leave it out, it is {default} by default",
        )
    return int(k_max)


def roomy(cells: Grid, setting: Setting, steps: Steps) -> Grid:
    """The grid with room for the largest window of these steps. Amortised O(1) per object."""
    if setting.counted or not len(steps.stop):
        return cells
    return with_room(cells, int((steps.base[0] + steps.stop - steps.first).max()))


@entry
def _advance(
    state: State, room: Scratch, batch: Arrivals, steps: Steps, target: Out, step: int
) -> int:
    """Take in a batch from a step on; return the step before which room or a layout is needed."""
    now, cells, best, work = state.now[0], state.cells, state.best, state.work
    fresh, bounds, scores = room.fresh, cells.raw.bounds, batch.score
    k, k_max = now.k, now.k_max
    position = steps.stop[step - 1] if step > 0 else 0
    dirty = True  # an earlier batch may have ended within a step
    while step < len(steps.stop):
        first, stop = steps.first[step], steps.stop[step]
        bounds[0] = max(bounds[0], first)
        if lacks_room(target, k, state.memory) or wants_layout(cells):
            return step
        if now.oldest < first:
            dirty = _expire(best, now, first) or dirty
        insert(cells, batch, position, stop)
        threshold = _threshold(best, now, first)
        for at in range(position, stop):
            if scores[at] >= threshold:
                count = fresh.size[0]
                fresh.score[count] = scores[at]
                fresh.seq[count] = steps.base[0] + at
                fresh.size[0] = count + 1
                if count + 1 == len(fresh.score):
                    dirty = _merge(best, fresh, now, work) or dirty
                    threshold = _threshold(best, now, first)
            elif scores[at] == scores[at]:
                now.outside = steps.base[0] + at
        if fresh.size[0] > 0:
            dirty = _merge(best, fresh, now, work) or dirty
        position = stop
        if not steps.emit[step]:
            skip(target, step)
            step += 1
            continue
        if best.size[0] < k and now.outside >= first:
            work[INSERTIONS] -= best.size[0]
            scan(cells, k_max, best, room, work)
            work[INSERTIONS] += best.size[0]
            now.oldest = first
            if best.size[0] < k_max:  # the view holds the whole window
                now.outside = -1
            dirty = True
        work[SLIDES] += 1
        work[CANDIDATES] += best.size[0]
        report(target, step, best, k, state.memory, dirty)
        dirty = False
        step += 1
    return step


@lean
def _threshold(view: Ranked, now: np.record, first: int) -> float:
    """The score from which an arrival is sure to be among the best."""
    size = view.size[0]
    if now.outside < first and size < now.k_max:
        return -np.inf  # the view holds the whole window
    return view.score[size - 1] if size > 0 else np.inf


@lean
def _merge(view: Ranked, fresh: Ranked, now: np.record, work: Ints) -> bool:
    """Merge arrivals into the view; return whether the k best have changed."""
    k, k_max = now.k, now.k_max
    rank(fresh)
    size, more = view.size[0], fresh.size[0]
    changed = size < k or better(fresh.score[0], fresh.seq[0], view.score[k - 1], view.seq[k - 1])
    if size + more > k_max:
        newest = fresh.seq[0]
        for at in range(1, more):
            newest = max(newest, fresh.seq[at])
        now.outside = max(now.outside, newest)  # an upper bound: which are left out is not known
    taken = absorb(view, fresh, k_max)
    fresh.size[0] = 0
    work[INSERTIONS] += taken
    work[DELETIONS] += size + taken - view.size[0]
    return changed


@lean
def _expire(view: Ranked, now: np.record, first: int) -> bool:
    """Drop expired objects from the view; return whether one of the k best was among them."""
    kept = 0
    hit = False
    oldest = 1 << 62
    for at in range(view.size[0]):
        seq = view.seq[at]
        if seq < first:
            hit = hit or at < now.k
            continue
        oldest = min(oldest, seq)
        view.score[kept] = view.score[at]
        view.seq[kept] = seq
        kept += 1
    view.size[0] = kept
    now.oldest = oldest if kept else first
    return hit
