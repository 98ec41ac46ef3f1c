"""``algorithm="auto"`` for incomplete streams: which algorithm, and why."""

from __future__ import annotations

from skyband.incomplete.query import TopKIncomplete
from skyband.planner import Plan


def plan(query: TopKIncomplete) -> Plan:
    """Choose an exact algorithm for a query."""
    streams = len(query.streams)
    common = f"{streams} stream{'s' if streams > 1 else ''}, k = {query.k:,}"
    return Plan("recompute", (common, "every score is computed anew for each window"))
