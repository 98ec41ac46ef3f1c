"""The outbox of several sinks: who has which batches, and which are gone; no stream runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from skyband import QueryError
from skyband.spark.jobs import sinks
from skyband.spark.jobs.file import load
from skyband.spark.jobs.outbox import Deliveries, Folder, Outbox, refuse_waiting

SCHEMA = StructType([StructField("id", LongType())])
Sink = Callable[[DataFrame, int], None]


def outbox(spark: SparkSession, home: Path, commits: int, batches: list[int]) -> Outbox:
    """A checkpoint with so many commits, and an outbox with these batches."""
    (home / "commits").mkdir(exist_ok=True)
    for number in range(commits):
        (home / "commits" / str(number)).touch()
    for number in batches:
        (home / "skyband" / "outbox" / f"batch={number}").mkdir(parents=True)
    return Outbox(spark, str(home), SCHEMA)


def delivered(deliveries: Deliveries) -> Deliveries:
    """Bring all sinks what they have not, as far as they take it."""
    with deliveries.running():
        paused = threading.Event()
        while not deliveries.settled():
            paused.wait(0.01)
    return deliveries


def refuse(rows: DataFrame, batch: int) -> None:
    raise OSError("the server is down")


def test_a_sink_that_was_left_out_while_it_was_behind(spark: SparkSession, tmp_path: Path) -> None:
    """It is missed at once, and refused later, when batches for it are gone."""
    batches: dict[str, list[int]] = {"one": [], "two": [], "three": []}

    def some(*names: str) -> dict[str, Sink]:
        return {name: lambda rows, batch, name=name: batches[name].append(batch) for name in names}

    box = outbox(spark, tmp_path, 3, [0, 1, 2])
    delivered(Deliveries(box, {**some("one"), "two": refuse}))
    assert batches == {"one": [0, 1, 2], "two": [], "three": []}
    both = Deliveries(box, some("one", "two"))
    both.refuse_lost()
    assert both.notes() == []
    with pytest.raises(QueryError, match="3 batches wait in the outbox of"):
        refuse_waiting(spark, str(tmp_path))
    without = Deliveries(box, some("one", "three"))
    without.refuse_lost()
    new, missed = without.notes()
    assert new.startswith("sink three is new")
    assert missed.startswith("sink two is not among the sinks any more: 3 batches wait for it")
    delivered(without)
    assert box.folder.numbers() == [2]
    refuse_waiting(spark, str(tmp_path))
    outbox(spark, tmp_path, 4, [3])
    with pytest.raises(QueryError) as error:
        Deliveries(box, some("one", "two", "three")).refuse_lost()
    assert str(error.value) == (
        f"the outbox of {tmp_path} has batches 0 to 1 no more, which sink two did not get: an "
        "earlier run went on without it; expected a sink that was in every run, or a new one; "
        "fix: give it another name and a place of its own; or, if it may lack them, remove "
        f"{tmp_path}/skyband/sinks/two, and it gets what is ranked from now on"
    )
    assert Deliveries(box, some("one", "three")).notes() == []
    Folder(spark, f"{tmp_path}/skyband/sinks").remove("two")
    again = delivered(Deliveries(box, some("one", "two", "three")))
    assert batches == {"one": [0, 1, 2, 3], "two": [2, 3], "three": [0, 1, 2, 3]}
    assert again.behind() == {"one": 0, "two": 0, "three": 0}


def test_a_checkpoint_that_spark_alone_can_open(spark: SparkSession, tmp_path: Path) -> None:
    """Folders are read as Spark reads them, with its settings: here a file system of links."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    hadoop.set("fs.viewfs.mounttable.shared.link./checkpoints", tmp_path.as_uri())
    place = "viewfs://shared/checkpoints/of board"
    refuse_waiting(spark, place)
    folder = Folder(spark, f"{place}/skyband/sinks/one")
    assert not folder.exists()
    assert (folder.last(), folder.names()) == (-1, [])
    for number in (3, 12):
        folder.mark(number)
        assert (folder.last(), folder.names()) == (number, [f"{number}"])
    assert (tmp_path / "of board/skyband/sinks/one/12").exists()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("format", ["parquet", "files"])
def test_files_of_two_layouts_are_refused(
    spark: SparkSession, tmp_path: Path, format: str, alone: bool
) -> None:
    """Rows in directories would be hidden by the log of Spark's sink, and the other way round."""
    (tmp_path / "in").mkdir()
    sink = {"format": format, "path": "out"}
    content = {
        "source": {"format": "parquet", "path": "in"},
        "query": {"k": 1, "by": "price", "window": "1 minute", "time": "ts"},
        "checkpoint": "checkpoint",
        **({"sink": sink} if alone else {"sinks": [sink]}),
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(content))
    (job,) = load(tmp_path / "job.yaml").each_sink
    has_log = alone and format == "parquet"
    parts = ["batch=0", "_spark_metadata"]
    mine, others = reversed(parts) if has_log else parts
    sinks.check_layout(spark, job, not alone)
    (tmp_path / "out" / mine).mkdir(parents=True)
    (tmp_path / "out" / mine / "0").touch()
    sinks.check_layout(spark, job, not alone)
    (tmp_path / "out" / mine).rename(tmp_path / "out" / others)
    with pytest.raises(QueryError, match=r"readers would miss rows.*name another sink.path"):
        sinks.check_layout(spark, job, not alone)
