"""The k keys of each window whose rows add up to the most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from skyband.errors import QueryError
from skyband.spark.columns import (
    LABEL,
    POSITION,
    Names,
    column_names,
    in_words,
    require_frame,
    schema_of,
)
from skyband.spark.explain import Lines, pane_lines, panes_of
from skyband.spark.families.totals.aggregates import (
    ALSO,
    CarriedTotal,
    accumulator_of,
    aggregate_of,
    carried,
    numbers_of,
    of_text,
    total_type,
    value_of,
)
from skyband.spark.families.totals.blocks import (
    PaneAdder,
    SumBlocks,
    SumBlockWriter,
    also_column,
)
from skyband.spark.families.totals.state import TotalsSpec
from skyband.spark.families.totals.sums import EXACT, WHOLE, Accumulator, PartialSums
from skyband.spark.jobs.queries import (
    DESCRIBED,
    JobEmit,
    JobOpenWindows,
    JobQuery,
    OrderFields,
    SafeText,
    WindowFields,
)
from skyband.spark.jobs.queries import Names as JobNames
from skyband.spark.options import WindowOptions, check_shards, usual_shards
from skyband.spark.panes import longer, or_else, pane_number, settled, watermarked
from skyband.spark.plan import (
    RESERVED,
    CarriedColumn,
    Family,
    WindowPlan,
    check_k,
    resolve_base,
)
from skyband.spark.scan import NotScannedError, ValueText
from skyband.spark.scan.hashes import HASH_OF_NOTHING, hashable
from skyband.spark.scores import Score, as_double, evaluated
from skyband.spark.state.processor import StateSpec
from skyband.spark.state.row_blocks import BLOCK, CLOSES, NEWEST, WATERMARK
from skyband.spark.state.shards import SHARD, Order, merged, shard_groups, shard_names, spread
from skyband.spark.state.updates import UPDATE_COLUMNS, PaneBlocks
from skyband.totals.aggregate import Aggregate
from skyband.totals.query import ENDS, TopKTotals
from skyband.windows import AllTimeWindow, CountWindow, TimeWindow

if TYPE_CHECKING:
    from skyband.spark.scan.row_maker import RowMaker

_VALUES = "_sky_values"
_TEXT = 24  # assumed bytes of a text
_ADDED = {
    "rows": "rows, counted",
    "extremes": "the largest or least value of each",
    "whole_extremes": "the largest or least value of each",
    "ends": "the value of the first or last row of each",
    "whole_ends": "the value of the first or last row of each",
    "ints": "whole numbers, whose sums are exact",
    "longs": "whole numbers in two parts, whose sums are exact",
    "doubles": "doubles cut into whole numbers, so that sums are exact in any order",
}


@dataclass(frozen=True, kw_only=True)
class TotalsOptions(WindowOptions):
    """What :func:`skyband.spark.top_k` was asked, as it was written, with ``key``."""

    by: str | Column
    key: Names
    id: Names | None = None
    keep: Names | None = None
    shards: int | None = None
    also: Mapping[str, str | Column] | None = None
    ties: str = "newest"
    rank_by: str = "row_number"

    def query(self) -> TopKTotals:
        """The query object, which validates itself; refuses what no DataFrame can make right."""
        window = self.parsed_window()
        query = TopKTotals(
            self.k,
            "sum",
            window,
            self.emit,  # type: ignore[arg-type]
            open_windows=self.open_windows,  # type: ignore[arg-type]
            ties=self.ties,  # type: ignore[arg-type]
            rank_by=self.rank_by,  # type: ignore[arg-type]
        )
        self.check()
        if isinstance(window, CountWindow):
            raise QueryError(
                "windows that count rows with key=",
                "windows of time",
                "write window='1 hour', slide='1 minute', time='ts'",
            )
        self.refuse_algorithm()
        self._check_key()
        self._check_also()
        # what a Column asks for, only Spark can tell
        return replace(query, by=of_text(self.by).by) if isinstance(self.by, str) else query

    @property
    def alone(self) -> bool:
        """Whether one shard ranks all keys: each by itself, or never to end at different times."""
        return bool(self.partition_by) or isinstance(self.parsed_window(), AllTimeWindow)

    def _check_key(self) -> None:
        if not isinstance(self.key, (str, list, tuple)) or not self.key:
            raise QueryError(f"key is {self.key!r}", "one column or several", "write key='client'")
        for name in ("id", "keep"):
            if getattr(self, name) is not None:
                raise QueryError(
                    f"{name} is {getattr(self, name)!r} with key=",
                    "totals, of which only the key is carried: rows are added up",
                    f"leave {name} out",
                )
        check_shards(self.shards)
        self.refuse_shards_of_updates(self.shards)
        self.refuse_shards_of_all_time(self.shards)

    def _check_also(self) -> None:
        """Refuse what cannot be carried; what a Column asks for, only Spark can tell."""
        reserved = (*RESERVED, *UPDATE_COLUMNS)
        if self.also is not None and not isinstance(self.also, Mapping):
            raise QueryError(f"also is {self.also!r}", "aggregates by name", ALSO)
        for name, text in (self.also or {}).items():
            if not isinstance(name, str) or not name.strip() or name.lower() in reserved:
                raise QueryError(
                    f"also has a column called {name!r}",
                    f"names other than {', '.join(reserved)}",
                    ALSO,
                )
            if not isinstance(text, Column):
                of_text(text, f"also {name!r}")


@dataclass(frozen=True)
class TotalsPlan(WindowPlan):
    """A query for totals; what a row carries is its key.

    ``exact`` is the value as the column has it, if it is a whole number or a decimal, in units of
    its last digit. ``score`` has a double to check rows by, and the type of totals.
    """

    aggregate: Aggregate
    accumulator: Accumulator
    exact: Column | None
    shards: int
    also: tuple[CarriedTotal, ...] = ()

    @property
    def carried_columns(self) -> tuple[CarriedColumn, ...]:
        """The totals beside the one that ranks."""
        return tuple(CarriedColumn(total.name, total.value) for total in self.also)

    @property
    def also_sums(self) -> tuple[PartialSums, ...]:
        """How their values are added up."""
        types = self.base.types
        return tuple(PartialSums(t.accumulator, t.aggregate.by, types) for t in self.also)

    @property
    def sums(self) -> PartialSums:
        """How values are added up by key and pane."""
        return PartialSums(self.accumulator, self.query.by, self.base.types)

    @property
    def extras(self) -> tuple[Column, ...]:
        """The whole number that is summed, if values are such; the values that are carried."""
        exact = () if self.exact is None else (self.exact.alias(EXACT),)
        also = (total.column.alias(also_column(at)) for at, total in enumerate(self.also))
        return (*exact, *also)

    def project(self, rows: DataFrame) -> DataFrame:
        """Make keys equal where Spark's groups are: there is one zero, and one NaN."""
        for name, column in zip(self.base.column_names, self.base.columns, strict=True):
            if isinstance(column.type, (DoubleType, FloatType)):
                one_nan = F.nanvl(F.col(name), F.lit(float("nan")).cast(column.type))
                rows = rows.withColumn(name, one_nan + F.lit(0.0).cast(column.type))
        return rows

    def scan_reduction(self, is_stream: bool) -> RowMaker:
        """Blocks of partial sums."""
        from skyband.spark.families.totals.scan import AddedByTasks

        for column, type in zip(self.base.columns, self.base.types, strict=True):
            if not hashable(to_arrow_type(type)):
                raise NotScannedError(
                    f"{column.name} is a key of type {column.type.simpleString()}"
                )
        names = shard_names(self.base, self.shards, is_stream)
        return AddedByTasks(self._adder, tuple(names))

    def scan_scores(self) -> tuple[ValueText, ...]:
        """Give the SQL text of the values of each total, the one that ranks first."""
        ranked = _value_text(self.aggregate, self.accumulator, "by")
        also = (_value_text(t.aggregate, t.accumulator, f"also {t.name!r}") for t in self.also)
        return (ranked, *also)

    def scan_layout(self, projected: StructType) -> StructType:
        """Give the columns of blocks."""
        keys = [projected[name] for name in shard_groups(self.base) if name != SHARD]
        whole, pane = StructField(POSITION, LongType()), StructField("pane", LongType())
        block = StructField(BLOCK, BinaryType())
        return StructType([*keys, StructField(SHARD, IntegerType()), pane, block, whole])

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Add up the rows of each key, pane and shard; the partial sums of a pane are blocks."""
        if BLOCK in rows.columns:  # by tasks that have read files
            return self._of_blocks(rows)
        rows = spread(rows, self.base, self.shards)
        if rows.isStreaming and self.updates:
            return self._open_blocks(rows)
        if rows.isStreaming and not self.base.deduplicate_by:
            return self._added_by_tasks(rows)
        if self.also:
            return self._added_from_rows(rows)
        return self._added_by_spark(rows)

    def _of_blocks(self, rows: DataFrame) -> DataFrame:
        """Panes of blocks; what has none moves the watermark, as the mark of the end does."""
        grid, position = self.grid, F.col(POSITION)
        pane = grid.pane_sql(grid.label_sql(position), grid.in_longer_pane_sql(position))
        names = shard_names(self.base, self.shards, rows.isStreaming)
        shard = names[HASH_OF_NOTHING % self.shards]
        columns = {"pane": pane, SHARD: F.lit(shard).cast("int")}
        blocks = rows.withColumns(
            {name: or_else(F.col(name), value) for name, value in columns.items()}
        ).select(*shard_groups(self.base), "pane", BLOCK)
        if not rows.isStreaming:
            return blocks.filter(F.col(BLOCK).isNotNull()).withColumn(BLOCK, F.array(BLOCK))
        if not self.updates:
            return self._once_closed(blocks)
        labelled = blocks.withColumn(LABEL, grid.label_of_pane_sql(F.col("pane")))
        return self._while_open(watermarked(labelled, self.base, grid.slide))

    def _open_blocks(self, rows: DataFrame) -> DataFrame:
        """Panes of a stream whose windows are reported while they are open, task by task."""
        blocks = _written(self._values(settled(rows, self.base, self.grid)), self._adder)
        label = self.base.axis.moment_sql(self.grid.label_of_pane_sql(F.col("pane")))
        delay = self.base.axis.watermark_delay(self.grid.slide)
        labelled = blocks.withColumn(LABEL, label)  # Python has lost what Spark knew of it
        return self._while_open(labelled).withMetadata(LABEL, {WATERMARK: delay})

    def _while_open(self, labelled: DataFrame) -> DataFrame:
        """Blocks with the moments that close their panes, as the state takes them."""
        closes = F.shiftright("pane", 1).alias(CLOSES)
        newest = F.lit(0).cast("bigint").alias(NEWEST)
        return labelled.select(*shard_groups(self.base), LABEL, closes, "pane", newest, BLOCK)

    def _values(self, rows: DataFrame) -> DataFrame:
        """What tasks add up of rows."""
        also = [also_column(at) for at in range(len(self.also))]
        sums = self.sums
        return rows.select(*shard_groups(self.base), *sums.key, POSITION, sums.value, *also)

    @property
    def _adder(self) -> PaneAdder:
        return PaneAdder(tuple(shard_groups(self.base)), self.sums, self.grid, self.also_sums)

    def _added_by_tasks(self, rows: DataFrame) -> DataFrame:
        """Panes of a stream: added up by its tasks, closed by the watermark."""
        return self._once_closed(_written(self._values(rows), self._adder))

    def _once_closed(self, blocks: DataFrame) -> DataFrame:
        """All blocks of each pane, once the watermark has closed it."""
        groups, grid = shard_groups(self.base), self.grid
        blocks = blocks.withColumn(LABEL, grid.label_of_pane_sql(F.col("pane")))
        panes = watermarked(blocks, self.base, grid.slide).groupBy(*groups, LABEL, "pane")
        whole = panes.agg(F.collect_list(BLOCK).alias(BLOCK)).filter(F.size(BLOCK) > 0)
        return whole.select(*groups, "pane", BLOCK)

    def _added_from_rows(self, rows: DataFrame) -> DataFrame:
        """The same with totals beside the one that ranks; a stream keeps all rows until then.

        Buckets and kinds of totals differ, so no one aggregation of Spark adds them up.
        """
        rows = settled(rows, self.base, self.grid)
        if rows.isStreaming:
            values = self._values(rows).columns
            panes = rows.groupBy(*shard_groups(self.base), LABEL, *longer(rows))
            closed = panes.agg(F.collect_list(F.struct(*values)).alias(_VALUES))
            rows = closed.select(F.inline(_VALUES))
        blocks = _written(self._values(rows), self._adder).filter(F.col(BLOCK).isNotNull())
        return blocks.withColumn(BLOCK, F.array(BLOCK))

    def _added_by_spark(self, rows: DataFrame) -> DataFrame:
        """Panes of a batch, or of a stream whose rows count once by what tells them apart."""
        groups = shard_groups(self.base)
        rows = settled(rows, self.base, self.grid)
        sums = self.sums.add_sql(rows, groups, pane_number(rows, self))
        blocks = _written(sums, SumBlockWriter(tuple(groups)))
        return blocks.withColumn(BLOCK, F.array(BLOCK))

    def state(self) -> StateSpec:
        """Keep the panes of each shard."""
        window = self.query.window
        assert isinstance(window, TimeWindow), "totals have windows of time"
        query = replace(self.query, window=replace(window, unit="tick"))
        paired = self.changes and self.shards > 1
        return TotalsSpec(
            tuple(shard_groups(self.base)),
            self.base.axis,
            self.grid,
            replace(query, emit="all", open_windows="all") if paired or self.updates else query,
            self.sums,
            self.score.transport_type,
            self.shards > 1,
            self.digest,
            paired,
            self.also_sums,
            tuple(total.value.transport_type for total in self.also),
        )

    @property
    def blocks(self) -> PaneBlocks:
        """Partial sums of each key."""
        return SumBlocks(self.sums, self.also_sums)

    def merge(self, answers: DataFrame) -> DataFrame:
        """Make one ranking of those of several shards."""
        carried = tuple(total.value.transport_type for total in self.also)
        types, score = (*self.base.types, *carried), self.score.transport_type
        return merged(
            answers,
            self.base,
            self.shards,
            self.query.k,
            types,
            score,
            self.changes,
            len(carried),
            Order(self.oldest_first, self.rank_by),
        )

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on."""
        described = super().describe()
        described.pop("score_type", None)  # what is kept does not depend on it
        return {
            **described,
            "totals": [column.name for column in self.base.columns],
            "held": self.accumulator,
            "shards": self.shards,
            **({"also": self._described_also} if self.also else {}),
        }

    @property
    def _described_also(self) -> list[str]:
        return [f"{t.aggregate} AS {t.name}, {t.accumulator}" for t in self.also]

    @property
    def missing(self) -> str:
        """What rows lack that are not ranked, in words."""
        return self.aggregate.value or "score"

    @property
    def not_ranked(self) -> str:
        """What is not ranked, in words."""
        if self.aggregate.by not in ENDS:
            return super().not_ranked
        key = in_words([column.name for column in self.base.columns])
        return (
            f"each {key} whose {self.aggregate.by} {self.missing} is NULL or NaN; rows are counted"
        )

    def explain_lines(self) -> Lines:
        """Say who adds up, what is kept, and what a slide costs."""
        shards, each = self.shards, self.base.each
        key = in_words([column.name for column in self.base.columns])
        many = f"{shards} shard{'s' if shards > 1 else ''}{each}"
        lines = [
            *pane_lines(self),
            ("total", f"{self.aggregate} of each {key}{each}: {_ADDED[self.accumulator]}"),
            *(("" if at else "also", str(t)) for at, t in enumerate(self._also_in_words)),
            ("before the shuffle", f"each task adds up its rows of a {key} and pane"),
            ("path", f"{many}: each {key} is in one of them"),
            ("", "a slide costs the pane that comes and the one that goes, not the window"),
            ("state", f"each {key} of each pane of the window, about {self._key_bytes} bytes;"),
            ("", "a pane is written once; workers remember the totals, or add panes up again"),
        ]
        best = f"the {self.query.k:,} best"
        if self.query.shares_ranks:
            ranks = f"as SQL's {self.rank_by}(): each {key} of equal totals shares one"
            lines.append(("ranks", ranks))
            best = f"all of the {self.query.k:,} best ranks"
        if shards > 1:
            lines.append(("ranking", f"{best} of each shard, merged; no task sees all keys"))
        return lines

    @property
    def _also_in_words(self) -> list[str]:
        return [f"{t.name}: {t.aggregate}, {_ADDED[t.accumulator]}" for t in self.also]

    def explain_metrics(self) -> dict[str, Any]:
        """Give the numbers of the plan, by name; how many keys there are, only the stream knows."""
        return {
            "path": "shards",
            "total": str(self.aggregate),
            **({"also": {t.name: str(t.aggregate) for t in self.also}} if self.also else {}),
            "slide": self.query.window.slide,
            "panes_per_window": panes_of(self).per_window,
            "shards": self.shards,
            "bytes_per_key_and_pane": self._key_bytes,
        }

    @property
    def _key_bytes(self) -> int:
        texts = (StringType, BinaryType)
        fields = [f for sums in (self.sums, *self.also_sums) for f in sums.schema.fields]
        return sum(_TEXT if isinstance(field.dataType, texts) else 8 for field in fields)


