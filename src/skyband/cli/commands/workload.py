"""``skyband workload``: the ranked windows of a file, of many queries at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from skyband.cli import options
from skyband.cli.commands.file_query import (
    Explanation,
    FileFacts,
    FileQuery,
    Given,
    QueryOptions,
    capped_query,
)
from skyband.cli.input import expressions
from skyband.cli.input.source import FileSource
from skyband.cli.output.explanation import UNKNOWN, file_lines, where_words
from skyband.cli.output.leaderboard import Leaderboard
from skyband.errors import QueryError
from skyband.windows import TimeWindow, Window, require_answerable
from skyband.workload import can_share, chosen, known
from skyband.workload.queries import SCORE, Workload

if TYPE_CHECKING:
    from skyband.engine.adapter import AnyMonitor
    from skyband.engine.results import Ranked
    from skyband.order import Ints
    from skyband.spark.files import FileRanking

_ONE_QUERY = {  # options that a workload's file has in their place
    "last": None,
    "window": None,
    "slide": None,
    "offset": None,
    "cumulative": None,
    "all_time": False,
    "every": None,
    "partition_by": None,
    "full": False,
    "k": "10",
    "ties": "newest",
    "rank_by": "row_number",
}
_REASONS = {
    "independent": "each query by itself: so few cost less alone, or it was asked for by name",
    "mtopband": "asked for by name: a ranked list for each view",
    "mtoplist": "asked for by name: one ranked list for all views, row by row",
    "mtopmerge": "one ranked list for all queries, brought up to date in bulk",
}
_APART = "each query by itself: they rank equal scores, or hold rows, in ways that cannot be shared"


@dataclass(frozen=True)
class WorkloadFileQuery(FileQuery):
    """A workload over a file, checked; keys of the leaderboard are its queries, by number."""

    @property
    @override
    def queries(self) -> list[Any]:
        return list(self.query.queries.values())

    @override
    def capped(self, rows: int) -> Self:
        each = {name: capped_query(query, rows) for name, query in self.query.queries.items()}
        return dataclasses.replace(self, query=dataclasses.replace(self.query, queries=each))

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.workload.monitor import WorkloadMonitor

        monitor: Any = WorkloadMonitor
        return monitor  # type: ignore[no-any-return]

    @override
    def answers(self, pushed: Any) -> Iterable[tuple[Ranked, Ints | None]]:
        return [(pushed.ranked, pushed.query)]

    @override
    def on_spark(self) -> FileRanking:
        from skyband.spark.families.workload.file import WorkloadFile

        return WorkloadFile(self.query, self.algorithm)

    @override
    def board(self) -> Leaderboard:
        return Leaderboard(self.timed, tuple(self.query))


@dataclass(frozen=True)
class WorkloadFileOptions(QueryOptions):
    """The options of ``workload``; ``file`` names the queries."""

    query: Workload
    file: str

    option = "queries"

    @classmethod
    @override
    def parse(cls, given: Given) -> Self:
        for name, default in _ONE_QUERY.items():
            if given.get(name, default) != default:
                option = f"--{name.replace('_', '-')}"
                fix = f"leave {option} out"
                raise QueryError(f"{option} with --queries", "queries from the file", fix)
        file, time = given["queries"], given["time"]
        algorithm = known(given["algorithm"])
        workload = _read(file, time)
        chosen(algorithm, workload.queries.values())
        each = {
            name: dataclasses.replace(query, emit=options.emit_of(given))
            for name, query in workload.queries.items()
        }
        query = dataclasses.replace(workload, queries=each)
        return cls(given["by"], time, [], algorithm, query, file)

    @property
    @override
    def changes(self) -> bool:
        return self.query.model.emit == "changes"

    @override
    def check(self, source: FileSource) -> FileQuery:
        score = "0.0" if self.by is None else expressions.score(source, self.by)
        time, keys = self.time_and_keys(source, self.query.model.window)
        return WorkloadFileQuery(self.query, self.algorithm, {"score": score}, time, keys)

    @override
    def require_unit(self, window: Window, integers: bool) -> None:
        ticks = isinstance(window, TimeWindow) and window.unit == "tick"
        if ticks != integers:
            given, wanted = ("durations", "numbers") if integers else ("numbers", "durations")
            holds = "whole numbers" if integers else "timestamps"
            raise QueryError(
                f"windows in {self.file} are {given} but --time {self.time} holds {holds}",
                wanted,
                "write window 3600" if integers else "write window 1 hour",
            )

    @override
    def explain(self, facts: FileFacts | None) -> Explanation:
        from skyband.workload.estimates import estimate

        workload = self.query
        algorithm = chosen(self.algorithm, workload.queries.values())
        shares = all(map(can_share, workload.queries.values()))
        lines = [
            (
                "workload",
                f"{workload}{f'; by {self.by}' if self.by else ''}{where_words(self)}",
            ),
            *file_lines(facts),
            ("algorithm", algorithm),
            ("because", _REASONS[algorithm] if shares else _APART),
        ]
        metrics = {"workload": str(workload), "algorithm": algorithm, "by": self.by}
        metrics["where"] = self.where
        rate = 1.0 if workload.counted else None
        if facts is not None and facts.span is not None:
            rate = facts.rows / max(facts.span, 1)
        if rate is None:
            return Explanation([*lines, ("rows kept", UNKNOWN)], metrics)
        guess = estimate(workload, rate)
        opened = (
            "windows",
            f"about {guess.windows:,} open at a time, of {guess.queries:,} queries",
        )
        if not shares:
            kept = f"about {guess.independent:,} by all queries, for scores in random order"
            more = [("", "and all rows of windows where rows of equal score share a rank")]
            lines += [opened, ("rows kept", kept), *(more if workload.shares_ranks else [])]
            return Explanation(lines, metrics | dataclasses.asdict(guess))
        shared = f"about {guess.shared:,} by all queries as one, for scores in random order"
        views = "different starts: windows that start together share"
        saved = f"{guess.independent / max(guess.shared, 1):,.1f} times as many"
        lines += [
            opened,
            ("views", f"at most {guess.views:,} {views}"),
            ("panes", f"at most {guess.boundaries:,} in the longest window, of adaptive length"),
            ("rows kept", shared),
            ("", f"about {guess.independent:,} by each query for itself: {saved};"),
            ("", "fewer where slides are long"),
        ]
        return Explanation(lines, metrics | dataclasses.asdict(guess))


FAMILY = WorkloadFileOptions


def _read(path: str, time: str | None) -> Workload:
    """The workload in a CSV or YAML file, which must fit the other options."""
    yaml = Path(path).suffix.lower() in (".yaml", ".yml")
    ticks = time is not None  # whole numbers are of the time column's own unit
    workload = Workload.from_yaml(path, ticks) if yaml else Workload.from_csv(path, ticks)
    if workload.scores != (SCORE,):
        raise QueryError(
            f"{path} names scores of its own",
            "one score for all queries, from --by",
            "leave by out of the file, or use a job or Python for several scores",
        )
    for query in workload.queries.values():
        require_answerable(query.window)
    if not workload.counted and time is None:
        raise QueryError(
            "windows of time without --time", "the time column", "add --time and its name"
        )
    return workload
