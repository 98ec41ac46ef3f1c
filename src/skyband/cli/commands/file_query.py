"""A query over a file, of any family: what the command line asks, then what a file is asked.

:class:`QueryOptions` is what was typed, checked as far as no file is needed; checked against a
file's columns it becomes a :class:`FileQuery`. Both engines take a :class:`FileQuery`. What is
here ranks rows by score; families override what differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from skyband.cli import options
from skyband.cli.input import expressions
from skyband.cli.input.source import Column, FileSource
from skyband.cli.output.cells import Cells, cells, object_cells
from skyband.cli.output.leaderboard import Leaderboard
from skyband.engine.columns import array_or_column, number_column
from skyband.engine.results import decoded
from skyband.errors import QueryError
from skyband.windows import CountWindow, TimeWindow, Window

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.engine.results import Ranked
    from skyband.order import Bools, Ints, Scores
    from skyband.spark.files import FileRanking

Given = Mapping[str, Any]
"""The options of a command by name, as they were typed."""


@dataclass(frozen=True)
class FileQuery:
    """A query over a file, checked: SQL for numbers and times, columns for keys and objects.

    ``numbers`` are the columns that are ranked by, and their SQL. ``objects`` tell apart what is
    ranked, if it is not single rows; rows for which ``where`` is not true are left out. With a
    ``scale`` numbers are whole, in units of ``10**-scale``, and are never rounded.
    """

    query: Any
    algorithm: str
    numbers: dict[str, str]
    time: str | None
    keys: list[Column]
    objects: tuple[Column, ...] = ()
    where: str = "true"
    scale: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        shown = {column.name.lower(): column for column in (*self.keys, *self.objects)}
        for column in (*self.keys, *self.objects):
            if column.sql != shown[column.name.lower()].sql:
                raise QueryError(f"two columns are called {column.name!r}", "different names")

    @property
    def queries(self) -> list[Any]:
        """The queries that are answered; they are several in a workload."""
        return [self.query]

    @property
    def timed(self) -> bool:
        """Whether the bounds of windows are moments."""
        window = self.queries[0].window
        return isinstance(window, TimeWindow) and window.unit == "us"

    def capped(self, rows: int) -> Self:
        """The same query for so many rows: what is beyond them answers nothing, but takes room."""
        return replace(self, query=capped_query(self.query, rows))

    def rows(self, source: FileSource) -> Iterator[pa.RecordBatch]:
        """The rows of a file, as they are ranked."""
        return source.rows(self.numbers, self.time, self.keys, list(self.objects), self.where)

    def pushed(self, batch: pa.RecordBatch) -> Any:
        """What a monitor is given of a batch, besides ids and times of rows."""
        if self.scale is None:
            return array_or_column(batch, "score")
        codes, null = self.staged(batch.column("score"), "score")
        return codes if null is None else np.ma.array(codes, mask=null)

    def staged(self, column: pa.Array, name: str) -> tuple[Scores, Bools | None]:
        """A column of numbers as Spark is given it, and where it is NULL: whole ones as codes."""
        return number_column(column, "float64" if self.scale is None else "int64", name)

    def reported(self, ranked: Ranked) -> Ranked:
        """Windows with whole numbers for the codes that were ranked."""
        return ranked if self.scale is None else decoded(ranked)

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What makes a monitor, of the query and an algorithm."""
        from skyband.topk.monitor import Monitor

        return Monitor

    def answers(self, pushed: Any) -> Iterable[tuple[Ranked, Ints | None]]:
        """What a push returned: windows, and the key of each if there are keys."""
        return [(part.ranked, part.key) for part in pushed] if self.keys else [(pushed, None)]

    def on_spark(self) -> FileRanking:
        """How Spark ranks the staged rows."""
        from skyband.spark.files import FileRanking

        return FileRanking(self.query, self.algorithm, bool(self.keys))

    def board(self) -> Leaderboard:
        """What takes the answers."""
        return Leaderboard(self.timed, objects=bool(self.objects), scale=self.scale)

    def note(self, board: Leaderboard) -> None:
        """Add what people should know besides what was dropped."""

    def cells(self, source: FileSource, numbers: Ints) -> Cells:
        """What is printed beside ranks and scores, for rows or objects by number."""
        if not self.objects:
            return cells(source, numbers, self.keys)
        return object_cells(source, numbers, [*self.keys, *self.objects], self.where)


class FileFacts(NamedTuple):
    """What ``explain`` learns from a file: its rows, the time they span (if any) and its keys.

    ``query`` is the query checked against it, ``more`` what the family looked up.
    """

    file: str
    columns: str
    rows: int
    span: int | None
    keys: int | None
    query: FileQuery
    more: Any


class Explanation(NamedTuple):
    """How a query would be answered: names and sentences, and a flat record of metrics."""

    lines: list[tuple[str, str]]
    metrics: dict[str, Any]


@dataclass(frozen=True)
class QueryOptions(ABC):
    """What a command and ``explain`` ask of a file, in the words of the command line."""

    by: str | None
    time: str | None
    partition_by: list[str]
    algorithm: str
    query: Any
    where: str | None = field(default=None, kw_only=True)
    updates: bool = field(default=False, kw_only=True)  # whether rows say that they are final

    option: ClassVar[str] = ""
    """The option by which ``explain`` knows the family."""

    excludes: ClassVar[tuple[str, ...]] = ()
    """Options that ``explain`` refuses beside it."""

    ranked_by: ClassVar[str] = "score"
    """What a row has to have."""

    @classmethod
    def meant_by(cls, given: Given) -> bool:
        """Whether the options of ``explain`` mean this family."""
        return bool(given[cls.option])

    @classmethod
    @abstractmethod
    def parse(cls, given: Given) -> Self:
        """Check options before any file is opened."""

    def checked(self, source: FileSource) -> FileQuery:
        """Check the query against a file's columns; leave rows out that are not asked for."""
        if self.where is not None:
            source.where = expressions.condition(source, self.where)
        return self.check(source)

    @abstractmethod
    def check(self, source: FileSource) -> FileQuery:
        """Check the query against a file's columns."""

    @property
    def changes(self) -> bool:
        """Whether answers are what has changed since the window before."""
        return bool(self.query.emit == "changes")

    def look_up(self, source: FileSource, query: FileQuery) -> Any:
        """What ``explain`` needs to know of a file besides what it counts for every family."""
        return None

    @abstractmethod
    def explain(self, facts: FileFacts | None) -> Explanation:
        """How the query would be answered, with what is known of a file if there is one."""

    def time_and_keys(self, source: FileSource, window: Window) -> tuple[str | None, list[Column]]:
        """The SQL of the time, which must fit the window, and the columns of the keys."""
        sql = None
        if self.time is not None:
            time = expressions.time(source, self.time)
            if time.integers is not None:
                self.require_unit(window, time.integers)
            sql = time.sql
        return sql, expressions.keys(source, self.partition_by)

    def require_unit(self, window: Window, integers: bool) -> None:
        """Refuse durations over a column of whole numbers, and plain numbers over timestamps."""
        options.require_unit(window, integers, self.time or "")


def capped_query(query: Any, rows: int) -> Any:
    """A query of any family that answers so many rows as this one does.

    Its k is no more than the rows; a count window that they do not fill remains one.
    """
    window = query.window
    if isinstance(window, CountWindow):
        longest = (rows // window.slide + 1) * window.slide
        window = replace(window, size=min(window.size, longest))
    return replace(query, k=min(query.k, max(rows, 1)), window=window)
