"""The algorithm that a monitor runs and why, and what it must know of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
    scores the newest ranks first, or the ``oldest_first``, which few algorithms can.
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

    @property
    def span(self) -> int:
        """Whole slides in a window."""
        return self.size // self.slide
