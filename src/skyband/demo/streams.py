"""The demo's two queries over one market: the biggest trades of all, and of each sector."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skyband.demo.trades import trades
from skyband.errors import QueryError, SkybandError
from skyband.spark.families.top_k import top_k
from skyband.spark.jobs import progress as health
from skyband.spark.jobs.run import observed
from skyband.spark.sessions import log_file, session

BY = "price * volume"
K = 10
WINDOW, SLIDE = "10 minutes", "10 seconds"
ROWS_PER_BATCH = 2_000_000  # twenty seconds of the market
_OWN = "a demonstration of skyband wrote this directory\n"
_MARK = ".skyband-demo"


@dataclass
class Board:
    """One query at work: its stream, and how it is doing."""

    name: str
    stream: Any
    health: health.Health

    def look(self) -> bool:
        """Take in new progress; whether there was any."""
        fresh = False
        for progress in self.stream.recentProgress:
            batch = health.batch_of(progress)
            fresh |= batch is not None and self.health.add(batch)
        return fresh


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
        asked: dict[str, Any] = {
            "k": K,
            "by": BY,
            "time": "ts",
            "window": WINDOW,
            "slide": SLIDE,
            "delay": "2 seconds",
            "id": "trade",
        }
        try:
            self._start("market", top_k(rows, keep=keep, **asked))
            own = [name for name in keep if name != "sector"]
            self._start("sectors", top_k(rows, keep=own, partition_by="sector", **asked))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name: str, leaders: DataFrame) -> None:
        query = dict(leaders.schema["rank"].metadata["skyband"])
        writer = observed(leaders, health.BOARD, query).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.out / "checkpoints" / name))
        stream = writer.option("path", str(self.out / name)).queryName(name).start()
        self.boards.append(Board(name, stream, health.Health()))

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
    (out / _MARK).write_text(_OWN)
