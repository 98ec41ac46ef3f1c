"""``skyband demo``: the local engine at work on a lively stock market.

Trades flow pane by pane into :class:`Market`, which asks two questions of them; what it answers
goes to a stage, :class:`Screen` on a terminal and :class:`Plain` elsewhere, and to a file.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.cli import options
from skyband.datasets import dataset
from skyband.datasets.stock import SECTORS
from skyband.durations import microseconds, spoken
from skyband.errors import QueryError
from skyband.monitor import Monitor
from skyband.order import Floats, Ints
from skyband.planner import Plan
from skyband.query import TopK, last

WINDOWS_PER_SECOND = 6  # shown on a terminal: a second is a minute of trading

_WINDOW, _SLIDE = "10 minutes", "10 seconds"
_LENGTH, _STEP = microseconds(_WINDOW), microseconds(_SLIDE)
_SECOND = 1_000_000
_BY = "price * volume"
_MARKET = TopK(10, last(time=_WINDOW, slide=_SLIDE))
_SECTOR = TopK(1, last(time=_WINDOW, slide=_SLIDE))
_ENDLESS = 1 << 62  # rows
_BARS = "▁▂▃▄▅▆▇█"


class Trade(NamedTuple):
    """A row of the stream, as it is shown; ``value`` is its score."""

    row: int
    time: int
    symbol: str
    sector: str
    price: float
    volume: int
    value: float


class Pane(NamedTuple):
    """The trades of one slide of time, which ends before ``end``; ``first`` is a row number."""

    end: int
    first: int
    times: Ints
    values: Floats
    batch: pa.RecordBatch

    def trade(self, at: int) -> Trade:
        """One of its rows."""
        names = ("symbol", "sector", "price", "volume")
        columns = (self.batch.column(name)[at].as_py() for name in names)
        return Trade(self.first + at, int(self.times[at]), *columns, float(self.values[at]))


def panes(batches: Iterable[pa.RecordBatch]) -> Iterator[Pane]:
    """Cut trades, which come in time order, at the ends of windows.

    Stretches without trades are left out, and so is the last pane of a stream that ends.
    """
    held: list[pa.RecordBatch] = []
    current, first = 0, 0
    for batch in batches:
        number = _numbers(batch, "ts") // _STEP
        cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), batch.num_rows]
        for low, high in itertools.pairwise(cuts):
            if held and int(number[low]) != current:
                pane = _pane(held, first, (current + 1) * _STEP)
                first += len(pane.times)
                held = []
                yield pane
            current = int(number[low])
            held.append(batch.slice(low, high - low))


def _pane(parts: list[pa.RecordBatch], first: int, end: int) -> Pane:
    (batch,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    values = _numbers(batch, "price") * _numbers(batch, "volume")
    return Pane(end, first, _numbers(batch, "ts"), values, batch)


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    """A column as an array of our own. Arrow's own way to NumPy imports pandas, if it is there."""
    column = batch.column(name)
    return np.array(np.from_dlpack(column.cast(pa.int64()) if name == "ts" else column))


class Board:
    """One query over some of the trades; holds those that its monitor may still report.

    The monitor numbers trades as they come, and so does ``held``.
    """

    def __init__(self, query: TopK) -> None:
        self.monitor = Monitor(query)
        self.held: dict[int, Trade] = {}
        self.spent = 0.0  # seconds inside push
        self._pushed = 0

    def push(self, pane: Pane, places: Ints) -> dict[int, list[Trade]]:
        """Take in the pane's trades at these places; return answers by the end of their window."""
        values, times = pane.values[places], pane.times[places]
        began = time.perf_counter()
        ranked = self.monitor.push(values, times=times, watermark=pane.end)
        self.spent += time.perf_counter() - began
        kept = self.monitor.algorithm.kept()
        for number in np.union1d(kept, ranked.id).tolist():
            if number >= self._pushed:
                self.held[number] = pane.trade(int(places[number - self._pushed]))
        self._pushed += len(places)
        answers = {w.end: [self.held[number] for number in w.id.tolist()] for w in ranked}
        self.held = {number: self.held[number] for number in kept.tolist()}
        return answers


@dataclass(frozen=True)
class Scene:
    """A window's answers, and how the stream and the engine are doing."""

    end: int
    leaders: list[Trade]
    sectors: list[Trade]
    read: int
    rates: list[float]  # trades a second, slide by slide of the window
    in_window: int
    kept: tuple[int, int]  # candidates of the whole market, and of all sectors together
    answered: int
    plan: Plan

    @property
    def share(self) -> str:
        """The candidates as a share of the window."""
        market, sectors = self.kept
        part = f"{100 * (market + sectors) / max(self.in_window, 1):.2g} %"
        return (
            f"{market} + {sectors} for the sectors: {part} of the {self.in_window:,} in the window"
        )


