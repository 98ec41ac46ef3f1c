"""What tasks evaluate of the rows of a file: scores, positions, and columns that are handed on.

Workers import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import DataError
from skyband.spark.scan.arithmetic import Columns, Node, any_true, evaluated_where
from skyband.spark.scan.columns_of_files import micros
from skyband.spark.scores import EXACT_INTS

_DAY = 86_400_000_000
_FURTHEST = ((1 << 63) - 1) // _DAY  # days that microseconds can count


@dataclass(frozen=True)
class ScanScore:
    """A number of each row: ``scale`` is that of a decimal, taken in units of its last digit.

    ``exact`` ones are whole numbers, others doubles, which refuse to round whole numbers. It is not
    evaluated, and NULL, where one that it ``needs`` is NULL. ``option`` is what asked for it.
    """

    name: str
    node: Node
    exact: bool
    scale: int | None = None
    option: str = "by"
    needs: tuple[Node, ...] = ()

    def evaluate(self, columns: dict[str, Any], only_compared: bool = False) -> Any:
        """The number of each row, as Spark hands it on: -0.0 is 0.0.

        Where numbers are ``only_compared``, which are equal then, -0.0 stays.
        """
        if not self.needs or not (self.node.fails or self.node.type == "bigint"):
            return self._evaluate(columns, only_compared)
        valid = reduce(pc.and_, (pc.is_valid(need.evaluate(columns)) for need in self.needs))
        return evaluated_where(valid, self._evaluate, columns, self.node.columns)

    def _evaluate(self, columns: Columns, only_compared: bool = False) -> Any:
        value = self.node.evaluate(columns)
        if self.scale is not None:
            units = unscaled(value)
            if self.exact:
                return units
            return pc.divide(pc.cast(units, pa.float64()), float(10**self.scale))
        if self.exact:
            return value
        if self.node.type == "bigint":
            self._refuse_rounding(value)
        number = pc.cast(value, pa.float64(), safe=False)
        return number if only_compared else pc.add(number, 0.0)

    def _refuse_rounding(self, value: Any) -> None:
        beyond = pc.or_(pc.less(value, -EXACT_INTS), pc.greater(value, EXACT_INTS))
        if any_true(beyond):
            text = self.node.sql.replace("`", "")
            raise DataError(
                f"{self.option} {text} holds a number beyond 2**53, which doubles round",
                fix=f"write CAST({text} AS DOUBLE) to accept ties",
            )


def unscaled(column: Any) -> Any:
    """Decimals of up to 18 digits as whole numbers, in units of their last digit."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :]
    low = np.ascontiguousarray(words[: 2 * len(column) : 2])
    null = pc.is_null(column).to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(low, mask=null)


@dataclass(frozen=True)
class ScanAxis:
    """What places rows: a column, and from where on a position cannot be believed.

    ``skew`` is added to the clock of the micro-batch; ``limit`` holds for numbers.
    """

    column: str
    dates: bool
    skew: int | None
    limit: int | None

    def positions(self, columns: dict[str, Any]) -> Any:
        """The position of each row."""
        column = micros(columns[self.column])
        if not self.dates:
            return column.cast(pa.int64())
        days = column.cast(pa.int64())
        near = pc.less_equal(pc.abs(days), _FURTHEST)
        return pc.multiply(pc.if_else(near, days, pa.scalar(None, pa.int64())), _DAY)

    def furthest(self, now: int) -> int | None:
        """The last position that can be believed."""
        if self.limit is not None:
            return self.limit - 1
        return None if self.skew is None else now + self.skew


@dataclass(frozen=True)
class ScanColumn:
    """A column that is handed on: where it comes from, and whether it is a key, where -0.0 is 0."""

    name: str
    node: Node
    is_key: bool = False

    def evaluate(self, columns: dict[str, Any]) -> Any:
        """The column as it passes through Python."""
        column = micros(self.node.evaluate(columns))
        if self.is_key and pa.types.is_floating(column.type):
            return pc.add(column, pa.scalar(0.0, column.type))
        return column


def as_column(value: Any, length: int) -> Any:
    """A value for each row, also where it is the same for all."""
    return pa.repeat(value, length) if isinstance(value, pa.Scalar) else value


def without_nan(number: Any) -> Any:
    """Numbers, and NULL for NaN, which is not ranked and would be the highest to Spark."""
    if not pa.types.is_floating(number.type):
        return number
    return pc.if_else(pc.is_nan(number), pa.scalar(None, number.type), number)


def nan_count(number: Any) -> int:
    """How many of some numbers are NaN."""
    if not len(number) - number.null_count:
        return 0
    values = number.to_numpy(zero_copy_only=False)
    if not number.null_count and not np.isnan(values.min()):  # one pass, without an array
        return 0
    return int(np.isnan(values).sum()) - int(number.null_count)


def read_only(array: Any) -> Any:
    """An array that cannot be written to, as those that Arrow lends.

    Kernels are compiled, and loaded, apart for arrays that can: the first NULL would do so.
    """
    array.setflags(write=False)
    return array
