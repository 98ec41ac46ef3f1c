"""Where ``skyband demo`` shows its windows: in place on a terminal, as plain text elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.cli.market import BY, TOP, WINDOW, Scene, Trade

WINDOWS_PER_SECOND = 6  # on a terminal: a second is a minute of trading

_BARS = "▁▂▃▄▅▆▇█"
_WIDE, _NARROW = 98, 76  # columns: for everything; for both boards without the leaders' sectors
_LABEL = 14  # columns before and after what is said of the stream's health


class Moves:
    """What has happened to trades since so many windows ago."""

    def __init__(self, windows: int) -> None:
        self._past: deque[dict[int, int]] = deque([{}] * windows, maxlen=windows)

    def since(self, trades: list[Trade]) -> list[int | None]:
        """By how many ranks each trade has risen; None if it has entered."""
        ranks = {trade.row: rank for rank, trade in enumerate(trades)}
        before = self._past[0]
        self._past.append(ranks)
        return [before[row] - rank if row in before else None for row, rank in ranks.items()]


class Stage(Protocol):
    """Shows one window after the other."""

    def show(self, scene: Scene, final: bool) -> None:
        """Show a window, or pass over it; never over the ``final`` one."""


class Plain:
    """Prints a leaderboard every few windows, in ASCII, as fast as they come."""

    def __init__(self, every: int = 30) -> None:
        self._every = every
        self._moves = Moves(every)

    def show(self, scene: Scene, final: bool) -> None:
        """Print every so many windows, and the last one."""
        moves = self._moves.since(scene.leaders)
        if scene.answered % self._every and not final:
            return
        print(f"{TOP}, by {BY}")
        print_leaders(scene.leaders, moves)
        if final:
            print(f"  the biggest trade of each sector in the last {WINDOW}")
            for trade in scene.sectors:
                print(f"{'':16}{_line(trade)}")
        for name, words in health(scene):
            print(f"  {name:10}  {words}")
        print(flush=True)


def print_leaders(trades: list[Trade], moves: list[int | None]) -> None:
    """A leaderboard in ASCII."""
    print(f"{'rank':>6}  change  symbol  {'sector':22}  {'value':>9}  time")
    for rank, (trade, move) in enumerate(zip(trades, moves, strict=True), 1):
        change = "new" if move is None else f"{move:+d}" if move else ""
        print(f"{rank:>6}  {change:6}  {_line(trade)}")


def _line(trade: Trade) -> str:
    value = dollars(trade.value)
    return f"{trade.symbol:6}  {trade.sector:22}  {value:>9}  {clock(trade.time)}"


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


class Screen:
    """Draws each window in place of the one before; late ones are passed over.

    At the end the boards stay, for the summary to follow them.
    """

    def __init__(self, console: Console, pace: Pace) -> None:
        self._console, self._pace = console, pace
        self._live = Live(console=console, auto_refresh=False)
        self._moves, self._news = Moves(WINDOWS_PER_SECOND), Moves(WINDOWS_PER_SECOND)
        self._drawn: list[RenderableType] = []

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.update(Group(*self._drawn, ""))
        self._live.stop()

    def show(self, scene: Scene, final: bool) -> None:
        """Draw a window when it is due."""
        moves, news = self._moves.since(scene.leaders), self._news.since(scene.sectors)
        if not self._pace.wait() and not final:
            return
        beside = boards(self._console, scene.leaders, moves, scene.sectors, news)
        title = Text.assemble(("Skyband", "bold cyan"), f"  {TOP}, by {BY}")
        self._drawn = [title, "", beside]
        ascii = self._console.options.ascii_only
        health = _drawn_health(scene, 0 if ascii else self._console.width - _LABEL)
        frame = Group(*self._drawn, "", health, "")  # a terminal echoes ^C on the last line
        self._live.update(frame, refresh=True)


def boards(
    console: Console,
    leaders: list[Trade],
    moves: list[int | None],
    sectors: list[Trade],
    news: list[int | None],
) -> Table:
    """The leaderboard and, where there is room, the biggest trade of each sector beside it."""
    shown = [_leaders(leaders, moves, console.width >= _WIDE, console.options.ascii_only)]
    if console.width >= _NARROW:
        shown.append(_sectors(sectors, news))
    beside = Table.grid(padding=(0, 3, 0, 0))
    beside.add_row(*shown)
    return beside


def _leaders(trades: list[Trade], moves: list[int | None], wide: bool, ascii: bool) -> Table:
    table = _board()
    table.add_column("", justify="right", width=2)
    table.add_column("", width=3)
    table.add_column("symbol")
    if wide:
        table.add_column("sector", width=22)
    table.add_column("value", justify="right", min_width=10)
    table.add_column("time", width=8)
    for rank, (trade, move) in enumerate(zip(trades, moves, strict=True), 1):
        cells = [trade.symbol, *([trade.sector] if wide else []), dollars(trade.value)]
        table.add_row(str(rank), _arrow(move, ascii), *cells, clock(trade.time), style=_style(move))
    return table


def _sectors(trades: list[Trade], news: list[int | None]) -> Table:
    table = _board()
    table.add_column("biggest of each sector", width=22)
    table.add_column("symbol")
    table.add_column("value", justify="right", min_width=9)
    for trade, new in zip(trades, news, strict=True):
        table.add_row(trade.sector, trade.symbol, dollars(trade.value), style=_style(new))
    return table


def _board() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="dim")


def _style(move: int | None) -> str:
    return "bold green" if move is None else ""


def _arrow(move: int | None, ascii: bool) -> Text:
    if move is None:
        return Text("new")
    if not move:
        return Text("")
    up, down = ("+", "-") if ascii else ("▲", "▼")
    return Text(f"{up if move > 0 else down}{abs(move)}", "green" if move > 0 else "red")


def _drawn_health(scene: Scene, bars: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in health(scene):
        table.add_row(name, words)
        if name == "trades" and bars > 0:
            table.add_row("", Text(_bars(scene.rates)[-bars:], "cyan"))
    return table


def _bars(rates: list[float]) -> str:
    most = max(rates)
    return "".join(_BARS[int(rate / most * 7)] if rate else " " for rate in rates)


def health(scene: Scene) -> list[tuple[str, str]]:
    """How the stream and the engine are doing, in words."""
    return [
        ("event time", f"{moment(scene.end)}, {scene.answered:,} windows answered"),
        ("trades", f"{scene.read:,} read, {scene.rates[-1]:,.0f} a second now"),
        ("candidates", candidates(scene)),
        ("algorithm", str(scene.plan)),
    ]


def candidates(scene: Scene) -> str:
    """How much of the window can still be an answer, in words."""
    top, best = scene.kept
    share = f"{scene.share:.2g} % of the window's {scene.in_window:,} trades"
    return f"{top}, and {best} for the sectors: {share}"


def dollars(value: float) -> str:
    """An amount in millions."""
    return f"${value / 1e6:,.2f} M"


def moment(microseconds: int) -> str:
    """Day and time."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%a %Y-%m-%d %H:%M:%S} UTC"


def clock(microseconds: int) -> str:
    """Time of day, to the second."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%H:%M:%S}"
