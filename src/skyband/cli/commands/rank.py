"""The commands that rank a file: one way for all families, on the local engine and on Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from skyband.cli import options
from skyband.cli.commands import family
from skyband.cli.commands.file_query import FileQuery, Given, QueryOptions
from skyband.cli.input import expressions
from skyband.cli.input.source import BATCH, Column, FileSource, require_reach
from skyband.cli.output import progress
from skyband.cli.output.cells import Cells
from skyband.cli.output.leaderboard import Leaderboard
from skyband.engine.columns import array_or_column
from skyband.errors import QueryError
from skyband.expressions import named
from skyband.windows import AllTimeWindow, CountWindow, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json")
ENGINES = ("auto", "spark", "local")
SMALL = 64 << 20  # bytes of a file that this process ranks before Spark has started

_ANSWERS = 2_000_000  # ranked rows that one push should not exceed
_TIMED = 32_768  # rows per push of time windows: those that wait for the watermark stay few
_LARGE = 10_000  # rows or windows, beyond which it is worth to count the rows of a file first


@dataclass(frozen=True)
class EngineChoice:
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

    def runs_spark(self, source: FileSource) -> bool:
        """Whether files are ranked by Spark."""
        if self.name != "auto" or self.master is not None:
            return self.name != "local"
        return not source.piped and source.bytes > SMALL


def command(name: str, given: Given) -> None:
    """Do what a command asks for by its options."""
    updates = given["emit"] == "updates"
    query = replace(family(name).parse(given), where=given["where"], updates=updates)
    engine = EngineChoice(given["engine"], given["master"])
    rank_file(given["file"], query, engine, given["format"], given["out"])


def rank_file(
    files: Sequence[str],
    query_options: QueryOptions,
    engine: EngineChoice,
    format: str | None,
    out: str | None,
) -> None:
    """Read files, rank their windows, print them."""
    format = _chosen_format(format, out)
    spark = partial(_on_spark, master=engine.master)
    with FileSource(files) as source:
        _refuse_to_overwrite(source, out)
        rank = spark if engine.runs_spark(source) else _locally
        board, values = source.read(partial(_ranked, query_options, rank))
        with _opened(out) as stream:
            _write(stream, board, values, query_options, format)
    _report(board, query_options.ranked_by)


def _ranked(
    query_options: QueryOptions,
    rank: Callable[[FileSource, FileQuery], Leaderboard],
    source: FileSource,
) -> tuple[Leaderboard, Cells]:
    query = query_options.checked(source)
    board = rank(source, query)
    board.close()
    query.note(board)
    _note_infinite(board, query_options, query, source)
    with progress.rows_done("fetching what was ranked"):
        return board, query.cells(source, board.rows)


def _note_infinite(
    board: Leaderboard, query_options: QueryOptions, query: FileQuery, source: FileSource
) -> None:
    """Tell rows whose time is infinite, which no window holds, from rows without a time."""
    if not board.dropped.null_time or query_options.time is None:
        return
    infinite = expressions.infinite_times(source, query_options.time, query.where)
    if infinite:
        null_times = board.dropped.null_time - infinite
        board.dropped = replace(board.dropped, null_time=null_times)
        board.notes.insert(0, f"not ranked: {infinite:,} with an infinite time")


def _locally(source: FileSource, query: FileQuery) -> Leaderboard:
    """Rank a file in this process."""
    from skyband.partitioned import Partitioned

    if any(_is_large(one, query.keys) for one in query.queries):
        query = query.capped(source.count_rows())
    board = query.board()
    how = (query.query, query.algorithm)
    engine: Any = Partitioned(*how, query.monitor()) if query.keys else query.monitor()(*how)
    with progress.rows_done("ranking", source.known_rows) as watch:
        for batch in _cut(source, query, watch):
            pushed = engine.push(query.pushed(batch), **_columns(query, batch))
            for ranked, key in query.answers(pushed):
                board.add(query.reported(ranked), key)
        for ranked, key in query.answers(engine.finish()):
            board.add(query.reported(ranked), key)
    board.dropped = engine.dropped
    return board


def _is_large(query: Any, keys: list[Column]) -> bool:
    """Whether a query wants more room than rows may fill.

    With keys a count window slides on after the last row of a key until it holds none.
    """
    window = query.window
    slides_on = bool(keys) and isinstance(window, CountWindow)
    return bool(query.k > _LARGE or (slides_on and window.size // window.slide > _LARGE))


def _cut(
    source: FileSource, query: FileQuery, watch: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of the file in batches whose answers are not too many."""
    rows = _TIMED
    if not isinstance(query.queries[0].window, TimeWindow):
        answers = sum(min(q.k, q.window.size) / q.window.slide for q in query.queries)  # per row
        rows = int(max(256, min(BATCH, _ANSWERS / answers)))
    for batch in query.rows(source):
        for low in range(0, batch.num_rows, rows):
            yield batch.slice(low, rows)
        watch(batch.num_rows)


