"""``skyband totals``: the keys of a file with the largest totals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from typing_extensions import override

from skyband.cli import options
from skyband.cli.commands.file_query import Explanation, FileFacts, FileQuery, Given, QueryOptions
from skyband.cli.input import expressions
from skyband.cli.input.source import FileSource
from skyband.cli.output.explanation import (
    UNKNOWN,
    about_bytes,
    held_in,
    opening_lines,
    per_window,
    shared_metrics,
)
from skyband.cli.output.leaderboard import Leaderboard
from skyband.errors import QueryError
from skyband.query import Numbers
from skyband.totals.aggregate import EXPECTED, Aggregate, parsed
from skyband.totals.query import TopKTotals

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.engine.results import Ranked
    from skyband.order import Bools, Scores
    from skyband.spark.files import FileRanking

_BYTES = 200  # that a key takes in a pane, roughly


@dataclass(frozen=True)
class TotalsFileQuery(FileQuery):
    """A query for totals over a file, checked: values, and the columns of keys."""

    @override
    def staged(self, column: pa.Array, name: str) -> tuple[Scores, Bools | None]:
        if self.scale is None:
            return super().staged(column, name)
        null = None
        if column.null_count:
            null, column = np.asarray(column.is_null()), column.fill_null(0)
        return np.array(np.from_dlpack(column)), null

    @override
    def reported(self, ranked: Ranked) -> Ranked:
        return ranked  # of whole numbers, too: the engine adds up such

    @override
    def board(self) -> Leaderboard:
        exact = self.query.by not in ("count", "mean")
        return Leaderboard(self.timed, objects=True, scale=self.scale if exact else None)

    @override
    def pushed(self, batch: pa.RecordBatch) -> Any:
        return batch.select(["value"])

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.engine.adapter import Adapter
        from skyband.totals.monitor import TotalsMonitor

        return partial(Adapter, TotalsMonitor, lambda rows, ids: (ids, rows.column("value")))

    @override
    def on_spark(self) -> FileRanking:
        from skyband.spark.families.totals.file import TotalsFile

        return TotalsFile(self.query, self.algorithm, bool(self.keys))


@dataclass(frozen=True)
class TotalsFileOptions(QueryOptions):
    """The options of ``totals``; ``value`` is what is added up, or ``*``."""

    query: TopKTotals
    key: list[str]
    value: str

    option = "key"
    excludes = ("queries",)
    ranked_by = "value"

    @classmethod
    @override
    def parse(cls, given: Given) -> Self:
        algorithm = options.choice(given.get("algorithm", "auto"), "--algorithm", ("auto",))
        window = options.window_of(given)
        total = _aggregate(given["by"])
        k, emit = options.whole(given["k"], "--k", example=10), options.emit_of(given)
        query = TopKTotals(k, total.by, window, emit)
        keys = given["partition_by"] or []
        value = total.value or "*"
        return cls(given["by"], given["time"], keys, algorithm, query, given["key"], value)

    @override
    def check(self, source: FileSource) -> FileQuery:
        value = self._value(source)
        objects = tuple(expressions.keys(source, self.key, "--key"))
        time, keys = self.time_and_keys(source, self.query.window)
        numbers: Numbers = "float64" if value.scale is None else "int64"
        return TotalsFileQuery(
            replace(self.query, numbers=numbers, scale=value.scale or 0),
            self.algorithm,
            {"value": value.sql},
            time,
            keys,
            objects,
            scale=value.scale,
        )

    def _value(self, source: FileSource) -> expressions.Number:
        """What is added up."""
        if self.value == "*":
            return expressions.Number("1.0")
        if self.query.by == "count":
            return expressions.Number(expressions.presence(source, self.value))
        return expressions.number(source, self.value, way=")", before=f"{self.query.by}(")

    @override
    def look_up(self, source: FileSource, query: FileQuery) -> Any:
        """How many different keys there are."""
        names = ", ".join(key.sql for key in query.objects)
        distinct = f"SELECT DISTINCT {names} FROM {source.scan}"
        return int(source.single(f"SELECT count(*) FROM ({distinct})")[0])

    @override
    def explain(self, facts: FileFacts | None) -> Explanation:
        from skyband.totals.monitor import TotalsMonitor

        plan = TotalsMonitor(self.query).plan
        window = self.query.window
        rows = most = per_window(window, facts)
        lines = opening_lines(self, self.query, facts, plan)
        keys = None if facts is None else facts.more
        if keys is not None:
            lines.append(("keys", f"{keys:,} different {' and '.join(self.key)}"))
        content = UNKNOWN
        if rows is not None:
            if keys is not None:
                panes = 1 if window.panes.together else math.ceil(window.size / window.slide)
                most = min(rows, keys * panes)
            content = (
                f"{held_in(window, rows, 'rows')}; kept is a total of each key in each pane "
                f"that holds it: at most {most:,.0f}, {about_bytes((most or 0) * _BYTES)}"
            )
        metrics = {"key": ", ".join(self.key), "distinct": keys, "partials_most": most}
        return Explanation(
            [*lines, ("rows", content)], metrics | shared_metrics(self, self.query, facts, plan)
        )


FAMILY = TotalsFileOptions


def _aggregate(by: str | None) -> Aggregate:
    """The parts of a total such as ``sum(bytes)``."""
    total = None if by is None else parsed(by)
    if total is None:
        raise QueryError(
            "--key without --by" if by is None else f"--by is {by!r}",
            EXPECTED,
            "write --by 'sum(bytes)', or --by 'count(*)'",
        )
    return total
