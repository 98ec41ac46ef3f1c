"""Workloads and other families over files that tasks read: the answers of Spark's own reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from skyband import Workload, cumulative
from skyband.errors import SkybandError
from skyband.spark import parquet, top_k_dominating, top_k_incomplete
from skyband.spark.derive import derived
from skyband.spark.families.dominating.plan import FAMILY as DOMINATING
from skyband.spark.families.dominating.plan import DominatingOptions
from skyband.spark.families.incomplete.plan import FAMILY as INCOMPLETE
from skyband.spark.families.incomplete.plan import IncompleteOptions
from skyband.spark.families.totals.plan import FAMILY as TOTALS
from skyband.spark.families.totals.plan import TotalsOptions
from skyband.spark.families.workload.boundaries import Boundaries, Era, Progression, finest_grid
from skyband.spark.families.workload.plan import FAMILY, WorkloadOptions
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import explained
from skyband.spark.pipeline import answer, reading
from skyband.spark.plan import Family
from skyband.spark.scan.hashes import xxhash64
from skyband.spark.scan.source import ParquetSource
from tests.spark.test_scan import LAYOUT, goes_on, job, rows, run, shown, write, written

QUERIES: list[dict[str, Any]] = [
    {"name": "wide", "k": 4, "window": "60 seconds", "slide": "10 seconds", "by": "price"},
    {"name": "uneven", "k": 2, "window": "25 seconds", "slide": "10 seconds", "by": "ratio"},
    {"name": "often", "k": 3, "window": "7 seconds", "slide": "1 second", "by": "price"},
    {"name": "decimals", "k": 3, "window": "30 seconds", "slide": "15 seconds", "by": "small"},
    {"name": "lowest", "k": 3, "window": "30 seconds", "slide": "15 seconds", "by": "-price"},
]
WORKLOADS: dict[str, dict[str, Any]] = {
    "several scores": {"workload": QUERIES},
    "one score": {"workload": [query for query in QUERIES if query["by"] == "price"]},
    "keys": {"workload": QUERIES[:3], "partition_by": "sector"},
    "a condition": {"workload": QUERIES[:3], "where": "price > 1"},
    "ties": {
        "workload": [{**query, "ties": "oldest"} for query in QUERIES],
    },
    "shared ranks": {
        "workload": [{**query, "rank_by": "dense_rank"} for query in QUERIES[:3]],
    },
    "rows": {
        "workload": [
            {"name": "many", "k": 3, "window": 40, "slide": 20, "by": "price"},
            {"name": "few", "k": 2, "window": 10, "slide": 5, "by": "ratio"},
        ],
        "sequence": "seq",
    },
}  # fmt: skip


def answered(source: ParquetSource, scans: bool, **query: Any) -> tuple[list[str], dict[str, int]]:
    """The rows of a workload over a batch, and what was counted."""
    place = {} if "sequence" in query else {"time": "ts"}
    given = {**query, "workload": Workload.of(query["workload"])}
    options = WorkloadOptions(**given, **place, id="id", keep=["id", "ts", "exact"])
    return asked(FAMILY, options, source, scans)


def asked(
    family: Family, options: Any, source: ParquetSource, scans: bool
) -> tuple[list[str], dict[str, int]]:
    """What a family answers of a batch, and what was counted."""
    counts = Observation("counts")
    frame, options = derived(source.frame, options)
    plan = family.resolve(frame, options)
    files = reading(frame, plan, source) if scans else None
    assert files is None or "by tasks" in files.words
    return shown(answer(frame, plan, counts, files)), dict(counts.get)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_what_spark_makes_of_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = parquet(spark, write(tmp_path / "rows", rows(len(name), 300), group=40))
    scanned, ordinary = (answered(source, way, **WORKLOADS[name]) for way in (True, False))
    assert scanned == ordinary
    assert scanned[0]


def test_a_job_of_a_workload_is_what_spark_makes_of_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", rows(12, 300), group=40)
    query = {
        **{"workload": QUERIES[:3], "time": "ts", "id": "id", "keep": ["id", "ts"]},
        **{"partition_by": "sector", "delay": "10 minutes"},
    }
    ranked = {}
    for name, scans in (("scan", True), ("spark", False)):
        progress = run(spark, job(tmp_path / name, folder, scans, **query)).progress
        ranked[name] = progress.rows, progress.windows, progress.null_score, progress.nan_score
    assert written(spark, tmp_path / "scan") == written(spark, tmp_path / "spark")
    assert ranked["scan"] == ranked["spark"]


def test_whole_numbers_that_doubles_round_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = rows(13, 60)
    for number, row in enumerate(made):
        row["volume"] = -(1 << 60) if number == 50 else 60 - number
    source = parquet(spark, write(tmp_path / "rows", made, files=1, group=10))
    query = {"workload": [{**QUERIES[0], "by": "volume"}]}
    for way in (True, False):
        with pytest.raises(Exception, match=r"by volume holds a number beyond 2\*\*53"):
            answered(source, way, **query)
    file = job(tmp_path / "job", tmp_path / "rows", True, time="ts", id="id", **query)
    with pytest.raises(SkybandError, match=r"volume holds a number beyond 2\*\*53"):
        run(spark, file)


def test_parts_of_panes_lie_between_all_boundaries() -> None:
    first = Boundaries((Progression(20, 4),), (Progression(20, 4), Progression(30, 14)))
    later = Boundaries((Progression(8, 1),), (Progression(8, 1),))
    assert finest_grid([Era(None, first)]) == (10, 4)
    assert finest_grid([Era(None, first), Era(101, later)]) == (1, 0)
    assert finest_grid([Era(9, later)]) == (8, 1)


TOTALS_OF: dict[str, dict[str, Any]] = {
    "whole numbers": {"by": "sum(1)", "key": "id"},
    "wide whole numbers": {"by": "sum(volume)", "key": "id"},
    "doubles": {"by": "sum(price)", "key": "sector"},
    "products": {"by": "sum(price * ratio)", "key": ["sector", "id"], "where": "price < 8"},
    "decimals": {"by": "sum(exact)", "key": "sector"},
    "largest": {"by": "max(price)", "key": "sector"},
    "least": {"by": "min(volume)", "key": "sector", "partition_by": "day"},
    "shared ranks": {"by": "max(small)", "key": "id", "rank_by": "dense_rank"},
    "changes": {"by": "sum(price)", "key": "sector", "emit": "changes"},
    "rows": {"by": "count(*)", "key": ["sector", "id"]},
    "values": {"by": "count(price)", "key": "sector"},
    "means": {"by": "avg(price)", "key": ["ts", "day"]},
    "first": {"by": "first(price)", "key": "id"},
    "last": {"by": "last(volume)", "key": "sector", "where": "id < 9"},
    "counted wide numbers": {"by": "count(wide)", "key": "sector"},
    "others beside": {
        "by": "sum(price)", "key": "sector", "emit": "changes",
        "also": {
            "n": "count(*)", "wide": "count(wide)", "known": "count(price)", "most": "max(ratio)",
            "volumes": "sum(volume)", "ids": "sum(id)", "mean": "avg(price)", "cents": "sum(small)",
            "opened": "first(price)", "newest": "last(volume)", "least": "min(exact)",
        },
    },
    "others beside a count, by key": {
        "by": "count(price)", "key": "id", "partition_by": "sector", "where": "price < 8",
        "also": {"product": "sum(price * ratio)", "days": "max(volume)"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TOTALS_OF)
def test_totals_are_what_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    made = rows(len(name), 300)
    for number, row in enumerate(made):  # totals of wide numbers would not fit
        row["wide"] = row["volume"]
        row["volume"] = None if row["volume"] is None else min(row["volume"], 1 << 40)
        row["id"] = number * 7919 % 13
    layout = LAYOUT.append(pa.field("wide", pa.int64()))
    source = parquet(spark, write(tmp_path / "rows", made, group=40, layout=layout))
    window = {"window": "20 seconds", "slide": "5 seconds"}
    options = TotalsOptions(k=3, time="ts", **window, **TOTALS_OF[name])
    scanned, ordinary = (asked(TOTALS, options, source, way) for way in (True, False))
    assert scanned == ordinary
    assert scanned[0]


def test_sums_beyond_64_bits_come_back(spark: SparkSession, tmp_path: Path) -> None:
    made = rows(14, 40)
    for number, row in enumerate(made):
        row |= {"sector": "a", "volume": (1 if number < 20 else -1) * ((1 << 62) + number)}
        row["ts"] = 1_700_000_000_000_000 + number
    source = parquet(spark, write(tmp_path / "rows", made, files=1, group=20))
    options = TotalsOptions(
        k=3, by="sum(volume)", key="sector", time="ts", window="20 seconds", slide="5 seconds"
    )
    scanned, ordinary = (asked(TOTALS, options, source, way) for way in (True, False))
    assert scanned == ordinary


@pytest.mark.parametrize("emit", ["all", "updates"])
def test_a_job_of_totals_is_what_spark_makes_of_it(
    spark: SparkSession, tmp_path: Path, emit: str
) -> None:
    folder = write(tmp_path / "rows", rows(15, 300), group=40)
    query = {
        **{"k": 2, "by": "sum(price)", "key": "sector", "time": "ts", "emit": emit},
        **{"also": {"rows": "count(*)", "highest": "max(price)"}},
        **{"window": "20 seconds", "slide": "5 seconds", "delay": "10 minutes"},
    }
    for name, scans in (("scan", True), ("spark", False)):
        file = job(tmp_path / name, folder, scans, **query)
        assert not scans or "by tasks" in str(explained(spark, load(file)).files)
        run(spark, file)
    finals = [
        [row for row in written(spark, tmp_path / name) if '"final":false' not in row]
        for name in ("scan", "spark")
    ]
    assert finals[0] == finals[1]
    assert finals[0]


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_of_totals_goes_on_either_way(
    spark: SparkSession, tmp_path: Path, first: bool
) -> None:
    query = {
        **{"k": 2, "by": "sum(price)", "key": ["sector", "id"], "time": "ts"},
        **{"also": {"rows": "count(*)", "opened": "first(price)"}},
        **{"window": "20 seconds", "slide": "5 seconds", "delay": "10 minutes"},
    }
    goes_on(spark, tmp_path, first, query)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"by": "sum(price)", "key": "ratio"}, "ratio is a key of type float"),
        ({"by": "count(sector)", "key": "id"}, "sector is of type string"),
        (
            {"by": "sum(price)", "key": "id", "also": {"n": "sum(abs(price))"}},
            "ABS(price) is evaluated by Spark alone",
        ),
    ],
)
def test_what_tasks_cannot_add_up_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, query: dict[str, Any], reason: str
) -> None:
    source = parquet(spark, write(tmp_path / "rows", rows(16, 50)))
    options = TotalsOptions(k=3, time="ts", window="20 seconds", **query)
    frame, options = derived(source.frame, options)
    files = reading(frame, TOTALS.resolve(frame, options), source)
    assert files is not None
    assert reason in files.words


def test_keys_are_hashed_as_spark_does(spark: SparkSession) -> None:
    values = {
        "truth": pa.array([True, False, None, True]),
        "tiny": pa.array([1, -1, None, 1], pa.int8()),
        "short": pa.array([300, -300, None, 0], pa.int16()),
        "whole": pa.array([1 << 30, -7, None, 0], pa.int32()),
        "wide": pa.array([1 << 60, -(1 << 60), None, 0]),
        "text": pa.array(["", "ä long text of more than thirty-two bytes", None, "b"]),
        "bytes": pa.array([b"", b"\0\xff", None, bytes(range(64))]),
    }
    frame = spark.createDataFrame(pa.table(values))
    for names in [*([name] for name in values), list(values)]:
        expected = [row[0] for row in frame.select(F.xxhash64(*names)).collect()]
        assert xxhash64([values[name] for name in names]).tolist() == expected
    unsound = pa.array([b"\xff\xfe"])  # no text in UTF-8, but Spark hashes bytes
    assert xxhash64([unsound.cast(pa.string(), safe=False)]) == xxhash64([unsound])


DIMENSIONS: list[tuple[str, str]] = [("price", "max"), ("ratio * 2", "min")]
DOMINATING_OF: dict[str, dict[str, Any]] = {
    "two attributes": {},
    "whole numbers and decimals": {
        "dimensions": [("id", "min"), ("small", "max"), ("price / 3", "min")], "where": "price < 8",
    },
    "split panes, shared ranks": {
        "window": "12 seconds", "rank_by": "dense_rank", "keep": ["sector", "day", "exact", "ts"],
    },
    "oldest, several shards": {"ties": "oldest", "shards": 3, "id": ["sector", "id"]},
    "rows": {"time": None, "sequence": "seq", "window": 40, "slide": 20},
    "a period so far": {"window": cumulative("40 seconds", every="10 seconds"), "slide": None},
}  # fmt: skip


def dominating(**query: Any) -> DominatingOptions:
    """A query for rows that dominate others."""
    usual = {
        **{"k": 3, "dimensions": DIMENSIONS, "time": "ts", "id": "id", "keep": ["id", "ts"]},
        **{"window": "20 seconds", "slide": "5 seconds"},
    }
    return DominatingOptions(**{**usual, **query})


@pytest.mark.parametrize("name", DOMINATING_OF)
def test_dominating_rows_are_what_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = parquet(spark, write(tmp_path / "rows", rows(len(name), 300), group=40))
    options = dominating(**DOMINATING_OF[name])
    scanned, ordinary = (asked(DOMINATING, options, source, way) for way in (True, False))
    assert scanned == ordinary
    assert scanned[0]
    assert scanned[1]["nan_score"] or "where" in DOMINATING_OF[name]


COUNTS = ("rows", "no_time", "future", "null_score", "nan_score", "windows", "ranked", "late")


def same_jobs(spark: SparkSession, home: Path, query: dict[str, Any]) -> list[str]:
    """What jobs write that read the same files either way, after counting the same."""
    progress = {}
    for name, scans in (("scan", True), ("spark", False)):
        file = job(home / name, home / "rows", scans, **query)
        assert not scans or "by tasks" in str(explained(spark, load(file)).files)
        progress[name] = run(spark, file).progress
    for name in COUNTS:
        assert getattr(progress["scan"], name) == getattr(progress["spark"], name), name
    assert progress["scan"].extra == progress["spark"].extra
    assert progress["scan"].late
    scanned, ordinary = (written(spark, home / name) for name in progress)
    assert scanned == ordinary
    return scanned


def late_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of which some of the last file are far behind."""
    made = rows(seed, count)
    for row in made[-20::3]:
        row["ts"] = 1_700_000_000_000_000
    return made


