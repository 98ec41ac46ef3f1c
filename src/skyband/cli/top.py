"""``skyband top``: the ranked windows of a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skyband.cli import expressions, options, progress, ranking
from skyband.cli.cells import Cells, cells
from skyband.cli.reading import Column, MisreadError, Source
from skyband.errors import QueryError
from skyband.query import TopK
from skyband.windows import Window

if TYPE_CHECKING:
    from skyband.cli.leaderboard import Leaderboard
    from skyband.order import Ints

FORMATS = ("table", "csv", "json")
ENGINES = ("auto", "spark", "local")
SMALL = 64 << 20  # bytes of a file that this process ranks before Spark has started


@dataclass(frozen=True)
class Engine:
    """What computes the answers; ``master`` is where an embedded Spark runs.

    ``auto`` leaves small files, and what is read from standard input, to this process.
    """

    name: str
    master: str | None = None

    def __post_init__(self) -> None:
        options.choice(self.name, "--engine", ENGINES)
        if self.master is not None and self.name == "local":
            raise QueryError(
                f"--master with --engine {self.name}", "--engine spark", "leave --master out"
            )
        if self.master is not None and not self.master.startswith("local"):
            raise QueryError(
                f"--master is {self.master!r}",
                "a Spark on this machine, where the file is",
                "write --master 'local[2]'; clusters are for top_k in skyband.spark",
            )

    def runs_spark(self, file: str) -> bool:
        """Whether a file is ranked by Spark."""
        if self.name != "auto" or self.master is not None:
            return self.name != "local"
        path = Path(file)
        return path.is_file() and path.stat().st_size > SMALL


@dataclass(frozen=True)
class Asked:
    """What ``top`` and ``explain`` ask, in the words of the command line."""

    by: str | None
    time: str | None
    partition_by: list[str]
    algorithm: str
    query: TopK


def question(source: Source, asked: Asked) -> ranking.Question:
    """Check what is asked against the file's columns."""
    assert asked.by is not None
    score = expressions.score(source, asked.by)
    time, keys = time_and_keys(source, asked.time, asked.query.window, asked.partition_by)
    return ranking.Question(asked.query, asked.algorithm, score, time, keys)


def time_and_keys(
    source: Source, time: str | None, window: Window, partition_by: list[str]
) -> tuple[str | None, list[Column]]:
    """The SQL of the time, which must fit the window, and the columns of the keys."""
    sql = None
    if time is not None:
        found = expressions.time(source, time)
        if found.integers is not None:
            options.require_unit(window, found.integers, time)
        sql = found.sql
    return sql, expressions.keys(source, partition_by)


def run(file: str, asked: Asked, engine: Engine, format: str | None, out: str | None) -> None:
    """Read a file, rank its windows, print them."""

    def answer(source: Source) -> Leaderboard:
        checked = question(source, asked)
        if engine.runs_spark(file):
            from skyband.cli import on_spark

            return on_spark.rank(source, checked, engine.master)
        with progress.rows_done("ranking", source.known_rows) as watch:
            return ranking.rank(source, checked, watch)

    changes = asked.query.emit == "changes"
    printed(file, answer, chosen_format(format, out, file), out, asked.partition_by, changes)


def printed(
    file: str,
    answer: Callable[[Source], Leaderboard],
    format: str,
    out: str | None,
    partition_by: list[str],
    changes: bool,
    ranked_by: str = "score",
    fetch: Callable[[Source, Ints], Cells] = cells,
) -> None:
    """Open a file, have it answered, print the answers; twice if types were misjudged at first.

    ``fetch`` gets the values to print beside ranks and scores, for rows or objects by number.
    """
    with Source(file) as source:
        try:
            board, values = _fetched(source, answer, fetch)
        except MisreadError:
            source.look_at_all()
            board, values = _fetched(source, answer, fetch)
        with opened(out) as stream:
            write(stream, board, values, partition_by, changes, format)
    _tell(board, ranked_by)


def _tell(board: Leaderboard, ranked_by: str) -> None:
    """Say on stderr what was not ranked, and how many windows are not exact, if any."""
    if board.dropped.total:
        told = str(board.dropped).replace("score", ranked_by)
        print(f"skyband: not ranked: {told}", file=sys.stderr)
    for note in board.notes:
        print(f"skyband: {note}", file=sys.stderr)
    if board.approximate:
        share = board.accuracy / board.approximate
        print(
            f"skyband: {board.approximate:,} of {board.windows:,} windows are approximate; about "
            f"{share:.1%} of their rows are right".replace("%", " %"),
            file=sys.stderr,
        )


def _fetched(
    source: Source,
    answer: Callable[[Source], Leaderboard],
    fetch: Callable[[Source, Ints], Cells],
) -> tuple[Leaderboard, Cells]:
    board = answer(source)
    with progress.rows_done("fetching what was ranked"):
        return board, fetch(source, board.rows)


def chosen_format(format: str | None, out: str | None, file: str) -> str:
    """The format that was asked for, or that the name of the output suggests."""
    if format is None:
        suffix = Path(out).suffix[1:] if out else ""
        format = suffix if suffix in FORMATS else "table"
    options.choice(format, "--format", FORMATS)
    if out is not None:
        _check_out(out, file)
    return format


def write(
    stream: BinaryIO,
    board: Leaderboard,
    values: Cells,
    partition_by: list[str],
    changes: bool,
    format: str,
) -> None:
    """Print a leaderboard."""
    if format == "table":
        from skyband.cli import tables

        keys = [name for name in values.names if name.lower() in _lower(partition_by)]
        tables.write(stream, board, values, keys, changes)
        return
    from skyband.cli.records import Csv, Json

    (Csv if format == "csv" else Json)(board, values, changes).write(stream)


def _check_out(out: str, file: str) -> None:
    path = Path(out)
    if not path.parent.is_dir():
        raise QueryError(
            f"--out is {out!r}", "a file in a directory that exists", f"mkdir -p {path.parent}"
        )
    if path.is_dir():
        raise QueryError(f"--out {out!r} is a directory", "a file", "add a file name")
    if file != "-" and path.exists() and Path(file).exists() and path.samefile(file):
        raise QueryError("--out is the file that is read", "another file", "choose another name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise QueryError(f"--out {out!r} may not be written", "a writable file")


@contextmanager
def opened(out: str | None) -> Iterator[BinaryIO]:
    """Where to print: a file, or standard output."""
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(out).open("wb") as stream:
        yield stream


def _lower(names: list[str]) -> list[str]:
    return [name.lower() for name in names]
