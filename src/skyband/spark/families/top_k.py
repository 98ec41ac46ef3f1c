"""The k best rows of each window, by a score: the main family.

Windows of time and windows over a sequence are answered from panes: their best rows are found
inside the JVM, and the minimal candidate set over panes is kept. Count windows by arrival are in
:mod:`skyband.spark.families.arrival`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from skyband.query import Emit, TopK
from skyband.spark.columns import LABEL, POSITION, SCORE, Names, transport_types
from skyband.spark.explain import (
    OPEN_PATH,
    PANE_PATH,
    Lines,
    open_steps,
    pane_lines,
    panes_of,
    row_bytes,
    state_line,
)
from skyband.spark.families.arrival import ArrivalSpec
from skyband.spark.jobs.queries import JobQuery, OrderFields, RowFields, SafeText, WindowQuery
from skyband.spark.options import WindowOptions, check_algorithm
from skyband.spark.panes import (
    best_rows,
    deduplicated,
    row_blocks,
    rows_of_best_scores,
    settled,
    watermarked,
)
from skyband.spark.plan import Family, WindowPlan, check_k, resolve_base
from skyband.spark.scan import NotScannedError
from skyband.spark.scores import exact_score
from skyband.spark.state.candidates import CandidateSpec
from skyband.spark.state.processor import StateSpec
from skyband.spark.state.row_blocks import Best, RowBlocks
from skyband.topk import ALGORITHMS
from skyband.topk.estimates import candidates_of_panes, candidates_of_rows
from skyband.topk.planner import plan, require_able
from skyband.totals.aggregate import refuse_aggregate
from skyband.windows import CountWindow

_DOMINATORS = {
    "row_number": "{:,} rows rank above",
    "rank": "{:,} rows score more than",
    "dense_rank": "rows of {:,} different scores score more than",
}
"""What makes a row lose for good, by how ranks count."""

if TYPE_CHECKING:
    from skyband.spark.scan.reduction import BestRows

ALGORITHM = "mintopk"
"""What ``auto`` means here: its state, which each batch reads and writes, is the smallest."""


@dataclass(frozen=True, kw_only=True)
class TopKOptions(WindowOptions):
    """What :func:`skyband.spark.top_k` was asked, as it was written."""

    by: str | Column
    id: Names | None = None
    keep: Names | None = None
    ties: str = "newest"
    rank_by: str = "row_number"

    arrivals: ClassVar[bool] = True

    def query(self) -> TopK:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        window = self.parsed_window()
        order: dict[str, Any] = {"ties": self.ties, "rank_by": self.rank_by}
        query = TopK(
            k=self.k,
            window=window,
            emit=self.emit,  # type: ignore[arg-type]
            open_windows=self.open_windows,  # type: ignore[arg-type]
            **order,
        )
        if isinstance(window, CountWindow) and self.sequence is None:
            check_algorithm(self.algorithm, ALGORITHMS)
            require_able(query, self.algorithm)
        else:
            self.refuse_algorithm()
        self.check()
        return query


@dataclass(frozen=True)
class TopKPlan(WindowPlan):
    """A query that is answered from panes."""

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Find the best rows of each pane, or those of its best scores."""
        rows = settled(rows, self.base, self.grid)
        if rows.isStreaming and self.updates:
            return row_blocks(rows, self)
        reduced = best_rows if self.rank_by == "row_number" else rows_of_best_scores
        return reduced(rows, self, newest)

    def scan_reduction(self, is_stream: bool) -> BestRows:
        """The best rows of each pane."""
        from skyband.spark.scan.reduction import BestRows, Ranking

        grid = self.grid
        return BestRows(
            (Ranking(self.query.k, self.rank_by),),
            grid.offset,
            grid.slide,
            grid.longer_from if grid.split else 0,
            -1 if self.oldest_first else 1,
            newest=self.base.axis.counts_rows,
        )

    @property
    def blocks(self) -> RowBlocks:
        """The best rows of each pane, with all that orders them."""
        base = self.base
        types = {
            SCORE: self.score.transport_type,
            POSITION: LongType(),
            **dict(zip(base.tie_names, transport_types(base.ties), strict=True)),
            **dict(zip(base.column_names, base.types, strict=True)),
        }
        row = StructType([StructField(name, type) for name, type in types.items()])
        ties = (POSITION, *base.tie_names)
        rising = ties if self.oldest_first else ()
        best = Best(self.query.k, (SCORE, *ties), rising, self.rank_by)
        return RowBlocks(tuple(base.key_names), row, (best,))

    def state(self) -> StateSpec:
        """Keep the candidates of each key."""
        return CandidateSpec(
            tuple(self.base.key_names),
            self.base.axis,
            self.grid,
            self.query.k,
            self.base.types,
            self.changes,
            self.first_full_window,
            self.score.transport_type,
            self.oldest_first,
            self.rank_by,
        )

    def explain_lines(self) -> Lines:
        """Say which panes there are, what is kept, and how much of it."""
        metrics, each = self.explain_metrics(), self.base.each
        return [
            *pane_lines(self),
            *self._path_lines(),
            ("candidates", f"about {metrics['candidates_per_key']:,}{each}, of scores in random "
                           "order"),
            *([("open panes", f"about {metrics['open_panes']}{each}, of {self._open_rows()}")]
              if metrics["open_panes"] is not None else []),
            state_line(self.base, metrics),
        ]  # fmt: skip

    def _path_lines(self) -> Lines:
        k = self.query.k
        return [
            ("path", OPEN_PATH if self.updates else PANE_PATH),
            ("algorithm", "the minimal candidate set over panes, as MinTopk keeps it over slides:"),
            ("", f"a row is forgotten once {_DOMINATORS[self.rank_by].format(k)} it that live at "
                 "least as long"),
            *self._shuffle_lines(),
        ]  # fmt: skip

    def _shuffle_lines(self) -> Lines:
        k = f"{self.query.k:,}"
        if self.rank_by == "row_number":
            return [("before the shuffle", f"at most {k} rows of each pane, key and task")]
        ranks = f"as SQL's {self.rank_by}(): rows of equal score share one, and all are kept"
        if self.updates:
            rows = f"the rows of the {k} best ranks of each pane, key and task"
            return [("ranks", ranks), ("before the shuffle", rows)]
        return [
            ("ranks", ranks),
            ("shuffles", "rows by pane, key and score, so that ties meet; then, of each pane, key"),
            ("", f"and task, those of the {k} best scores"),
        ]

    def _open_rows(self) -> str:
        """What Spark keeps of an open pane, in words."""
        if self.rank_by == "row_number":
            return f"at most {self.query.k:,} rows"
        return "the rows of the best ranks" if self.updates else "all their rows: any may tie"

    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan, by name."""
        panes = panes_of(self)
        candidates, open_panes = self._candidates(), self._open_panes()
        rows = candidates + (self.query.k * open_panes if open_panes is not None else 0)
        return {
            "path": "pane" if open_panes is not None else "row",
            "pane": panes.lengths[0],
            "second_pane": panes.lengths[1] if len(panes.lengths) > 1 else None,
            "panes_per_window": panes.per_window,
            "candidates_per_key": candidates,
            "open_panes": open_panes,
            "state_rows_per_key": rows,
            "bytes_per_row": row_bytes(self.base),
            "state_bytes_per_key": rows * row_bytes(self.base),
        }

    def _candidates(self) -> int:
        """Rows per key that may still win, for scores in random order."""
        if self.grid.together:
            return int(self.query.k)
        steps = math.ceil(self.query.window.size / self.query.window.slide)
        return math.ceil(candidates_of_panes(self.query.k, steps))

    def _open_panes(self) -> int | None:
        """Panes that rows may still come for."""
        per_step = 2 if self.grid.split else 1
        return per_step * open_steps(self.base, self.grid.slide)


@dataclass(frozen=True)
class ArrivalPlan(TopKPlan):
    """A query whose windows count the rows of a key as they arrive."""

    def scan_reduction(self, is_stream: bool) -> BestRows:
        """None: each row counts."""
        raise NotScannedError("windows count the rows of a key as they arrive")

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Let rows in one by one, in the order of time, as the watermark passes them."""
        base = self.base
        columns = [*base.key_names, POSITION, SCORE, *base.tie_names, *base.column_names]
        if not rows.isStreaming:
            return deduplicated(rows, base).select(*columns)
        rows = rows.withColumn(LABEL, F.col(POSITION))
        return deduplicated(watermarked(rows, base, 0), base).select(*columns, LABEL)

    def state(self) -> StateSpec:
        """Keep the engine of each key, and the rows that wait."""
        return self._state("all" if self.updates else self.query.emit)

    def stream_state(self) -> StateSpec:
        """The same: the engine itself reports windows while they are open."""
        return self._state(self.query.emit)

    def _state(self, emit: Emit) -> StateSpec:
        shown = self.query.open_windows if emit == "updates" else "all"
        return ArrivalSpec(
            tuple(self.base.key_names),
            self.base.axis,
            self.grid,
            replace(self.query, emit=emit, open_windows=shown),
            self._engine,
            transport_types(self.base.ties),
            self.base.types,
        )

    @property
    def _engine(self) -> str:
        """The algorithm of the local engine."""
        if self.algorithm == "auto":
            special = self.oldest_first or self.query.shares_ranks
            return plan(self.query).algorithm if special else ALGORITHM
        return self.algorithm

    def _path_lines(self) -> Lines:
        algorithm = f"{self.algorithm}: asked for by name"
        if self.query.shares_ranks:
            algorithm = f"{self._engine}: it keeps all rows of equal score, which share a rank"
        elif self.oldest_first:
            algorithm = f"{self._engine}: it ranks the oldest of equal scores first"
        elif self.algorithm == "auto":
            algorithm = (
                f"{ALGORITHM}: its state, which each batch reads and writes, is the smallest"
            )
        return [
            ("path", "rows: a window counts the rows of its key as they come, so each is seen"),
            ("", "rows wait for the watermark, then go to the local engine in the order of time"),
            ("algorithm", algorithm),
        ]

    def _candidates(self) -> int:
        """Rows per key that may still win; the engine keeps all of a slide that is incomplete."""
        rows = int(self.query.window.size)
        return min(rows, math.ceil(candidates_of_rows(self.query.k, rows)))

    def _open_panes(self) -> None:
        """There are none."""
        return None


