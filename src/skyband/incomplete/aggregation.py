"""Early aggregation: what EAA, the approximate algorithm and ``likely`` have in common.

All three keep rows by object, the best objects in a top view, and drop by sweeps what cannot, or
is not likely to, become an answer. Each has a loop of its own, made of the blocks in this file; it
says what is learnt of a row that arrives, and what a sweep keeps. Blocks take the parts of a state
that they need, ``now`` being its record, so that they are compiled once for all three.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from skyband.engine.plan import Setting
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.incomplete.interval_dominance import empty_sweep
from skyband.incomplete.invariants import window_rows
from skyband.incomplete.objects import (
    Batch,
    Store,
    enlarged,
    rescore,
    scores_are_current,
    tidy,
)
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.store import SMALL, StoreAlgorithm
from skyband.incomplete.top_view import TopView, admit, dismiss, empty_view, falls_short, fill
from skyband.kernels.answers import Out
from skyband.kernels.emission import report_whole
from skyband.kernels.jit import lean
from skyband.kernels.records import fields, record
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
from skyband.order import Ints

MOST_STREAMS = 8
"""Streams at most of which statistics are kept: one for each set of streams."""

AGGREGATION = fields("slack", "unswept", "sweep_after", "kept", "object_sum", "resume_at")
"""The numbers of early aggregation.

``slack``        the share of rows, in per cent, that may arrive between two sweeps
``unswept``      rows that arrived since the last sweep
``sweep_after``  how many of them make a sweep worth while
``kept``         instances that are kept
``object_sum``   objects that are kept, summed over the slides
``resume_at``    the row of the batch before which room ran out, 0 between batches
"""

_PER_CENT = 100
_REFRESHES = 32  # of estimates, a window


class EarlyAggregation(StoreAlgorithm):
    """Maintains the objects, and of each the rows, that may still matter to an answer.

    The state of a subclass has the fields of :meth:`common_state`, and what it needs itself.
    """

    options: ClassVar[tuple[str, ...]] = ("slack",)

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        slack = setting.options.get("slack", 0.5)
        if not isinstance(slack, (int, float)) or isinstance(slack, bool) or not 0 <= slack <= 10:
            raise QueryError(f"slack is {slack!r}", "a number from 0 to 10", "leave it out")
        self._slack = float(slack)
        super().__init__(setting, query)

    def common_state(self) -> dict[str, Any]:
        """The fields that all states have, before the first row."""
        return {
            "store": self.new_store(),
            "top_view": empty_view(2 * self.setting.k + 16),
            "work": counters(),
            "now": record(AGGREGATION, slack=int(self._slack * _PER_CENT)),
            **self.scratch(SMALL),
        }

    def scratch(self, room: int) -> dict[str, Any]:
        """The fields of the state that a sweep fills anew, with room for so many objects."""
        return {"sweep": empty_sweep(self.setting.k, room, len(self.query.streams))}

    @override
    def make_room(self, arriving: int) -> None:
        # for more than is kept, right after a sweep; what arrives is swept meanwhile
        del arriving
        store: Store = self.state.store
        kept = int(store.now[0].end - store.now[0].first)
        room = kept + 2 * int(self.state.now[0].sweep_after) + kept // 4 + 2 * SMALL
        larger = enlarged(store, room)
        tidy(larger)
        self.state = self.state._replace(store=larger, **self.scratch(room))

    @override
    def counters(self) -> dict[str, float]:
        # candidates are instances and objects distinct ones, kept: exact at answers that follow a
        # sweep, somewhat too many at others
        counts = super().counters()
        return {**counts, "objects": int(self.state.now[0].object_sum) / max(counts["slides"], 1)}

    @override
    @abstractmethod
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        raise NotImplementedError

    def check_rows(self, alive: Mapping[int, Any]) -> None:
        """Assert what also holds if answers are approximate: (1) and (4) of EAA."""
        past = window_rows(alive, self.query.window.size)
        assert all(past.get(seq) == row for seq, row in self.stored_rows().items()), "1"
        assert scores_are_current(self.state.store), "4"

    def seen(self) -> dict[int, list[int]]:
        """How often each object that is kept was seen in each stream while it was known."""
        store, width = self.state.store, len(self.query.streams)
        objects = int(store.now[0].objects)
        seen = store.objects.seen[: objects * width].reshape(objects, width)
        return dict(zip(store.objects.id[:objects].tolist(), seen.tolist(), strict=True))


def check_streams(query: TopKIncomplete, name: str) -> None:
    """Refuse more streams than statistics are kept of."""
    if len(query.streams) > MOST_STREAMS:
        raise QueryError(
            f"{len(query.streams)} streams for {name}",
            f"{MOST_STREAMS} at most",
            "use eaa, or auto",
        )


@lean
def first_row(now: Any, steps: Steps, step: int) -> int:
    """The row of the batch at which a step goes on."""
    return max(steps.stop[step - 1] if step > 0 else 0, now.resume_at)


@lean
def is_full(store: Store) -> bool:
    """Whether there is no room for another row."""
    return store.now[0].end == len(store.rows.seq)


@lean
def stays_full(store: Store, now: Any) -> bool:
    """Whether there is too little room right after a sweep for all that comes before the next."""
    return store.now[0].end + now.sweep_after + SMALL > len(store.rows.seq)


@lean
def expire(store: Store, view: TopView, now: Any, window: int) -> None:
    """Remove the rows whose last window is before this one."""
    stored = store.now[0]
    while stored.first < stored.end and store.rows.until[stored.first] < window:
        dismiss(view, store)
        now.kept -= 1


@lean
def last_window(store: Store, steps: Steps, step: int, at: int) -> int:
    """The last window that holds a row of a step."""
    longer = 1 if at >= steps.split[step] else 0
    return steps.window[step] - 1 + store.now[0].span + longer


@lean
def insert(
    store: Store, view: TopView, now: Any, work: Ints, obj: int, batch: Batch, at: int,
    seq: int, until: int,
) -> None:  # fmt: skip
    """Add a row of a batch to its object. O(streams)."""
    admit(view, store, obj, batch, at, seq, until)
    now.unswept += 1
    now.kept += 1
    work[INSERTIONS] += 1


@lean
def is_stale(store: Store, refreshed: int, window: int) -> bool:
    """Whether estimates that were last made for one window are too old for another."""
    return window - refreshed >= max(store.now[0].span // _REFRESHES, 1)


@lean
def finish_sweep(store: Store, view: TopView, now: Any, work: Ints, kept: int) -> None:
    """Drop the rows that a sweep has marked, and make scores and the view anew."""
    stored = store.now[0]
    before = stored.end - stored.first
    tidy(store)
    for obj in range(stored.objects):
        rescore(store, obj)
        store.objects.listed[obj] = 0
    view.best.size[0] = 0
    fill(view, store)
    work[DELETIONS] += before - stored.end
    work[EVENTS] += 1
    now.kept = kept
    now.unswept = 0
    now.sweep_after = stored.end * now.slack // _PER_CENT


@lean
def answer(store: Store, view: TopView, now: Any, work: Ints, target: Out, step: int) -> None:
    """Report the k best objects as the window of this step."""
    stored = store.now[0]
    if falls_short(view, store):
        fill(view, store)
        work[RESCANS] += 1
        work[RESCANNED] += stored.objects
    work[SLIDES] += 1
    work[CANDIDATES] += now.kept
    now.object_sum += stored.objects
    report_whole(target, step, view.best, stored.k)
