"""The local engine of incomplete streams, as a shard runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skyband.incomplete.query import TopKIncomplete
from skyband.order import Ints
from skyband.results import Ranked

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

    def new(self) -> IncompleteMonitor:
        """A monitor that has seen nothing."""
        from skyband.incomplete.monitor import IncompleteMonitor

        query: Any = self.query
        return IncompleteMonitor(query, self.algorithm, options=self.options or None)

    def restore(self, data: bytes) -> IncompleteMonitor:
        """A monitor from its snapshot."""
        from skyband.incomplete.monitor import IncompleteMonitor

        found: Any = IncompleteMonitor.restore(data, self.query)  # type: ignore[arg-type]
        monitor: IncompleteMonitor = found
        return monitor

    def push(
        self, monitor: Any, ids: Ints, times: Ints, columns: list[NDArray[Any]], watermark: int
    ) -> Ranked:
        """Hand rows to a monitor; ``columns`` are stream numbers and values."""
        streams, values = columns or (np.empty(0), np.empty(0))
        found: Ranked = monitor.push(
            ids, streams.astype(np.int64), values, times=times, watermark=watermark
        )
        return found
