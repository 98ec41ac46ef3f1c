"""``algorithm="auto"`` for incomplete streams: which algorithm, and why."""

from __future__ import annotations

from skyband.engine.plan import Plan, require_order, unusual_order
from skyband.incomplete.query import TopKIncomplete

MOST = 1 << 20
"""Answers at most, beyond which everything is computed anew."""


ANY_ORDER = "recompute"
"""The algorithm that orders equal scores by age in either way, and lets them share a rank."""


def require_able(query: TopKIncomplete, algorithm: str) -> None:
    """Refuse an algorithm that cannot rank equal scores as a query says."""
    others = "know the k best by the usual order alone"
    require_order(query, algorithm, (ANY_ORDER,), others)


def plan(query: TopKIncomplete) -> Plan:
    """Choose an exact algorithm for a query."""
    streams = len(query.streams)
    common = f"{streams} stream{'s' if streams > 1 else ''}, k = {query.k:,}"
    if unusual_order(query) is not None:
        order = "objects of equal score share a rank"
        if not query.shares_ranks:
            order = "the oldest of equal scores comes first"
        return Plan(ANY_ORDER, (common, f"{order}, so all of them are ranked for each window"))
    if callable(query.combine):
        return Plan("recompute", (common, "only it calls functions: each score, for each window"))
    if query.k > MOST:
        return Plan("recompute", (common, "so many answers that most objects are answers"))
    why = "only what may still become an answer is kept"
    if query.repeats == "max":
        why += "; repeats='none', if that is so, keeps much less"
    return Plan("eaa", (common, why))
