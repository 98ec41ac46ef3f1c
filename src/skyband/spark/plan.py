"""Options and a DataFrame become a plan: a query that was checked against its columns.

What all families resolve alike is a :class:`BasePlan`. A :class:`Plan` adds what makes a family:
which panes rows are reduced to, what is kept of them, how answers become rows. A :class:`Family`
makes plans, and tells the rest of the package what it has to know of them.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skyband.errors import DataError, QueryError
from skyband.html_tables import sentences
from skyband.query import RankBy
from skyband.spark import output
from skyband.spark.axis import (
    FOREVER,
    ArrivalAxis,
    Axis,
    PaneGrid,
    SequenceAxis,
    TickAxis,
    TimeAxis,
)
from skyband.spark.columns import (
    ALL,
    Names,
    TransportColumn,
    check_spelling,
    check_zone,
    column_names,
    groupable,
    in_words,
    indexed,
    moment_column,
    orderable,
    require_frame,
    schema_of,
    transport,
    transport_types,
)
from skyband.spark.options import CommonOptions, Derivation, duration
from skyband.spark.scan import NotScannedError, ValueText
from skyband.spark.scores import Score, names_score, warn
from skyband.spark.state.updates import UPDATE_COLUMNS, PaneBlocks, with_open_panes
from skyband.windows import CountWindow, TimeWindow, Window

if TYPE_CHECKING:
    from skyband.spark.explain import Lines
    from skyband.spark.jobs.failures import Cause
    from skyband.spark.jobs.queries import JobQuery
    from skyband.spark.scan.reduction import BestRows
    from skyband.spark.scan.row_maker import RowMaker
    from skyband.spark.state.processor import StateSpec

MOST = 100_000
MANY = 10_000
PARTITIONS = "spark.sql.shuffle.partitions"
RESERVED = ("window", "rank", "score", "change", "previous_rank")


@dataclass(frozen=True)
class BasePlan:
    """How the rows of a DataFrame take part in a query: what every family resolves alike.

    ``columns`` are what rows carry into the result; ``ties`` order rows of equal score and
    position, larger first. ``partitions`` are the session's shuffle partitions.
    """

    axis: Axis
    keys: tuple[TransportColumn, ...]
    columns: tuple[TransportColumn, ...]
    ties: tuple[TransportColumn, ...]
    deduplicate_by: tuple[str, ...]
    drain: str | None
    partitions: int
    derivation: Derivation

    @property
    def key_names(self) -> list[str]:
        """The key columns under our names; a query without keys has one constant."""
        return indexed("key", len(self.keys)) or [ALL]

    @property
    def column_names(self) -> list[str]:
        """The carried columns under our names."""
        return indexed("kept", len(self.columns))

    @property
    def tie_names(self) -> list[str]:
        """The columns that break ties, under our names."""
        return indexed("tie", len(self.ties))

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types in which carried columns pass through Python."""
        return transport_types(self.columns)

    @property
    def each(self) -> str:
        """For whom there is a ranking, in words: empty without keys."""
        return f" for each {in_words([key.name for key in self.keys])}" if self.keys else ""


