"""``skyband top``: the ranked windows of a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skyband.cli import expressions, options, progress, ranking
from skyband.cli.cells import Cells, cells
from skyband.cli.reading import MisreadError, Source
from skyband.errors import QueryError
from skyband.intake import Dropped
from skyband.query import TopK

if TYPE_CHECKING:
    from skyband.cli.leaderboard import Leaderboard

FORMATS = ("table", "csv", "json")
ENGINES = ("spark", "local")


@dataclass(frozen=True)
class Engine:
    """What computes the answers; ``master`` is where an embedded Spark runs."""

    name: str
    master: str | None = None

    def __post_init__(self) -> None:
        options.choice(self.name, "--engine", ENGINES)
        if self.master is not None and self.name != "spark":
            raise QueryError(
                f"--master with --engine {self.name}", "--engine spark", "leave --master out"
            )
        if self.master is not None and not self.master.startswith("local"):
            raise QueryError(
                f"--master is {self.master!r}",
                "a Spark on this machine, where the file is",
                "write --master 'local[2]'; clusters are for top_k in skyband.spark",
            )


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
    time = None
    if asked.time is not None:
        found = expressions.time(source, asked.time)
        if found.integers is not None:
            options.require_unit(asked.query.window, found.integers, asked.time)
        time = found.sql
    keys = expressions.keys(source, asked.partition_by)
    return ranking.Question(asked.query, asked.algorithm, score, time, keys)


def run(file: str, asked: Asked, engine: Engine, format: str | None, out: str | None) -> None:
    """Read a file, rank its windows, print them."""
    format = chosen_format(format, out, file)
    with Source(file) as source:
        try:
            board, values = _answer(source, asked, engine)
        except MisreadError:
            source.look_at_all()
            board, values = _answer(source, asked, engine)
        with opened(out) as stream:
            write(stream, board, values, asked.partition_by, asked.query.emit == "changes", format)
    tell_left_out(board.dropped)


def _answer(source: Source, asked: Asked, engine: Engine) -> tuple[Leaderboard, Cells]:
    checked = question(source, asked)
    if engine.name == "spark":
        from skyband.cli import on_spark

        board = on_spark.rank(source, checked, engine.master)
    else:
        with progress.rows_done("ranking", source.known_rows) as watch:
            board = ranking.rank(source, checked, watch)
    with progress.rows_done("fetching ranked rows"):
        return board, cells(source, board.rows)


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


def tell_left_out(dropped: Dropped) -> None:
    """Say on stderr what was not ranked, if anything."""
    if dropped.total:
        print(f"skyband: not ranked: {dropped}", file=sys.stderr)


def _lower(names: list[str]) -> list[str]:
    return [name.lower() for name in names]
