"""Top-k over incomplete streams on Spark: batch = stream = oracle, however objects are spread."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import IncompleteMonitor, TopKIncomplete, last
from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, top_k_incomplete
from tests import oracle, oracle_incomplete
from tests.spark import samples
from tests.spark.samples import BASE, SECOND

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
STREAMS = ["north", "south", "west"]
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("seq", pa.int64()),
        ("plate", pa.string()),
        ("number", pa.int32()),
        ("camera", pa.string()),
        ("speed", pa.float64()),
        ("road", pa.string()),
    ]
)
COLUMNS = (
    "ts timestamp, seq bigint, plate string, number int, camera string, speed double, road string"
)
OPTIONS: dict[str, Any] = {
    "k": 3,
    "streams": STREAMS,
    "id": "plate",
    "stream": "camera",
    "value": "speed / 2",
    "bounds": {"north": (-1, 5), "south": (0, 5), "west": (0, 4.5)},
    "outside": "clip",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
    "offset": "3 seconds",
    "shards": 3,
}
COUNTED: dict[str, Any] = {
    "time": None, "sequence": "seq", "window": 37, "slide": 10, "offset": None,
}  # fmt: skip
LOW = [-1.0, 0.0, 0.0]
HIGH = [5.0, 5.0, 4.5]
SPEEDS = [None, float("nan"), -0.0, 0.0, float("inf"), -8.0, 1.0, 2.0, 2.0, 3.0, 8.0]


def passages(seed: int, count: int, plates: int = 9) -> Rows:
    """Rows in order of time: equal times, repeated and odd values, a silent stretch."""
    chance = random.Random(seed)
    at, rows = BASE + chance.randrange(SECOND), []
    for i in range(count):
        at += chance.choice([0, 0, 1, SECOND // 2, SECOND])
        if i == count // 2:
            at += 100 * SECOND
        number = chance.randrange(plates)
        speed = chance.choice(SPEEDS) if chance.random() < 0.5 else chance.random() * 9
        rows.append(
            {
                "ts": at,
                "seq": i,
                "plate": f"{'äZz'[number % 3]}{number}" if number else None,
                "number": number,
                "camera": chance.choice(STREAMS),
                "speed": speed,
                "road": chance.choice(["a", "b", None]),
            }
        )
    return rows


def write(path: Path, parts: list[Rows]) -> str:
    """Each part as one file, read in this order."""
    path.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        file = path / f"part-{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist(part, SCHEMA), file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    return str(path)


def values(rows: Rows, id: str = "plate") -> list[tuple[Any, int, float | None]]:
    """Rows as the oracle takes them: objects, streams, values within their bounds."""
    triples = []
    for row in rows:
        stream, speed = STREAMS.index(row["camera"]), row["speed"]
        if row[id] is None:
            speed = None
        if speed is not None and speed == speed:
            speed = min(max(speed / 2 + 0.0, LOW[stream]), HIGH[stream])
        triples.append((row[id], stream, speed))
    return triples


def windows(rows: Rows, combine: Any = "sum") -> list[oracle.Answer]:
    """What the oracle says of these windows."""
    times = [row["ts"] for row in rows]
    return oracle_incomplete.time_incomplete(
        values(rows), times, 25 * SECOND, 10 * SECOND, 3, combine, LOW, offset=3 * SECOND
    )


def expected_rows(rows: Rows, key: str = "", combine: Any = "sum") -> list[tuple[Any, ...]]:
    """The same as rows: key, end, rank, score, plate."""
    answers: list[tuple[Any, ...]] = []
    for value in sorted({str(row[key]) for row in rows} if key else {""}):
        key_rows = [row for row in rows if not key or str(row[key]) == value]
        answers += samples.oracle_rows(windows(key_rows, combine), *([value] if key else []))
    return sorted(answers)


def result_rows(rows: list[Any], *keys: str, id: str = "plate") -> list[tuple[Any, ...]]:
    return sorted(
        (*(str(row[key]) for key in keys), samples.position(row.window.end), row["rank"], row.score,
         row[id])
        for row in rows
    )  # fmt: skip


def run(spark: SparkSession, home: Path, source: str, **more: Any) -> list[Any]:
    """Run a stream over what is there; returns what its sink holds."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    df = reader.option("latestFirst", "false").parquet(source)
    leaders = top_k_incomplete(df, drain=str(home / "marks"), **{**OPTIONS, **more})
    claim(leaders, str(home / "checkpoint"))
    samples.run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


