"""Top-k dominating queries: the points that dominate the most others, without any scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skyband.errors import QueryError
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

Direction = Literal["min", "max"]
MOST = 16
"""Dimensions at most."""


@dataclass(frozen=True)
class TopKDominating:
    """The ``k`` points of each window that dominate the most others.

    ``dimensions`` names the attributes and says which way is better: ``("price", "min")``. A point
    dominates another if it is at least as good in all of them and better in one; its score is the
    number of points of the window that it dominates. ``ties`` and ``rank_by`` say which of equal
    scores ranks first, and how ranks count, as those of :class:`skyband.TopK` do.

    >>> from skyband import last
    >>> query = TopKDominating(
    ...     k=3, dimensions=[("price", "min"), ("quality", "max")], window=last(count=100, slide=10)
    ... )
    >>> print(query)
    top 3 dominating of the last 100 objects, every 10, by least price and most quality
    """

    k: int
    dimensions: Sequence[tuple[str, Direction]]
    window: Window
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
        object.__setattr__(self, "dimensions", _dimensions(self.dimensions))

    @property
    def shares_ranks(self) -> bool:
        """Whether points of equal score share a rank, so that a window may rank more than k."""
        return self.rank_by != "row_number"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(name for name, _ in self.dimensions)

    @property
    def signs(self) -> tuple[float, ...]:
        """What to multiply attributes by so that less is better."""
        return tuple(1.0 if way == "min" else -1.0 for _, way in self.dimensions)

    def __str__(self) -> str:
        parts = [f"{'least' if way == 'min' else 'most'} {name}" for name, way in self.dimensions]
        by = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
        order = order_words(self.ties, self.rank_by)
        emit = emit_words(self.emit, self.open_windows)
        return f"top {self.k:,} dominating of {self.window}, by {by}{order}{emit}"

    def _repr_html_(self) -> str:
        """The query as a table, for notebooks."""
        return query_html(self)


def _dimensions(given: Any) -> tuple[tuple[str, Direction], ...]:
    example = "write dimensions=[('price', 'min'), ('quality', 'max')]"
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise QueryError(f"dimensions are {given!r}", "names and directions", example)
    dimensions: list[tuple[str, Direction]] = []
    for one in given:
        if isinstance(one, str) or not isinstance(one, Sequence) or len(one) != 2:
            raise QueryError(f"a dimension is {one!r}", "a name and a direction", example)
        name, way = one
        if not isinstance(name, str) or not name:
            raise QueryError(f"a dimension is called {name!r}", "a name", example)
        if way not in ("min", "max"):
            raise QueryError(f"dimension {name!r} is {way!r}", "'min' or 'max'", example)
        if name in (known for known, _ in dimensions):
            raise QueryError(f"dimension {name!r} is given twice", "each once")
        dimensions.append((name, way))
    if len(dimensions) > MOST:
        raise QueryError(f"{len(dimensions)} dimensions", f"{MOST} at most", "leave some out")
    return tuple(dimensions)
