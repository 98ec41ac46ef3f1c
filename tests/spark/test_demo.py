"""The demonstration on Spark: what it says it did, it did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.demo import trades
from skyband.spark import top_k

SHORT = """
import sys
from skyband.cli.commands.tools import demo
from skyband.demo import streams, trades
streams.ROWS_PER_BATCH, trades.PER_SECOND = 200_000, 10_000
demo("1", "0", sys.argv[1], "spark")
"""

pytestmark = [pytest.mark.spark, pytest.mark.cli]


def test_a_short_demonstration_writes_exact_answers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A market with a tenth of the trades that people are shown."""
    monkeypatch.setattr(trades, "PER_SECOND", 10_000)
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
    assert str(out / "market") in summary["results"]

    keep = ["trade", "ts", "symbol", "sector", "price", "volume"]
    options = {"k": 10, "by": "price * volume", "time": "ts", "window": "10 minutes"}
    options |= {"slide": "10 seconds", "id": "trade", "keep": keep}
    leaders = spark.read.parquet(str(out / "market")).filter("final").drop("revision", "final")
    rows = trades.market(spark.range(read).withColumnRenamed("id", "value"))
    expected = top_k(rows, **options)  # type: ignore[call-overload]
    last = leaders.agg({"window.end": "max"}).first()
    assert last is not None
    upto = expected.filter(expected["window"]["end"] <= last[0])
    assert sorted(map(str, leaders.collect())) == sorted(map(str, upto.collect()))
    best = spark.read.parquet(str(out / "sectors")).filter("rank = 1")
    assert best.select("sector").distinct().count() == 11
