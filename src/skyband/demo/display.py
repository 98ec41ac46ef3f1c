"""How the demonstration is shown, whatever ranks the market: drawn in place, or as plain text."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

BY = "price * volume"
K = 10
WINDOW, SLIDE = "10 minutes", "10 seconds"
WINDOWS_PER_SECOND = 6  # on a terminal: a second is a minute of trading

_BARS = "▁▂▃▄▅▆▇█"
_WIDE, _NARROW = 98, 76  # columns: for everything; for both boards without the leaders' sectors
_LABEL = 14  # columns before and after what is said of the stream's progress

Moves = list[int | None]
"""By how many ranks each trade of a board has risen; None if it has entered."""


SHOWN = ("symbol", "sector", "price", "volume")
"""The columns of the stream that a trade has, beside its number, its time and its value."""


class Trade(NamedTuple):
    """A row of the stream; ``value`` is its score."""

    row: int
    time: int
    symbol: str
    sector: str
    price: float
    volume: int
    value: float


class History:
    """What has happened to trades since so many windows ago."""

    def __init__(self, windows: int) -> None:
        self._past: deque[dict[int, int]] = deque([{}] * windows, maxlen=windows)

    def moves(self, trades: list[Trade]) -> Moves:
        """By how many ranks each trade has risen; None if it has entered."""
        ranks = {trade.row: rank for rank, trade in enumerate(trades)}
        before = self._past[0]
        self._past.append(ranks)
        return [before[row] - rank if row in before else None for row, rank in ranks.items()]


class Frame(NamedTuple):
    """What is shown at a time: both boards and what has moved, and how the stream is doing.

    ``progress`` is names and words. ``rates`` are trades a second, slide by slide of the window, if
    they are known.
    """

    title: str
    leaders: list[Trade]
    moves: Moves
    sectors: list[Trade]
    news: Moves
    progress: list[tuple[str, str]]
    rates: list[float]


def terminal() -> Console | None:
    """The terminal, if there is one to draw on."""
    console = Console(highlight=False)
    return console if sys.stdout.isatty() and console.is_interactive else None


def status(console: Console | None, what: str) -> AbstractContextManager[object]:
    """Show what is waited for, on a terminal."""
    if console is None:
        return nullcontext()
    return console.status(what, spinner="line" if console.options.ascii_only else "dots")


@contextmanager
def summarized(summary: Callable[[], list[str]]) -> Iterator[None]:
    """Print a summary of what was done in the block, also if Ctrl-C ended it."""
    try:
        yield
    except KeyboardInterrupt:
        print(*summary(), sep="\n", flush=True)
        raise
    print(*summary(), sep="\n")


def print_frame(frame: Frame, sectors: bool = False) -> None:
    """Print a frame in ASCII; ``sectors``: with the biggest trade of each."""
    print(frame.title)
    print(f"{'rank':>6}  change  symbol  {'sector':22}  {'value':>9}  time")
    for rank, (trade, move) in enumerate(zip(frame.leaders, frame.moves, strict=True), 1):
        change = "new" if move is None else f"{move:+d}" if move else ""
        print(f"{rank:>6}  {change:6}  {_line(trade)}")
    if sectors:
        print(f"  the biggest trade of each sector in the last {WINDOW}")
        for trade in frame.sectors:
            print(f"{'':16}{_line(trade)}")
    for name, words in frame.progress:
        print(f"  {name:10}  {words}")
    print(flush=True)


def _line(trade: Trade) -> str:
    value = dollars(trade.value)
    return f"{trade.symbol:6}  {trade.sector:22}  {value:>9}  {time_of_day(trade.time)}"


class Pace:
    """Lets windows come at an even pace, however fast they are answered."""

    def __init__(
        self,
        seconds: float = 1 / WINDOWS_PER_SECOND,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._seconds, self._now, self._sleep = seconds, now, sleep
        self._due: float | None = None

    def wait(self) -> bool:
        """Wait until the next window is due; False if the one after it is due already."""
        now = self._now()
        if self._due is None or now > self._due + 1:  # after a halt nobody wants to catch up
            self._due = now
        late = now - self._due
        if late < 0:
            self._sleep(-late)
        self._due += self._seconds
        return late < self._seconds


class DemoScreen:
    """Draws each frame in place of the one before.

    At the end the boards stay, for the summary to follow them, and what was said of the stream's
    progress if ``keep_progress``.
    """

    def __init__(self, console: Console, keep_progress: bool = False) -> None:
        self._console, self._keep_progress = console, keep_progress
        self._live = Live(console=console, auto_refresh=False)
        self._boards: list[RenderableType] = []

    def __enter__(self) -> DemoScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._keep_progress:
            self._live.update(Group(*self._boards, ""))
        self._live.stop()

    def draw(self, frame: Frame) -> None:
        """Draw a frame."""
        self._boards = _titled_boards(self._console, frame)
        self._live.update(layout(self._console, frame), refresh=True)


def layout(console: Console, frame: Frame) -> RenderableType:
    """A frame as a terminal shows it."""
    bars = 0 if console.options.ascii_only else console.width - _LABEL
    # a terminal echoes ^C on the last line
    return Group(*_titled_boards(console, frame), "", _progress(frame, bars), "")


def _titled_boards(console: Console, frame: Frame) -> list[RenderableType]:
    title = Text.assemble(("Skyband", "bold cyan"), f"  {frame.title}")
    return [title, "", _boards(console, frame)]


def _boards(console: Console, frame: Frame) -> RenderableType:
    """The leaderboard and, where there is room, the biggest trade of each sector beside it."""
    if not frame.leaders:
        return Text("The first windows are being traded ...", "dim")
    tables = [_leaders(frame, console.width >= _WIDE, console.options.ascii_only)]
    if console.width >= _NARROW:
        tables.append(_sectors(frame))
    beside = Table.grid(padding=(0, 3, 0, 0))
    beside.add_row(*tables)
    return beside


def _leaders(frame: Frame, wide: bool, ascii: bool) -> Table:
    place, change = Column("", justify="right", width=2), Column("", width=3)
    value = Column("value", justify="right", min_width=10)
    sector = [Column("sector", width=22)] if wide else []
    table = _board(place, change, Column("symbol"), *sector, value, Column("time", width=8))
    for rank, (trade, move) in enumerate(zip(frame.leaders, frame.moves, strict=True), 1):
        cells = [trade.symbol, *([trade.sector] if wide else []), dollars(trade.value)]
        table.add_row(
            str(rank), _arrow(move, ascii), *cells, time_of_day(trade.time), style=_style(move)
        )
    return table


def _sectors(frame: Frame) -> Table:
    sector = Column("biggest of each sector", width=22)
    table = _board(sector, Column("symbol"), Column("value", justify="right", min_width=9))
    for trade, new in zip(frame.sectors, frame.news, strict=True):
        table.add_row(trade.sector, trade.symbol, dollars(trade.value), style=_style(new))
    return table


def _board(*columns: Column) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="dim")


def _style(move: int | None) -> str:
    return "bold green" if move is None else ""


def _arrow(move: int | None, ascii: bool) -> Text:
    if move is None:
        return Text("new")
    if not move:
        return Text("")
    up, down = ("+", "-") if ascii else ("▲", "▼")
    return Text(f"{up if move > 0 else down}{abs(move)}", "green" if move > 0 else "red")


def _progress(frame: Frame, bars: int) -> Table:
    """How the stream is doing, with bars of its rates as wide as there is room."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in frame.progress:
        table.add_row(name, words)
        if name == "trades" and bars > 0 and frame.rates:
            most = max(frame.rates)
            drawn = (_BARS[int(rate / most * 7)] if rate else " " for rate in frame.rates)
            table.add_row("", Text("".join(drawn)[-bars:], "cyan"))
    return table


def dollars(value: float) -> str:
    """An amount in millions."""
    return f"${value / 1e6:,.2f} M"


def day_and_time(microseconds: int) -> str:
    """Day and time."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%a %Y-%m-%d %H:%M:%S} UTC"


def time_of_day(microseconds: int) -> str:
    """Time of day, to the second."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%H:%M:%S}"
