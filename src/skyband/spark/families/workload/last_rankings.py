"""What the queries of a workload reported last, and what has become of it since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from pyspark.sql.types import IntegerType, LongType, StringType, StructField

from skyband.order import Floats, shared_ranks
from skyband.query import TopK
from skyband.spark.state.processor import array_field
from skyband.windows import Panes


class ScoredRows(Protocol):
    """Rows by their slots."""

    score: Floats


@dataclass(frozen=True)
class WorkerQuery:
    """A query as workers know it: the number of its score, and where its windows are complete."""

    name: str
    query: TopK
    score: int
    complete_from: int | None

    @cached_property
    def _panes(self) -> Panes:
        return self.query.window.panes

    def start(self, end: int) -> int:
        """Where the window starts that ends at a position."""
        panes = self._panes
        if not panes.together:
            return end - panes.size
        return panes.start((end - panes.offset) // panes.slide)

    def ranks(self, rows: ScoredRows, slots: list[int]) -> Sequence[int]:
        """The ranks of the rows in some slots, which stand best first."""
        if not self.query.shares_ranks:
            return range(1, len(slots) + 1)
        dense = self.query.rank_by == "dense_rank"
        ranks = shared_ranks(rows.score[slots], np.array([0, len(slots)]), dense)
        return cast(list[int], ranks.tolist())


class RankedWindow(NamedTuple):
    """A window of a query, and the slots of its rows, best first."""

    query: int
    end: int
    slots: list[int]


class Report(NamedTuple):
    """What changed in a window: the rank of a row that left is 0, or the previous of a new one."""

    query: int
    end: int
    slots: list[int]
    ranks: list[int]
    previous: list[int]


@dataclass
class LastRankings:
    """Maintains the ranking that each query reported last, and says what the next one changes.

    The windows of a query come by their ends. After those up to a position have been reported, a
    ranking is that of the query's last window until there, or there is none.

    Complexity: O(k) per window. Space: O(k) per query.
    """

    queries: Sequence[WorkerQuery]
    rows: ScoredRows
    by_query: dict[int, RankedWindow] = field(default_factory=dict)

    @property
    def due(self) -> int | None:
        """Where the first window ends in which any ranking is compared; None if there is none."""
        return min(map(self._next_end, self.by_query.values()), default=None)

    @property
    def slots(self) -> list[int]:
        """The rows of all rankings, each once."""
        return list({slot for window in self.by_query.values() for slot in window.slots})

    def _next_end(self, window: RankedWindow) -> int:
        return window.end + self.queries[window.query].query.window.slide

    def reports(self, windows: Iterable[RankedWindow]) -> Iterator[Report]:
        """What changes in some windows, and in those before them that rank nothing any more."""
        for window in windows:
            yield from self._farewell(window.query, window.end - 1)
            yield from self._compared(window)

    def farewells(self, closed: int) -> Iterator[Report]:
        """What changes in windows up to a position that rank nothing: all rows leave."""
        for query in list(self.by_query):
            yield from self._farewell(query, closed)

    def _farewell(self, query: int, until: int) -> Iterator[Report]:
        window = self.by_query.get(query)
        if window is None or self._next_end(window) > until:
            return
        if self.queries[query].query.window.kind != "all_time":  # what that ranks never leaves
            yield from self._compared(RankedWindow(query, self._next_end(window), []))

    def _compared(self, now: RankedWindow) -> Iterator[Report]:
        before = self.by_query.pop(now.query, None)
        if now.slots:
            self.by_query[now.query] = now
        old, query = [] if before is None else before.slots, self.queries[now.query]
        was_at = dict(zip(old, query.ranks(self.rows, old), strict=True))
        rows = []
        for rank, slot in zip(query.ranks(self.rows, now.slots), now.slots, strict=True):
            was = was_at.pop(slot, 0)
            if was != rank:
                rows.append((slot, rank, was))
        rows += [(slot, 0, was) for slot, was in was_at.items()]
        if rows:
            yield Report(now.query, now.end, *(list(part) for part in zip(*rows, strict=True)))

    @staticmethod
    def fields(score: int) -> list[StructField]:
        """The fields of a state that hold the rankings by a score."""
        return [
            array_field(f"previous_query_{score}", StringType(), False),
            array_field(f"previous_end_{score}", LongType(), False),
            array_field(f"previous_upto_{score}", IntegerType(), False),
            array_field(f"previous_row_{score}", IntegerType(), False),
        ]

    def save(self, score: int, slots: Sequence[int]) -> dict[str, Any]:
        """What a state holds, by the names of its fields; ``slots`` are those of its rows."""
        place = {slot: at for at, slot in enumerate(slots)}
        windows = list(self.by_query.values())
        values = (
            [self.queries[window.query].name for window in windows],
            [window.end for window in windows],
            list(accumulate(len(window.slots) for window in windows)),
            [place[slot] for window in windows for slot in window.slots],
        )
        return {f.name: value for f, value in zip(self.fields(score), values, strict=True)}

    def restore(self, score: int, fields: Mapping[str, Any]) -> None:
        """Take back what :meth:`save` gave.

        A query that has left the job since is forgotten, also if it has come back: such a one
        begins anew.
        """
        names, ends, uptos, rows = (list(fields[f.name]) for f in self.fields(score))
        numbers = {each.name: number for number, each in enumerate(self.queries)}
        for name, end, low, high in zip(names, ends, [0, *uptos], uptos, strict=False):
            query = numbers.get(name)
            if query is None:
                continue
            each = self.queries[query]
            if each.complete_from is None or each.start(end) >= each.complete_from:
                self.by_query[query] = RankedWindow(query, end, rows[low:high])
