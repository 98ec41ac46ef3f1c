"""What the engine must know of a family of queries, and all that it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Plan, Setting
from skyband.engine.waiting import TieBreakers, by_id
from skyband.errors import QueryError
from skyband.query import Emit, OpenWindows
from skyband.windows import Window


class Query(Protocol):
    """What every query says."""

    @property
    def k(self) -> int:
        """How many objects a window's ranking has."""

    @property
    def window(self) -> Window:
        """Which rows are ranked together, and when."""

    @property
    def emit(self) -> Emit:
        """Whether whole rankings are reported, what changed, or rankings so far as well."""

    @property
    def open_windows(self) -> OpenWindows:
        """Of which open windows rankings so far are reported."""


Q = TypeVar("Q", bound=Query)


@dataclass(frozen=True)
class Family(Generic[Q]):
    """One kind of query, with its algorithms.

    ``name``       in snapshots and messages
    ``query``      the type of its queries, and in ``example`` how to write one
    ``described``  makes a query of its description in a snapshot
    ``prunes``     of the rows of a pane only the k best can be answers, so others need not wait
    ``changes``    "kernel": algorithms compare rankings themselves; "row", "id": the engine does,
                   and knows an object again by the row that reported it, or by its id
    ``ties``       how rows of equal time follow each other
    ``plan``       chooses an algorithm, given the name and options that the user wrote
    ``build``      makes the planned algorithm
    """

    name: str
    query: type[Q]
    example: str
    described: Callable[[Mapping[str, Any]], Q]
    prunes: bool
    changes: Literal["kernel", "row", "id"]
    plan: Callable[[Q, str, Mapping[str, Any]], Plan]
    build: Callable[[Plan, Setting, Q], Algorithm]
    ties: TieBreakers = by_id

    def __post_init__(self) -> None:
        assert not self.prunes or self.ties is by_id, "the best of a pane are found by (time, id)"

    def check(self, query: Any) -> Q:
        """The query, if it is one of this family."""
        if not isinstance(query, self.query):
            raise QueryError(
                f"query is {query!r}", f"a {self.query.__name__} query", f"write {self.example}"
            )
        return query
