"""SQL texts as expressions over Arrow columns, where both are sure to mean the same.

A text is parsed, typed by the rules of Spark's ANSI mode, and said again with all parentheses.
Spark is then asked what it makes of both texts: only if it names them alike, and gives every part
the type that was expected, is the translation used. Anything else stays with Spark.
"""

from __future__ import annotations

from typing import Any

import sqlglot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType
from sqlglot import exp

from skyband.spark.columns import column_names
from skyband.spark.scan import NotScannedError
from skyband.spark.scan.arithmetic import (
    NUMBERS,
    WHOLE,
    Arithmetic,
    Between,
    ColumnValue,
    Comparison,
    Constant,
    Logic,
    Negation,
    Negative,
    Node,
    NullTest,
    NumberCast,
    OneOf,
    Quotient,
)
from skyband.spark.sessions import FAILURES

_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}
_DECIMAL = "decimal"
_COMPARABLE = ("string", "boolean", *NUMBERS)


def translated(df: DataFrame, text: str) -> Node:
    """The expression that a SQL text means; raises :class:`NotScannedError`."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except sqlglot.errors.SqlglotError:
        raise NotScannedError(f"{text} is not understood") from None
    node = _Translation(df).node(tree)
    if _is_decimal_constant(node):
        raise NotScannedError(f"{text} is a decimal")
    _require_same(df, text, node)
    return node


def column_value(df: DataFrame, name: str) -> ColumnValue:
    """A column as an expression."""
    (spelled,) = column_names(df.schema, name, "column")
    return ColumnValue(spelled, type_name(df.schema[spelled].dataType))


def type_name(type: DataType) -> str:
    """A type as Spark calls it."""
    return type.simpleString()


def _require_same(df: DataFrame, text: str, node: Node) -> None:
    """Refuse a translation that Spark does not read as it reads the text."""
    parts = [part for part in node.walk() if not part.type.startswith(_DECIMAL)]
    try:
        names = df.select(F.expr(text), F.expr(node.sql)).columns
        fields = df.select(*(F.expr(part.sql) for part in parts)).schema.fields
    except FAILURES:
        raise NotScannedError(f"{text} is not understood") from None
    if names[0].lower() != names[1].lower():
        raise NotScannedError(f"{text} is not understood")
    for part, field in zip(parts, fields, strict=True):
        if type_name(field.dataType) != part.type:
            raise NotScannedError(f"{part.sql} is of type {type_name(field.dataType)}")


class _Translation:
    """The parts of a parsed text, as expressions over the columns of a DataFrame."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df

    def node(self, tree: Any) -> Node:
        kind = type(tree)
        if kind is exp.Paren:
            return self.node(tree.this)
        if kind is exp.Column:
            return self._column(tree)
        if kind in (exp.Literal, exp.Boolean):
            return _constant(tree)
        if kind is exp.Neg:
            return self._negative(tree)
        if kind in _ARITHMETIC:
            return self._arithmetic(tree, _ARITHMETIC[kind])
        if kind is exp.Div:
            left, right = self._numbers(tree)
            _common(left, right, tree)
            return Quotient(left, right)
        if kind in (exp.Cast, exp.TryCast) and not tree.args.get("safe"):
            return self._cast(tree)
        return self._condition(tree, kind)

    def _condition(self, tree: Any, kind: type) -> Node:
        if kind in _COMPARISONS:
            left, right = self.node(tree.this), self.node(tree.expression)
            return Comparison(_COMPARISONS[kind], left, right, _compared(left, right, tree))
        if kind in _LOGIC:
            return self._logic(tree, _LOGIC[kind])
        if kind is exp.Not:
            condition = self._truth(tree.this)
            if isinstance(condition, NullTest) and isinstance(tree.this, exp.Is):
                return NullTest(condition.operand, not_null=True)
            return Negation(condition)
        if kind is exp.Is and isinstance(tree.expression, exp.Null):
            return NullTest(self.node(tree.this))
        if kind is exp.Between:
            return self._between(tree)
        if kind is exp.In and tree.args.get("query") is None and tree.expressions:
            return self._one_of(tree)
        raise NotScannedError(f"{tree.sql(dialect='spark')} is evaluated by Spark alone")

    def _column(self, tree: Any) -> Node:
        if tree.table:
            raise NotScannedError(f"{tree.sql(dialect='spark')} is no plain column")
        known = [name for name in self._df.columns if name.lower() == tree.name.lower()]
        if len(known) != 1:
            raise NotScannedError(f"{tree.name} is no plain column")
        return column_value(self._df, known[0])

    def _numbers(self, tree: Any) -> tuple[Node, Node]:
        left, right = self.node(tree.this), self.node(tree.expression)
        for side in (left, right):
            if side.type not in NUMBERS and not _is_decimal_constant(side):
                raise NotScannedError(f"{side.sql} is of type {side.type}")
        return left, right

    def _arithmetic(self, tree: Any, operator: str) -> Node:
        left, right = self._numbers(tree)
        node = Arithmetic(operator, left, right, _common(left, right, tree))
        if node.type in WHOLE and _constants(node, operator) > 1:  # Spark adds these up first
            raise NotScannedError(f"{tree.sql(dialect='spark')} has several constants")
        return node

    def _negative(self, tree: Any) -> Node:
        operand = self.node(tree.this)
        if isinstance(operand, Constant) and operand.type in ("int", "bigint", "double"):
            return Constant(f"-{operand.text}", operand.type)
        if _is_decimal_constant(operand):
            return Constant(f"-{operand.sql}", operand.type)
        if operand.type not in NUMBERS:
            raise NotScannedError(f"{operand.sql} is of type {operand.type}")
        return Negative(operand, operand.type)

    def _cast(self, tree: Any) -> Node:
        operand, wanted = self.node(tree.this), tree.to.sql(dialect="spark").lower()
        if wanted not in NUMBERS or operand.type not in NUMBERS:
            raise NotScannedError(f"{tree.sql(dialect='spark')} is evaluated by Spark alone")
        return NumberCast(operand, wanted)

    def _truth(self, tree: Any) -> Node:
        condition = self.node(tree)
        if condition.type != "boolean":
            raise NotScannedError(f"{condition.sql} is of type {condition.type}")
        return condition

    def _logic(self, tree: Any, operator: str) -> Node:
        left, right = self._truth(tree.this), self._truth(tree.expression)
        if left.fails or right.fails:
            raise NotScannedError(
                f"{tree.sql(dialect='spark')} may fail in a part that is left out"
            )
        return Logic(operator, left, right)

    def _between(self, tree: Any) -> Node:
        operand = self.node(tree.this)
        low, high = self.node(tree.args["low"]), self.node(tree.args["high"])
        lowest = Comparison(">=", operand, low, _compared(operand, low, tree))
        highest = Comparison("<=", operand, high, _compared(operand, high, tree))
        if lowest.fails or highest.fails:
            raise NotScannedError(
                f"{tree.sql(dialect='spark')} may fail in a part that is left out"
            )
        return Between(operand, lowest, highest)

    def _one_of(self, tree: Any) -> Node:
        operand = self.node(tree.this)
        options = tuple(self.node(option) for option in tree.expressions)
        if not all(isinstance(option, Constant) for option in options):
            raise NotScannedError(f"{tree.sql(dialect='spark')} is evaluated by Spark alone")
        compared = {_compared(operand, option, tree) for option in options}
        if compared != {operand.type}:  # Spark would compare in the widest type of all
            raise NotScannedError(f"{tree.sql(dialect='spark')} mixes types")
        return OneOf(operand, options, operand.type)


