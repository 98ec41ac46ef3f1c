"""Estimates of what sharing saves: windows, views and rows kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skyband.query import TopK
from skyband.topk.estimates import candidates_of_rows
from skyband.windows import Window
from skyband.workload import can_share
from skyband.workload.queries import Workload


@dataclass(frozen=True)
class Estimate:
    """What a workload keeps, for scores in random order.

    ``windows``      open at a time
    ``views``        different starts among them, at most
    ``boundaries``   places per largest window at which some window starts or ends, at most
    ``shared``       rows that are kept by all queries as one
    ``independent``  rows that the queries would keep by themselves
    """

    queries: int
    largest_k: int
    windows: int
    views: int
    boundaries: int
    shared: int
    independent: int


def estimate(workload: Workload, rate: float = 1.0) -> Estimate:
    """What to expect of a workload over ``rate`` rows per unit of its windows.

    A row of age a can win only if it is among the best K(a) since it came, where K(a) is the
    largest k of the windows that are longer than a; of scores in random order that has the
    probability min(1, K(a) / a). A query by itself keeps k(1 + ln(n/k)) at most, see MinTopk; or k
    where the rows of a window leave together. Where any query cannot share, none does.
    """
    queries = list(workload.queries.values())
    if not all(map(can_share, queries)):
        return _apart(queries, rate)
    starts = {(query.window.slide, _phase(query.window)) for query in queries}
    ends = {(query.window.slide, query.window.end_offset) for query in queries}
    longest = max(query.window.size for query in queries)
    windows = sum(-(-query.window.size // query.window.slide) for query in queries)
    alone = sum(candidates_of_rows(query.k, query.window.size * rate) for query in queries)
    return Estimate(
        len(queries),
        max(query.k for query in queries),
        windows,
        min(windows, longest, sum(-(-longest // slide) for slide, _ in starts)),
        min(longest, sum(-(-longest // slide) for slide, _ in starts | ends)),
        math.ceil(min(_together(workload, rate), alone)),
        math.ceil(alone),
    )


def _apart(queries: list[TopK], rate: float) -> Estimate:
    """What queries keep that share nothing; of a period so far one window is open."""
    together = [query for query in queries if query.window.panes.together]
    sliding = [query for query in queries if not query.window.panes.together]
    windows = sum(-(-query.window.size // query.window.slide) for query in sliding) + len(together)
    alone = sum(candidates_of_rows(query.k, query.window.size * rate) for query in sliding)
    kept = math.ceil(alone) + sum(query.k for query in together)
    largest_k = max(query.k for query in queries)
    return Estimate(len(queries), largest_k, windows, windows, windows, kept, kept)


def _phase(window: Window) -> int:
    """Where in a slide the windows start."""
    return (window.end_offset - window.size) % window.slide


def _together(workload: Workload, rate: float) -> float:
    """The sum over all ages of min(1, K(a) / a)."""
    kept, age = 0.0, 0.0
    by_size = sorted(
        ((query.window.size * rate, query.k) for query in workload.queries.values()), reverse=True
    )
    steps: list[tuple[float, int]] = []  # size, largest k of windows at least as long; ascending
    most = 0
    for size, k in by_size:
        most = max(most, k)
        steps.append((size, most))
    for size, k in reversed(steps):
        upto = min(size, max(age, k))
        kept += upto - age  # of the newest k all are kept
        age = upto
        if size > age:
            kept += k * math.log(size / age)
            age = size
    return kept
