"""``skyband dominating``: the points of a file that dominate the most others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from skyband.cli import options
from skyband.cli.commands.file_query import Explanation, FileFacts, FileQuery, Given, QueryOptions
from skyband.cli.input import expressions
from skyband.cli.input.source import FileSource
from skyband.cli.output.explanation import (
    UNKNOWN,
    held_in,
    opening_lines,
    per_window,
    shared_metrics,
)
from skyband.cli.output.leaderboard import Leaderboard
from skyband.dominating import ALGORITHMS
from skyband.dominating.query import Direction, TopKDominating
from skyband.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.spark.files import FileRanking


@dataclass(frozen=True)
class DominatingFileQuery(FileQuery):
    """A top-k dominating query over a file, checked: a number for each dimension."""

    @override
    def pushed(self, batch: pa.RecordBatch) -> Any:
        import pyarrow as pa

        columns = [batch.column(name) for name in self.numbers]
        return pa.RecordBatch.from_arrays(columns, list(self.query.names))

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.dominating.monitor import DominatingMonitor

        return DominatingMonitor

    @override
    def on_spark(self) -> FileRanking:
        from skyband.spark.families.dominating.file import DominatingFile

        return DominatingFile(self.query, self.algorithm, bool(self.keys))

    @override
    def board(self) -> Leaderboard:
        """What takes the answers; scores tell what is dominated in the same window."""
        return Leaderboard(self.timed, relative=True)


@dataclass(frozen=True)
class DominatingFileOptions(QueryOptions):
    """The options of ``dominating``."""

    query: TopKDominating

    option = "on"
    excludes = ("by", "queries", "id", "key")
    ranked_by = "attribute"

    @classmethod
    @override
    def parse(cls, given: Given) -> Self:
        query = TopKDominating(
            options.whole(given["k"], "--k", example=10),
            [_dimension(text) for text in given["on"]],
            options.window_of(given),
            options.emit_of(given),
            **options.order_of(given),
        )
        algorithm = options.choice(given["algorithm"], "--algorithm", ("auto", *ALGORITHMS))
        return cls(None, given["time"], given["partition_by"] or [], algorithm, query)

    @override
    def check(self, source: FileSource) -> FileQuery:
        numbers = {
            f"number_{at}": expressions.score(source, name, "--on", f":{way}")
            for at, (name, way) in enumerate(self.query.dimensions)
        }
        time, keys = self.time_and_keys(source, self.query.window)
        return DominatingFileQuery(self.query, self.algorithm, numbers, time, keys)

    @override
    def explain(self, facts: FileFacts | None) -> Explanation:
        from skyband.dominating.monitor import DominatingMonitor

        monitor: Any = DominatingMonitor
        plan = monitor(self.query, self.algorithm).plan
        points = per_window(self.query.window, facts)
        content = UNKNOWN
        if points is not None:
            content = (
                f"{held_in(self.query.window, points, 'points')}, all of them kept: each counts"
            )
        ways = ", ".join(f"{name}:{way}" for name, way in self.query.dimensions)
        return Explanation(
            [*opening_lines(self, self.query, facts, plan), ("points", content)],
            {"on": ways} | shared_metrics(self, self.query, facts, plan),
        )


FAMILY = DominatingFileOptions


def _dimension(text: str) -> tuple[str, Direction]:
    """An attribute and its direction, as in ``price:min``; the attribute may be an expression."""
    name, _, way = text.rpartition(":")
    if not name.strip() or way.strip() not in ("min", "max"):
        fix = f"write --on {quote(f'{name or text}:min')}, or :max where more is better"
        raise QueryError(f"--on is {text!r}", "an attribute and min or max", fix)
    return name.strip(), "min" if way.strip() == "min" else "max"
