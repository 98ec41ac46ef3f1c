"""The demonstration on the local engine: a stock market, ranked window by window."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

from skyband.datasets import dataset
from skyband.datasets.stock import SECTORS
from skyband.demo.display import (
    BY,
    WINDOWS_PER_SECOND,
    Frame,
    History,
    Pace,
    Screen,
    clock,
    moment,
    print_frame,
    status,
)
from skyband.demo.market import LENGTH, STEP, TOP, Market, Pane, Scene, panes

_ENDLESS = 1 << 62  # rows
_CHUNK = 65_536
_FLUSH = 50_000  # rows


def run(seconds: float, seed: int, out: Path | None) -> None:
    """Show a market for so many seconds; off a terminal just as many windows, at full speed."""
    show = Show(max(1, round(seconds * WINDOWS_PER_SECOND)), seed)
    console = Console(highlight=False)
    drawn = sys.stdout.isatty() and console.is_interactive
    with status(console, "Loading the kernels ...", drawn):
        load_kernels(seed)
    interrupted = False
    with Results(out) as results:
        try:
            if drawn:
                with Screen(console) as screen:
                    show.play(Drawn(screen, Pace()), results)
            else:
                show.play(Plain(), results)
        except KeyboardInterrupt:
            interrupted = True
    for line in show.summary(out):
        print(line)
    if interrupted:
        sys.stdout.flush()
        raise KeyboardInterrupt


def load_kernels(seed: int) -> None:
    """Have the kernels that this market needs compiled, or loaded, before anything is drawn."""
    market = Market()
    for pane in itertools.islice(_panes(seed), 2):
        deque(market.push(pane), maxlen=0)


def _panes(seed: int) -> Iterator[Pane]:
    return panes(dataset("stock").chunks(_ENDLESS, seed, _CHUNK, "bursty"))


class Stage(Protocol):
    """Shows one window after the other."""

    def show(self, scene: Scene, final: bool) -> None:
        """Show a window, or pass over it; never over the ``final`` one."""


class Plain:
    """Prints a leaderboard every few windows, as fast as they come."""

    def __init__(self, every: int = 30) -> None:
        self._every = every
        self._history = History(every), History(every)

    def show(self, scene: Scene, final: bool) -> None:
        """Print every so many windows, and the last one."""
        frame = _frame(scene, *self._history)
        if final or not scene.answered % self._every:
            print_frame(frame, sectors=final)


class Drawn:
    """Draws windows at an even pace; late ones are passed over."""

    def __init__(self, screen: Screen, pace: Pace) -> None:
        self._screen, self._pace = screen, pace
        self._history = History(WINDOWS_PER_SECOND), History(WINDOWS_PER_SECOND)

    def show(self, scene: Scene, final: bool) -> None:
        """Draw a window when it is due."""
        frame = _frame(scene, *self._history)
        if self._pace.wait() or final:
            self._screen.draw(frame)


def _frame(scene: Scene, leaders: History, sectors: History) -> Frame:
    health = [
        ("event time", f"{moment(scene.end)}, {scene.answered:,} windows answered"),
        ("trades", f"{scene.read:,} read, {scene.rates[-1]:,.0f} a second now"),
        ("candidates", _candidates(scene)),
        ("algorithm", str(scene.plan)),
    ]
    boards = (scene.leaders, leaders.moves(scene.leaders))
    others = (scene.sectors, sectors.moves(scene.sectors))
    return Frame(f"{TOP}, by {BY}", *boards, *others, health, scene.rates)


def _candidates(scene: Scene) -> str:
    """How much of the window can still be an answer, in words."""
    top, best = scene.candidates
    share = f"{scene.share:.2g} % of the window's {scene.in_window:,} trades"
    return f"{top}, and {best} for the sectors: {share}"


class Show:
    """So many windows of a market; the same seed makes the same market."""

    def __init__(self, windows: int, seed: int) -> None:
        self.windows, self.seed = windows, seed
        self.market = Market()
        self.scene: Scene | None = None  # the last one

    def play(self, stage: Stage, results: Results) -> None:
        """Let the market run until the last window is answered."""
        for pane in _panes(self.seed):
            for scene in self.market.push(pane):
                self.scene = scene
                results.add(scene)
                final = scene.answered == self.windows
                stage.show(scene, final)
                if final:
                    return

    def summary(self, path: Path | None) -> list[str]:
        """What happened, and how to go on, line by line."""
        scene, market = self.scene, self.market
        if scene is None:
            return ["Nothing was answered yet."]
        opened = scene.end - scene.answered * STEP
        query = "--time ts --window 10min --slide 10s"
        rows = f"--rows {scene.read} --seed {self.seed} --rate bursty"
        return [
            f"rows read   {scene.read:,} trades, {clock(opened)} to {clock(scene.end)}",
            f"windows     {scene.answered:,} answered, for the market and for each sector",
            f"candidates  {_candidates(scene)}",
            f"engine      {_speed(market.read, market.top.spent)} for the leaderboard",
            f"            {_speed(market.read, market.spent)} with {len(SECTORS)} sectors beside",
            *([] if path is None else [f"results     {path}"]),
            "",
            "To go on (the first command writes the same trades to a file):",
            f"  skyband generate stock {rows} --out trades.parquet",
            f"  skyband top trades.parquet --by '{BY}' {query}",
            f"  skyband explain trades.parquet {query}",
            "  skyband bench scan",
        ]


def _speed(rows: int, seconds: float) -> str:
    return f"{rows / max(seconds, 1e-9) / 1e6:.1f} M rows/s, {seconds:.2f} s inside push,"


class Results:
    """Writes answers to a Parquet file that appears under its name when it is whole, if asked."""

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

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> Results:
        if self._path is not None:
            self._part = self._path.with_name(f"{self._path.name}.part")
            self._writer = parquet.ParquetWriter(self._part, self.schema)
        return self

    def add(self, scene: Scene) -> None:
        """Take in a window's answers."""
        if self._path is None:
            return
        places = [("market", rank, trade) for rank, trade in enumerate(scene.leaders, 1)]
        places += [("sector", 1, trade) for trade in scene.sectors]
        self._rows += [
            (scene.end - LENGTH, scene.end, board, rank, trade.value, *trade[:-1])
            for board, rank, trade in places
        ]
        if len(self._rows) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self.schema)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, self.schema))
        self._rows = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._path is None:
            return
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)
