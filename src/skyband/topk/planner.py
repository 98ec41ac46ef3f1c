"""``algorithm="auto"``: which algorithm, and why.

The rules come from ``skyband bench grid``, which runs every algorithm over a grid of windows,
slides and k on streams without and with a trend.
"""

from __future__ import annotations

import numpy as np

from skyband.engine.plan import Plan, require_order
from skyband.order import Floats
from skyband.query import TopK
from skyband.windows import CountWindow

OLDEST_FIRST = ("mintopk", "recompute")
"""The algorithms that can rank the oldest of equal scores first."""

SHARED_RANKS = "recompute"
"""The algorithm that can rank all rows of equal score, not k of them."""

SAMPLE = 4096  # scores looked at
_ENOUGH = 64  # fewer tell nothing
_SMOOTH = 1 / 3  # share of turning points below which a stream has a trend; random ones have 2/3
_DENSE = 0.005  # share of the window that k must reach for a view of the whole window to pay
_NEAR = 200_000  # objects of a window that still stays close to the processor
_FEW_SLIDES = 1 << 20  # in a window, of each of which mintopk keeps a record
_SMALL = 20_000  # objects of a window in which partitions hardly pay if slides are short


def trend(scores: Floats) -> bool | None:
    """Whether neighbouring scores follow each other; None if there are too few to tell.

    Counts turning points: scores in random order turn at two of three places.
    """
    sample = scores[:SAMPLE]
    sample = sample[np.isfinite(sample)]
    step = (sample[1:] > sample[:-1]).astype(np.int8) - (sample[1:] < sample[:-1])
    step = step[step != 0]
    if len(step) < _ENOUGH:
        return None
    return bool(np.mean(step[1:] != step[:-1]) < _SMOOTH)


def require_able(query: TopK, algorithm: str) -> None:
    """Refuse an algorithm that cannot rank rows of equal score as a query says."""
    able = (SHARED_RANKS,) if query.shares_ranks else OLDEST_FIRST
    require_order(query, algorithm, able, "forget a row for another of equal score")


def plan(query: TopK, observed: Floats | None = None) -> Plan:
    """Choose an algorithm for a query, given the first scores of its stream if there are any."""
    if query.shares_ranks:
        return Plan(SHARED_RANKS, ("rows of equal score share a rank, and all of them are kept",))
    if query.ties == "oldest":
        return _oldest_first(query)
    window, k = query.window, query.k
    smooth = None if observed is None else trend(observed)
    if query.weights is not None and len(query.weights) > 1:
        common = "scores are computed once, so attributes need no index"
    elif isinstance(window, CountWindow):
        common = f"n = {window.size:,}, s = {window.slide:,}, k = {k:,}"
    else:
        common = f"{window}, k = {k:,}"
    if window.panes.together:
        return Plan("mintopk", (common, "rows leave together, so it keeps the k best and no other"))
    if not isinstance(window, CountWindow):
        return Plan(
            "sap", (common, "partitions adapt to however many rows a time window turns out to hold")
        )
    dense = k >= _DENSE * window.size
    rare = window.size <= 10 * window.slide and window.slide >= 10 * k
    if smooth and dense and rare and window.size <= _NEAR:
        return Plan(
            "tma",
            (
                common,
                "the first scores follow a trend, but slides are few and much longer than k",
                "so computing the view anew now and then costs less than keeping candidates",
            ),
        )
    if smooth:
        return Plan(
            "sap-dynamic",
            (
                common,
                "the first scores follow a trend, on which whole partitions become meaningful",
                "so partitions are cut where the rank test says, without lists per unit",
            ),
        )
    small = window.size <= _SMALL and window.slide <= k
    if ((dense and window.size <= _NEAR) or small) and smooth is not None:
        return Plan(
            "tma",
            (
                common,
                f"k is {k / window.size:.1%} of a window that fits close to the processor",
                "without a trend a view of the 2k best rarely runs short",
                "and partitions would be small, or keep a large part of their objects",
            ),
        )
    trend_seen = (
        "too few scores seen to tell a trend" if smooth is None else "the first scores show none"
    )
    return Plan(
        "sap",
        (
            common,
            f"k is {k / window.size:.2%} of the window, so few objects of a partition are kept",
            f"safe on any stream ({trend_seen})",
        ),
    )


def _oldest_first(query: TopK) -> Plan:
    """Few algorithms can: the best of them is that which keeps the fewest rows."""
    reason, window = "of equal scores the oldest comes first", query.window
    if window.panes.together or window.size <= _FEW_SLIDES * window.slide:
        return Plan("mintopk", (reason, "it keeps what may still win and no other"))
    return Plan("recompute", (reason, "slides are too many to keep a record of each"))
