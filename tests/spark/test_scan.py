"""Files that tasks read by themselves: the answers, counts and progress of Spark's own reading."""

from __future__ import annotations

import os
import random
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from skyband import all_time, cumulative, last
from skyband.errors import SkybandError
from skyband.spark import parquet, top_k
from skyband.spark.derive import derived
from skyband.spark.families.top_k import FAMILY, TopKOptions
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run, explained
from skyband.spark.pipeline import answer, project, reading
from skyband.spark.scan import pieces
from skyband.spark.scan.planning import scan_of
from skyband.spark.scan.source import ParquetSource

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
LAYOUT = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("tick", pa.int64()),
        ("seq", pa.int64()),
        ("id", pa.int64()),
        ("sector", pa.string()),
        ("ratio", pa.float32()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("exact", pa.decimal128(18, 4)),
        ("small", pa.decimal128(9, 2)),
    ]
)
ODD = [None, float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.0, 1.0, 2.0]


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows with ties, odd values, missing times and one from far ahead."""
    chance = random.Random(seed)
    at, made = BASE, []
    for number in range(count):
        at += chance.choice([0, 0, SECOND // 3, SECOND])
        made.append(
            {
                "ts": None if chance.random() < 0.03 else at,
                "day": at // SECOND // 86_400 + chance.randrange(40),
                "tick": at // SECOND - BASE // SECOND,
                "seq": number,
                "id": number * 7919 % 1009,
                "sector": chance.choice(["a", "b", "ä", None]),
                "ratio": chance.choice([0.1, 0.5, -0.0, 0.0, None]),
                "price": chance.choice(ODD) if chance.random() < 0.4 else chance.random() * 9,
                "volume": chance.choice([None, 2**62, 3, 3, chance.randrange(1000)]),
                "exact": Decimal(chance.randrange(10**6)).scaleb(-4),
                "small": None if chance.random() < 0.1 else Decimal(number % 37).scaleb(-2),
            }
        )
    made[count // 3]["ts"] = 4_102_444_800 * SECOND  # the year 2100
    made[count // 4]["ts"] = 300_000_000_000 * SECOND  # the year 11476, which Python has not
    return made


def write(
    folder: Path,
    made: list[dict[str, Any]],
    files: int = 4,
    group: int = 40,
    layout: pa.Schema = LAYOUT,
) -> Path:
    """Rows in files of several row groups, read in this order."""
    folder.mkdir(parents=True)
    size = -(-len(made) // files)
    for number in range(files):
        file = folder / f"part-{number:03d}.parquet"
        table = pa.Table.from_pylist(made[number * size : (number + 1) * size], layout)
        pq.write_table(table, file, row_group_size=group)
        os.utime(file, (1_700_000_000 + number,) * 2)
    return folder


TIME: dict[str, Any] = {
    "time": "ts", "window": "20 seconds", "slide": "5 seconds", "id": "id", "keep": ["id", "ts"],
}  # fmt: skip
QUERIES: dict[str, dict[str, Any]] = {
    "plain": {"k": 3, "by": "price", **TIME},
    "arithmetic": {
        "k": 3, "by": "price * 2 + ratio - 1", **TIME, "keep": ["sector", "day", "exact"],
    },
    "keys and a condition": {
        "k": 2, "by": "price / 3", **TIME, "partition_by": "sector",
        "where": "sector <> 'b' OR ratio IS NULL",
    },
    "keys of floats, split panes": {
        "k": 2, "by": "price", **TIME, "partition_by": ["ratio"], "window": "12 seconds",
    },
    "oldest": {"k": 4, "by": "ratio", **TIME, "ties": "oldest"},
    "rank": {"k": 2, "by": "ratio", **TIME, "rank_by": "rank"},
    "dense rank, keys": {
        "k": 2, "by": "ratio", **TIME, "rank_by": "dense_rank", "partition_by": "sector",
    },
    "whole numbers": {"k": 5, "by": "volume", **TIME, "offset": "2 seconds"},
    "decimals": {"k": 5, "by": "exact", **TIME},
    "small decimals": {"k": 5, "by": "small", **TIME},
    "dates": {
        "k": 3, "by": "price", "time": "day", "window": "6 days", "slide": "1 day", "keep": "id",
        "skew": None,
    },
    "ticks": {
        "k": 3, "by": "price", "time": "tick", "window": last(time=30, slide=7), "keep": "id",
    },
    "sequence": {
        "k": 3, "by": "price", "sequence": "seq", "window": 50, "slide": 20, "keep": "id",
    },
    "sequence by key": {
        "k": 2, "by": "price", "sequence": "seq", "window": 50, "slide": 20, "keep": "id",
        "partition_by": "sector",
    },
    "a period so far": {
        "k": 3, "by": "price", "time": "ts", "keep": "id",
        "window": cumulative("40 seconds", every="10 seconds"),
    },
    "all time": {
        "k": 3, "by": "price", "time": "ts", "keep": "id", "window": all_time(every="10 seconds"),
    },
    "changes": {"k": 3, "by": "price", **TIME, "emit": "changes"},
    "a number of rows as key": {
        "k": 2, "by": "price", **TIME, "partition_by": "volume * 0 + 1 AS one",
        "where": "volume < 1000",
    },
}  # fmt: skip


def answered(source: ParquetSource, scans: bool, **query: Any) -> tuple[list[str], dict[str, int]]:
    """The rows of a batch, and what was counted."""
    counts = Observation("counts")
    frame, options = derived(source.frame, TopKOptions(**query))
    plan = FAMILY.resolve(frame, options)
    files = reading(frame, plan, source) if scans else None
    assert files is None or "by tasks" in files.words
    leaders = answer(frame, plan, counts, files)
    return shown(leaders), dict(counts.get)


def shown(leaders: DataFrame) -> list[str]:
    """Rows as sorted texts."""
    return sorted(row[0] for row in leaders.select(F.to_json(F.struct("*"))).collect())


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_is_what_spark_makes_of_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    source = parquet(spark, write(tmp_path / "rows", rows(len(name), 400)))
    scanned, ordinary = (answered(source, way, **QUERIES[name]) for way in (True, False))
    assert scanned[0] == ordinary[0]
    assert scanned[0]
    assert scanned[1] == ordinary[1]


def test_files_that_spark_wrote(spark: SparkSession, tmp_path: Path) -> None:
    made = spark.sql(
        """
        SELECT timestamp_micros(1700000000000000 + id * 700001) AS ts, id, id * 37 % 101 AS n
        FROM range(300)
        """
    )
    folder = tmp_path / "rows of Ä 100"
    made.repartition(3).write.option("compression", "zstd").parquet(str(folder))
    (folder / "part-of-a-writer-that-was-killed.parquet").touch()
    source = parquet(spark, folder)
    query = {"k": 4, "by": "n", **TIME}
    assert answered(source, True, **query) == answered(source, False, **query)


def test_columns_that_some_files_lack_or_spell_otherwise(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write(tmp_path / "rows", rows(1, 200))
    first = pq.read_table(folder / "part-000.parquet")
    pq.write_table(first.drop_columns(["price"]), folder / "part-000.parquet")
    second = pq.read_table(folder / "part-001.parquet")
    spelled = second.rename_columns([name.upper() for name in second.column_names])
    narrow = spelled.set_column(4, "ID", spelled["ID"].cast(pa.int32()))
    pq.write_table(narrow, folder / "part-001.parquet")
    schema = spark.read.parquet(str(folder / "part-003.parquet")).schema
    source = parquet(spark, folder, schema=schema)
    query = {"k": 3, "by": "price", **TIME}
    assert answered(source, True, **query) == answered(source, False, **query)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param({"by": "abs(price)"}, "ABS(price) is evaluated by Spark", id="expression"),
        pytest.param({"by": None}, "by is a Column", id="Column"),
        pytest.param({"partition_by": "upper(sector)"}, "UPPER", id="key"),
        pytest.param({"where": "sector like 'a%'"}, "LIKE", id="condition"),
        pytest.param({"deduplicate_by": "id"}, "repeat", id="deduplicate"),
        pytest.param({"window": 50, "slide": 10}, "as they arrive", id="arrival"),
    ],
)
def test_what_spark_reads(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    query: dict[str, Any],
    reason: str,
) -> None:
    source = parquet(spark, write(tmp_path / "rows", rows(2, 60)))
    asked: dict[str, Any] = {"k": 3, "by": "price", **TIME, **query}
    asked["by"] = F.col("price") if asked["by"] is None else asked["by"]
    frame, options = derived(source.frame, TopKOptions(**asked))
    words = reading(frame, FAMILY.resolve(frame, options), source).words
    assert words.startswith("read by Spark: ")
    assert reason in words
    with caplog.at_level("INFO", "skyband.scan"):
        assert shown(top_k(source, **asked)) == shown(top_k(source.frame, **asked))
    assert caplog.messages == [f"files are {words}"]


def test_sources_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(2, 60))
    assert parquet(spark, folder).why_not is None
    rebased = parquet(spark, folder, options={"datetimeRebaseMode": "CORRECTED"})
    assert rebased.why_not == "the option datetimeRebaseMode is for Spark's own reader"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert parquet(spark, folder).why_not == "spark.sql.caseSensitive is true"
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    (folder / "kind=x").mkdir()
    (folder / "part-000.parquet").rename(folder / "kind=x" / "part-000.parquet")
    for file in folder.glob("part-*"):
        file.unlink()
    assert parquet(spark, folder).why_not == "folders hold the column kind"


def test_a_file_of_the_old_calendar(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    table = pa.Table.from_pylist([{**row, "day": -100_000} for row in rows(2, 30)], LAYOUT)
    pq.write_table(table, folder / "new.parquet")
    source = parquet(spark, folder)
    query: dict[str, Any] = {"k": 3, "by": "price", **TIME, "keep": ["id", "day"]}
    assert answered(source, True, **query) == answered(source, False, **query)
    marks = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    pq.write_table(table.replace_schema_metadata(marks), folder / "new.parquet")
    with pytest.raises(Exception, match=r"new.parquet holds day from before 1900"):
        top_k(source, **query).collect()


def test_what_cannot_be_read_exactly_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(3, 60))
    source = parquet(spark, folder)
    (folder / "part-000.parquet").write_bytes(b"nonsense")
    with pytest.raises(Exception, match=r"part-000.parquet cannot be read"):
        top_k(source, k=3, by="price", **TIME).collect()
    table = pq.read_table(folder / "part-001.parquet")
    texts = table.set_column(7, "price", table["price"].cast(pa.string()))
    pq.write_table(texts, folder / "part-000.parquet")
    with pytest.raises(Exception, match=r"holds price as string; expected double"):
        top_k(source, k=3, by="price", **TIME).collect()


def scan(source: ParquetSource, **query: Any) -> pieces.Scan:
    frame, options = derived(source.frame, TopKOptions(**query))
    plan = FAMILY.resolve(frame, options)
    return scan_of(source, project(frame, plan).schema, plan)


def test_pieces_of_a_file_are_all_of_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(4, 300), files=1, group=20)
    path = folder / "part-000.parquet"
    reader = scan(parquet(spark, folder), k=3, by="price", **TIME)

    def counted(cut: int) -> list[int]:
        size = path.stat().st_size
        bounds = [(low, low + cut) for low in range(0, size, cut)]
        batch = pa.RecordBatch.from_pylist(
            [
                {"path": f"file:{path}", "low": low, "high": high, "now": BASE}
                for low, high in bounds
            ]
        )
        out = [row["_sky_counts"] for part in reader(iter([batch])) for row in part.to_pylist()]
        return [sum(row[name] for row in out if row) for name in pieces.COUNTED]

    assert counted(1 << 40) == counted(1000) == counted(777)
    assert counted(1000)[0] == 300


def columns_read(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, **query: Any
) -> tuple[list[tuple[str, ...]], list[dict[str, Any]]]:
    """The columns that a task reads of each row group of a file, and what it hands on."""
    reader = scan(parquet(spark, folder), k=3, **{**TIME, **query})
    read: list[tuple[str, ...]] = []
    batches = pieces._Groups.batches

    def noted(groups: Any, group: int, names: Any, **options: Any) -> Any:
        read.append(tuple(names))
        return batches(groups, group, names, **options)

    monkeypatch.setattr(pieces._Groups, "batches", noted)
    path = f"file:{folder / 'part-000.parquet'}"
    batch = pa.RecordBatch.from_pylist([{"path": path, "low": 0, "high": 1 << 40, "now": BASE}])
    handed_on = [row for part in reader(iter([batch])) for row in part.to_pylist()]
    return read, handed_on


def falling(count: int) -> list[dict[str, Any]]:
    """Rows of one second whose volumes fall from ten to ten, now and then without any."""
    made = rows(9, count)
    for number, row in enumerate(made):
        volume = None if number % 17 == 3 else count - number // 10 - number % 3
        row |= {"ts": None if number % 23 == 5 else BASE + number, "volume": volume}
    return made


def test_row_groups_are_skipped_by_their_statistics(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "rows", falling(100), files=1, group=10)
    read, handed_on = columns_read(spark, folder, monkeypatch, by="volume")
    assert read.count(("ts", "volume")) == 1
    last = handed_on[-1]["_sky_counts"]
    assert (last["rows"], last["null_score"], last["no_time"]) == (100, 6, 5)
    assert handed_on[-1]["_sky_at"] == BASE + 99  # moves the watermark though nobody read it
    read, _ = columns_read(spark, folder, monkeypatch, by="volume", where="price IS NOT NULL")
    assert read.count(("ts", "volume", "price")) == 10  # nobody knows how many rows there are


@pytest.mark.parametrize("window", [{}, {"window": "7 seconds", "slide": "3 seconds"}])
def test_skipped_row_groups_change_nothing(
    spark: SparkSession, tmp_path: Path, window: dict[str, str]
) -> None:
    made = falling(300)
    for number, row in enumerate(made):
        row |= {} if row["ts"] is None else {"ts": BASE + number * 1_000 % 9_000_000}
    source = parquet(spark, write(tmp_path / "rows", made, group=10))
    query = {**TIME, "k": 2, "by": "volume", **window}
    assert answered(source, True, **query) == answered(source, False, **query)


def test_other_columns_are_read_where_winners_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(5, 100)
    for number, row in enumerate(made):
        row |= {"ts": BASE + number, "price": 100.0 - number // 10}
    folder = write(tmp_path / "rows", made, files=1, group=10)
    read, _ = columns_read(spark, folder, monkeypatch, by="price", keep=["sector"])
    assert read.count(("ts", "price")) == 10
    assert read.count(("id", "sector")) == 1  # the best rows stand in the first row group


def job(home: Path, folder: Path, scans: bool, **query: Any) -> Path:
    """A job over a folder, two files at a time."""
    home.mkdir(parents=True, exist_ok=True)
    content = {
        "source": {
            "format": "parquet", "path": str(folder), "scan": scans,
            "options": {"maxFilesPerTrigger": 2},
        },
        "query": query,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }  # fmt: skip
    file = home / "job.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def run(spark: SparkSession, file: Path) -> Run:
    with Run(spark, load(file)) as started:
        started.prepare()
        started.go(threading.Event(), lambda: None)
    return started


def written(spark: SparkSession, home: Path) -> list[str]:
    return shown(spark.read.parquet(str(home / "out")))


STREAM: dict[str, Any] = {
    "k": 3, "by": "price * 2", "time": "ts", "window": "20 seconds", "slide": "5 seconds",
    "id": "id", "keep": ["id", "ts"], "partition_by": "sector", "where": "volume IS NOT NULL",
    "delay": "10 minutes",
}  # fmt: skip


def test_a_job_is_what_spark_makes_of_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(6, 400))
    runs = {}
    for name, scans in (("scan", True), ("spark", False)):
        file = job(tmp_path / name, folder, scans, **STREAM)
        files = explained(spark, load(file)).files
        assert files is None if not scans else "by tasks" in str(files)
        runs[name] = run(spark, file).progress
    assert written(spark, tmp_path / "scan") == written(spark, tmp_path / "spark")
    counts = ("rows", "no_time", "future", "null_score", "nan_score", "windows", "ranked", "late")
    for name in counts:
        assert getattr(runs["scan"], name) == getattr(runs["spark"], name), name
    assert runs["scan"].rows


def goes_on(
    spark: SparkSession,
    home: Path,
    scans: bool,
    query: dict[str, Any],
    made: list[dict[str, Any]] | None = None,
) -> None:
    """Begin a job with one way of reading, go on with the other, and compare with neither."""
    made = rows(7, 400) if made is None else made
    folder = write(home / "rows", made[:200], files=2)
    file = job(home / "job", folder, scans, **query)
    content = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**content, "drain": False}))
    run(spark, file)
    write(home / "later", made[200:], files=2)
    for number, path in enumerate(sorted((home / "later").glob("*.parquet"))):
        moved = path.rename(folder / f"part-1{number:02d}.parquet")
        os.utime(moved, (1_700_001_000 + number,) * 2)
    run(spark, job(home / "job", folder, not scans, **query))
    run(spark, job(home / "whole", folder, False, **query))
    assert written(spark, home / "job") == written(spark, home / "whole")


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_goes_on_either_way(spark: SparkSession, tmp_path: Path, first: bool) -> None:
    goes_on(spark, tmp_path, first, STREAM)


def test_an_overflow_fails_the_job_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(8, 100))
    file = job(tmp_path / "job", folder, True, **{**STREAM, "by": "volume * 4", "where": None})
    content = yaml.safe_load(file.read_text())
    content["query"].pop("where")
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(SkybandError, match=r"the score is too large for its type"):
        run(spark, file)
