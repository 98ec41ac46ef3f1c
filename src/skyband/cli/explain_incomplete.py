"""``skyband explain --id``: how a query over incomplete streams would be answered."""

from __future__ import annotations

from skyband.cli import explain, top
from skyband.cli.incomplete import Asked, Question, question
from skyband.cli.reading import Source
from skyband.errors import QueryError

_BYTES = 500  # that a row takes which is kept by object, roughly
_PLAIN = 32  # of a row that is only kept


def run(file: str | None, asked: Asked, as_json: bool) -> None:
    """Print the plan of a query, with what the file tells if there is one."""
    from skyband.incomplete.monitor import IncompleteMonitor

    if file is None and asked.streams is None:
        raise QueryError("neither FILE nor --streams", "the streams", "add --streams north,south")
    seen, checked = explain.looked_at(file, lambda source: _look(source, asked))
    query = asked.query(asked.streams or ()) if checked is None else checked.query
    chosen = IncompleteMonitor(query, asked.algorithm, options=asked.options or None).plan
    plain = top.Asked(None, asked.time, asked.partition_by, asked.algorithm, query)  # type: ignore[arg-type]
    rows = explain.objects_per_window(plain, seen)
    most = None if rows is None else rows * (_PLAIN if chosen.algorithm == "recompute" else _BYTES)
    if as_json:
        own = {
            "id": ", ".join(asked.id),
            "stream": asked.stream,
            "value": asked.value,
            "streams": ", ".join(query.streams),
            "bounds": ", ".join(
                f"{low:g}:{high:g}" for low, high in zip(query.low, query.high, strict=True)
            ),
            "repeats": query.repeats if isinstance(query.repeats, str) else f"sum:{query.most}",
            "state_bytes_most": most,
        }
        explain.print_record(own | explain.record(plain, seen, chosen, rows))
        return
    words = explain.opening(plain, seen, chosen)
    bounds = dict.fromkeys(zip(query.low.tolist(), query.high.tolist(), strict=True))
    for at, (low, high) in enumerate(bounds):
        alike = [name for name in query.streams if asked.bounds_of(name) == (low, high)]
        names = "all" if len(bounds) == 1 else ", ".join(alike)
        words.append(("" if at else "streams", f"{names}: values from {low:g} to {high:g}"))
    words += [("", note) for note in (() if checked is None else checked.notes)]
    held = "depend on how many rows a window holds: name a FILE to find out"
    if rows is not None and most is not None:
        kept = "all of them" if chosen.algorithm in ("recompute", "sla") else "at most all of them"
        held = f"{explain.held_in(plain, rows, 'rows')}; kept are {kept}: {explain.size(most)}"
    explain.show([*words, ("rows", held)])


def _look(source: Source, asked: Asked) -> tuple[explain.Seen, Question]:
    return explain.counted(source, asked.time, asked.partition_by), question(source, asked)
