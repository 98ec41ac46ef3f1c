"""``algorithm="auto"`` for incomplete streams: which algorithm, and why."""

from __future__ import annotations

from skyband.engine.plan import Plan
from skyband.errors import QueryError
from skyband.incomplete.query import TopKIncomplete

MOST = 1 << 20
"""Answers at most, beyond which everything is computed anew."""


ANY_ORDER = "recompute"
"""The algorithm that orders equal scores by age in either way, and lets them share a rank."""


def require_order(query: TopKIncomplete, algorithm: str) -> None:
    """Refuse an algorithm that cannot order equal scores as a query says."""
    if not _special(query) or algorithm in ("auto", ANY_ORDER):
        return
    order = f"rank_by={query.rank_by!r}" if query.shares_ranks else f"ties={query.ties!r}"
    raise QueryError(
        f"algorithm is {algorithm!r} with {order}",
        f"{ANY_ORDER}, auto: others know the k best by the usual order alone",
        "leave algorithm out",
    )


def _special(query: TopKIncomplete) -> bool:
    """Whether equal scores rank otherwise than usual."""
    return query.ties == "oldest" or query.shares_ranks


def plan(query: TopKIncomplete) -> Plan:
    """Choose an exact algorithm for a query."""
    streams = len(query.streams)
    common = f"{streams} stream{'s' if streams > 1 else ''}, k = {query.k:,}"
    if _special(query):
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