def frame(spark: SparkSession, rows: Rows, tmp_path: Path) -> DataFrame:
    return spark.read.schema(COLUMNS).parquet(write(tmp_path / "rows", [rows]))


def test_a_batch_gives_what_the_oracle_gives(spark: SparkSession, tmp_path: Path) -> None:
    rows = passages(3, 300)
    df = frame(spark, rows, tmp_path)
    assert result_rows(top_k_incomplete(df, **OPTIONS).collect()) == expected_rows(rows)
    leaders = top_k_incomplete(df, **{**OPTIONS, "shards": 2}, partition_by="road", algorithm="sla")
    assert leaders.columns == ["window", "road", "rank", "score", "plate"]
    assert result_rows(leaders.collect(), "road") == expected_rows(rows, "road")
    for more in ({"shards": 1, "algorithm": "recompute"}, {"shards": 3}):
        changed = top_k_incomplete(df, **{**OPTIONS, **more}, emit="changes")
        expected = oracle.changes(windows(rows), 10 * SECOND, 1 << 62)
        assert samples.reports(changed.collect(), "plate") == expected


def test_changes_of_a_stream_go_on_after_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    rows = passages(5, 200)
    parts = samples.split(rows, 3, 5)
    source = write(tmp_path / "source", parts[:2])
    first = samples.reports(run(spark, tmp_path, source, emit="changes"), "plate")
    expected = oracle.changes(windows(rows), 10 * SECOND, 1 << 62)
    assert 0 < len(first) < len(expected)
    assert first == expected[: len(first)]
    write(tmp_path / "source", parts)
    drain(spark, str(tmp_path / "marks"))
    assert samples.reports(run(spark, tmp_path, source, emit="changes"), "plate") == expected


def test_a_stream_gives_what_the_oracle_gives_also_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = passages(5, 260)
    parts = samples.split(rows, 3, 5)
    late = {**rows[0], "plate": "late", "ts": rows[0]["ts"] - 900 * SECOND}
    source = write(tmp_path / "source", parts[:2])
    first = result_rows(run(spark, tmp_path, source))
    expected = expected_rows(rows)
    assert 0 < len(first) < len(expected)
    assert set(first) <= set(expected)
    write(tmp_path / "source", [*parts[:2], [late, *parts[2]]])
    drain(spark, str(tmp_path / "marks"))
    assert result_rows(run(spark, tmp_path, source)) == expected
    with pytest.raises(QueryError, match="combine was 'sum' and is now 'max'"):
        run(spark, tmp_path, source, combine="max")


def test_a_data_frame_per_stream_and_ids_of_several_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = passages(7, 200)
    df = frame(spark, rows, tmp_path)
    frames = {name: df.filter(F.col("camera") == name).drop("camera") for name in STREAMS}
    options = {**OPTIONS, "stream": None, "streams": None, "combine": "max"}
    leaders = top_k_incomplete(frames, **options)
    assert result_rows(leaders.collect()) == expected_rows(rows, combine="max")
    two_columns = top_k_incomplete(df, **{**OPTIONS, "id": ["number", "plate"]})
    named = [row for row in expected_rows(rows) if row[-1] is not None]
    assert two_columns.columns == ["window", "rank", "score", "number", "plate"]
    assert result_rows(two_columns.collect()) == named


def test_count_windows_over_a_sequence(spark: SparkSession, tmp_path: Path) -> None:
    rows = passages(4, 130)
    df = frame(spark, rows, tmp_path)
    leaders = top_k_incomplete(df, **{**OPTIONS, **COUNTED, "id": "number"}, full=True)
    answers = oracle_incomplete.count_incomplete(
        values(rows, "number"), 37, 10, 3, "sum", LOW, full=True
    )
    assert result_rows(leaders.collect(), id="number") == sorted(samples.oracle_rows(answers))


