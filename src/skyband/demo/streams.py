"""The demonstration on an embedded Spark: a market and its sectors, ranked as they trade."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from skyband.datasets.stock import SECTORS
from skyband.demo import display
from skyband.demo.trades import MARKET, PER_SECOND, START, market, on_boards
from skyband.errors import QueryError, SkybandError
from skyband.readable import size
from skyband.serve.address import Address
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.of_job import layout_of
from skyband.serve.server import PageServer
from skyband.spark import java_process
from skyband.spark.derive import derived
from skyband.spark.explain import explain_lines
from skyband.spark.families.top_k import FAMILY, TopKOptions
from skyband.spark.java_process import GONE
from skyband.spark.jobs.progress import Batch, Progress, Reports, newest_rankings, newest_window
from skyband.spark.pipeline import answer
from skyband.spark.plan import Plan
from skyband.spark.sessions import FAILURES, log_file, session
from skyband.spark.warm_up import start_workers
from skyband.spark.watching import BOARD, SERVED, observed

ROWS_PER_BATCH = 2_000  # 40 seconds of the market, four slides
QUICK = {
    # compiling more than in haste would not pay within a minute. With room from the start, Java
    # does not collect garbage again and again while it loads Spark's classes
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
        "-Xms1g -XX:MetaspaceSize=192m"
    ),
    # nor would compiling expressions, some of them anew for each batch
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # which starts no process of the system for each file. It is safe only where nobody goes on
    # from the checkpoint
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings of a Spark that runs for a minute, with small batches in quick succession."""

TITLE = "A lively market"
_WRITTEN = "a demonstration of skyband wrote this directory\n"
_MARK = ".skyband-demo"
_POLL = 0.2  # seconds
_PRINTED = 10  # batches from one printed board to the next
_TITLE = "the 10 biggest trades of the last 10 minutes, every 10 seconds"
_COLUMNS = ("symbol", "sector", "time")  # of the page
_WORDS = "the 10 biggest trades of the last 10 minutes, of all sectors and of each"


def run_streams(seconds: float, seed: int, out: Path, stop: Event, serve: str | None) -> None:
    """Show the market for so many seconds, or until ``stop`` is set, then say what was done.

    ``serve`` is the address of a live page. With 0 seconds the market never closes.
    """
    console = display.terminal()
    screen = None if console is None else display.DemoScreen(console, keep_progress=True)
    with ExitStack() as page:
        feed = None
        if serve is not None:
            server = page.enter_context(PageServer(Feed(TITLE), Address.parsed(serve)))
            feed = server.feed
            print(f"the live page is at {server.url}", flush=True)
        with _reworded(), display.status(console, "Starting Spark ..."):
            boards = Boards(out, seed, feed)
        with _reworded(), display.summarized(lambda: _summary(boards)):
            try:
                with screen or nullcontext():
                    _watch(boards, screen, seconds, stop)
            finally:
                with display.status(console, "Stopping ..."):
                    boards.stop()
            if feed is not None:  # after the last look; the server tells readers of a failure
                feed.end("The demonstration has ended.")


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
    """Draw, or print, until the time is up, but not before there is a final answer."""
    printed = 0
    while not stop.wait(_POLL):
        fresh = boards.look()
        frame = boards.frame()
        batches = boards.progress.batches
        if screen is not None:
            screen.draw(frame)
        elif fresh and frame.leaders and batches >= printed + _PRINTED:
            printed = batches
            display.print_frame(frame)
        if seconds and boards.progress.windows and boards.spent >= seconds:
            return


class Changes:
    """When boards changed: how soon after the start, and how long the longest pause was."""

    def __init__(self, began: float) -> None:
        self._began = began
        self.first: float | None = None  # seconds from the start to the first ranks
        self.count = 0
        self.longest = 0.0  # seconds without a change, since the first one
        self._last = began

    def note(self, changed: bool, now: float) -> None:
        """Take in whether boards look otherwise than at the last call."""
        if self.first is None:
            if changed:
                self.first, self._last = now - self._began, now
            return
        self.longest = max(self.longest, now - self._last)
        if changed:
            self.count += 1
            self._last = now

    def words(self) -> str:
        """How lively it was."""
        if self.first is None:
            return "nothing was ranked"
        changes = f"then {self.count:,} changes, {self.longest:.1f} s apart at most"
        return f"first ranks {self.first:.1f} s after the stream's start, {changes}"


