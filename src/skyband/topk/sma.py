"""SMA: the skyband of the best since the last computation, refilled from a grid."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out, Ranked, ranked, roomier
from skyband.kernels.emission import Emission, emission, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import place_of, rank
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
)
from skyband.topk.tma import roomy, view_size


class State(NamedTuple):
    """The window in a grid, and the skyband of its objects above the cut.

    ``now``  ``k``; ``k_max``; a lower bound of the sequence numbers in the band (``oldest``); the
             newest object that may be below the cut (``outside``); the object at the cut, -1 if
             there is none (``cut_seq``), and its score, from which arrivals enter
             (``cut_score``); whether the window has begun to slide (``slid``)
    """

    cells: Grid
    band: Ranked
    dominators: Ints
    memory: Emission
    work: Ints
    now: Record


class Room(NamedTuple):
    """Room for work that is over when a kernel returns."""

    shared: Scratch
    among: Ints  # the dominators of arrivals among themselves
    order: Ints
    spare: Ints


_NOW = fields("k", "k_max", "oldest", "outside", "cut_seq", "slid", real=("cut_score",))

_CROWDED = 4  # the band is cut down when it outgrows this many times k_max


class SMA(Algorithm):
    """Maintains the window in a grid, and the k-skyband of its objects above a cut.

    The cut is the worst object of the last computation, which finds the k_max best. Arrivals from
    the cut up enter the band and dominate the objects behind them; objects with k dominators are
    dropped. When expiries leave fewer than k, the band is computed anew from the grid, at most once
    per slide.

    Invariants: (1) the cells of the grid hold exactly the objects of the window; (2) the band is in
    rank order; (3) it holds exactly the objects at or above the cut that fewer than k others
    dominate; (4) each counter is the exact number of dominators; (5) no object below the cut that
    may be needed is newer than ``outside``.

    Complexity: O(d) per arrival with d attributes; per slide O(b + e log e + k) with b objects in
    the band and e that enter, O(k) if none does; O(1) per expiry. A computation reads the cells
    that can hold one of the k_max best. Space O(n d).

    Parameters: option ``k_max``, the objects that a computation finds, k by default.

    Reference: Mouratidis et al., SIGMOD 2006, doi:10.1145/1142473.1142544 (SMA); described by Zhu
    et al., TKDE 2017, section 2.1, and measured by Yang et al., EDBT 2011, section 6.

    Deviations: the grid is that of TMA, with its deviations. The paper has no ``k_max`` above k,
    which makes computations rarer. The first cut is set without a scan, at the first answer after
    an expiry; until then the band is the whole skyband. A band of more than four times ``k_max`` is
    cut down to ``k_max``, which costs nothing and keeps it small after a rise; in the paper only
    computations move the cut. Equal scores: the newer dominates the older.
    """

    name = "sma"
    options = ("k_max",)
    attributes = True
    keeps_window = True
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        self._k_max = view_size(setting, setting.k)
        return State(
            grid(setting.weights, setting.size if setting.counted else 1),
            ranked(1),
            np.zeros(1, np.int64),
            emission(setting.k, setting.changes),
            counters(),
            record(_NOW, k=setting.k, k_max=self._k_max, outside=-1, cut_seq=-1, cut_score=-np.inf),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        batch = Arrivals(rows.score, rows.columns[0] if rows.columns else rows.score.reshape(-1, 1))
        room = _room(self.state.cells, self._k_max)
        return _advance(self.state, room, batch, steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        cells = roomy(self.state.cells, self.setting, steps)
        self._fit(cells, _room(cells, self._k_max))

    @override
    def make_room(self, arriving: int) -> None:
        if wants_layout(self.state.cells):
            self.state = self.state._replace(cells=laid_out(self.state.cells, self.work))

    def _fit(self, cells: Grid, room: Room) -> None:
        """Make room for the largest band before it is cut down, and what is about to enter it."""
        state = self.state
        most = _CROWDED * self._k_max + len(room.among)
        need = min(most, len(cells.raw.score))
        more = max(0, need - len(state.dominators))
        self.state = state._replace(
            cells=cells,
            band=roomier(state.band, need),
            dominators=np.concatenate([state.dominators, np.zeros(more, np.int64)]),
        )

    @override
    def kept(self) -> Ints:
        return window_of(self.state.cells)

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state, now, k = self.state, self.state.now[0], self.setting.k
        check_grid(state.cells, alive)  # 1
        size = int(state.band.size[0])
        band = list(
            zip(state.band.score[:size].tolist(), state.band.seq[:size].tolist(), strict=True)
        )
        assert band == sorted(band, reverse=True), "2: the band is not in rank order"
        dominators, newer = {}, list[float]()
        for seq in sorted(alive, reverse=True):
            at = bisect_left(newer, alive[seq])
            dominators[seq] = len(newer) - at
            newer.insert(at, alive[seq])
        cut = (float(now.cut_score), int(now.cut_seq))
        needed = {seq for seq in alive if dominators[seq] < k}
        above = {seq for seq in needed if (alive[seq], seq) >= cut}
        assert {seq for _, seq in band} == above, "3: the band is not the skyband above the cut"
        for (score, seq), count in zip(band, state.dominators[:size].tolist(), strict=True):
            assert alive[seq] == score, "3: a score is off"
            assert count == dominators[seq], "4: a dominance counter is off"
        assert max(needed - above, default=-1) <= now.outside, "5: the mark is off"


def _room(cells: Grid, k_max: int) -> Room:
    shared = scratch(cells, k_max)
    fresh = len(shared.fresh.score)
    most = max(fresh, min(k_max, len(cells.raw.score)))
    return Room(
        shared, np.empty(fresh, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    )


@entry
def _advance(
    state: State, room: Room, batch: Arrivals, steps: Steps, target: Out, step: int
) -> int:
    """Take in a batch from a step on; return the step before which room or a layout is needed."""
    now, cells, band, work = state.now[0], state.cells, state.band, state.work
    fresh, scores = room.shared.fresh, batch.score
    k = now.k
    position = steps.stop[step - 1] if step > 0 else 0
    dirty = True  # an earlier batch may have ended within a step
    while step < len(steps.stop):
        first, stop = steps.first[step], steps.stop[step]
        cells.raw.bounds[0] = max(cells.raw.bounds[0], first)
        if lacks_room(target, k, state.memory) or wants_layout(cells):
            return step
        if now.oldest < first:
            dirty = _expire(band, state.dominators, now, first) or dirty
        insert(cells, batch, position, stop)
        for at in range(position, stop):
            if scores[at] >= now.cut_score:
                count = fresh.size[0]
                fresh.score[count] = scores[at]
                fresh.seq[count] = steps.base[0] + at
                fresh.size[0] = count + 1
                if count + 1 == len(fresh.score):
                    dirty = _enter(state, room) or dirty
            elif scores[at] == scores[at]:
                now.outside = steps.base[0] + at
        if fresh.size[0] > 0:
            dirty = _enter(state, room) or dirty
        position = stop
        if not steps.emit[step]:
            skip(target, step)
            step += 1
            continue
        if band.size[0] < k and now.outside >= first:
            _compute(state, room)
            dirty = True
        elif now.slid == 0 and first > 0:
            _cut_down(state)
        if first > 0:
            now.slid = 1
        work[SLIDES] += 1
        work[CANDIDATES] += band.size[0]
        report(target, step, band, k, state.memory, dirty)
        dirty = False
        step += 1
    return step


@lean
def _enter(state: State, room: Room) -> bool:
    """Merge arrivals into the band, update counters, return whether the k best changed.

    Arrivals are newer than every object of the band, so each dominates all that it does not rank
    behind.
    """
    now, band, dominators = state.now[0], state.band, state.dominators
    k = now.k
    fresh, among = room.shared.fresh, room.among
    rank(fresh)
    size, more = band.size[0], fresh.size[0]
    _count_newer(fresh.seq, more, among, room)
    place = place_of(band, fresh.score[0], fresh.seq[0])
    kept, before = place, 0
    for at in range(place, size):
        score = band.score[at]
        while before < more and fresh.score[before] >= score:
            before += 1
        count = dominators[at] + before
        if count < k:
            band.score[kept] = score
            band.seq[kept] = band.seq[at]
            dominators[kept] = count
            kept += 1
    entered = 0
    for at in range(more):
        if among[at] < k:
            fresh.score[entered] = fresh.score[at]
            fresh.seq[entered] = fresh.seq[at]
            among[entered] = among[at]
            entered += 1
    old, new, to = kept, entered, kept + entered
    band.size[0] = to
    while new > 0:
        to -= 1
        if old > place and fresh.score[new - 1] >= band.score[old - 1]:
            old -= 1
            band.score[to] = band.score[old]
            band.seq[to] = band.seq[old]
            dominators[to] = dominators[old]
        else:
            new -= 1
            band.score[to] = fresh.score[new]
            band.seq[to] = fresh.seq[new]
            dominators[to] = among[new]
    fresh.size[0] = 0
    state.work[INSERTIONS] += more
    state.work[DELETIONS] += size + more - band.size[0]
    if band.size[0] > _CROWDED * now.k_max:
        _cut_down(state)
    return bool(place < k)


@lean
def _compute(state: State, room: Room) -> None:
    """Make the band the skyband of the k_max best of the window, and move the cut there."""
    now, band, dominators = state.now[0], state.band, state.dominators
    k, k_max = now.k, now.k_max
    before = band.size[0]
    scan(state.cells, k_max, band, room.shared, state.work)
    size = band.size[0]
    if size == k_max:
        now.cut_score, now.cut_seq = band.score[size - 1], band.seq[size - 1]
    else:  # these are all objects of the window
        now.cut_score, now.cut_seq = -np.inf, -1
        now.outside = -1
    _count_newer(band.seq, size, dominators, room)
    kept = 0
    for at in range(size):
        if dominators[at] < k:
            band.score[kept] = band.score[at]
            band.seq[kept] = band.seq[at]
            dominators[kept] = dominators[at]
            kept += 1
    band.size[0] = kept
    now.oldest = state.cells.raw.bounds[0]
    state.work[INSERTIONS] += kept - before


@lean
def _cut_down(state: State) -> None:
    """Raise the cut to the k_max-th object of the band.

    The counters stay exact: dominators of the objects that are left rank before them.
    """
    now, band = state.now[0], state.band
    size, k_max = band.size[0], now.k_max
    if size < k_max:
        return
    now.cut_score, now.cut_seq = band.score[k_max - 1], band.seq[k_max - 1]
    band.size[0] = k_max
    now.outside = state.cells.raw.bounds[1] - 1
    state.work[DELETIONS] += size - k_max


@lean
def _count_newer(seq: Ints, size: int, count: Ints, room: Room) -> None:
    """Count, for each object of a ranked list, its dominators: the newer ones before it.

    A merge sort by age, newest first: an object taken from the right run is dominated by those
    taken from the left run before it. O(size log size).
    """
    order, spare = room.order, room.spare
    for at in range(size):
        count[at] = 0
        order[at] = at
    width = 1
    while width < size:
        for begin in range(0, size, 2 * width):
            middle, end = min(begin + width, size), min(begin + 2 * width, size)
            left, right = begin, middle
            for to in range(begin, end):
                if left < middle and (right == end or seq[order[left]] > seq[order[right]]):
                    spare[to] = order[left]
                    left += 1
                else:
                    count[order[right]] += left - begin
                    spare[to] = order[right]
                    right += 1
        order, spare = spare, order
        width *= 2


@lean
def _expire(band: Ranked, dominators: Ints, now: np.record, first: int) -> bool:
    """Drop expired objects, which dominate no other; return whether a k best was among them."""
    kept = 0
    hit = False
    oldest = 1 << 62
    for at in range(band.size[0]):
        seq = band.seq[at]
        if seq < first:
            hit = hit or at < now.k
            continue
        oldest = min(oldest, seq)
        band.score[kept] = band.score[at]
        band.seq[kept] = seq
        dominators[kept] = dominators[at]
        kept += 1
    band.size[0] = kept
    now.oldest = oldest if kept else first
    return hit
