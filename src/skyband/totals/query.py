"""Totals: the keys with the largest sum, count, maximum, mean or newest value in each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from skyband.errors import QueryError
from skyband.query import (
    Emit,
    Numbers,
    OpenWindows,
    RankBy,
    Ties,
    check_emit,
    check_numbers,
    check_order,
    emit_words,
    order_words,
    query_html,
)
from skyband.windows import CountWindow, TimeWindow, Window, set_whole

By = Literal["sum", "count", "max", "min", "mean", "first", "last"]
BYS = ("sum", "count", "max", "min", "mean", "first", "last")
ENDS = ("first", "last")
"""Totals that are the value of one row, which may be NULL: then the key is not ranked."""

PICKED = ("max", "min", *ENDS)
"""Totals that are one of the values, as it is."""


_COLUMNS = (
    *("window_start", "window_end", "rank", "score", "id", "time", "change", "previous_rank"),
    *("exact", "accuracy", "final", "revision"),
)


@dataclass(frozen=True)
class Total:
    """What the values of a key add up to, and in which numbers: see :class:`TopKTotals`."""

    by: By
    numbers: Numbers = "float64"
    scale: int = 0

    def __str__(self) -> str:
        digits = f" with {self.scale} digits behind the point" if self.scale else ""
        return f"{self.by}{f' of {self.numbers}' if self.whole else ''}{digits}"

    def __post_init__(self) -> None:
        if not isinstance(self.by, str) or self.by not in BYS:
            raise QueryError(f"by is {self.by!r}", f"one of {', '.join(BYS)}", "write by='sum'")
        check_numbers(self.numbers)
        set_whole(self, "scale", "scale", 0, "write scale=2")
        if self.scale > 18:
            raise QueryError(
                f"scale is {self.scale}",
                "at most 18 digits behind the point",
                "divide values by a power of ten",
            )

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers, which are not rounded."""
        return self.numbers == "int64"


@dataclass(frozen=True)
class TopKTotals:
    """The ``k`` keys of each window with the largest total of their rows' values.

    ``by`` says what a total is: the ``"sum"``, ``"count"``, ``"max"``, ``"min"`` or ``"mean"`` of
    the values that a key has in the window, or its ``"first"`` or ``"last"`` value; the largest
    come first, also of minima. Order: higher total, then the key whose newest row in the window is
    newer, then the larger key; with ``ties="oldest"`` that whose newest row is older, so that the
    first to reach a total stays ahead, then the smaller key. ``rank_by`` is as for
    :class:`skyband.TopK`: with ``"rank"`` and ``"dense_rank"`` keys with equal totals share a rank,
    and all keys of rank k or less are reported.

    Totals depend on the rows of the window alone, not on batches, on their order or on what came
    and went before. A sum is the exact sum of the float64 values, rounded once; so sums of whole
    numbers are exact up to 2**53, and large values that cancel leave the small ones whole. A mean
    is the exact sum divided by the count, rounded once as well. Beyond the largest float64 a sum is
    infinite. Infinite values make a sum infinite while they are in the window; a key with both
    infinities has no sum and is not ranked. NULL and NaN values are left out of every total and
    counted; ``"count"`` counts the other rows, or all rows if no values are pushed.

    ``"last"`` is the value of the key's newest row in the window, ``"first"`` that of its oldest:
    by time or, in count windows, by arrival. Of rows with equal times the larger value counts. For
    these two a row whose value is NULL or NaN is a row like any other: while it is the newest (or
    oldest) one, its key is not ranked.

    ``numbers="int64"`` takes whole numbers for values: sums, maxima and minima are then whole
    numbers, too, and exact beyond 2**53. With a ``scale`` values are decimals, in units of
    ``10**-scale``: so are totals, but for means, which are in ones.

    ``also`` carries further totals of each ranked key in the same window, by name:
    ``{"orders": "count", "spent": "sum"}``, or ``{"spent": Total("sum", "int64")}`` for other
    numbers. They change no ranking. A key that has no value in the window has no such total, or a
    count of 0; rows that have no value to rank by count here all the same.

    ``emit="changes"`` reports keys that entered, left or moved since the window before; a total
    that changes without changing ranks is not reported. ``emit="updates"`` and ``open_windows``
    are as for :class:`skyband.TopK`; there, every total that changes is reported.

    >>> from skyband import last
    >>> print(TopKTotals(k=3, by="sum", window=last(count=100, slide=10)))
    top 3 keys by sum of the last 100 objects, every 10
    """

    k: int
    by: By
    window: Window
    emit: Emit = "all"
    numbers: Numbers = "float64"
    scale: int = 0
    open_windows: OpenWindows = "all"
    also: Mapping[str, By | Total] = field(default_factory=dict, hash=False)
    ties: Ties = "newest"
    rank_by: RankBy = "row_number"

    def __post_init__(self) -> None:
        set_whole(self, "k", "k", 1, "write k=10")
        _ = self.total  # which checks itself
        if not isinstance(self.window, (CountWindow, TimeWindow)):
            raise QueryError(
                f"window is {self.window!r}", "a window", "write window=last(count=1000)"
            )
        check_emit(self.emit, self.open_windows)
        check_order(self.ties, self.rank_by)
        object.__setattr__(self, "also", _carried(self.also))

    @property
    def total(self) -> Total:
        """What keys are ranked by."""
        return Total(self.by, self.numbers, self.scale)

    @property
    def carried(self) -> dict[str, Total]:
        """What is carried beside it, by name."""
        return {name: t if isinstance(t, Total) else Total(t) for name, t in self.also.items()}

    @property
    def counts_nulls(self) -> bool:
        """Whether rows without a value to rank by are left out of the ranking, and counted."""
        return self.by not in ENDS

    @property
    def takes_nulls(self) -> bool:
        """Whether rows without a value to rank by are needed."""
        return self.by in ENDS or bool(self.also)

    @property
    def shares_ranks(self) -> bool:
        """Whether keys with equal totals share a rank, so that a window may rank more than k."""
        return self.rank_by != "row_number"

    def __str__(self) -> str:
        order = order_words(self.ties, self.rank_by, "totals")
        emit = emit_words(self.emit, self.open_windows)
        also = f", also {', '.join(self.also)}" if self.also else ""
        return f"top {self.k:,} keys by {self.by} of {self.window}{order}{emit}{also}"

    def _repr_html_(self) -> str:
        """The query as a table, for notebooks."""
        return query_html(self)


def _carried(also: object) -> dict[str, Total]:
    """Further totals by name, checked."""
    example = "write also={'orders': 'count'}"
    if not isinstance(also, Mapping):
        raise QueryError(f"also is {also!r}", "kinds of totals by name", example)
    carried: dict[str, Total] = {}
    for name, total in also.items():
        if not isinstance(name, str) or not name or name.lower() in _COLUMNS:
            raise QueryError(
                f"also has a total called {name!r}",
                f"names other than {', '.join(_COLUMNS)}",
                example,
            )
        carried[name] = total if isinstance(total, Total) else Total(total)
    return carried
