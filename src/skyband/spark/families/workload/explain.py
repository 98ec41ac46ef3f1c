"""How Spark would answer a workload, in words: what is shared, and what that saves."""

from __future__ import annotations

import math
from typing import Any

from skyband.durations import spoken
from skyband.query import TopK
from skyband.spark.families.workload.boundaries import Boundaries
from skyband.spark.families.workload.plan import SharedQuestion

Words = list[tuple[str, str]]
_OPEN = 2  # panes that are being filled while rows come in order
_PANES = 100_000  # boundaries that are counted one by one


def figures(question: SharedQuestion, row_bytes: int) -> dict[str, Any]:
    """The numbers of a plan, by name; rows are per key."""
    kept = sum(_together(queries) for queries in _by_score(question))
    still = _OPEN + math.ceil(question.base.delay / boundaries(question).step)
    rows = kept + sum(question.largest) * still
    queries = question.workload.queries.values()
    return {
        "path": "pane",
        "queries": len(question.workload),
        "scores": len(question.scores),
        "largest_k": max(question.largest),
        "panes_per_window": panes(question),
        "open_windows": sum(_windows(query) for query in queries),
        "views": views(question),
        "candidates_per_key": kept,
        "independent_candidates_per_key": sum(_alone(query) for query in queries),
        "open_panes": still,
        "state_rows_per_key": rows,
        "bytes_per_row": row_bytes,
        "state_bytes_per_key": rows * row_bytes,
    }


def words(question: SharedQuestion, row_bytes: int) -> Words:
    """What the queries share, and what each for itself would keep."""
    figure = figures(question, row_bytes)
    keys = question.base.keys
    each = f" for each {' and '.join(keys)}" if keys else ""
    most = max(question.largest)
    longest = _length(question, max(q.window.size for q in question.workload.queries.values()))
    bytes = figure["state_bytes_per_key"]
    size = f"{bytes / 1e6:,.1f} MB" if bytes >= 1e6 else f"{bytes / 1e3:,.1f} kB"
    kept, alone = figure["candidates_per_key"], figure["independent_candidates_per_key"]
    told: Words = [
        ("panes", f"{_lengths(question)}, {figure['panes_per_window']:,} in {longest}"),
        ("path", "panes: their best rows are found inside the JVM; no other row reaches Python"),
        ("shared", f"one aggregation, with the largest k of {most:,}, and one processor per key"),
        ("algorithm", "mtopmerge: one ranked list for all queries, brought up to date in bulk"),
        ("before the shuffle", f"at most {sum(question.largest):,} rows of each pane, key, task"),
        ("windows", f"about {figure['open_windows']:,} open at a time, of {figure['queries']:,} "
                    f"queries; {figure['views']:,} different starts"),
        ("candidates", f"about {kept:,}{each}, of scores in random order"),
        ("", f"each query for itself would keep {alone:,}: {alone / max(kept, 1):,.1f} times as "
             f"many, and read every row {figure['queries']:,} times"),
        ("open panes", f"about {figure['open_panes']}{each}"),
        ("state", f"about {figure['state_rows_per_key']:,} rows of {row_bytes:,} bytes{each}: "
                  f"{size}" + (", times the number of keys" if keys else "")),
    ]  # fmt: skip
    if len(question.scores) > 1:
        names = f"{len(question.scores)} scores, in one pass: {', '.join(question.scores)}"
        told.insert(3, ("", names))
    return told


def boundaries(question: SharedQuestion) -> Boundaries:
    """The panes that rows go into now."""
    return question.eras[-1].boundaries


def panes(question: SharedQuestion) -> int:
    """Panes in the longest window."""
    longest = max(query.window.size for query in question.workload.queries.values())
    found = boundaries(question).all
    if sum(longest // p.slide for p in found) > _PANES:
        return sum(-(-longest // p.slide) for p in found)
    places = {at for p in found for at in range(p.phase, longest, p.slide)}
    return len(places)


def views(question: SharedQuestion) -> int:
    """Different starts among the windows that are open at a time, at most."""
    windows = [query.window for query in question.workload.queries.values()]
    return min(panes(question), sum(-(-w.size // w.slide) for w in windows))


def _by_score(question: SharedQuestion) -> list[list[TopK]]:
    workload = question.workload
    return [
        [query for name, query in workload.queries.items() if workload.by[name] == score]
        for score in question.scores
    ]


def _windows(query: TopK) -> int:
    return -(-query.window.size // query.window.slide)


def _alone(query: TopK) -> int:
    """Of the j-th newest of m panes k/j rows are among the k best since: k(1 + ln m) in all."""
    return math.ceil(query.k * (1 + math.log(_windows(query))))


def _together(queries: list[TopK]) -> int:
    """The same for all queries: a row of age a needs only the largest k of longer windows."""
    if not queries:
        return 0
    step = min(query.window.slide for query in queries)
    longer, most = [], 0
    for query in sorted(queries, key=lambda query: -query.window.size):
        most = max(most, query.k)
        longer.append((max(1.0, query.window.size / step), most))
    kept, age = float(longer[-1][1]), 1.0
    for reach, k in reversed(longer):
        kept += k * math.log(reach / age) if reach > age else 0.0
        age = max(age, reach)
    return min(math.ceil(kept), sum(_alone(query) for query in queries))


def _lengths(question: SharedQuestion) -> str:
    found = boundaries(question).all
    if len(found) == 1:
        return f"{_length(question, found[0].slide)} each"
    least = _length(question, min(p.slide for p in found))
    return f"{least} at most, between all starts and ends ({len(found)} progressions)"


def _length(question: SharedQuestion, length: int) -> str:
    return spoken(length) if question.base.timed else f"{length:,} rows"
