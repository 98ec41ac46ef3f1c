"""``skyband bench spark-page``: what readers of a live page cost the stream that serves it.

The market of the demonstration runs with its page, by turns without readers and with 500 of them,
who follow it by server-sent events from a process of their own. The stream is the same all the
time, so what else changes, such as a Java that warms up, touches both. Readers on the same machine
take processor time as well: it is reported beside the server's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK = 0.1  # seconds


@dataclass(frozen=True)
class Page:
    """A stream with and without readers, by turns, each for so many seconds."""

    readers: int = 500
    seconds: float = 30.0
    turns: int = 2  # of each
    warm: int = 10  # batches before the first turn
    rows: int = 2_000  # in a batch, as in the demonstration
    name: str = field(default="spark_page", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Page:
        """A minute with readers, or a third of that."""
        sizes = {} if rows is None else {"rows": rows}
        return cls(**sizes, seconds=10.0, warm=5) if quick else cls(**sizes)

    def collect(self) -> list[Record]:
        """A record per batch."""
        from skyband.demo import streams
        from skyband.serve.address import Address
        from skyband.serve.feed import Feed
        from skyband.serve.server import PageServer

        records: list[Record] = []
        with (
            tempfile.TemporaryDirectory(prefix="skyband-bench-") as folder,
            PageServer(Feed(streams.TITLE), Address.parsed(0)) as server,
        ):
            boards = streams.Boards(Path(folder) / "out", 0, server.feed, rows=self.rows)
            try:
                with report.progress("spark-page", 2 * self.turns + 1) as step:
                    self._watch(boards, server, 0.0)
                    step("warm")
                    for turn in range(self.turns):
                        for readers in (0, self.readers):
                            records += self._turn(boards, server, turn, readers)
                            step(f"{readers} readers")
            finally:
                boards.stop()
        stopped = self._stop()
        return [{**record, "stop_seconds": stopped} for record in records]

    def _stop(self) -> float:
        """Seconds until a server has stopped that all readers follow."""
        from skyband.serve.address import Address
        from skyband.serve.feed import Feed
        from skyband.serve.server import PageServer

        with ExitStack() as readers:
            with PageServer(Feed("stopped"), Address.parsed(0)) as server:
                readers.enter_context(_readers(server.address.port, self.readers))
                begin = time.monotonic()
            return time.monotonic() - begin

    def _turn(self, boards: Any, server: Any, turn: int, readers: int) -> list[Record]:
        with _readers(server.address.port, readers) as results:
            batches = self._watch(boards, server, self.seconds)
        wall = sum(batch["looked"] for batch in batches)
        cost = {"readers_cpu_share": results.get("cpu_seconds", 0.0) / max(wall, 1e-9)}
        cost |= {"bytes": results.get("bytes", 0), "lost": results.get("lost", 0)}
        return [{"turn": turn, "readers": readers, **batch, **cost} for batch in batches]

    def _watch(self, boards: Any, server: Any, seconds: float) -> list[Record]:
        """The batches of so many seconds, but for the first, which began before."""
        batches: list[Record] = []
        begin = looked = time.monotonic()
        spent = _processor_time(server.thread_id)
        while True:
            done = boards.progress.batches
            if boards.look():
                now, cpu = time.monotonic(), _processor_time(server.thread_id)
                batches.append(
                    {
                        "batches": boards.progress.batches - done,
                        "seconds": boards.progress.last.seconds,
                        "looked": now - looked,
                        "server_cpu": cpu - spent,
                        "connected": server.feed.readers,
                    }
                )
                looked, spent = now, cpu
            warm = boards.progress.batches >= self.warm
            if warm and time.monotonic() - begin >= seconds and len(batches) > 2:
                return batches[1:]
            time.sleep(_LOOK)

    def show(self, records: list[Record], console: Console) -> None:
        """One table: batch times with and without readers, and what these cost."""
        alone = median(record["seconds"] for record in records if not record["readers"])
        rows = []
        for readers in (0, self.readers):
            some = [record for record in records if record["readers"] == readers]
            wall = sum(record["looked"] for record in some)
            times = [record["seconds"] for record in some]
            server = sum(record["server_cpu"] for record in some) / wall
            share = sum(record["readers_cpu_share"] * record["looked"] for record in some) / wall
            row = (readers, len(some), median(times), median(times) / alone, max(times))
            rows.append((*row, 100 * server, 100 * share, sum({r["lost"] for r in some})))
        console.print(
            report.table(
                f"{self.rows:,} trades in a batch, 12 boards, {os.cpu_count()} cores",
                (
                    *("readers", "batches", "median s", "x alone", "longest s"),
                    *("server % of a core", "readers % of a core", "lost"),
                ),
                rows,
                "Readers follow the page from a process of their own on the same machine. "
                f"A server that {self.readers} of them follow stops in "
                f"{records[0]['stop_seconds']:.2f} s.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """The time of each batch."""
        figure, axes = report.panels(1, 1, "A stream and readers of its page", panel=(6.0, 3.2))
        (panel,) = axes[0]
        for readers, label in ((0, "no readers"), (self.readers, f"{self.readers} readers")):
            some = [(at, r["seconds"]) for at, r in enumerate(records) if r["readers"] == readers]
            panel.plot(*zip(*some, strict=True), "o", markersize=3, label=label)
        panel.set_xlabel("batch")
        panel.set_ylabel("seconds")
        panel.legend()
        return report.save(figure, folder, self.name)


@contextmanager
def _readers(port: int, count: int) -> Iterator[dict[str, Any]]:
    """So many readers while the block runs; afterwards, what they cost."""
    results: dict[str, Any] = {}
    if not count:
        yield results
        return
    command = [sys.executable, "-m", "benchmarks.spark.readers", str(port), str(count)]
    home = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            connected = json.loads(process.stdout.readline())["connected"]
            assert connected == count, f"{connected} of {count} readers are connected"
            yield results
        finally:
            process.stdin.close()
            last = process.stdout.readline()
            results |= json.loads(last) if last else {}


def _processor_time(thread: int | None) -> float:
    """Processor seconds of a thread of this process; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/self/task/{thread}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
