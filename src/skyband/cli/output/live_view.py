"""What ``skyband run`` shows of a stream: its leaderboard and how it is doing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.readable import shown, size, span
from skyband.spark.families import family_of
from skyband.spark.jobs.progress import Batch, Progress

Row = Mapping[str, Any]
Now = Callable[[], datetime]

_PROGRESS = 13  # lines of a screen that are not leaders
_FEWEST = 5  # leaders that are shown however small the screen


def now() -> datetime:
    """The clock that lags are measured by."""
    return datetime.now(UTC)


class Watcher(Protocol):
    """Is called again and again while a stream runs."""

    def see(self, progress: Progress) -> None:
        """Show how the stream is doing, if that has changed."""


class Nobody:
    """Shows nothing."""

    def see(self, progress: Progress) -> None:
        """Nothing."""


class Lines:
    """Writes a line for each batch to stderr."""

    def __init__(self, query: Mapping[str, Any], now: Now = now) -> None:
        self._query, self._now = query, now
        self._reported = 0

    def see(self, progress: Progress) -> None:
        """Write a line if there was another batch."""
        if progress.last is None or progress.batches == self._reported:
            return
        self._reported = progress.batches
        batch = progress.last
        speed = f" ({progress.rows_per_second:,.0f} a second)" if batch.rows else ""
        candidates = [] if batch.candidates is None else [f"{batch.candidates:,} candidates"]
        parts = [
            f"{batch.rows:,} rows{speed}",
            f"{batch.windows:,} windows",
            f"watermark {watermark(batch, self._query, self._now())}",
            *candidates,
            f"state {size(batch.state_bytes)}",
            f"{batch.late:,} late groups",
            f"{batch.no_time + batch.future:,} rows set aside",
            f"{batch.null_score + batch.nan_score:,} not ranked",
            *([f"{batch.bad:,} bad records"] if batch.bad else []),
            *(f"{count:,} {name}" for name, count in batch.extra.items() if count),
            *([f"{progress.missed:,} batches missed so far"] if progress.missed else []),
            f"{batch.seconds:.2f} s",
        ]
        print(f"skyband: batch {batch.number}: {', '.join(parts)}", file=sys.stderr, flush=True)


class Screen:
    """Draws leaderboard and progress in place, on a terminal."""

    def __init__(
        self, title: str, query: Mapping[str, Any], console: Console, now: Now = now
    ) -> None:
        self._title, self._query, self._now = title, query, now
        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._board: RenderableType = ""

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self._board)  # the board stays, for the summary to follow it
        self._live.stop()

    def see(self, progress: Progress) -> None:
        """Draw everything anew: the clock moves even if no batch ran."""
        self._live.update(self.frame(progress), refresh=True)

    def frame(self, progress: Progress) -> RenderableType:
        """What stands on the screen."""
        title = Text.assemble(("Skyband", "bold cyan"), f"  {self._title}")
        room = max(_FEWEST, self._console.height - _PROGRESS)
        self._board = Group(title, "", board(progress.leaders, self._query, room))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, words in progress_lines(progress, self._query, self._now()):
            table.add_row(name, Text(words))
        return Group(self._board, "", table, "")  # a terminal echoes ^C on the last line


def board(leaders: Sequence[Row], query: Mapping[str, Any], room: int = 40) -> RenderableType:
    """The newest window as a table: all of it, or a few of each key."""
    if not leaders:
        return Text("No window has been answered yet.", "dim")
    keys = list(query["keys"])
    names = [name for name in leaders[0] if name not in ("window", *keys)]
    bounds = leaders[0]["window"]
    title = Text(f"{shown(bounds['start'])} to {shown(bounds['end'])}", "bold")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="dim")
    for name in [*keys, *names]:
        numbers = all(isinstance(row.get(name), (int, float, type(None))) for row in leaders)
        table.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    previous: tuple[Any, ...] | None = None
    for row in grouped_by_key(leaders, keys)[:room]:
        key = tuple(row.get(name) for name in keys)
        lead = ["" if key == previous else shown(value) for value in key]
        previous = key
        table.add_row(*map(Text, [*lead, *(shown(row.get(name)) for name in names)]))
    return Group(title, table)


def grouped_by_key(leaders: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Rows of the same key together, in the order of the keys' best rows."""
    order: dict[tuple[Any, ...], list[Row]] = {}
    for row in leaders:
        order.setdefault(tuple(row.get(name) for name in keys), []).append(row)
    return [row for rows in order.values() for row in rows]


def progress_lines(
    progress: Progress, query: Mapping[str, Any], clock: datetime
) -> list[tuple[str, str]]:
    """How a stream is doing, in words."""
    last = progress.last
    if last is None:
        return [("batch", "waiting for the first one")]
    candidates = "none yet" if progress.candidates is None else f"{progress.candidates:,} kept"
    meanings = family_of(query).extra_counts
    counts = [(name, count) for name, count in progress.extra.items() if count]
    return [
        ("rows", f"{progress.rows:,} read, {progress.rows_per_second:,.0f} a second"),
        ("windows", f"{progress.windows:,} answered, {progress.ranked:,} rows ranked"),
        ("watermark", watermark(last, query, clock)),
        ("late", f"{progress.late:,} partial groups (numRowsDroppedByWatermark)"),
        ("set aside", f"{progress.no_time:,} without a time, {progress.future:,} from the future"),
        ("not ranked", f"{progress.null_score:,} NULL and {progress.nan_score:,} NaN scores"),
        *([("bad records", f"{progress.bad:,} that could not be parsed")] if progress.bad else []),
        *((name, f"{count:,} {meanings.get(name, name)}") for name, count in counts),
        *([("missed", _missed(progress))] if progress.missed else []),
        ("candidates", candidates),
        ("state", f"{last.state_rows:,} entries, {size(last.state_bytes)}"),
        ("batch", f"{last.number:,}, {last.seconds:.2f} s"),
    ]


def _missed(progress: Progress) -> str:
    return f"{progress.missed:,} batches, over before they were looked at: not in these counts"


def watermark(batch: Batch, query: Mapping[str, Any], clock: datetime) -> str:
    """How far the stream is, and how far behind the clock."""
    if batch.drained:
        return "past everything: the stream is drained"
    if query["windows"] == "sequence":
        return f"row {batch.passed:,}"
    if batch.watermark is None or batch.watermark <= datetime(1970, 1, 1, tzinfo=UTC):
        return "none yet"
    return f"{batch.watermark:%Y-%m-%d %H:%M:%S}, {span(clock - batch.watermark)} behind the clock"
