"""Many queries over one stream, answered in one pass.

One aggregation inside the JVM serves all queries: of a pane no more rows can win than the largest
k. Where queries rank by several scores, the same pass finds the best by each. A processor hands
over each row once, however many rankings it is in; rankings become rows inside the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PrivateAttr
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from skyband.errors import QueryError, SkybandError
from skyband.query import RankBy, TopK
from skyband.spark.axis import FOREVER, PaneGrid, TickAxis, TimeAxis
from skyband.spark.columns import (
    BEST,
    LABEL,
    POSITION,
    Names,
    require_frame,
    score_names,
    transport_types,
)
from skyband.spark.columns import (
    SCORE as OUR_SCORE,
)
from skyband.spark.explain import (
    Lines,
)
from skyband.spark.families.workload import explanation, restart
from skyband.spark.families.workload.boundaries import (
    PANE,
    Boundaries,
    Era,
    finest_grid,
    placed_in_panes,
    step_of,
)
from skyband.spark.families.workload.last_rankings import WorkerQuery
from skyband.spark.families.workload.restart import (
    PaneOrder,
    earlier_runs,
    packed,
    plain_query,
    unpacked,
)
from skyband.spark.families.workload.state import WorkloadSpec
from skyband.spark.jobs import queries as jobs
from skyband.spark.jobs.queries import JobEmit, JobOpenWindows, JobQuery, RowFields, SafeText
from skyband.spark.options import CommonOptions
from skyband.spark.output import (
    change_columns,
    changed_rank,
    counted,
    key_columns,
    rank_column,
    unpacked_keys,
    update_columns,
)
from skyband.spark.panes import (
    collected_best_scores,
    deduplicated,
    oldest_of_best,
    watermarked,
)
from skyband.spark.plan import Family, Plan, check_k, resolve_base
from skyband.spark.scan import ValueText
from skyband.spark.scores import score_column
from skyband.spark.state.processor import StateSpec
from skyband.spark.state.row_blocks import Best, RowBlocks
from skyband.spark.state.updates import UPDATE_COLUMNS, with_open_panes
from skyband.windows import require_answerable
from skyband.workload.queries import SCORE, Workload

if TYPE_CHECKING:
    from skyband.spark.scan.reduction import BestRows

QUERY = "query"
"""The result column that says which query a row answers."""

BY = "_sky_by"
"""The number of the score by which a row is ranked, where it goes through once for each."""


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions(CommonOptions):
    """What :func:`skyband.spark.top_k_workload` was asked, as it was written."""

    workload: Workload
    id: Names | None = None
    keep: Names | None = None

    def check(self) -> None:
        """Refuse what no DataFrame can make right."""
        if not isinstance(self.workload, Workload):
            raise QueryError(
                f"workload is {self.workload!r}",
                "a Workload",
                "write Workload({'name': TopK(k=10, window=last(time='1 hour'))})",
            )
        if self.workload.counted and self.sequence is None:
            raise QueryError(
                "windows that count rows as they arrive",
                "sequence=, a dense number 0, 1, 2, ..., or windows of time: arrivals by key are "
                "answered for one query at a time",
                "write sequence='offset', or ask each query with top_k",
            )
        super().check()


@dataclass(frozen=True)
class WorkloadPlan(Plan):
    """A workload that fits a DataFrame.

    ``largest_k`` is the largest k of the queries by each score. ``complete_from`` holds, for
    queries that joined a running job, the position from which on their windows are complete.
    ``spread`` is how many milliseconds the watermark of earlier runs was behind the labels, at
    most. ``goes_on`` is the revision of the manifest that all this continues, 0 for a new job.
    ``pane_order`` is that by which the best rows of panes are chosen.
    """

    workload: Workload
    score_texts: tuple[str, ...]
    score_columns: tuple[Column, ...]
    largest_k: tuple[int, ...]
    eras: tuple[Era, ...]
    complete_from: Mapping[str, int]
    spread: int
    goes_on: int
    pane_order: PaneOrder

    @property
    def scores(self) -> tuple[Column, ...]:
        """The scores of all queries, each once."""
        return self.score_columns

    @property
    def queries(self) -> list[TopK]:
        """The queries, without their names."""
        return list(self.workload.queries.values())

    def scan_reduction(self, is_stream: bool) -> BestRows:
        """The best rows by each score, of parts of panes that all lie alike."""
        from skyband.spark.scan.reduction import BestRows, Ranking

        ties, rank_by = self.pane_order
        grid = finest_grid(self.eras)
        return BestRows(
            tuple(Ranking(k, rank_by) for k in self.largest_k),
            grid.phase,
            grid.slide,
            0,
            -1 if ties == "oldest" else 1,
            newest=self.base.axis.counts_rows,
        )

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of each score; all are doubles."""
        return tuple(ValueText(text, False) for text in self.score_texts)

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Find the best rows of each pane: its keys, position, then columns by each score.

        Where windows count rows, those that end at the last column or before are complete.
        """
        base, names = self.base, score_names(len(self.scores))
        placed = placed_in_panes(rows, self.eras, POSITION)
        rows = deduplicated(watermarked(placed, base, step_of(self.eras)), base)
        if rows.isStreaming and self.updates:
            delay = base.axis.watermark_delay(step_of(self.eras))
            label = base.axis.label_sql(F.col(LABEL))
            return self.blocks.of_rows(rows, F.col(PANE), label, delay)
        ties, rank_by = self.pane_order
        if rank_by != "row_number":
            return self._rows_of_best_scores(rows, rank_by, newest)
        aggregates: list[Column] = []
        columns: list[Column] = []
        ranked: dict[str, Column] = {}
        for i, (score, k) in enumerate(zip(names, self.largest_k, strict=True)):
            best = f"{BEST}_{i}"
            row = F.struct(score, *base.column_names)
            chosen = F.max_by(row, F.struct(score, POSITION, *base.tie_names), k)
            if ties == "oldest":
                chosen = F.min_by(row, oldest_of_best(F.col(score), base), k)
            aggregates.append(chosen.alias(best))
            ranked[best] = _with_score(best, score)
            columns.append(F.col(best)[score].alias(f"scores_{i}"))
            columns += [F.col(best)[name].alias(f"{name}_by_{i}") for name in base.column_names]
        if base.axis.counts_rows:
            aggregates.append(F.max(POSITION).alias(POSITION))
            columns.append(self._reached(newest))
        groups = rows.groupBy(*base.key_names, LABEL, PANE).agg(*aggregates)
        return groups.withColumns(ranked).select(
            *base.key_names, F.col(PANE).alias("pane"), *columns
        )

    def _reached(self, newest: Column | None) -> Column:
        """How far a pane's rows complete windows that count them."""
        last = newest if newest is not None and self.base.keys else F.col(POSITION)
        return (last + F.lit(1)).alias("reached")

    def _rows_of_best_scores(
        self, rows: DataFrame, rank_by: RankBy, newest: Column | None
    ) -> DataFrame:
        """All rows of each pane's best scores, by one score after the other, laid out as panes.

        Each row goes through once for each score that it is ranked by.
        """
        base, names = self.base, score_names(len(self.scores))
        each = [F.struct(F.lit(i).alias(BY), F.col(name).alias(OUR_SCORE))
                for i, name in enumerate(names)]  # fmt: skip
        rows = rows.select(
            *(column for column in rows.columns if column not in names),
            F.inline(F.array(*each)),
        )
        groups = [*base.key_names, LABEL, PANE, BY]
        panes = collected_best_scores(rows, base, groups, max(self.largest_k), rank_by)
        columns: list[Column] = []
        for i in range(len(names)):
            best = F.when(F.col(BY) == i, F.col(BEST)).otherwise(F.slice(BEST, 1, 0))
            columns.append(best[OUR_SCORE].alias(f"scores_{i}"))
            columns += [best[name].alias(f"{name}_by_{i}") for name in base.column_names]
        if base.axis.counts_rows:
            columns.append(self._reached(newest))
        return panes.select(*base.key_names, F.col(PANE).alias("pane"), *columns)

    @property
    def blocks(self) -> RowBlocks:
        """The best rows of each pane by each score, with all that orders them."""
        base, scores = self.base, score_names(len(self.scores))
        types = {
            **dict.fromkeys(scores, DoubleType()),
            POSITION: LongType(),
            **dict(zip(base.tie_names, transport_types(base.ties), strict=True)),
            **dict(zip(base.column_names, base.types, strict=True)),
        }
        row = StructType([StructField(name, type) for name, type in types.items()])
        ties, rank_by = self.pane_order
        age = (POSITION, *base.tie_names)
        rising = age if ties == "oldest" else ()
        best = (
            Best(k, (score, *age), rising, rank_by)
            for score, k in zip(scores, self.largest_k, strict=True)
        )
        return RowBlocks(tuple(base.key_names), row, tuple(best))

    @property
    def updates(self) -> bool:
        """Whether windows are reported while they are open, too."""
        return self.workload.model.emit == "updates"

    def stream_state(self) -> StateSpec:
        """What is kept of a key of a stream: open panes, too, if their windows are reported."""
        current = any(
            query.open_windows == "current" or query.window.panes.together for query in self.queries
        )
        return with_open_panes(self.state(), self.blocks, current) if self.updates else self.state()

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.workload.model.emit == "changes"

    def state(self) -> StateSpec:
        """Keep the candidates of each key, by each score."""
        number = {score: i for i, score in enumerate(self.score_texts)}
        queries = tuple(
            WorkerQuery(name, query, number[self.workload.by[name]], self.complete_from.get(name))
            for name, query in self.workload.queries.items()
        )
        base = self.base
        return WorkloadSpec(
            tuple(base.key_names),
            base.axis,
            PaneGrid(1, 1),
            queries,
            len(number),
            base.types,
            self.changes,
            self.pane_order[0] == "oldest",
        )

    def output(self, answers: DataFrame) -> DataFrame:
        """Make one row per rank: query, window, keys, rank, score, changes, carried columns."""
        base, changes = self.base, self.changes
        shared = self.workload.shares_ranks and not changes
        ranks = ["ranks", "previous"] if changes else ["ranks"] if shared else []
        arrays = ["rows", *ranks]
        nothing = F.lit(0).cast("bigint")
        ranked = F.aggregate("rows", nothing, lambda sum, ranking: sum + F.size(ranking))
        windows = F.size("rows")
        if self.updates:
            windows = F.when(F.col("final"), windows)
        rows = counted(answers, self, F.sum(windows), F.sum(ranked)).select(
            *key_columns(base),
            *update_columns(self),
            "scores",
            *base.column_names,
            F.inline(F.arrays_zip("queries", "starts", "ends", *arrays)),
        )
        ranking = F.arrays_zip(*arrays) if ranks else F.col("rows")
        rows = rows.select("*", F.posexplode(ranking).alias("place", "row"))
        row = F.col("row")
        slot, rank = (row["rows"], row["ranks"]) if ranks else (row, F.col("place") + 1)
        if changes:
            rank = changed_rank(row)
        start = F.col("starts")
        if any(query.window.kind == "all_time" for query in self.queries):
            start = F.nullif(start, F.lit(-FOREVER))  # it has none
        return rows.select(
            F.col("queries").alias(QUERY),
            base.axis.bounds_sql(start, F.col("ends")).alias("window"),
            *unpacked_keys(base),
            rank_column(rank, self),
            F.get("scores", slot).alias("score"),
            *(change_columns(row) if changes else []),
            *update_columns(self),
            *(
                column.unpack(F.get(name, slot))
                for name, column in zip(base.column_names, base.columns, strict=True)
            ),
        )

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on; what may change from run to run is in ``workload``."""
        behind = self.base.axis.watermark_delay(step_of(self.eras))
        ties, rank_by = self.pane_order
        return {
            **self.describe_base(),
            "emit": self.workload.model.emit,
            "scores": list(self.score_texts),
            **({"ties": ties} if ties != "newest" else {}),
            **({"rank_by": rank_by} if rank_by != "row_number" else {}),
            "workload": {
                "queries": {
                    name: [
                        *plain_query(query, self.workload.by[name]),
                        self.complete_from.get(name),
                    ]
                    for name, query in self.workload.queries.items()
                },
                "eras": [era.plain() for era in self.eras],
                "largest": list(self.largest_k),
                "spread": max(behind, self.spread),
                "goes_on": self.goes_on,
            },
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """The description, short: it goes into every file that a sink writes."""
        description = self.describe()
        workload = packed(description["workload"])
        current = all(query.open_windows == "current" for query in self.queries)
        return {
            **description,
            "workload": workload,
            "queries": len(self.workload),
            **({"open_windows": "current"} if current else {}),
        }

    @property
    def boundaries(self) -> Boundaries:
        """The panes that rows go into now."""
        return self.eras[-1].boundaries

    @property
    def step(self) -> int:
        """The most that a label lies after its row."""
        return self.boundaries.step

    def explain_lines(self) -> Lines:
        """Say what the queries share, and what each for itself would keep."""
        return explanation.lines(self)

    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan, by name; rows are per key."""
        return explanation.metrics(self)


