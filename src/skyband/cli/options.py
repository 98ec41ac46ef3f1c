"""From the words of a command line to a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from shlex import quote
from typing import Any

from skyband.errors import QueryError
from skyband.query import EMITS, RANK_BYS, TIES, Emit
from skyband.windows import (
    CountWindow,
    TimeWindow,
    Window,
    all_time,
    cumulative,
    last,
    require_answerable,
)

_WHOLE = re.compile(r"[+-]?\d+(_\d+)*")
_POWER = re.compile(r"(\d+)(?:\.(\d+))?[eE]\+?(\d{1,2})")


def whole(text: str, option: str, least: int | None = 1, example: int = 1000) -> int:
    """A whole number, as in ``1000``, ``1_000`` or ``1e3``.

    >>> whole("1e6", "--rows")
    1000000
    """
    value = _whole(text.strip())
    if value is None or (least is not None and value < least):
        bound = f" of at least {least}" if least is not None else ""
        raise QueryError(
            f"{option} is {text!r}", f"a whole number{bound}", f"write {option} {example}"
        )
    if value >= 1 << 62:
        raise QueryError(
            f"{option} is {text!r}", "a whole number below 2**62", f"write {option} {example}"
        )
    return value


def _whole(text: str) -> int | None:
    if _WHOLE.fullmatch(text):
        return int(text)
    power = _POWER.fullmatch(text)
    if power is None:
        return None
    digits = power.group(2) or ""
    exponent = int(power.group(3)) - len(digits.rstrip("0"))
    return int(power.group(1) + digits.rstrip("0")) * 10**exponent if exponent >= 0 else None


def choice(text: str, option: str, choices: tuple[str, ...]) -> str:
    """One of several words."""
    if text not in choices:
        close = get_close_matches(text, choices, 1)
        raise QueryError(
            f"{option} is {text!r}",
            f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0],
            f"write {option} {close[0] if close else choices[0]}",
        )
    return text


def settings(texts: list[str]) -> dict[str, int | float | str]:
    """Options of an algorithm, such as ``slack=0.5``, by name.

    >>> settings(["slack=0.5", "k_max=30"])
    {'slack': 0.5, 'k_max': 30}
    """
    settings: dict[str, int | float | str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise QueryError(f"--option is {text!r}", "a name and a value", "write --option name=1")
        settings[name] = value
        for read in (int, float):
            try:
                settings[name] = read(value)
            except ValueError:
                continue
            break
    return settings


def emit_of(given: Mapping[str, Any]) -> Emit:
    """What ``--emit`` asks for; of a file, whose rows are all there, updates are whole rankings."""
    emit = choice(given["emit"], "--emit", EMITS)
    return "changes" if emit == "changes" else "all"


def order_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """How equal scores rank: what ``--ties`` and ``--rank-by`` ask for, by the query's names."""
    ties = choice(given["ties"], "--ties", TIES)
    return {"ties": ties, "rank_by": choice(given["rank_by"], "--rank-by", RANK_BYS)}


def window_of(given: Mapping[str, Any]) -> Window:
    """A window from ``--last``, ``--time``, ``--window``, ``--slide``, ``--offset``, ``--full``.

    Or from ``--cumulative`` or ``--all-time``, with ``--every``.
    """
    names = ("last", "time", "window", "slide", "offset", "full")
    count, time, length, slide, offset, full = (given[name] for name in names)
    if any(given.get(name) for name in ("cumulative", "all_time", "every")):
        return _window_so_far(given)
    ways = "--last 1000 --slide 100, or --time ts --window '1 hour' --slide '1 minute'"
    if count is not None and (length is not None or time is not None):
        other = "--window" if length is not None else "--time"
        raise QueryError(
            f"both --last and {other} were given", "one kind of window", f"write {ways}"
        )
    if count is not None:
        return _count_window(count, slide, offset, full)
    if length is None and time is None:
        raise QueryError("no window was given", "a count or a time window", f"write {ways}")
    if length is None:
        raise QueryError("--time without --window", "both", "add --window '1 hour'")
    if time is None:
        raise QueryError("--window without --time", "both", "add --time and the time column's name")
    if full:
        raise QueryError("--full with a time window", "a count window", "leave --full out")
    try:
        window = last(
            time=_amount(length, "--window"),
            slide=None if slide is None else _amount(slide, "--slide"),
            offset=0 if offset is None else _amount(offset, "--offset", least=None),
        )
        require_answerable(window)
        return window
    except QueryError as error:
        if "last(" not in error.fix:
            raise
        fix = "write --window '1 hour' --slide '1 minute'"  # the library's fix is in Python
        raise QueryError(error.found, error.expected, fix) from None


def _window_so_far(given: Mapping[str, Any]) -> TimeWindow:
    """A window from ``--cumulative`` or ``--all-time``, with ``--time`` and ``--every``."""
    period, every, offset = given["cumulative"], given["every"], given["offset"]
    ways = "write --cumulative '1 day' --every '1 minute', or --all-time --every '1 minute'"
    kind = "--cumulative" if period is not None else "--all-time"
    if (period is None) != given["all_time"]:
        both = "both --cumulative and --all-time were given"
        raise QueryError(
            "--every alone" if period is None else both, "one of --cumulative, --all-time", ways
        )
    for name in ("last", "window", "slide", "full", *(["offset"] if period is None else [])):
        if given[name]:
            raise QueryError(f"--{name} with {kind}", f"{kind} and --every", f"leave --{name} out")
    if every is None or given["time"] is None:
        missing, example = ("--every", "'1 minute'") if every is None else ("--time", "ts")
        raise QueryError(f"{kind} without {missing}", "both", f"add {missing} {example}; {ways}")
    try:
        if period is None:
            return all_time(every=_amount(every, "--every"))
        return cumulative(
            _amount(period, "--cumulative"),
            every=_amount(every, "--every"),
            offset=0 if offset is None else _amount(offset, "--offset", least=None),
        )
    except QueryError as error:
        fix = (
            ways
            if "write cumulative(" in error.fix or "write all_time(" in error.fix
            else error.fix
        )
        raise QueryError(error.found, error.expected, fix) from None


def _count_window(count: str, slide: str | None, offset: str | None, full: bool) -> CountWindow:
    if offset is not None:
        raise QueryError(
            "--offset with --last",
            "no offset: count windows are aligned to the first row",
            "leave --offset out",
        )
    size = whole(count, "--last")
    return CountWindow(
        size, size if slide is None else whole(slide, "--slide", example=min(size, 100)), full
    )


def _amount(text: str, option: str, least: int | None = 1) -> str | int:
    """A plain number of ticks, or a duration in words."""
    return text if _whole(text.strip()) is None else whole(text, option, least)


def require_unit(window: Window, integers: bool, time: str) -> None:
    """Refuse durations over a column of whole numbers, and plain numbers over timestamps."""
    if not isinstance(window, TimeWindow):
        return
    option = {"cumulative": "--cumulative", "all_time": "--every"}.get(window.kind, "--window")
    length = window.slide if window.kind == "all_time" else window.size
    if integers and window.unit == "us":
        raise QueryError(
            f"{option} is a duration but --time {time} is whole numbers",
            "a window in the column's own unit",
            f"write {option} 3600, or turn the column into timestamps: "
            f"--time {quote(f'to_timestamp({time})')} if it counts seconds",
        )
    if not integers and window.unit == "tick":
        raise QueryError(
            f"{option} is {length} but --time {time} is timestamps",
            "a duration",
            f"write {option} '{length} seconds'",
        )
