"""How Spark would answer a top-k dominating query, in words: what is counted where."""

from __future__ import annotations

from typing import Any

from skyband.spark.families.dominating.plan import DominatingQuestion

Words = list[tuple[str, str]]
_COUNTED = 6 * 8  # bytes of a candidate besides its point and its columns


def figures(question: DominatingQuestion, row_bytes: int, panes: int) -> dict[str, Any]:
    """The numbers of a plan, by name; how many points a window holds, only the stream knows."""
    window, width = question.query.window, len(question.points)
    return {
        "path": "key" if question.keys else "shards",
        "dimensions": width,
        "slide": window.slide,
        "panes_per_window": panes,
        "shards": question.shards or None,
        "algorithm": question.algorithm if question.keys else "pane counts",
        "bytes_per_point": 8 * width,
        "bytes_per_candidate": 8 * width + _COUNTED + row_bytes,
    }


def words(question: DominatingQuestion, row_bytes: int) -> Words:
    """Who counts, what is kept, and what a slide costs."""
    figure = figures(question, row_bytes, 0)
    k, shards = question.query.k, question.shards
    point = f"{figure['bytes_per_point']:,} bytes each"
    if question.keys:
        each = " and ".join(question.keys)
        return [
            ("path", f"keys: all rows of each {each} go to the local engine, pane by pane"),
            ("algorithm", f"{question.algorithm}: one of the local engine's"),
            ("state", f"every point of the window, {point}, and its columns, for each {each}"),
        ]
    return [
        ("path", f"{shards} shards: each holds its share of the points, and counts in parallel"),
        ("algorithm", "pane counts: what a point dominates adds up, over panes and shards"),
        ("", "a slide costs the pane that comes and the one that goes, not the window"),
        ("before the shuffle", f"rows that {k:,} rows of their pane dominate are no candidates"),
        ("candidates", f"rows with fewer than {k:,} dominators that live as long; in all shards"),
        ("", f"{figure['bytes_per_candidate']:,} bytes each, counted once nobody hides them"),
        ("state", f"every point of the window, {point}, in one of the shards"),
        ("ranking", "one task sums a number per candidate and shard; it sees no points"),
    ]
