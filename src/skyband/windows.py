"""Windows: frozen, validated once, printed well; and the pane arithmetic that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

import numpy as np

from skyband.durations import Duration, microseconds, spoken
from skyband.errors import DataError, QueryError
from skyband.order import Ints

MOST_WINDOWS = 100_000_000
"""Windows that are answered at once, and that a row is in, at most: more would never end."""

FOREVER = 1 << 62
"""Beyond every time, and every window."""

_LONGEST = 1 << 60  # a window of all time, about; in microseconds, 36,000 years


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` objects, answered after every ``slide`` arrivals.

    Before ``size`` objects have arrived the window answers from what there is, unless ``full``
    asks it to wait.
    """

    size: int
    slide: int
    full: bool = False

    kind: ClassVar[str] = "count"

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

    @property
    def panes(self) -> Panes:
        """How the windows lie, and which panes they are made of."""
        return Panes(self.size, self.slide)

    def __str__(self) -> str:
        wait = ", once full" if self.full else ""
        return f"the last {self.size:,} objects, every {self.slide:,}{wait}"


@dataclass(frozen=True)
class TimeWindow:
    """Half open windows ``[start, start + size)``.

    They start at ``offset`` plus multiples of ``slide``, as those of Spark, Flink and Beam do.

    ``unit`` is ``"us"`` (sizes are microseconds, times are timestamps) or ``"tick"`` (sizes and
    times are plain integers of the caller's own unit).
    """

    size: int
    slide: int
    offset: int = 0
    unit: Literal["us", "tick"] = "us"

    kind: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        self._check("window", "slide", "write last(time='1 hour', slide='1 minute')")
        if self.slide > self.size:
            raise QueryError(
                f"slide is {self._spoken(self.slide)}, the window is {self._spoken(self.size)}",
                "a slide of at most the window",
                f"use a slide of {self._spoken(self.size)} for windows that do not overlap",
            )

    def _check(self, size: str, slide: str, fix: str) -> None:
        """Refuse what are no amounts; the words are those that people wrote them by."""
        speak = spoken if self.unit == "us" else str
        set_whole(self, "size", size, 1, fix, speak)
        set_whole(self, "slide", slide, 1, fix, speak)
        set_whole(self, "offset", "offset", None, "write offset='30 seconds'", speak)
        if self.unit not in ("us", "tick"):
            raise QueryError(f"unit is {self.unit!r}", "'us' or 'tick'", "leave the unit out")

    @property
    def end_offset(self) -> int:
        """Where windows end, from a multiple of the slide."""
        return self.offset + self.size % self.slide

    @property
    def panes(self) -> Panes:
        """How the windows lie, and which panes they are made of."""
        return Panes(self.size, self.slide, self.end_offset)

    def _spoken(self, amount: int) -> str:
        return spoken(amount) if self.unit == "us" else f"{amount:,} ticks"

    def __str__(self) -> str:
        shift = f", shifted by {self._spoken(self.offset)}" if self.offset else ""
        return f"the last {self._spoken(self.size)}, every {self._spoken(self.slide)}{shift}"


@dataclass(frozen=True)
class CumulativeWindow(TimeWindow):
    """What a period has held so far: ``[start, start + i * slide)`` for i = 1, 2, ...

    Periods are ``size`` long, and start at ``offset`` plus multiples of it; the slide divides them.
    All rows of a period leave together, when it ends. A period is answered at every step from its
    first row on, to its end.
    """

    kind: ClassVar[str] = "cumulative"

    def __post_init__(self) -> None:
        fix = "write cumulative('1 day', every='1 minute')"
        self._check("period", "every", fix)
        if self.size % self.slide:
            raise QueryError(
                f"every is {self._spoken(self.slide)}, the period is {self._spoken(self.size)}",
                "steps that divide the period",
                fix,
            )

    @property
    def panes(self) -> Panes:
        """How the windows lie, and which panes they are made of."""
        return CumulativePanes(self.size, self.slide, self.end_offset)

    def __str__(self) -> str:
        shift = f", shifted by {self._spoken(self.offset)}" if self.offset else ""
        return f"each {self._spoken(self.size)} so far, every {self._spoken(self.slide)}{shift}"


@dataclass(frozen=True)
class AllTimeWindow(TimeWindow):
    """Everything before ``end``, for ends at multiples of ``slide``: no row ever leaves.

    Answered at every step from the first row on, as far as the watermark is; where the input ends,
    to the end of the step of its last row. With keys each has a first and a last row of its own.
    ``size`` is longer than any stream, so that whoever estimates by it is right.
    """

    kind: ClassVar[str] = "all_time"

    def __post_init__(self) -> None:
        self._check("every", "every", "write all_time(every='1 minute')")

    @property
    def panes(self) -> Panes:
        """How the windows lie, and which panes they are made of."""
        return AllTimePanes(self.size, self.slide, self.end_offset)

    def __str__(self) -> str:
        return f"all time, every {self._spoken(self.slide)}"


Window = CountWindow | TimeWindow

KINDS: dict[str, type[Window]] = {
    window.kind: window for window in (CountWindow, TimeWindow, CumulativeWindow, AllTimeWindow)
}
"""The kinds of windows, by name."""


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
    unit = _same_unit("window", time, ("slide", slide), ("offset", offset))
    size = _amount(time, "window")
    return TimeWindow(
        size,
        size if slide is None else _amount(slide, "slide"),
        _amount(offset, "offset"),
        unit,
    )


def _same_unit(name: str, amount: Any, *others: tuple[str, Any]) -> Literal["us", "tick"]:
    """The unit of an amount, which others must have, too, unless they are left out."""
    ticks = _is_whole(amount)
    for what, value in others:
        if value not in (None, 0) and _is_whole(value) != ticks:
            raise QueryError(
                f"{name} is {amount!r} and {what} is {value!r}",
                "both durations, or both plain integers",
                "write them in the same way",
            )
    return "tick" if ticks else "us"


