"""``skyband explain``: panes, algorithm and why, expected candidates; in words or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from skyband.cli import expressions, options
from skyband.cli.reading import MisreadError, Source
from skyband.cli.top import Asked, question
from skyband.durations import spoken
from skyband.engine.columns import score_column
from skyband.engine.plan import Plan
from skyband.errors import QueryError
from skyband.order import Floats
from skyband.topk.planner import plan
from skyband.windows import CountWindow, Panes, TimeWindow


@dataclass(frozen=True)
class Seen:
    """What a file tells: its rows, the time they span (time windows) and its keys."""

    file: str
    columns: str
    rows: int
    span: int | None
    keys: int | None


@dataclass(frozen=True)
class Expected:
    """Objects per window, and candidates of each algorithm for scores in random order."""

    window: float
    slide: float
    kskyband: int
    mintopk: int
    mintopk_most: int
    sap: int


def is_job(file: str | None, physical: bool, given: bool) -> bool:
    """Whether a file is a job, whose query is its own; ``given``: options of a query were."""
    job = file is not None and file.lower().endswith((".yaml", ".yml"))
    if job and given:
        raise QueryError(
            f"options of a query were given with the job {file}",
            "the query that is in the job",
            "leave them out",
        )
    if physical and not job:
        raise QueryError(
            "--physical was given without a job", "a job file", "write skyband explain JOB.yaml"
        )
    return job


def run(file: str | None, asked: Asked, as_json: bool) -> None:
    """Print the plan of a query, with what the file tells if there is one."""
    seen, scores = looked_at(
        file, lambda source: (look(source, asked), first_scores(source, asked))
    )
    chosen = (
        plan(asked.query, scores)
        if asked.algorithm == "auto"
        else Plan(asked.algorithm, ("asked for by name",))
    )
    objects = objects_per_window(asked, seen)
    guess = None if objects is None else expected(asked, objects)
    if as_json:
        print_record(record(asked, seen, chosen, objects) | _candidates(guess))
        return
    show(_words(asked, seen, chosen, guess))


Look = TypeVar("Look")


def looked_at(
    file: str | None, look: Callable[[Source], tuple[Seen, Look]]
) -> tuple[Seen, Look] | tuple[None, None]:
    """What a file tells, if there is one; looked at twice if types were misjudged at first."""
    if file is None:
        return None, None
    with Source(file) as source:
        try:
            return look(source)
        except MisreadError:
            source.look_at_all()
            return look(source)


def print_record(record: dict[str, Any]) -> None:
    """Print one record, as an array of one."""
    print(json.dumps([record], indent=1, ensure_ascii=False))


def show(lines: list[tuple[str, str]]) -> None:
    """Print names and sentences, side by side."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in lines:
        table.add_row(name, Text(words))
    Console(highlight=False).print(table)


def first_scores(source: Source, asked: Asked) -> Floats | None:
    """The scores that ``auto`` would decide on, if the engine would look at them."""
    if asked.by is None or asked.time is not None or asked.partition_by:
        return None
    batch = next(iter(source.rows(question(source, asked).numbers, None, [])), None)
    return None if batch is None else score_column(batch.column("score"))[0]


def look(source: Source, asked: Asked) -> Seen:
    """Check what is asked against a file, and count what matters in it."""
    if asked.by is not None:
        question(source, asked)
    if asked.time is not None:
        found = expressions.time(source, asked.time)
        if found.integers is not None:
            options.require_unit(asked.query.window, found.integers, asked.time)
    return counted(source, asked.time, asked.partition_by)


def counted(source: Source, time: str | None, partition_by: list[str]) -> Seen:
    """Count the rows of a file, the time that they span, and the keys."""
    parts = ["count(*)", "NULL", "NULL"]
    if time is not None:
        found = expressions.time(source, time)
        parts[1] = f"max({found.sql}) - min({found.sql})"
    keys = expressions.keys(source, partition_by)
    if keys:
        names = ", ".join(key.quoted for key in keys)
        parts[2] = f"(SELECT count(*) FROM (SELECT DISTINCT {names} FROM {source.scan}))"
    rows, span, distinct = source.single(f"SELECT {', '.join(parts)} FROM {source.scan}")
    return Seen(source.shown, source.described(), rows, span, distinct)


def objects_per_window(asked: Asked, seen: Seen | None) -> float | None:
    """How many objects a window holds, on average; None if nobody can know."""
    window = asked.query.window
    if isinstance(window, CountWindow):
        return float(window.size)
    if seen is None or seen.span is None or not seen.rows:
        return None
    rows = seen.rows / (seen.keys or 1)
    return max(1.0, min(rows, rows * window.size / max(seen.span, 1)))


def expected(asked: Asked, objects: float) -> Expected:
    """Candidates for scores in random order.

    Of the j-th newest of m equal parts of a window k/j objects are among the k best since then, so
    k(1/1 + 1/2 + ... + 1/m) are kept: the k-skyband has single objects for parts, which makes it
    k(1 + ln(n/k)); MinTopk has slides; SAP has m* = ceil(sqrt(n / max(s, k))) partitions. In the
    worst case MinTopk keeps k for each of the ceil(n/s) open windows.
    """
    k, window = asked.query.k, asked.query.window
    slide = objects * window.slide / window.size
    slides = math.ceil(window.size / window.slide)
    skyband = k * (1 + math.log(objects / k)) if objects > k else objects
    mintopk = min(skyband, k * _harmonic(slides))
    sap = min(skyband, k * _harmonic(math.ceil(math.sqrt(objects / max(slide, k)))))
    counts = (skyband, mintopk, k * slides, sap)
    return Expected(objects, slide, *(math.ceil(min(objects, count)) for count in counts))


