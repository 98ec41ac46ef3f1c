"""Top-k dominating on Spark: batch = stream = oracle, for all rows and by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, top_k_dominating
from tests import oracle
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
DIMENSIONS = [("price", "min"), ("seq % 5", "max"), ("id % 4", "min")]
OPTIONS: dict[str, Any] = {
    "k": 3,
    "dimensions": DIMENSIONS,
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
    "offset": "3 seconds",
    "id": "id",
    "keep": ["id", "ts"],
}


def points(rows: Rows) -> list[tuple[float, ...] | None]:
    """Less is better; rows with a missing attribute are none."""
    return [
        None
        if row["price"] is None or row["price"] != row["price"]
        else (row["price"] + 0.0, -float(row["seq"] % 5), float(row["id"] % 4))
        for row in rows
    ]


def expected_rows(rows: Rows, key: str = "") -> list[tuple[Any, ...]]:
    """What the oracle says of these windows, in the layout of ``samples.result_rows``."""
    answers: list[tuple[Any, ...]] = []
    for value in sorted({str(row[key]) for row in rows} if key else {""}):
        key_rows = [row for row in rows if not key or str(row[key]) == value]
        key_rows.sort(key=lambda row: (row["ts"], row["id"]))
        windows = oracle.time_dominating(
            points(key_rows),
            [row["ts"] for row in key_rows],
            25 * SECOND,
            10 * SECOND,
            3,
            3 * SECOND,
        )
        answers += [
            (*([value] if key else []), window.end, rank, score, key_rows[at]["id"])
            for window in windows
            for rank, (score, at) in enumerate(window.rows, start=1)
        ]
    return sorted(answers)


def run(spark: SparkSession, home: Path, source: str, **more: Any) -> list[Any]:
    """Run a stream over what is there; returns what its sink holds."""
    df = samples.stream(spark, source)
    marks = str(home / "marks")
    leaders = top_k_dominating(df, drain=marks, **{**OPTIONS, **more})
    claim(leaders, str(home / "checkpoint"))
    samples.run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


def frame(spark: SparkSession, rows: Rows, tmp_path: Path) -> DataFrame:
    return spark.read.schema(samples.DDL).parquet(samples.write(tmp_path / "rows", [rows]))


@pytest.mark.parametrize("key", ["", "sector"])
def test_a_batch_gives_what_the_oracle_gives(spark: SparkSession, tmp_path: Path, key: str) -> None:
    rows = samples.rows(3, 300)
    df = frame(spark, rows, tmp_path)
    leaders = df.transform(top_k_dominating, partition_by=key or None, **OPTIONS)
    assert samples.result_rows(leaders.collect(), *([key] if key else [])) == expected_rows(
        rows, key
    )


@pytest.mark.parametrize("key", ["", "sector"])
def test_a_stream_gives_what_the_oracle_gives_also_after_a_stop(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    rows = samples.rows(5, 260)
    parts = samples.split(rows, 3, 5)
    late = {**rows[0], "id": -1, "price": -99.0, "ts": rows[0]["ts"] - 900 * SECOND}
    keys = [key] if key else []
    source = samples.write(tmp_path / "source", parts[:2])
    first = samples.result_rows(run(spark, tmp_path, source, partition_by=key or None), *keys)
    expected = expected_rows(rows, key)
    assert 0 < len(first) < len(expected)
    assert set(first) <= set(expected)
    samples.write(tmp_path / "source", [*parts[:2], [late, *parts[2]]])
    drain(spark, str(tmp_path / "marks"))
    assert (
        samples.result_rows(run(spark, tmp_path, source, partition_by=key or None), *keys)
        == expected
    )
    with pytest.raises(QueryError, match="dominating was price min"):
        run(spark, tmp_path, source, partition_by=key or None, dimensions=[("price", "max")])


def test_count_windows_over_a_sequence(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(4, 130)
    df = frame(spark, rows, tmp_path)
    options = {
        **OPTIONS,
        "time": None,
        "sequence": "seq",
        "window": 37,
        "slide": 10,
        "offset": None,
    }
    leaders = top_k_dominating(df, **options, full=True, shards=3)
    windows = oracle.count_dominating(points(rows), 37, 10, 3, full=True)
    expected = [
        (window.end, rank, score, rows[at]["id"])
        for window in windows
        for rank, (score, at) in enumerate(window.rows, start=1)
    ]
    assert samples.result_rows(leaders.collect()) == sorted(expected)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dimensions": []}, "dimensions are"),
        ({"dimensions": [("price", "least")]}, "dimension 'price' is 'least'"),
        ({"dimensions": [("prize", "min")]}, "prize"),
        ({"dimensions": [("sector", "min")]}, "of type string"),
        ({"k": 0}, "k is 0"),
        ({"window": 100, "slide": 10, "offset": None}, "windows that count rows as they arrive"),
        ({"emit": "changes"}, "emit is 'changes' for all rows together"),
        ({"algorithm": "bfa"}, "algorithm is 'bfa' for all rows together"),
        ({"algorithm": "best", "partition_by": "sector"}, "algorithm is 'best'"),
        ({"shards": 0}, "shards is 0"),
        ({"shards": 2, "partition_by": "sector"}, "shards is 2 with partition_by"),
        (
            {"sequence": "seq", "time": None, "window": 9, "slide": 3, "offset": None,
             "partition_by": "sector"},
            "both sequence='seq' and partition_by",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_reported_before_anything_runs(
    spark: SparkSession, more: dict[str, Any], message: str
) -> None:
    df = spark.createDataFrame([], samples.DDL)
    with pytest.raises((QueryError, DataError), match=message):
        top_k_dominating(df, **{**OPTIONS, **more})


def test_a_stream_of_all_rows_cannot_be_deduplicated(spark: SparkSession, tmp_path: Path) -> None:
    df = samples.stream(spark, samples.write(tmp_path / "rows", [samples.rows(1, 5)]))
    with pytest.raises(QueryError, match="deduplicate_by for all rows of a stream"):
        top_k_dominating(df, **OPTIONS, deduplicate_by="id")
