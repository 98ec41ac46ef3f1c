"""Continuous top-k over incomplete streams: every algorithm of the field, one file each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.engine.algorithm import Algorithm
    from skyband.engine.plan import Setting
    from skyband.incomplete.query import TopKIncomplete

_CLASSES = {
    "recompute": ("skyband.incomplete.recompute", "Recompute"),
    "sla": ("skyband.incomplete.sla", "Sla"),
    "eaa": ("skyband.incomplete.eaa", "Eaa"),
    "approximate": ("skyband.incomplete.approximate", "Approximate"),
    "likely": ("skyband.incomplete.likely", "Likely"),
}

ALGORITHMS = tuple(_CLASSES)
"""The names of the algorithms; ``"auto"`` lets the planner choose one."""

EXACT = ("recompute", "sla", "eaa")
"""The exact ones."""


def build(name: str, setting: Setting, query: TopKIncomplete) -> Algorithm:
    """Build an algorithm by name for a query; its kernels are imported only now."""
    if not isinstance(name, str) or name not in _CLASSES:
        raise QueryError(
            f"algorithm is {name!r}", f"one of {', '.join(ALGORITHMS)}, auto", "use 'auto'"
        )
    module, cls = _CLASSES[name]
    algorithm: Any = getattr(import_module(module), cls)
    built: Algorithm = algorithm(setting, query)
    return built
