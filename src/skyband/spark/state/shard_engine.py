"""What a shard asks of the local engine of a family, and the windows in which the engine counts.

Inside of a shard times are made up: rows of a pane are numbered by (time, id), so that the engine,
which knows objects by numbers, breaks ties as if it knew their ids. Of a window only its shape is
left: how many slides it spans, and whether it begins within one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.order import Ints
from skyband.windows import TimeWindow

if TYPE_CHECKING:
    from skyband.engine.monitor import BaseMonitor

SLIDE = 1 << 28
"""The slide of the engine: a pane has room for half as many rows."""


class Engine(Protocol):
    """The local engine of a family for one query; plain values only, for it travels to workers.

    The query's window is that of :func:`made_up`.
    """

    @property
    def k(self) -> int:
        """Objects per window."""

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""

    def new(self) -> BaseMonitor[Any]:
        """A monitor that has seen nothing."""

    def restore(self, data: bytes) -> BaseMonitor[Any]:
        """A monitor from its snapshot."""

    def push(
        self,
        monitor: BaseMonitor[Any],
        ids: Ints,
        times: Ints,
        columns: list[NDArray[Any]],
        watermark: int,
    ) -> Ranked:
        """Hand rows to a monitor, and what was collected besides ids and times of them."""


def made_up(size: int, slide: int) -> TimeWindow:
    """A window that holds the same panes as one of this size and slide.

    >>> print(made_up(25, 10).size / SLIDE, made_up(30, 10).size / SLIDE)
    2.5 3.0
    """
    rest = SLIDE // 2 if size % slide else 0
    return TimeWindow(size // slide * SLIDE + rest, SLIDE, 0, "tick")


def begin(pane: int, base: int) -> int:
    """The first made up time of a pane, if window ``base`` ends at zero."""
    return ((pane >> 1) - 1 - base) * SLIDE + (pane & 1) * (SLIDE // 2)