DOMINATING_JOB: dict[str, Any] = {
    **{"k": 2, "dominating": {"price": "max", "ratio": "min"}, "time": "ts", "id": "id"},
    **{"keep": ["id", "ts"], "window": "12 seconds", "slide": "5 seconds", "delay": "5 seconds"},
}


def test_a_job_of_dominating_rows_is_what_spark_makes_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "rows", late_rows(17, 300), files=8)
    assert same_jobs(spark, tmp_path, DOMINATING_JOB)


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_of_dominating_rows_goes_on_either_way(
    spark: SparkSession, tmp_path: Path, first: bool
) -> None:
    goes_on(spark, tmp_path, first, DOMINATING_JOB)


def test_dominating_rows_that_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    made = rows(18, 50)
    made[30]["volume"] = 1 << 60
    source = parquet(spark, write(tmp_path / "rows", made))

    def words(options: DominatingOptions) -> str:
        frame, options = derived(source.frame, options)
        return reading(frame, DOMINATING.resolve(frame, options), source).words

    assert "the local engine of its key" in words(dominating(partition_by="sector"))
    assert "ABS(price)" in words(dominating(dimensions=[("abs(price)", "max")]))
    assert words(dominating()) == (
        "read by tasks, with Arrow: blocks of points are handed to Spark"
    )
    for way in (True, False):
        with pytest.raises(Exception, match=r"dimension volume holds a number beyond 2\*\*53"):
            asked(DOMINATING, dominating(dimensions=[("volume", "max")]), source, way)


