"""``skyband dominating``: the points of a file that dominate the most others, window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.cli import expressions, options, progress, ranking, top
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.reading import Source
from skyband.dominating import ALGORITHMS
from skyband.dominating.query import Direction, TopKDominating
from skyband.engine.adapter import AnyMonitor
from skyband.errors import QueryError
from skyband.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Asked(top.Asked):
    """What ``dominating`` and ``explain --on`` ask, in the words of the command line."""

    query: TopKDominating  # type: ignore[assignment]


def asked(
    on: list[str],
    k: str,
    window: Window,
    emit: str,
    time: str | None,
    partition_by: list[str] | None,
    algorithm: str,
) -> Asked:
    """Check what the options ask for, before any file is opened."""
    query = TopKDominating(
        options.whole(k, "--k", example=10),
        [_dimension(text) for text in on],
        window,
        options.emitted(emit),
    )
    options.choice(algorithm, "--algorithm", ("auto", *ALGORITHMS))
    return Asked(None, time, partition_by or [], algorithm, query)


def _dimension(text: str) -> tuple[str, Direction]:
    """An attribute and its direction, as in ``price:min``; the attribute may be an expression."""
    name, _, way = text.rpartition(":")
    if not name.strip() or way.strip() not in ("min", "max"):
        fix = f"write --on {name or text}:min, or :max where more is better"
        raise QueryError(f"--on is {text!r}", "an attribute and min or max", fix)
    return name.strip(), "min" if way.strip() == "min" else "max"


@dataclass(frozen=True)
class Question(ranking.Question):
    """A top-k dominating query over a file, checked: SQL for each dimension."""

    query: TopKDominating  # type: ignore[assignment]
    dimensions: tuple[str, ...] = ()

    @property
    def numbers(self) -> dict[str, str]:
        """The dimensions: columns and their SQL."""
        return {f"number_{at}": sql for at, sql in enumerate(self.dimensions)}

    def pushed(self, batch: pa.RecordBatch) -> Any:
        """The dimensions by the names that the query has for them."""
        import pyarrow as pa

        columns = [batch.column(name) for name in self.numbers]
        return pa.RecordBatch.from_arrays(columns, list(self.query.names))

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What answers the query."""
        from skyband.dominating.monitor import DominatingMonitor

        return DominatingMonitor

    def board(self) -> Leaderboard:
        """What takes the answers; scores tell what is dominated in the same window."""
        return Leaderboard(ranking.timed(self.query.window), relative=True)


def question(source: Source, asked: Asked) -> Question:
    """Check what is asked against the file's columns."""
    sql = tuple(
        expressions.score(source, name, "--on", f":{way}") for name, way in asked.query.dimensions
    )
    time, keys = top.time_and_keys(source, asked.time, asked.query.window, asked.partition_by)
    return Question(asked.query, asked.algorithm, "", time, keys, sql)


def run(file: str, asked: Asked, engine: top.Engine, format: str | None, out: str | None) -> None:
    """Read a file, find the dominating points of its windows, print them."""

    def answer(source: Source) -> Leaderboard:
        checked = question(source, asked)
        if engine.runs_spark(file):
            from skyband.cli import on_spark

            return on_spark.rank_dominating(source, checked, engine.master)
        with progress.rows_done("ranking", source.known_rows) as watch:
            return ranking.rank(source, checked, watch)

    format = top.chosen_format(format, out, file)
    changes = asked.query.emit == "changes"
    top.printed(file, answer, format, out, asked.partition_by, changes, "attribute")
