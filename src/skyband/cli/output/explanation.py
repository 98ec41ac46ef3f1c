"""How a query would be answered, in words or as JSON: what all families say, and the printing."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from skyband.durations import spoken
from skyband.windows import AllTimeWindow, CountWindow, Window

if TYPE_CHECKING:
    from skyband.cli.commands.file_query import FileFacts, QueryOptions
    from skyband.engine.plan import Plan

Lines = list[tuple[str, str]]

UNKNOWN = "depend on how many rows a window holds: name a FILE to find out"


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print one record, as an array of one."""
    print(json.dumps([metrics], indent=1, ensure_ascii=False))


def print_lines(lines: Lines) -> None:
    """Print names and sentences, side by side."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, sentence in lines:
        table.add_row(name, Text(sentence))
    Console(highlight=False).print(table)


def opening_lines(options: QueryOptions, query: Any, facts: FileFacts | None, plan: Plan) -> Lines:
    """What is told of every query: itself, the file, panes, algorithm and why."""
    each = f", for each {' and '.join(options.partition_by)}" if options.partition_by else ""
    by = f" by {options.by}" if options.by else ""
    lines = [("query", f"{query}{by}{each}{where_words(options)}"), *file_lines(facts)]
    panes = query.window.panes.words(partial(_length, query.window))
    lines += [("panes", panes), ("algorithm", plan.algorithm)]
    return lines + [("" if at else "because", reason) for at, reason in enumerate(plan.reasons)]


def where_words(options: QueryOptions) -> str:
    """Which rows are ranked, if not all."""
    return "" if options.where is None else f", where {options.where}"


def file_lines(facts: FileFacts | None) -> Lines:
    """What is told of a file, if there is one."""
    if facts is None:
        return []
    keys = f", {facts.keys:,} keys" if facts.keys is not None else ""
    return [("file", f"{facts.file}: {facts.rows:,} rows{keys}"), ("columns", facts.columns)]


def shared_metrics(
    options: QueryOptions, query: Any, facts: FileFacts | None, plan: Plan
) -> dict[str, Any]:
    """What is told of every query, as one flat record."""
    window = query.window
    panes = window.panes
    counted = isinstance(window, CountWindow)
    return {
        "query": str(query),
        "window_kind": window.kind,
        "unit": "object" if counted else window.unit,
        "window": None if isinstance(window, AllTimeWindow) else window.size,
        "slide": window.slide,
        "k": query.k,
        "emit": query.emit,
        "by": options.by,
        "where": options.where,
        "partition_by": ", ".join(options.partition_by) or None,
        "rows": None if facts is None else facts.rows,
        "keys": None if facts is None else facts.keys,
        "pane": panes.lengths[0],
        "second_pane": panes.lengths[1] if len(panes.lengths) > 1 else None,
        "panes_per_window": panes.per_window,
        "algorithm": plan.algorithm,
        "reasons": "; ".join(plan.reasons),
        "objects_per_window": per_window(window, facts),
    }


def per_window(window: Window, facts: FileFacts | None) -> float | None:
    """How many rows a window holds, on average; None if nobody can know."""
    if isinstance(window, CountWindow):
        return float(window.size)
    if facts is None or facts.span is None or not facts.rows:
        return None
    rows = facts.rows / (facts.keys or 1)
    return max(1.0, min(rows, rows * window.size / max(facts.span, 1)))


def held_in(window: Window, rows: float, what: str) -> str:
    """How much a window holds, and a slide brings, in words."""
    slide = rows * window.slide / window.size
    per_slide = f"{slide:,.0f}" if slide >= 10 else f"{slide:.2g}"
    return f"{rows:,.0f} {what} per window, {per_slide} per slide"


def about_bytes(bytes: float) -> str:
    """So many bytes, in words."""
    return f"about {bytes / 1e6:,.1f} MB" if bytes >= 1e6 else f"about {bytes / 1e3:,.1f} kB"


def _length(window: Window, length: int) -> str:
    if isinstance(window, CountWindow):
        return f"{length:,} object{'' if length == 1 else 's'}"
    return spoken(length) if window.unit == "us" else f"{length:,} ticks"
