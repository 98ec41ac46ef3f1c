"""Numbers, sizes and spans of time as people read them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any


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
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} GB"


def shown(value: Any) -> str:
    """A value of a leaderboard; floats to three places, all other numbers as they are."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    if isinstance(value, float):
        if value and not 1e-3 <= abs(value) < 1e15:
            return f"{value:.6g}"
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    text = str(value)
    if len(text) > 18 and text[10] == "T" and text.endswith("Z"):
        return text[:-1].replace("T", " ").removesuffix(".000")
    return text