class TopKQuery(WindowQuery, RowFields, OrderFields):
    """What :func:`skyband.spark.top_k` is asked, in a job file."""

    by: str = Field(description="an expression over columns, such as price * volume")

    def options(self, safe: SafeText, drain: str | None = None) -> TopKOptions:
        """The options that are asked for."""
        return TopKOptions(**self.fields(by=safe(self.by), drain=drain))

    def check(self, safe: SafeText, drain: str | None) -> None:
        """Refuse what no DataFrame can make right."""
        refuse_aggregate(self.by)
        super().check(safe, drain)

    def words(self) -> str:
        """The query in words."""
        return f"{self.options(str).query()} by {self.by}"


class TopKFamily(Family):
    """Rows by a score."""

    job_query: ClassVar[type[JobQuery]] = TopKQuery

    def resolve(self, df: DataFrame, options: TopKOptions) -> TopKPlan:
        """Check a query against a DataFrame; raises before any row is read."""
        query = options.query()
        check_k(query.k)
        score = exact_score(df, options.by)
        base = resolve_base(
            df, options, query.window, carry=options.keep, id=options.id, scores=[options.by]
        )
        by_arrival = base.axis.kind == "arrival"
        kind = ArrivalPlan if by_arrival else TopKPlan
        text = options.by if isinstance(options.by, str) else str(options.by)
        if score.is_exact:
            query = replace(query, numbers="int64")
        return kind(base, query, score, text, options.algorithm)


FAMILY = TopKFamily()
