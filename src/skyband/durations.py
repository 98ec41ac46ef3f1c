"""Durations: from text such as ``1 hour`` to microseconds, and back."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

import numpy as np

from skyband.errors import QueryError

_UNITS = {
    "us": 1,
    "microsecond": 1,
    "ms": 1_000,
    "millisecond": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "minute": 60_000_000,
    "h": 3_600_000_000,
    "hour": 3_600_000_000,
    "d": 86_400_000_000,
    "day": 86_400_000_000,
    "w": 604_800_000_000,
    "week": 604_800_000_000,
}
_TERM = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")

Duration = str | timedelta | np.timedelta64


def microseconds(duration: Duration, what: str = "duration") -> int:
    """Return a duration in microseconds.

    Raises :class:`QueryError` for text that is not a duration, and for calendar units whose
    length varies (months, years).

    >>> microseconds("1 hour 30 minutes")
    5400000000
    """
    if isinstance(duration, timedelta):
        return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds
    if isinstance(duration, np.timedelta64):
        return int(duration.astype("timedelta64[us]").astype(np.int64))
    total, at = Fraction(0), 0
    text = duration.strip()
    while at < len(text):
        term = _TERM.match(text, at)
        unit = _unit(term.group(2)) if term else None
        if term is None or unit is None:
            raise QueryError(
                f"{what} is {duration!r}",
                "a duration such as '90 seconds', '1 hour' or '1h 30m'",
                "write a number and a unit from microseconds to weeks",
            )
        total += Fraction(term.group(1)) * unit
        at = term.end()
    if not text or total.denominator != 1:
        raise QueryError(
            f"{what} is {duration!r}",
            "a whole number of microseconds",
            "write a number and a unit, such as '1 minute'",
        )
    return int(total)


def _unit(name: str) -> int | None:
    lower = name.lower()
    return _UNITS.get(lower) or _UNITS.get(lower.removesuffix("s"))


def spoken(amount: int) -> str:
    """Write microseconds as the largest unit that divides them: ``5 minutes``."""
    for unit in ("week", "day", "hour", "minute", "second", "millisecond"):
        size = _UNITS[unit]
        if amount and amount % size == 0:
            count = amount // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{amount} microsecond{'' if amount == 1 else 's'}"
