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
from skyband.engine.columns import number_column
from skyband.errors import QueryError
from skyband.totals.aggregate import EXPECTED, Aggregate, parsed
from skyband.totals.query import By, TopKTotals, Total

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.engine.results import Ranked
    from skyband.order import Bools, Scores
    from skyband.spark.files import FileRanking

_BYTES = 200  # that a key takes in a pane, roughly


@dataclass(frozen=True)
class TotalsFileQuery(FileQuery):
    """A query for totals over a file, checked: values, and the columns of keys.

    ``scales`` are those of the totals that are carried, in the order of the query's; None if their
    values are floats.
    """

    scales: tuple[int | None, ...] = ()

    @override
    def staged(self, column: pa.Array, name: str) -> tuple[Scores, Bools | None]:
        scales = dict(zip(self.numbers, (self.scale, *self.scales), strict=True))
        if scales[name] is None:
            return number_column(column, "float64", name)
        null = None
        if column.null_count:
            null, column = np.asarray(column.is_null()), column.fill_null(0)
        return np.array(np.from_dlpack(column)), null

    @override
    def reported(self, ranked: Ranked) -> Ranked:
        return ranked  # of whole numbers, too: the engine adds up such

    @override
    def board(self) -> Leaderboard:
        totals = (self.query.total, *self.query.carried.values())
        scales = [
            None if total.by in ("count", "mean") else scale
            for total, scale in zip(totals, (self.scale, *self.scales), strict=True)
        ]
        also = dict(zip(self.query.also, scales[1:], strict=True))
        return Leaderboard(self.timed, objects=True, scale=scales[0], also=also)

    @override
    def pushed(self, batch: pa.RecordBatch) -> Any:
        return batch.select(list(self.numbers))

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.engine.adapter import Adapter
        from skyband.totals.monitor import TotalsMonitor

        names = list(self.query.also)

        def columns_of(rows: pa.RecordBatch, ids: Any) -> tuple[Any, ...]:
            value, *also = rows.columns
            return ids, value, dict(zip(names, also, strict=True))

        return partial(Adapter, TotalsMonitor, columns_of)

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
    also: dict[str, Aggregate]

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
        also = _also(given.get("also") or [])
        kinds = {name: aggregate.by for name, aggregate in also.items()}
        query = TopKTotals(k, total.by, window, emit, also=kinds, **options.order_of(given))
        keys = given["partition_by"] or []
        value = total.value or "*"
        return cls(given["by"], given["time"], keys, algorithm, query, given["key"], value, also)

    @override
    def check(self, source: FileSource) -> FileQuery:
        value = _number(source, Aggregate(self.query.by, self.value), "--by")
        also = [
            _number(source, aggregate, "--also", f"{name}=")
            for name, aggregate in self.also.items()
        ]
        objects = tuple(expressions.keys(source, self.key, "--key"))
        time, keys = self.time_and_keys(source, self.query.window)
        for column in (*objects, *keys):
            if column.name.lower() in map(str.lower, self.also):
                raise QueryError(
                    f"--also has a column called {column.name!r}, as a key", "different names"
                )
        kinds = zip(self.query.carried.items(), also, strict=True)
        totals = {name: _total(total.by, number) for (name, total), number in kinds}
        ranked = _total(self.query.by, value)
        return TotalsFileQuery(
            replace(self.query, numbers=ranked.numbers, scale=ranked.scale, also=totals),
            self.algorithm,
            {"value": value.sql, **{f"also_{at}": number.sql for at, number in enumerate(also)}},
            time,
            keys,
            objects,
            scale=value.scale,
            scales=tuple(number.scale for number in also),
        )

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
        if self.also:
            words = ", ".join(f"{aggregate} AS {name}" for name, aggregate in self.also.items())
            lines.append(("also", f"{words}: of the ranked keys, added up beside what ranks"))
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


def _also(given: list[str]) -> dict[str, Aggregate]:
    """Further totals by name, such as ``orders=count(*)``."""
    also: dict[str, Aggregate] = {}
    for text in given:
        name, _, by = text.partition("=")
        aggregate, name = parsed(by), name.strip()
        if aggregate is None or not name or name.lower() in map(str.lower, also):
            raise QueryError(
                f"--also is {text!r}",
                f"a name of its own and a total: {EXPECTED}",
                "write --also 'orders=count(*)'",
            )
        also[name] = aggregate
    return also


def _number(
    source: FileSource, aggregate: Aggregate, option: str, before: str = ""
) -> expressions.Number:
    """What is added up."""
    if aggregate.value in (None, "*"):
        return expressions.Number("1.0")
    if aggregate.by == "count":
        return expressions.Number(expressions.presence(source, aggregate.value, option))
    before = f"{before}{aggregate.by}("
    return expressions.number(source, aggregate.value, option, way=")", before=before)


def _total(by: By, number: expressions.Number) -> Total:
    """A total of values, in the numbers that keep them exact."""
    return Total(by, "float64" if number.scale is None else "int64", number.scale or 0)
