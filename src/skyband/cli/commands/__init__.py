"""What the commands do: one module per family says what is its own, the rest is shared."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.cli.commands.file_query import QueryOptions

FAMILIES = ("dominating", "incomplete", "totals", "workload", "top")
"""The families by their commands, in the order in which ``explain`` asks whose options it has."""


def family(name: str) -> type[QueryOptions]:
    """What a family asks of a file; imported when it is needed."""
    options: type[QueryOptions] = import_module(f"skyband.cli.commands.{name}").FAMILY
    return options
