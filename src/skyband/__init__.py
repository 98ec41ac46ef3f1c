"""Skyband: continuous top-k queries over data streams.

Importing it is light: kernels are imported, and compiled, when a monitor is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.errors import DataError, QueryError, ServerDownError, SkybandError, SnapshotError
from skyband.query import TopK
from skyband.windows import (
    AllTimeWindow,
    CountWindow,
    CumulativeWindow,
    TimeWindow,
    all_time,
    cumulative,
    last,
)

if TYPE_CHECKING:
    from skyband.dominating.monitor import DominatingMonitor
    from skyband.dominating.query import TopKDominating
    from skyband.engine.results import Ranked, RankedWindow
    from skyband.incomplete.monitor import IncompleteMonitor
    from skyband.incomplete.query import TopKIncomplete
    from skyband.topk.monitor import Monitor
    from skyband.totals.monitor import TotalsMonitor
    from skyband.totals.query import TopKTotals, Total
    from skyband.workload.monitor import WorkloadMonitor
    from skyband.workload.queries import Workload
    from skyband.workload.results import RankedByQuery

__version__ = "0.1.0"

__all__ = [
    "AllTimeWindow",
    "CountWindow",
    "CumulativeWindow",
    "DataError",
    "DominatingMonitor",
    "IncompleteMonitor",
    "Monitor",
    "QueryError",
    "Ranked",
    "RankedByQuery",
    "RankedWindow",
    "ServerDownError",
    "SkybandError",
    "SnapshotError",
    "TimeWindow",
    "TopK",
    "TopKDominating",
    "TopKIncomplete",
    "TopKTotals",
    "Total",
    "TotalsMonitor",
    "Workload",
    "WorkloadMonitor",
    "all_time",
    "cumulative",
    "last",
]

_LATER = {
    "DominatingMonitor": "skyband.dominating.monitor",
    "IncompleteMonitor": "skyband.incomplete.monitor",
    "Monitor": "skyband.topk.monitor",
    "Ranked": "skyband.engine.results",
    "RankedByQuery": "skyband.workload.results",
    "RankedWindow": "skyband.engine.results",
    "TopKDominating": "skyband.dominating.query",
    "TopKIncomplete": "skyband.incomplete.query",
    "TopKTotals": "skyband.totals.query",
    "Total": "skyband.totals.query",
    "TotalsMonitor": "skyband.totals.monitor",
    "Workload": "skyband.workload.queries",
    "WorkloadMonitor": "skyband.workload.monitor",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'skyband' has no attribute {name!r}")
