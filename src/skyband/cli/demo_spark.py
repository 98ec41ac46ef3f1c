"""``skyband demo``: an embedded Spark ranks a lively stock market as it trades."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.cli.market import Trade
from skyband.cli.stages import Moves, boards, print_leaders

if TYPE_CHECKING:
    from skyband.demo.streams import Board, Boards

_POLL = 0.25  # seconds
_TITLE = "the 10 biggest trades of the last 10 minutes, every 10 seconds"


def run(seconds: float, seed: int, out: Path) -> None:
    """Show the market for so many seconds, then say what was done."""
    from skyband.demo.streams import Boards

    console = Console(highlight=False)
    drawn = sys.stdout.isatty() and console.is_interactive
    spinner = "line" if console.options.ascii_only else "dots"
    show = Show(console, drawn)
    interrupted = False
    with ExitStack() as ending:
        with console.status("Starting Spark ...", spinner=spinner) if drawn else nullcontext():
            found = ending.enter_context(Boards(out, seed))
        try:
            with show:
                _watch(found, show, seconds)
        except KeyboardInterrupt:
            interrupted = True
        with console.status("Stopping ...", spinner=spinner) if drawn else nullcontext():
            ending.close()
    for line in summary(found, show.spent):
        print(line)
    if interrupted:
        sys.stdout.flush()
        raise KeyboardInterrupt


def _watch(boards: Boards, show: Show, seconds: float) -> None:
    """Until the time is up, but not before both boards have answered anything."""
    began = time.monotonic()
    while True:
        fresh = boards.look()
        show.spent = time.monotonic() - began
        show.see(boards, fresh)
        answered = all(board.health.leaders for board in boards.boards)
        if answered and show.spent >= seconds:
            return
        time.sleep(_POLL)


class Show:
    """The boards in place on a terminal, else as plain text every few batches."""

    def __init__(self, console: Console, drawn: bool) -> None:
        self.spent = 0.0
        self._console, self._drawn = console, drawn
        self._live = Live(console=console, auto_refresh=False) if drawn else None
        self._moves, self._news = Moves(1), Moves(1)
        self._shown: tuple[list[int | None], list[int | None]] = ([], [])
        self._seen: tuple[Any, Any] = (None, None)
        self._printed = 0

    def __enter__(self) -> Show:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def see(self, boards: Boards, fresh: bool) -> None:
        """Show how things stand."""
        market, sectors = boards.boards
        leaders, best = trades_of(market), best_of(sectors)
        news = (market.health.leaders, sectors.health.leaders)
        if news[0] is not self._seen[0]:
            self._shown = (self._moves.since(leaders), self._shown[1])
        if news[1] is not self._seen[1]:
            self._shown = (self._shown[0], self._news.since(best))
        self._seen = news
        if self._live is not None:
            self._live.update(self._frame(boards, leaders, best), refresh=True)
        elif fresh and leaders and market.health.batches >= self._printed + 5:
            self._printed = market.health.batches
            print(_TITLE)
            print_leaders(leaders, self._shown[0])
            for name, words in health(boards, self.spent):
                print(f"  {name:10}  {words}")
            print(flush=True)

    def _frame(self, found: Boards, leaders: list[Trade], best: list[Trade]) -> RenderableType:
        title = Text.assemble(("Skyband", "bold cyan"), f"  {_TITLE}")
        tables: RenderableType = Text("The first windows are being traded ...", "dim")
        if leaders:
            tables = boards(self._console, leaders, self._shown[0], best, self._shown[1])
        return Group(title, "", tables, "", _table(health(found, self.spent)), "")


def _table(lines: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, words in lines:
        table.add_row(name, words)
    return table


def health(boards: Boards, spent: float) -> list[tuple[str, str]]:
    """How the streams are doing, in words."""
    market, sectors = (board.health for board in boards.boards)
    last = market.last
    watermark = "-" if last is None or last.watermark is None else f"{last.watermark:%H:%M:%S}"
    candidates = f"{market.candidates or 0:,}, and {sectors.candidates or 0:,} for the sectors"
    state = sum(h.last.state_bytes for h in (market, sectors) if h.last is not None)
    took = "-" if last is None else f"{last.seconds:.1f} s"
    return [
        (
            "trades",
            f"{market.rows:,} read, {market.rows_per_second:,.0f} a second in the last batch",
        ),
        ("watermark", f"{watermark} UTC of the market's day, {spent:.0f} s after the start"),
        ("windows", f"{market.windows:,} answered, and {sectors.windows:,} for the sectors"),
        ("candidates", candidates),
        ("state", f"{state / 1e6:.1f} MB as Spark counts it; last batch {took}"),
        ("set aside", f"{_aside(market):,} rows"),
    ]


def _aside(found: Any) -> int:
    counts = (found.no_time, found.future, found.null_score, found.nan_score, found.late)
    return int(sum(counts))


def summary(boards: Boards, spent: float) -> list[str]:
    """What was done and how to go on, line by line."""
    market, sectors = (board.health for board in boards.boards)
    if not market.windows:
        return ["No window was answered yet."]
    both = market.rows + sectors.rows
    busy = max(spent, 1e-9)
    kept = (market.candidates or 0) + (sectors.candidates or 0)
    out = boards.out
    look = f"from skyband.spark import session; session().read.parquet('{out}/market').show()"
    return [
        f"rows read   {market.rows:,} trades for the market, {sectors.rows:,} for the sectors",
        f"rows kept   {kept:,} candidates at the end; all other rows were forgotten",
        f"windows     {market.windows:,} for the market, {sectors.windows:,} for the sectors",
        f"speed       {both / busy:,.0f} rows a second by both queries together, in {spent:.0f} s",
        f"results     {out}/market and {out}/sectors, in Parquet",
        "",
        "To go on:",
        "  skyband demo --engine local       the same questions without Spark",
        "  skyband run JOB.yaml              your own stream; see docs/jobs.md and examples/jobs",
        f'  python -c "{look}"',
    ]


def trades_of(board: Board) -> list[Trade]:
    """The rows of the newest window, best first."""
    return [_trade(row) for row in board.health.leaders if row.get("rank") is not None]


def best_of(board: Board) -> list[Trade]:
    """The best row of each sector in the newest window."""
    best = [_trade(row) for row in board.health.leaders if row.get("rank") == 1]
    return sorted(best, key=lambda trade: trade.sector)


def _trade(row: Mapping[str, Any]) -> Trade:
    at = datetime.fromisoformat(row["ts"]).astimezone(UTC)
    return Trade(
        row=int(row["trade"]),
        time=int(at.timestamp() * 1e6),
        symbol=row["symbol"],
        sector=row["sector"],
        price=float(row["price"]),
        volume=int(row["volume"]),
        value=float(row["score"]),
    )
