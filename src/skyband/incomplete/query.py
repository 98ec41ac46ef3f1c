"""Top-k over incomplete streams: objects whose attributes arrive apart, each in its own stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from skyband.errors import QueryError
from skyband.order import Floats
from skyband.query import (
    Emit,
    OpenWindows,
    RankBy,
    Ties,
    check_emit,
    check_order,
    emit_words,
    order_words,
    query_html,
)
from skyband.windows import CountWindow, TimeWindow, Window, set_whole

Bounds = tuple[float, float]
Combine = Literal["sum", "min", "max"] | Sequence[float] | Callable[[Floats], Floats]
Repeats = Literal["max", "none"] | tuple[Literal["sum"], int]
MOST = 62
"""Streams at most."""


@dataclass(frozen=True)
class TopKIncomplete:
    """The ``k`` objects of each window with the best scores, made of what was seen of each.

    Rows are (id, stream, value, time): one attribute of one object. A stream in which an object was
    not seen within the window counts as the lowest bound of that stream; an object is alive while
    any of its attributes is. A count window holds the last rows of all streams together.

    ``combine`` makes one score of an attribute per stream: ``"sum"``, ``"min"``, ``"max"``, one
    weight per stream (none negative), or a function that takes a matrix with a column per stream,
    gives a score per row, and never falls when a value rises.

    ``bounds`` are the lowest and the highest value, of all streams or by the name of each.
    ``outside="error"`` refuses values beyond them, ``"clip"`` moves them to the bound.

    ``repeats`` says what becomes of several values of an object in one stream and window:
    ``"max"`` takes the largest; ``("sum", m)`` adds them up, and promises at most ``m`` of them
    while the object lives; ``"none"`` promises that there is only one while it lives, so that
    fewer objects need to be kept. Should there be more than was promised, they count, but objects
    may be missed; ``counters()["broken_promises"]`` tells how often that was seen.

    One total order: higher score, then the object whose newest attribute within the window is
    newer, then the larger id. With ``ties="oldest"`` it is the object whose newest attribute is
    older, then the smaller id. ``rank_by`` says how ranks count, as that of :class:`skyband.TopK`.

    >>> from skyband import last
    >>> print(TopKIncomplete(3, ["north", "south"], last(count=100, slide=10), bounds=(0, 130)))
    top 3 objects of the last 100 objects, every 10, by the sum of north and south
    """

    k: int
    streams: Sequence[str]
    window: Window
    combine: Combine = "sum"
    bounds: Bounds | Mapping[str, Bounds] = field(default=(0.0, 1.0), hash=False)
    outside: Literal["error", "clip"] = "error"
    repeats: Repeats = "max"
    emit: Emit = "all"
    open_windows: OpenWindows = "all"
    ties: Ties = "newest"
    rank_by: RankBy = "row_number"

    def __post_init__(self) -> None:
        set_whole(self, "k", "k", 1, "write k=10")
        if not isinstance(self.window, (CountWindow, TimeWindow)):
            raise QueryError(
                f"window is {self.window!r}", "a window", "write window=last(count=1000)"
            )
        check_emit(self.emit, self.open_windows)
        check_order(self.ties, self.rank_by)
        if self.outside not in ("error", "clip"):
            raise QueryError(f"outside is {self.outside!r}", "'error' or 'clip'")
        object.__setattr__(self, "streams", _streams(self.streams))
        object.__setattr__(self, "combine", _combine(self.combine, len(self.streams)))
        object.__setattr__(self, "bounds", _bounds(self.bounds, tuple(self.streams)))
        object.__setattr__(self, "repeats", _repeats(self.repeats))
        if self.most > 1 and self.low.min() < 0:
            raise QueryError(
                f"sums of repeated values down to {self.low.min():g}",
                "lowest bounds of zero or more",
                "shift the values, or use repeats='max'",
            )
        with np.errstate(over="ignore"):
            ends = self.scores(np.stack([self.low, self.high * self.most]))
        if not np.isfinite(ends).all() or ends[0] > ends[1]:
            raise QueryError(
                f"scores from {ends[0]:g} to {ends[1]:g}",
                "finite scores that do not fall when values rise",
                "check combine and bounds",
            )

    @property
    def shares_ranks(self) -> bool:
        """Whether objects of equal score share a rank, so that a window may rank more than k."""
        return self.rank_by != "row_number"

    @property
    def low(self) -> Floats:
        """The lowest value of each stream."""
        assert isinstance(self.bounds, Mapping)
        return np.array([self.bounds[name][0] for name in self.streams])

    @property
    def high(self) -> Floats:
        """The highest value of each stream."""
        assert isinstance(self.bounds, Mapping)
        return np.array([self.bounds[name][1] for name in self.streams])

    @property
    def most(self) -> int:
        """How often at most a value of a stream counts: 1, unless repeated ones are added up."""
        return self.repeats[1] if isinstance(self.repeats, tuple) else 1

    @property
    def weights(self) -> Floats:
        """A weight per stream, if scores are sums."""
        if isinstance(self.combine, tuple):
            return np.array(self.combine)
        return np.ones(len(self.streams))

    def scores(self, values: Floats) -> Floats:
        """The score of each row of a matrix with a column per stream.

        Terms are added from left to right, so that every engine gives the same score.
        """
        if self.combine == "min":
            scores: Floats = values.min(axis=1)
            return scores
        if self.combine == "max":
            scores = values.max(axis=1)
            return scores
        if callable(self.combine):
            return _function_scores(self.combine, values)
        scores = values[:, 0] * self.weights[0]
        for at in range(1, values.shape[1]):
            scores = scores + values[:, at] * self.weights[at]
        return scores

    def __str__(self) -> str:
        names = list(self.streams)
        by = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        if callable(self.combine):
            how = getattr(self.combine, "__name__", "function")
        else:
            words = {"sum": "sum", "min": "least", "max": "largest"}
            how = words[self.combine] if isinstance(self.combine, str) else "weighted sum"
        order = order_words(self.ties, self.rank_by)
        emit = emit_words(self.emit, self.open_windows)
        return f"top {self.k:,} objects of {self.window}, by the {how} of {by}{order}{emit}"

    def _repr_html_(self) -> str:
        """The query as a table, for notebooks."""
        return query_html(self)


def _function_scores(function: Callable[[Floats], Any], values: Floats) -> Floats:
    try:
        scores = np.asarray(function(values), dtype=np.float64)
    except Exception as error:
        raise QueryError(
            f"combine failed: {type(error).__name__}: {error}",
            "a function that gives a score per row of any matrix within the bounds",
        ) from error
    if scores.shape != (len(values),):
        raise QueryError(
            f"combine gave an array of shape {scores.shape} for {len(values)} rows",
            "a score per row of the matrix",
            "write combine=lambda values: values.sum(axis=1)",
        )
    if np.isnan(scores).any():
        at = int(np.flatnonzero(np.isnan(scores))[0])
        raise QueryError(
            f"combine gave NaN for {values[at].tolist()}", "a score, which can be ranked"
        )
    return scores


def _streams(given: Any) -> tuple[str, ...]:
    example = "write streams=['north', 'south']"
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise QueryError(f"streams are {given!r}", "names of streams", example)
    for at, name in enumerate(given):
        if not isinstance(name, str) or not name:
            raise QueryError(f"a stream is called {name!r}", "a name", example)
        if name in given[:at]:
            raise QueryError(f"stream {name!r} is given twice", "each once")
    if len(given) > MOST:
        raise QueryError(f"{len(given)} streams", f"{MOST} at most", "leave some out")
    return tuple(given)


def _combine(given: Any, width: int) -> Any:
    if callable(given) or (isinstance(given, str) and given in ("sum", "min", "max")):
        return given
    try:
        loose = isinstance(given, (str, bytes, set, frozenset))
        weights = () if loose else tuple(float(one) for one in given)
    except (TypeError, ValueError):
        weights = ()
    if len(weights) != width or not all(math.isfinite(one) and one >= 0 for one in weights):
        raise QueryError(
            f"combine is {given!r}",
            f"'sum', 'min', 'max', {width} weights of zero or more, or a function",
            "write combine='sum'",
        )
    return weights


def _bounds(given: Any, streams: tuple[str, ...]) -> dict[str, Bounds]:
    example = "write bounds=(0.0, 1.0), or one such pair by the name of each stream"
    if not isinstance(given, Mapping):
        return dict.fromkeys(streams, _pair(given, "", example))
    for name in streams:
        if name not in given:
            raise QueryError(f"no bounds of stream {name!r}", "bounds of each stream", example)
    for name in given:
        if name not in streams:
            raise QueryError(f"bounds of {name!r}", f"one of {', '.join(streams)}", example)
    return {name: _pair(given[name], f" of {name!r}", example) for name in streams}


def _pair(given: Any, of: str, example: str) -> Bounds:
    try:
        low, high = (float(one) + 0.0 for one in given)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise QueryError(f"bounds{of} are {given!r}", "a lowest and a highest value", example)
    return low, high


def _repeats(given: Any) -> Repeats:
    if isinstance(given, str) and given == "max":
        return "max"
    if isinstance(given, str) and given == "none":
        return "none"
    if isinstance(given, (tuple, list)) and len(given) == 2 and given[0] == "sum":
        most = given[1]
        whole = isinstance(most, (int, np.integer)) and not isinstance(most, bool)
        if whole and 1 <= most < 1 << 31:
            return ("sum", int(most))
    raise QueryError(
        f"repeats is {given!r}",
        "'max', 'none' or ('sum', how many at most)",
        "leave it out to take the largest",
    )