def _constant(tree: Any) -> Constant:
    if isinstance(tree, exp.Boolean):
        return Constant("TRUE" if tree.this else "FALSE", "boolean")
    text = str(tree.this)
    if tree.is_string:
        if "'" in text or "\\" in text:
            raise NotScannedError("texts with quotes or backslashes are Spark's to read")
        return Constant(f"'{text}'", "string")
    if text.isdigit():
        if int(text) >= 1 << 63:
            raise NotScannedError(f"{text} is a decimal")
        return Constant(text, "int" if int(text) < 1 << 31 else "bigint")
    if "e" in text.lower():
        return Constant(text, "double")
    return Constant(text, _DECIMAL)


def _constants(node: Node, operator: str) -> int:
    """How many constants a chain of one operator holds."""
    if isinstance(node, Arithmetic) and node.operator == operator:
        return _constants(node.left, operator) + _constants(node.right, operator)
    return int(isinstance(node, Constant))


def _is_decimal_constant(node: Node) -> bool:
    return isinstance(node, Constant) and node.type == _DECIMAL


def _common(left: Node, right: Node, tree: Any) -> str:
    """The type in which Spark computes with two numbers."""
    types = {left.type, right.type}
    if "double" in types or types == {"float", _DECIMAL}:
        return "double"
    if types == {"float"}:
        return "float"
    if types <= set(WHOLE):
        return max(types, key=list(WHOLE).index)
    if "float" in types and types - {"float"} <= set(WHOLE):
        return "double"
    raise NotScannedError(f"{tree.sql(dialect='spark')} is computed in decimals")


def _compared(left: Node, right: Node, tree: Any) -> str:
    """The type in which Spark compares two values."""
    types = {left.type, right.type}
    if len(types) == 1 and types <= set(_COMPARABLE):
        return left.type
    if all(type in NUMBERS or type == _DECIMAL for type in types):
        return _common(left, right, tree)
    raise NotScannedError(f"{tree.sql(dialect='spark')} compares {' and '.join(sorted(types))}")
