"""How far time has come: what is late, and what may be answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.durations import microseconds
from skyband.engine.snapshot import Saved
from skyband.errors import QueryError
from skyband.order import Bools, Ints
from skyband.windows import FOREVER, TimeWindow


class Watermark:
    """Maintains the time before which no further row is expected.

    With a ``delay`` it follows the newest time at that distance; without, the caller moves it.
    ``at`` never falls.
    """

    def __init__(self, delay: int | None = None) -> None:
        self.delay = delay
        self.at = -FOREVER
        self.newest = -FOREVER

    @property
    def known(self) -> int | None:
        """Where it stands, None before the first row or the first move."""
        return None if self.at == -FOREVER else self.at

    def late(self, times: Ints, known: Bools | None, ordered: bool) -> Bools | None:
        """Which rows are older than the watermark that they meet, None if none is.

        That is the watermark of the push before or, with a delay, of the rows before. ``known``
        says which rows have a time (None: all), ``ordered`` that no time falls; then only the
        first can tell of late rows, for none is older than a row before it.
        """
        if not len(times):
            return None
        if ordered and known is None:
            limit = self.at
            if self.delay is not None:
                limit = max(limit, self.newest - self.delay)
                self.newest = max(self.newest, int(times[-1]))
            return None if int(times[0]) >= limit else times < limit
        if self.delay is None:
            return times < self.at
        clock = times if known is None else np.where(known, times, -FOREVER)
        newest = np.maximum.accumulate(np.concatenate([[self.newest], clock]))
        self.newest = int(newest[-1])
        return np.asarray(times < np.maximum(newest[:-1] - self.delay, self.at))

    def move(self, until: int | None) -> int:
        """Move on as far as the caller says, or the delay allows; returns where it stands."""
        if self.delay is not None and self.newest > -FOREVER and until is None:
            until = self.newest - self.delay
        if until is not None:
            self.at = max(self.at, until)
        return self.at

    def saved(self) -> Saved:
        """Where it stands, as plain values."""
        return {"delay": self.delay, "at": self.at, "newest": self.newest}, {}

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        del arrays
        self.delay, self.at, self.newest = (header[name] for name in ("delay", "at", "newest"))


def delay_of(delay: Any, window: TimeWindow) -> int | None:
    """A delay in the unit of a window's times."""
    if delay is None:
        return None
    if isinstance(delay, (int, np.integer)) and not isinstance(delay, bool):
        amount = int(delay)
    elif window.unit == "tick":
        raise QueryError(
            f"delay is {delay!r} for a window in ticks", "a whole number", "write delay=10"
        )
    else:
        amount = microseconds(delay, "delay")
    if not 0 <= amount < FOREVER:
        raise QueryError(
            f"delay is {delay!r}", "at least zero, below 2**62", "write delay='0 seconds'"
        )
    return amount
