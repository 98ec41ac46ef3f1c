"""The rows of each window that dominate the most others: options, plans, and how jobs ask.

All rows together are spread over shards: each counts what the few possible answers dominate among
its own rows, and the counts are summed. By key, each key runs the local engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from skyband.dominating import ALGORITHMS, EXACT
from skyband.dominating.planner import plan, require_able
from skyband.dominating.query import Direction, TopKDominating
from skyband.errors import QueryError
from skyband.spark.columns import (
    LONGER,
    POSITION,
    SCORE,
    Names,
    in_words,
    indexed,
    transport_types,
)
from skyband.spark.explain import Lines, pane_lines, panes_of, row_bytes
from skyband.spark.families.dominating import blocks, shard_counts
from skyband.spark.families.dominating.by_key import PointsSpec
from skyband.spark.families.dominating.shard_counts import ShardCountsSpec
from skyband.spark.jobs.queries import JobQuery, OrderFields, RowFields, SafeText, WindowQuery
from skyband.spark.options import WindowOptions, check_algorithm, check_shards, usual_shards
from skyband.spark.panes import (
    all_rows,
    deduplicated,
    labelled,
    row_blocks,
    settled,
    watermarked,
)
from skyband.spark.plan import Family, WindowPlan, check_k, resolve_base
from skyband.spark.scan import NotScannedError, ValueText
from skyband.spark.scores import Score, score_column
from skyband.spark.state.processor import StateSpec
from skyband.spark.state.row_blocks import RowBlocks
from skyband.spark.state.shards import SHARD
from skyband.windows import TimeWindow, require_sliding

if TYPE_CHECKING:
    from skyband.spark.scan.row_maker import RowMaker

_COUNTED = 6 * 8  # bytes of a candidate besides its point and its columns


@dataclass(frozen=True, kw_only=True)
class DominatingOptions(WindowOptions):
    """What :func:`skyband.spark.top_k_dominating` was asked, as it was written."""

    dimensions: Sequence[tuple[str, Direction]]
    id: Names | None = None
    keep: Names | None = None
    shards: int | None = None
    ties: str = "newest"
    rank_by: str = "row_number"

    def query(self) -> TopKDominating:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        window = self.parsed_window()
        query = TopKDominating(
            self.k,
            self.dimensions,
            window,
            self.emit,  # type: ignore[arg-type]
            open_windows=self.open_windows,  # type: ignore[arg-type]
            ties=self.ties,  # type: ignore[arg-type]
            rank_by=self.rank_by,  # type: ignore[arg-type]
        )
        require_able(query, self.algorithm)
        self.check()
        self.check_window(window)
        if self.algorithm not in ("auto", *EXACT):
            require_sliding(window, "dominating points that are estimated")
        if self.emit == "updates":
            self._check_updates()
        elif self.partition_by:
            self._check_by_key()
        else:
            self._check_together()
        return query

    def _check_by_key(self) -> None:
        self.refuse_sequence_by_key()
        check_algorithm(self.algorithm, ALGORITHMS)
        if self.shards is not None:
            raise QueryError(
                f"shards is {self.shards!r} with partition_by",
                "no shards: each key is counted by itself",
                "leave shards out",
            )

    def _check_updates(self) -> None:
        """Refuse what the local engine cannot report while windows are open."""
        self.refuse_shards_of_updates(self.shards)
        if not self.partition_by:
            self._refuse_algorithm_together()
        check_algorithm(self.algorithm, ALGORITHMS)
        if self.sequence is not None:
            raise QueryError(
                f"sequence={self.sequence!r} with emit='updates'",
                "windows of time: the engine of a key counts no rows",
                "write time='ts', window='1 hour', or leave emit out",
            )

    def _refuse_algorithm_together(self) -> None:
        if self.algorithm != "auto":
            raise QueryError(
                f"algorithm is {self.algorithm!r} for all rows together",
                "'auto': only queries by key run one of the local engine's",
                "leave algorithm out, or write partition_by=...",
            )

    def _check_together(self) -> None:
        self._refuse_algorithm_together()
        if self.emit != "all":
            raise QueryError(
                f"emit is {self.emit!r} for all rows together",
                "emit='all', or a query by key: shards answer with whole rankings",
                "leave emit out",
            )
        check_shards(self.shards)


@dataclass(frozen=True)
class DominatingPlan(WindowPlan):
    """A query over all rows together, which ``shards`` share.

    ``points`` are its dimensions, less being better. ``score`` is 0, or NULL or NaN where an
    attribute is: this is how such rows are counted and left out.
    """

    points: tuple[Column, ...]
    shards: int

    path: ClassVar[str] = "shards"

    @property
    def extras(self) -> tuple[Column, ...]:
        """The coordinates of a row's point."""
        names = self.coordinate_names
        return tuple(point.alias(name) for point, name in zip(self.points, names, strict=True))

    @property
    def coordinate_names(self) -> list[str]:
        """The dimensions under our names."""
        return indexed("x", len(self.points))

    def scan_reduction(self, is_stream: bool) -> RowMaker:
        """Blocks of points."""
        from skyband.spark.families.dominating.scan import PointsByTasks

        return PointsByTasks(blocks.block_writer(self), self.grid, self.query.signs)

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of each attribute."""
        return tuple(ValueText(name, False, "dimension") for name in self.query.names)

    def scan_layout(self, projected: StructType) -> StructType:
        """Give the columns of blocks."""
        return blocks.block_layout(blocks.block_writer(self), projected)

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Cut the rows of each task into blocks, and put the panes of each shard together."""
        if blocks.POINTS in rows.columns:  # by tasks that have read files
            made = blocks.blocks_of_tasks(rows, self)
        else:
            rows = labelled(deduplicated(rows, self.base), self.grid)
            made = blocks.pane_blocks(rows, self)
        placed = watermarked(made, self.base, self.grid.slide)
        return blocks.panes_of_blocks(placed, self)

    def state(self) -> StateSpec:
        """Keep the points of each shard, and what candidates dominate among them."""
        return ShardCountsSpec(
            (SHARD,),
            self.base.axis,
            self.grid,
            self.query.k,
            len(self.points),
            self.shards,
            self.base.types,
            self.first_full_window,
            self.dense,
        )

    @property
    def dense(self) -> bool:
        """Whether ranks count different scores."""
        return self.rank_by == "dense_rank"

    def merge(self, answers: DataFrame) -> DataFrame:
        """Sum the counts of all shards, and rank."""
        order = (self.oldest_first, self.rank_by)
        return shard_counts.summed(answers, self.query.k, self.base.types, *order)

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on."""
        dimensions = [f"{name} {direction}" for name, direction in self.query.dimensions]
        return {**super().describe(), "dominating": dimensions, "shards": self.shards}

    def explain_lines(self) -> Lines:
        """Say who counts, what is kept, and what a slide costs."""
        return [*pane_lines(self), *self._path_lines(f"{8 * len(self.points):,} bytes each")]

    def _path_lines(self, point: str) -> Lines:
        metrics = self.explain_metrics()
        return [
            ("path", f"{self.shards} shards: each holds its share of the points, and counts in "
                     "parallel"),
            ("algorithm", "pane counts: what a point dominates adds up, over panes and shards"),
            ("", "a slide costs the pane that comes and the one that goes, not the window"),
            *self._candidate_lines(),
            ("", f"{metrics['bytes_per_candidate']:,} bytes each, {self._counted_when()}"),
            ("state", f"every point of the window, {point}, in one of the shards"),
            ("ranking", "one task sums a number per candidate and shard; it sees no points"),
        ]  # fmt: skip

    def _candidate_lines(self) -> Lines:
        k = f"{self.query.k:,}"
        if self.dense:
            return [
                ("before the shuffle", f"rows below {k} rows of their pane, each of which "
                                       "dominates the next,"),
                ("", "are no candidates: such rows differ in scores"),
                ("candidates", f"rows below fewer than {k} such rows that live as long; in all "
                               "shards"),
            ]  # fmt: skip
        return [
            ("before the shuffle", f"rows that {k} rows of their pane dominate are no candidates"),
            ("candidates", f"rows with fewer than {k} dominators that live as long; in all shards"),
        ]

    def _counted_when(self) -> str:
        return "all of them counted" if self.dense else "counted once nobody hides them"

    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan; how many points a window holds, only the stream knows."""
        point = 8 * len(self.points)
        return {
            "path": self.path,
            "dimensions": len(self.points),
            "slide": self.query.window.slide,
            "panes_per_window": panes_of(self).per_window,
            "shards": self.shards or None,
            "algorithm": self.algorithm if self.base.keys else "pane counts",
            "bytes_per_point": point,
            "bytes_per_candidate": point + _COUNTED + row_bytes(self.base),
        }

    @property
    def missing(self) -> str:
        """What rows lack that are not ranked, in words."""
        return "one of these attributes"


