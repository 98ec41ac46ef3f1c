"""Expressions over Arrow columns, evaluated as Spark evaluates them in ANSI mode.

A :class:`Node` knows its type, as Spark calls it, and says itself in SQL with all parentheses, so
that Spark can be asked whether it reads the same expression. What Spark refuses (an overflow, a
division by zero) is refused here, too, under Spark's names: jobs know what to say of these. Workers
import this module: it knows neither Spark nor SQL texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WHOLE = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
"""Whole numbers, the narrowest first."""

NUMBERS: dict[str, pa.DataType] = {**WHOLE, "float": pa.float32(), "double": pa.float64()}

Columns = Mapping[str, Any]
"""Arrow arrays by the names of columns."""


class Node(ABC):
    """An expression: its value for each row is NULL where Spark's is."""

    type: str

    @property
    @abstractmethod
    def sql(self) -> str:
        """The expression as SQL text with all parentheses."""

    @property
    def children(self) -> tuple[Node, ...]:
        """The expressions that it is made of."""
        return ()

    @property
    def fails(self) -> bool:
        """Whether evaluating it may fail: Spark may leave out a part of a condition."""
        return any(child.fails for child in self.children)

    @abstractmethod
    def evaluate(self, columns: Columns) -> Any:
        """The value for each row, as an Arrow array, or a scalar if it is the same for all."""

    def walk(self) -> Iterator[Node]:
        """Itself and all that it is made of."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def columns(self) -> list[str]:
        """The columns that it needs, each once."""
        names = [node.name for node in self.walk() if isinstance(node, ColumnValue)]
        return list(dict.fromkeys(names))


class OneSided(Node):
    """An expression of one other, its ``operand``."""

    operand: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The operand."""
        return (self.operand,)


class TwoSided(Node):
    """An expression with an operator between its two sides."""

    operator: str
    left: Node
    right: Node

    @property
    def sql(self) -> str:
        """In parentheses."""
        return f"({self.left.sql} {self.operator} {self.right.sql})"

    @property
    def children(self) -> tuple[Node, ...]:
        """Both sides."""
        return self.left, self.right


@dataclass(frozen=True)
class ColumnValue(Node):
    """A column."""

    name: str
    type: str

    @property
    def sql(self) -> str:
        """Its name."""
        return "`" + self.name.replace("`", "``") + "`"

    def evaluate(self, columns: Columns) -> Any:
        """What stands in it."""
        return columns[self.name]


@dataclass(frozen=True)
class Constant(Node):
    """A number, a text or a truth value, as it was written."""

    text: str
    type: str

    @property
    def sql(self) -> str:
        """As it was written."""
        return self.text

    @property
    def value(self) -> Any:
        """The value as Python has it; a decimal is met only beside doubles, and is one."""
        if self.type == "string":
            return self.text[1:-1]
        if self.type == "boolean":
            return self.text.upper() == "TRUE"
        return int(self.text) if self.type in WHOLE else float(self.text)

    def evaluate(self, columns: Columns) -> Any:
        """The value, as a scalar."""
        types = {"string": pa.string(), "boolean": pa.bool_(), **NUMBERS}
        return pa.scalar(self.value, types.get(self.type, pa.float64()))


_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_ROUNDED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


@dataclass(frozen=True)
class Arithmetic(TwoSided):
    """A sum, a difference or a product: of whole numbers exact or refused, else rounded once."""

    operator: str
    left: Node
    right: Node
    type: str

    @property
    def fails(self) -> bool:
        """Whole numbers may overflow."""
        return self.type in WHOLE or super().fails

    def evaluate(self, columns: Columns) -> Any:
        """Both sides are widened to the type of the result first, as Spark does."""
        left, right = in_turn(self.left, self.right, columns)
        left, right = widened(left, self.type), widened(right, self.type)
        if self.type not in WHOLE:
            return _ROUNDED[self.operator](left, right)
        try:
            return _CHECKED[self.operator](left, right)
        except pa.ArrowInvalid:
            raise too_large(self) from None


