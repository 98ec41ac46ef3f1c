"""Checkpoints of releases that took all numbers for doubles: what goes on, and what to do else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from skyband import DataError, QueryError, TopK, Workload, last
from skyband.spark import claim, top_k, top_k_dominating, top_k_incomplete, top_k_workload
from skyband.spark.jobs.checkpoint import as_double, same_score
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run

WINDOW = {"time": "ts", "window": "20 seconds", "slide": "10 seconds"}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "rows")
    spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id AS n, CAST(id AS DECIMAL(17,2)) AS d, "
        "'a' AS stream FROM range(60)"
    ).coalesce(1).write.parquet(path)
    return path


def rows(spark: SparkSession, source: str, doubles: bool) -> DataFrame:
    """A stream whose numbers are doubles, as the release before had them, or what they are."""
    stream = spark.readStream.schema("ts timestamp, n bigint, d decimal(17,2), stream string")
    frame = stream.parquet(source)
    return frame.selectExpr("ts", "double(n) n", "double(d) d", "stream") if doubles else frame


@pytest.mark.parametrize("by", ["max(n)", "min(n)", "max(d)", "avg(d)", "n", "d"])
def test_rounded_numbers_go_on_with_a_cast(
    spark: SparkSession, source: str, tmp_path: Path, by: str
) -> None:
    options = {**WINDOW, **({"key": "stream"} if "(" in by else {"keep": "stream"})}
    checkpoint = str(tmp_path / "checkpoint")
    claim(top_k(rows(spark, source, True), k=1, by=by, **options), checkpoint)
    now = rows(spark, source, False)
    with pytest.raises(QueryError) as caught:
        claim(top_k(now, k=1, by=by, **options), checkpoint)
    cast = as_double(by)
    assert f"{by} was of doubles and is now exact" in caught.value.found
    assert f"write by='{cast}', which goes on as it was" in caught.value.fix
    assert "start a new checkpoint, and a new sink" in caught.value.fix
    assert "held" not in str(caught.value)
    claim(top_k(now, k=1, by=cast, **options), checkpoint)
    exact = str(tmp_path / "exact")
    claim(top_k(now, k=1, by=by, **options), exact)
    with pytest.raises(QueryError, match="belongs to another query"):
        claim(top_k(now, k=1, by=cast, **options), exact)


def test_casts() -> None:
    assert as_double("max( n + 1 )") == "max(CAST(n + 1 AS DOUBLE))"
    assert same_score("n", "cast( n as double)")
    assert not same_score("n", "CAST(m AS DOUBLE)")
    assert not same_score("CAST(n AS DOUBLE)", "n")


def test_points_and_objects_go_on_with_a_cast(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    before, now = rows(spark, source, True), rows(spark, source, False)

    def points(frame: DataFrame, name: str) -> DataFrame:
        dimensions: Any = [(name, "min"), ("n", "max")]
        return top_k_dominating(frame, k=1, dimensions=dimensions, keep="stream", **WINDOW)

    def objects(frame: DataFrame, value: str) -> DataFrame:
        what: dict[str, Any] = {"id": "n", "stream": "stream", "value": value}
        return top_k_incomplete(frame, k=1, streams=["a", "b"], bounds=(0, 100), **what, **WINDOW)

    for name, query in (("points", points), ("objects", objects)):
        checkpoint = str(tmp_path / name)
        claim(query(before, "d"), checkpoint)
        with pytest.raises(DataError, match=r"or CAST\(d AS DOUBLE\)"):
            query(now, "d")
        as_it_was = now if name == "points" else now.selectExpr("ts", "double(n) n", "d", "stream")
        claim(query(as_it_was, "CAST(d AS DOUBLE)"), checkpoint)
        with pytest.raises(QueryError, match="belongs to another query"):
            claim(query(as_it_was, "CAST(n AS DOUBLE)"), checkpoint)


def test_a_workload_goes_on_with_a_cast(spark: SparkSession, source: str, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")

    def leaders(frame: DataFrame, by: str) -> DataFrame:
        queries = {"a": TopK(1, last(time="20 seconds", slide="10 seconds"))}
        workload = Workload(queries, {"a": by})
        return top_k_workload(frame, workload, time="ts", keep="stream", checkpoint=checkpoint)

    def run(frame: DataFrame, by: str) -> None:
        found = leaders(frame, by)
        writer = found.writeStream.format("noop")
        writer = writer.option("checkpointLocation", claim(found, checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    run(rows(spark, source, True), "d")
    now = rows(spark, source, False)
    with pytest.raises(DataError, match=r"CAST\(d AS DOUBLE\)"):
        leaders(now, "d")
    with pytest.raises(QueryError, match="which the job does not compute"):
        leaders(now, "CAST(n AS DOUBLE)")
    for _ in range(2):
        run(now, "CAST(d AS DOUBLE)")


@pytest.mark.parametrize(("format", "folder"), [("parquet", "out"), ("files", "out/batch=0")])
def test_a_sink_holds_scores_of_one_type(
    spark: SparkSession, source: str, tmp_path: Path, format: str, folder: str
) -> None:
    content = {
        "source": {"format": "parquet", "path": source},
        "query": {"k": 1, "by": "sum(n)", "key": "stream", **WINDOW},
        "sink": {"format": format, "path": "out"},
        "checkpoint": "checkpoint",
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    for type, refused in (("bigint", False), ("double", True)):
        with Run(spark, load(file)) as run:
            run.prepare()  # what is there is of the same type, or nothing is
        answers = spark.sql(f"SELECT CAST(1 AS {type}) AS score")
        answers.write.mode("overwrite").parquet(str(tmp_path / folder))
        with Run(spark, load(file)) as run:
            if not refused:
                run.prepare()
                continue
            with pytest.raises(QueryError, match=r"score is bigint, in sink\.path .* it is double"):
                run.prepare()
