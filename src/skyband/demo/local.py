"""The demonstration on the local engine: a stock market, ranked window by window."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from skyband.datasets.stock import SECTORS, STOCK
from skyband.demo import display
from skyband.demo.market import LENGTH, STEP, TOP, Market, Scene, TradePane, panes

_ENDLESS = 1 << 62  # rows
_CHUNK = 65_536
_FLUSH = 50_000  # rows


def run_locally(seconds: float, seed: int, out: Path | None) -> None:
    """Show a market for so many seconds; off a terminal just as many windows, at full speed."""
    show = Show(max(1, round(seconds * display.WINDOWS_PER_SECOND)), seed)
    console = display.terminal()
    with display.status(console, "Loading the kernels ..."):
        load_kernels(seed)
    with display.summarized(lambda: show.summary(out)), Results(out) as results:
        if console is None:
            show.play(Plain(), results)
        else:
            with display.DemoScreen(console) as screen:
                show.play(Drawn(screen, display.Pace()), results)


def load_kernels(seed: int) -> None:
    """Have the kernels that this market needs compiled, or loaded, before anything is drawn."""
    market = Market()
    for pane in itertools.islice(_panes(seed), 2):
        deque(market.push(pane), maxlen=0)


def _panes(seed: int) -> Iterator[TradePane]:
    return panes(STOCK.chunks(_ENDLESS, seed, _CHUNK, "bursty"))


class Presentation:
    """Shows windows one after the other, and what has moved since so many windows before.

    A window may be passed over, but not the final one.
    """

    def __init__(self, windows: int) -> None:
        self._leaders, self._sectors = display.History(windows), display.History(windows)

    def frame(self, scene: Scene) -> display.Frame:
        """What there is to show of a window; every window needs one, for later ones to compare."""
        progress = [
            (
                "event time",
                f"{display.day_and_time(scene.end)}, {scene.answered:,} windows answered",
            ),
            ("trades", f"{scene.read:,} read, {scene.rates[-1]:,.0f} a second now"),
            ("candidates", scene.candidate_words()),
            ("algorithm", str(scene.plan)),
        ]
        boards = (scene.leaders, self._leaders.moves(scene.leaders))
        others = (scene.sectors, self._sectors.moves(scene.sectors))
        return display.Frame(f"{TOP}, by {display.BY}", *boards, *others, progress, scene.rates)


class Plain(Presentation):
    """Prints a leaderboard every few windows, as fast as they come."""

    def __init__(self, every: int = 30) -> None:
        super().__init__(every)
        self._every = every

    def show(self, scene: Scene, final: bool) -> None:
        """Print every so many windows, and the last one."""
        frame = self.frame(scene)
        if final or not scene.answered % self._every:
            display.print_frame(frame, sectors=final)


class Drawn(Presentation):
    """Draws windows at an even pace; late ones are passed over."""

    def __init__(self, screen: display.DemoScreen, pace: display.Pace) -> None:
        super().__init__(display.WINDOWS_PER_SECOND)
        self._screen, self._pace = screen, pace

    def show(self, scene: Scene, final: bool) -> None:
        """Draw a window when it is due."""
        frame = self.frame(scene)
        if self._pace.wait() or final:
            self._screen.draw(frame)


class Show:
    """So many windows of a market; the same seed makes the same market."""

    def __init__(self, windows: int, seed: int) -> None:
        self.windows, self.seed = windows, seed
        self.market = Market()
        self.scene: Scene | None = None  # the last one

    def play(self, presentation: Plain | Drawn, results: Results) -> None:
        """Let the market run until the last window is answered."""
        for pane in _panes(self.seed):
            for scene in self.market.push(pane):
                self.scene = scene
                results.add(scene)
                final = scene.answered == self.windows
                presentation.show(scene, final)
                if final:
                    return

    def summary(self, path: Path | None) -> list[str]:
        """What happened, and how to go on, line by line."""
        scene, market = self.scene, self.market
        if scene is None:
            return ["Nothing was answered yet."]
        opened, ended = map(display.time_of_day, (scene.end - scene.answered * STEP, scene.end))
        query = "--time ts --window 10min --slide 10s"
        rows = f"--rows {scene.read} --seed {self.seed} --rate bursty"
        return [
            f"rows read   {scene.read:,} trades, {opened} to {ended}",
            f"windows     {scene.answered:,} answered, for the market and for each sector",
            f"candidates  {scene.candidate_words()}",
            f"engine      {_speed(market.read, market.top.spent)} for the leaderboard",
            f"            {_speed(market.read, market.spent)} with {len(SECTORS)} sectors beside",
            *([] if path is None else [f"results     {path}"]),
            "",
            "To go on (the first command writes the same trades to a file):",
            f"  skyband generate stock {rows} --out trades.parquet",
            f"  skyband top trades.parquet --by '{display.BY}' {query}",
            f"  skyband explain trades.parquet {query}",
            "  skyband bench scan",
        ]


def _speed(rows: int, seconds: float) -> str:
    return f"{rows / max(seconds, 1e-9) / 1e6:.1f} M rows/s, {seconds:.2f} s inside push,"


class Results:
    """Writes answers to a Parquet file, if there is to be one.

    It appears under its name when it is whole; Ctrl-C ends it early, but whole.
    """

    schema = pa.schema(
        [
            ("window_start", pa.timestamp("us", tz="UTC")),
            ("window_end", pa.timestamp("us", tz="UTC")),
            ("leaderboard", pa.string()),
            ("rank", pa.int64()),
            ("score", pa.float64()),
            ("row", pa.int64()),
            *(STOCK.schema.field(name) for name in ("ts", *display.SHOWN)),
        ]
    )

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Results:
        if self._path is not None:
            self._part = self._path.with_name(f"{self._path.name}.part")
            self._writer = parquet.ParquetWriter(self._part, self.schema)
        return self

    def add(self, scene: Scene) -> None:
        """Take in a window's answers."""
        if self._path is None:
            return
        window = {"window_start": scene.end - LENGTH, "window_end": scene.end}
        places = [("market", rank, trade) for rank, trade in enumerate(scene.leaders, 1)]
        places += [("sector", 1, trade) for trade in scene.sectors]
        for board, rank, trade in places:
            answer = {"leaderboard": board, "rank": rank, "score": trade.value, "ts": trade.time}
            self._rows.append({**window, **answer, **trade._asdict()})
        if len(self._rows) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, self.schema))
        self._rows = []

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._path is None:
            return
        whole = kind in (None, KeyboardInterrupt)
        try:
            if whole:
                self._flush()
            self._writer.close()
            if whole:
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)
