"""A batch of ranked windows on its way into a database: which columns, and what a row replaces.

A row has a *place*: the window, the query of a workload, the keys, and the position in the
ranking. A row of a later batch replaces the one at the same place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from skyband.errors import DataError, QueryError
from skyband.spark.columns import quoted
from skyband.spark.families import description_of, family_of
from skyband.spark.options import plain_path
from skyband.spark.sinks.patience import LOG, Patience

if TYPE_CHECKING:
    import pyarrow as pa

START, END, PLACE = "window_start", "window_end", "place"
_NESTED = (ArrayType, MapType, StructType, VariantType)
_PLAIN = (
    *(NumericType, StringType, BooleanType, BinaryType),
    *(DateType, TimestampType, TimestampNTZType),
)

BatchWriter = Callable[[DataFrame, int], None]
"""What ``foreachBatch`` takes: it gets the rows of a micro-batch, and the number of it."""


@dataclass(frozen=True)
class OutputColumn:
    """A column of a batch as a database gets it; ``nested`` values are texts of JSON."""

    name: str
    type: DataType
    nested: bool = False


@dataclass(frozen=True)
class RankedLayout:
    """The columns of ranked windows outside of Spark: plain values, no structures.

    ``groups`` are the columns that tell the rankings of a window apart: the query of a workload,
    then keys.
    """

    description: dict[str, Any]
    schema: StructType

    @classmethod
    def of(cls, leaders: DataFrame) -> RankedLayout:
        """The layout of what :func:`skyband.spark.top_k` returned."""
        layout = cls(description_of(leaders, "write the result of top_k"), leaders.schema)
        names = [column.name for column in layout.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(
                f"the result has a column {twice!r}, which the sink needs for itself",
                "other names",
                f"rename it before top_k, or leave it out with keep=[...]: {twice} AS other",
            )
        return layout

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The columns that tell the rankings of a window apart."""
        return (*self.query_columns, *self.description["keys"])

    @cached_property
    def query_columns(self) -> tuple[str, ...]:
        """The columns that tell the queries of a workload apart."""
        return family_of(self.description).query_columns

    @property
    def has_time_windows(self) -> bool:
        """Whether windows end at the same times for all keys."""
        return self.description["windows"] in ("time", "tick")

    @property
    def slides(self) -> bool:
        """Whether all windows are known to be of one length."""
        return not self.query_columns and "window_kind" not in self.description

    @property
    def emit(self) -> str:
        """How windows are reported: all, changes or updates."""
        return str(self.description["emit"])

    @property
    def shares_ranks(self) -> bool:
        """Whether several rows of a ranking may have the same rank."""
        return "rank_by" in self.description

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that tell the rows of a ranking apart, if the query names any."""
        names = tuple(self.description.get("order", ()))
        return names if names and all(name in self.schema.names for name in names) else ()

    @cached_property
    def columns(self) -> tuple[OutputColumn, ...]:
        """All columns: the window, the groups, the place in the ranking, then the others."""
        bounds = self.schema["window"].dataType
        assert isinstance(bounds, StructType)
        first = [
            OutputColumn(START, bounds["start"].dataType),
            OutputColumn(END, bounds["end"].dataType),
        ]
        groups = [self._column(name) for name in self.groups]
        others = [n for n in self.schema.names if n not in ("window", *self.groups)]
        return (
            *first,
            *groups,
            OutputColumn(PLACE, LongType()),
            *(self._column(name) for name in others),
        )

    def _column(self, name: str) -> OutputColumn:
        type = self.schema[name].dataType
        if isinstance(type, _NESTED):
            return OutputColumn(name, StringType(), nested=True)
        return OutputColumn(name, type if isinstance(type, _PLAIN) else StringType())

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of which no two rows agree."""
        return (END, *self.groups, PLACE)

    def arrow_schema(self, spark: SparkSession) -> pa.Schema:
        """The columns of a batch as Arrow has them."""
        fields = [StructField(column.name, column.type) for column in self.columns]
        return spark.createDataFrame([], StructType(fields)).toArrow().schema

    def table(self, rows: DataFrame) -> pa.Table:
        """The rows of a batch, computed once."""
        import pyarrow as pa

        table = rows.select(*(self._flat(c) for c in self.columns if c.name != PLACE)).toArrow()
        table = storable_moments(table, (START, END, *self.groups))
        if self.emit == "updates":
            table = self._newest_revisions(table)
        at = [column.name for column in self.columns].index(PLACE)
        return table.add_column(at, PLACE, pa.array(self._places(table), pa.int64()))

    def _newest_revisions(self, table: pa.Table) -> pa.Table:
        """The rows of the last report of each ranking: a batch may bring several of one."""
        import pyarrow as pa

        rankings = list(comparable(table, (END, *self.groups)))
        revisions = table["revision"].to_pylist()
        newest: dict[tuple[Any, ...], int] = {}
        for ranking, revision in zip(rankings, revisions, strict=True):
            newest[ranking] = max(revision, newest.get(ranking, revision))
        last = [newest[r] == revision for r, revision in zip(rankings, revisions, strict=True)]
        return table.filter(pa.array(last, pa.bool_()))

    def _flat(self, column: OutputColumn) -> Column:
        if column.name in (START, END):
            return F.col(f"window.{'start' if column.name == START else 'end'}").alias(column.name)
        value = F.col(quoted(column.name))
        if column.nested:
            value = F.to_json(value, {"ignoreNullFields": "false"})
        elif self.schema[column.name].dataType != column.type:
            value = value.cast("string")
        return value.alias(column.name)

    def _places(self, table: pa.Table) -> list[int]:
        """The positions of rows in their rankings, from 1; 0 says that a ranking is empty."""
        ranks = table["rank"].to_pylist()
        if not self.shares_ranks and self.emit != "changes":
            return [rank or 0 for rank in ranks]
        reached: dict[tuple[Any, ...], int] = defaultdict(int)
        places = []
        for rank, ranking in zip(ranks, comparable(table, (END, *self.groups)), strict=True):
            reached[ranking] += 1
            left_empty = rank is None and self.emit != "changes"
            places.append(0 if left_empty else reached[ranking])
        return places


