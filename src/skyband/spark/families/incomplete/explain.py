"""How Spark would answer a query over incomplete streams, in words: what is kept where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.incomplete.planner import plan
from skyband.spark.families.incomplete.plan import IncompleteQuestion

Words = list[tuple[str, str]]


def figures(question: IncompleteQuestion, panes: int) -> dict[str, Any]:
    """The numbers of a plan, by name; how many objects are kept, only the stream knows."""
    query = question.query
    return {
        "path": "shards",
        "streams": len(query.streams),
        "slide": query.window.slide,
        "panes_per_window": panes,
        "shards": question.shards,
        "algorithm": _algorithm(question)[0],
    }


def words(question: IncompleteQuestion) -> Words:
    """Who ranks objects, what is kept of them, and what becomes of odd values."""
    k, keys = question.query.k, question.keys
    each = f" for each {' and '.join(keys)}" if keys else ""
    shards = question.shards
    algorithm, reasons = _algorithm(question)
    told: Words = [
        ("path", f"{shards} shard{'s' if shards > 1 else ''}{each}: each object is in one of them"),
        ("", "closed panes go to the local engine, in the order of time"),
        ("algorithm", f"{algorithm}: {reasons[-1]}"),
        ("state", f"{_kept(algorithm, k)}, in each shard"),
    ]
    if shards > 1:
        told.append(("ranking", f"the {k:,} best of each shard, merged; no task sees all rows"))
    return [*told, ("values", _values(question))]


def _algorithm(question: IncompleteQuestion) -> tuple[str, tuple[str, ...]]:
    if question.algorithm != "auto":
        return question.algorithm, ("asked for by name",)
    found = plan(question.query)
    return found.algorithm, found.reasons


def _kept(algorithm: str, k: int) -> str:
    if algorithm in ("recompute", "sla"):
        return "every row of the window"
    sure = "sure" if algorithm == "eaa" else "likely"
    return f"rows of objects that fewer than {k:,} others are {sure} to outrank while they live"


def _values(question: IncompleteQuestion) -> str:
    bounds = question.query.bounds
    assert isinstance(bounds, Mapping)
    pairs = {f"{low:g} to {high:g}" for low, high in bounds.values()}
    named = [f"{name} {low:g} to {high:g}" for name, (low, high) in bounds.items()]
    told = pairs.pop() if len(pairs) == 1 else ", ".join(named)
    if question.query.outside == "clip":
        return f"{told}; others are moved there, and counted"
    return f"{told}; one beyond fails the query"
