"""The row path without Spark: rows of one key, by time, into the local engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.dominating.query import TopKDominating
from skyband.engine.results import Ranked
from skyband.query import TopK
from skyband.spark.state.candidates import Answer, Column
from skyband.topk.monitor import Monitor
from skyband.topk.planner import plan

if TYPE_CHECKING:
    from skyband.dominating.monitor import DominatingMonitor

_ANSWERS = 1_000_000  # ranked rows that one push should not exceed
FOREVER = 1 << 62


@dataclass
class Waiting:
    """Rows that the watermark has not passed: place, score, ties and carried columns."""

    at: Column
    score: Column
    ties: list[Column]
    kept: list[Column]

    @classmethod
    def empty(cls, ties: int, kept: int) -> Waiting:
        """No rows."""
        return cls([], [], [[] for _ in range(ties)], [[] for _ in range(kept)])

    def columns(self) -> list[Column]:
        """All columns, in a fixed order."""
        return [self.at, self.score, *self.ties, *self.kept]

    def take(self, which: list[int]) -> Waiting:
        """The rows at these places."""
        at, score, *rest = [[column[i] for i in which] for column in self.columns()]
        return Waiting(at, score, rest[: len(self.ties)], rest[len(self.ties) :])

    def order(self) -> list[int]:
        """The rows' places by time; rows of one moment by what tells them apart."""
        by_time: list[int] = np.argsort(np.array(self.at, np.int64), kind="stable").tolist()
        low = 0
        while low < len(by_time):
            high = low + 1
            while high < len(by_time) and self.at[by_time[high]] == self.at[by_time[low]]:
                high += 1
            if high - low > 1:
                by_time[low:high] = sorted(by_time[low:high], key=self._tie)
            low = high
        return by_time

    def _tie(self, i: int) -> list[Any]:
        return [sortable(column[i]) for column in self.ties]


def sortable(value: Any) -> tuple[Any, ...]:
    """A value that compares as Spark does: NULL lowest, NaN highest, structs field by field."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    if isinstance(value, dict):
        return (1, [sortable(part) for part in value.values()])
    if isinstance(value, (list, tuple)):
        return (1, [sortable(part) for part in value])
    return (1, value)


@dataclass
class Carrying:
    """Maintains an engine, and the columns of the rows that it may still report."""

    query: TopK | TopKDominating
    monitor: Monitor | DominatingMonitor
    ids: Column = field(default_factory=list)  # arrival numbers of the rows below
    kept: list[Column] = field(default_factory=list)

    def carry(self, rows: int, kept: list[Column]) -> None:
        """Remember the columns of rows that arrive now."""
        base = self.monitor.arrived
        self.ids.extend(range(base, base + rows))
        for own, new in zip(self.kept, kept, strict=True):
            own.extend(new)

    def answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with the columns of their rows; then those are let go that are of no more use."""
        place = np.searchsorted(np.array(self.ids, np.int64), ranked.id).tolist()
        changes = self.query.emit == "changes"
        offset = getattr(self.query.window, "offset", 0)
        for i in range(len(ranked)):
            low, high = int(ranked.offsets[i]), int(ranked.offsets[i + 1])
            if low == high:
                continue
            some = place[low:high]
            yield Answer(
                (int(ranked.window_end[i]) - offset) // self.query.window.slide,
                ranked.score[low:high].tolist(),
                [[column[at] for at in some] for column in self.kept],
                ranked.rank[low:high].tolist() if changes else None,
                _previous(ranked, low, high) if changes else None,
            )
        self._forget()

    def _forget(self) -> None:
        """Let go of the columns of rows that can no longer be reported."""
        kept = set(self.monitor.kept().tolist())
        where = [i for i, id in enumerate(self.ids) if id in kept]
        self.ids = [self.ids[i] for i in where]
        self.kept = [[column[i] for i in where] for column in self.kept]


@dataclass
class Arrivals(Carrying):
    """Maintains one key: rows that wait for the watermark, the engine, its candidates' columns.

    Rows arrive at the engine in the order of time, once the watermark has passed them: so answers
    do not depend on how the stream was cut into batches.
    """

    waiting: Waiting = field(default_factory=lambda: Waiting.empty(0, 0))

    @classmethod
    def new(cls, query: TopK, algorithm: str, ties: int, kept: int) -> Arrivals:
        """A key of which nothing has arrived."""
        columns: list[Column] = [[] for _ in range(kept)]
        # planned now: "auto" would remember rows until it decides, for each key
        name = plan(query).algorithm if algorithm == "auto" else algorithm
        return cls(query, Monitor(query, name), [], columns, Waiting.empty(ties, kept))

    @property
    def arrived(self) -> int:
        """Rows that have gone into the engine."""
        return self.monitor.arrived

    def run(self, rows: Waiting, until: int) -> Iterator[Answer]:
        """Take in rows, in any order, and answer what those up to this moment complete."""
        for own, new in zip(self.waiting.columns(), rows.columns(), strict=True):
            own.extend(new)
        ready = [i for i in self.waiting.order() if self.waiting.at[i] <= until]
        if not ready:
            return
        rest = sorted(set(range(len(self.waiting.at))).difference(ready))
        released, self.waiting = self.waiting.take(ready), self.waiting.take(rest)
        window = self.query.window
        room = max(1, _ANSWERS * window.slide // min(self.query.k, window.size))
        for low in range(0, len(ready), room):
            yield from self._push(released.take(list(range(low, min(len(ready), low + room)))))

    def _push(self, rows: Waiting) -> Iterator[Answer]:
        scores = np.array([np.nan if s is None else s for s in rows.score], np.float64)
        self.carry(len(scores), rows.kept)
        yield from self.answers(self.monitor.push(scores))


def _previous(ranked: Ranked, low: int, high: int) -> list[int]:
    assert ranked.previous_rank is not None
    found: list[int] = ranked.previous_rank[low:high].tolist()
    return found
