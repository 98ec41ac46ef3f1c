"""An embedded Spark over a file: the same leaderboard as the local engine's."""

from __future__ import annotations

from skyband.cli import progress
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.ranking import Question
from skyband.cli.reading import Source
from skyband.cli.staging import stage
from skyband.cli.workload import Question as Workload
from skyband.errors import QueryError
from skyband.query import TimeWindow


def rank_workload(source: Source, question: Workload, master: str | None) -> Leaderboard:
    """Run a workload over a file on Spark."""
    raise QueryError("a workload over a file on Spark", "--engine local", "add --engine local")


def rank(source: Source, question: Question, master: str | None) -> Leaderboard:
    """Run a query over a file: stage its rows, rank them on Spark, gather what was found."""
    from skyband.spark.ranked_file import Staged, embedded, ranked_windows
    from skyband.spark.sessions import require_java

    require_java()
    window = question.query.window
    board = Leaderboard(isinstance(window, TimeWindow) and window.unit == "us")
    with progress.rows_done("staging", source.known_rows) as watch:
        found = stage(source, question, watch)
    board.dropped = found.dropped
    progress.tell("starting Spark, which takes some seconds; --engine local does without")
    with embedded(master, found.written) as spark, progress.waiting("ranking on Spark"):
        staged = Staged(found.rows, found.ends, found.prune)
        answers = ranked_windows(spark, staged, question.query, question.algorithm, found.answers)
        for keys, ranked in answers:
            board.add(ranked, keys)
    board.close()
    return board
