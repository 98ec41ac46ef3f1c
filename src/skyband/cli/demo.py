"""``skyband demo``: a lively stock market, on Spark or (here) on the local engine."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

from skyband.cli import options
from skyband.cli.market import BY, LENGTH, STEP, Market, Pane, Scene, panes
from skyband.cli.stages import WINDOWS_PER_SECOND, Pace, Plain, Screen, Stage, candidates, clock
from skyband.datasets import dataset
from skyband.datasets.stock import SECTORS
from skyband.errors import QueryError

_ENDLESS = 1 << 62  # rows
_CHUNK = 65_536
_FLUSH = 50_000  # rows
ENGINES = ("spark", "local")


def run(seconds: str | None, seed: str, out: str | None, engine: str) -> None:
    """Show a market for so many seconds, on Spark or on the local engine."""
    options.choice(engine, "--engine", ENGINES)
    number = options.whole(seed, "--seed", least=0, example=0)
    if engine == "local":
        _run_local(_seconds(seconds or "20"), number, out)
        return
    from skyband.cli import demo_spark

    demo_spark.run(_seconds(seconds or "60"), number, _directory(out or "skyband-demo"))


def _run_local(seconds: float, seed: int, out: str | None) -> None:
    """Off a terminal just as many windows, at full speed."""
    windows = max(1, round(seconds * WINDOWS_PER_SECOND))
    show = Show(windows, seed)
    path = None if out is None else _checked(out)
    console = Console(highlight=False)
    drawn = sys.stdout.isatty() and console.is_interactive
    spinner = "line" if console.options.ascii_only else "dots"
    loading = console.status("Loading the kernels ...", spinner=spinner)
    with loading if drawn else nullcontext():
        load_kernels(show.seed)
    interrupted = False
    with Results(path) as results:
        try:
            if drawn:
                with Screen(console, Pace()) as screen:
                    show.play(screen, results)
            else:
                show.play(Plain(), results)
        except KeyboardInterrupt:
            interrupted = True
    for line in show.summary(path):
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
        told = [
            f"rows read   {scene.read:,} trades, {clock(opened)} to {clock(scene.end)}",
            f"windows     {scene.answered:,} answered, for the market and for each sector",
            f"candidates  {candidates(scene)}",
            f"engine      {_speed(market.read, market.top.spent)} for the leaderboard",
            f"            {_speed(market.read, market.spent)} with {len(SECTORS)} sectors beside",
        ]
        if path is not None:
            told.append(f"results     {path}")
        return [
            *told,
            "",
            "To go on (the first command writes the same trades to a file):",
            f"  skyband generate stock {rows} --out trades.parquet",
            f"  skyband top trades.parquet --by '{BY}' {query}",
            f"  skyband explain trades.parquet {query}",
            "  skyband bench scan",
        ]


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


def _speed(rows: int, seconds: float) -> str:
    return f"{rows / max(seconds, 1e-9) / 1e6:.1f} M rows/s, {seconds:.2f} s inside push,"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise QueryError(f"--seconds is {text!r}", "a number above zero", "write --seconds 20")
    return seconds


def _directory(out: str) -> Path:
    """A directory that can be made, told before anything runs."""
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise QueryError(f"--out {out!r} is a file", "a directory", "choose another name")
    if not path.parent.is_dir():
        raise QueryError(
            f"--out is {out!r}", "a directory in one that exists", f"mkdir -p {path.parent}"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise QueryError(f"--out {out!r} may not be written", "a writable place")
    return path


def _checked(out: str) -> Path:
    """A file that can be written, told before anything runs."""
    path = Path(out)
    if path.suffix.lower() != ".parquet":
        fix = f"write --out {path.with_suffix('.parquet')}" if path.name else "add a file name"
        raise QueryError(f"--out is {out!r}", "a file that ends in .parquet", fix)
    if path.is_dir():
        raise QueryError(f"--out {out!r} is a directory", "a file", "add a file name")
    if not path.parent.is_dir():
        raise QueryError(
            f"--out is {out!r}", "a file in a directory that exists", f"mkdir -p {path.parent}"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise QueryError(f"--out {out!r} may not be written", "a writable directory")
    return path