@dataclass(frozen=True)
class Plan(ABC):
    """A query that fits a DataFrame; the pipeline asks it for each step that families differ in."""

    base: BasePlan

    @property
    @abstractmethod
    def scores(self) -> tuple[Column, ...]:
        """What rows are checked by: rows that have none of these are counted and left out."""

    @property
    def extras(self) -> tuple[Column, ...]:
        """What a row has besides the columns of every query."""
        return ()

    @property
    def extra_counts(self) -> Mapping[str, Column]:
        """What is counted of the rows that were read besides what every query counts.

        The family says under :attr:`Family.extra_counts` what it means.
        """
        return {}

    def project(self, rows: DataFrame) -> DataFrame:
        """Change the projected rows before they are counted."""
        return rows

    # what tasks ask that read files by themselves

    def scan_reduction(self, is_stream: bool) -> BestRows | RowMaker:
        """Say which rows of a file may win, or what stands for them.

        Raises NotScannedError if every row matters as it is.
        """
        raise NotScannedError("every row matters to this query")

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of each score, or of the numbers that something is made of."""
        return ()

    def scan_columns(self) -> Mapping[str, str]:
        """Give the columns that tasks need besides those of every query, under our names."""
        return {}

    def scan_layout(self, projected: StructType) -> StructType:
        """Give the columns that are handed on; by default those that the pipeline projects."""
        return projected

    @abstractmethod
    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Reduce rows to what may still win in each closed pane.

        ``newest`` is the newest position of a batch whose axis counts rows: rows of any key
        complete windows.
        """

    @abstractmethod
    def state(self) -> StateSpec:
        """What is kept of a key between micro-batches."""

    @property
    def updates(self) -> bool:
        """Whether windows are reported while they are open, too."""
        return False

    def stream_state(self) -> StateSpec:
        """The same of a stream, which may show windows while they are open."""
        return self.state()

    def merge(self, answers: DataFrame) -> DataFrame:
        """Make one ranking of those of several shards."""
        return answers

    @abstractmethod
    def output(self, answers: DataFrame) -> DataFrame:
        """Make ranked rows of answers."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on, as plain values: see the manifest."""

    def describe_base(self) -> dict[str, Any]:
        """Say what a checkpoint depends on in every family."""
        axis = self.base.axis
        return {
            "windows": axis.kind,
            "time": axis.column,
            "delay": axis.delay,
            "keys": [key.name for key in self.base.keys],
            "order": [tie.name for tie in self.base.ties],
            "keep": [f"{column.name} {column.type.simpleString()}" for column in self.base.columns],
            "emit": "all",
            "deduplicate_by": list(self.base.deduplicate_by),
            "drainable": self.base.drain is not None,
            **self.base.derivation.describe(),
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """The description for the rank column of the result."""
        return self.describe()

    @property
    def digest(self) -> str:
        """A short name for this query among others."""
        text = json.dumps(self.describe(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _repr_html_(self) -> str:
        """The plan as a table, for notebooks."""
        from skyband.spark.explain import explain_lines  # which imports this module

        return sentences("", explain_lines(self))

    # what `explain` asks

    @abstractmethod
    def explain_lines(self) -> Lines:
        """Say which panes there are, who answers, and what is kept."""

    @abstractmethod
    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan, by name."""

    @property
    @abstractmethod
    def step(self) -> int:
        """By how much the watermark moves at a time, at most."""

    @property
    def missing(self) -> str:
        """What rows lack that are not ranked, in words."""
        return "score"

    @property
    def not_ranked(self) -> str:
        """What is not ranked, in words."""
        return f"rows whose {self.missing} is NULL or NaN: counted"

    @property
    def tie_breakers(self) -> list[str]:
        """The columns that order rows of equal score and position."""
        return [tie.name for tie in self.base.ties]


@dataclass(frozen=True)
class CarriedColumn:
    """A column of answers that no row has: its name, and how it passes through Python."""

    name: str
    value: Score

    def unpack(self, column: Column) -> Column:
        """The column as people read it, under its name."""
        return self.value.unpack(column).alias(self.name)


@dataclass(frozen=True)
class WindowPlan(Plan):
    """A plan of one query: all families but workloads."""

    query: Any
    score: Score
    score_text: str
    algorithm: str

    @property
    def scores(self) -> tuple[Column, ...]:
        """The score."""
        return (self.score.column,)

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of the score."""
        return (ValueText(self.score_text, self.score.is_exact),)

    @property
    def grid(self) -> PaneGrid:
        """The windows and their panes."""
        return PaneGrid.of(self.query.window)

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return bool(self.query.emit == "changes")

    @property
    def updates(self) -> bool:
        """Whether windows are reported while they are open, too."""
        return bool(self.query.emit == "updates")

    @property
    def blocks(self) -> PaneBlocks:
        """What tasks make of the rows of a stream whose windows are reported while open."""
        raise NotImplementedError

    def stream_state(self) -> StateSpec:
        """What is kept of a key of a stream: open panes, too, if their windows are reported."""
        current = self.query.open_windows == "current"
        return with_open_panes(self.state(), self.blocks, current) if self.updates else self.state()

    @property
    def oldest_first(self) -> bool:
        """Whether the oldest of equal scores ranks first, not the newest."""
        return getattr(self.query, "ties", "newest") == "oldest"

    @property
    def rank_by(self) -> RankBy:
        """How ranks count; but for ``row_number`` rows of equal score share one."""
        rank_by: RankBy = getattr(self.query, "rank_by", "row_number")
        return rank_by

    @property
    def carried_columns(self) -> tuple[CarriedColumn, ...]:
        """What answers have of each object besides what rows carry."""
        return ()

    @property
    def full(self) -> bool:
        """Whether windows are answered only once they are full."""
        return getattr(self.query.window, "full", False)

    @property
    def first_full_window(self) -> int:
        """The first window that is answered."""
        return self.grid.first_full_window if self.full else -FOREVER

    @property
    def step(self) -> int:
        """A slide."""
        return int(self.query.window.slide)

    def output(self, answers: DataFrame) -> DataFrame:
        """Make one row per rank: window, keys, rank, score, changes, carried columns."""
        return output.ranked(answers, self)

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on."""
        window = self.query.window
        plain = type(window) in (CountWindow, TimeWindow)
        return {
            **self.describe_base(),
            **({} if plain else {"window_kind": type(window).__name__}),
            "k": self.query.k,
            "window": window.size,
            "slide": window.slide,
            "offset": self.grid.offset,
            "full": self.full,
            "score": self.score_text,
            **({"score_type": self.score.type.simpleString()} if self.score.is_exact else {}),
            "emit": self.query.emit,
            **({"open_windows": "current"} if self.query.open_windows == "current" else {}),
            **({"ties": "oldest"} if self.oldest_first else {}),
            **({"rank_by": self.rank_by} if self.rank_by != "row_number" else {}),
            "algorithm": self.algorithm,
        }


class Family(ABC):
    """A kind of query: makes plans, and says what generic modules need to know of them."""

    job_query: ClassVar[type[JobQuery]]  # how a job file asks such a query
    marker: ClassVar[str | None] = None  # the field by which a job's query is recognised
    description_marker: ClassVar[str | None] = None  # the same of a description, if it differs
    extra_counts: ClassVar[Mapping[str, str]] = {}  # what its plans count, and what that means
    query_columns: ClassVar[tuple[str, ...]] = ()  # result columns that tell its queries apart
    causes: ClassVar[tuple[Cause, ...]] = ()  # of failures in its queries alone
    unspoken: ClassVar[tuple[str, ...]] = ()  # what stands for any value in older manifests
    revisable: ClassVar[str | None] = None  # the part of a description that may change

    @abstractmethod
    def resolve(self, df: DataFrame, options: Any) -> Plan:
        """Check options against a DataFrame; raises before any row is read."""

    def expanded(self, description: dict[str, Any]) -> dict[str, Any]:
        """A description from a result column, as the manifest holds it."""
        return description

    def revised(
        self, spark: SparkSession, before: dict[str, Any], query: dict[str, Any], checkpoint: str
    ) -> bool:
        """Whether a query has changed in a way that its checkpoint allows; raises if it may not.

        ``before`` is the manifest; what may change at all is under :attr:`revisable`.
        """
        return False


def resolve_base(
    df: DataFrame,
    options: CommonOptions,
    window: Window,
    *,
    carry: Names | None,
    carry_option: str = "keep",
    id: Names | None = None,
    id_option: str = "id",
    scores: Sequence[Any] = (),
    reserved: tuple[str, ...] = (),
) -> BasePlan:
    """Check what all families are asked against the columns of a DataFrame.

    ``carry`` names the columns that go into the result, all if it is None, and ``carry_option`` is
    the option that did; ``id`` breaks ties, else all that is carried does. ``scores`` are what rows
    are ranked by: a column ``score`` that is itself the score is not carried.
    """
    require_frame(df)
    schema = schema_of(df)
    axis = resolve_axis(df, options, window)
    keys = column_names(schema, options.partition_by, "partition_by")
    ids = column_names(schema, id, id_option)
    if carry is None:
        hides = any(map(names_score, scores))
        names = tuple(
            name
            for name in schema.names
            if name not in (*keys, *options.derivation.names)
            and not (name.lower() == "score" and hides)
        )
        fix = "name the columns to keep: keep=[...]"
    else:
        names = column_names(schema, carry, carry_option)
        names = tuple(name for name in names if name not in keys)
        fix = "rename it before"
    if getattr(options, "emit", None) == "updates":
        reserved = (*reserved, *UPDATE_COLUMNS)
    for name in (*keys, *names):
        if name.lower() in (*RESERVED, *reserved):
            raise QueryError(
                f"column {name!r} has the name of a result column", "another name", fix
            )
    columns = tuple(_transport(name, schema[name].dataType, carry_option) for name in names)
    ties = ids or tuple(
        column.name for column in columns if column.name != axis.column and orderable(column.type)
    )
    for name in ids:
        if not orderable(schema[name].dataType):
            raise DataError(
                f"{id_option} {name!r} cannot be sorted", "a column of numbers or texts"
            )
    same = column_names(schema, options.deduplicate_by, "deduplicate_by")
    for name in same:
        if not orderable(schema[name].dataType):
            raise DataError(
                f"deduplicate_by {name!r} is of type {schema[name].dataType.simpleString()}",
                "columns that Spark can compare",
                f"use one of its parts, or to_json({name})",
            )
    used = {axis.column, *keys, *ties, *same, *names}
    check_spelling(df, used)
    check_zone(df, used)
    return BasePlan(
        axis,
        tuple(_transport(name, schema[name].dataType, "partition_by") for name in keys),
        columns,
        tuple(transport(name, schema[name].dataType) for name in ties),
        same,
        options.drain,
        int(df.sparkSession.conf.get(PARTITIONS) or 1),
        options.derivation,
    )


def _transport(name: str, type: DataType, option: str) -> TransportColumn:
    """How a column passes through Python; one that tells keys or objects apart is a plain value."""
    if option != "keep" and not groupable(type):
        by_key = option == "partition_by"
        instead = "partition by one of its parts, or by" if by_key else "use one of its parts, or"
        raise DataError(
            f"{option} {name!r} is of type {type.simpleString()}",
            "columns of plain types, and structs of numbers and texts",
            f"{instead} to_json({name})",
        )
    return transport(name, type)


def resolve_axis(df: DataFrame, options: CommonOptions, window: Window) -> Axis:
    """What places rows in windows."""
    schema = df.schema
    timed = isinstance(window, TimeWindow)
    skew = None if options.skew is None else duration(options.skew, "skew", "1 hour")
    if options.sequence is not None:
        if timed:
            raise QueryError(
                f"sequence is {options.sequence!r} with a window of time",
                "a window that counts rows",
                "write window=1000, slide=100, or time= instead of sequence=",
            )
        (name,) = column_names(schema, options.sequence, "sequence")
        if not isinstance(schema[name].dataType, (IntegerType, LongType)):
            raise DataError(
                f"sequence {name!r} is of type {schema[name].dataType.simpleString()}",
                "whole numbers: 0, 1, 2 and so on without gaps",
            )
        return SequenceAxis(name, _whole_delay(options.delay, "with a sequence column"))
    if options.time is None:
        moments = [f.name for f in schema.fields if isinstance(f.dataType, TimestampType)]
        raise QueryError(
            "time was not given",
            "the column that says when a row happened: it orders rows, also in count windows",
            f"write time={moments[0]!r}" if moments else "write time='ts', or sequence='offset'",
        )
    if isinstance(window, TimeWindow) and window.unit == "tick":
        (name,) = column_names(schema, options.time, "time")
        if not isinstance(schema[name].dataType, (ByteType, ShortType, IntegerType, LongType)):
            raise DataError(
                f"time {name!r} is of type {schema[name].dataType.simpleString()} with a window of "
                "ticks",
                "whole numbers",
                "write window='1 hour', slide='1 minute'",
            )
        return TickAxis(name, _whole_delay(options.delay, "with a window of ticks"))
    name = moment_column(df, options.time)
    type = schema[name].dataType
    local, dates = isinstance(type, TimestampNTZType), isinstance(type, DateType)
    delay = duration(
        "10 seconds" if options.delay is None else options.delay, "delay", "10 seconds"
    )
    return (TimeAxis if timed else ArrivalAxis)(name, delay, local, skew, dates)


def _whole_delay(delay: Any, where: str) -> int:
    amount = delay or 0
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise QueryError(
            f"delay is {delay!r} {where}",
            "a whole number: by how much rows may be out of order",
            "write delay=1000",
        )
    return amount


def check_k(k: int) -> None:
    """Refuse more rows per window than Spark can find, and warn of very many."""
    if k > MOST:
        raise QueryError(f"k is {k:,}", f"at most {MOST:,}, Spark's own limit", "ask for fewer")
    if k > MANY:
        warn(
            f"k is {k:,}: each micro-batch reads and writes all candidates of a key, "
            f"which takes seconds beyond {MANY:,}"
        )