INCOMPLETE_OF: dict[str, dict[str, Any]] = {
    "clipped": {"value": "price", "bounds": (-1, 5), "outside": "clip"},
    "names of several columns, numbered streams": {
        "id": ["sector", "id", "day"], "stream": "tick", "streams": ["2", "0", "1"],
        "value": "ratio / 2 + 1", "bounds": {"2": (0, 2), "0": (-1, 3), "1": (1, 5)},
    },
    "changes by key, split panes": {
        "partition_by": "tick", "emit": "changes", "window": "12 seconds", "combine": "min",
        "where": "price IS NOT NULL OR id > 3", "ties": "oldest",
    },
    "shared ranks": {"rank_by": "rank", "combine": [2.0, 1.0, 1.0], "repeats": "none"},
    "rows": {"time": None, "sequence": "seq", "window": 40, "slide": 20, "combine": "max"},
}  # fmt: skip


def passages(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of few objects, which repeat in streams and panes; some have no name."""
    made = rows(seed, count)
    for number, row in enumerate(made):
        row |= {"id": None if number % 29 == 7 else number * 7919 % 11, "tick": number % 3}
        row["sector"] = row["sector"] or "a"
    return made


def incomplete(**query: Any) -> IncompleteOptions:
    """A query for objects of incomplete streams."""
    usual = {
        **{"k": 3, "id": "id", "stream": "sector", "streams": ["b", "a", "ä"], "value": "small"},
        **{"time": "ts", "window": "20 seconds", "slide": "5 seconds"},
    }
    return IncompleteOptions(**{**usual, **query})


@pytest.mark.parametrize("name", INCOMPLETE_OF)
def test_objects_are_what_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = parquet(spark, write(tmp_path / "rows", passages(len(name), 300), group=40))
    options = incomplete(**INCOMPLETE_OF[name])
    scanned, ordinary = (asked(INCOMPLETE, options, source, way) for way in (True, False))
    assert scanned == ordinary
    assert scanned[0]
    assert scanned[1]["clipped"] or name != "clipped"


INCOMPLETE_JOB: dict[str, Any] = {
    **{"k": 2, "time": "ts", "window": "12 seconds", "slide": "5 seconds", "delay": "5 seconds"},
    "incomplete": {
        **{"streams": ["b", "a", "ä"], "id": "id", "stream": "sector", "value": "price"},
        **{"bounds": [-1, 5], "outside": "clip"},
    },
}


@pytest.mark.parametrize("emit", ["all", "updates"])
def test_a_job_of_objects_is_what_spark_makes_of_it(
    spark: SparkSession, tmp_path: Path, emit: str
) -> None:
    made = passages(19, 300)
    for row, late in zip(made, late_rows(19, 300), strict=True):
        row["ts"] = late["ts"]
    write(tmp_path / "rows", made, files=8)
    assert same_jobs(spark, tmp_path, {**INCOMPLETE_JOB, "emit": emit})


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_of_objects_goes_on_either_way(
    spark: SparkSession, tmp_path: Path, first: bool
) -> None:
    goes_on(spark, tmp_path, first, INCOMPLETE_JOB, passages(7, 400))


def test_values_are_refused_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    made = passages(20, 60)
    for number, row in enumerate(made):
        row["volume"] = 1 << 60 if row["id"] is None else number
    source = parquet(spark, write(tmp_path / "rows", made))
    ways = (True, False)
    options = incomplete(value="volume * 1", bounds=(0, 1000))  # rows without an id are not asked
    scanned, ordinary = (asked(INCOMPLETE, options, source, way) for way in ways)
    assert scanned == ordinary
    assert scanned[1]["null_score"]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"value": "volume", "outside": "clip"}, r"value volume holds a number beyond 2\*\*53"),
        ({"bounds": (0, 0.05)}, r"a value beyond the bounds: 0.\d+ in stream '\w' is not from 0.0"),
        ({"streams": ["b", "a"]}, "a stream that is not named: 'ä' is none of b, a"),
    ]
    for query, words in refused:
        for way in ways:
            with pytest.raises(Exception, match=words):
                asked(INCOMPLETE, incomplete(**query), source, way)
    streams = {**INCOMPLETE_JOB["incomplete"], "outside": "error"}
    file = job(
        tmp_path / "job", tmp_path / "rows", True, **{**INCOMPLETE_JOB, "incomplete": streams}
    )
    with pytest.raises(
        SkybandError, match=r"a value is beyond its bounds: .* is not from -1.0 to 5"
    ):
        run(spark, file)


def test_objects_that_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    source = parquet(spark, write(tmp_path / "rows", passages(21, 50)))
    expected: list[tuple[dict[str, Any], str]] = [
        ({"repeats": ("sum", 2)}, "repeated values are added up, so every row matters"),
        ({"id": "ratio"}, "ratio is an id of type float"),
        ({"stream": "day"}, "day is of type date and names streams"),
        ({}, "only the largest values of objects in a pane and stream are handed to Spark"),
    ]
    for query, words in expected:
        frame, options = derived(source.frame, incomplete(**query))
        assert words in reading(frame, INCOMPLETE.resolve(frame, options), source).words


def test_functions_take_files_in_place_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    source = parquet(spark, write(tmp_path / "rows", passages(22, 50)))
    place = {"time": "ts", "window": "20 seconds"}
    objects = {"id": "id", "stream": "sector", "streams": ["b", "a", "ä"], "value": "small"}
    for leaders in (
        top_k_incomplete(source, k=2, **objects, **place),
        top_k_dominating(source, k=2, dimensions=[("price", "max")], **place),
    ):
        assert "modificationTime" in leaders._jdf.queryExecution().analyzed().toString()
