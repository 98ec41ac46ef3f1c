"""What is kept of a key between micro-batches: panes in, ranked windows of all queries out.

The state of a key is its candidate rows and how far it has been answered. Queries are not part of
it: a job that goes on with other queries answers those from the same rows. Where changes are
reported, the last ranking of each query is kept, too, by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
)

from skyband.spark.axis import FOREVER, WatermarkProgress
from skyband.spark.columns import indexed, score_names
from skyband.spark.families.workload.candidates import (
    BestRows,
    KeptRows,
    OwnCandidates,
    RankedWindows,
    SharedCandidates,
)
from skyband.spark.families.workload.last_rankings import LastRankings, Report, WorkerQuery
from skyband.spark.state.processor import KeyState, PaneStore, StateSpec, and_last, array_field
from skyband.windows import AllTimeWindow
from skyband.workload import can_share
from skyband.workload.schedule import Schedule, Windows

if TYPE_CHECKING:
    import pyarrow as pa


class WorkloadPane(NamedTuple):
    """The best rows of a pane by each score.

    Where windows count rows, those that end at ``complete_until`` or before are completed by them.
    """

    best: list[BestRows]
    complete_until: int


@dataclass(frozen=True)
class WorkloadSpec(StateSpec):
    """Keeps the candidates of each key, by each score; the axis counts positions, not windows.

    If ``changes`` are reported, it keeps what each query reported last, too. The best rows of panes
    stand with the newest of equal scores first, or the ``oldest_first``.
    """

    queries: tuple[WorkerQuery, ...]
    scores: int
    types: tuple[DataType, ...]
    changes: bool = False
    oldest_first: bool = False

    @property
    def fields(self) -> tuple[StructField, ...]:
        """One array per column of the candidates by each score."""
        rows: list[StructField] = []
        for i in range(self.scores):
            types = [LongType(), DoubleType(), *self.types]
            nulls = [False, False, *(True for _ in self.types)]
            rows += map(array_field, self.row_fields(i), types, nulls)
            rows += LastRankings.fields(i) if self.changes else []
        return (
            StructField("done", LongType(), False),  # windows up to here were answered
            StructField("reached", LongType(), False),  # ... and up to here are complete
            *rows,
        )

    def row_fields(self, score: int) -> list[str]:
        """The fields of the candidates by a score."""
        columns = (f"kept_{j}_by_{score}" for j in range(len(self.types)))
        return [f"place_{score}", f"score_{score}", *columns]

    @property
    def output(self) -> tuple[StructField, ...]:
        """Some windows, without the key: their rows once, and each ranking as slots of them."""
        slots = ArrayType(ArrayType(IntegerType(), False), False)
        return (
            StructField("candidates", LongType()),
            StructField("queries", ArrayType(StringType(), False)),
            StructField("starts", ArrayType(LongType(), False)),
            StructField("ends", ArrayType(LongType(), False)),
            StructField("rows", slots),
            *(StructField(name, slots) for name in self.rank_columns),
            StructField("scores", ArrayType(DoubleType(), False)),
            *(StructField(f"kept_{i}", ArrayType(type)) for i, type in enumerate(self.types)),
        )

    @property
    def rank_columns(self) -> tuple[str, ...]:
        """What is said of the ranks in each window, if it is not plain."""
        if self.changes:
            return ("ranks", "previous")
        return ("ranks",) if any(each.query.shares_ranks for each in self.queries) else ()

    @cached_property
    def shares(self) -> bool:
        """Whether one structure can answer all queries."""
        return not self.oldest_first and all(can_share(each.query) for each in self.queries)

    def weight(self, row: tuple[Any, ...]) -> int:
        """How many ranked rows some windows hold."""
        _, _, _, _, rankings, *_ = row
        return sum(map(len, rankings))

    def progress(self, watermark: int) -> WatermarkProgress:
        """The position that a watermark has reached."""
        return WatermarkProgress(self.axis.position_at(watermark), self.axis.ended(watermark))

    @cached_property
    def schedules(self) -> list[tuple[Schedule, float]]:
        """The windows of the queries by each score, and how many rows they rank per unit."""
        schedules = []
        for score in range(self.scores):
            schedule, rate = Schedule(counted=False, farewell=False), 0.0
            for number, each in enumerate(self.queries):
                if each.score == score:
                    schedule.add(number, each.query, each.complete_from)
                    rate += each.query.k / each.query.window.slide
            schedules.append((schedule, rate))
        return schedules

    def __getstate__(self) -> dict[str, Any]:
        computed = ("schedules", "shares")
        return {name: value for name, value in self.__dict__.items() if name not in computed}

    def pane(self, values: tuple[Any, ...]) -> WorkloadPane:
        """A pane of its position, then columns by each score, then what its rows complete."""
        position, *columns = values
        complete_until = columns.pop() if self.axis.counts_rows else -FOREVER
        width = 1 + len(self.types)
        best = [
            BestRows(position, columns[low], columns[low + 1 : low + width])
            for low in range(0, len(columns), width)
        ]
        return WorkloadPane(best, complete_until)

    def pane_of_rows(self, number: int, rows: list[pa.RecordBatch], newest: int) -> WorkloadPane:
        """A pane of its best rows by each score, the best first; its number is where it begins."""
        columns = indexed("kept", len(self.types))
        best = [
            BestRows(
                number,
                part.column(score).to_pylist(),
                [part.column(name).to_pylist() for name in columns],
            )
            for score, part in zip(score_names(self.scores), rows, strict=True)
        ]
        return WorkloadPane(best, newest + 1 if self.axis.counts_rows else -FOREVER)

    def ahead(self, newest_pane: int, current: bool) -> WatermarkProgress:
        """The end of the longest window that has begun and is shown.

        Windows of all time are shown as far as rows go, as at the end of a stream.
        """
        windows = (
            each.query.window.slide
            if each.query.open_windows == "current" or each.query.window.panes.together
            else each.query.window.size
            for each in self.queries
        )
        end = newest_pane + max(windows)
        return WatermarkProgress(end, not self.axis.counts_rows, newest_pane)

    def each_window(self, row: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The windows of an output row, by query and end, each with its own rows."""
        _, names, starts, ends, rankings, *rest = row
        windows, columns = rest[: len(self.rank_columns)], rest[len(self.rank_columns) :]
        for name, start, end, slots, *ranks in zip(
            names, starts, ends, rankings, *windows, strict=True
        ):
            rows = [[column[slot] for slot in slots] for column in columns]
            ranking = list(range(len(slots)))
            shared = ([each] for each in ranks)
            yield f"{end} {name}", (None, [name], [start], [end], [ranking], *shared, *rows)

    def is_current(self, row: tuple[Any, ...], newest_pane: int) -> bool:
        """Whether a window is the first of its query to end after the newest pane begins.

        Of a query that shows all open windows, any window is one; but where rows leave together,
        those that follow hold the same rows.
        """
        _, (name,), _, (end,), *_ = row
        query = next(each.query for each in self.queries if each.name == name)
        if isinstance(query.window, AllTimeWindow):
            return True  # no others are answered ahead: see QueryCandidates.shown
        has_begun = bool(end - query.window.slide <= newest_pane)
        if query.open_windows == "all":
            return has_begun or not query.window.panes.together
        return has_begun and newest_pane < end

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> WorkloadState:
        """The candidates of a key, by each score."""
        done = -FOREVER // 2 if fields is None else fields["done"]
        width = len(self.types)
        candidates: list[KeptRows]
        if self.shares:
            candidates = [SharedCandidates(*each, width, done) for each in self.schedules]
        else:
            numbered = list(enumerate(self.queries))
            candidates = [
                OwnCandidates(
                    [(number, each) for number, each in numbered if each.score == score],
                    width,
                    self.oldest_first,
                    done,
                )
                for score in range(self.scores)
            ]
        last_rankings = [LastRankings(self.queries, each) for each in candidates]
        if fields is None:
            return WorkloadState(self, candidates, last_rankings, done)
        for i, (each, rankings) in enumerate(zip(candidates, last_rankings, strict=True)):
            position, score, *columns = (fields[name] for name in self.row_fields(i))
            each.restore(position, score, columns)
            if self.changes:
                rankings.restore(i, fields)
        return WorkloadState(self, candidates, last_rankings, done, fields["reached"])


