"""The demonstration on Spark: what it says it did, it did."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from skyband.datasets.stock import SECTORS
from skyband.demo import streams, trades
from skyband.demo.display import Frame
from skyband.demo.streams import Changes
from skyband.errors import SkybandError
from skyband.serve.feed import Feed
from skyband.spark import top_k
from skyband.spark.jobs.progress import Batch, Progress
from skyband.spark.warm_up import start_workers
from tests.test_serve import progress

SHORT = """
import sys
from skyband.cli.commands.tools import demo
demo("1", "0", sys.argv[1], "spark", "0")
"""

OPEN = "every micro-batch also shows the open windows that it changes"

pytestmark = [pytest.mark.spark, pytest.mark.cli]


def test_a_short_demonstration_writes_exact_answers(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "shown"
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", SHORT, str(out)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
        ) as process,
    ):
        assert process.stdout is not None
        announced = re.fullmatch(
            r"the live page is at (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline()
        )
        if announced is not None:
            follow_page(announced[1], process.pid)
        printed, _ = process.communicate(timeout=300)
    assert errors.read_text() == ""
    assert (process.returncode, announced is None) == (0, False)
    summary = dict(re.findall(r"^(\w+(?: \w+)?)  +(.*)$", printed, re.MULTILINE))
    read = int(summary["rows read"].split()[0].replace(",", ""))
    assert str(out / "boards") in summary["results"]
    words = r"first ranks {0} s after the stream's start, then \d+ changes, {0} s apart at most"
    assert re.fullmatch(words.format(r"\d+\.\d"), summary["liveliness"])

    keep = ["symbol", "sector", "price", "volume", "time", "trade"]
    options = {"k": 10, "by": "price * volume", "time": "time", "window": "10 minutes"}
    options |= {"slide": "10 seconds", "id": "trade", "keep": keep}
    boards = spark.read.parquet(str(out / "boards")).filter("final").drop("revision", "final")
    rows = trades.market(spark.range(read).withColumnRenamed("id", "value"))
    last = boards.agg({"window.end": "max"}).first()
    assert last is not None
    market = boards.filter(boards["board"] == trades.MARKET).drop("board")
    expected = top_k(rows, **options)  # type: ignore[call-overload]
    assert sorted(map(str, market.collect())) == sorted(
        map(str, expected.filter(expected["window"]["end"] <= last[0]).collect())
    )
    sectors = boards.filter(boards["board"] != trades.MARKET)
    by_sector = rows.withColumn("board", rows["sector"])
    expected = top_k(by_sector, partition_by="board", **options)  # type: ignore[call-overload]
    assert sorted(map(str, sectors.collect())) == sorted(
        map(str, expected.filter(expected["window"]["end"] <= last[0]).collect())
    )
    assert sectors.select("board").distinct().count() == len(SECTORS)


def follow_page(url: str, process: int) -> None:
    """Follow the page of a demonstration from before Spark has started until it has ended."""
    assert httpx.get(url, trust_env=False).text.startswith("<!doctype html>")
    names: list[str] = []
    ranked: list[dict[str, Any]] = []
    events = httpx.stream("GET", f"{url}api/events", trust_env=False, timeout=300)
    with events as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            elif line.startswith("data: ") and names[-1] == "leaders":
                board = json.loads(line.removeprefix("data: "))
                if board["rows"] and not ranked:
                    assert daemons_of(process) == 1  # tasks of all kinds share their workers
                    info = httpx.get(f"{url}api/info", trust_env=False).json()
                    assert ("before", OPEN) in map(tuple, info["explain"])
                    assert info["columns"] == ["symbol", "sector", "time"]
                ranked += [board] if board["rows"] else []
    assert names[-1] == "end"
    assert not ranked[0]["window"]["final"]  # ranks are shown while a window is still open
    assert len({board["window"]["id"] for board in ranked}) > 1


def daemons_of(process: int) -> int:
    """How many programs there are from which Spark forks the Python workers of a process."""
    parents: dict[int, int] = {}
    daemons = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            number = int(place.name)
            parents[number] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (place / "cmdline").read_bytes():
                daemons.append(number)
    # of a daemon Java is the parent, and of Java the process; workers are children of a daemon
    return sum(parents.get(parents[daemon]) == process for daemon in daemons)


@pytest.mark.parametrize(("seconds", "looks"), [(60, 7), (0, 10)])
def test_the_demonstration_ends_after_its_time_or_goes_on(
    monkeypatch: pytest.MonkeyPatch, seconds: float, looks: int
) -> None:
    monkeypatch.setattr(streams, "_POLL", 0)
    boards, stop = FakeBoards(), Event()
    boards.on_look = lambda: stop.set() if boards.looks == 10 else None
    streams._watch(boards, None, seconds, stop)  # type: ignore[arg-type]
    assert boards.looks == looks


@pytest.mark.parametrize("failure", [None, SkybandError("the stream failed: no room")])
def test_the_page_is_told_last_and_of_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: SkybandError | None
) -> None:
    boards, stop, feeds = FakeBoards(), Event(), []
    stop.set()

    def begin(out: Path, seed: int, feed: Feed) -> FakeBoards:
        feeds.append(feed)
        return boards

    def end() -> None:
        assert not feeds[0].ended  # the last look is yet to come
        batch = Batch(0, rows=10, seconds=1.0)
        feeds[0].see(streams._counted_once(progress(batch)))
        if failure is not None:
            raise failure

    boards.stop = end  # type: ignore[method-assign]
    monkeypatch.setattr(streams, "Boards", begin)
    with nullcontext() if failure is None else pytest.raises(SkybandError, match="no room"):
        streams.run_streams(1.0, 0, tmp_path, stop, "0")
    health = feeds[0].health()
    words = "The demonstration has ended." if failure is None else str(failure)
    assert (health["state"], health["message"]) == ("ended" if failure is None else "failed", words)
    assert health["rows"] == 5  # each trade is on two boards, and is counted once


class FakeBoards:
    """Boards of which every look takes ten seconds, and whose first windows soon are final."""

    def __init__(self) -> None:
        self.looks, self.spent, self.out = 0, 0.0, Path()
        self.progress = Progress()
        self.on_look: Callable[[], None] = lambda: None

    def look(self) -> bool:
        self.looks += 1
        self.spent += 10
        self.progress.windows = 12 if self.looks >= 7 else 0
        self.on_look()
        return True

    def frame(self) -> Frame:
        return Frame("", [], [], [], [], [], [])

    def stop(self) -> None:
        pass


def test_how_lively_it_was() -> None:
    changes = Changes(began=100.0)
    assert changes.words() == "nothing was ranked"
    changes.note(False, 104.0)
    assert (changes.first, changes.longest) == (None, 0.0)
    changes.note(True, 107.0)
    for now, changed in ((108.0, False), (108.5, True), (109.0, True), (111.5, False)):
        changes.note(changed, now)
    assert changes.words() == (
        "first ranks 7.0 s after the stream's start, then 2 changes, 2.5 s apart at most"
    )


def test_workers_start_beside_a_stream(spark: SparkSession) -> None:
    start_workers(spark).join()
    stopped = SparkSessionThatIsGone()
    start_workers(stopped).join()  # type: ignore[arg-type]


class SparkSessionThatIsGone:
    """A session whose Java does not answer."""

    @property
    def sparkContext(self) -> None:  # noqa: N802
        raise ConnectionRefusedError("nobody is there")
