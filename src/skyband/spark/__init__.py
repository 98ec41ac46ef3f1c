"""Skyband on Spark: DataFrame in, DataFrame out, streaming and batch alike.

Importing this is light: each name loads what it needs, since every Python worker imports it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.spark.draining import drain
    from skyband.spark.manifest import claim
    from skyband.spark.quarantine import quarantined
    from skyband.spark.sessions import session
    from skyband.spark.top_k import top_k
    from skyband.spark.top_k_dominating import top_k_dominating
    from skyband.spark.top_k_incomplete import top_k_incomplete
    from skyband.spark.top_k_workload import top_k_workload

__all__ = [
    "claim",
    "drain",
    "quarantined",
    "session",
    "top_k",
    "top_k_dominating",
    "top_k_incomplete",
    "top_k_workload",
]

_HOMES = {
    "claim": "manifest",
    "drain": "draining",
    "quarantined": "quarantine",
    "session": "sessions",
    "top_k": "top_k",
    "top_k_dominating": "top_k_dominating",
    "top_k_incomplete": "top_k_incomplete",
    "top_k_workload": "top_k_workload",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"skyband.spark.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


class _Package(ModuleType):
    """Keeps ``top_k`` and others functions: modules of their names take their places on import."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