@pytest.mark.usefixtures("compiled_plans")
def test_a_million_objects_of_which_one_has_a_quarter_of_the_rows(spark: SparkSession) -> None:
    count, slide = 1_340_000, 400_000
    number = np.arange(count)
    value = number * 7919 % 1_000_003 / 1_000_003
    object = np.where(number % 4 == 0, 7, number)
    n = F.col("id")
    df = spark.range(count).select(
        F.timestamp_micros(F.lit(BASE) + n).alias("ts"),
        F.when(n % 4 == 0, 7).otherwise(n).cast("string").alias("plate"),
        F.concat(F.lit("s"), n % 3).alias("camera"),
        (n * 7919 % 1_000_003 / 1_000_003.0).alias("speed"),
    )
    leaders = top_k_incomplete(
        df, k=5, id="plate", stream="camera", streams=["s0", "s1", "s2"], value="speed",
        time="ts", window=f"{2 * slide} microseconds", slide=f"{slide} microseconds",
    )  # fmt: skip
    window = last(time=2 * slide, slide=slide)
    monitor = IncompleteMonitor(TopKIncomplete(5, ["s0", "s1", "s2"], window), "recompute")
    monitor.push(object, number % 3, value, times=BASE + number)
    expected = [
        (ranked.end, rank, score, str(id))
        for ranked in monitor.finish()
        for rank, (score, id) in enumerate(zip(ranked.score, ranked.id, strict=True), start=1)
    ]
    assert len(expected) == 25
    assert result_rows(leaders.collect()) == sorted(expected)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"streams": None}, "streams were not given"),
        ({"streams": []}, "expected names of streams"),
        ({"stream": None}, "stream was not given"),
        ({"stream": "lens"}, "stream: there is no column 'lens'"),
        ({"id": "plates"}, "did you mean 'plate'"),
        ({"id": []}, "id was not given"),
        ({"id": ["plate", "road"], "partition_by": "road"}, "'road' is in id and in partition_by"),
        ({"value": "speeed"}, "value 'speeed' cannot be evaluated"),
        ({"value": "plate"}, "value 'plate' is of type string"),
        ({"bounds": {"north": (0, 1)}}, "no bounds of stream 'south'"),
        ({"combine": lambda values: values.sum(axis=1)}, "combine is a function"),
        ({"outside": "drop"}, "outside is 'drop'"),
        ({"repeats": "sum"}, "repeats is 'sum'"),
        ({"k": 0}, "k is 0"),
        ({"window": 100, "slide": 10, "offset": None}, "windows that count rows as they arrive"),
        ({"emit": "some"}, "emit is 'some'"),
        ({"algorithm": "best"}, "algorithm is 'best'"),
        ({"algorithm": "sla", "options": {"k_max": 1}}, "k_max is 1"),
        ({"options": {"slack": 1}}, "option 'slack' for auto"),
        ({"shards": 65}, "shards is 65"),
        ({**COUNTED, "partition_by": "road"}, "both sequence='seq' and partition_by"),
        ({**COUNTED, "drain": "marks"}, "drain is given for windows over a sequence"),
        ({**COUNTED, "full": True, "emit": "changes", "shards": 1}, "full=True with emit"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_runs(
    spark: SparkSession, more: dict[str, Any], message: str
) -> None:
    df = spark.createDataFrame([], COLUMNS)
    with pytest.raises((QueryError, DataError), match=message):
        top_k_incomplete(df, **{**OPTIONS, **more})


def test_data_frames_of_streams_must_fit_together(spark: SparkSession) -> None:
    df = spark.createDataFrame([], COLUMNS).drop("camera")
    options = {**OPTIONS, "stream": None}
    other = df.withColumn("plate", F.col("plate").cast("int"))
    for frames, more, message in (
        ({"north": df, "south": df}, {}, "DataFrames of north, south"),
        (dict.fromkeys(STREAMS, df), {"stream": "camera"}, "stream is 'camera' with a DataFrame"),
        ({**dict.fromkeys(STREAMS, df), "west": other}, {}, "'plate' of stream 'west' is int"),
        ({**dict.fromkeys(STREAMS, df), "west": df.drop("speed")}, {}, "stream 'west': value"),
        (dict.fromkeys(STREAMS, "rows"), {}, "stream 'north' is str"),
    ):
        with pytest.raises((QueryError, DataError), match=message):
            top_k_incomplete(frames, **{**options, **more})
    with pytest.raises(QueryError, match="df is list"):
        top_k_incomplete([df], **OPTIONS)  # type: ignore[arg-type]
    leaders = top_k_incomplete(dict.fromkeys(STREAMS, df), **options)
    assert leaders.columns == ["window", "rank", "score", "plate"]