def cumulative(
    period: Duration | int, *, every: Duration | int, offset: Duration | int = 0
) -> CumulativeWindow:
    """Describe windows that hold a period so far: ``cumulative("1 day", every="1 minute")``.

    Periods start at ``offset`` plus multiples of their length, and are answered at every step after
    their first row, to their end; ``every`` divides the period. Durations and plain integers as in
    :func:`last`.

    >>> print(cumulative("1 day", every="1 minute"))
    each 1 day so far, every 1 minute
    """
    unit = _same_unit("period", period, ("every", every), ("offset", offset))
    amounts = (_amount(period, "period"), _amount(every, "every"), _amount(offset, "offset"))
    return CumulativeWindow(*amounts, unit)


def all_time(*, every: Duration | int) -> AllTimeWindow:
    """Describe windows that hold all that came before their end, at every multiple of ``every``.

    >>> print(all_time(every="1 minute"))
    all time, every 1 minute
    """
    step = _amount(every, "every")
    unit = _same_unit("every", every)
    return AllTimeWindow(max(_LONGEST // max(step, 1), 1) * step, step, 0, unit)


_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "cumulative": ({"every"}, {"offset"}),
    "all_time": ({"every"}, set()),
    "ticks": (set(), {"slide", "offset"}),
}
"""The kinds of windows that are described by fields: those they need, and may have."""


def window_of_fields(fields: Mapping[str, Any]) -> Window:
    """The window of a file: a period so far, all time, or whole numbers of a clock of its own.

    Numbers are ticks of that clock; a window that slides over time is written without fields.
    """
    rest = dict(fields)
    kinds = [name for name in _FIELDS if name in rest]
    if len(kinds) == 1:
        kind = kinds[0]
        amount, (needed, more) = rest.pop(kind), _FIELDS[kind]
        if needed <= {*rest} <= needed | more:
            if kind == "cumulative":
                return cumulative(amount, **rest)
            if kind == "all_time" and amount is True:
                return all_time(**rest)
            if kind == "ticks" and isinstance(amount, int) and not isinstance(amount, bool):
                return last(time=amount, **rest)
    words = ", ".join(f"{name}: {value}" for name, value in fields.items())
    raise QueryError(
        f"window is {{{words}}}".replace("True", "true").replace("False", "false"),
        "{cumulative: 1 day, every: 1 minute} with or without offset, "
        "{all_time: true, every: 1 minute}, or {ticks: 100, slide: 10} with or without offset",
    )


def require_sliding(window: Window, ranked: str) -> None:
    """Refuse windows whose rows leave together, where a family cannot answer them."""
    if isinstance(window, (CumulativeWindow, AllTimeWindow)):
        raise QueryError(
            f"window is {window}",
            f"a window that slides, for {ranked}",
            "write window=last(time='1 day', slide='1 minute')",
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

    together: ClassVar[bool] = False  # whether all rows of a window leave together

    @property
    def period(self) -> int:
        """After how many windows they lie in the same way again."""
        return 1

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
    def per_window(self) -> int | None:
        """How many panes make a window, at most; None: nobody can say."""
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

    def ends(self, windows: Ints) -> Ints:
        """:meth:`end` of many windows."""
        return self.offset + windows * self.slide

    def starts(self, windows: Ints) -> Ints:
        """:meth:`start` of many windows: what lies before the next start is in no later window."""
        return self.ends(windows) - self.size

    def until(self, newest: int) -> int:
        """How far windows go on where the input ends with this place: as long as they hold it."""
        del newest
        return FOREVER


@dataclass(frozen=True)
class CumulativePanes(Panes):
    """Windows that hold a period so far; they are numbered on from period to period."""

    together: ClassVar[bool] = True

    @property
    def period(self) -> int:
        """The windows of a period."""
        return self.size // self.slide

    def start(self, window: int) -> int:
        """Where a window's period starts."""
        return self.end((window - 1) // self.period * self.period)

    def last_window(self, at: int) -> int:
        """The last window of the period of this place."""
        return -(-self.first_window(at) // self.period) * self.period

    def last_windows(self, at: Ints) -> Ints:
        """:meth:`last_window` of many places."""
        return -(-self.first_windows(at) // self.period) * self.period

    def starts(self, windows: Ints) -> Ints:
        """:meth:`start` of many windows."""
        return self.ends((windows - 1) // self.period * self.period)


@dataclass(frozen=True)
class AllTimePanes(Panes):
    """Windows that hold everything before their end."""

    together: ClassVar[bool] = True

    def start(self, window: int) -> int:
        """Before everything."""
        return -FOREVER

    def last_window(self, at: int) -> int:
        """None: it is in all that follow."""
        return FOREVER

    def last_windows(self, at: Ints) -> Ints:
        """:meth:`last_window` of many places."""
        return np.full(len(at), FOREVER, np.int64)

    def starts(self, windows: Ints) -> Ints:
        """:meth:`start` of many windows."""
        return np.full(len(windows), -FOREVER, np.int64)

    @property
    def per_window(self) -> None:
        """As many as there are."""
        return None

    def words(self, length: Callable[[int], str]) -> str:
        """The panes in words; ``length`` says how long one is."""
        return f"{length(self.slide)} each, all of them in a window"

    def until(self, newest: int) -> int:
        """The end of the step that holds the newest place."""
        return self.end(self.first_window(newest))


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
    rolls = isinstance(window, TimeWindow) and not isinstance(window, AllTimeWindow)
    if rolls and each > MOST_WINDOWS:
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
    if abs(number) >= FOREVER:
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