class WorkloadQuery(JobQuery, RowFields):
    """What :func:`skyband.spark.top_k_workload` is asked, in a job file."""

    sequence: str | None = Field(default=None, description="the name of a column")
    emit: JobEmit = Field(default="all", description="all, changes or updates")
    open_windows: JobOpenWindows = Field(default="all", description="all or current")
    workload: str | list[dict[str, Any]] = Field(
        description="a file of queries, such as queries.csv, or a list of name, k, window, slide"
    )
    by: str | None = Field(
        default=None, description="the score of queries that name none, such as price * volume"
    )
    _queries: Workload = PrivateAttr()

    @property
    def queries(self) -> Workload:
        """The queries, once they are loaded; each has a score."""
        return self._queries

    def loaded(self, home: Path) -> WorkloadQuery:
        """The same with its queries, read from the file that it names."""
        if isinstance(self.workload, list):
            workload = Workload.of(self.workload)
        else:
            file = home / self.workload
            yaml = file.suffix.lower() in (".yaml", ".yml")
            workload = Workload.from_yaml(file) if yaml else Workload.from_csv(file)
        default = self.by or SCORE
        by = {name: default if score == SCORE else score for name, score in workload.by.items()}
        query = self.model_copy()
        queries = {
            name: replace(each, emit=self.emit, open_windows=self.open_windows)
            for name, each in workload.queries.items()
        }
        query._queries = Workload(queries, by)
        return query

    def options(self, safe: SafeText, drain: str | None = None) -> WorkloadOptions:
        """The options that are asked for."""
        by = {}
        for name, score in self.queries.by.items():
            with _named(name):
                by[name] = safe(score)
        workload = Workload(self.queries.queries, by)
        in_queries = ("by", "emit", "open_windows")
        return WorkloadOptions(**self.fields(*in_queries, workload=workload, drain=drain))

    def check(self, safe: SafeText, drain: str | None) -> None:
        """Refuse what no DataFrame can make right."""
        self.options(str, drain).check()
        for name, query in self.queries.queries.items():
            jobs.refuse_k_beyond_spark(f"k of {name!r}", query.k)
        self.options(safe)

    def words(self) -> str:
        """The queries in words."""
        return f"{self.queries} by {' or '.join(self.queries.scores[:3])}"


