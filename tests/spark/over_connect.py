"""Run in a process of its own: a Connect client cannot live beside a classic session.

Everything that top_k can do, on a Connect server, against the oracle; then the examples that want
such a server, on the same one.
"""

from __future__ import annotations

import math
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import deltalake
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, quarantined, top_k, top_k_incomplete
from skyband.spark.jobs import sinks
from skyband.spark.jobs.file import load
from skyband.spark.jobs.progress import batch_of
from skyband.spark.sinks import to_delta
from tests import oracle
from tests.conftest import INTERPRETED_PLANS
from tests.oracle_incomplete import time_incomplete
from tests.oracle_totals import time_totals
from tests.spark import samples
from tests.spark.samples import SECOND

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES))
import connect  # noqa: E402  (an example)

TIMED: dict[str, Any] = {
    "k": 4,
    "by": "price",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
    "partition_by": "sector",
    "id": "id",
    "keep": ["id", "ts"],
}
TOTALS: dict[str, Any] = {
    "k": 2,
    "key": "sector",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
}
COUNTED = TIMED | {"k": 3, "window": 12, "slide": 5, "partition_by": None}


def main(home: Path) -> None:
    plans = (f"-D{name}={value}" for name, value in INTERPRETED_PLANS.items())
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([os.environ["SPARK_SUBMIT_OPTS"], *plans])
    with connect.server(home) as address:
        with connect.client(address) as spark:
            compare(spark, home)
        print("all is as it should be")
        run_examples(address, home)


def run_examples(address: str, home: Path) -> None:
    """The examples that start a server, on the one that is running."""

    @contextmanager
    def running(folder: Path) -> Iterator[str]:
        yield address

    connect.server = running
    pipeline = runpy.run_path(str(EXAMPLES / "pipeline" / "run.py"))
    for folder, example in (("client", connect.main), ("pipeline", pipeline["main"])):
        (home / folder).mkdir(exist_ok=True)
        example(home / folder)


def compare(spark: SparkSession, home: Path) -> None:
    """Everything against the oracle."""
    rows = samples.rows(23, 120)
    source = samples.write(home / "rows", [rows])
    timed = samples.expected(rows, 4, 25 * SECOND, 10 * SECOND, key="sector")
    ordered = sorted(rows, key=lambda row: (row["ts"], row["id"]))
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in ordered]
    windows = oracle.count_windows(scores, 12, 5, 3, [row["id"] for row in ordered])
    counted = sorted(samples.oracle_rows(windows))
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    batch = spark.read.parquet(source)
    mistakes(batch)
    objects(batch, rows)
    assert samples.result_rows(top_k(batch, **TIMED).collect(), "sector") == timed
    assert samples.result_rows(top_k(batch, **COUNTED).collect()) == counted
    assert not quarantined(batch, time="ts").collect()
    assert samples.result_rows(drained(spark, home / "timed", source, TIMED), "sector") == timed
    assert samples.result_rows(drained(spark, home / "counted", source, COUNTED)) == counted
    into_delta(spark, home, source, timed)
    sinks_in_use(spark, home)
    totals = TOTALS | {"by": F.sum(F.col("price") * 3)}
    leaders = drained(spark, home / "totals", source, totals)
    assert sorted((samples.position(r.window.end), r["rank"], r.score) for r in leaders) == sums(
        rows
    )


def sums(rows: list[dict[str, Any]]) -> list[tuple[int, int, float]]:
    """Ends, ranks and scores of the oracle's totals."""
    names = [None, "a", "b"]
    windows = time_totals(
        [names.index(row["sector"]) for row in rows],
        [math.nan if row["price"] is None else row["price"] * 3 for row in rows],
        [row["ts"] for row in rows],
        25 * SECOND,
        10 * SECOND,
        "sum",
        2,
    )
    return [
        (window.end, rank, score)
        for window in windows
        for rank, (score, _) in enumerate(window.rows, start=1)
    ]


