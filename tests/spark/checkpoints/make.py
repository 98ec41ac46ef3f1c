"""Make the checkpoints in this directory: run it with the release whose state is to be kept.

    PYTHONPATH=<that release>/src python tests/spark/checkpoints/make.py

For each kind of state a stream reads the first parts of the rows below and stops with windows open.
An archive holds its checkpoint and the answers it gave; the tests go on with the rest of the rows.
Only the public interface is used here, so that the tests can ask the same queries of any release.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from skyband import TopK, Workload, last
from skyband.spark import (
    claim,
    session,
    top_k,
    top_k_dominating,
    top_k_incomplete,
    top_k_workload,
)

HERE = Path(__file__).parent
HOME = Path("/tmp/skyband-fixture")  # stands in Spark's logs
SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
COUNT = 96
PARTS = (34, 66)
"""Where rows are cut, in the order in which they come; the last part is left to the tests."""

TYPES = {
    "ts": pa.timestamp("us", tz="UTC"),
    "seq": pa.int64(),
    "id": pa.int64(),
    "sector": pa.string(),
    "price": pa.float64(),
    "amount": pa.float64(),
    "name": pa.string(),
    "camera": pa.string(),
    "plate": pa.string(),
    "speed": pa.float64(),
}
DDL = (
    "ts timestamp, seq bigint, id bigint, sector string, price double, amount double, name string, "
    "camera string, plate string, speed double"
)
TIMES: dict[str, Any] = {"time": "ts", "slide": "4 seconds", "delay": "5 seconds"}
UNEVEN = TIMES | {"offset": "-3 seconds"}  # windows of eleven seconds that end at slides
RANKED: dict[str, Any] = {"k": 3, "by": "price", "id": "id", "keep": ["id", "name", "ts"]}
CAMERAS = ("north", "south")
OBJECTS: dict[str, Any] = {"streams": CAMERAS, "stream": "camera", "value": "speed", "k": 3}
DIMENSIONS = [("price", "min"), ("amount", "max")]
WORKLOAD = Workload(
    {
        "wide": TopK(k=4, window=last(time="12 seconds", slide="4 seconds")),
        "uneven": TopK(k=2, window=last(time="7 seconds", slide="3 seconds", offset="0 seconds")),
    },
    {"wide": "price", "uneven": "-amount"},
)

Rows = list[dict[str, Any]]
Leaders = Callable[[DataFrame, str, str], DataFrame]


def rows() -> Rows:
    """The same rows always: ties, NULL and NaN, a key that falls silent."""
    chance = random.Random(13)
    at = BASE
    rows = []
    for i in range(COUNT):
        at += chance.choice([0, 1, 300_000, 700_000, SECOND])
        odd = chance.choice([None, float("nan"), 0.0, 1.0, 2.0, 3.0])
        rows.append(
            {
                "ts": at,
                "seq": i,
                "id": 1000 + 7 * i,
                "sector": "c" if i % 2 and 40 <= i < 58 else chance.choice(["a", "b", None]),
                "price": odd if chance.random() < 0.5 else round(chance.random() * 9, 2),
                "amount": None if chance.random() < 0.1 else round(chance.random() * 100, 1),
                "name": f"n{chance.randrange(7)}",
                "camera": chance.choice(CAMERAS),
                "plate": f"p{chance.randrange(9)}",
                "speed": chance.randrange(0, 40) / 4,
            }
        )
    return rows


def parts() -> list[Rows]:
    """The rows as they come: out of order by up to four rows, which are within every delay."""
    chance = random.Random(14)
    arrivals = sorted(rows(), key=lambda row: row["seq"] + chance.randint(0, 4))
    first, second = PARTS
    return [arrivals[:first], arrivals[first:second], arrivals[second:]]


def write(directory: Path, number: int, part: Rows) -> None:
    """One file of a source."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"part-{number}.parquet"
    pq.write_table(pa.Table.from_pylist(part, pa.schema(list(TYPES.items()))), file)
    _date(file, number)  # Spark reads the older first


