"""``skyband explain --on``: how a top-k dominating query would be answered."""

from __future__ import annotations

from typing import Any

from skyband.cli import explain
from skyband.cli.dominating import Asked, question
from skyband.cli.reading import Source


def run(file: str | None, asked: Asked, as_json: bool) -> None:
    """Print the plan of a query, with what the file tells if there is one."""
    from skyband.dominating.monitor import DominatingMonitor

    seen, _ = explain.looked_at(file, lambda source: (_look(source, asked), None))
    kind: type[Any] = DominatingMonitor
    chosen = kind(asked.query, asked.algorithm).plan
    objects = explain.objects_per_window(asked, seen)
    ways = ", ".join(f"{name}:{way}" for name, way in asked.query.dimensions)
    if as_json:
        explain.print_record({"on": ways} | explain.record(asked, seen, chosen, objects))
        return
    held = "depend on how many rows a window holds: name a FILE to find out"
    if objects is not None:
        held = f"{explain.held_in(asked, objects, 'points')}, all of them kept: each counts"
    explain.show([*explain.opening(asked, seen, chosen), ("points", held)])


def _look(source: Source, asked: Asked) -> explain.Seen:
    question(source, asked)
    return explain.counted(source, asked.time, asked.partition_by)