def objects(df: DataFrame, rows: list[dict[str, Any]]) -> None:
    """Objects whose values come by sector, in one DataFrame and in two."""
    known = F.col("sector").isNotNull() & F.col("price").isNotNull()
    df = df.filter(known).withColumn("name", F.concat(F.lit("o"), F.col("id") % 9))
    options: dict[str, Any] = {
        "k": 3, "id": "name", "value": "price", "bounds": (0, 9), "outside": "clip", "time": "ts",
        "window": "25 seconds", "slide": "10 seconds", "shards": 3,
    }  # fmt: skip
    frames = {name: df.filter(F.col("sector") == name) for name in ("a", "b")}
    values, times = [], []
    for row in rows:
        if row["sector"] is not None and row["price"] is not None:
            value = row["price"] if math.isnan(row["price"]) else min(max(row["price"], 0.0), 9.0)
            values.append((f"o{row['id'] % 9}", "ab".index(row["sector"]), value + 0.0))
            times.append(row["ts"])
    windows = time_incomplete(values, times, 25 * SECOND, 10 * SECOND, 3, "sum", [0.0, 0.0])
    expected = sorted(samples.oracle_rows(windows))
    for leaders in (
        top_k_incomplete(df, stream="sector", streams=["a", "b"], **options),
        top_k_incomplete(frames, **options),
    ):
        answers = leaders.withColumnRenamed("name", "id").collect()
        assert samples.result_rows(answers) == expected


def mistakes(df: DataFrame) -> None:
    """They are reported over Connect, too, before anything runs."""
    with pytest.raises(DataError, match="there is no column 'prise'"):
        top_k(df, **(TIMED | {"keep": "prise"}))
    with pytest.raises(QueryError, match="prise"):
        top_k(df, **(TIMED | {"by": "prise * 2"}))
    with pytest.raises(DataError, match="of type string"):
        top_k(df, **(TIMED | {"by": df.sector}))


def drained(spark: SparkSession, home: Path, source: str, options: dict[str, Any]) -> list[Any]:
    """A stream from its beginning to its end."""
    marks = str(home / "marks")
    drain(spark, marks)
    leaders = top_k(samples.stream(spark, source), drain=marks, **options)
    assert claim(leaders, str(home / "checkpoint"))
    query = samples.run(leaders, home)
    batches = [batch_of(progress) for progress in query.recentProgress]
    assert sum(batch.rows for batch in batches if batch) == 120
    with pytest.raises(QueryError, match="drained"):
        claim(leaders, str(home / "checkpoint"))
    return spark.read.parquet(str(home / "out")).collect()


def into_delta(spark: SparkSession, home: Path, source: str, expected: list[Any]) -> None:
    """Batches of a stream are written by the server, a batch by the client."""
    leaders = top_k(spark.read.parquet(source), **TIMED)
    to_delta(leaders, str(home / "of-batch"))(leaders, 0)
    marks = str(home / "marks")
    drain(spark, marks)
    ranked = top_k(samples.stream(spark, source), drain=marks, **TIMED)
    checkpoint = claim(ranked, str(home / "of-delta"))
    write = to_delta(ranked, str(home / "of-stream"), checkpoint=checkpoint)
    stream = ranked.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    for place in ("of-batch", "of-stream"):
        rows = deltalake.DeltaTable(str(home / place)).to_pyarrow_table().to_pylist()
        assert sorted(
            (str(row["sector"]), samples.position(row["window_end"]), row["rank"], row["score"])
            for row in rows
        ) == sorted(row[:4] for row in expected)


def sinks_in_use(spark: SparkSession, home: Path) -> None:
    """What a stream has written to is refused to another, and to another layout."""
    job = {
        "source": {"format": "parquet", "path": str(home / "rows")},
        "query": {**TIMED, "skew": None},
        "checkpoint": "another",
    }
    file = home / "job.yaml"
    for folder, refused in (("timed", True), ("nobody", False)):
        for format in ("parquet", "files"):
            sink = {"format": format, "path": str(home / folder / "out")}
            file.write_text(yaml.safe_dump({**job, "sink": sink}))
            read = load(file, master="sc://127.0.0.1:1")
            with refusal(refused, "holds what a stream with another checkpoint wrote"):
                sinks.check_new(spark, read)
            with refusal(refused and format == "files", "files of Spark's own sink"):
                sinks.check_layout(spark, read, False)


def refusal(expected: bool, words: str) -> AbstractContextManager[Any]:
    return pytest.raises(QueryError, match=words) if expected else nullcontext()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