@dataclass(frozen=True)
class DominatingByKeyPlan(DominatingPlan):
    """A query by key; it has no shards."""

    path: ClassVar[str] = "key"

    def scan_reduction(self, is_stream: bool) -> RowMaker:
        """Leave all rows to Spark, which collects them for the engine of their key."""
        raise NotScannedError("every row goes to the local engine of its key as it is")

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Collect all rows of each pane; the engine needs no more than one pane per step."""
        base = self.base
        rows = settled(rows, base, self.grid).drop(LONGER)
        if rows.isStreaming and self.updates:
            return row_blocks(rows, self)
        columns = [POSITION, *self.coordinate_names, *base.column_names]
        return all_rows(rows, self, base.key_names, [POSITION, *base.tie_names], columns)

    def state(self) -> StateSpec:
        """Keep the engine of each key, over plain numbers of microseconds, less being better."""
        window = self.query.window
        assert isinstance(window, TimeWindow), "queries by key have windows of time"
        query = TopKDominating(
            self.query.k,
            [(name, "min") for name in self.coordinate_names],
            replace(window, unit="tick"),
            "all" if self.updates else self.query.emit,
            ties=self.query.ties,
            rank_by=self.query.rank_by,
        )
        keys = tuple(self.base.key_names)
        return PointsSpec(keys, self.base.axis, self.grid, query, self.algorithm, self.base.types)

    @property
    def blocks(self) -> RowBlocks:
        """All rows of each pane."""
        base = self.base
        types = {
            SCORE: DoubleType(),
            POSITION: LongType(),
            **dict.fromkeys(self.coordinate_names, DoubleType()),
            **dict(zip(base.tie_names, transport_types(base.ties), strict=True)),
            **dict(zip(base.column_names, base.types, strict=True)),
        }
        row = StructType([StructField(name, type) for name, type in types.items()])
        order = (POSITION, *base.tie_names)
        return RowBlocks(tuple(base.key_names), row, score=SCORE, order=order)

    def merge(self, answers: DataFrame) -> DataFrame:
        """Leave each key its ranking."""
        return answers

    @property
    def _engine(self) -> str:
        """The algorithm of the local engine, in words."""
        if self.oldest_first or self.query.shares_ranks:
            return str(plan(self.query))
        return f"{self.algorithm}: one of the local engine's"

    def _path_lines(self, point: str) -> Lines:
        keys, each = in_words([key.name for key in self.base.keys]), self.base.each
        whose = f"keys: all rows of each {keys}" if keys else "one task: all rows"
        return [
            ("path", f"{whose} go to the local engine, pane by pane"),
            ("algorithm", self._engine),
            ("state", f"every point of the window, {point}, and its columns,{each}"),
        ]


class DominatingQuery(WindowQuery, RowFields, OrderFields):
    """What :func:`skyband.spark.top_k_dominating` is asked, in a job file."""

    score_field: ClassVar[str] = "query.dominating"

    dominating: dict[str, Literal["min", "max"]] = Field(
        min_length=1, description="attributes and which way is better, such as price: min"
    )
    shards: int | None = Field(default=None, description="a whole number, such as 8")

    def options(self, safe: SafeText, drain: str | None = None) -> DominatingOptions:
        """The options that are asked for."""
        dimensions = [(safe(name), direction) for name, direction in self.dominating.items()]
        return DominatingOptions(**self.fields("dominating", dimensions=dimensions, drain=drain))

    def words(self) -> str:
        """The query in words."""
        return str(self.options(str).query())


class DominatingFamily(Family):
    """Rows that dominate the most others."""

    job_query: ClassVar[type[JobQuery]] = DominatingQuery
    marker: ClassVar[str | None] = "dominating"

    def resolve(self, df: DataFrame, options: DominatingOptions) -> DominatingPlan:
        """Check a query against a DataFrame; raises before any row is read."""
        query = options.query()
        check_k(query.k)
        columns = tuple(score_column(df, name, "dimension") for name in query.names)
        base = resolve_base(
            df, options, query.window, carry=options.keep, id=options.id, scores=query.names
        )
        if df.isStreaming and base.deduplicate_by and not base.keys and query.emit != "updates":
            raise QueryError(
                "deduplicate_by for all rows of a stream together",
                "rows that come once, a batch, or a query by key: "
                "Spark cannot set a second watermark",
                "remove repeats before, in a stream of its own, or leave deduplicate_by out",
            )
        points = tuple(
            column * F.lit(sign) + F.lit(0.0)
            for column, sign in zip(columns, query.signs, strict=True)
        )
        # windows that are reported while they are open are one task's, even without keys
        alone = bool(base.keys) or (query.emit == "updates" and df.isStreaming)
        kind = DominatingByKeyPlan if alone else DominatingPlan
        # each shard gets a copy of all candidates
        shards = 0 if alone else options.shards or usual_shards(base.partitions)
        score = Score(_missing(columns))
        return kind(base, query, score, "points dominated", options.algorithm, points, shards)


def _missing(columns: tuple[Column, ...]) -> Column:
    """NULL or NaN where an attribute is, else 0."""
    nulls = reduce(Column.__or__, (column.isNull() for column in columns))
    nans = reduce(Column.__or__, (F.isnan(column) for column in columns))
    nothing = F.lit(None).cast("double")
    return F.when(nulls, nothing).when(nans, F.lit(float("nan"))).otherwise(F.lit(0.0))


FAMILY = DominatingFamily()
