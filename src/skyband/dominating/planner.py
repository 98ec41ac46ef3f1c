"""``algorithm="auto"`` for top-k dominating queries: which algorithm, and why."""

from __future__ import annotations

from skyband.dominating.query import TopKDominating
from skyband.engine.plan import Plan
from skyband.errors import QueryError
from skyband.windows import CountWindow

ANY_ORDER = "bfa"
"""The algorithm that orders equal scores by age in either way, and lets them share a rank."""

_TINY = 16  # points of a window in which nothing can be saved


def require_order(query: TopKDominating, algorithm: str, estimates: bool = False) -> None:
    """Refuse what cannot order equal scores as a query says: most algorithms, and estimates."""
    if not _special(query) or (algorithm in ("auto", ANY_ORDER) and not estimates):
        return
    order = f"rank_by={query.rank_by!r}" if query.shares_ranks else f"ties={query.ties!r}"
    if estimates:
        raise QueryError(
            f"keep_up with {order}", "exact answers: estimates do not tie", "leave keep_up out"
        )
    raise QueryError(
        f"algorithm is {algorithm!r} with {order}",
        f"{ANY_ORDER}, auto: others forget a point for another of equal score",
        "leave algorithm out",
    )


def _special(query: TopKDominating) -> bool:
    """Whether equal scores rank otherwise than usual."""
    return query.ties == "oldest" or query.shares_ranks


def plan(query: TopKDominating) -> Plan:
    """Choose an exact algorithm for a query."""
    if _special(query):
        order = "the oldest of equal scores comes first"
        if query.shares_ranks:
            order = "points of equal score share a rank"
        return Plan(ANY_ORDER, (order, "so the score of every point is kept up to date"))
    window, width = query.window, len(query.dimensions)
    common = f"{width} dimension{'s' if width > 1 else ''}, k = {query.k:,}"
    if isinstance(window, CountWindow):
        common = f"n = {window.size:,}, s = {window.slide:,}, {common}"
        if window.size <= _TINY:
            return Plan("bfa", (common, "so few points that comparing all of them is cheapest"))
    return Plan(
        "contenders",
        (
            common,
            "counts by cell rule out most points, so only a few scores are kept up to date",
            "exact; give keep_up=... to let it approximate when the stream is faster",
        ),
    )
