"""Queries: frozen, validated once, printed well."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal

from skyband.errors import QueryError
from skyband.html_tables import sentences
from skyband.readable import shown
from skyband.windows import CountWindow, TimeWindow, Window, set_whole

Emit = Literal["all", "changes", "updates"]
EMITS = ("all", "changes", "updates")
OpenWindows = Literal["all", "current"]
Ties = Literal["newest", "oldest"]
TIES = ("newest", "oldest")
RankBy = Literal["row_number", "rank", "dense_rank"]
RANK_BYS: tuple[RankBy, ...] = ("row_number", "rank", "dense_rank")
_LONGEST = 400  # letters of a field that a table shows
Numbers = Literal["float64", "int64"]
"""What scores and values are: any numbers, or whole ones of 64 bits, which are never rounded."""


@dataclass(frozen=True)
class TopK:
    """The ``k`` best scores of each window.

    ``weights`` makes the score a linear preference over the attribute columns that are pushed:
    ``score = weights[0] * a0 + weights[1] * a1 + ...``. Without it, scores are pushed directly.
    ``emit="all"`` reports each window's whole ranking, ``"changes"`` what entered, left or moved
    since the window before. ``"updates"`` reports, before the whole ranking of a window is final,
    its ranking so far after every push that changes it: of all ``open_windows``, or of the
    ``"current"`` one, which ends first after the newest row.

    ``numbers="int64"`` takes whole numbers for scores, ranks them exactly beyond 2**53, and reports
    them as such. Of equal scores the newer row ranks first, then that with the larger id; with
    ``ties="oldest"`` the older, then that with the smaller id.

    ``rank_by`` says how ranks count, as SQL's functions of these names: ``"row_number"`` counts
    rows, so that each of the k has a rank of its own. With ``"rank"`` rows of equal score share a
    rank, which is 1 more than there are rows with a higher score; with ``"dense_rank"`` it is 1
    more than there are higher scores. All rows of rank k or less are reported, so there may be
    more than k of them.

    >>> print(TopK(k=10, window=last(count=1000, slide=100)))
    top 10 of the last 1,000 objects, every 100
    """

    k: int
    window: Window
    emit: Emit = "all"
    weights: tuple[float, ...] | None = None
    numbers: Numbers = "float64"
    ties: Ties = "newest"
    open_windows: OpenWindows = "all"
    rank_by: RankBy = "row_number"

    def __post_init__(self) -> None:
        set_whole(self, "k", "k", 1, "ask for at least one object")
        if not isinstance(self.window, (CountWindow, TimeWindow)):
            raise QueryError(
                f"window is {self.window!r}",
                "a window",
                "write window=last(count=1000, slide=100)",
            )
        check_emit(self.emit, self.open_windows)
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights))
        check_numbers(self.numbers)
        check_order(self.ties, self.rank_by)
        if self.weights is not None and self.numbers == "int64":
            raise QueryError(
                "numbers='int64' with weights",
                "scores that are pushed: a weighted sum is rounded",
                "compute whole scores, or leave numbers out",
            )

    def __str__(self) -> str:
        by = f" by {len(self.weights)} weighted attributes" if self.weights else ""
        order = order_words(self.ties, self.rank_by)
        emit = emit_words(self.emit, self.open_windows)
        return f"top {self.k:,} of {self.window}{by}{order}{emit}"

    def _repr_html_(self) -> str:
        """The query as a table, for notebooks."""
        return query_html(self)

    @property
    def shares_ranks(self) -> bool:
        """Whether rows of equal score share a rank, so that a window may rank more than k rows."""
        return self.rank_by != "row_number"


def query_html(query: Any) -> str:
    """A query as a table: what it is in words, and each field that was given.

    Fields with their default values are left out: the words say what matters of them.
    """
    lines = [
        (field.name, shown(_field_words(getattr(query, field.name)), _LONGEST))
        for field in fields(query)
        if getattr(query, field.name) != _default(field)
    ]
    return sentences(shown(query, _LONGEST), lines)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _field_words(value: Any) -> str:
    """The value of a field, in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_field_words(each)}" for name, each in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(
            f"({_field_words(each)})" if isinstance(each, tuple) else _field_words(each)
            for each in value
        )
    if callable(value):
        return getattr(value, "__name__", "a function")
    return shown(value)


def check_emit(emit: object, open_windows: object) -> None:
    """Refuse what is no way to report windows."""
    if emit not in EMITS:
        raise QueryError(f"emit is {emit!r}", "'all', 'changes' or 'updates'", "leave emit out")
    if open_windows not in ("all", "current"):
        raise QueryError(
            f"open_windows is {open_windows!r}", "'all' or 'current'", "leave open_windows out"
        )
    if open_windows != "all" and emit != "updates":
        raise QueryError(
            f"open_windows is {open_windows!r} with emit={emit!r}",
            "emit='updates': only it reports windows that are open",
            "write emit='updates', or leave open_windows out",
        )


def emit_words(emit: Emit, open_windows: OpenWindows) -> str:
    """How windows are reported, to be put behind a query in words."""
    if emit == "all":
        return ""
    if emit == "changes":
        return ", changes only"
    return ", updates as rows come" + (" to the current window" if open_windows != "all" else "")


def check_order(ties: object, rank_by: object) -> None:
    """Refuse what is no order of equal scores, and no way to count ranks."""
    if ties not in TIES:
        raise QueryError(f"ties is {ties!r}", "'newest' or 'oldest'", "leave ties out")
    if rank_by not in RANK_BYS:
        raise QueryError(
            f"rank_by is {rank_by!r}",
            "'row_number', 'rank' or 'dense_rank'",
            "leave rank_by out",
        )


def order_words(ties: Ties, rank_by: RankBy, scores: str = "scores") -> str:
    """How equal scores rank, if not as usual, to be put behind a query in words."""
    oldest = f", of equal {scores} the oldest first" if ties == "oldest" else ""
    shared = f", ranked by {rank_by}" if rank_by != "row_number" else ""
    return oldest + shared


def check_numbers(numbers: object) -> None:
    """Refuse what is no kind of number."""
    if numbers not in ("float64", "int64"):
        raise QueryError(f"numbers is {numbers!r}", "'float64' or 'int64'", "leave numbers out")


def _weights(weights: Sequence[float]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(weight) for weight in weights)
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or not all(math.isfinite(weight) for weight in numbers):
        raise QueryError(
            f"weights are {weights!r}",
            "one finite number per attribute",
            "write weights=(1.0, 2.0)",
        )
    return numbers
