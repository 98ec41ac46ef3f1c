"""Thousands of top-k queries over one stream, answered as one: one file per structure."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from skyband.engine.plan import unusual_order
from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.workload.structure import Structure

_CLASSES = {
    "mtopband": ("skyband.workload.mtopband", "MTopBand"),
    "mtoplist": ("skyband.workload.mtoplist", "MTopList"),
    "mtopmerge": ("skyband.workload.mtopmerge", "MTopMerge"),
}

_INDEPENDENT = 4  # queries that cost less by themselves, each with the algorithm that suits it best
_LONG = 1_000  # slides in a window

ALGORITHMS = ("independent", *_CLASSES)
"""Names of the algorithms; ``"auto"`` chooses one of them by the number of queries."""


def build(name: str) -> Structure:
    """Build a shared structure by name; its kernels are imported only now."""
    module, cls = _CLASSES[name]
    built: Structure = getattr(import_module(module), cls)()
    return built


def can_share(query: TopK) -> bool:
    """Whether a shared structure can answer a query.

    It forgets a row for a newer one of equal score, and knows windows by their length.
    """
    return unusual_order(query) is None and not query.window.panes.together


def chosen(name: str, queries: Collection[TopK]) -> str:
    """The algorithm for some queries; refuses unknown names, and what cannot answer them.

    A shared structure has work for every open window: where windows are many slides long, sharing
    is worth it only for more queries.
    """
    alone = next((query for query in queries if not can_share(query)), None)
    if alone is not None and name in _CLASSES:
        raise QueryError(
            f"algorithm is {name!r} with a query for the {alone}",
            "independent, auto: what queries share is kept in the order ties='newest', "
            "rank_by='row_number', for windows that slide",
            "begin with algorithm='independent', or make a workload of each",
        )
    if name == "auto" and alone is not None:
        return "independent"
    if name == "auto":
        windows = sum(query.window.size / query.window.slide for query in queries)
        enough = _INDEPENDENT * max(1.0, windows / len(queries) / _LONG)
        return "mtopmerge" if len(queries) > enough else "independent"
    return known(name)


def known(name: str) -> str:
    """The name of an algorithm, or ``auto``; refuses others."""
    if name == "auto":
        return name
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise QueryError(
            f"algorithm is {name!r}", f"one of {', '.join(ALGORITHMS)}, auto", "use 'auto'"
        )
    return name