def _value_text(aggregate: Aggregate, accumulator: Accumulator, option: str) -> ValueText:
    """The values of a total; those that are only counted are not rounded, either."""
    return ValueText(aggregate.value or "1", accumulator in (*WHOLE, "rows"), option)


def _written(rows: DataFrame, writer: SumBlockWriter) -> DataFrame:
    """Blocks: what tells shards apart, the pane, and its bytes."""
    groups = [StructField(name, rows.schema[name].dataType) for name in writer.groups]
    block = [StructField("pane", LongType()), StructField(BLOCK, BinaryType())]
    return rows.mapInArrow(writer.blocks, StructType([*groups, *block]))


class TotalsQuery(JobQuery, OrderFields):
    """What :func:`skyband.spark.top_k` is asked with ``key``, in a job file."""

    k: int = Field(description="a whole number, such as 10")
    by: str = Field(description="a sum, count, max, min, avg, first or last, such as sum(bytes)")
    key: JobNames = Field(description="the column, or the columns, by which rows are added up")
    window: str | WindowFields = Field(description=f"a duration such as 1 hour, or {DESCRIBED}")
    slide: str | None = Field(default=None, description="a duration, such as 1 minute")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    delay: str | None = Field(default=None, description="a duration, such as 10 seconds")
    emit: JobEmit = Field(default="all", description="all, changes or updates")
    open_windows: JobOpenWindows = Field(default="all", description="all or current")
    shards: int | None = Field(default=None, description="a whole number, such as 8")
    also: dict[str, str] | None = Field(
        default=None, description="aggregates by name, such as {orders: count(*)}"
    )

    def options(self, safe: SafeText, drain: str | None = None) -> TotalsOptions:
        """The options that are asked for."""
        given: dict[str, Any] = {"by": _safe(self.by, "by", safe), "drain": drain}
        if self.also is not None:
            also = {n: _safe(text, f"also {n!r}", safe) for n, text in self.also.items()}
            given["also"] = also
        return TotalsOptions(**self.fields(**given))

    def words(self) -> str:
        """The query in words."""
        return f"{self.options(str).query()}: {self.by} of each {in_words(self.key)}"


