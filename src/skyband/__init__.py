"""Skyband: continuous top-k queries over data streams.

Importing it is light: kernels are imported, and compiled, when a monitor is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.errors import DataError, QueryError, SkybandError, SnapshotError
from skyband.query import CountWindow, TimeWindow, TopK, last

if TYPE_CHECKING:
    from skyband.monitor import Monitor
    from skyband.results import Ranked, RankedWindow

__version__ = "0.1.0"

__all__ = [
    "CountWindow",
    "DataError",
    "Monitor",
    "QueryError",
    "Ranked",
    "RankedWindow",
    "SkybandError",
    "SnapshotError",
    "TimeWindow",
    "TopK",
    "last",
]

_LATER = {
    "Monitor": "skyband.monitor",
    "Ranked": "skyband.results",
    "RankedWindow": "skyband.results",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'skyband' has no attribute {name!r}")
