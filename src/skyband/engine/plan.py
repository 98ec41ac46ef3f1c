"""The algorithm that a monitor runs and why, and what it must know of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skyband.query import RankBy


@dataclass(frozen=True)
class Plan:
    """A chosen algorithm and the reasons, in words."""

    algorithm: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.algorithm}: " + "; ".join(self.reasons)


@dataclass(frozen=True)
class Setting:
    """What an algorithm needs to know of a query: numbers only.

    ``size`` and ``slide`` are objects for count windows (``counted``) and time otherwise. Where
    rows leave ``together``, they live as those of windows that do not overlap: a slide. Of equal
    scores the newest ranks first, or the ``oldest_first``; ``rank_by`` says whether they share a
    rank: few algorithms can do either.
    """

    k: int
    size: int
    slide: int
    counted: bool
    together: bool = False
    changes: bool = False
    oldest_first: bool = False
    weights: tuple[float, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    rank_by: RankBy = "row_number"

    @property
    def span(self) -> int:
        """Whole slides in a window."""
        return self.size // self.slide
