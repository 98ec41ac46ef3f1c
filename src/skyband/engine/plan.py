"""The algorithm that a monitor runs and why, and what it must know of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skyband import html_tables
from skyband.errors import QueryError
from skyband.query import RankBy, Ties


@dataclass(frozen=True)
class Plan:
    """A chosen algorithm and the reasons, in words."""

    algorithm: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.algorithm}: " + "; ".join(self.reasons)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The same as names and sentences."""
        reasons = [("" if at else "because", reason) for at, reason in enumerate(self.reasons)]
        return [("algorithm", self.algorithm), *reasons]

    def _repr_html_(self) -> str:
        """The plan as a table, for notebooks."""
        return html_tables.sentences("", self.lines)


class Explanation(str):
    """A query and its plan, in words: a text, which notebooks show as a table."""

    plan: Plan
    query: str

    def __new__(cls, query: object, plan: Plan) -> Explanation:
        """Say it in words."""
        explanation = super().__new__(cls, f"{query}\n{plan}")
        explanation.query, explanation.plan = str(query), plan
        return explanation

    def __reduce__(self) -> tuple[Any, ...]:
        return Explanation, (self.query, self.plan)

    def _repr_html_(self) -> str:
        return html_tables.sentences("", [("query", self.query), *self.plan.lines])


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


class OrderedQuery(Protocol):
    """A query that says how equal scores rank."""

    @property
    def ties(self) -> Ties:
        """Which of equal scores ranks first."""

    @property
    def rank_by(self) -> RankBy:
        """How ranks count."""


def unusual_order(query: OrderedQuery) -> str | None:
    """How a query ranks equal scores, as it is written; None if it is the usual way."""
    if query.rank_by != "row_number":
        return f"rank_by={query.rank_by!r}"
    return f"ties={query.ties!r}" if query.ties != "newest" else None


def require_order(query: OrderedQuery, algorithm: str, able: Sequence[str], others: str) -> None:
    """Refuse an algorithm that cannot rank equal scores as a query says.

    Those that are ``able`` can; ``others`` says what the rest does.
    """
    order = unusual_order(query)
    if order is not None and algorithm not in ("auto", *able):
        raise QueryError(
            f"algorithm is {algorithm!r} with {order}",
            f"{', '.join(able)}, auto: others {others}",
            "leave algorithm out",
        )
