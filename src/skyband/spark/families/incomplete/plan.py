"""Top-k over incomplete streams on Spark: objects, whose attributes arrive apart.

Objects are spread over shards by their ids; each runs the local engine on closed panes, and the
best of all shards are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    StructType,
)

from skyband.errors import DataError, QueryError
from skyband.incomplete import ALGORITHMS
from skyband.incomplete.planner import plan
from skyband.incomplete.query import TopKIncomplete
from skyband.spark.columns import (
    SCORE,
    Names,
    TransportColumn,
    column_names,
    quoted,
    require_frame,
    schema_of,
)
from skyband.spark.explain import Lines, pane_lines, panes_of
from skyband.spark.families.incomplete.engine import IncompleteEngine
from skyband.spark.families.incomplete.union_streams import NAME, VALUE, union_streams
from skyband.spark.families.incomplete.values import (
    OUTSIDE,
    STREAM,
    UNKNOWN,
    StreamBounds,
    bounded_sql,
    stream_place,
)
from skyband.spark.jobs.failures import Cause
from skyband.spark.jobs.queries import JobQuery, OrderFields, Part, SafeText, WindowQuery
from skyband.spark.jobs.queries import Names as JobNames
from skyband.spark.options import WindowOptions, check_algorithm, check_shards, usual_shards
from skyband.spark.panes import settled
from skyband.spark.plan import Family, WindowPlan, check_k, resolve_base
from skyband.spark.scan import NotScannedError, ValueText
from skyband.spark.scores import Score, score_column
from skyband.spark.state.row_blocks import RowBlocks
from skyband.spark.state.shard import ShardSpec, synthetic_times
from skyband.spark.state.shards import (
    Order,
    merged,
    shard_blocks,
    shard_groups,
    shard_panes,
    spread,
)
from skyband.windows import AllTimeWindow

if TYPE_CHECKING:
    from skyband.spark.scan.row_maker import RowMaker

CLIPPED = "_sky_clipped"
_COMPARED = ("string", "tinyint", "smallint", "int", "bigint")
"""Types of names of streams that tasks compare as Spark does."""


@dataclass(frozen=True, kw_only=True)
class IncompleteOptions(WindowOptions):
    """What :func:`skyband.spark.top_k_incomplete` was asked, as it was written."""

    id: Names
    value: str | Column
    streams: Sequence[str] | None = None
    stream: str | None = None
    combine: Any = "sum"
    bounds: Any = (0.0, 1.0)
    outside: str = "error"
    repeats: Any = "max"
    options: Mapping[str, Any] | None = None
    shards: int | None = None
    ties: str = "newest"
    rank_by: str = "row_number"

    value_text: str | None = None  # as it was written, if streams were united

    @property
    def drainable(self) -> bool:
        """Whether a stream can answer its last windows when it is told that it has ended."""
        return self.sequence is None

    def query(self) -> TopKIncomplete:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        if self.streams is None:
            raise QueryError(
                "streams were not given",
                "the names of the streams",
                "write streams=['north', 'south']",
            )
        window = self.parsed_window()
        self.check_window(window)
        if callable(self.combine):
            raise QueryError(
                "combine is a function",
                "'sum', 'min', 'max' or weights: on Spark, streams outlive the code of a function",
                "write combine='sum', or run the local engine, skyband.IncompleteMonitor",
            )
        query = TopKIncomplete(
            self.k,
            self.streams,
            window,
            self.combine,
            self.bounds,
            self.outside,  # type: ignore[arg-type]
            self.repeats,
            self.emit,  # type: ignore[arg-type]
            open_windows=self.open_windows,  # type: ignore[arg-type]
            ties=self.ties,  # type: ignore[arg-type]
            rank_by=self.rank_by,  # type: ignore[arg-type]
        )
        check_shards(self.shards)
        self.refuse_shards_of_all_time(self.shards)
        self.refuse_shards_of_updates(self.shards)
        self._check_sequence()
        self.check()
        check_algorithm(self.algorithm, ALGORITHMS)
        if self.algorithm != "auto" or self.options:
            from skyband.incomplete.monitor import IncompleteMonitor

            IncompleteMonitor(query, self.algorithm, options=self.options)
        return query

    def _check_sequence(self) -> None:
        if self.sequence is None:
            return
        self.refuse_sequence_by_key()
        if self.drain is not None:
            raise QueryError(
                "drain is given for windows over a sequence",
                "no drain: a shard cannot know which windows the rows of others complete",
                "leave drain out, or answer it as a batch, which knows all rows",
            )
        if self.full and self.emit == "changes":
            raise QueryError(
                "full=True with emit='changes'",
                "one of them: changes are told from the first window on",
                "leave full out",
            )


def one_frame(
    df: DataFrame | Mapping[str, DataFrame], options: IncompleteOptions
) -> tuple[DataFrame, IncompleteOptions]:
    """One DataFrame of all streams, and the options that ask it the same."""
    if not isinstance(df, Mapping):
        return df, options
    if options.streams is None:
        options = replace(options, streams=list(df))
    options.query()
    text = options.value if isinstance(options.value, str) else str(options.value)
    rows, united = union_streams(df, options)
    return rows, replace(united, stream=NAME, value=VALUE, value_text=text)


@dataclass(frozen=True)
class IncompletePlan(WindowPlan):
    """A query that fits a DataFrame: ``score`` is the value, within its bounds.

    It is NULL also where the id is, which is how such rows are counted and left out. ``stream`` is
    the place of a row's stream, named in ``stream_column``, among the query's; ``clipped`` says
    whether its value was moved. The carried columns are those of the id.
    """

    stream_column: str
    stream_type: DataType
    stream: Column
    clipped: Column
    options: Mapping[str, Any]
    shards: int

    @property
    def extras(self) -> tuple[Column, ...]:
        """The stream, and whether the value was moved."""
        return (self.stream.alias(STREAM), self.clipped.alias(CLIPPED))

    @property
    def extra_counts(self) -> Mapping[str, Column]:
        """How many values were moved."""
        return {"clipped": F.count_if(CLIPPED)}

    def scan_reduction(self, is_stream: bool) -> RowMaker:
        """The largest value of each object in a stream and pane: others never matter."""
        from skyband.spark.families.incomplete.scan import LargestByTasks

        base, query = self.base, self.query
        if query.most > 1:
            raise NotScannedError("repeated values are added up, so every row matters")
        for column in base.columns:
            if isinstance(column.type, (DoubleType, FloatType)):
                raise NotScannedError(
                    f"{column.name} is an id of type {column.type.simpleString()}"
                )
        if self.stream_type.simpleString() not in _COMPARED:
            named = f"{self.stream_column} is of type {self.stream_type.simpleString()}"
            raise NotScannedError(f"{named} and names streams")
        clips, ids = query.outside == "clip", tuple(base.column_names)
        return LargestByTasks(StreamBounds.of(query), clips, self.grid, ids)

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of the value; Spark evaluates it of rows without an id to clip it."""
        clips = self.query.outside == "clip"
        needs = () if clips else tuple(column.name for column in self.base.columns)
        return (ValueText(self.score_text, False, "value", needs),)

    def scan_columns(self) -> Mapping[str, str]:
        """Give the column that names a row's stream."""
        return {STREAM: self.stream_column}

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Spread objects over shards; give each all rows of its panes."""
        rows = settled(rows.drop(CLIPPED), self.base, self.grid)
        return shard_panes(spread(rows, self.base, self.shards), self, self.state(), newest)

    def state(self) -> ShardSpec:
        """Keep the engine of each shard."""
        window, paired = self.query.window, self.changes and self.shards > 1
        # values have been moved to their bounds before
        query = replace(
            self.query,
            window=synthetic_times(window.size, window.slide, type(window)),
            outside="clip",
            emit="all" if paired or self.updates else self.query.emit,
            open_windows="all",
        )
        return ShardSpec(
            tuple(shard_groups(self.base)),
            self.base.axis,
            self.grid,
            IncompleteEngine(query, self.algorithm, dict(self.options)),
            self.base.types,
            (STREAM, SCORE),
            self.shards > 1,
            self.first_full_window,
            paired,
        )

    @property
    def blocks(self) -> RowBlocks:
        """All rows of each pane."""
        return shard_blocks(self.state(), (IntegerType(), DoubleType()))

    def merge(self, answers: DataFrame) -> DataFrame:
        """Take the best of all shards."""
        return merged(
            answers,
            self.base,
            self.shards,
            self.query.k,
            self.base.types,
            changes=self.changes,
            order=Order(self.oldest_first, self.rank_by),
        )

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on."""
        query, combine = self.query, self.query.combine
        repeats = query.repeats if isinstance(query.repeats, str) else f"sum of {query.most}"
        return {
            **super().describe(),
            "stream": self.stream_column,
            "order": self.tie_breakers,
            "incomplete": [
                f"{name} {low:g} to {high:g}" for name, (low, high) in query.bounds.items()
            ],
            "combine": combine if isinstance(combine, str) else list(combine),
            "outside": query.outside,
            "repeats": repeats,
            "options": [f"{name} {self.options[name]}" for name in sorted(self.options)],
            "shards": self.shards,
        }

    @property
    def tie_breakers(self) -> list[str]:
        """The columns of the id."""
        return [column.name for column in self.base.columns]

    @property
    def missing(self) -> str:
        """What rows lack that are not ranked, in words."""
        return "value or id"

    def explain_lines(self) -> Lines:
        """Say who ranks objects, what is kept of them, and what becomes of odd values."""
        k, shards, each = self.query.k, self.shards, self.base.each
        algorithm, reason = self._planned()
        sure = "sure" if algorithm == "eaa" else "likely"
        state = (
            f"rows of objects that fewer than {k:,} others are {sure} to outrank while they live"
        )
        if algorithm in ("recompute", "sla"):
            state = "every row of the window"
        lines = [
            *pane_lines(self),
            ("path", f"{shards} shard{'s' if shards > 1 else ''}{each}: "
                     "each object is in one of them"),
            ("", "closed panes go to the local engine, in the order of time"),
            ("algorithm", f"{algorithm}: {reason}"),
            ("state", f"{state}, in each shard"),
        ]  # fmt: skip
        if shards > 1:
            lines.append(
                ("ranking", f"the {k:,} best of each shard, merged; no task sees all rows")
            )
        return [*lines, ("values", self._value_line())]

    def _planned(self) -> tuple[str, str]:
        """The algorithm, and why."""
        if self.algorithm != "auto":
            return self.algorithm, "asked for by name"
        planned = plan(self.query)
        return planned.algorithm, planned.reasons[-1]

    def _value_line(self) -> str:
        bounds = self.query.bounds
        pairs = {f"{low:g} to {high:g}" for low, high in bounds.values()}
        named = [f"{name} {low:g} to {high:g}" for name, (low, high) in bounds.items()]
        values = pairs.pop() if len(pairs) == 1 else ", ".join(named)
        if self.query.outside == "clip":
            return f"{values}; others are moved there, and counted"
        return f"{values}; one beyond fails the query"

    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan; how many objects are kept, only the stream knows."""
        return {
            "path": "shards",
            "streams": len(self.query.streams),
            "slide": self.query.window.slide,
            "panes_per_window": panes_of(self).per_window,
            "shards": self.shards,
            "algorithm": self._planned()[0],
        }


_Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class Incomplete(Part):
    """What rows of incomplete streams say, and how scores are made of it."""

    streams: list[str] = Field(min_length=1, description="the names of the streams")
    id: JobNames = Field(description="the column, or the columns, that name an object")
    stream: str = Field(description="the column that says which stream a row belongs to")
    value: str = Field(description="an expression over columns, such as speed / 3.6")
    combine: Literal["sum", "min", "max"] | list[float] = Field(
        default="sum", description="sum, min, max, or a list of weights"
    )
    bounds: _Pair | dict[str, _Pair] = Field(
        default=[0.0, 1.0],
        description="the lowest and the highest value, such as [0, 300], or such a pair by stream",
    )
    outside: Literal["error", "clip"] = Field(default="error", description="error or clip")
    repeats: Literal["max", "none"] | dict[Literal["sum"], int] = Field(
        default="max", description="max, none, or how many at most are added up, such as sum: 3"
    )


class IncompleteQuery(WindowQuery, OrderFields):
    """What :func:`skyband.spark.top_k_incomplete` is asked, in a job file."""

    score_field: ClassVar[str] = "query.incomplete.value"

    incomplete: Incomplete = Field(description="a group of streams, id, stream, value, bounds")
    algorithm_options: dict[str, int | float | str] = Field(
        default={}, alias="options", description="options of the algorithm, by name"
    )
    shards: int | None = Field(default=None, description="a whole number, such as 8")

    def options(self, safe: SafeText, drain: str | None = None) -> IncompleteOptions:
        """The options that are asked for."""
        rows = self.incomplete.model_dump()
        if isinstance(rows["repeats"], dict):
            rows["repeats"] = next(iter(rows["repeats"].items()), ())
        rows["value"] = safe(rows["value"])
        rest = self.fields("incomplete", "algorithm_options", drain=drain)
        return IncompleteOptions(**rows, **rest, options=self.algorithm_options)

    def words(self) -> str:
        """The query in words."""
        return str(self.options(str).query())


class IncompleteFamily(Family):
    """Objects of incomplete streams."""

    job_query: ClassVar[type[JobQuery]] = IncompleteQuery
    marker: ClassVar[str | None] = "incomplete"
    extra_counts: ClassVar[Mapping[str, str]] = {"clipped": "values moved to a bound"}
    unspoken: ClassVar[tuple[str, ...]] = (VALUE,)
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            rf"{OUTSIDE}: (?P<detail>.*? is not from \S+ to \S+)",
            DataError,
            "a value is beyond its bounds",
            "values within the bounds of their stream",
            "declare wider bounds, or outside: clip",
        ),
        Cause(
            rf"{UNKNOWN}: (?P<detail>.*? is none of .*?)(?= SQLSTATE|$)",
            DataError,
            "a row belongs to no stream of the query",
            "rows of the streams that are named",
            "name it in streams, or leave its rows out of the source",
        ),
    )

    def resolve(self, df: DataFrame, options: IncompleteOptions) -> IncompletePlan:
        """Check a query against a DataFrame; raises before any row is read."""
        require_frame(df)
        query = options.query()
        value = score_column(df, options.value, "value")
        check_k(query.k)
        _check_ids(df, options)
        base = resolve_base(df, options, query.window, carry=options.id, carry_option="id")
        name, stream = stream_place(df, options.stream, query)
        value, clipped = bounded_sql(value, stream, query)
        nameless = reduce(Column.__or__, map(_missing, base.columns))
        alone = (
            bool(base.keys)
            or isinstance(query.window, AllTimeWindow)  # shards would end at different times
            or (query.emit == "updates" and df.isStreaming)
        )
        return IncompletePlan(
            replace(base, ties=()),  # ids are carried, and break ties
            query,
            Score(F.when(nameless, F.lit(None).cast("double")).otherwise(value)),
            options.value_text or str(options.value),
            options.algorithm,
            str(options.stream),
            df.schema[name].dataType,
            stream,
            clipped & ~nameless,
            dict(options.options or {}),
            options.shards or (1 if alone else usual_shards(base.partitions)),
        )


FAMILY = IncompleteFamily()


def _check_ids(df: DataFrame, options: IncompleteOptions) -> None:
    schema = schema_of(df)
    names = column_names(schema, options.id, "id")
    keys = column_names(schema, options.partition_by, "partition_by")
    if not names:
        raise QueryError("id was not given", "the columns that name an object", "write id='plate'")
    for name in names:
        if name in keys:
            raise QueryError(
                f"column {name!r} is in id and in partition_by",
                "columns that name the objects of a key",
                "leave it out of id",
            )
        type = schema[name].dataType
        if isinstance(type, (ArrayType, StructType)):
            raise DataError(
                f"id {name!r} is of type {type.simpleString()}",
                "columns of plain types",
                f"name its parts, or to_json({name}) as a column",
            )


def _missing(column: TransportColumn) -> Column:
    """Whether a row lacks a part of its id."""
    name = quoted(column.name)
    missing = F.col(name).isNull()
    return missing | F.isnan(name) if isinstance(column.type, (DoubleType, FloatType)) else missing
