"""The leaderboard of a running stream in a notebook, drawn again whenever it changes.

A board only reads what Spark has reported of a stream: it asks for the newest report from a thread
of its own, so it neither runs in the stream's batches nor holds them up, and whatever goes wrong
here stays here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from skyband.errors import QueryError
from skyband.html_tables import Column, column, table
from skyband.readable import shown
from skyband.spark.jobs import failures
from skyband.spark.jobs.progress import Progress, Reports
from skyband.spark.watching import BOARD, LEADERS

_PAUSE = 0.5  # seconds between two looks at a stream
_BEGINS = "The query is running: no batch has ended yet."
_LETTERS = 400  # of the words that tell why a query failed


def board(query: StreamingQuery) -> Board:
    """Draw the leaderboard of a running stream, live in Jupyter, and return at once.

    ``query`` is a stream of what :func:`watched` returned. The board shows the newest window that
    was answered, and how the stream is doing; it says so when the query has failed or ended. In a
    notebook it is brought up to date by a thread, which ends with the query. Elsewhere ``print`` it
    to see how it stands.

    Example::

        query = watched(leaders).writeStream.format("parquet").start("leaders")
        board(query)
    """
    if not hasattr(query, "recentProgress"):
        raise QueryError(
            f"query is {type(query).__name__}",
            "a stream that runs",
            "query = watched(leaders).writeStream.format('noop').start(); board(query)",
        )
    live = Board(query)
    live.look()
    shell = _notebook()
    if shell is not None:
        live.draw(shell)
    return live


class Board:
    """The newest window of a stream as a table: what :func:`board` returns.

    ``leaders`` are its rows as they were reported, best first, and ``status`` says in words how the
    stream is doing: both as of the last :meth:`look`, as which printing it counts.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.status = _BEGINS
        self._query = query
        self._title = shown(query.name or "leaders")
        self._progress = Progress()
        self._reports = Reports()
        self._watched = False
        self._ended = False
        self._looking = threading.Lock()
        self._drawings: list[Any] = []  # display handles
        self._cell: int | None = None  # the last one that it was drawn in
        self._thread: threading.Thread | None = None

    @property
    def leaders(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of the newest window that was answered, best first."""
        return self._progress.leaders

    def look(self) -> bool:
        """Take in what was reported since the last look; whether there may be more to come."""
        with self._looking:
            if not self._ended:
                try:
                    self._look()
                except Exception as error:  # a board breaks nothing, least of all the stream
                    self._ended = True
                    words = shown(str(error).partition("\n")[0], _LETTERS)
                    self.status = f"Spark does not answer any more: {words or type(error).__name__}"
            return not self._ended

    def _look(self) -> None:
        active = self._query.isActive  # before all else: what is reported later is the last word
        self._collect()
        if active:
            self.status = self._running()
            return
        self._ended = True
        self._take(self._query.recentProgress)
        failure = self._query.exception()
        if failure is None:
            words = "The query has ended."
        else:
            reasons = shown(str(failures.reworded(failure, None, "by")), _LETTERS)
            words = f"The query has failed: {reasons}."
        if self.leaders:
            words = f"{words} This is its last board."
        self.status = f"{words}{self._unwatched()}"

    def _collect(self) -> None:
        """Take in the newest report, and those before it that were missed."""
        self._take(self._reports.read(self._query, self._progress.last))

    def _take(self, reports: Sequence[Mapping[str, Any]]) -> None:
        for report in reports:
            self._watched |= BOARD in (report["observedMetrics"] or {})
        self._progress.collect(reports)

    def _running(self) -> str:
        """How a stream is doing that runs, in words."""
        progress = self._progress
        if progress.last is None:
            return _BEGINS
        if not self._watched:
            return f"The query is running.{self._unwatched()}"
        rows = f"{progress.rows:,} rows read, {progress.rows_per_second:,.0f} a second"
        return f"The query is running: batch {progress.last.number:,}, {rows}."

    def _unwatched(self) -> str:
        """What to write, if a stream has run batches and none reported any leaders."""
        if self._watched or self._progress.last is None:
            return ""
        return (
            " It does not report its leaders: write watched(leaders).writeStream where it says "
            "leaders.writeStream."
        )

    def draw(self, shell: Any) -> None:
        """Draw the board below the present cell of a notebook, and keep it up to date."""
        self.look()
        display = import_module("IPython.display").display
        self._cell = shell.execution_count
        self._drawings.append(display(self._bundle(), raw=True, display_id=True))
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._follow, name="skyband board", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        """Draw what is new until the query ends."""
        drawn: tuple[int, dict[str, str]] = (0, {})
        pause = threading.Event()
        goes_on = True
        while goes_on:
            pause.wait(_PAUSE)
            goes_on = self.look()
            present = len(self._drawings), self._bundle()
            if present != drawn:
                drawn = present
                with suppress(Exception):  # the notebook may be closed; the stream goes on
                    for drawing in list(self._drawings):
                        drawing.update(present[1], raw=True)

    def _ipython_display_(self) -> None:
        """Draw the board, unless it stands in this cell already."""
        shell = _notebook()
        if shell is None:
            print(self)
        elif shell.execution_count != self._cell:
            self.draw(shell)

    def _bundle(self) -> dict[str, str]:
        title, columns, notes, groups = self._parts()
        return {
            "text/html": table(title, columns, notes, groups),
            "text/plain": _plain(title, columns, notes),
        }

    def _repr_html_(self) -> str:
        """The board as it stands, as a table."""
        self.look()
        return self._bundle()["text/html"]

    def __str__(self) -> str:
        self.look()
        return self._bundle()["text/plain"]

    def _parts(self) -> tuple[str, list[Column], list[str], list[int]]:
        """Title, columns, notes, and the rows with which the ranking of another key begins."""
        leaders = self.leaders
        if not leaders:
            waits = ["No window has been answered yet."] if self._watched else []
            return self._title, [], [*waits, self.status], []
        window = leaders[0]["window"]
        start = "all" if window["start"] is None else shown(window["start"])
        title = f"{self._title}: {start} to {shown(window['end'])}"
        names = [name for name in leaders[0] if name != "window"]
        keys = names[: names.index("rank")]
        rows = _by_key(leaders, keys)
        groups = [at for at, row in enumerate(rows) if at == 0 or _differ(row, rows[at - 1], keys)]
        columns = [
            Column(name, [shown(row[name]) if at in groups else "" for at, row in enumerate(rows)])
            for name in keys
        ]
        columns += [column(name, [row[name] for row in rows]) for name in names[len(keys) :]]
        cut = [f"Not more than {LEADERS.rows} rows are shown."] if len(rows) >= LEADERS.rows else []
        return title, columns, [*cut, self.status], groups if keys else []


def _notebook() -> Any:
    """The shell of the notebook that this runs in; None elsewhere, as in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _by_key(leaders: Sequence[Mapping[str, Any]], keys: list[str]) -> list[Mapping[str, Any]]:
    """Rows of the same key together, in the order of the keys' best rows."""
    rankings: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in leaders:
        rankings.setdefault(tuple(str(row[name]) for name in keys), []).append(row)
    return [row for rows in rankings.values() for row in rows]


def _differ(row: Mapping[str, Any], other: Mapping[str, Any], keys: list[str]) -> bool:
    return any(row[name] != other[name] for name in keys)


def _plain(title: str, columns: Sequence[Column], notes: Sequence[str]) -> str:
    """The same table in plain text."""
    widths = [max(map(len, [each.name, *each.texts])) for each in columns]
    lines = [title]
    for row in zip(*([each.name, *each.texts] for each in columns), strict=True):
        cells = [
            text.rjust(width) if each.numbers else text.ljust(width)
            for text, width, each in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *notes])