class Boards:
    """The boards of the market and of its sectors, at work on an embedded Spark until stopped.

    One query ranks all of them: each trade is on the board of the market and on that of its sector.
    """

    def __init__(
        self,
        out: Path,
        seed: int,
        feed: Feed | None = None,
        now: Callable[[], float] = time.monotonic,
        rows: int = ROWS_PER_BATCH,
    ) -> None:
        self.out = out
        self.progress = Progress()
        self.window = ""  # that is shown, in words
        self.leaders: list[display.Trade] = []  # of the market
        self.sectors: list[display.Trade] = []  # the best of each
        self.moves: display.Moves = []
        self.news: display.Moves = []
        self.spent = 0.0  # seconds from the start to the last look
        self._feed, self._now = feed, now
        self._reports = Reports()
        self._histories = display.History(1), display.History(1)
        self._rankings: tuple[Mapping[str, Any], ...] = ()  # of the newest window
        self._stream: StreamingQuery | None = None
        _make_empty(out)
        # twelve boards are little work: one task ranks them, and starts once
        self._spark = session(app="skyband demo", shuffle_partitions=1, settings=QUICK)
        try:
            workers = start_workers(self._spark)
            leaders, plan = self._ranked(seed, rows)
            query = dict(leaders.schema["rank"].metadata["skyband"])
            layout = layout_of(query, [*_COLUMNS, "trade"])
            self._served = ServedQuery(_WORDS, replace(layout, columns=_COLUMNS))
            self.progress.on_batch = self._take
            writer = observed(leaders, BOARD, query, SERVED).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(out / "checkpoint"))
            workers.join()
            self._began = now()
            self.changes = Changes(self._began)
            self._stream = writer.queryName("market").start(str(out / "boards"))
        except BaseException:
            self.stop()
            raise
        if feed is not None:
            feed.describe([self._served], "top-k", explain_lines(plan))

    def _ranked(self, seed: int, rows: int) -> tuple[DataFrame, Plan]:
        """The ranked boards, as ``top_k`` would give them, and how they are ranked."""
        numbers = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        options = TopKOptions(
            k=display.K,
            by=display.BY,
            time="time",
            window=display.WINDOW,
            slide=display.SLIDE,
            delay="2 seconds",
            id="trade",
            partition_by="board",
            keep=["symbol", "sector", "price", "volume", "time", "trade"],
            emit="updates",
            open_windows="current",
        )
        trades, resolved = derived(on_boards(market(numbers.load(), seed)), options)
        plan = FAMILY.resolve(trades, resolved)
        return answer(trades, plan), plan

    def _take(self, batch: Batch) -> None:
        """Show the rankings that a batch has changed."""
        if self._feed is not None:
            self._feed.take(batch, self._served)
        newest = newest_window(batch.answers)
        self._rankings = newest_rankings(self._rankings, newest, SERVED.rows)

    def look(self) -> bool:
        """Take in what the stream reports; whether there was anything new."""
        assert self._stream is not None
        fresh = self.progress.collect(self._reports.read(self._stream, self.progress.last))
        now = self._now()
        self.spent = now - self._began
        self.changes.note(self._show() if fresh else False, now)
        if self._feed is not None:
            self._feed.see(_counted_once(self.progress), clock=market_clock(self.trades))
        failure = self._stream.exception()
        if failure is not None:
            raise SkybandError(
                f"the stream failed: {str(failure).splitlines()[0]}",
                fix=f"Spark's own words are in {log_file()}",
            )
        return fresh

    def _show(self) -> bool:
        """Lay out the rankings; whether another window is shown, or other ranks of the same."""
        before = self.window, self.leaders, self.sectors
        self.window = _spoken_window(self._rankings)
        market = [row for row in self._rankings if row["board"] == MARKET]
        others = [row for row in self._rankings if row["board"] != MARKET and row["rank"] == 1]
        self.leaders, self.sectors = list(map(_trade, market)), list(map(_trade, others))
        self.sectors.sort(key=lambda trade: trade.sector)
        self.moves, self.news = (
            history.moves(trades)
            for history, trades in zip(self._histories, (self.leaders, self.sectors), strict=True)
        )
        return (self.window, self.leaders, self.sectors) != before

    @property
    def trades(self) -> int:
        """Trades that were read; each of them is on two boards."""
        return self.progress.rows // 2

    def stop(self) -> None:
        """Leave nothing running."""
        try:
            if self._stream is not None:
                self._stream.stop()
                self.look()
        except KeyboardInterrupt:
            java_process.end()
            raise
        finally:
            with suppress(*FAILURES, *GONE):
                self._spark.stop()
        log_file().unlink(missing_ok=True)

    def frame(self) -> display.Frame:
        """Both boards, and how the stream is doing, in words."""
        progress, last = self.progress, self.progress.last
        watermark = "-" if last is None or last.watermark is None else f"{last.watermark:%H:%M:%S}"
        took = "-" if last is None else f"{last.seconds:.1f} s"
        state = 0 if last is None else last.state_bytes
        aside = progress.no_time + progress.future + progress.null_score + progress.nan_score
        speed = f"{progress.rows_per_second / 2:,.0f} a second in the last batch"
        words = [
            ("trades", f"{self.trades:,} read, {speed}"),
            (
                "watermark",
                f"{watermark} UTC of the market's day, {self.spent:.0f} s after the start",
            ),
            ("windows", f"{progress.windows:,} final, on {len(SECTORS) + 1} boards"),
            ("candidates", f"{progress.candidates or 0:,}; all other rows are forgotten"),
            ("state", f"{size(state)} as Spark counts it; last batch {took}"),
            ("set aside", f"{aside + progress.late:,} rows"),
        ]
        boards = (self.leaders, self.moves, self.sectors, self.news)
        title = f"{_TITLE}: {self.window}" if self.window else _TITLE
        return display.Frame(title, *boards, words, [])


