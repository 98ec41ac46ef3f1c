"""Values as people read them: numbers, moments, sizes, and whatever else a column holds."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np

LETTERS = 80
"""Letters of a text that are shown."""

_DIGITS = 6  # significant ones, if some of them stand behind the point
_PLACES = 3  # behind the point, however many digits stand before it
_KNOWN = 15  # significant digits of which a float knows every one
_OLDEST = "-forever"


def shown(value: Any, letters: int = LETTERS) -> str:
    """Any value as text, of a bounded length; nothing for NULL and NaN.

    >>> [shown(value) for value in (1234567, 0.1 + 0.2, None, True, "2026-01-05T14:30:00.000Z")]
    ['1,234,567', '0.3', '', 'true', '2026-01-05 14:30:00']
    """
    if value is None or value is np.ma.masked:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    if isinstance(value, Decimal):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return number(float(value))
    text = str(value)
    if len(text) > 18 and text[10] == "T" and text.endswith("Z"):  # as Spark writes moments in JSON
        text = text[:-1].replace("T", " ").removesuffix(".000")
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def number(value: float) -> str:
    """A number with six significant digits, and with three places behind the point.

    >>> [number(value) for value in (1234567.891, 0.000123456789, 2.5, 3e20)]
    ['1,234,567.891', '0.000123457', '2.5', '3e+20']
    """
    if math.isnan(value):
        return ""
    size = abs(value)
    if math.isinf(value) or (size and not 1e-4 <= size < 1e15):
        return f"{value:.{_DIGITS}g}"
    before = math.floor(math.log10(size)) + 1 if size else 1
    places = max(_DIGITS - before, min(_PLACES, _KNOWN - before), 0)
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(microseconds: int) -> str:
    """Microseconds since the epoch as a moment in UTC, without zeros at its end.

    >>> moment(1_767_623_400_500_000)
    '2026-01-05 14:30:00.5'
    """
    text = str(np.datetime64(microseconds, "us")).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def span(lag: timedelta) -> str:
    """A duration in its two largest units.

    >>> span(timedelta(seconds=3725))
    '1 h 2 min'
    """
    seconds = max(0, int(lag.total_seconds()))
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"


def size(count: float) -> str:
    """Bytes, in units of thousands.

    >>> [size(count) for count in (999, 1_234_567)]
    ['999 B', '1.23 MB']
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} GB"


def bounds(start: int, end: int, timed: bool, forever: int) -> str:
    """The bounds of a window, half open; a start at ``-forever`` has no number.

    >>> bounds(0, 100, False, 1 << 62)
    '[0, 100)'
    >>> bounds(1_767_623_400_000_000, 1_767_623_460_000_000, True, 1 << 62)
    '2026-01-05 14:30:00 to 14:31:00'
    """
    if not timed:
        return f"{f'[{start:,}' if start > -forever else f'({_OLDEST}'}, {end:,})"
    ends = moment(end)
    if start <= -forever:
        return f"all until {ends}"
    starts = moment(start)
    return f"{starts} to {ends[11:] if starts[:11] == ends[:11] else ends}"
