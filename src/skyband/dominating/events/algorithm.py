"""What EVA, ADA, AHBA and AMSA have in common, in Python: their state, its room, a new start."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import ClassVar

import numpy as np
from typing_extensions import override

from skyband.dominating.bounds import bounds, cell_at, most, side_of
from skyband.dominating.cells import cells, put
from skyband.dominating.contenders import State as Contending
from skyband.dominating.contenders import contend, floor_of
from skyband.dominating.events import state as events
from skyband.dominating.events.answers import enter, file, schedule
from skyband.dominating.events.calendar import calendar
from skyband.dominating.events.counting import count_anew
from skyband.dominating.events.intervals import safe_until
from skyband.dominating.events.loop import advance, leave_alone, renew_bounds
from skyband.dominating.events.state import NOTHING, OBSOLETE, TOP, Samples, State, clock, mark
from skyband.dominating.exact_scores import roomier_tracked, tracked
from skyband.dominating.point_window import (
    ARRIVED,
    NEXT,
    NONE,
    OLDEST,
    POINTS,
    SLOTS,
    WIDTH,
    Field,
    field,
    is_point,
    slot_of,
)
from skyband.dominating.window import WindowAlgorithm, stale
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.emission import Out
from skyband.kernels.jit import entry
from skyband.kernels.ranked import ranked
from skyband.kernels.work import counters
from skyband.order import Floats

_MOST = 1 << 24  # answers at most: room for them is made at once
_PER_CELL = 64  # points per cell of the grid
_SHARE = 100  # of so many points one may be a candidate
_SOON = 1000  # part of the window within which an event is near, at first


class EventAlgorithm(WindowAlgorithm):
    """Maintains the k best points, and for every other one a tick until which it cannot be one.

    Invariants: (1) the field holds the points of the window; (2) the k best are right, and their
    scores and those of candidates exact; (3) the score noted for an event, plus the arrivals since,
    is no less than the point's; (4) the tick noted is safe; (5) the counters of a point do not
    exceed the number of points that dominate it, expire later and are not answers.
    """

    advanced: ClassVar[bool] = False
    pruning: ClassVar[bool] = False
    state: State

    @override
    def new_state(self) -> State:
        setting, width = self.setting, self.width
        if setting.k > _MOST:
            raise QueryError(
                f"k is {setting.k:,} for {self.name}", f"{_MOST:,} at most", "use auto"
            )
        self._missed = np.zeros(0, np.int64)
        held = field(self.least_room(), width)
        numbers = np.zeros(len(events.NUMBERS), np.int64)
        numbers[events.K] = setting.k
        numbers[events.FRESH] = 1
        numbers[events.SIZE] = setting.size if setting.counted else 0
        numbers[events.ADVANCED] = self.advanced
        numbers[events.PRUNING] = self.pruning
        numbers[events.SAMPLING] = self.sample_size()
        numbers[events.ERROR] = round(1000 * self.sample_error())
        numbers[events.KEPT] = round(1000 * self._share_kept())
        numbers[events.PARTIAL] = self.advanced and self._partial()
        numbers[events.CHANCE] = 20111213
        numbers[events.BOUNDED] = numbers[events.FINED] = NONE
        none = np.zeros(0, np.int64)
        grid = cells(0, 2, width)
        samples = Samples(tracked(1, width), none, none, none, none, none)
        state = State(
            held,
            grid,
            bounds(2, width),
            bounds(2, width),
            tracked(setting.k + 1, width),
            ranked(setting.k + 1),
            np.zeros(setting.k + 2, np.int64),
            np.zeros(setting.k + 2, np.int64),
            tracked(1, width),
            none,
            none,
            none,
            none,
            calendar(0),
            none,
            none,
            none,
            samples,
            counters(),
            numbers,
        )
        return _rebuilt(state)

    def least_room(self) -> int:
        """Room for a whole count window at once if approximating: growing means starting anew.

        So approximate answers of count windows do not depend on how a stream is cut into batches.
        """
        setting = self.setting
        if setting.counted and (self.pruning or self.sample_size()):
            return setting.size + setting.slide
        return 64

    def sample_size(self) -> int:
        """Points in the sample of a cell; 0 for no samples."""
        return 0

    def sample_error(self) -> float:
        """The error of a sample's mean, as part of the range of scores in its cell."""
        return 0.0

    def _partial(self) -> bool:
        given = self.setting.options.get("partial", False)
        if not isinstance(given, bool):
            raise QueryError(f"partial is {given!r}", "True or False", "leave it out")
        return given

    def _share_kept(self) -> float:
        given = self.setting.options.get("obsolete", 1.0)
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) <= 1:
            raise QueryError(
                f"obsolete is {given!r}", "the share of obsolete events to keep, 0 to 1"
            )
        return float(given)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        if step == 0 and not self.state.numbers[events.TAKEN]:
            self._missed = np.zeros(len(steps.stop), np.int64)
        return advance(self.state, rows.score, rows.columns[0], steps, target, self._missed, step)

    @override
    def resized(self, held: Field) -> None:
        self.state = self.state._replace(held=held)

    @override
    def recoded(self) -> None:
        self.state = _rebuilt(self.state)

    def make_room(self, arriving: int) -> None:
        """Start anew, or choose codes anew."""
        del arriving
        if bool(stale(self.state.held, self.state.numbers)):
            self.recode()
        if self.state.numbers[events.FRESH]:
            self.start()

    def start(self) -> None:
        """Find the k best, and schedule events for all others from bounds of their scores."""
        state = self.state
        found = contend(state.held, self.setting.k, state.work)
        _begin(state, found, floor_of(found))

    @override
    def accuracies(self, steps: Steps) -> Floats:
        del steps
        found: Floats = np.maximum(1 - self._missed / (1000 * self.setting.k), 0.0)
        return found

    @property
    def forgets(self) -> bool:
        """Whether some obsolete events are not kept."""
        return bool(self.state.numbers[events.KEPT] < 1000)

    def events_held(self) -> int:
        """Events that are kept, obsolete ones among them."""
        return int(np.isin(self.state.kind, (events.EVENT, events.OBSOLETE)).sum())

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        from skyband.dominating.events.invariants import check

        check(self, alive)


