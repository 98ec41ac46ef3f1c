"""``algorithm="auto"`` for incomplete streams: which algorithm, and why."""

from __future__ import annotations

from skyband.engine.plan import Plan
from skyband.incomplete.query import TopKIncomplete

MOST = 1 << 20
"""Answers at most, beyond which everything is computed anew."""


def plan(query: TopKIncomplete) -> Plan:
    """Choose an exact algorithm for a query."""
    streams = len(query.streams)
    common = f"{streams} stream{'s' if streams > 1 else ''}, k = {query.k:,}"
    if callable(query.combine):
        return Plan("recompute", (common, "only it calls functions: each score, for each window"))
    if query.k > MOST:
        return Plan("recompute", (common, "so many answers that most objects are answers"))
    why = "only what may still become an answer is kept"
    if query.repeats == "max":
        why += "; repeats='none', if that is so, keeps much less"
    return Plan("eaa", (common, why))
