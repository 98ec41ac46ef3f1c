"""The demonstration on an embedded Spark: two queries over one market as it trades."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import DataFrame

from skyband.demo import display
from skyband.demo.trades import market
from skyband.errors import QueryError, SkybandError
from skyband.serve.address import Address
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.of_job import layout_of
from skyband.serve.server import PageServer
from skyband.spark import java_process
from skyband.spark.api import top_k
from skyband.spark.java_process import GONE
from skyband.spark.jobs.progress import Progress
from skyband.spark.sessions import FAILURES, log_file, session
from skyband.spark.watching import BOARD, SERVED, board_columns, observed

ROWS_PER_BATCH = 200_000  # two seconds of the market
_WRITTEN = "a demonstration of skyband wrote this directory\n"
_MARK = ".skyband-demo"
_POLL = 0.25  # seconds
_PRINTED = 5  # batches from one printed board to the next
_TITLE = "the 10 biggest trades of the last 10 minutes, every 10 seconds, so far"
_WORDS = {
    "market": "the 10 biggest trades of the last 10 minutes",
    "sectors": "the 10 biggest trades of the last 10 minutes, for each sector",
}


def run_streams(seconds: float, seed: int, out: Path, stop: Event, serve: str | None) -> None:
    """Show the market for so many seconds, or until ``stop`` is set, then say what was done.

    ``serve`` is the address of a live page. With 0 seconds the market never closes.
    """
    console = display.terminal()
    screen = None if console is None else display.DemoScreen(console, keep_progress=True)
    with ExitStack() as page:
        feed = None
        if serve is not None:
            server = page.enter_context(PageServer(Feed("a lively market"), Address.parsed(serve)))
            feed = server.feed
            print(f"the live page is at {server.url}", flush=True)
        with _reworded(), display.status(console, "Starting Spark ..."):
            boards = Boards(out, seed, feed)
        with _reworded(), display.summarized(lambda: _summary(boards)):
            try:
                with screen or nullcontext():
                    _watch(boards, screen, seconds, stop)
            finally:
                if feed is not None:
                    feed.end("The demonstration has ended.")
                with display.status(console, "Stopping ..."):
                    boards.stop()


@contextmanager
def _reworded() -> Iterator[None]:
    """Say it in one line if Spark has gone."""
    try:
        yield
    except (*GONE, *FAILURES) as error:
        if java_process.is_gone(error):
            raise java_process.gone("run skyband demo again") from None
        raise


def _watch(boards: Boards, screen: display.DemoScreen | None, seconds: float, stop: Event) -> None:
    """Draw, or print, until the time is up, but not before both boards have a final answer."""
    printed = 0
    while not stop.wait(_POLL):
        fresh = boards.look()
        frame = boards.frame()
        batches = boards.market.progress.batches
        if screen is not None:
            screen.draw(frame)
        elif fresh and frame.leaders and batches >= printed + _PRINTED:
            printed = batches
            display.print_frame(frame)
        answered = boards.market.progress.windows and boards.sectors.progress.windows
        if seconds and answered and boards.spent >= seconds:
            return


class StreamBoard:
    """One query at work: its stream, how it is doing, and the best trades of its newest window.

    Of each key, ``ranks`` trades are shown. A batch reports the rankings that it has changed.
    """

    def __init__(
        self, leaders: DataFrame, out: Path, name: str, ranks: int, feed: Feed | None
    ) -> None:
        self.name, self.ranks = name, ranks
        self.progress = Progress()
        self.trades: list[display.Trade] = []
        self.moves: display.Moves = []
        self._history = display.History(1)
        self._end = ""  # of the window that is shown
        self._shown: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}  # its rows, by key
        query = dict(leaders.schema["rank"].metadata["skyband"])
        self._keys = query["keys"]
        columns = board_columns(leaders, query, SERVED)
        self.served = ServedQuery(_WORDS[name], layout_of(query, columns), name)
        if feed is not None:
            self.progress.on_batch = lambda batch: feed.take(batch, self.served)
        watched = observed(leaders, BOARD, query, None if feed is None else SERVED)
        writer = watched.writeStream.format("parquet").queryName(name)
        writer = writer.option("checkpointLocation", str(out / "checkpoints" / name))
        self.stream = writer.option("path", str(out / name)).start()

    def look(self) -> bool:
        """Take in new progress; whether there was any."""
        before = self.progress.leaders
        fresh = self.progress.collect(self.stream.recentProgress)
        if self.progress.leaders is not before:
            self._replace(self.progress.leaders)
            shown = [row for rows in self._shown.values() for row in rows]
            shown.sort(key=lambda row: (row["rank"], row["sector"]))
            self.trades = [_trade(row) for row in shown]
            self.moves = self._history.moves(self.trades)
        return fresh

    def _replace(self, leaders: Sequence[Mapping[str, Any]]) -> None:
        """Show rankings in place of those of the same keys, or of an earlier window."""
        end = leaders[0]["window"]["end"]
        if end != self._end:
            self._end, self._shown = end, {}
        changed: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in leaders:
            rows = changed.setdefault(tuple(row[name] for name in self._keys), [])
            if row["rank"] <= self.ranks:
                rows.append(row)
        self._shown |= changed


def _trade(row: Mapping[str, Any]) -> display.Trade:
    at = int(datetime.fromisoformat(row["ts"]).timestamp() * 1e6)
    shown = {name: row[name] for name in display.SHOWN}
    return display.Trade(row=row["trade"], time=at, value=row["score"], **shown)


class Boards:
    """The market's board and that of its sectors, at work on an embedded Spark until stopped."""

    def __init__(self, out: Path, seed: int, feed: Feed | None = None) -> None:
        self.out = out
        self._feed = feed
        self.spent = 0.0  # seconds from the start to the last look
        self._boards: list[StreamBoard] = []
        _make_empty(out)
        self._spark = session(app="skyband demo")
        try:
            numbers = self._spark.readStream.format("rate-micro-batch")
            rows = market(numbers.option("rowsPerBatch", ROWS_PER_BATCH).load(), seed)
            ranked = partial(
                top_k,
                rows,
                k=display.K,
                by=display.BY,
                time="ts",
                window=display.WINDOW,
                slide=display.SLIDE,
                delay="2 seconds",
                id="trade",
                emit="updates",
                open_windows="current",
            )
            keep = ["trade", "ts", "symbol", "sector", "price", "volume"]
            self._boards.append(StreamBoard(ranked(keep=keep), out, "market", display.K, feed))
            others = [name for name in keep if name != "sector"]
            sectors = ranked(keep=others, partition_by="sector")
            self._boards.append(StreamBoard(sectors, out, "sectors", 1, feed))
        except BaseException:
            self.stop()
            raise
        self.market, self.sectors = self._boards
        if feed is not None:
            feed.describe([board.served for board in self._boards], "top-k")
        self._began = time.monotonic()

    def look(self) -> bool:
        """Take in what both streams report; whether there was anything new."""
        fresh = [board.look() for board in self._boards]
        self.spent = time.monotonic() - self._began
        if self._feed is not None:
            for board in self._boards:
                self._feed.see(board.progress, board.name)
        for board in self._boards:
            failure = board.stream.exception()
            if failure is not None:
                raise SkybandError(
                    f"the stream {board.name} failed: {str(failure).splitlines()[0]}",
                    fix=f"Spark's own words are in {log_file()}",
                )
        return any(fresh)

    def stop(self) -> None:
        """Leave nothing running."""
        try:
            for board in self._boards:
                board.stream.stop()
                board.look()
        except KeyboardInterrupt:
            java_process.end()
            raise
        finally:
            with suppress(*FAILURES, *GONE):
                self._spark.stop()
        log_file().unlink(missing_ok=True)

    def frame(self) -> display.Frame:
        """Both boards, and how the streams are doing, in words."""
        market, sectors = self.market.progress, self.sectors.progress
        last = market.last
        watermark = "-" if last is None or last.watermark is None else f"{last.watermark:%H:%M:%S}"
        candidates = f"{market.candidates or 0:,}, and {sectors.candidates or 0:,} for the sectors"
        state = sum(one.last.state_bytes for one in (market, sectors) if one.last is not None)
        spent, took = f"{self.spent:.0f} s", "-" if last is None else f"{last.seconds:.1f} s"
        unranked = market.null_score + market.nan_score
        aside = market.no_time + market.future + unranked + market.late
        speed = f"{market.rows_per_second:,.0f} a second in the last batch"
        progress = [
            ("trades", f"{market.rows:,} read, {speed}"),
            ("watermark", f"{watermark} UTC of the market's day, {spent} after the start"),
            ("windows", f"{market.windows:,} final, and {sectors.windows:,} for the sectors"),
            ("candidates", candidates),
            ("state", f"{state / 1e6:.1f} MB as Spark counts it; last batch {took}"),
            ("set aside", f"{aside:,} rows"),
        ]
        boards = (self.market.trades, self.market.moves, self.sectors.trades, self.sectors.moves)
        return display.Frame(_TITLE, *boards, progress, [])


def _summary(boards: Boards) -> list[str]:
    """What was done and how to go on, line by line."""
    market, sectors = boards.market.progress, boards.sectors.progress
    if not market.ranked:
        return ["Nothing was ranked yet."]
    spent, out = boards.spent, boards.out
    speed = (market.rows + sectors.rows) / max(spent, 1e-9)
    candidates = (market.candidates or 0) + (sectors.candidates or 0)
    look = f"from skyband.spark import session; session().read.parquet('{out}/market').show()"
    return [
        f"rows read   {market.rows:,} trades for the market, {sectors.rows:,} for the sectors",
        f"rows kept   {candidates:,} candidates at the end; all other rows were forgotten",
        f"windows     {market.windows:,} final for the market, {sectors.windows:,} for the sectors",
        f"speed       {speed:,.0f} rows a second by both queries together, in {spent:.0f} s",
        f"results     {out}/market and {out}/sectors, in Parquet",
        "",
        "To go on:",
        "  skyband demo --engine local       the same queries without Spark",
        "  skyband run JOB.yaml              your own stream; see docs/jobs.md and examples/jobs",
        f'  python -c "{look}"',
    ]


def _make_empty(out: Path) -> None:
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
