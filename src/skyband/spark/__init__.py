"""Skyband on Spark: DataFrame in, DataFrame out, streaming and batch alike.

Importing this is light: each name loads what it needs, since every Python worker imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.spark.api import top_k, top_k_dominating, top_k_incomplete, top_k_workload
    from skyband.spark.draining import drain
    from skyband.spark.jobs.checkpoint import claim
    from skyband.spark.live_board import board
    from skyband.spark.quarantine import quarantined
    from skyband.spark.scan.source import parquet
    from skyband.spark.sessions import session
    from skyband.spark.watching import watched

__all__ = [
    "board",
    "claim",
    "drain",
    "parquet",
    "quarantined",
    "session",
    "top_k",
    "top_k_dominating",
    "top_k_incomplete",
    "top_k_workload",
    "watched",
]

_HOMES = {
    "board": "live_board",
    "claim": "jobs.checkpoint",
    "drain": "draining",
    "parquet": "scan.source",
    "quarantined": "quarantine",
    "session": "sessions",
    "top_k": "api",
    "top_k_dominating": "api",
    "top_k_incomplete": "api",
    "top_k_workload": "api",
    "watched": "watching",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"skyband.spark.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
