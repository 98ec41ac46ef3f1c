"""Totals: the keys with the largest sum, count, maximum, mean or newest value in each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyband.errors import QueryError
from skyband.query import EMITS, Emit, Numbers, check_numbers
from skyband.windows import CountWindow, TimeWindow, Window, set_whole

By = Literal["sum", "count", "max", "min", "mean", "first", "last"]
BYS = ("sum", "count", "max", "min", "mean", "first", "last")
ENDS = ("first", "last")
"""Totals that are the value of one row, which may be NULL: then the key is not ranked."""

PICKED = ("max", "min", *ENDS)
"""Totals that are one of the values, as it is."""


@dataclass(frozen=True)
class TopKTotals:
    """The ``k`` keys of each window with the largest total of their rows' values.

    ``by`` says what a total is: the ``"sum"``, ``"count"``, ``"max"``, ``"min"`` or ``"mean"`` of
    the values that a key has in the window, or its ``"first"`` or ``"last"`` value; the largest
    come first, also of minima. Order: higher total, then the key whose newest row in the window is
    newer, then the larger key.

    Totals depend on the rows of the window alone, not on batches, on their order or on what came
    and went before. A sum is the exact sum of the float64 values, rounded once; so sums of whole
    numbers are exact up to 2**53, and large values that cancel leave the small ones whole. A mean
    is the exact sum divided by the count, rounded once as well. Beyond the largest float64 a sum is
    infinite. Infinite values make a sum infinite while they are in the window; a key with both
    infinities has no sum and is not ranked. NULL and NaN values are left out of every total and
    counted; ``"count"`` counts the other rows, or all rows if no values are pushed.

    ``"last"`` is the value of the key's newest row in the window, ``"first"`` that of its oldest: by
    time or, in count windows, by arrival. Of rows with equal times the larger value counts. For
    these two a row whose value is NULL or NaN is a row like any other: while it is the newest (or
    oldest) one, its key is not ranked.

    ``numbers="int64"`` takes whole numbers for values: sums, maxima and minima are then whole
    numbers, too, and exact beyond 2**53. With a ``scale`` values are decimals, in units of
    ``10**-scale``: so are totals, but for means, which are in ones.

    ``emit="changes"`` reports keys that entered, left or moved since the window before; a total
    that changes without changing ranks is not reported.

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

    def __post_init__(self) -> None:
        set_whole(self, "k", "k", 1, "write k=10")
        if not isinstance(self.by, str) or self.by not in BYS:
            raise QueryError(f"by is {self.by!r}", f"one of {', '.join(BYS)}", "write by='sum'")
        if not isinstance(self.window, (CountWindow, TimeWindow)):
            raise QueryError(
                f"window is {self.window!r}", "a window", "write window=last(count=1000)"
            )
        if self.emit not in EMITS:
            raise QueryError(f"emit is {self.emit!r}", "'all' or 'changes'", "leave emit out")
        check_numbers(self.numbers)
        set_whole(self, "scale", "scale", 0, "write scale=2")
        if self.scale > 18:
            raise QueryError(
                f"scale is {self.scale}",
                "at most 18 digits behind the point",
                "divide values by a power of ten",
            )

    @property
    def takes_nulls(self) -> bool:
        """Whether rows without a value are rows like others."""
        return self.by in ENDS

    def __str__(self) -> str:
        changes = ", changes only" if self.emit == "changes" else ""
        return f"top {self.k:,} keys by {self.by} of {self.window}{changes}"
