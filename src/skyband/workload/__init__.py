"""Thousands of top-k queries over one stream, answered as one: one file per structure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.workload.structure import Structure

_CLASSES = {
    "mtopband": ("skyband.workload.mtopband", "MTopBand"),
    "mtoplist": ("skyband.workload.mtoplist", "MTopList"),
    "mtopmerge": ("skyband.workload.mtopmerge", "MTopMerge"),
}

FEW = 4
"""Queries that cost less by themselves, each with the algorithm that suits it best."""

ALGORITHMS = ("independent", *_CLASSES)
"""The names by which algorithms are asked for; ``"auto"`` chooses by the number of queries."""


def build(name: str) -> Structure:
    """Build a shared structure by name; its kernels are imported only now."""
    module, cls = _CLASSES[name]
    built: Structure = getattr(import_module(module), cls)()
    return built


def chosen(name: str, queries: int) -> str:
    """The algorithm for a number of queries; refuses unknown names."""
    if name == "auto":
        return "mtopmerge" if queries > FEW else "independent"
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise QueryError(
            f"algorithm is {name!r}", f"one of {', '.join(ALGORITHMS)}, auto", "use 'auto'"
        )
    return name
