"""The demonstration on Spark: what it says it did, it did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.datasets.stock import SECTORS
from skyband.demo import trades
from skyband.demo.streams import Changes
from skyband.spark import top_k
from skyband.spark.warm_up import start_workers

SHORT = """
import sys
from skyband.cli.commands.tools import demo
demo("1", "0", sys.argv[1], "spark")
"""

pytestmark = [pytest.mark.spark, pytest.mark.cli]


def test_a_short_demonstration_writes_exact_answers(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "shown"
    ran = subprocess.run(
        [sys.executable, "-c", SHORT, str(out)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    summary = dict(re.findall(r"^(\w+(?: \w+)?)  +(.*)$", ran.stdout, re.MULTILINE))
    read = int(summary["rows read"].split()[0].replace(",", ""))
    assert str(out / "boards") in summary["results"]
    words = r"first ranks {0} s after the stream's start, then \d+ changes, {0} s apart at most"
    assert re.fullmatch(words.format(r"\d+\.\d"), summary["liveliness"])

    keep = ["symbol", "sector", "price", "volume", "ts", "trade"]
    options = {"k": 10, "by": "price * volume", "time": "ts", "window": "10 minutes"}
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
