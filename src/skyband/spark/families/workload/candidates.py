"""What may still win of one key by one score, of any query: rows in, ranked windows out.

Between calls there are but rows: neither windows nor queries, so that the queries may change. Where
queries have one order and windows that slide, one structure answers them all; otherwise each is
answered from the minimal candidate set of its own, and what is kept is the union of these sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skyband.order import Floats, Ints, Scores
from skyband.query import RankBy
from skyband.spark.axis import FOREVER, PaneGrid
from skyband.spark.families.workload.last_rankings import RankedWindow, WorkerQuery
from skyband.spark.state.candidates import CandidatePane, Candidates, Column, Pool, Ranking
from skyband.windows import AllTimeWindow
from skyband.workload import build
from skyband.workload.schedule import NO_WINDOWS, Piece, Schedule, Windows

ANSWERS = 50_000
"""Ranked rows that are handed over at once, about."""

_ALGORITHM = "mtopmerge"
_GONE = -(1 << 62)  # the position of rows that no window holds any more


class BestRows(NamedTuple):
    """The best rows of a pane by one score, best first; ``position`` is where the pane begins."""

    position: int
    score: Column
    columns: list[Column]


class RankedWindows(NamedTuple):
    """Windows with their rankings: slots of the pool, best first, one window after the other."""

    windows: Windows
    slots: Ints
    upto: Ints

    def since(self, end: int) -> RankedWindows:
        """The windows that end at a position or later; ends ascend."""
        first = int(np.searchsorted(self.windows.end, end))
        begin = int(self.upto[first - 1]) if first else 0
        later = np.arange(first, len(self.upto))
        return RankedWindows(self.windows.take(later), self.slots[begin:], self.upto[later] - begin)

    def each(self) -> Iterator[RankedWindow]:
        """One window after the other."""
        slots, upto = self.slots.tolist(), self.upto.tolist()
        bounds = zip([0, *upto], upto, strict=False)
        names = zip(self.windows.query.tolist(), self.windows.end.tolist(), strict=True)
        for (query, end), (low, high) in zip(names, bounds, strict=True):
            yield RankedWindow(query, end, slots[low:high])


class KeptRows(ABC):
    """Maintains the rows of one key and score that can still be in an answer of any query.

    Rows of a pane stand at the position where the pane begins, and in the order of the panes; of
    one pane the best comes last, and of equal scores the newest. Before all others may stand rows
    that are no candidates, only to be reported as leaving.
    """

    def __init__(self, width: int, oldest_first: bool) -> None:
        self.oldest_first = oldest_first  # how equal scores stand in the panes that come
        self.pool = Pool(width)
        self.position: Ints = np.empty(0, np.int64)
        self.score: Floats = np.empty(0)
        self.remaining: Ints = np.empty(0, np.int64)  # slots of the rows that may win later

    def __len__(self) -> int:
        return len(self.remaining)

    @property
    @abstractmethod
    def due(self) -> int | None:
        """Where the next window ends that holds anything; None if nothing is left."""

    @abstractmethod
    def run(
        self, panes: list[BestRows], closed: int, ended: bool, newest: int | None = None
    ) -> Iterator[RankedWindows]:
        """Take in panes, in any order, and answer every window that ends at ``closed`` or before.

        Where the stream has ``ended``, windows of all time end with its last row. Where this runs
        ahead, windows that are not shown need no answer: ``newest`` is the newest pane, of any
        score. Afterwards only the rows are left that may win in a later window.
        """

    def restore(self, position: Column, score: Column, columns: list[Column]) -> None:
        """Take in the rows that an earlier call left."""
        self.position, self.score = np.array(position, np.int64), np.array(score, np.float64)
        self.pool.add(columns, len(position))

    @property
    def first_candidate(self) -> int:
        """The slot of the first row that is a candidate."""
        return int(np.searchsorted(self.position, _GONE, side="right"))

    def join(self, panes: list[BestRows]) -> None:
        """Put the rows of panes behind those that are there."""
        positions, scores = [self.position], [self.score]
        newest = int(self.position[-1]) if len(self.position) else None
        for pane in sorted(panes, key=lambda pane: pane.position):
            if newest is not None and pane.position <= newest:
                raise AssertionError(f"a pane at {pane.position} after one at {newest}")
            newest = pane.position
            score, columns = np.array(pane.score, np.float64), pane.columns
            if self.oldest_first:
                order = np.argsort(score, kind="stable")
                score = score[order]
                columns = [[column[i] for i in order.tolist()] for column in columns]
            else:
                score, columns = score[::-1], [column[::-1] for column in columns]
            positions.append(np.full(len(score), pane.position, np.int64))
            scores.append(score)
            self.pool.add(columns, len(score))
        self.position, self.score = np.concatenate(positions), np.concatenate(scores)

    def save(self, gone: list[int]) -> list[Column]:
        """The rows that are left, in order: positions, scores, carried columns.

        Before them stand those in the slots ``gone``, which are no candidates.
        """
        slots = [*gone, *self.remaining.tolist()]
        columns = [[column[i] for i in slots] for column in self.pool.columns]
        return [
            [_GONE] * len(gone) + self.position[self.remaining].tolist(),
            self.score[slots].tolist(),
            *columns,
        ]


class SharedCandidates(KeptRows):
    """The rows of all queries in one structure, which ranks the later of equal scores first.

    Complexity: that of MTopMerge, plus O(w log w) per call for w open windows.
    """

    def __init__(self, schedule: Schedule, rate: float, width: int, done: int) -> None:
        super().__init__(width, False)
        self.schedule = schedule.after(done)
        self._structure = build(_ALGORITHM)
        # the stretch of positions whose windows are answered at once
        self._stretch = max(1, int(ANSWERS / rate)) if rate else 1 << 61

    @property
    def due(self) -> int | None:
        """Where the next window ends that holds anything; None if nothing is left."""
        return int(self.schedule.open.end.min()) if len(self.schedule.open.end) else None

    def run(
        self, panes: list[BestRows], closed: int, ended: bool, newest: int | None = None
    ) -> Iterator[RankedWindows]:
        """Take in panes, and answer every window that ends at ``closed`` or before."""
        from skyband.workload.structure import PlacedRows  # compiles kernels, so not on the driver

        self.join(panes)
        slot = np.arange(len(self.position), dtype=np.int64)
        low = self.first_candidate
        self.schedule.require_few_windows(self.position[low:], closed)
        while True:
            begin = [int(self.position[low])] if low < len(slot) else []
            begin += [] if self.due is None else [self.due]
            answered = self.schedule.closed
            upto = min(closed, max(answered, min(begin)) + self._stretch) if begin else closed
            high = max(low, int(np.searchsorted(self.position, upto)))
            part = slice(low, high)
            rows = PlacedRows(self.score[part], slot[part], self.position[part], slot[part])
            piece = self.schedule.cut(rows.at, upto)
            answers = self._structure.push(rows, piece, places=False, numbers=False)
            if len(piece.due.end):
                yield RankedWindows(piece.due, answers.id, answers.upto)
            low = high
            if upto == closed:
                break
        self._forget(closed)

    def _forget(self, closed: int) -> None:
        none = np.empty(0, np.int64)
        self._structure.forget(Piece(self.schedule.open, NO_WINDOWS, none, closed))
        self.remaining = self._structure.kept()


class OwnCandidates(KeptRows):
    """The rows of each query by themselves: any order, any kind of window.

    A pane of a query is made of the panes of the workload that lie in it.

    Complexity: O(q c log c) per call for q queries and c rows, and that of :class:`Candidates` per
    pane of each query.
    """

    def __init__(
        self, queries: Iterable[tuple[int, WorkerQuery]], width: int, oldest_first: bool, done: int
    ) -> None:
        super().__init__(width, oldest_first)
        self._queries = [QueryCandidates(number, each, done) for number, each in queries]
        self._endless = any(each.grid.last_at_end(0) < FOREVER for each in self._queries)

    @property
    def due(self) -> int | None:
        """Where the next window ends that holds anything; None if nothing is left."""
        dues = (each.due for each in self._queries)
        return min((due for due in dues if due is not None), default=None)

    def run(
        self, panes: list[BestRows], closed: int, ended: bool, newest: int | None = None
    ) -> Iterator[RankedWindows]:
        """Take in panes, and answer every window that ends at ``closed`` or before."""
        first, known = self.first_candidate, len(self.position)
        self.join(panes)
        slots = np.arange(len(self.position), dtype=np.int64)
        for each in self._queries:
            begins = max(first, each.first_row(self.position))
            before, new = slots[begins:known], slots[max(begins, known) :]
            each.load(self.position[before], self.score[before], before)
            upto, since = each.grid.window_at(closed), -FOREVER
            if ended and first < len(slots):
                last = int(self.position[-1])
                upto = min(upto, each.grid.last_at_end(int(each.grid.pane(self.position[-1:])[0])))
                if newest is not None:
                    since, shown = each.shown(newest, last)
                    upto = min(upto, shown)
            for ranked in each.run(self.position[new], self.score[new], new, upto):
                yield ranked.since(each.grid.window_end(since)) if since > -FOREVER else ranked
        kept = [each.slots for each in self._queries]
        if self._endless:  # it tells where windows of all time end with the stream
            kept.append(slots[first:][-1:])
        self.remaining = np.unique(np.concatenate(kept)) if kept else slots[:0]


class QueryCandidates:
    """The minimal candidate set of one query, which carries the slots of its rows."""

    def __init__(self, number: int, each: WorkerQuery, done: int) -> None:
        query = each.query
        self.number = number
        self.grid = PaneGrid.of(query.window)
        self._query = query
        self._complete_from = each.complete_from
        first = self.grid.first_full_window if getattr(query.window, "full", False) else -FOREVER
        if each.complete_from is not None:
            first = max(first, query.window.panes.last_window(each.complete_from - 1) + 1)
        self._done = self.grid.window_at(done)
        self.candidates = Candidates(
            query.k,
            self.grid,
            1,
            first_full_window=first,
            due=self._done + 1,
            oldest_first=query.ties == "oldest",
            rank_by=query.rank_by,
        )

    @property
    def due(self) -> int | None:
        """Where the next window ends that holds anything; None if nothing is left."""
        candidates = self.candidates
        return None if candidates.idle else self.grid.window_end(candidates.due)

    @property
    def slots(self) -> Ints:
        """The slots of the candidates."""
        return np.array(self.candidates.rows.columns[0], np.int64)

    def shown(self, newest: int, last: int) -> tuple[int, int]:
        """The first and the last window that is shown while it is open, at most.

        ``newest`` is the newest pane of the stream, ``last`` the newest row of the own score: all
        time ends with it. Where rows leave together, later windows would show the same.
        """
        is_all_time = isinstance(self._query.window, AllTimeWindow)
        pane = int(self.grid.pane(np.array([last if is_all_time else newest]))[0])
        current = self._query.open_windows == "current"
        end = self.grid.step(pane) if current else self.grid.last_begun(pane)
        return end if current else -FOREVER, end

    def first_row(self, position: Ints) -> int:
        """The first of rows, at ascending positions, that a window of the query may hold.

        One that joined a job has none of the rows that were counted in panes before.
        """
        if self._complete_from is None:
            return 0
        return int(np.searchsorted(position, self._complete_from))

    def _best_first(self, score: Floats, slots: Ints) -> Ints:
        """The order of rows by rank; a larger slot is a newer row."""
        return np.lexsort((slots if self._query.ties == "oldest" else -slots, -score))

    def load(self, position: Ints, score: Floats, slots: Ints) -> None:
        """Take in the rows that an earlier call left: what they complete was answered."""
        pane, candidates = self.grid.pane(position), self.candidates
        alive = np.broadcast_to(self.grid.last(pane) > self._done, pane.shape)
        pane, score, slots = pane[alive], score[alive], slots[alive]
        order = self._best_first(score, slots)
        pane, score, slots = pane[order], score[order], slots[order]
        lasts = np.broadcast_to(self.grid.last(pane), pane.shape)
        counts = dominator_counts(score, lasts, self._query.k, self._query.rank_by)
        fits = counts < self._query.k
        pooled = candidates.pool.add([slots[fits].tolist()], int(fits.sum()))
        place = np.arange(len(pooled), dtype=np.int64)
        candidates.rows = Ranking(candidates.pool, pane[fits], place, score[fits], pooled)
        candidates.dominator_count = counts[fits]

    def run(
        self, position: Ints, score: Floats, slots: Ints, closed: int
    ) -> Iterator[RankedWindows]:
        """Take in rows, by position, and answer every window up to a number."""
        number = self.grid.pane(position)
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        panes = []
        for low, high in pairwise(bounds) if len(number) else ():
            best = low + self._best_first(score[low:high], slots[low:high])
            if not self._query.shares_ranks:
                best = best[: self._query.k]
            columns = [slots[best].tolist()]
            panes.append(CandidatePane(int(number[low]), score[best].tolist(), columns))
        windows: list[int] = []
        ranked: list[int] = []
        upto: list[int] = []
        for answer in self.candidates.run(panes, closed):
            windows.append(answer.window)
            ranked += answer.columns[0]
            upto.append(len(ranked))
            if len(ranked) >= ANSWERS:
                yield self._ranked(windows, ranked, upto)
                windows, ranked, upto = [], [], []
        if windows:
            yield self._ranked(windows, ranked, upto)

    def _ranked(self, windows: list[int], slots: list[int], upto: list[int]) -> RankedWindows:
        bounds = [(self.grid.window_start(each), self.grid.window_end(each)) for each in windows]
        start, end = np.array(bounds, np.int64).T
        same = np.full(len(windows), self.number)
        columns = Windows(start, end, np.full(len(windows), self._query.k), same)
        return RankedWindows(columns, np.array(slots, np.int64), np.array(upto, np.int64))


def dominator_counts(score: Scores, lasts: Ints, k: int, rank_by: RankBy) -> Ints:
    """For each row, of rows in rank order, how many dominate it, as far as they are below k.

    ``lasts`` are their last windows: a row dominates those below it that live no longer. Where
    rows share ranks, only higher scores count, as rows or each once.
    """
    counts, longest = list[int](), list[int]()
    tied, value = list[int](), None  # last windows of the rows of the score at hand
    for here, last in zip(score.tolist(), lasts.tolist(), strict=True):
        if here != value or rank_by == "row_number":
            for each in [max(tied)] if tied and rank_by == "dense_rank" else tied:
                insort(longest, each)
            tied, value = [], here
        count = len(longest) - bisect_left(longest, last)
        counts.append(count)
        if count < k:  # what dominates a row that goes dominates those below it as well
            tied.append(last)
    return np.array(counts, np.int64)
