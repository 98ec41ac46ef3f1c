"""``skyband totals``: the keys of a file with the largest totals, window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from skyband.cli import expressions, objects, options, progress, ranking, top
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.reading import Source
from skyband.engine.adapter import Adapter, AnyMonitor
from skyband.errors import QueryError
from skyband.totals.aggregate import EXPECTED, Aggregate, parsed
from skyband.totals.query import TopKTotals

if TYPE_CHECKING:
    from skyband.windows import Window


@dataclass(frozen=True)
class Asked(top.Asked):
    """What ``totals`` and ``explain --key`` ask, in the words of the command line."""

    query: TopKTotals  # type: ignore[assignment]
    key: list[str]
    of: str


def asked(
    by: str | None,
    key: list[str],
    k: str,
    window: Window,
    emit: str,
    time: str | None,
    partition_by: list[str] | None,
) -> Asked:
    """Check what the options ask for, before any file is opened."""
    total = aggregate(by)
    query = TopKTotals(options.whole(k, "--k", example=10), total.by, window, options.emitted(emit))
    return Asked(by, time, partition_by or [], "auto", query, key, total.value or "*")


def aggregate(by: str | None) -> Aggregate:
    """The parts of a total such as ``sum(bytes)``."""
    found = None if by is None else parsed(by)
    if found is None:
        raise QueryError(
            "--key without --by" if by is None else f"--by is {by!r}",
            EXPECTED,
            "write --by 'sum(bytes)', or --by 'count(*)'",
        )
    return found


@dataclass(frozen=True)
class Question(objects.Question):
    """A query for totals over a file, checked: SQL for values, columns for keys."""

    query: TopKTotals  # type: ignore[assignment]

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What answers the query."""
        from skyband.totals.monitor import TotalsMonitor

        return partial(Adapter, TotalsMonitor, lambda rows, ids: (ids, rows.column("value")))


def question(source: Source, asked: Asked) -> Question:
    """Check what is asked against the file's columns."""
    if asked.of == "*":
        value = "1"
    elif asked.query.by == "count":
        value = expressions.presence(source, asked.of)
    else:
        value = expressions.score(source, asked.of, way=")", before=f"{asked.query.by}(")
    apart = expressions.keys(source, asked.key, "--key")
    time, keys = top.time_and_keys(source, asked.time, asked.query.window, asked.partition_by)
    return Question(asked.query, asked.algorithm, value, time, keys, tuple(apart))


def run(file: str, asked: Asked, engine: top.Engine, format: str | None, out: str | None) -> None:
    """Read a file, rank the keys of its windows by their totals, print them."""
    checked: Question

    def answer(source: Source) -> Leaderboard:
        nonlocal checked
        checked = question(source, asked)
        if engine.runs_spark(file):
            from skyband.cli import on_spark

            return on_spark.rank_totals(source, checked, engine.master)
        with progress.rows_done("ranking", source.known_rows) as watch:
            return ranking.rank(source, checked, watch)

    format = top.chosen_format(format, out, file)
    changes = asked.query.emit == "changes"
    top.printed(
        file,
        answer,
        format,
        out,
        asked.partition_by,
        changes,
        "value",
        lambda source, objects: checked.cells(source, objects),
    )
