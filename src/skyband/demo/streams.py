"""The demonstration on an embedded Spark: two queries over one market as it trades."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from skyband.demo.display import (
    BY,
    SLIDE,
    WINDOW,
    Frame,
    History,
    K,
    Moves,
    Screen,
    Trade,
    print_frame,
    status,
)
from skyband.demo.trades import trades
from skyband.errors import QueryError, SkybandError
from skyband.spark.api import top_k
from skyband.spark.jobs.progress import BOARD, Progress, batch_of
from skyband.spark.jobs.run import observed
from skyband.spark.sessions import log_file, session

ROWS_PER_BATCH = 2_000_000  # twenty seconds of the market
_WRITTEN = "a demonstration of skyband wrote this directory\n"
_MARK = ".skyband-demo"
_POLL = 0.25  # seconds
_TITLE = "the 10 biggest trades of the last 10 minutes, every 10 seconds"


def run(seconds: float, seed: int, out: Path) -> None:
    """Show the market for so many seconds, then say what was done."""
    console = Console(highlight=False)
    drawn = sys.stdout.isatty() and console.is_interactive
    show = Show(Screen(console, keep_health=True) if drawn else None)
    interrupted = False
    with ExitStack() as ending:
        with status(console, "Starting Spark ...", drawn):
            boards = ending.enter_context(Boards(out, seed))
        try:
            with ExitStack() as showing:
                if show.screen is not None:
                    showing.enter_context(show.screen)
                _watch(boards, show, seconds)
        except KeyboardInterrupt:
            interrupted = True
        with status(console, "Stopping ...", drawn):
            ending.close()
    for line in _summary(boards, show.spent):
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
        answered = all(board.progress.leaders for board in boards.boards)
        if answered and show.spent >= seconds:
            return
        time.sleep(_POLL)


class Show:
    """The boards on a screen, else as plain text every few batches."""

    def __init__(self, screen: Screen | None) -> None:
        self.screen = screen
        self.spent = 0.0  # seconds
        self._leaders, self._sectors = _Seen(), _Seen()
        self._printed = 0

    def see(self, boards: Boards, fresh: bool) -> None:
        """Show how things stand."""
        market, sectors = boards.boards
        frame = Frame(
            _TITLE,
            *self._leaders.moves(market, market.trades()),
            *self._sectors.moves(sectors, sectors.best()),
            _health(boards, self.spent),
            [],
        )
        if self.screen is not None:
            self.screen.draw(frame)
        elif fresh and frame.leaders and market.progress.batches >= self._printed + 5:
            self._printed = market.progress.batches
            print_frame(frame)


class _Seen:
    """What has moved on a board since its window before."""

    def __init__(self) -> None:
        self._history = History(1)
        self._newest: Any = None
        self._moves: Moves = []

    def moves(self, board: Board, trades: list[Trade]) -> tuple[list[Trade], Moves]:
        """The trades, and their moves, which change with the answers of the board."""
        if board.progress.leaders is not self._newest:
            self._moves = self._history.moves(trades)
            self._newest = board.progress.leaders
        return trades, self._moves


@dataclass
class Board:
    """One query at work: its stream, and how it is doing."""

    name: str
    stream: Any
    progress: Progress

    def look(self) -> bool:
        """Take in new progress; whether there was any."""
        fresh = False
        for report in self.stream.recentProgress:
            batch = batch_of(report)
            fresh |= batch is not None and self.progress.add(batch)
        return fresh

    def trades(self) -> list[Trade]:
        """The rows of the newest window, best first."""
        return [_trade(row) for row in self.progress.leaders if row.get("rank") is not None]

    def best(self) -> list[Trade]:
        """The best row of each sector in the newest window."""
        best = [_trade(row) for row in self.progress.leaders if row.get("rank") == 1]
        return sorted(best, key=lambda trade: trade.sector)


class Boards:
    """Both boards on an embedded Spark; use it as a context manager: nothing is left running."""

    def __init__(self, out: Path, seed: int) -> None:
        self.out = out
        self._seed = seed
        self.boards: list[Board] = []
        self._spark: SparkSession | None = None

    def __enter__(self) -> Boards:
        _fresh(self.out)
        self._spark = session(app="skyband demo")
        rows = trades(self._spark, ROWS_PER_BATCH, self._seed)
        keep = ["trade", "ts", "symbol", "sector", "price", "volume"]
        query: dict[str, Any] = {
            "k": K,
            "by": BY,
            "time": "ts",
            "window": WINDOW,
            "slide": SLIDE,
            "delay": "2 seconds",
            "id": "trade",
        }
        try:
            self._start("market", top_k(rows, keep=keep, **query))
            others = [name for name in keep if name != "sector"]
            self._start("sectors", top_k(rows, keep=others, partition_by="sector", **query))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name: str, leaders: DataFrame) -> None:
        query = dict(leaders.schema["rank"].metadata["skyband"])
        writer = observed(leaders, BOARD, query).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.out / "checkpoints" / name))
        stream = writer.option("path", str(self.out / name)).queryName(name).start()
        self.boards.append(Board(name, stream, Progress()))

    def look(self) -> bool:
        """Take in what both streams report; whether there was anything new."""
        fresh = [board.look() for board in self.boards]
        for board in self.boards:
            failure = board.stream.exception()
            if failure is not None:
                raise SkybandError(
                    f"the stream {board.name} failed: {str(failure).splitlines()[0]}",
                    fix=f"Spark's own words are in {log_file()}",
                )
        return any(fresh)

    def __exit__(self, *_: object) -> None:
        for board in self.boards:
            board.stream.stop()
            board.look()
        if self._spark is not None:
            self._spark.stop()
        log_file().unlink(missing_ok=True)


def _fresh(out: Path) -> None:
    """An empty directory; one that an earlier demonstration filled is emptied, no other."""
    if out.exists():
        if not (out / _MARK).is_file() and any(out.iterdir()):
            raise QueryError(
                f"--out {str(out)!r} holds files that no demonstration wrote",
                "a new or empty directory",
                "choose another with --out",
            )
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / _MARK).write_text(_WRITTEN)


def _health(boards: Boards, spent: float) -> list[tuple[str, str]]:
    """How the streams are doing, in words."""
    market, sectors = (board.progress for board in boards.boards)
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


def _aside(market: Any) -> int:
    counts = (market.no_time, market.future, market.null_score, market.nan_score, market.late)
    return int(sum(counts))


def _summary(boards: Boards, spent: float) -> list[str]:
    """What was done and how to go on, line by line."""
    market, sectors = (board.progress for board in boards.boards)
    if not market.windows:
        return ["No window was answered yet."]
    both = market.rows + sectors.rows
    busy = max(spent, 1e-9)
    candidates = (market.candidates or 0) + (sectors.candidates or 0)
    out = boards.out
    look = f"from skyband.spark import session; session().read.parquet('{out}/market').show()"
    return [
        f"rows read   {market.rows:,} trades for the market, {sectors.rows:,} for the sectors",
        f"rows kept   {candidates:,} candidates at the end; all other rows were forgotten",
        f"windows     {market.windows:,} for the market, {sectors.windows:,} for the sectors",
        f"speed       {both / busy:,.0f} rows a second by both queries together, in {spent:.0f} s",
        f"results     {out}/market and {out}/sectors, in Parquet",
        "",
        "To go on:",
        "  skyband demo --engine local       the same questions without Spark",
        "  skyband run JOB.yaml              your own stream; see docs/jobs.md and examples/jobs",
        f'  python -c "{look}"',
    ]


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
