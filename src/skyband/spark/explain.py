"""How Spark would answer a query, in words: what is kept where, and how much of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StructType,
)

from skyband.durations import spoken
from skyband.spark.plan import BasePlan, Plan, WindowPlan
from skyband.windows import Panes

Lines = list[tuple[str, str]]
"""Names and sentences; a line without a name goes on from the one before."""

PANE_PATH = "panes: their best rows are found inside the JVM; no other row reaches Python"

OPEN_PATH = (
    "panes: tasks of a stream reduce rows to the best of each pane, in Python; a batch does it "
    "inside the JVM"
)

_FILLING = 2  # steps that are being filled while rows come in order
_FIXED = 4 * 8  # bytes of a candidate besides its columns: score, pane, place, dominators
_TEXT, _NESTED = 24, 64  # assumed bytes of a text, and of an array, map or structure


def explain_lines(plan: Plan) -> Lines:
    """The plan of a query: panes, who answers, what is kept, order, lateness."""
    base, axis = plan.base, plan.base.axis
    position = axis.column
    oldest_first = getattr(plan, "oldest_first", False)
    age, higher = ("older", "lower") if oldest_first else (axis.order, "higher")
    ties = f", then {higher} {', '.join(plan.tie_breakers)}" if plan.tie_breakers else ""
    where = base.derivation.where
    lines = [
        *([] if where is None else [("rows", f"only those for which {where}")]),
        *plan.explain_lines(),
        ("order", f"higher score, then {age} {position}{ties}"),
    ]
    if axis.counts_rows:
        count = f"rows up to {axis.delay:,} behind the highest {position} count"
        lines += [("watermark", count), ("answers", _when(plan))]
    else:
        length = axis.length if axis.kind == "tick" else spoken
        delay, skew = length(axis.delay), getattr(axis, "skew", None)
        ahead = "" if skew is None else f", and rows more than {spoken(skew)} ahead of the clock"
        lines += [
            ("watermark", f"rows up to {delay} behind the newest {position} always count"),
            ("", "later ones may be dropped, and are counted; no answer is taken back"),
            ("answers", _when(plan)),
            ("set aside", f"rows without {position}{ahead}: never ranked, counted"),
        ]
    if plan.updates:
        lines.append(("before", "every micro-batch also shows the open windows that it changes"))
    lines.append(("not ranked", plan.not_ranked))
    if base.deduplicate_by:
        lines.append(("once", f"rows that repeat {', '.join(base.deduplicate_by)} count once"))
    return lines


def _when(plan: Plan) -> str:
    """When a window is answered: the watermark moves by whole steps."""
    axis = plan.base.axis
    if axis.kind == "arrival":
        return f"once a row from more than {spoken(axis.delay)} after a window's last has come"
    wait = -(-axis.delay // plan.step) * plan.step
    if axis.counts_rows:
        return f"once row number end + {wait:,} of a window, or a later one, has come"
    length = axis.length if axis.kind == "tick" else spoken
    after = f"{length(wait)} or more after" if wait else "at or after"
    return f"a window, once a row from {after} its end has come"


def pane_lines(plan: WindowPlan) -> Lines:
    """The panes of a query's windows."""
    return [("panes", panes_of(plan).words(plan.base.axis.length))]


def state_line(base: BasePlan, metrics: Mapping[str, Any]) -> tuple[str, str]:
    """How much is kept, by the metrics of a plan that keeps candidates and open panes."""
    rows, size = metrics["state_rows_per_key"], size_of(metrics["state_bytes_per_key"])
    keys = ", times the number of keys" if base.keys else ""
    each = f"{metrics['bytes_per_row']:,} bytes{base.each}"
    return "state", f"about {rows:,} rows of {each}: {size}{keys}"


def panes_of(plan: WindowPlan) -> Panes:
    """The panes of a query's windows."""
    panes: Panes = plan.query.window.panes
    return panes


def open_steps(base: BasePlan, step: int) -> int:
    """Steps that rows may still come for: those within the delay, and the newest."""
    return _FILLING + math.ceil(base.axis.delay / step)


def row_bytes(base: BasePlan) -> int:
    """Bytes of a row in the state, about."""
    return _FIXED + sum(map(_width, base.types))


def _width(type: DataType) -> int:
    if isinstance(type, (BooleanType, ByteType)):
        return 1
    if isinstance(type, ShortType):
        return 2
    if isinstance(type, (IntegerType, FloatType, DateType)):
        return 4
    if isinstance(type, (ArrayType, MapType, StructType)):
        return _NESTED
    return _TEXT if type.simpleString() in ("string", "binary") else 8


def size_of(bytes: int) -> str:
    """An amount of memory in words."""
    return f"{bytes / 1e6:,.1f} MB" if bytes >= 1e6 else f"{bytes / 1e3:,.1f} kB"
