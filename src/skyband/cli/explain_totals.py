"""``skyband explain --key``: how a query for totals would be answered."""

from __future__ import annotations

import math

from skyband.cli import explain, expressions
from skyband.cli.reading import Source
from skyband.cli.totals import Asked, question

_BYTES = 200  # that a key takes in a pane, roughly


def run(file: str | None, asked: Asked, as_json: bool) -> None:
    """Print the plan of a query, with what the file tells if there is one."""
    from skyband.totals.monitor import TotalsMonitor

    seen, keys = explain.looked_at(file, lambda source: _look(source, asked))
    chosen = TotalsMonitor(asked.query).plan
    rows = explain.objects_per_window(asked, seen)
    most = rows
    if rows is not None and keys is not None:
        most = min(rows, keys * math.ceil(asked.query.window.size / asked.query.window.slide))
    if as_json:
        own = {"key": ", ".join(asked.key), "distinct": keys, "partials_most": most}
        explain.print_record(own | explain.record(asked, seen, chosen, rows))
        return
    held = "depend on how many rows a window holds: name a FILE to find out"
    if rows is not None and most is not None:
        held = (
            f"{explain.held_in(asked, rows, 'rows')}; kept is a total of each key in each pane "
            f"that holds it: at most {most:,.0f}, {explain.size(most * _BYTES)}"
        )
    words = explain.opening(asked, seen, chosen)
    if keys is not None:
        words.append(("keys", f"{keys:,} different {' and '.join(asked.key)}"))
    explain.show([*words, ("rows", held)])


def _look(source: Source, asked: Asked) -> tuple[explain.Seen, int]:
    question(source, asked)
    names = ", ".join(key.quoted for key in expressions.keys(source, asked.key, "--key"))
    (count,) = source.single(f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM {source.scan})")
    return explain.counted(source, asked.time, asked.partition_by), int(count)
