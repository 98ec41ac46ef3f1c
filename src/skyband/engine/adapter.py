"""Monitors of all families behind one ``push``, for those who read rows from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skyband.engine.columns import Dropped
from skyband.engine.plan import Plan
from skyband.engine.results import Ranked


class AnyMonitor(Protocol):
    """A monitor whose rows have whatever form its family asks for."""

    @property
    def plan(self) -> Plan:
        """The algorithm and why."""

    @property
    def dropped(self) -> Dropped:
        """Rows that were not ranked, by reason."""

    def push(self, *columns: Any, **named: Any) -> Ranked:
        """Take in a batch of rows and return the windows that it completes."""

    def finish(self) -> Ranked:
        """Answer the windows that are still open."""


class Adapter:
    """Hands rows to a monitor in the form that its ``push`` takes.

    ``columns`` makes the monitor's columns of rows, as a reader has them, and their ids. The other
    arguments are those of the monitor.
    """

    def __init__(
        self,
        kind: Callable[..., AnyMonitor],
        columns: Callable[[Any, Any], tuple[Any, ...]],
        *arguments: Any,
        **settings: Any,
    ) -> None:
        self._monitor = kind(*arguments, **settings)
        self._columns = columns

    @property
    def plan(self) -> Plan:
        """The algorithm and why."""
        return self._monitor.plan

    @property
    def dropped(self) -> Dropped:
        """Rows that were not ranked, by reason."""
        return self._monitor.dropped

    def push(self, rows: Any, *, ids: Any, times: Any = None, watermark: Any = None) -> Ranked:
        """Take in rows with their ids and return the windows that they complete."""
        columns = self._columns(rows, ids)
        return self._monitor.push(*columns, times=times, watermark=watermark)

    def finish(self) -> Ranked:
        """Answer the windows that are still open."""
        return self._monitor.finish()