def _rebuilt(state: State) -> State:
    """The state for codes chosen anew: points by cell, and nothing counted; events stay."""
    held, numbers = state.held, state.numbers
    points, width, slots = (int(held.numbers[at]) for at in (POINTS, WIDTH, SLOTS))
    side, fine = side_of(points, width, _PER_CELL), side_of(points, width, 1.0)
    wanted = max(points // _SHARE, 16)
    numbers[events.MOST_CANDIDATES] = wanted if numbers[events.ADVANCED] else 0
    numbers[events.NEAR] = max(int(numbers[events.NEAR]), 2 * (points // _SOON), 2)
    numbers[events.BOUNDED] = numbers[events.FINED] = NONE
    candidates = max(wanted, int(state.candidates.size[0])) + 1
    if len(state.kind) != slots:
        numbers[events.FRESH] = 1  # slots have moved
        state = state._replace(
            place=np.full(slots, NONE, np.int64),
            kind=np.zeros(slots, np.int64),
            score=np.zeros(slots, np.int64),
            since=np.zeros(slots, np.int64),
            dates=calendar(slots),
        )
        state.best.size[0] = state.top.size[0] = state.candidates.size[0] = 0
    sampling = bool(numbers[events.SAMPLING])
    room = max(4096, points // 20) if sampling else 1
    numbers[events.SAMPLE_ROOM] = room
    samples = Samples(
        tracked(room, width),
        np.full(slots, NONE, np.int64),
        np.full(side**width if sampling else 1, NONE, np.int64),
        np.zeros(side**width if sampling else 1, np.int64),
        np.zeros(side**width if sampling else 1, np.int64),
        np.zeros(1025, np.int64),
    )
    advanced = bool(numbers[events.ADVANCED])
    approximate = sampling or bool(numbers[events.PRUNING])
    state = state._replace(
        grid=cells(slots, side, width),
        limits=bounds(side, width),
        fine=bounds(fine if approximate else 2, width),
        candidates=roomier_tracked(state.candidates, candidates, width),
        later=np.zeros(side**width if advanced else 1, np.int64),
        before=np.zeros(slots if advanced else 1, np.int64),
        counted=np.zeros(slots if advanced else 1, np.int64),
        samples=samples,
    )
    _sort_into_cells(state)
    return state


@entry
def _sort_into_cells(state: State) -> None:
    held = state.held
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if is_point(held, slot):
            put(state.grid, slot, cell_at(held, slot, state.grid.side[0]))
    if state.numbers[events.ADVANCED]:
        count_anew(state)
    for at in range(state.top.size[0]):
        state.marks[at] = mark(state, slot_of(held, state.ages[at]))


@entry
def _begin(state: State, found: Contending, floor: int) -> None:
    """Forget all events, take over the k best, and schedule an event for each other point."""
    held, numbers = state.held, state.numbers
    k = numbers[events.K]
    state.dates.first[:] = NONE
    state.dates.due[:] = NONE
    state.kind[:] = NOTHING
    state.place[:] = NONE
    state.top.size[0] = 0
    state.best.size[0] = 0
    state.candidates.size[0] = 0
    if numbers[events.ADVANCED]:
        count_anew(state)
    _forget_samples(state)
    for at in range(min(k, found.order.size[0])):
        seq = found.order.seq[at]
        enter(state, seq, slot_of(held, seq), int(found.order.score[at]))
    numbers[events.LOOKED] = clock(held)
    numbers[events.EXAMINED] = held.numbers[NEXT]
    numbers[events.BOUNDED] = numbers[events.FINED] = NONE
    numbers[events.GAUGED] = held.numbers[ARRIVED]
    numbers[events.MISSED] = 0
    numbers[events.FRESH] = 0
    renew_bounds(state)
    for seq in range(held.numbers[OLDEST], held.numbers[NEXT]):
        slot = slot_of(held, seq)
        if not is_point(held, slot) or state.kind[slot] == TOP or leave_alone(state, slot):
            continue
        if found.place[slot] != NONE:
            file(state, seq, slot, found.items.score[found.place[slot]])
            continue
        score = most(found.limits, cell_at(held, slot, found.limits.side[0]))
        if score >= floor:  # no contender all the same: k later ones are no worse
            state.score[slot] = score
            state.since[slot] = held.numbers[ARRIVED]
            state.kind[slot] = OBSOLETE
            continue
        schedule(state, seq, slot, score, safe_until(state, seq, slot, score))


@entry
def _forget_samples(state: State) -> None:
    state.samples.items.size[0] = 0
    state.samples.place[:] = NONE
    state.samples.size[:] = NONE
    state.samples.listed[0] = 0


def known_scores(state: State) -> dict[int, int]:
    """The exact scores of answers and candidates, by sequence number."""
    found: dict[int, int] = {}
    for items in (state.top, state.candidates):
        size = int(items.size[0])
        found |= dict(zip(items.seq[:size].tolist(), items.score[:size].tolist(), strict=True))
    return found
