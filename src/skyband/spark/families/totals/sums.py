"""Exact sums: values to the partial sums of a pane and key, and these to what the engine adds up.

A sum of doubles depends on their order; a sum of whole numbers does not. So a double is cut into
three whole numbers first, whose sums lose nothing: it belongs to a *bucket* of 44 powers of two, in
units of ``2**(44 * bucket)``; a whole part of 32 bits, and two more parts of 32 bits each behind
the point, hold all of its 53 bits. Keys whose values span many powers of two have a few partial
sums per pane. Whole numbers of 64 bits are cut into two parts of 32, and joined again: the engine
adds up whole numbers as such.

Batches are cut and added up in SQL, streams in Arrow, before Spark sees keys: its own aggregation
of a stream writes a row of state for each key and pane, which costs more than all the rest. Both
forms stand side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.engine.whole_numbers import LARGEST
from skyband.order import Bools, Floats, Ints, Scores
from skyband.spark.columns import LABEL, LONGER, POSITION, SCORE, indexed
from skyband.totals.monitor import too_large
from skyband.totals.query import By

if TYPE_CHECKING:
    import pyarrow as pa

Accumulator = Literal[
    "rows", "extremes", "whole_extremes", "ends", "whole_ends", "ints", "longs", "doubles"
]
"""What a pane holds of a key: rows, the largest or least value, the first or last one, or a sum of
such numbers."""

WHOLE: tuple[Accumulator, ...] = ("whole_extremes", "whole_ends", "ints", "longs")
"""Those of whole numbers of 64 bits."""

EXACT = "_sky_exact"
"""The whole number that is summed, if the values are such."""
OLDEST = "oldest"
"""The time of the first row, if its value is the total."""
BUCKET = "bucket"
ROWS = "rows"
PART_BITS = 32
BUCKET_BITS = 44  # powers of two in a bucket
BITS_BELOW_UNIT = 12  # of a bucket's powers of two
LOWEST, HIGHEST = -23, 23
"""Buckets of finite numbers; the ones beside them are those of the infinities."""

_EXTREMES = ("extremes", "whole_extremes")
_ENDS = ("ends", "whole_ends")
_PARTS: dict[Accumulator, int] = {
    "rows": 0,
    "extremes": 1,
    "whole_extremes": 1,
    "ends": 1,
    "whole_ends": 1,
    "ints": 1,
    "longs": 2,
    "doubles": 3,
}
_PART_UNIT = 1 << PART_BITS
_LOW_BITS = _PART_UNIT - 1
_SAFE = 1e-9  # logarithms are rounded: a bucket may hold a little more, but not less
_EXACT_INTS = 1 << 53
_ROOM = 1 << 29  # whole numbers that may be moved up by a part, with one added, in 63 bits
_LARGEST = math.ldexp(1.0, 1023)
_NEARLY = math.ldexp(1.0, 62)  # beyond it, whole numbers are looked at one by one


@dataclass(frozen=True)
class PartialSums:
    """How the values of a key and pane are added up, and how their partial sums are laid out.

    ``types`` are those of the parts of a key.
    """

    accumulator: Accumulator
    by: By
    types: tuple[DataType, ...]

    @property
    def value(self) -> str:
        """The column that is added up."""
        return EXACT if self.accumulator in WHOLE else SCORE

    @property
    def counted(self) -> bool:
        """Whether it matters how many rows there are."""
        return self.by in ("count", "mean")

    @property
    def takes_nulls(self) -> bool:
        """Whether rows without a value are rows like others."""
        return self.accumulator in _ENDS

    @property
    def key(self) -> list[str]:
        """The columns of a key."""
        return indexed("kept", len(self.types))

    @property
    def parts(self) -> list[str]:
        """The columns of the parts of a sum."""
        return indexed("part", _PARTS[self.accumulator])

    @property
    def schema(self) -> StructType:
        """The newest time, the key, bucket (doubles only), rows (if they matter), parts.

        Of first values also the oldest time.
        """
        part = DoubleType() if self.accumulator in ("extremes", "ends") else LongType()
        return StructType(
            [
                StructField(POSITION, LongType()),
                *(StructField(*field) for field in zip(self.key, self.types, strict=True)),
                *([StructField(BUCKET, IntegerType())] if self.accumulator == "doubles" else []),
                *([StructField(ROWS, LongType())] if self.counted else []),
                *([StructField(OLDEST, LongType())] if self.by == "first" else []),
                *(StructField(name, part) for name in self.parts),
            ]
        )

    @cached_property
    def arrow(self) -> pa.Schema:
        """The same in Arrow."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.schema)

    def add_sql(self, rows: DataFrame, groups: list[str], pane: Column) -> DataFrame:
        """Add up labelled rows: a row per key and pane, ``groups``, the pane, its partial sums."""
        rows = cut_sql(rows, self.accumulator)
        names = [*groups, *self.key, LABEL]
        names += [name for name in (LONGER, BUCKET) if name in rows.columns]
        if self.takes_nulls:
            sums = rows.groupBy(*names).agg(*self._ends_sql())
            return sums.select(*groups, pane, *self.schema.names)
        add = {"max": F.max, "min": F.min}[self.by] if self.accumulator in _EXTREMES else F.sum
        sums = rows.groupBy(*names).agg(
            F.max(F.when(F.col(SCORE).isNotNull(), F.col(POSITION))).alias(POSITION),
            F.count(SCORE).alias(ROWS),
            *(add(name).alias(name) for name in self.parts),
        )
        return sums.filter(F.col(ROWS) > 0).select(*groups, pane, *self.schema.names)

    def _ends_sql(self) -> list[Column]:
        """The newest time, and of first or last rows the value; of equal times the larger one."""
        (value,) = map(F.col, self.parts)
        at = F.col(POSITION) if self.by == "last" else -F.col(POSITION)
        return [
            F.max(POSITION).alias(POSITION),
            F.min(POSITION).alias(OLDEST),
            F.max_by(value, F.struct(at, value)).alias(*self.parts),  # NULL is the least
        ]

    def add_arrow(
        self, rows: pa.RecordBatch, groups: tuple[str, ...], panes: Ints
    ) -> pa.RecordBatch:
        """The same of rows that all have a value, if they must, and the panes that they are in.

        The last of ``groups`` is the shard, which follows from the key.
        """
        import pyarrow as pa

        same = [pa.array(panes), *(rows.column(name) for name in (*groups[:-1], *self.key))]
        if self.takes_nulls:
            at, value = rows.column(POSITION), rows.column(self.value)
            ends, row = self._picked(same, at, at, value)
            laid_out = {name: rows.column(name).take(row) for name in (*groups, *self.key)}
            laid_out |= {"pane": same[0].take(row), **ends}
            return _record_batch(laid_out, [*groups, "pane", *self.arrow.names])
        bucket, parts = cut_values(rows.column(self.value).to_numpy(), self.accumulator)
        if bucket is not None:
            same.append(pa.array(bucket))
        values = dict(zip(self.parts, parts, strict=True))
        if self.counted:
            values[ROWS] = np.ones(rows.num_rows, np.int64)
        sums, first = self._added(same, {POSITION: rows.column(POSITION), **values})
        laid_out = {name: rows.column(name).take(first) for name in groups}
        laid_out["pane"] = same[0].take(first)
        laid_out |= {name: rows.column(name).take(first) for name in self.key}
        if bucket is not None:
            laid_out[BUCKET] = same[-1].take(first)
        laid_out |= sums
        return _record_batch(laid_out, [*groups, "pane", *self.arrow.names])

    def add_again(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Partial sums of several panes, or of several tasks, as those of one."""
        if self.takes_nulls:
            newest, value = sums.column(POSITION), sums.column(self.parts[0])
            at = sums.column(OLDEST) if self.by == "first" else newest
            ends, row = self._picked([sums.column(name) for name in self.key], at, newest, value)
            ends |= {name: sums.column(name).take(row) for name in self.key}
            return _record_batch(ends, self.arrow.names)
        same = {
            name: sums.column(name) for name in (*self.key, BUCKET) if name in sums.schema.names
        }
        others = {name: sums.column(name) for name in sums.schema.names if name not in same}
        added, first = self._added(list(same.values()), others)
        added |= {name: column.take(first) for name, column in same.items()}
        return _record_batch(added, self.arrow.names)

    def _added(self, same: list[Any], values: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Values of equal rows added up, and the first of each; of positions the newest."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import codes

        rows = len(values[POSITION])
        adds: dict[str, str] = {POSITION: "max"}
        if self.accumulator in _EXTREMES:
            adds |= dict.fromkeys(self.parts, self.by)
        wanted = [("first", "min"), *((name, adds.get(name, "sum")) for name in values)]
        table = pa.table({"code": codes(same, rows), "first": np.arange(rows), **values})
        sums = table.group_by("code", use_threads=False).aggregate(wanted).combine_chunks()
        added = {name: sums[f"{name}_{adds.get(name, 'sum')}"] for name in values}
        return added, sums["first_min"]

    def _picked(
        self, same: list[Any], at: Any, newest: Any, value: Any
    ) -> tuple[dict[str, Any], Any]:
        """Of equal rows the newest time, and time and value of the first or last; where it stands.

        Of equal times the larger value counts, and NULL is the least.
        """
        import pyarrow as pa

        from skyband.spark.state.arrow_order import codes

        code, times = codes(same, len(value)), int64(at)
        number = value.fill_null(0).to_numpy(zero_copy_only=False)
        valid = value.is_valid().to_numpy(zero_copy_only=False)
        order = np.lexsort((number, valid, times if self.by == "last" else ~times, code))
        begins = np.flatnonzero(np.diff(code[order], prepend=-1))
        row = pa.array(order[np.append(begins[1:], len(order)) - 1])
        latest = pa.array(np.maximum.reduceat(int64(newest)[order], begins))
        return {POSITION: latest, OLDEST: at.take(row), self.parts[0]: value.take(row)}, row

    def exact_parts(self, rows: pa.RecordBatch) -> tuple[ExactParts, Ints | None]:
        """Values to push, and how many rows each of them stands for, if that matters."""
        if self.takes_nulls:  # the engine takes Arrow's NULLs
            return single_parts(rows.column(self.parts[0])), None
        parts = [rows.column(name).to_numpy() for name in self.parts]
        if self.accumulator == "doubles":
            exact = double_parts(int64(rows.column(BUCKET)), parts)
        elif self.accumulator == "rows":
            exact = single_parts(np.zeros(rows.num_rows))
        elif self.accumulator == "extremes":
            exact = single_parts(np.array(parts[0]))
        elif self.by == "mean":  # whose sum may be beyond 64 bits
            exact = whole_parts(parts)
        else:
            exact = single_parts(whole_values(parts))
        if not self.counted:
            return exact, None
        return exact, np.where(exact.first, int64(rows.column(ROWS))[exact.row], 0)


def _record_batch(columns: dict[str, Any], names: list[str]) -> pa.RecordBatch:
    """Columns in this order, in one piece."""
    import pyarrow as pa

    (batch,) = pa.table({name: columns[name] for name in names}).combine_chunks().to_batches()
    return batch


def int64(column: Any) -> Ints:
    """A column of whole numbers as NumPy's."""
    numbers: Ints = column.to_numpy().astype(np.int64, copy=False)
    return numbers


# values are cut into parts


def cut_sql(rows: DataFrame, accumulator: Accumulator) -> DataFrame:
    """Add the parts of each value and, of doubles, its bucket."""
    exact, score = F.col(EXACT), F.col(SCORE)
    if accumulator == "doubles":
        return rows.withColumn(BUCKET, _bucket_sql()).withColumns(_double_parts_sql())
    if accumulator == "longs":
        low = exact.bitwiseAND(F.lit(_LOW_BITS))
        return rows.withColumns({"part_0": F.shiftright(exact, PART_BITS), "part_1": low})
    if accumulator == "rows":
        return rows
    # 2**32 of 31 bits each fit a bigint
    return rows.withColumn("part_0", exact if accumulator in WHOLE else score)


def cut_values(values: Any, accumulator: Accumulator) -> tuple[Ints | None, list[Any]]:
    """The bucket of each value, of doubles, and its parts."""
    if accumulator == "doubles":
        return cut_doubles(values)
    if accumulator == "longs":
        return None, [values >> PART_BITS, values & _LOW_BITS]
    return None, [values] if accumulator != "rows" else []


def _bucket_sql() -> Column:
    size = F.abs(SCORE)
    power = F.log2(size) - F.lit(_SAFE)
    place = F.floor((power + F.lit(BITS_BELOW_UNIT)) / F.lit(BUCKET_BITS))
    usual = (size >= F.lit(2.0**-BITS_BELOW_UNIT)) & (size < F.lit(float(_PART_UNIT)))
    infinite = F.when(F.col(SCORE) > 0, F.lit(HIGHEST + 1)).otherwise(F.lit(LOWEST - 1))
    return (
        F.when(usual | (size == 0) | size.isNull(), F.lit(0))
        .when(size == F.lit(math.inf), infinite)
        .otherwise(F.greatest(place, F.lit(LOWEST)))
        .cast("int")
    )


def _double_parts_sql() -> dict[str, Column]:
    """Three whole numbers for each number, in units of its bucket; none of an infinity."""
    bucket = F.col(BUCKET)
    powers = range(LOWEST * BUCKET_BITS, (HIGHEST + 1) * BUCKET_BITS, BUCKET_BITS)
    units = F.array(*(F.lit(math.ldexp(1.0, power)) for power in powers))
    scaled = F.when(bucket == 0, F.col(SCORE)).when(
        bucket.between(LOWEST, HIGHEST), F.col(SCORE) / F.get(units, bucket - F.lit(LOWEST))
    )
    scaled = F.coalesce(scaled, F.lit(0.0))
    first = scaled.cast("bigint")
    rest = (scaled - first.cast("double")) * F.lit(float(_PART_UNIT))
    second = rest.cast("bigint")
    third = ((rest - second.cast("double")) * F.lit(float(_PART_UNIT))).cast("bigint")
    return {"part_0": first, "part_1": second, "part_2": third}


def cut_doubles(values: Floats) -> tuple[Ints, list[Ints]]:
    """The bucket of each value, and its three parts in it."""
    infinite: Bools = np.isinf(values)
    finite = np.where(infinite, 0.0, values)
    power = np.where(finite == 0, 0, np.frexp(finite)[1] - 1)
    bucket = np.maximum((power + BITS_BELOW_UNIT) // BUCKET_BITS, LOWEST)
    scaled = np.ldexp(finite, -BUCKET_BITS * bucket)
    parts: list[Ints] = []
    for _ in range(3):
        whole = scaled.astype(np.int64)
        parts.append(whole)
        scaled = np.ldexp(scaled - whole, PART_BITS)
    beyond = np.where(values > 0, HIGHEST + 1, LOWEST - 1)
    buckets: Any = np.where(infinite, beyond, bucket).astype(np.int32)
    return buckets, parts


# partial sums become float64 numbers that the engine adds up, without loss


class ExactParts(NamedTuple):
    """Values to push: the partial sum that each is a part of, and whether it is its first."""

    row: Ints
    value: Scores
    first: Bools


def whole_parts(parts: list[Ints]) -> ExactParts:
    """Parts of whole numbers: of one sum, or of one in units of ``2**32`` and one beside it."""
    if len(parts) == 1:
        return _joined(_halves(parts[0], 0))
    high, low = parts
    if _fits(high, low):
        return _joined(_halves((high << PART_BITS) + low, 0))
    return _joined([*_halves(high, PART_BITS), *_halves(low, 0)])


def whole_values(parts: list[Ints]) -> Ints:
    """The whole numbers that parts add up to; refuses those beyond 64 bits."""
    if len(parts) == 1:
        return parts[0]
    high, low = parts
    for at in np.flatnonzero(np.abs(high * float(_PART_UNIT) + low) > _NEARLY).tolist():
        if abs((int(high[at]) << PART_BITS) + int(low[at])) > LARGEST:
            raise too_large("a sum")
    return (high << PART_BITS) + low


def double_parts(bucket: Ints, parts: list[Ints]) -> ExactParts:
    """Parts of the sums of doubles that were cut."""
    whole, middle, last = parts
    unit = BUCKET_BITS * bucket
    with np.errstate(over="ignore"):  # such sums come apart below
        if _fits(whole, middle):
            columns = _halves((whole << PART_BITS) + middle, unit - PART_BITS)
        else:
            columns = [*_halves(whole, unit), *_halves(middle, unit - PART_BITS)]
        columns += _halves(last, unit - 2 * PART_BITS)
    columns[0] = np.where(bucket > HIGHEST, np.inf, np.where(bucket < LOWEST, -np.inf, columns[0]))
    exact = _joined(columns)
    finite = (bucket >= LOWEST) & (bucket <= HIGHEST)
    beyond = np.isinf(exact.value) & finite[exact.row]
    return _smaller(exact, np.unique(exact.row[beyond]), bucket, parts) if beyond.any() else exact


def single_parts(values: Scores) -> ExactParts:
    """Every value is all of its sum."""
    return ExactParts(np.arange(len(values)), values, np.ones(len(values), np.bool_))


def _fits(high: Ints, low: Ints) -> bool:
    """Whether two parts can be joined in one whole number."""
    return not len(high) or bool(np.abs(high).max() < _ROOM and np.abs(low).max() < 1 << 60)


def _halves(numbers: Ints, unit: Ints | int) -> list[Floats]:
    """Whole numbers, in units of powers of two, as one or two columns of float64."""
    if not len(numbers) or (numbers.max() <= _EXACT_INTS and numbers.min() >= -_EXACT_INTS):
        return [np.ldexp(numbers.astype(np.float64), unit)]
    high, low = numbers >> PART_BITS, numbers & _LOW_BITS
    return [
        np.ldexp(high.astype(np.float64), np.asarray(unit) + PART_BITS),
        np.ldexp(low.astype(np.float64), unit),
    ]


def _joined(columns: list[Floats]) -> ExactParts:
    """Row by row, the first column always and the others where they are not zero."""
    rows = len(columns[0])
    if len(columns) == 1:
        return single_parts(columns[0])
    matrix = np.stack(columns, axis=1)
    there = matrix != 0
    there[:, 0] = True
    row, column = np.nonzero(there)
    assert len(np.unique(row)) == rows, "each partial sum has a first part"
    return ExactParts(row, matrix[row, column], column == 0)


def _smaller(exact: ExactParts, large: Ints, bucket: Ints, parts: list[Ints]) -> ExactParts:
    """The same, but sums beyond the largest float64 as several values below it."""
    rows, values, firsts = [], [], []
    for at in large.tolist():
        whole = sum(int(part[at]) << (PART_BITS * (2 - i)) for i, part in enumerate(parts))
        unit = BUCKET_BITS * int(bucket[at]) - 2 * PART_BITS
        several = _doubles(abs(whole), unit)
        rows += [at] * len(several)
        values += [value if whole >= 0 else -value for value in several]
        firsts += [True, *([False] * (len(several) - 1))]
    others = ~np.isin(exact.row, large)
    row = np.concatenate([exact.row[others], np.array(rows, np.int64)])
    order = np.argsort(row, kind="stable")
    return ExactParts(
        row[order],
        np.concatenate([exact.value[others], values])[order],
        np.concatenate([exact.first[others], firsts])[order],
    )


def _doubles(whole: int, unit: int) -> list[float]:
    """A whole number in units of a power of two as float64 numbers."""
    values: list[float] = []
    largest = 1 << (1023 - unit)
    while whole >= largest:
        values.append(_LARGEST)
        whole -= largest
    while whole:
        shift = max(whole.bit_length() - 53, 0)
        values.append(math.ldexp(whole >> shift, unit + shift))
        whole -= whole >> shift << shift
    return values
