"""``algorithm="auto"`` for top-k dominating queries: which algorithm, and why."""

from __future__ import annotations

from skyband.dominating.query import TopKDominating
from skyband.engine.plan import Plan, require_order, unusual_order
from skyband.errors import QueryError
from skyband.windows import CountWindow

ANY_ORDER = "bfa"
"""The algorithm that orders equal scores by age in either way, and lets them share a rank."""

_TINY = 16  # points of a window in which nothing can be saved


def require_able(query: TopKDominating, algorithm: str, estimates: bool = False) -> None:
    """Refuse what cannot rank equal scores as a query says: most algorithms, and estimates."""
    order = unusual_order(query)
    if order is not None and estimates:
        raise QueryError(
            f"keep_up with {order}", "exact answers: estimates do not tie", "leave keep_up out"
        )
    others = "forget a point for another of equal score"
    require_order(query, algorithm, (ANY_ORDER,), others)


def plan(query: TopKDominating) -> Plan:
    """Choose an exact algorithm for a query."""
    if unusual_order(query) is not None:
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
