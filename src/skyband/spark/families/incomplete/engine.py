"""The local engine of incomplete streams, as a shard runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.incomplete.query import TopKIncomplete
from skyband.order import Floats, Ints
from skyband.spark.state.shard import SLIDE

if TYPE_CHECKING:
    from skyband.incomplete.monitor import IncompleteMonitor


@dataclass(frozen=True)
class IncompleteEngine:
    """An engine for rows of stream numbers and values; plain values only."""

    query: TopKIncomplete
    algorithm: str
    options: dict[str, Any] | None = None

    @property
    def k(self) -> int:
        """Objects per window."""
        return self.query.k

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""
        return self.query.emit == "changes"

    @property
    def shares_ranks(self) -> bool:
        """Whether objects of equal score share a rank."""
        return self.query.shares_ranks

    def new(self) -> IncompleteMonitor:
        """A monitor that has seen nothing."""
        from skyband.incomplete.monitor import IncompleteMonitor

        return IncompleteMonitor(self.query, self.algorithm, options=self.options or None)

    def restore(self, data: bytes) -> IncompleteMonitor:
        """A monitor from its snapshot."""
        from skyband.incomplete.monitor import IncompleteMonitor

        return IncompleteMonitor.restore(data, self.query)

    def push(
        self, monitor: Any, ids: Ints, times: Ints, columns: list[NDArray[Any]], watermark: int
    ) -> Ranked:
        """Hand rows to a monitor; ``columns`` are stream numbers and values."""
        numbers, values = columns or (np.empty(0), np.empty(0))
        streams: Ints = numbers.astype(np.int64)
        if self.query.most == 1:
            ids, streams, values, times = largest(ids, streams, values, times)
        ranked: Ranked = monitor.push(ids, streams, values, times=times, watermark=watermark)
        return ranked


def largest(
    ids: Ints, streams: Ints, values: Floats, times: Ints
) -> tuple[Ints, Ints, Floats, Ints]:
    """Of each pane, the largest value that an object has in a stream, as of its newest time there.

    The rows of a pane live equally long, so the others never matter: an object with many rows,
    which each row that it gets would go through, costs no more than others.
    """
    pane = times // (SLIDE // 2)
    order = np.lexsort((streams, ids, pane))
    keys = (pane[order], ids[order], streams[order])
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    if begins.all():
        return ids, streams, values, times
    at = np.flatnonzero(begins)
    most = np.maximum.reduceat(values[order], at)
    newest = np.maximum.reduceat(times[order], at)
    by_time = np.argsort(newest)
    some = order[at][by_time]
    return ids[some], streams[some], most[by_time], newest[by_time]
