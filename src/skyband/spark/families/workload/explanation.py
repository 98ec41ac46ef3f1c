"""What a workload shares on Spark, in words and in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skyband.query import TopK
from skyband.spark.explain import (
    OPEN_PATH,
    PANE_PATH,
    Lines,
    open_steps,
    row_bytes,
    state_line,
)
from skyband.spark.families.workload.boundaries import Boundaries
from skyband.topk.estimates import candidates_of_panes
from skyband.workload import can_share

if TYPE_CHECKING:
    from skyband.spark.families.workload.plan import WorkloadPlan

_SHARED = "mtopmerge: one ranked list for all queries, brought up to date in bulk"
_APART = "the minimal candidate set of each query: they rank, or hold rows, in ways of their own"
_COUNTED = 100_000  # boundaries that are counted one by one


def lines(plan: WorkloadPlan) -> Lines:
    """Say what the queries share, and what each for itself would keep."""
    numbers, each = metrics(plan), plan.base.each
    length = plan.base.axis.length
    together = numbers["candidates_per_key"]
    apart = numbers["independent_candidates_per_key"]
    names = f"{len(plan.scores)} scores, in one pass: {', '.join(plan.score_texts)}"
    shares = _shares(plan)
    ranks = plan.pane_order[1]
    aggregations = "one aggregation" if ranks == "row_number" else "two aggregations"
    saved = (
        f"each query for itself would keep {apart:,}: {apart / max(together, 1):,.1f} "
        f"times as many, and read every row {numbers['queries']:,} times"
    )
    return [
        ("panes", f"{_pane_lengths(plan)}, {numbers['panes_per_window']:,} in "
                  f"{length(_longest(plan))}"),
        ("path", OPEN_PATH if plan.updates else PANE_PATH),
        ("shared", f"{aggregations}, with the largest k of {numbers['largest_k']:,}, and one "
                   "processor per key"),
        *([("", names)] if len(plan.scores) > 1 else []),
        ("algorithm", _SHARED if shares else _APART),
        *_shuffle_lines(plan),
        ("windows", f"about {numbers['open_windows']:,} open at a time, of "
                    f"{numbers['queries']:,} queries; {numbers['views']:,} different starts"),
        ("candidates", f"about {together:,}{each}, of scores in random order"),
        *([("", saved)] if shares else []),
        ("open panes", f"about {numbers['open_panes']}{each}"),
        state_line(plan.base, numbers),
    ]  # fmt: skip


def _shares(plan: WorkloadPlan) -> bool:
    """Whether one structure answers all queries."""
    return all(map(can_share, plan.queries))


def _longest(plan: WorkloadPlan) -> int:
    """The longest window but those of all time."""
    return max(
        window.slide if window.kind == "all_time" else window.size
        for window in (query.window for query in plan.queries)
    )


def _shuffle_lines(plan: WorkloadPlan) -> Lines:
    if plan.pane_order[1] == "row_number":
        rows = f"at most {sum(plan.largest_k):,} rows of each pane, key, task"
        return [("before the shuffle", rows)]
    best = f"the rows of the {max(plan.largest_k):,} best scores of each pane, key and score"
    if plan.updates:
        return [("before the shuffle", f"of each task {best}: they may share ranks")]
    return [
        ("shuffles", "rows by pane, key and score, so that ties meet; then, of each task,"),
        ("", best),
    ]


def _pane_lengths(plan: WorkloadPlan) -> str:
    length, progressions = plan.base.axis.length, plan.boundaries.every
    least = length(min(progression.slide for progression in progressions))
    if len(progressions) == 1:
        return f"{least} each"
    return f"{least} at most, between all starts and ends ({len(progressions)} progressions)"


def metrics(plan: WorkloadPlan) -> dict[str, Any]:
    """Give the numbers of the plan, by name; rows are per key."""
    by_score: dict[str, list[TopK]] = {score: [] for score in plan.score_texts}
    for name, query in plan.workload.queries.items():
        by_score[plan.workload.by[name]].append(query)
    kept = candidates_together if _shares(plan) else candidates_apart
    candidates = sum(map(kept, by_score.values()))
    open_panes = open_steps(plan.base, plan.step)
    rows = candidates + sum(plan.largest_k) * open_panes
    panes, windows = panes_within(plan.boundaries, _longest(plan)), open_windows(plan.queries)
    return {
        "path": "pane",
        "queries": len(plan.workload),
        "scores": len(plan.scores),
        "largest_k": max(plan.largest_k),
        "panes_per_window": panes,
        "open_windows": windows,
        "views": min(panes, windows),  # different starts of open windows, at most
        "candidates_per_key": candidates,
        "independent_candidates_per_key": candidates_apart(plan.queries),
        "open_panes": open_panes,
        "state_rows_per_key": rows,
        "bytes_per_row": row_bytes(plan.base),
        "state_bytes_per_key": rows * row_bytes(plan.base),
    }


def panes_within(boundaries: Boundaries, length: int) -> int:
    """Panes in a window of a length."""
    progressions = boundaries.every
    if sum(length // p.slide for p in progressions) > _COUNTED:
        return sum(-(-length // p.slide) for p in progressions)
    return len({at for p in progressions for at in range(p.phase, length, p.slide)})


def open_windows(queries: Iterable[TopK]) -> int:
    """Windows that are open at a time."""
    return sum(map(_windows, queries))


def candidates_apart(queries: Iterable[TopK]) -> int:
    """Rows per key that may still win, if each query keeps its own; scores in random order."""
    return sum(
        query.k
        if query.window.panes.together
        else math.ceil(candidates_of_panes(query.k, _windows(query)))
        for query in queries
    )


def candidates_together(queries: list[TopK]) -> int:
    """The same for all queries: a row of age a needs only the largest k of longer windows."""
    if not queries:
        return 0
    step = min(query.window.slide for query in queries)
    longer, most = [], 0
    for query in sorted(queries, key=lambda query: -query.window.size):
        most = max(most, query.k)
        longer.append((max(1.0, query.window.size / step), most))
    rows, age = float(longer[-1][1]), 1.0
    for length, k in reversed(longer):
        rows += k * math.log(length / age) if length > age else 0.0
        age = max(age, length)
    return min(math.ceil(rows), candidates_apart(queries))


def _windows(query: TopK) -> int:
    """Windows of a query that are open at a time; where rows leave together, it is one."""
    if query.window.panes.together:
        return 1
    return -(-query.window.size // query.window.slide)