@dataclass(frozen=True)
class Quotient(TwoSided):
    """A quotient of doubles; a division by zero is refused."""

    left: Node
    right: Node
    type: str = "double"
    operator: str = "/"

    @property
    def fails(self) -> bool:
        """What is divided by may be zero."""
        return True

    def evaluate(self, columns: Columns) -> Any:
        """NULL where either is, also where the other is zero."""
        right, left = in_turn(self.right, self.left, columns)  # Spark divides in this order
        left, right = widened(left, "double"), widened(right, "double")
        by_zero = pc.and_(pc.equal(right, 0.0), pc.is_valid(left))
        if any_true(by_zero):
            raise ArithmeticError(f"[DIVIDE_BY_ZERO] {self.sql} divides by zero")
        return pc.divide(left, right)


@dataclass(frozen=True)
class Negative(OneSided):
    """A number with its sign turned."""

    operand: Node
    type: str

    @property
    def sql(self) -> str:
        """In parentheses."""
        return f"(- {self.operand.sql})"

    @property
    def fails(self) -> bool:
        """The lowest whole number has no counterpart."""
        return self.type in WHOLE or super().fails

    def evaluate(self, columns: Columns) -> Any:
        """Refuse what has no counterpart."""
        value = self.operand.evaluate(columns)
        try:
            return pc.negate_checked(value)
        except pa.ArrowInvalid:
            raise too_large(self) from None


@dataclass(frozen=True)
class NumberCast(OneSided):
    """A number as one of another type: cut off towards zero, refused where it does not fit."""

    operand: Node
    type: str

    @property
    def sql(self) -> str:
        """As a call."""
        return f"CAST({self.operand.sql} AS {self.type.upper()})"

    @property
    def fails(self) -> bool:
        """A narrower type does not hold all numbers."""
        return self.type in WHOLE or super().fails

    def evaluate(self, columns: Columns) -> Any:
        """Check the range, then convert."""
        value = self.operand.evaluate(columns)
        if self.type not in WHOLE:
            return pc.cast(value, NUMBERS[self.type], safe=False)
        limits = np.iinfo(WHOLE[self.type].to_pandas_dtype())
        if pa.types.is_floating(value.type):
            return self._truncated(value, int(limits.min), int(limits.max))
        if pa.types.is_signed_integer(value.type) and value.type.bit_width > limits.bits:
            outside = pc.or_(pc.less(value, limits.min), pc.greater(value, limits.max))
            self._refuse(outside)
        return pc.cast(value, WHOLE[self.type], safe=False)

    def _truncated(self, value: Any, lowest: int, highest: int) -> Any:
        wide = pc.cast(value, pa.float64(), safe=False)
        # 2.0**63 is not above the largest bigint to Spark, and becomes it
        fits = pc.and_(
            pc.less_equal(pc.floor(wide), float(highest)),
            pc.greater_equal(pc.ceil(wide), float(lowest)),
        )
        self._refuse(pc.invert(fits))
        number = pc.trunc(wide)
        beyond = pc.greater_equal(number, 2.0**63)
        plain = pc.cast(pc.if_else(beyond, 0.0, number), WHOLE[self.type], safe=False)
        return pc.if_else(beyond, pa.scalar(highest, WHOLE[self.type]), plain)

    def _refuse(self, outside: Any) -> None:
        if any_true(outside):
            raise ArithmeticError(f"[CAST_OVERFLOW] {self.sql} does not fit")


_COMPARED = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Comparison(TwoSided):
    """A comparison of two values of ``compared`` type; NaN equals NaN and is above all else."""

    operator: str
    left: Node
    right: Node
    compared: str
    type: str = "boolean"

    def evaluate(self, columns: Columns) -> Any:
        """Compare, then mend what Arrow says of NaN."""
        left, right = in_turn(self.left, self.right, columns)
        if self.compared in NUMBERS:
            left, right = widened(left, self.compared), widened(right, self.compared)
        plain = _COMPARED[self.operator](left, right)
        if self.compared not in ("float", "double"):
            return plain
        no_left, no_right = pc.is_nan(left), pc.is_nan(right)
        if not any_true(no_left) and not any_true(no_right):
            return plain
        places = pc.cast(no_left, pa.int8()), pc.cast(no_right, pa.int8())
        either = pc.or_(no_left, no_right)
        return pc.if_else(either, _COMPARED[self.operator](*places), plain)


@dataclass(frozen=True)
class Logic(TwoSided):
    """Both, or either, of two conditions, where one that is NULL may not matter."""

    operator: str
    left: Node
    right: Node
    type: str = "boolean"

    def evaluate(self, columns: Columns) -> Any:
        """As SQL has it."""
        both = (side.evaluate(columns) for side in self.children)
        return pc.and_kleene(*both) if self.operator == "AND" else pc.or_kleene(*both)


