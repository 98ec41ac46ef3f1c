"""The points of one key without Spark: closed panes into the local engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skyband.order import Floats
from skyband.spark.state.candidates import FOREVER, Answer, Column
from skyband.spark.state.engine import Carrying
from skyband.windows import TimeWindow


@dataclass
class Points(Carrying):
    """Maintains one key: the engine, its rows' columns, the last window that has anything to tell.

    Panes come once they are closed, in ascending order, so nothing waits in the engine: a row's
    arrival number is its sequence number.
    """

    last: int = -FOREVER

    @property
    def _window(self) -> TimeWindow:
        assert isinstance(self.query.window, TimeWindow), "queries by key have windows of time"
        return self.query.window

    def admit(self, points: Floats, at: list[int], kept: list[Column]) -> None:
        """Take in the points of a closed pane, in the order of time."""
        if not at:
            return
        self.carry(len(at), kept)
        self.monitor.push(points, times=np.array(at, np.int64))
        window = self._window
        farewell = int(self.query.emit == "changes")
        self.last = (at[-1] - window.offset + window.size) // window.slide + farewell

    def close(self, window: int) -> Iterator[Answer]:
        """Answer the windows up to this one."""
        if window >= FOREVER:
            yield from self.answers(self.monitor.finish())
            return
        end = self._window.offset + window * self._window.slide
        yield from self.answers(self.monitor.push(watermark=end))