def _harmonic(terms: int) -> float:
    """1/1 + 1/2 + ... + 1/terms."""
    if terms < 100:
        return sum(1 / term for term in range(1, terms + 1))
    return math.log(terms) + 0.5772156649015329 + 1 / (2 * terms)


def _words(
    asked: Asked, seen: Seen | None, chosen: Plan, guess: Expected | None
) -> list[tuple[str, str]]:
    words = opening(asked, seen, chosen)
    if guess is None:
        words.append(
            ("candidates", "depend on how many objects a window holds: name a FILE to find out")
        )
        return words
    held = held_in(asked, guess.window, "objects")
    most = f"at most {guess.mintopk_most:,}, k for each open window"
    words += [
        ("candidates", f"{held}; of scores in random order are kept:"),
        ("", f"k-skyband: about {guess.kskyband:,}, by single objects"),
        ("", f"MinTopk: about {guess.mintopk:,}, by slides; {most}"),
        ("", f"SAP: about {guess.sap:,}, by partitions"),
    ]
    return words


def opening(asked: Asked, seen: Seen | None, chosen: Plan) -> list[tuple[str, str]]:
    """What is told of every query: itself, the file, panes, algorithm and why."""
    each = f", for each {' and '.join(asked.partition_by)}" if asked.partition_by else ""
    by = f" by {asked.by}" if asked.by else ""
    words = [("query", f"{asked.query}{by}{each}")]
    if seen is not None:
        keys = f", {seen.keys:,} keys" if seen.keys is not None else ""
        words.append(("file", f"{seen.file}: {seen.rows:,} rows{keys}"))
        words.append(("columns", seen.columns))
    words.append(("panes", _panes(asked)))
    words.append(("algorithm", f"{chosen.algorithm}"))
    return words + [("" if at else "because", reason) for at, reason in enumerate(chosen.reasons)]


def held_in(asked: Asked, objects: float, what: str) -> str:
    """How much a window holds, and a slide brings, in words."""
    window = asked.query.window
    slide = objects * window.slide / window.size
    per_slide = f"{slide:,.0f}" if slide >= 10 else f"{slide:.2g}"
    return f"{objects:,.0f} {what} per window, {per_slide} per slide"


def size(bytes: float) -> str:
    """So many bytes, in words."""
    return f"about {bytes / 1e6:,.1f} MB" if bytes >= 1e6 else f"about {bytes / 1e3:,.1f} kB"


def _panes(asked: Asked) -> str:
    """Lengths of the panes and how many make a window."""
    window = asked.query.window
    lengths = [_length(window, length) for length in _pane_lengths(asked)]
    count = _panes_per_window(asked)
    if len(lengths) == 1:
        return f"{lengths[0]} each, {count:,} in a window"
    return (
        f"{lengths[0]} and {lengths[1]} in turn, {count:,} in a window: "
        "the slide does not divide the window"
    )


def _length(window: CountWindow | TimeWindow, length: int) -> str:
    if isinstance(window, CountWindow):
        return f"{length:,} object{'' if length == 1 else 's'}"
    return spoken(length) if window.unit == "us" else f"{length:,} ticks"


def _pane_lengths(asked: Asked) -> tuple[int, ...]:
    window = asked.query.window
    return Panes(window.size, window.slide).lengths


def _panes_per_window(asked: Asked) -> int:
    window = asked.query.window
    whole, rest = divmod(window.size, window.slide)
    return 2 * whole + 1 if rest else whole


def record(asked: Asked, seen: Seen | None, chosen: Plan, objects: float | None) -> dict[str, Any]:
    """What is told of every query, as one flat record."""
    window = asked.query.window
    lengths = _pane_lengths(asked)
    counted = isinstance(window, CountWindow)
    return {
        "query": str(asked.query),
        "window_kind": "count" if counted else "time",
        "unit": "object" if isinstance(window, CountWindow) else window.unit,
        "window": window.size,
        "slide": window.slide,
        "k": asked.query.k,
        "emit": asked.query.emit,
        "by": asked.by,
        "partition_by": ", ".join(asked.partition_by) or None,
        "rows": None if seen is None else seen.rows,
        "keys": None if seen is None else seen.keys,
        "pane": lengths[0],
        "second_pane": lengths[1] if len(lengths) > 1 else None,
        "panes_per_window": _panes_per_window(asked),
        "algorithm": chosen.algorithm,
        "reasons": "; ".join(chosen.reasons),
        "objects_per_window": objects,
    }


def _candidates(guess: Expected | None) -> dict[str, Any]:
    return {
        "candidates_kskyband": None if guess is None else guess.kskyband,
        "candidates_mintopk": None if guess is None else guess.mintopk,
        "candidates_mintopk_most": None if guess is None else guess.mintopk_most,
        "candidates_sap": None if guess is None else guess.sap,
    }