class Market:
    """The two questions: the biggest trades of all, and the biggest of each sector."""

    def __init__(self) -> None:
        self.market = Board(_MARKET)
        self.sectors = [Board(_SECTOR) for _ in SECTORS]
        self.read = 0
        self.answered = 0
        self._sizes: dict[int, int] = {}  # trades of the panes of the window, by their end

    @property
    def spent(self) -> float:
        """Seconds inside the engine."""
        return sum(board.spent for board in (self.market, *self.sectors))

    def push(self, pane: Pane) -> Iterator[Scene]:
        """Take in a pane and give the windows that it completes."""
        self.read += len(pane.times)
        self._sizes[pane.end] = len(pane.times)
        found = self.market.push(pane, np.arange(len(pane.times)))
        sector = np.array(
            np.from_dlpack(pc.index_in(pane.batch.column("sector"), pa.array(SECTORS)))
        )
        each = [
            board.push(pane, np.flatnonzero(sector == number))
            for number, board in enumerate(self.sectors)
        ]
        kept = (len(self.market.held), sum(len(board.held) for board in self.sectors))
        for end, leaders in found.items():
            best = [trade for answers in each for trade in answers.get(end, [])]
            ends = range(end - _LENGTH + _STEP, end + 1, _STEP)
            sizes = [self._sizes.get(one, 0) for one in ends]
            rates = [size * _SECOND / _STEP for size in sizes]
            self.answered += 1
            yield Scene(
                end,
                leaders,
                best,
                self.read,
                rates,
                sum(sizes),
                kept,
                self.answered,
                self.market.monitor.plan,
            )
        self._sizes = {end: n for end, n in self._sizes.items() if end > pane.end - _LENGTH}


class Moves:
    """What happened to trades since some windows ago."""

    def __init__(self, windows: int) -> None:
        self._past: deque[dict[int, int]] = deque([{}] * windows, maxlen=windows)

    def since(self, trades: list[Trade]) -> list[int | None]:
        """By how many ranks each trade has risen; None if it has entered."""
        ranks = {trade.row: rank for rank, trade in enumerate(trades)}
        before = self._past[0]
        self._past.append(ranks)
        return [before[row] - rank if row in before else None for row, rank in ranks.items()]


class Stage(Protocol):
    """Where scenes are shown."""

    def show(self, scene: Scene, final: bool) -> None:
        """Show a window; ``final`` is the last one."""


class Plain:
    """Prints a leaderboard every few windows, in plain ASCII, as fast as they come."""

    def __init__(self, every: int = 30) -> None:
        self._every = every
        self._moves = Moves(every)

    def show(self, scene: Scene, final: bool) -> None:
        """Print every so many windows, and at the end."""
        moves = self._moves.since(scene.leaders)
        if scene.answered % self._every and not final:
            return
        print(f"{_day(scene.end)} {_clock(scene.end)} UTC: {_MARKET} by {_BY}")
        print(f"rank  change  symbol  {'sector':22}       value  time")
        for rank, (trade, move) in enumerate(zip(scene.leaders, moves, strict=True), 1):
            change = "new" if move is None else f"{move:+d}" if move else ""
            print(
                f"{rank:>4}  {change:6}  {trade.symbol:6}  {trade.sector:22}  "
                f"{_dollars(trade.value):>10}  {_clock(trade.time)}"
            )
        print(f"{len(scene.sectors)} sectors' biggest trades of the last {_WINDOW}")
        for trade in scene.sectors:
            print(
                f"              {trade.symbol:6}  {trade.sector:22}  "
                f"{_dollars(trade.value):>10}  {_clock(trade.time)}"
            )
        print(f"{scene.read:,} trades read, {scene.rates[-1]:,.0f} a second now")
        print(f"candidates kept: {scene.share}\n", flush=True)