def _date(file: Path, number: int = 0) -> None:
    """Give a file a time of its own: Spark passes over files much older than those it has seen."""
    os.utime(file, (BASE // SECOND + number,) * 2)


def _ranked(**more: Any) -> Leaders:
    return lambda df, checkpoint, marks: top_k(df, drain=marks, **{**RANKED, **more})


def _dominating(**more: Any) -> Leaders:
    options = {"k": 3, "dimensions": DIMENSIONS, "id": "id", "keep": ["id", "name", "ts"], **TIMES}
    return lambda df, checkpoint, marks: top_k_dominating(df, drain=marks, **{**options, **more})


def _incomplete(**more: Any) -> Leaders:
    options = {**OBJECTS, **TIMES, "bounds": (0, 10), "window": "12 seconds", **more}
    return lambda df, checkpoint, marks: top_k_incomplete(df, drain=marks, **options)


def _totals(**more: Any) -> Leaders:
    options = {"k": 3, "key": "name", **TIMES, "window": "12 seconds", **more}
    return lambda df, checkpoint, marks: top_k(df, drain=marks, **options)


def _workload(df: DataFrame, checkpoint: str, marks: str) -> DataFrame:
    options = {"time": "ts", "delay": "5 seconds", "id": "id", "keep": ["id", "name", "ts"]}
    return top_k_workload(df, WORKLOAD, drain=marks, checkpoint=checkpoint, **options)


KINDS: dict[str, Leaders] = {
    "top_k": _ranked(window="12 seconds", partition_by="sector", **TIMES),
    "changes": _ranked(window="11 seconds", emit="changes", **UNEVEN),
    "sequence": _ranked(sequence="seq", window=17, slide=5, delay=5),
    "arrival": _ranked(time="ts", window=8, slide=3, delay="5 seconds", partition_by="sector", k=2),
    "workload": _workload,
    "dominating": _dominating(window="11 seconds", shards=2, **UNEVEN),
    "dominating_by_key": _dominating(window="12 seconds", partition_by="sector"),
    "incomplete": _incomplete(id="plate", shards=2),
    "incomplete_changes": _incomplete(id="id", shards=1, emit="changes"),
    "totals": _totals(by="sum(amount)", shards=2),
    "totals_changes": _totals(by="count(*)", shards=1, emit="changes"),
}
"""A query for each kind of state."""


def start(spark: SparkSession, kind: str, home: Path, answers: list[Any]) -> Any:
    """Go on with the stream of a directory over the files that are new; returns the query."""
    checkpoint = str(home / "checkpoint")
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    leaders = KINDS[kind](source.parquet(str(home / "rows")), checkpoint, str(home / "marks"))

    for file in (home / "marks").iterdir():
        _date(file)

    def take(batch: DataFrame, number: int) -> None:
        answers.extend(plain(row.asDict()) for row in batch.collect())

    stream = leaders.writeStream.option("checkpointLocation", claim(leaders, checkpoint))
    return stream.trigger(availableNow=True).foreachBatch(take).start()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A result row as JSON knows it: the end of its window, moments as whole numbers."""
    fields = {**row, "end": row["window"]["end"]}
    del fields["window"]
    return {
        name: int(value.timestamp()) * SECOND + value.microsecond
        if isinstance(value, datetime)
        else value
        for name, value in fields.items()
    }


def pack(archive: Path, home: Path, answers: list[Any]) -> None:
    """An archive whose bytes depend on nothing but what it holds; Spark does without checksums."""
    files = {"answers.json": json.dumps(answers, sort_keys=True).encode()}
    for file in (home / "checkpoint").rglob("*"):
        if file.is_file() and file.suffix != ".crc":
            files[str(file.relative_to(home))] = file.read_bytes()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(files):
            packed.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED, 9)


def unpack(kind: str, home: Path) -> list[Any]:
    """Put a checkpoint into a directory; returns what its stream has answered.

    Spark writes where its files are into its logs: those paths become the new ones.
    """
    with zipfile.ZipFile(HERE / f"{kind}.zip") as archive:
        archive.extractall(home)
    for log in ("checkpoint/sources/*/*", "checkpoint/state/*/_metadata/*/*"):
        for file in home.glob(log):
            file.write_text(file.read_text().replace(str(HOME / kind), str(home)))
    answers: list[Any] = json.loads((home / "answers.json").read_text())
    return answers


def main(kinds: list[str]) -> None:
    """Make an archive of each kind, or of those that are named."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    spark = session("local[2,4]", shuffle_partitions=2, memory="1g", log=HOME / "spark.log")
    for kind in kinds or KINDS:
        for number, part in enumerate(parts()[:-1]):
            write(HOME / kind / "rows", number, part)
        answers: list[Any] = []
        start(spark, kind, HOME / kind, answers).awaitTermination()
        pack(HERE / f"{kind}.zip", HOME / kind, answers)
        size = (HERE / f"{kind}.zip").stat().st_size
        print(f"{kind}: {len(answers)} answers, {size:,} bytes", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