@dataclass(frozen=True)
class Negation(OneSided):
    """A condition that does not hold."""

    operand: Node
    type: str = "boolean"

    @property
    def sql(self) -> str:
        """In parentheses."""
        return f"(NOT {self.operand.sql})"

    def evaluate(self, columns: Columns) -> Any:
        """NULL stays NULL."""
        return pc.invert(self.operand.evaluate(columns))


@dataclass(frozen=True)
class NullTest(OneSided):
    """Whether a value is NULL, or whether it is ``not_null``; NaN is not NULL."""

    operand: Node
    not_null: bool = False
    type: str = "boolean"

    @property
    def sql(self) -> str:
        """In parentheses."""
        return f"({self.operand.sql} IS {'NOT ' if self.not_null else ''}NULL)"

    def evaluate(self, columns: Columns) -> Any:
        """Never NULL itself."""
        value = self.operand.evaluate(columns)
        return pc.is_valid(value) if self.not_null else pc.is_null(value)


@dataclass(frozen=True)
class Between(Node):
    """Whether a value is at least one other and at most a third."""

    operand: Node
    lowest: Comparison
    highest: Comparison
    type: str = "boolean"

    @property
    def sql(self) -> str:
        """In parentheses."""
        low, high = self.lowest.right.sql, self.highest.right.sql
        return f"({self.operand.sql} BETWEEN {low} AND {high})"

    @property
    def children(self) -> tuple[Node, ...]:
        """Both comparisons."""
        return self.lowest, self.highest

    def evaluate(self, columns: Columns) -> Any:
        """Both comparisons, as SQL joins them."""
        return pc.and_kleene(self.lowest.evaluate(columns), self.highest.evaluate(columns))


@dataclass(frozen=True)
class OneOf(Node):
    """Whether a value equals one of some constants."""

    operand: Node
    options: tuple[Node, ...]
    compared: str
    type: str = "boolean"

    @property
    def sql(self) -> str:
        """In parentheses."""
        return f"({self.operand.sql} IN ({', '.join(option.sql for option in self.options)}))"

    @property
    def children(self) -> tuple[Node, ...]:
        """The value and the constants."""
        return (self.operand, *self.options)

    def evaluate(self, columns: Columns) -> Any:
        """One comparison after the other."""
        tests = [
            Comparison("=", self.operand, option, self.compared).evaluate(columns)
            for option in self.options
        ]
        return reduce(pc.or_kleene, tests)


def too_large(node: Node) -> ArithmeticError:
    """The error of a whole number that its type cannot hold."""
    return ArithmeticError(f"[ARITHMETIC_OVERFLOW] {node.sql} is too large for {node.type}")


def in_turn(first: Node, second: Node, columns: Columns) -> tuple[Any, Any]:
    """The values of two expressions; the second is not evaluated where the first is NULL.

    So it does not fail there, as in Spark.
    """
    value = first.evaluate(columns)
    if not second.fails or isinstance(value, pa.Scalar) or not value.null_count:
        return value, second.evaluate(columns)
    return value, evaluated_where(value.is_valid(), second.evaluate, columns, second.columns)


def evaluated_where(
    condition: Any, evaluate: Callable[[Columns], Any], columns: Columns, names: list[str]
) -> Any:
    """What is evaluated of the columns ``names`` where a condition holds, and NULL elsewhere.

    So nothing fails elsewhere. A scalar stays one.
    """
    holds = condition.to_numpy(zero_copy_only=False)
    places = np.flatnonzero(holds)
    evaluated = evaluate({name: columns[name].take(pa.array(places)) for name in names})
    if isinstance(evaluated, pa.Scalar):
        return evaluated
    at = np.zeros(len(holds), np.int64)
    at[places] = np.arange(len(places))
    return evaluated.take(pa.array(at, mask=~holds))


def widened(value: Any, type: str) -> Any:
    """A number as one of a wider type, as Spark widens it: a long whole number may be rounded."""
    wanted = NUMBERS[type]
    return value if value.type == wanted else pc.cast(value, wanted, safe=False)


def any_true(condition: Any) -> bool:
    """Whether a condition holds for any row."""
    if isinstance(condition, pa.Scalar):
        return bool(condition.as_py())
    return bool(pc.any(condition).as_py())