def _counted_once(progress: Progress) -> Progress:
    """The progress with trades for rows: each is a row of two boards."""
    busy = progress.busy
    if busy is not None:
        busy = replace(busy, rows=busy.rows // 2)
    return replace(progress, rows=progress.rows // 2, busy=busy)


def market_clock(trades: int) -> datetime:
    """The market's time after so many trades."""
    return datetime.fromtimestamp(START / 1e6 + trades / PER_SECOND, UTC)


def _spoken_window(rankings: Sequence[Mapping[str, Any]]) -> str:
    """The window of rankings in words; one that is still open shows what there is so far."""
    if not rankings:
        return ""
    window = rankings[0]["window"]
    start, end = (datetime.fromisoformat(window[side]) for side in ("start", "end"))
    so_far = "" if all(row["final"] for row in rankings) else ", so far"
    return f"{start:%H:%M:%S} to {end:%H:%M:%S}{so_far}"


def _trade(row: Mapping[str, Any]) -> display.Trade:
    at = int(datetime.fromisoformat(row["time"]).timestamp() * 1e6)
    shown = {name: row[name] for name in display.SHOWN}
    return display.Trade(row=row["trade"], time=at, value=row["score"], **shown)


def _summary(boards: Boards) -> list[str]:
    """What was done and how to go on, line by line."""
    progress, out = boards.progress, boards.out
    if not progress.ranked:
        return ["Nothing was ranked yet."]
    speed = progress.rows / max(boards.spent, 1e-9)
    look = f"from skyband.spark import session; session().read.parquet('{out}/boards').show()"
    return [
        f"rows read   {boards.trades:,} trades, each for two boards",
        f"rows kept   {progress.candidates or 0:,} candidates at the end; all others are forgotten",
        f"windows     {progress.windows:,} final, on {len(SECTORS) + 1} boards",
        f"speed       {speed:,.0f} rows a second, in {boards.spent:.0f} s",
        f"liveliness  {boards.changes.words()}",
        f"results     {out}/boards, in Parquet",
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
