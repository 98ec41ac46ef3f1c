"""One continuous top-k query over one stream: every algorithm of the field, one file each."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.engine.algorithm import Algorithm
    from skyband.engine.plan import Setting

_CLASSES = {
    "recompute": ("skyband.topk.recompute", "Recompute"),
    "kskyband": ("skyband.topk.kskyband", "KSkyband"),
    "tma": ("skyband.topk.tma", "TMA"),
    "sma": ("skyband.topk.sma", "SMA"),
    "pretopk": ("skyband.topk.pretopk", "PreTopk"),
    "mintopk": ("skyband.topk.mintopk", "MinTopk"),
    "sap-equal": ("skyband.topk.sap", "SapEqual"),
    "sap-dynamic": ("skyband.topk.sap", "SapDynamic"),
    "sap": ("skyband.topk.sap", "Sap"),
}

ALGORITHMS = tuple(_CLASSES)
"""The names by which algorithms are asked for; ``"auto"`` lets the planner choose one."""


def is_loaded(name: str) -> bool:
    """Whether this process has compiled the kernels of an algorithm, or loaded them."""
    module, cls = _CLASSES[name]
    imported = sys.modules.get(module)
    return imported is not None and bool(getattr(imported, cls).is_loaded())


def build(name: str, setting: Setting) -> Algorithm:
    """Build an algorithm by name; its kernels are imported only now."""
    if not isinstance(name, str) or name not in _CLASSES:
        raise QueryError(
            f"algorithm is {name!r}", f"one of {', '.join(ALGORITHMS)}, auto", "use 'auto'"
        )
    module, cls = _CLASSES[name]
    built: Algorithm = getattr(import_module(module), cls)(setting)
    return built