class WorkloadFamily(Family):
    """Many queries by one or several scores."""

    job_query: ClassVar[type[JobQuery]] = WorkloadQuery
    marker: ClassVar[str | None] = "workload"
    query_columns: ClassVar[tuple[str, ...]] = (QUERY,)
    revisable: ClassVar[str | None] = "workload"

    def resolve(self, df: DataFrame, options: WorkloadOptions) -> WorkloadPlan:
        """Check a workload against a DataFrame, and against the checkpoint that it goes on from."""
        options.check()
        require_frame(df)
        workload = options.workload
        check_k(max(query.k for query in workload.queries.values()))
        for query in workload.queries.values():
            require_answerable(query.window)
        earlier = None
        if options.checkpoint is not None and df.isStreaming:
            moments = getattr(workload.model.window, "unit", None) == "us"
            per_ms = (TimeAxis if moments else TickAxis).per_ms
            earlier = earlier_runs(df.sparkSession, options.checkpoint, per_ms)
        pane_order = workload.pane_order
        if earlier is not None:
            earlier = earlier.with_casts(workload)
            earlier.check_scores(workload)
            earlier.check_windows(workload)
            pane_order = earlier.checked_order(pane_order)
        scores = workload.scores if earlier is None else earlier.scores
        columns = tuple(_score_column(df, workload, score) for score in scores)
        base = resolve_base(
            df,
            options,
            workload.model.window,
            carry=options.keep,
            id=options.id,
            scores=scores,
            reserved=(QUERY, *(UPDATE_COLUMNS if workload.model.emit == "updates" else ())),
        )
        largest = dict.fromkeys(scores, 1)
        for name, query in workload.queries.items():
            by = workload.by[name]
            largest[by] = max(largest[by], query.k)
        largest_k = tuple(largest.values())
        boundaries = Boundaries.of(query.window for query in workload.queries.values())
        if earlier is None:
            eras = (Era(None, boundaries),)
            return WorkloadPlan(
                base, workload, scores, columns, largest_k, eras, {}, 0, 0, pane_order
            )
        return WorkloadPlan(
            base,
            workload,
            scores,
            columns,
            tuple(map(max, largest_k, earlier.largest_k)),
            earlier.eras(boundaries),
            earlier.complete_from(workload),
            earlier.spread,
            earlier.revision,
            pane_order,
        )

    def expanded(self, description: dict[str, Any]) -> dict[str, Any]:
        """A description from a result column, as the manifest holds it."""
        short = ("queries", "open_windows")  # the rest is what a checkpoint depends on
        whole = {name: value for name, value in description.items() if name not in short}
        return {**whole, "workload": unpacked(whole["workload"])}

    def revised(
        self, spark: SparkSession, before: dict[str, Any], query: dict[str, Any], checkpoint: str
    ) -> bool:
        """Whether queries have come or gone; raises if one has changed."""
        return restart.revised(spark, before, query, checkpoint)


def _with_score(rows: str, score: str) -> Column:
    """Those of an array of rows that have a score."""
    return F.filter(rows, lambda row: row[score].isNotNull())


def _score_column(df: DataFrame, workload: Workload, score: str) -> Column:
    """A score as a double; an error is reported with the first query that ranks by it."""
    for name, by in workload.by.items():
        if by == score:
            with _named(name):
                return score_column(df, score)
    return score_column(df, score)  # of queries that the job had before


@contextmanager
def _named(query: str) -> Iterator[None]:
    """Say in errors which of the queries is meant."""
    try:
        yield
    except SkybandError as error:
        raise type(error)(f"query {query!r}: {error.found}", error.expected, error.fix) from None


FAMILY = WorkloadFamily()
