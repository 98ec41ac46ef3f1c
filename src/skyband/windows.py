"""Windows: frozen, validated once, printed well; and the pane arithmetic that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np

from skyband.durations import Duration, microseconds, spoken
from skyband.errors import DataError, QueryError
from skyband.order import Ints

MOST_WINDOWS = 100_000_000
"""Windows that are answered at once, and that a row is in, at most: more would never end."""


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` objects, answered after every ``slide`` arrivals.

    Before ``size`` objects have arrived the window answers from what there is, unless ``full``
    asks it to wait.
    """

    size: int
    slide: int
    full: bool = False

    def __post_init__(self) -> None:
        set_whole(self, "size", "window", 1, "write last(count=1000)")
        set_whole(self, "slide", "slide", 1, "write last(count=1000, slide=100)")
        if self.slide > self.size:
            raise QueryError(
                f"slide is {self.slide}, the window is {self.size}",
                "a slide of at most the window",
                f"use a slide of {self.size} for windows that do not overlap",
            )

    @property
    def end_offset(self) -> int:
        """Where windows end, from a multiple of the slide: they are counted from the first row."""
        return 0

    def __str__(self) -> str:
        wait = ", once full" if self.full else ""
        return f"the last {self.size:,} objects, every {self.slide:,}{wait}"


@dataclass(frozen=True)
class TimeWindow:
    """Half open windows ``[start, start + size)`` that start ``slide`` apart, one at ``offset``.

    Spark, Flink and Beam align windows in the same way.

    ``unit`` is ``"us"`` (sizes are microseconds, times are timestamps) or ``"tick"`` (sizes and
    times are plain integers of the caller's own unit).
    """

    size: int
    slide: int
    offset: int = 0
    unit: Literal["us", "tick"] = "us"

    def __post_init__(self) -> None:
        speak = spoken if self.unit == "us" else str
        set_whole(self, "size", "window", 1, "write last(time='1 hour')", speak)
        set_whole(self, "slide", "slide", 1, "write last(time='1 hour', slide='1 minute')", speak)
        set_whole(self, "offset", "offset", None, "write offset='30 seconds'", speak)
        if self.slide > self.size:
            raise QueryError(
                f"slide is {self._spoken(self.slide)}, the window is {self._spoken(self.size)}",
                "a slide of at most the window",
                f"use a slide of {self._spoken(self.size)} for windows that do not overlap",
            )
        if self.unit not in ("us", "tick"):
            raise QueryError(f"unit is {self.unit!r}", "'us' or 'tick'", "leave the unit out")

    @property
    def end_offset(self) -> int:
        """Where windows end, from a multiple of the slide."""
        return self.offset + self.size % self.slide

    def _spoken(self, amount: int) -> str:
        return spoken(amount) if self.unit == "us" else f"{amount:,} ticks"

    def __str__(self) -> str:
        shift = f", shifted by {self._spoken(self.offset)}" if self.offset else ""
        return f"the last {self._spoken(self.size)}, every {self._spoken(self.slide)}{shift}"


Window = CountWindow | TimeWindow


def last(
    *,
    count: int | None = None,
    time: Duration | int | None = None,
    slide: Duration | int | None = None,
    offset: Duration | int = 0,
    full: bool = False,
) -> Window:
    """Describe a sliding window: the last ``count`` objects, or the last ``time``.

    Durations are text (``"1 hour"``) or timedeltas; a plain integer ``time`` means ticks of the
    caller's own integer clock. ``slide`` defaults to the window itself (no overlap).

    >>> print(last(count=1000, slide=100))
    the last 1,000 objects, every 100
    >>> print(last(time="1 hour", slide="1 minute"))
    the last 1 hour, every 1 minute
    """
    if (count is None) == (time is None):
        raise QueryError(
            "neither count nor time was given"
            if count is None
            else "both count and time were given",
            "one of them",
            "write last(count=1000, slide=100) or last(time='1 hour', slide='1 minute')",
        )
    if count is not None:
        if slide is not None and not _is_whole(slide):
            raise QueryError(
                f"slide is {slide!r} for a count window", "a number of objects", "write slide=100"
            )
        if offset:
            raise QueryError(
                f"offset is {offset!r} for a count window",
                "no offset: count windows are aligned to the first arrival",
                "leave offset out",
            )
        return CountWindow(count, count if slide is None else int(slide), full)  # type: ignore[arg-type]
    if full:
        raise QueryError("full=True for a time window", "a count window", "leave full out")
    assert time is not None
    ticks = _is_whole(time)
    for what, value in (("slide", slide), ("offset", offset)):
        if value not in (None, 0) and _is_whole(value) != ticks:
            raise QueryError(
                f"window is {time!r} and {what} is {value!r}",
                "both durations, or both plain integers",
                "write them in the same way",
            )
    size = _amount(time, "window")
    return TimeWindow(
        size,
        size if slide is None else _amount(slide, "slide"),
        _amount(offset, "offset"),
        "tick" if ticks else "us",
    )