class Pace:
    """Makes windows come at an even pace, however fast they are answered."""

    def __init__(
        self,
        seconds: float = 1 / WINDOWS_PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._seconds, self._clock, self._sleep = seconds, clock, sleep
        self._due: float | None = None

    def wait(self) -> bool:
        """Wait until the next window is due; False if it is so late that it is best not drawn."""
        now = self._clock()
        if self._due is None or now > self._due + 1:  # after a halt there is no catching up
            self._due = now
        late = now - self._due
        if late < 0:
            self._sleep(-late)
        self._due += self._seconds
        return late < self._seconds


class Screen:
    """Draws every window on a terminal, in place."""

    def __init__(self, console: Console, live: Live, pace: Pace) -> None:
        self._console, self._live, self._pace = console, live, pace
        self._moves, self._news = Moves(WINDOWS_PER_SECOND), Moves(WINDOWS_PER_SECOND)

    def show(self, scene: Scene, final: bool) -> None:
        """Draw a window when it is due."""
        moves, news = self._moves.since(scene.leaders), self._news.since(scene.sectors)
        if self._pace.wait() or final:
            self._live.update(self._drawn(scene, moves, news), refresh=True)

    def _drawn(
        self, scene: Scene, moves: list[int | None], news: list[int | None]
    ) -> RenderableType:
        width, ascii = self._console.width, self._console.options.ascii_only
        title = Text.assemble(("Skyband", "bold cyan"), f"  {_MARKET} by {_BY}")
        boards = Table.grid(padding=(0, 2, 0, 0))
        row: list[RenderableType] = [_leaders(scene.leaders, moves, width >= 98, ascii)]
        if width >= 74:
            row.append(_sectors(scene.sectors, news))
        boards.add_row(*row)
        return Group(title, "", boards, "", _health(scene, ascii))


def _leaders(trades: list[Trade], moves: list[int | None], wide: bool, ascii: bool) -> Table:
    table = _board("biggest trades")
    table.add_column("#", justify="right", style="bold")
    table.add_column("", width=3)
    table.add_column("symbol")
    if wide:
        table.add_column("sector", width=22)
    table.add_column("value", justify="right", min_width=9)
    table.add_column("time", width=8)
    for rank, (trade, move) in enumerate(zip(trades, moves, strict=True), 1):
        sector = [trade.sector] if wide else []
        style = "bold green" if move is None else ""
        table.add_row(
            str(rank),
            _arrow(move, ascii),
            trade.symbol,
            *sector,
            _dollars(trade.value),
            _clock(trade.time),
            style=style,
        )
    return table


def _arrow(move: int | None, ascii: bool) -> Text:
    if move is None:
        return Text("new" if ascii else "→", "bold green")
    if not move:
        return Text("")
    up, down = ("+", "-") if ascii else ("▲", "▼")
    return Text(f"{up if move > 0 else down}{abs(move)}", "green" if move > 0 else "red")


def _sectors(trades: list[Trade], news: list[int | None]) -> Table:
    table = _board("biggest trade of each sector")
    table.add_column("sector", width=22)
    table.add_column("symbol")
    table.add_column("value", justify="right", min_width=9)
    for trade, new in zip(trades, news, strict=True):
        style = "bold green" if new is None else ""
        table.add_row(trade.sector, trade.symbol, _dollars(trade.value), style=style)
    return table


def _board(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _health(scene: Scene, ascii: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    bars = ""
    if not ascii:
        top = max(scene.rates) or 1
        bars = "".join(_BARS[int(rate / top * (len(_BARS) - 1))] for rate in scene.rates)
    table.add_row("event time", f"{_day(scene.end)} {_clock(scene.end)} UTC")
    table.add_row("trades", f"{scene.read:,} read, {scene.rates[-1]:,.0f} a second now")
    table.add_row("", Text(bars, "cyan"))
    table.add_row("candidates", scene.share)
    table.add_row("windows", f"{scene.answered:,} answered")
    table.add_row("algorithm", str(scene.plan))
    return table


class Results:
    """Writes every answer to a Parquet file, which appears under its name when it is whole."""

    schema = pa.schema(
        [
            ("window_start", pa.timestamp("us", tz="UTC")),
            ("window_end", pa.timestamp("us", tz="UTC")),
            ("leaderboard", pa.string()),
            ("rank", pa.int64()),
            ("score", pa.float64()),
            ("row", pa.int64()),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("symbol", pa.string()),
            ("sector", pa.string()),
            ("price", pa.float64()),
            ("volume", pa.int64()),
        ]
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f"{path.name}.part")
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> Results:
        self._writer = parquet.ParquetWriter(self._part, self.schema)
        return self

    def add(self, scene: Scene) -> None:
        """Remember a window's answers."""
        window = (scene.end - _LENGTH, scene.end)
        boards = [("market", rank, trade) for rank, trade in enumerate(scene.leaders, 1)]
        boards += [("sector", 1, trade) for trade in scene.sectors]
        self._rows += [
            (*window, name, rank, t.value, t.row, t.time, t.symbol, t.sector, t.price, t.volume)
            for name, rank, t in boards
        ]
        if len(self._rows) > 50_000:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self.schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        self._writer.write_table(pa.table(arrays, self.schema))
        self._rows = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._part.replace(self.path)
        finally:
            self._part.unlink(missing_ok=True)
