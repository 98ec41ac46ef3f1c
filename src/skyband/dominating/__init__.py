"""Continuous top-k dominating queries: every algorithm of the field, one file each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.engine.algorithm import Algorithm
    from skyband.engine.plan import Setting

_CLASSES = {
    "bfa": ("skyband.dominating.bfa", "Bfa"),
    "eva": ("skyband.dominating.eva", "Eva"),
    "ada": ("skyband.dominating.ada", "Ada"),
    "contenders": ("skyband.dominating.contenders", "Contenders"),
    "ahba": ("skyband.dominating.ahba", "Ahba"),
    "amsa": ("skyband.dominating.amsa", "Amsa"),
}

EXACT = ("bfa", "eva", "ada", "contenders")
ALGORITHMS = tuple(_CLASSES)
"""The names of the algorithms; ``"auto"`` lets the planner choose one."""


def _class_of(name: str) -> type[Algorithm]:
    if not isinstance(name, str) or name not in _CLASSES:
        raise QueryError(
            f"algorithm is {name!r}", f"one of {', '.join(ALGORITHMS)}, auto", "use 'auto'"
        )
    module, cls = _CLASSES[name]
    algorithm: type[Algorithm] = getattr(import_module(module), cls)
    return algorithm


def options_of(name: str) -> tuple[str, ...]:
    """The options that an algorithm takes."""
    return _class_of(name).options


def build(name: str, setting: Setting, width: int) -> Algorithm:
    """Build an algorithm by name for ``width`` dimensions; its kernels are imported only now."""
    cls: Any = _class_of(name)
    built: Algorithm = cls(setting, width)
    return built
