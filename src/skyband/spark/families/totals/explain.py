"""How Spark would answer a query for totals, in words: what is added up where."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import BinaryType, StringType

from skyband.spark.families.totals.partials import layout
from skyband.spark.families.totals.plan import TotalsQuestion

Words = list[tuple[str, str]]
_TEXT = 24  # assumed bytes of a text
_ADDED = {
    "rows": "rows, counted",
    "extremes": "the largest or least value of each",
    "ints": "whole numbers, whose sums are exact",
    "longs": "whole numbers in two parts, whose sums are exact",
    "doubles": "doubles cut into whole numbers, so that sums are exact in any order",
}


def figures(question: TotalsQuestion, panes: int) -> dict[str, Any]:
    """The numbers of a plan, by name; how many keys there are, only the stream knows."""
    return {
        "path": "shards",
        "total": str(question.told),
        "slide": question.query.window.slide,
        "panes_per_window": panes,
        "shards": question.shards,
        "bytes_per_key_and_pane": _bytes(question),
    }


def words(question: TotalsQuestion) -> Words:
    """Who adds up, what is kept, and what a slide costs."""
    shards, k, keys = question.shards, question.query.k, question.keys
    each = f" for each {' and '.join(keys)}" if keys else ""
    key = " and ".join(column.name for column in question.kept)
    told: Words = [
        ("total", f"{question.told} of each {key}{each}: {_ADDED[question.held]}"),
        ("before the shuffle", f"each task adds up its rows of a {key} and pane"),
        ("path", f"{shards} shard{'s' if shards > 1 else ''}{each}: each {key} is in one of them"),
        ("", "a slide costs the pane that comes and the one that goes, not the window"),
        ("state", f"each {key} of each pane of the window, about {_bytes(question)} bytes;"),
        ("", "a pane is written once; workers remember the totals, or add panes up again"),
    ]
    if shards > 1:
        told.append(("ranking", f"the {k:,} best of each shard, merged; no task sees all keys"))
    return told


def _bytes(question: TotalsQuestion) -> int:
    texts = (StringType, BinaryType)
    fields = layout(question).fields
    return sum(_TEXT if isinstance(field.dataType, texts) else 8 for field in fields)
