"""Tables of the catalog and Delta tables as sources of jobs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
import yaml
from pyspark.sql import SparkSession

from skyband import QueryError
from skyband.spark import top_k
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run
from tests.spark import samples
from tests.spark.scripts import EXAMPLES

QUERY: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "30 seconds", "slide": "10 seconds",
    "partition_by": "sector", "id": "id", "keep": ["id"], "skew": None,
}  # fmt: skip


def job(home: Path, source: dict[str, Any], **parts: Any) -> Path:
    content = {
        "source": source,
        "query": QUERY,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
        **parts,
    }
    file = home / "job.yaml"
    file.write_text(yaml.safe_dump({name: part for name, part in content.items() if part}))
    return file


def go(spark: SparkSession, file: Path) -> None:
    with Run(spark, load(file)) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)


def answers(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (row.window.end, row.sector or "", row["rank"], row.score, row.id) for row in rows
    )


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Any:
    """A table of the catalog, and what is to be ranked of it."""
    source = samples.write(tmp_path / "in", samples.split(samples.rows(3, 160), 4, 10))
    rows = spark.read.parquet(source)
    rows.write.saveAsTable("ticks_of_a_test")
    yield "ticks_of_a_test", answers(top_k(rows, **QUERY).collect())
    spark.sql("DROP TABLE ticks_of_a_test")


@pytest.mark.parametrize("batch", [False, True])
def test_a_table_of_the_catalog(
    spark: SparkSession, tmp_path: Path, table: tuple[str, Any], batch: bool
) -> None:
    name, expected = table
    parts = {"trigger": "batch", "checkpoint": None, "drain": None} if batch else {}
    go(spark, job(tmp_path, {"table": name}, **parts))
    assert answers(spark.read.parquet(str(tmp_path / "out")).collect()) == expected


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"there is no such table: `nobody`"):
        go(spark, job(tmp_path, {"table": "nobody"}))
    with pytest.raises(QueryError, match=r"no stream.*; fix: write format: delta and path: /a b$"):
        load(job(tmp_path, {"table": "delta.`/a b`"}))
    with pytest.raises(QueryError, match="a format that Spark reads, or a table"):
        load(job(tmp_path, {"table": "nobody", "format": "parquet"}))
    with pytest.raises(QueryError, match="a format that Spark reads, or a table"):
        load(job(tmp_path, {"path": "in"}))


JOBS_IN_ONE_SESSION = """
import os, sys, threading
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run, opened
with opened(load(sys.argv[1])) as spark:
    spark.sql(f"CREATE TABLE trades USING delta LOCATION '{os.getcwd()}/trades-table'")
    for file in sys.argv[1:]:
        with Run(spark, load(file)) as run:
            run.prepare()
            run.go(threading.Event(), lambda: None)
"""


def test_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    """As a stream each commit is read once; as a batch, and by its name, it is read as well.

    The session is one of its own, since no other has the jars. There are none for Spark 4.3, which
    is told before anything starts.
    """
    example = tmp_path / "delta-source.yaml"
    shutil.copy(EXAMPLES / "jobs" / example.name, example)
    trades = pa.Table.from_pylist(list(map(trade, samples.rows(5, 300))), TRADES)
    for part in (trades.slice(0, 200), trades.slice(200)):
        deltalake.write_deltalake(str(tmp_path / "trades-table"), part, mode="append")
    if not pyspark.__version__.startswith("4.2"):
        refused = python(tmp_path, "-m", "skyband.cli", "run", example)
        assert refused.returncode == 2
        assert "no delta connector is known for Spark 4.3" in refused.stderr
        return
    content = yaml.safe_load(example.read_text())
    batch = {**content, "trigger": "batch", "sink": {"format": "parquet", "path": "of-batch"}}
    del batch["checkpoint"]
    named = {**content, "source": {"table": "trades"}, "drain": True}
    named |= {"sink": {"format": "parquet", "path": "of-name"}, "checkpoint": "of-name-checkpoint"}
    for name, parts in {"batch": batch, "named": named}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(parts))
    files = [example, tmp_path / "batch.yaml", tmp_path / "named.yaml"]
    ran = python(tmp_path, "-c", JOBS_IN_ONE_SESSION, *files)
    assert ran.returncode == 0, ran.stderr
    file = tmp_path / "rows.parquet"
    pq.write_table(trades, file)
    rows = top_k(spark.read.parquet(str(file)), **content["query"]).collect()
    expected = sorted(map(place, rows))
    for folder in ("of-batch", "of-name"):
        written = spark.read.parquet(str(tmp_path / folder)).collect()
        assert sorted(map(place, written)) == expected, folder
    of_stream = deltalake.DeltaTable(str(tmp_path / "out/delta-source-board")).to_pyarrow_table()
    newest = max(of_stream["window_end"].to_pylist()).timestamp()
    assert sorted(
        (row["window_end"].timestamp(), row["sector"] or "", row["rank"], row["score"])
        for row in of_stream.to_pylist()
    ) == [row for row in expected if row[0] <= newest]


def python(home: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=600)


def place(row: Any) -> tuple[float, str, int, float]:
    """A row of an answer: the end of its window, its key, rank and score."""
    return row.window.end.timestamp(), row.sector or "", row["rank"], row.score


TRADES = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("symbol", pa.string()),
        ("sector", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
    ]
)


def trade(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a trade of a symbol."""
    return {**row, "symbol": f"S{row['id']}", "volume": 1 + row["seq"] % 7}
