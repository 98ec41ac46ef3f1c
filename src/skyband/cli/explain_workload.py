"""``skyband explain --queries``: what the queries of a workload share, and what it saves."""

from __future__ import annotations

import dataclasses

from skyband.cli import explain
from skyband.cli.reading import Source
from skyband.cli.workload import Asked, question
from skyband.workload import chosen
from skyband.workload.estimates import Estimate, estimate
from skyband.workload.queries import Workload


def run(file: str | None, asked: Asked, as_json: bool) -> None:
    """Print the plan of a workload, with what the file tells if there is one."""
    workload = asked.workload()
    seen, _ = explain.looked_at(file, lambda source: (_look(source, asked), None))
    rate = 1.0 if workload.counted else None
    if seen is not None and seen.span is not None:
        rate = seen.rows / max(seen.span, 1)
    guess = None if rate is None else estimate(workload, rate)
    algorithm = chosen(asked.algorithm, workload.queries.values())
    if as_json:
        record = {"workload": str(workload), "algorithm": algorithm, "by": asked.by}
        numbers = {} if guess is None else dataclasses.asdict(guess)
        explain.print_record(record | numbers)
        return
    explain.show(_words(workload, asked, seen, algorithm, guess))


def _look(source: Source, asked: Asked) -> explain.Seen:
    question(source, asked)
    return explain.counted(source, asked.time, [])


def _words(
    workload: Workload,
    asked: Asked,
    seen: explain.Seen | None,
    algorithm: str,
    guess: Estimate | None,
) -> list[tuple[str, str]]:
    words = [("workload", str(workload) + (f"; by {asked.by}" if asked.by else ""))]
    if seen is not None:
        words += [("file", f"{seen.file}: {seen.rows:,} rows"), ("columns", seen.columns)]
    words.append(("algorithm", algorithm))
    words.append(("because", _REASONS[algorithm]))
    if guess is None:
        words.append(
            ("rows kept", "depend on how many rows a window holds: name a FILE to find out")
        )
        return words
    saved = guess.independent / max(guess.shared, 1)
    return [
        *words,
        ("windows", f"about {guess.windows:,} open at a time, of {guess.queries:,} queries"),
        ("views", f"at most {guess.views:,} different starts: windows that start together share"),
        ("panes", f"at most {guess.boundaries:,} in the longest window, of adaptive length"),
        ("rows kept", f"about {guess.shared:,} by all queries as one, for scores in random order"),
        ("", f"about {guess.independent:,} by each query for itself: {saved:,.1f} times as many;"),
        ("", "fewer where slides are long"),
    ]


_REASONS = {
    "independent": "each query by itself: so few cost less alone, or it was asked for by name",
    "mtopband": "asked for by name: a ranked list for each view",
    "mtoplist": "asked for by name: one ranked list for all views, row by row",
    "mtopmerge": "one ranked list for all queries, brought up to date in bulk",
}
