"""Monitors of objects that take rows as those of other families do: numbers, and ids beside them.

So one loop over a file serves all families, with keys and without.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.engine.results import Ranked
from skyband.incomplete.monitor import IncompleteMonitor
from skyband.totals.monitor import TotalsMonitor


class IncompleteRows(IncompleteMonitor):
    """Takes record batches of ``value`` and ``stream``."""

    def push(  # type: ignore[override]
        self, rows: Any, *, ids: Any, times: Any = None, watermark: Any = None
    ) -> Ranked:
        """Take in the rows of some objects."""
        stream = np.from_dlpack(rows.column("stream")).astype(np.int64)
        return super().push(ids, stream, rows.column("value"), times=times, watermark=watermark)


class TotalsRows(TotalsMonitor):
    """Takes record batches of ``value``."""

    def push(  # type: ignore[override]
        self, rows: Any, *, ids: Any, times: Any = None, watermark: Any = None
    ) -> Ranked:
        """Take in the rows of some keys."""
        return super().push(ids, rows.column("value"), times=times, watermark=watermark)
