"""What may still win, of one key: the minimal candidate set over panes, and its state."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, StructField, StructType

from skyband.order import Ints, Scores, shared_ranks
from skyband.query import Numbers, RankBy
from skyband.spark.axis import FOREVER, PaneLifetimes, WatermarkProgress
from skyband.spark.columns import ALL, SCORE, indexed
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    answer_fields,
    answer_rows,
    array_field,
    column_fields,
    named_columns,
    saved_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.state.packed import PackedSpec

_MANY = 250
"""Rows of a window, from which on a single ranking is handed over in blocks."""

Column = list[Any]
Side = Literal["left", "right"]


class CandidatePane(NamedTuple):
    """The best rows of one pane, best first; ``columns`` holds one list per carried column.

    Where rows of equal score share a rank, all of them are there, and there may be more.

    ``last_complete_window`` is the last that the pane's newest row completes, if windows count
    rows.
    """

    number: int
    score: Column
    columns: list[Column]
    last_complete_window: int = FOREVER


class Answer(NamedTuple):
    """One window's ranking as columns, best first.

    For changes, ``rank`` is 0 for a row that left and ``previous`` is 0 for one that entered; for
    whole rankings ``previous`` is None, and so is ``rank`` unless rows share ranks.
    """

    window: int
    score: Column
    columns: list[Column]
    rank: list[int] | None = None
    previous: list[int] | None = None
    revision: int | None = None  # of windows that are reported while they are open, too
    final: bool = True


class Pool:
    """Maintains the carried columns of the rows that came in; rankings refer to them by slot."""

    def __init__(self, width: int) -> None:
        self.columns: list[Column] = [[] for _ in range(width)]
        self.size = 0

    def add(self, columns: list[Column], rows: int) -> Ints:
        """Take in rows; returns their slots."""
        for pooled, new in zip(self.columns, columns, strict=True):
            pooled.extend(new)
        self.size += rows
        return np.arange(self.size - rows, self.size, dtype=np.int64)


@dataclass
class Ranking:
    """Rows in rank order: which they are (``pane``, ``place`` in it), scores, slots in a pool."""

    pool: Pool
    pane: Ints
    place: Ints
    score: Scores
    slot: Ints

    @classmethod
    def empty(cls, pool: Pool, numbers: Numbers = "float64") -> Ranking:
        """No rows."""
        none = np.empty(0, np.int64)
        return cls(pool, none, none, np.empty(0, numbers), none)

    def __len__(self) -> int:
        return len(self.score)

    @property
    def columns(self) -> list[Column]:
        """The carried columns."""
        slots = self.slot.tolist()
        return [[column[slot] for slot in slots] for column in self.pool.columns]

    @property
    def falling(self) -> Scores:
        """Scores turned round, so that they rise with the rank."""
        return turned(self.score)

    def take(self, at: Ints | slice) -> Ranking:
        """The rows at these places."""
        return Ranking(self.pool, self.pane[at], self.place[at], self.score[at], self.slot[at])

    @staticmethod
    def joined(parts: list[Ranking]) -> Ranking:
        """The rows of several rankings of one pool, one after the other."""
        columns = ((part.pane, part.place, part.score, part.slot) for part in parts)
        return Ranking(parts[0].pool, *map(np.concatenate, zip(*columns, strict=True)))

    def save(self, prefix: str = "") -> dict[str, Any]:
        """The fields of a state that hold these rows."""
        return {
            f"{prefix}pane": self.pane.tolist(),
            f"{prefix}place": self.place.tolist(),
            f"{prefix}score": self.score.tolist(),
            **named_columns(self.columns, f"{prefix}kept"),
        }

    @classmethod
    def restore(
        cls, fields: Mapping[str, Any], pool: Pool, prefix: str = "", numbers: Numbers = "float64"
    ) -> Ranking:
        """Rows from the fields of a state."""
        score = np.array(fields[f"{prefix}score"], numbers)
        columns = saved_columns(fields, len(pool.columns), f"{prefix}kept")
        return cls(
            pool,
            np.array(fields[f"{prefix}pane"], np.int64),
            np.array(fields[f"{prefix}place"], np.int64),
            score,
            pool.add(columns, len(score)),
        )


@dataclass
class Candidates:
    """Maintains the rows of one key that can still be in an answer, and answers windows from them.

    A row can never be ranked again once k rows rank above it that live at least as long: whenever
    it is in a window, so are they. ``dominator_count`` counts those rows; where rows of equal score
    share a rank, it counts rows with higher scores (``rank``), or their scores (``dense_rank``).
    What dominates a row's dominators dominates it, too: so rows that went need not be counted.
    Panes are inserted in ascending order, and every window that ends before a pane begins is
    answered before it is inserted: rows of the pane must not push out rows that only those windows
    hold.

    Invariants (numbered as in :meth:`check_invariants`)
      1. rows stand in rank order: score descending, newer pane first (or the older one), place in
         the pane
      2. ``dominator_count`` is how many candidates above (or with higher scores, or their scores,
         where rows share ranks) live at least as long, and is below k
      3. no row's last window is before ``due``, the first window not yet answered

    Complexity: O(c + k) array operations per pane for c candidates; O(k) per window. Space: about
    k (1 + ln(window / slide)) rows, or k where the rows of a window leave together.

    Reference: the minimal candidate set of MinTopk (2011), section 4, over panes instead of rows.
    """

    k: int
    lifetimes: PaneLifetimes
    width: int
    changes: bool = False
    first_full_window: int = -FOREVER  # windows before it are not answered
    due: int = -FOREVER
    last_complete_window: int = -FOREVER  # if windows count rows
    numbers: Numbers = "float64"  # what scores are
    oldest_first: bool = False  # what ranks first of equal scores
    rank_by: RankBy = "row_number"
    pool: Pool = field(init=False)
    rows: Ranking = field(init=False)
    dominator_count: Ints = field(init=False)
    previous: Ranking = field(init=False)

    def __post_init__(self) -> None:
        self.pool = Pool(self.width)
        self.rows = self.previous = Ranking.empty(self.pool, self.numbers)
        self.dominator_count = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to answer until a pane arrives."""
        return not len(self.rows) and not len(self.previous)

    def run(self, panes: list[CandidatePane], closed: int, ended: bool = False) -> Iterator[Answer]:
        """Take in panes, in any order, and answer every window up to ``closed``.

        Once the stream has ``ended``, time goes on but rows do not: windows that count rows, and
        windows of all time, are answered as far as this key's rows go, and then there is nothing
        left to do.
        """
        panes = sorted(panes, key=lambda pane: pane.number)
        self._require_few_windows(panes, closed, ended)
        for pane in panes:
            if not pane.score and pane.last_complete_window == FOREVER:
                continue  # rows that are not ranked hold no window open, unless rows are counted
            yield from self.answer_before(self.lifetimes.step(pane.number))
            self.insert(pane)
            self.last_complete_window = max(self.last_complete_window, self._last_at_end(pane))
        upto = min(closed, self.last_complete_window) if ended else closed
        yield from self.answer_before(upto + 1)
        if ended and self.last_complete_window < closed:
            self.rows = self.previous = Ranking.empty(self.pool, self.numbers)

    def _last_at_end(self, pane: CandidatePane) -> int:
        """The last window that is answered if the stream ends with a pane."""
        return min(pane.last_complete_window, self.lifetimes.last_at_end(pane.number))

    def _require_few_windows(self, panes: list[CandidatePane], closed: int, ended: bool) -> None:
        """Refuse ascending panes that complete more windows than can be answered."""
        numbers = [pane.number for pane in panes if pane.score]
        if len(self.rows):
            numbers.insert(0, int(self.rows.pane.max()))
        if ended:
            newest = max((self._last_at_end(pane) for pane in panes), default=-FOREVER)
            closed = min(closed, max(self.last_complete_window, newest))
        self.lifetimes.require_few_windows(numbers, self.due, closed)

    def insert(self, pane: CandidatePane) -> None:
        """Take in the best rows of a pane that is newer than all before."""
        step = self.lifetimes.step(pane.number)
        if step < self.due:
            raise AssertionError(f"pane of window {step} after window {self.due - 1} was answered")
        if not pane.score:
            return
        new = Ranking(
            self.pool,
            np.full(len(pane.score), pane.number, np.int64),
            np.arange(len(pane.score), dtype=np.int64),
            np.array(pane.score, self.numbers),
            self.pool.add(pane.columns, len(pane.score)),
        )
        tied_above: Side = "left" if self.oldest_first or self._shares_ranks else "right"
        above = np.searchsorted(new.falling, self.rows.falling, side=tied_above)
        parts = [
            (new, self._dominators_in_pane(new)),
            (self.rows, self.dominator_count + above),
        ]
        if self.oldest_first:  # what comes first of equal scores ranks first
            parts.reverse()
        joined = Ranking.joined([rows for rows, _ in parts])
        order = np.argsort(joined.falling, kind="stable")
        counts = np.concatenate([counts for _, counts in parts])[order]
        if self.rank_by == "dense_rank":
            counts = self._better_scores(joined.take(order))
        fits = counts < self.k
        self.rows = joined.take(order[fits])
        self.dominator_count = counts[fits]

    def _dominators_in_pane(self, new: Ranking) -> Ints:
        """How many rows rank above each row of a new pane and live as long."""
        counts = np.arange(len(new), dtype=np.int64)
        if self._shares_ranks:
            counts = np.searchsorted(new.falling, new.falling, side="left")
        as_long = self.lifetimes.last(self.rows.pane) >= self.lifetimes.last(new.pane[0])
        if as_long.any():
            is_below = self.oldest_first and not self._shares_ranks
            tied_above: Side = "right" if is_below else "left"
            counts += np.searchsorted(self.rows.falling[as_long], new.falling, side=tied_above)
        return counts

    def _better_scores(self, rows: Ranking) -> Ints:
        """How many scores are better than each row's that a row has which lives as long."""
        lasts = np.broadcast_to(self.lifetimes.last(rows.pane), rows.pane.shape).tolist()
        counts, longest = np.empty(len(rows), np.int64), list[int]()
        begins = np.flatnonzero(rows.score[1:] != rows.score[:-1]) + 1
        for low, high in pairwise([0, *begins.tolist(), len(rows)]):
            for at in range(low, high):
                counts[at] = len(longest) - bisect_left(longest, lasts[at])
            insort(longest, max(lasts[low:high]))
        return counts

    @property
    def _shares_ranks(self) -> bool:
        return self.rank_by != "row_number"

    def answer_before(self, step: int) -> Iterator[Answer]:
        """Answer all windows before ``step`` that hold anything, or just lost it (changes)."""
        while self.due < step and not self.idle:
            if len(self.rows):
                self.due = max(self.due, self.lifetimes.step(int(self.rows.pane.min())))
                if self.due >= step:
                    break
            if self.due >= self.first_full_window:
                answer = self._answer()
                if answer is not None:
                    yield answer
            self.due += 1
            self._expire()
        self.due = max(self.due, step)

    def _answer(self) -> Answer | None:
        ranks = self._ranks(self.rows)
        best = self.rows.take(slice(np.searchsorted(ranks, self.k, side="right")))
        if not self.changes:
            rank = ranks[: len(best)].tolist() if self._shares_ranks else None
            return Answer(self.due, best.score.tolist(), best.columns, rank)
        answer = _changes(self.due, best, self.previous, self._ranks)
        self.previous = best
        return answer

    def _ranks(self, rows: Ranking) -> Ints:
        """The rank of each row, from 1."""
        if not self._shares_ranks:
            return np.arange(1, len(rows) + 1, dtype=np.int64)
        dense = self.rank_by == "dense_rank"
        return shared_ranks(rows.score, np.array([0, len(rows)]), dense)

    def _expire(self) -> None:
        """Forget the rows whose last window is before ``due``."""
        alive = self.lifetimes.last(self.rows.pane) >= self.due
        if not alive.all():
            at = np.flatnonzero(alive)
            self.rows = self.rows.take(at)
            self.dominator_count = self.dominator_count[at]

    def check_invariants(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        rows = self.rows
        age = rows.pane if self.oldest_first else -rows.pane
        columns = (rows.falling, age, rows.place)
        order = zip(*(column.tolist() for column in columns), strict=True)
        assert all(before < after for before, after in pairwise(order)), "1"
        lasts = self.lifetimes.last(rows.pane).tolist()
        scores = rows.score.tolist()
        counts = zip(lasts, self.dominator_count.tolist(), strict=True)
        for at, (last, count) in enumerate(counts):
            above = [i for i in range(at) if lasts[i] >= last]
            if self._shares_ranks:
                above = [i for i in above if scores[i] > scores[at]]
            if self.rank_by == "dense_rank":
                above = list({scores[i] for i in above})
            assert count == len(above) < self.k, "2"
        assert all(last >= self.due for last in lasts), "3"


def turned(score: Scores) -> Scores:
    """Scores so that the best is the smallest; ``-`` would overflow at the end of int64."""
    return ~score if score.dtype == np.int64 else -score


def _changes(
    window: int, now: Ranking, before: Ranking, ranks: Callable[[Ranking], Ints]
) -> Answer | None:
    """What entered, moved or left between two rankings; None if nothing did."""
    old = {
        which: place
        for place, which in enumerate(zip(before.pane.tolist(), before.place.tolist(), strict=True))
    }
    ranks_before = [0, *ranks(before).tolist()]
    at: list[int] = []
    rank: list[int] = []
    previous: list[int] = []
    rows = zip(now.pane.tolist(), now.place.tolist(), strict=True)
    for i, (which, is_now) in enumerate(zip(rows, ranks(now).tolist(), strict=True)):
        was = ranks_before[old.pop(which, -1) + 1]
        if was != is_now:
            at.append(i)
            rank.append(is_now)
            previous.append(was)
    left = sorted(old.values())
    if not at and not left:
        return None
    some, gone = now.take(np.array(at, np.int64)), before.take(np.array(left, np.int64))
    return Answer(
        window,
        some.score.tolist() + gone.score.tolist(),
        [ours + theirs for ours, theirs in zip(some.columns, gone.columns, strict=True)],
        rank + [0] * len(left),
        previous + [ranks_before[place + 1] for place in left],
    )


@dataclass(frozen=True)
class CandidateSpec(StateSpec):
    """Keeps the candidates of each key: panes hold their best rows."""

    k: int
    types: tuple[DataType, ...]
    changes: bool
    first_full_window: int = -FOREVER
    score: DataType = field(default_factory=DoubleType)
    oldest_first: bool = False
    rank_by: RankBy = "row_number"

    @property
    def numbers(self) -> Numbers:
        """What scores are."""
        return "int64" if isinstance(self.score, LongType) else "float64"

    @property
    def fields(self) -> tuple[StructField, ...]:
        """One array per column of the candidates, and of the previous ranking for changes."""
        return (
            StructField("due", LongType(), False),
            StructField("reached", LongType(), False),  # the last complete window
            array_field("beaten", LongType(), False),  # dominator counts
            *self._ranking(""),
            *(self._ranking("previous_") if self.changes else ()),
        )

    def _ranking(self, prefix: str) -> list[StructField]:
        return [
            array_field(f"{prefix}pane", LongType(), False),
            array_field(f"{prefix}place", LongType(), False),
            array_field(f"{prefix}score", self.score, False),
            *column_fields(self.types, f"{prefix}kept"),
        ]

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""
        return answer_fields(self.types, self.changes, self.score, self.shares_ranks)

    @property
    def shares_ranks(self) -> bool:
        """Whether rows of equal score share a rank, so that answers say the ranks."""
        return self.rank_by != "row_number"

    def packed(self) -> PackedSpec | None:
        """The same for whole rankings by row number and key, without nested columns.

        A single ranking has few panes in a batch: if they are short, two more steps in Python cost
        it more than they save.
        """
        nested = any(isinstance(type, (ArrayType, StructType)) for type in self.types)
        few = self.groups == (ALL,) and self.k < _MANY
        if few or self.changes or self.shares_ranks or nested:
            return None
        from skyband.spark.state.packed import PackedSpec

        return PackedSpec.of(self)

    def pane(self, values: tuple[Any, ...]) -> CandidatePane:
        """A pane of its label, number, scores, carried columns, last complete window."""
        _, number, score, *rest = values
        width = len(self.types)
        return CandidatePane(number, score, list(rest[:width]), *rest[width:])

    def pane_of_rows(self, number: int, rows: list[pa.RecordBatch], newest: int) -> CandidatePane:
        """A pane of its best rows, the best first."""
        (best,) = rows
        columns = [best.column(name).to_pylist() for name in indexed("kept", len(self.types))]
        complete = (newest + 1) // self.grid.slide if self.axis.counts_rows else FOREVER
        return CandidatePane(number, best.column(SCORE).to_pylist(), columns, complete)

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> CandidateState:
        """The candidates of a key."""
        candidates = Candidates(
            self.k,
            self.grid,
            len(self.types),
            self.changes,
            self.first_full_window,
            numbers=self.numbers,
            oldest_first=self.oldest_first,
            rank_by=self.rank_by,
        )
        if fields is not None:
            candidates.due = fields["due"]
            candidates.last_complete_window = fields["reached"]
            candidates.dominator_count = np.array(fields["beaten"], np.int64)
            pool, numbers = candidates.pool, self.numbers
            candidates.rows = Ranking.restore(fields, pool, numbers=numbers)
            if self.changes:
                candidates.previous = Ranking.restore(fields, pool, "previous_", numbers)
        return CandidateState(self, candidates)


@dataclass
class CandidateState(KeyState):
    """The candidates of one key."""

    spec: CandidateSpec
    candidates: Candidates

    def run(
        self, panes: list[CandidatePane], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes, and answer what the watermark has passed."""
        answers = self.candidates.run(panes, progress.closed, progress.ended)
        spec = self.spec
        return answer_rows(answers, lambda: len(self.candidates), spec.changes, spec.shares_ranks)

    @property
    def alarm(self) -> int | None:
        """When the next window ends that holds anything."""
        if self.candidates.idle:
            return None
        return self.spec.axis.alarm(self.spec.grid.window_end(self.candidates.due))

    def save(self) -> dict[str, Any]:
        """The candidates, and how far they are answered."""
        candidates = self.candidates
        previous = candidates.previous.save("previous_") if self.spec.changes else {}
        return {
            "due": candidates.due,
            "reached": candidates.last_complete_window,
            "beaten": candidates.dominator_count.tolist(),
            **candidates.rows.save(),
            **previous,
        }
