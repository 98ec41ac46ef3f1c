"""What EVA, ADA, AHBA and AMSA have in common, in Python: their state, its room, a new start."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import ClassVar

import numpy as np
from typing_extensions import override

from skyband.dominating.bounds import bounds, cell_at, side_of
from skyband.dominating.cells import cells, put
from skyband.dominating.contenders import State as Contending
from skyband.dominating.contenders import contend
from skyband.dominating.events.answers import bound_of_event
from skyband.dominating.events.calendar import calendar
from skyband.dominating.events.state import (
    CANDIDATE,
    EVENT,
    NOW,
    OBSOLETE,
    TOP,
    Samples,
    State,
    packed_codes,
)
from skyband.dominating.exact_scores import exact_scores
from skyband.dominating.point_window import (
    NONE,
    PointWindow,
    is_point,
    point_window,
    slot_of,
    stale,
)
from skyband.dominating.window import WindowAlgorithm
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out, ranked
from skyband.kernels.jit import entry
from skyband.kernels.records import record
from skyband.kernels.work import counters
from skyband.order import Floats

_MOST = 1 << 24  # answers at most: room for them is made at once
_PER_CELL = 64  # points per cell of the grid
_SEED = 20111213  # of the random numbers


class EventAlgorithm(WindowAlgorithm):
    """Maintains the k best points, and for every other one a tick until which it cannot be one.

    Invariants: (1) the point window holds the points of the window; (2) the k best are right, and
    their scores and those of candidates exact; (3) the score noted for an event, plus the arrivals
    since, is no less than the point's; (4) the tick noted is safe; (5) the counters of a point do
    not exceed the number of points that dominate it, expire later and are not answers.
    """

    approximate: ClassVar[bool] = False
    state: State

    @abstractmethod
    def advance(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        """Run the algorithm's own kernel, as :meth:`run` does."""

    @abstractmethod
    def begin(self, contending: Contending) -> None:
        """Forget all events, and generate them anew from contenders and bounds of scores."""

    def settings(self) -> dict[str, int]:
        """What options ask for, as fields of the state's record."""
        share = self.setting.options.get("obsolete", 1.0)
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) <= 1:
            raise QueryError(
                f"obsolete is {share!r}", "the share of obsolete events to keep, 0 to 1"
            )
        return {"obsolete_kept": round(1000 * float(share))}

    @override
    def new_state(self) -> State:
        setting, width = self.setting, self.width
        if setting.k > _MOST:
            raise QueryError(
                f"k is {setting.k:,} for {self.name}", f"{_MOST:,} at most", "use auto"
            )
        self.missed = np.zeros(0, np.int64)
        none = np.zeros(0, np.int64)
        now = record(
            NOW,
            k=setting.k,
            window_size=setting.size if setting.counted else 0,
            must_start=1,
            random=_SEED,
            **self.settings(),
        )
        state = State(
            point_window(self.least_room(), width),
            cells(0, 2, width),
            exact_scores(setting.k + 1, width),
            ranked(setting.k + 1),
            np.zeros(setting.k + 2, np.int64),
            np.zeros(setting.k + 2, np.int64),
            none,
            none,
            none,
            none,
            calendar(0),
            exact_scores(1, width),
            bounds(2, width),
            none,
            none,
            none,
            Samples(exact_scores(1, width), none, none, none, none, none),
            bounds(2, width),
            counters(),
            now,
        )
        return self.rebuilt(state)

    @override
    def least_room(self) -> int:
        # Growing means starting anew: approximate answers of count windows would depend on how a
        # stream is cut into batches, so they get room for the whole window at once.
        setting = self.setting
        return setting.size + setting.slide if setting.counted and self.approximate else 64

    def rebuilt(self, state: State) -> State:
        """The state for codes chosen anew: points by cell, and nothing counted; events stay."""
        now, span = state.now[0], state.window.now[0]
        points, slots = int(span.points), int(span.slots)
        now.bounded_at = now.fine_bounded_at = NONE
        if len(state.kind) != slots:
            now.must_start = 1  # slots have moved
            state = state._replace(
                place=np.full(slots, NONE, np.int64),
                kind=np.zeros(slots, np.int64),
                score=np.zeros(slots, np.int64),
                generated_at=np.zeros(slots, np.int64),
                calendar=calendar(slots),
            )
            state.best.size[0] = state.top.size[0] = state.candidates.size[0] = 0
        fine = side_of(points, self.width, 1.0) if self.approximate else 2
        state = state._replace(
            grid=cells(slots, side_of(points, self.width, _PER_CELL), self.width),
            fine=bounds(fine, self.width),
        )
        _sort_into_cells(state)
        return state

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        if step == 0 and not self.state.now[0].taken_in:
            self.missed = np.zeros(len(steps.stop), np.int64)
        return self.advance(rows, steps, target, step)

    @override
    def resized(self, window: PointWindow) -> None:
        self.state = self.state._replace(window=window)

    @override
    def recoded(self) -> None:
        self.state = self.rebuilt(self.state)

    @override
    def make_room(self, arriving: int) -> None:
        # what is lacking is a start, or codes that suit the points
        del arriving
        if bool(stale(self.state.window)):
            self.recode()
        if self.state.now[0].must_start:
            self.start()

    def start(self) -> None:
        """Find the k best, and schedule events for all others from bounds of their scores."""
        self.begin(contend(self.state.window, self.setting.k, self.state.work))

    @override
    def accuracies(self, steps: Steps) -> Floats:
        del steps
        shares: Floats = np.maximum(1 - self.missed / (1000 * self.setting.k), 0.0)
        return shares

    def events_kept(self) -> int:
        """How many events there are, obsolete ones among them."""
        return int(np.isin(self.state.kind, (EVENT, OBSOLETE)).sum())

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state, now = self.state, self.state.now[0]
        seqs, scores = self.true_scores(alive)
        if now.must_start:
            return  # nothing has been answered since it must start anew
        score_of = dict(zip(seqs, scores, strict=True))
        for points in (state.top, state.candidates):
            for at in range(int(points.size[0])):
                assert points.score[at] == score_of[int(points.seq[at])], "2: a score is off"
        slot_of_seq = {seq: seq & (int(state.window.now[0].slots) - 1) for seq in seqs}
        top = [seq for seq in seqs if state.kind[slot_of_seq[seq]] == TOP]
        if not self.approximate:
            right = sorted(seqs, key=lambda seq: (score_of[seq], seq), reverse=True)[: now.k]
            assert sorted(right) == top, "2: the k best are wrong"
        for seq, slot in slot_of_seq.items():
            kind = state.kind[slot]
            if kind == EVENT:
                assert state.calendar.due[slot] > now.processed, "4: an event is overdue"
            if self.approximate:
                continue
            if kind in (EVENT, OBSOLETE):
                bound = int(_bound_of_event(state, slot))
                assert score_of[seq] <= bound, "3: a score exceeds its bound"
            assert kind in (EVENT, OBSOLETE, CANDIDATE, TOP) or now.obsolete_kept < 1000, (
                "4: a point is not watched"
            )


@entry
def _sort_into_cells(state: State) -> None:
    window, span = state.window, state.window.now[0]
    for seq in range(span.oldest, span.end):
        slot = slot_of(window, seq)
        if is_point(window, slot):
            put(state.grid, slot, cell_at(window, slot, state.grid.side[0]))
    for at in range(state.top.size[0]):
        state.top_codes[at] = packed_codes(state, slot_of(window, state.top_seq[at]))


@entry
def _bound_of_event(state: State, slot: int) -> int:
    return bound_of_event(state, slot)
