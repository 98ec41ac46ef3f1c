"""How Spark would answer a query, in words: what is kept where, and how much of it."""

from __future__ import annotations

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

_FIXED = 4 * 8  # bytes of a candidate besides its columns: score, pane, place, dominators
_TEXT, _NESTED = 24, 64  # assumed bytes of a text, and of an array, map or structure


def explain_lines(plan: Plan) -> Lines:
    """The plan of a query: panes, who answers, what is kept, order, lateness."""
    base, axis = plan.base, plan.base.axis
    position = axis.column
    ties = f", then higher {', '.join(plan.tie_breakers)}" if plan.tie_breakers else ""
    lines = [
        *plan.explain_lines(),
        ("order", f"higher score, then {axis.order} {position}{ties}"),
    ]
    if axis.counts_rows:
        lines.append(
            ("watermark", f"rows up to {axis.delay:,} behind the highest {position} count")
        )
        lines.append(("answers", _when(plan)))
    else:
        delay = spoken(axis.delay)
        lines.append(("watermark", f"rows up to {delay} behind the newest {position} always count"))
        lines.append(("", "later ones may be dropped, and are counted; no answer is taken back"))
        lines.append(("answers", _when(plan)))
        skew = getattr(axis, "skew", None)
        ahead = "" if skew is None else f", and rows more than {spoken(skew)} ahead of the clock"
        lines.append(("set aside", f"rows without {position}{ahead}: never ranked, counted"))
    lines.append(("not ranked", f"rows whose {plan.missing} is NULL or NaN: counted"))
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
    after = f"{spoken(wait)} or more after" if wait else "at or after"
    return f"a window, once a row from {after} its end has come"


def pane_lines(plan: WindowPlan) -> Lines:
    """The panes of a query's windows."""
    return [("panes", panes_of(plan).words(plan.base.axis.length))]


def panes_of(plan: WindowPlan) -> Panes:
    """The panes of a query's windows."""
    return Panes(plan.query.window.size, plan.query.window.slide)


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
