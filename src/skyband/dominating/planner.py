"""``algorithm="auto"`` for top-k dominating queries: which algorithm, and why."""

from __future__ import annotations

from skyband.dominating.query import TopKDominating
from skyband.engine.plan import Plan
from skyband.windows import CountWindow

_TINY = 16  # points of a window in which nothing can be saved


def plan(query: TopKDominating) -> Plan:
    """Choose an exact algorithm for a query."""
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
