"""An embedded Spark over a file: the same leaderboard as the local engine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.cli import progress
from skyband.cli.dominating import Question as DominatingQuestion
from skyband.cli.incomplete import Question as IncompleteQuestion
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.ranking import Question
from skyband.cli.reading import Source
from skyband.cli.staging import stage
from skyband.cli.totals import Question as TotalsQuestion
from skyband.cli.workload import Question as WorkloadQuestion

if TYPE_CHECKING:
    from skyband.engine.results import Ranked
    from skyband.order import Ints
    from skyband.spark.files import Staged

    Answers = Iterator[tuple[Ints, Ranked]]


def rank(source: Source, question: Question, master: str | None) -> Leaderboard:
    """Run a query over a file: stage its rows, rank them on Spark, gather what was found."""
    from skyband.spark.files import ranked_windows

    def answers(spark: Any, staged: Staged, out: Path) -> Answers:
        return ranked_windows(spark, staged, question.query, question.algorithm, out)

    return _ranked(source, question, master, question.board(), answers)


def rank_dominating(
    source: Source, question: DominatingQuestion, master: str | None
) -> Leaderboard:
    """Run a top-k dominating query over a file, in the same way."""
    from skyband.spark.families.dominating.file import dominating_windows

    def answers(spark: Any, staged: Staged, out: Path) -> Answers:
        keyed = bool(question.keys)
        return dominating_windows(spark, staged, question.query, question.algorithm, keyed, out)

    return _ranked(source, question, master, question.board(), answers)


def rank_incomplete(
    source: Source, question: IncompleteQuestion, master: str | None
) -> Leaderboard:
    """Rank the objects of incomplete streams in a file, in the same way."""
    from skyband.spark.families.incomplete.file import incomplete_windows

    def answers(spark: Any, staged: Staged, out: Path) -> Answers:
        how = (question.algorithm, bool(question.keys))
        return incomplete_windows(spark, staged, question.query, *how, out, question.options)

    return _ranked(source, question, master, question.board(), answers)


def rank_totals(source: Source, question: TotalsQuestion, master: str | None) -> Leaderboard:
    """Rank the keys of a file by their totals, in the same way."""
    from skyband.spark.families.totals.file import totals_windows

    def answers(spark: Any, staged: Staged, out: Path) -> Answers:
        return totals_windows(spark, staged, question.query, bool(question.keys), out)

    return _ranked(source, question, master, question.board(), answers)


def rank_workload(source: Source, question: WorkloadQuestion, master: str | None) -> Leaderboard:
    """Run all queries of a workload over a file, in the same way."""
    from skyband.spark.families.workload.file import ranked_workload

    workload = question.workload
    board = Leaderboard(question.timed, tuple(workload))
    finest = min(workload.queries.values(), key=lambda query: query.window.slide)
    widest = replace(finest, k=max(query.k for query in workload.queries.values()))
    staging = Question(widest, question.algorithm, question.score, question.time, [])

    def answers(spark: Any, staged: Staged, out: Path) -> Answers:
        return ranked_workload(spark, staged, workload, question.algorithm, out)

    return _ranked(source, staging, master, board, answers)


def _ranked(
    source: Source,
    question: Question,
    master: str | None,
    board: Leaderboard,
    answers: Callable[[Any, Staged, Path], Answers],
) -> Leaderboard:
    from skyband.spark.files import Staged, embedded
    from skyband.spark.sessions import require_java

    require_java()
    with progress.rows_done("staging", source.known_rows) as watch:
        found = stage(source, question, watch)
    board.dropped = found.dropped
    progress.tell("starting Spark, which takes some seconds; --engine local does without")
    with embedded(master, found.written) as spark, progress.waiting("ranking on Spark"):
        staged = Staged(found.rows, found.ends, found.prune)
        for keys, ranked in answers(spark, staged, found.answers):
            board.add(ranked, keys)
    board.close()
    return board
