"""``skyband workload``: the ranked windows of a file, of many queries at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skyband.cli import expressions, progress, top
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.ranking import own, require_reach
from skyband.cli.reading import BATCH, Source
from skyband.errors import QueryError
from skyband.windows import TimeWindow
from skyband.workload.queries import SCORE, Workload

_ANSWERS = 2_000_000  # ranked rows that one push should not exceed


@dataclass(frozen=True)
class Asked:
    """What is asked of a file, in the words of the command line."""

    queries: str
    by: str | None
    time: str | None
    algorithm: str

    def workload(self) -> Workload:
        """The queries of the file that was named."""
        return _read(self.queries, self.time)


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
    if not workload.counted and time is None:
        raise QueryError(
            "windows of time without --time", "the time column", "add --time and its name"
        )
    return workload


@dataclass(frozen=True)
class Question:
    """A workload over a file, checked: SQL for scores and times."""

    workload: Workload
    algorithm: str
    score: str
    time: str | None

    @property
    def timed(self) -> bool:
        """Whether window bounds are moments."""
        window = self.workload.model.window
        return isinstance(window, TimeWindow) and window.unit == "us"


def question(source: Source, asked: Asked) -> Question:
    """Check what is asked against the file's columns."""
    workload = asked.workload()
    score = "0" if asked.by is None else expressions.score(source, asked.by)
    time = None
    if asked.time is not None:
        found = expressions.time(source, asked.time)
        if found.integers is not None:
            _require_unit(asked, workload.model.window, found.integers)
        time = found.sql
    return Question(workload, asked.algorithm, score, time)


def _require_unit(asked: Asked, window: Any, integers: bool) -> None:
    """Refuse durations over a column of whole numbers, and plain numbers over timestamps."""
    ticks = isinstance(window, TimeWindow) and window.unit == "tick"
    if ticks != integers:
        found, wanted = ("durations", "numbers") if integers else ("numbers", "durations")
        holds = "whole numbers" if integers else "timestamps"
        raise QueryError(
            f"windows in {asked.queries} are {found} but --time {asked.time} holds {holds}",
            wanted,
            "write window 3600" if integers else "write window 1 hour",
        )


def run(file: str, asked: Asked, engine: top.Engine, format: str | None, out: str | None) -> None:
    """Read a file, rank the windows of all queries, print them."""
    format = top.chosen_format(format, out, file)
    asked.workload()  # what is wrong with the queries is told before the file is opened

    def answer(source: Source) -> Leaderboard:
        checked = question(source, asked)
        if engine.runs_spark(file):
            from skyband.cli import on_spark

            return on_spark.rank_workload(source, checked, engine.master)
        with progress.rows_done("ranking", source.known_rows) as watch:
            return _rank(source, checked, watch)

    top.printed(file, answer, format, out, [], False)


def _rank(source: Source, question: Question, watch: Any) -> Leaderboard:
    """Run a workload over a file. ``watch`` is told of the rows that were read."""
    from skyband.workload.monitor import WorkloadMonitor

    workload = question.workload
    monitor = WorkloadMonitor(workload, question.algorithm)
    found = Leaderboard(question.timed, tuple(workload))
    rows = _batch_rows(workload)
    for batch in source.rows({"score": question.score}, question.time, []):
        for low in range(0, batch.num_rows, rows):
            part = batch.slice(low, rows)
            columns: dict[str, Any] = {}
            if question.time is not None:
                oldest, newest = part.column("time")[0].as_py(), part.column("time")[-1].as_py()
                require_reach(oldest or 0, newest or 0)
                columns = {"ids": own(part, "row"), "times": own(part, "time")}
                columns["watermark"] = newest  # rows come sorted: nothing later is older
            told = monitor.push(own(part, "score"), **columns)
            found.add(told.ranked, told.query)
        watch(batch.num_rows)
    told = monitor.finish()
    found.add(told.ranked, told.query)
    found.dropped = monitor.dropped
    found.close()
    return found


def _batch_rows(workload: Workload) -> int:
    """Rows of a push, so that the answers are not too many."""
    if not workload.counted:
        return BATCH // 2
    windows = [query.window for query in workload.queries.values()]
    k = np.array([min(query.k, query.window.size) for query in workload.queries.values()])
    answers = float((k / np.array([window.slide for window in windows])).sum())  # per row
    return int(max(256, min(BATCH, _ANSWERS / max(answers, 1e-9))))
