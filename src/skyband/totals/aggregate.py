"""What a total is, as text: ``sum(bytes)`` taken apart into its kind and its value."""

from __future__ import annotations

import re
from typing import NamedTuple

from skyband.errors import QueryError
from skyband.totals.query import By

KINDS: dict[str, By] = {
    "sum": "sum",
    "count": "count",
    "max": "max",
    "min": "min",
    "avg": "mean",
    "mean": "mean",
    "first": "first",
    "last": "last",
}
EXPECTED = (
    "sum, count, max, min, avg, first or last of one expression, such as sum(bytes) or count(*)"
)
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_DISTINCT = re.compile(r"\s*(distinct|all)\b", re.IGNORECASE)
_QUOTES = "'\"`"


class Aggregate(NamedTuple):
    """A kind of total, and the expression that is added up; None counts rows."""

    by: By
    value: str | None

    def __str__(self) -> str:
        name = "avg" if self.by == "mean" else self.by
        return f"{name}({'*' if self.value is None else self.value})"


def parsed(text: str) -> Aggregate | None:
    """An aggregate from SQL text; None if it is something else.

    >>> parsed("sum(price * volume)"), parsed("Count( * )")
    (Aggregate(by='sum', value='price * volume'), Aggregate(by='count', value=None))
    >>> parsed("sum(a) / sum(b)") is None
    True
    """
    match = _CALL.fullmatch(text)
    if match is None or match[1].lower() not in KINDS:
        return None
    value = match[2].strip()
    if not value or not _is_one(value) or _DISTINCT.match(value):
        return None
    by = KINDS[match[1].lower()]
    if value in ("*", "1") and by == "count":
        return Aggregate("count", None)
    return None if value == "*" else Aggregate(by, value)


def refuse_aggregate(text: str) -> None:
    """Raise if rows are to be ranked one by one by what is an aggregate."""
    if parsed(text) is not None:
        raise QueryError(
            f"by is {text}, an aggregate, without key=",
            "a score for each row, or the column whose rows are added up",
            "write key='client'",
        )


def _is_one(text: str) -> bool:
    """Whether parentheses close within a text, and no comma parts it."""
    depth, quote = 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if depth < 0 or (letter == "," and depth == 0):
                return False
    return depth == 0 and not quote