def storable_moments(table: pa.Table, places: Sequence[str]) -> pa.Table:
    """The rows with NULL for moments that Python, and so the clients of databases, cannot hold.

    Spark's years go to 294247, Python's from 1 to 9999. One such moment must not stop a stream for
    good; the log says how many there were. In ``places``, the windows and keys of rows, they are
    refused: a row without its window or key would replace others.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if not pa.types.is_temporal(field.type):
            continue
        distant = _distant(table[field.name])
        count = pc.sum(distant).as_py() or 0
        if field.name in places:
            if count:
                raise _no_place(field.name)
            continue
        values = table[field.name]
        if count:
            LOG.warning(
                "column %s has %d %s before the year 1 or after the year 9999: NULL is written",
                *(field.name, count, "moment" if count == 1 else "moments"),
            )
            values = pc.if_else(distant, pa.scalar(None, field.type), values)
        # a table that is made for this batch must take the NULLs of later ones
        table = table.set_column(at, field.with_nullable(True), values)
    return table


def _no_place(name: str) -> DataError:
    column = f"{name}, by the time of rows," if name in (START, END) else f"the key {name}"
    return DataError(
        f"{column} has a moment before the year 1 or after the year 9999",
        "years from 1 to 9999, which clients of databases can hold",
        "begin a new checkpoint and a new sink, with a where= that leaves such rows out",
    )


def _distant(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which moments are beyond the years 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    days = values.cast(pa.date32(), safe=False)
    first, last = (pa.scalar(day, pa.date32()) for day in (date(1, 1, 1), date(9999, 12, 31)))
    beyond = pc.or_(pc.less(days, first), pc.greater(days, last))
    return pc.fill_null(beyond, False)


def comparable(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of some columns, row by row, such that NaN equals NaN."""
    columns = [
        ["NaN" if value != value else value for value in table[name].to_pylist()] for name in names
    ]
    return zip(*columns, strict=True)


def checkpoint_of(leaders: DataFrame, checkpoint: str | PathLike[str] | None) -> str | None:
    """The checkpoint of the stream that is written, as a text; None for a batch."""
    if checkpoint is not None:
        return plain_path(checkpoint, "checkpoint")
    if leaders.isStreaming:
        raise QueryError(
            "checkpoint is missing",
            "the checkpoint of the stream: its batches are counted",
            "write checkpoint=claim(leaders, 'checkpoint')",
        )
    return None


def batch_writer(
    layout: RankedLayout,
    checkpoint: str | None,
    patience: Patience,
    write: Callable[[pa.Table, str | None, int], None],
) -> BatchWriter:
    """Make a writer for ``foreachBatch`` that waits for a server that is down.

    ``write`` gets the rows of a batch, what tells its stream from others, and its number.
    """
    ids: list[str | None] = []

    def write_batch(rows: DataFrame, batch: int) -> None:
        ranked = layout.table(rows)
        if not ids:
            ids.append(stream_id(rows.sparkSession, checkpoint))
        patience.call(lambda: write(ranked, ids[0], batch))

    return write_batch


def stream_id(spark: SparkSession, checkpoint: str | None) -> str | None:
    """What tells a stream from others that begin with batch 0, too; None for a batch.

    It is the id that Spark gives to the stream of a checkpoint, which stays in the checkpoint.
    """
    if checkpoint is None:
        return None
    line = spark.read.text(f"{checkpoint.rstrip('/')}/metadata").first()
    return None if line is None else str(json.loads(line.value)["id"])