def over_ticks(size: int, slide: int, end_offset: int = 0) -> TimeWindow:
    """Windows over whole numbers that end at ``end_offset`` plus multiples of the slide."""
    return TimeWindow(size, slide, end_offset - size % slide, "tick")


@dataclass(frozen=True)
class Panes:
    """The window arithmetic of one query, over arrival numbers or over times.

    Every method is O(1) per value and works on scalars and arrays alike.
    """

    size: int
    slide: int
    offset: int = 0

    @property
    def span(self) -> int:
        """Whole slides in a window; an object lives in ``span`` or ``span + 1`` windows."""
        return self.size // self.slide

    @property
    def lengths(self) -> tuple[int, ...]:
        """The pane lengths in the order in which they alternate, from a window end on."""
        rest = self.size % self.slide
        return (self.slide - rest, rest) if rest else (self.slide,)

    @property
    def per_window(self) -> int:
        """How many panes make a window."""
        return self.span * len(self.lengths) + len(self.lengths) - 1

    def words(self, length: Callable[[int], str]) -> str:
        """The panes in words; ``length`` says how long one is."""
        lengths = [length(pane) for pane in self.lengths]
        if len(lengths) == 1:
            return f"{lengths[0]} each, {self.per_window:,} in a window"
        turn = f"{lengths[0]} and {lengths[1]} in turn, {self.per_window:,} in a window"
        return f"{turn}: the slide does not divide the window"

    def end(self, window: int) -> int:
        """Where a window ends (exclusive)."""
        return self.offset + window * self.slide

    def start(self, window: int) -> int:
        """Where a window starts (inclusive)."""
        return self.end(window) - self.size

    def first_window(self, at: int) -> int:
        """The first window that holds an object at this place."""
        return (at - self.offset) // self.slide + 1

    def last_window(self, at: int) -> int:
        """The last window that holds an object at this place."""
        return (at - self.offset + self.size) // self.slide

    def first_windows(self, at: Ints) -> Ints:
        """:meth:`first_window` of many places."""
        return (at - self.offset) // self.slide + 1

    def last_windows(self, at: Ints) -> Ints:
        """:meth:`last_window` of many places."""
        return (at - self.offset + self.size) // self.slide


def require_few_windows(count: int) -> None:
    """Refuse rows that complete more windows at once than can be answered."""
    if count > MOST_WINDOWS:
        raise DataError(
            f"a batch that completes {count:,} windows",
            f"{MOST_WINDOWS:,} at most",
            "use a larger slide, or advance the watermark in smaller steps",
        )


def require_answerable(window: Window) -> None:
    """Refuse windows of time that slide by so little that one row is in too many of them."""
    each = window.size // window.slide
    if isinstance(window, TimeWindow) and each > MOST_WINDOWS:
        raise QueryError(
            f"{window}: each row is in {each:,} windows",
            f"{MOST_WINDOWS:,} at most",
            "use a larger slide",
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def set_whole(
    owner: Any,
    field: str,
    what: str,
    least: int | None,
    fix: str,
    speak: Callable[[int], str] = str,
) -> None:
    """Check a whole number and keep it as a plain int; ``speak`` says it as people wrote it."""
    value = getattr(owner, field)
    if not _is_whole(value):
        raise QueryError(f"{what} is {value!r}", f"a whole number{_from(least, str)}", fix)
    number = int(value)
    kind, unit = ("a whole number", "") if speak is str else ("a duration", " microseconds")
    if least is not None and number < least:
        raise QueryError(f"{what} is {speak(number)}", f"{kind}{_from(least, speak)}", fix)
    if abs(number) >= 1 << 62:
        less = f"write a smaller {what}"
        raise QueryError(f"{what} is {speak(number)}", f"{kind} below 2**62{unit}", less)
    object.__setattr__(owner, field, number)


def _from(least: int | None, speak: Callable[[int], str]) -> str:
    return "" if least is None else f" of at least {speak(least)}"


def _amount(value: Duration | int, what: str) -> int:
    if isinstance(value, (str, timedelta, np.timedelta64)):
        return microseconds(value, what)
    if not _is_whole(value):
        raise QueryError(
            f"{what} is {value!r}", "a duration or a whole number", f"write {what}='1 minute'"
        )
    return int(value)
