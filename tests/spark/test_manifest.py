"""A checkpoint belongs to one query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from skyband.errors import QueryError, SnapshotError
from skyband.spark import claim, drain, top_k
from skyband.spark.jobs import checkpoint as manifest

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, id bigint, price double, sector string"
OPTIONS: dict[str, Any] = {
    "k": 2,
    "by": "price",
    "time": "ts",
    "window": "20 seconds",
    "slide": "10 seconds",
    "keep": "id",
}


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manifest") / "rows"
    spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id, double(id % 7) AS price, 'a' AS sector "
        "FROM range(60)"
    ).coalesce(1).write.parquet(str(path))
    return path


@pytest.fixture
def rows(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(source))


def run(leaders: DataFrame, checkpoint: str) -> None:
    stream = leaders.writeStream.format("noop").option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()


def test_the_same_query_may_go_on_and_another_may_not(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    assert claim(top_k(rows, **OPTIONS), checkpoint) == checkpoint
    assert claim(top_k(rows, **OPTIONS), checkpoint) == checkpoint
    stored = manifest.read(spark, checkpoint)
    assert stored is not None
    assert stored["query"]["window"] == 20_000_000
    assert stored["shuffle_partitions"] == 2
    other = {**OPTIONS, "k": 3, "by": "price * 2", "delay": "1 minute", "partition_by": "sector"}
    with pytest.raises(QueryError) as caught:
        claim(top_k(rows, **other), checkpoint)
    message = caught.value.found
    assert "k was 2 and is now 3" in message
    assert "score was 'price' and is now 'price * 2'" in message
    assert "delay was 10 seconds and is now 1 minute" in message
    assert "keys was none and is now sector" in message
    assert "window" not in message
    assert "restore the query, or start a new checkpoint" in str(caught.value)


def test_what_may_not_be_claimed(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="claim the result of top_k"):
        claim(rows, str(tmp_path))
    batch = spark.createDataFrame([], SCHEMA)
    with pytest.raises(QueryError, match="batch"):
        claim(top_k(batch, **OPTIONS), str(tmp_path))
    with pytest.raises(QueryError, match="claim the result of top_k"):
        claim(top_k(rows, **OPTIONS).drop("rank"), str(tmp_path))
    used = tmp_path / "used"
    used.mkdir()
    (used / "metadata").write_text('{"id":"4a71bced"}')
    with pytest.raises(QueryError, match="a query that nothing is known of"):
        claim(top_k(rows, **OPTIONS), str(used))


def test_other_shuffle_partitions(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    claim(top_k(rows, **OPTIONS), str(tmp_path))
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        with pytest.raises(QueryError, match=r"begun with 2.*session\(shuffle_partitions=2\)"):
            claim(top_k(rows, **OPTIONS), str(tmp_path))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def rewritten(checkpoint: Path, text: str) -> None:
    (part,) = (checkpoint / "skyband" / "manifest").glob("part-*")
    (part.parent / f".{part.name}.crc").unlink()
    part.write_text(text)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '"text"'])
def test_a_damaged_manifest(rows: DataFrame, tmp_path: Path, text: str) -> None:
    claim(top_k(rows, **OPTIONS), str(tmp_path))
    rewritten(tmp_path, text)
    with pytest.raises(SnapshotError, match=r"is damaged.*start a new checkpoint"):
        claim(top_k(rows, **OPTIONS), str(tmp_path))


def test_other_versions(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    leaders = top_k(rows, **OPTIONS)
    claim(leaders, str(tmp_path))
    stored = manifest.read(spark, str(tmp_path))
    rewritten(tmp_path, json.dumps({**(stored or {}), "state_version": 99}))
    with pytest.raises(SnapshotError, match="state of version 99"):
        claim(leaders, str(tmp_path))
    (part,) = (tmp_path / "skyband" / "manifest").glob("part-*")
    part.write_text(json.dumps({**(stored or {}), "format": 2}))
    with pytest.raises(SnapshotError, match="of format 2"):
        claim(leaders, str(tmp_path))


def test_a_manifest_cut_short(rows: DataFrame, tmp_path: Path) -> None:
    """Written anew as long as Spark has not begun; after that it is damaged."""
    empty = tmp_path / "skyband" / "manifest"
    empty.mkdir(parents=True)
    claim(top_k(rows, **OPTIONS), str(tmp_path))
    rewritten(tmp_path, "")
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(SnapshotError, match="damaged"):
        claim(top_k(rows, **OPTIONS), str(tmp_path))


def test_a_drained_stream_is_finished(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    checkpoint, directory = str(tmp_path / "checkpoint"), str(tmp_path / "drain")
    leaders = top_k(rows, **OPTIONS, drain=directory)
    claim(leaders, checkpoint)
    run(leaders, checkpoint)
    claim(leaders, checkpoint)
    drain(spark, directory)
    claim(leaders, checkpoint)  # marked to drain, but not yet drained
    run(leaders, checkpoint)
    assert manifest.finished(spark, checkpoint)
    with pytest.raises(QueryError, match="this stream was drained"):
        claim(leaders, checkpoint)
    with pytest.raises(QueryError, match="drainable was true and is now false"):
        claim(top_k(rows, **OPTIONS), checkpoint)