def _columns(query: FileQuery, batch: pa.RecordBatch) -> dict[str, Any]:
    """What an engine is told of rows besides scores: keys, ids, times and the watermark."""
    columns: dict[str, Any] = {}
    if query.keys:
        columns["keys"] = array_or_column(batch, "key")
    if query.keys or query.objects or query.time is not None:
        columns["ids"] = array_or_column(batch, "object" if query.objects else "row")
    if query.time is not None:
        columns["times"] = array_or_column(batch, "time")
        if not query.keys:
            oldest, newest = batch.column("time")[0].as_py(), batch.column("time")[-1].as_py()
            require_reach(oldest or 0, newest or 0)
            if any(isinstance(one.window, AllTimeWindow) for one in query.queries):
                newest = _newest_ranked(query, batch)
            columns["watermark"] = newest  # rows come sorted: nothing later is older
    return columns


def _newest_ranked(query: FileQuery, batch: pa.RecordBatch) -> int | None:
    """The newest time of a row that can be ranked: windows of all time go on with no others."""
    if getattr(query.query, "takes_nulls", False):
        newest: int | None = batch.column("time")[-1].as_py()
        return newest
    unranked = np.zeros(batch.num_rows, np.bool_)
    for name in query.numbers:
        column, null = query.staged(batch.column(name), name)
        unranked |= np.isnan(column) if null is None else np.isnan(column) | null
    ranked = np.flatnonzero(~unranked)
    return batch.column("time")[int(ranked[-1])].as_py() if len(ranked) else None


def _on_spark(source: FileSource, query: FileQuery, master: str | None) -> Leaderboard:
    """Rank a file on an embedded Spark: stage its rows, rank them, gather the answers."""
    from skyband.cli.input.stage_parquet import stage
    from skyband.spark.files import Staged, embedded, rank_staged
    from skyband.spark.sessions import require_java

    require_java()
    with progress.rows_done("staging", source.known_rows) as watch:
        staged = stage(source, query, watch)
    query = query.capped(staged.read)
    board = query.board()
    board.dropped = staged.dropped
    progress.tell("starting Spark, which takes some seconds; --engine local does without")
    with embedded(master, staged.written) as spark, progress.waiting("ranking on Spark"):
        files = Staged(staged.rows, staged.ends, staged.prune)
        for keys, ranked in rank_staged(spark, files, query.on_spark(), staged.answers):
            board.add(query.reported(ranked), keys)
    return board


def _report(board: Leaderboard, ranked_by: str) -> None:
    """Say on stderr what was not ranked, and how many windows are not exact, if any."""
    if board.dropped.total:
        dropped = str(board.dropped).replace("score", ranked_by)
        print(f"skyband: not ranked: {dropped}", file=sys.stderr)
    for note in board.notes:
        print(f"skyband: {note}", file=sys.stderr)
    if board.approximate:
        share = board.accuracy / board.approximate
        print(
            f"skyband: {board.approximate:,} of {board.windows:,} windows are approximate; about "
            f"{share:.1%} of their rows are right".replace("%", " %"),
            file=sys.stderr,
        )


def _chosen_format(format: str | None, out: str | None) -> str:
    """The format that was asked for, or that the name of the output suggests."""
    if format is None:
        suffix = Path(out).suffix[1:] if out else ""
        format = suffix if suffix in FORMATS else "table"
    options.choice(format, "--format", FORMATS)
    if out is not None:
        _check_out(out)
    return format


def _check_out(out: str) -> None:
    path = Path(out)
    if not path.parent.is_dir():
        raise QueryError(
            f"--out is {out!r}",
            "a file in a directory that exists",
            f"mkdir -p {quote(str(path.parent))}",
        )
    if path.is_dir():
        raise QueryError(f"--out {out!r} is a directory", "a file", "add a file name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise QueryError(f"--out {out!r} may not be written", "a writable file")


def _refuse_to_overwrite(source: FileSource, out: str | None) -> None:
    if out is not None and Path(out).exists() and any(map(Path(out).samefile, source.files)):
        raise QueryError("--out is the file that is read", "another file", "choose another name")


def _write(
    stream: BinaryIO, board: Leaderboard, values: Cells, query_options: QueryOptions, format: str
) -> None:
    """Print a leaderboard."""
    from skyband.cli.output.records import Csv, Json, all_final, renamed

    shown = renamed(board, values, query_options.changes, query_options.updates)
    if format == "table":
        from skyband.cli.output import tables

        typed = query_options.partition_by
        partition_by = {name.lower() for text in typed for name in (text, named(text).name)}
        pairs = zip(shown.names, values.names, strict=True)
        keys = [name for name, column in pairs if column.lower() in partition_by]
        shown = all_final(shown) if query_options.updates else shown
        tables.write_tables(stream, board, shown, keys, query_options.changes)
        return
    shown = all_final(shown) if query_options.updates else shown
    (Csv if format == "csv" else Json)(board, shown, query_options.changes).write(stream)


@contextmanager
def _opened(out: str | None) -> Iterator[BinaryIO]:
    """Where to print: a file, or standard output."""
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(out).open("wb") as stream:
        yield stream