def _safe(text: str, option: str, safe: SafeText) -> str:
    """An aggregate of a job file, whose expression was checked."""
    aggregate = of_text(text, option)
    if aggregate.value is not None:
        aggregate = aggregate._replace(value=safe(aggregate.value))
    return str(aggregate)


class TotalsFamily(Family):
    """Keys by the totals of their rows."""

    job_query: ClassVar[type[JobQuery]] = TotalsQuery
    marker: ClassVar[str | None] = "key"
    description_marker: ClassVar[str | None] = "totals"

    def resolve(self, df: DataFrame, options: TotalsOptions) -> TotalsPlan:
        """Check a query against a DataFrame; raises before any row is read."""
        query = options.query()
        require_frame(df)
        aggregate = aggregate_of(df, options.by)
        value = value_of(df, aggregate)
        check_k(query.k)
        column = as_double(evaluated(df, value, "by")[0])
        _check_key(df, options)
        base = resolve_base(
            df,
            options,
            query.window,
            carry=options.key,
            carry_option="key",
            id=options.key,
            id_option="key",
        )
        accumulator, exact, type = accumulator_of(df, aggregate)
        numbers = numbers_of(aggregate, accumulator)
        scale = type.scale if isinstance(type, DecimalType) else 0
        alone = options.alone or (query.emit == "updates" and df.isStreaming)
        also = carried(df, options.also or {}, base)
        kinds = {total.name: total.total for total in also}
        return TotalsPlan(
            base,
            replace(query, by=aggregate.by, numbers=numbers, scale=scale, also=kinds),
            Score(column, total_type(aggregate, type)),
            str(aggregate),
            options.algorithm,
            aggregate,
            accumulator,
            exact,
            options.shards or (1 if alone else usual_shards(base.partitions)),
            also,
        )


def _check_key(df: DataFrame, options: TotalsOptions) -> None:
    schema = schema_of(df)
    key = column_names(schema, options.key, "key")
    if not set(key).isdisjoint(column_names(schema, options.partition_by, "partition_by")):
        raise QueryError(
            f"key is {options.key!r}, partly in partition_by",
            "a key within each partition",
            "leave it out of one of them",
        )


FAMILY = TotalsFamily()