@dataclass
class WorkloadState(KeyState):
    """One key: candidates and last rankings by each score, and how far it is answered."""

    spec: WorkloadSpec
    candidates: list[KeptRows]
    last_rankings: list[LastRankings]
    done: int
    complete_until: int = -FOREVER
    due: int | None = None

    def run(
        self, panes: list[WorkloadPane], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes, and answer what ends where the watermark is, or before.

        Once the stream has ended, windows that count rows are answered as far as this key's rows
        complete them, and then nothing is left.
        """
        closed, ended, newest = progress
        self.done = closed
        if self.spec.axis.counts_rows:
            reached = (pane.complete_until for pane in panes)
            self.complete_until = max([self.complete_until, *reached])
            closed = min(closed, self.complete_until) if ended else closed
        for row, is_last in and_last(self._rows(panes, closed, ended, newest)):
            yield (sum(map(len, self.candidates)) if is_last else None, *row)
        all_dues = [each.due for each in self.candidates] + [
            each.due for each in self.last_rankings
        ]
        dues = [due for due in all_dues if due is not None]
        self.due = None if ended or not dues else min(dues)

    def _rows(
        self, panes: list[WorkloadPane], closed: int, ended: bool, newest: int | None
    ) -> Iterator[tuple[Any, ...]]:
        for i, candidates in enumerate(self.candidates):
            best = [pane.best[i] for pane in panes if pane.best[i].score]
            answers = candidates.run(best, closed, ended, newest)
            if self.spec.changes:
                yield from self._changes(candidates, self.last_rankings[i], answers, closed)
                continue
            for ranked in answers:
                ranks = [self._ranks(candidates, ranked)] if self.spec.rank_columns else []
                yield self._row(candidates, ranked, *ranks)

    def _ranks(self, candidates: KeptRows, ranked: RankedWindows) -> list[list[int]]:
        """The ranks of the rows of each window."""
        return [
            list(self.spec.queries[window.query].ranks(candidates, window.slots))
            for window in ranked.each()
        ]

    def _changes(
        self,
        candidates: KeptRows,
        last_rankings: LastRankings,
        answers: Iterator[RankedWindows],
        closed: int,
    ) -> Iterator[tuple[Any, ...]]:
        """What the windows up to a position change, in the layout of the output."""
        for ranked in answers:
            yield from self._reported(candidates, list(last_rankings.reports(ranked.each())))
        yield from self._reported(candidates, list(last_rankings.farewells(closed)))

    def _reported(self, candidates: KeptRows, reports: list[Report]) -> Iterator[tuple[Any, ...]]:
        if not reports:
            return
        query, end, slots, ranks, previous = zip(*reports, strict=True)
        pairs = zip(query, end, strict=True)
        starts = np.array([self.spec.queries[number].start(at) for number, at in pairs], np.int64)
        numbers = np.array(query, np.int64)
        windows = Windows(starts, np.array(end, np.int64), np.empty(0, np.int64), numbers)
        upto = np.cumsum([len(each) for each in slots])
        ranked = RankedWindows(windows, np.array(list(chain(*slots)), np.int64), upto)
        yield self._row(candidates, ranked, list(ranks), list(previous))

    def _row(
        self, candidates: KeptRows, ranked: RankedWindows, *ranks: list[list[int]]
    ) -> tuple[Any, ...]:
        """Some windows in the layout of the output, without the number of candidates."""
        used, slots = np.unique(ranked.slots, return_inverse=True)
        flat, upto = slots.tolist(), ranked.upto.tolist()
        rankings = [flat[low:high] for low, high in zip([0, *upto], upto, strict=False)]
        rows = used.tolist()
        windows = ranked.windows
        return (
            [self.spec.queries[number].name for number in windows.query.tolist()],
            windows.start.tolist(),
            windows.end.tolist(),
            rankings,
            *ranks,
            candidates.score[used].tolist(),
            *([column[i] for i in rows] for column in candidates.pool.columns),
        )

    @property
    def alarm(self) -> int | None:
        """When the next window ends that holds anything."""
        return None if self.due is None else self.spec.axis.alarm(self.due)

    def fork(self) -> WorkloadState:
        """A copy, made as a later micro-batch would: nothing but rows outlives one."""
        return self.spec.open(None, self.save())

    def save(self) -> dict[str, Any]:
        """The candidates, and how far they are answered."""
        fields: dict[str, Any] = {"done": self.done, "reached": self.complete_until}
        for i, (candidates, last_rankings) in enumerate(
            zip(self.candidates, self.last_rankings, strict=True)
        ):
            remaining = candidates.remaining.tolist()
            gone = sorted(set(last_rankings.slots).difference(remaining))
            fields |= zip(self.spec.row_fields(i), candidates.save(gone), strict=True)
            if self.spec.changes:
                fields |= last_rankings.save(i, [*gone, *remaining])
        return fields
