"""Options become a plan, and mistakes are named before anything runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import last
from skyband.errors import DataError, QueryError, SkybandError
from skyband.spark import drain, top_k
from skyband.topk import ALGORITHMS
from tests.spark import samples

pytestmark = pytest.mark.spark

COLUMNS = (
    "ts timestamp, day date, clock timestamp_ntz, seq bigint, sector string, price double, "
    "volume int, amount decimal(10,2), list array<int>, loose variant, tags map<string,string>, "
    "note string, score double, rank int"
)
OPTIONS: dict[str, Any] = {
    "k": 3,
    "by": "price",
    "time": "ts",
    "window": "1 minute",
    "slide": "10 seconds",
    "keep": ["note"],
}
COUNTED = {"window": 100, "slide": 10}

MISTAKES: dict[str, tuple[dict[str, Any], type[SkybandError], str, str, str]] = {
    # what differs from OPTIONS, the error, and parts of its found, expected and fix
    "k is zero": ({"k": 0}, QueryError, "k is 0", "at least 1", "at least one"),
    "k is a fraction": ({"k": 2.5}, QueryError, "k is 2.5", "whole number", ""),
    "k is a truth": ({"k": True}, QueryError, "k is True", "whole number", ""),
    "too many windows": (
        {"window": "1 hour", "slide": "1 microsecond"},
        QueryError,
        "every 1 microsecond: each row is in 3,600,000,000 windows",
        "100,000,000 at most",
        "a larger slide",
    ),
    "k is huge": ({"k": 100_001}, QueryError, "100,001", "at most 100,000", "fewer"),
    "no such score": ({"by": "prise"}, QueryError, "'prise'", "expression over ts", ""),
    "score is not SQL": ({"by": "price *"}, QueryError, "'price *'", "expression over", ""),
    "score is empty": ({"by": " "}, QueryError, "by is empty", "SQL text", "price * volume"),
    "score is no text": ({"by": 5}, QueryError, "by is 5", "Column or SQL text", "by="),
    "score is words": ({"by": "note"}, DataError, "of type string", "a number", "try_cast(note"),
    "score is a time": ({"by": "ts"}, DataError, "of type timestamp", "a number", ""),
    "score is a truth": ({"by": "price > 1"}, DataError, "of type boolean", "a number", ""),
    "score of no such column": (
        {"by": lambda: F.col("prise")},
        QueryError,
        "prise",
        "expression over ts",
        "",
    ),
    "score of all rows": ({"by": "sum(price)"}, QueryError, "sum(price)", "score for each row", ""),
    "score that makes rows": (
        {"by": "explode(array(1, 2))"},
        QueryError,
        "explode",
        "expression over",
        "",
    ),
    "no time": ({"time": None}, QueryError, "time was not given", "when a row", "time='ts'"),
    "no such time": ({"time": "tss"}, DataError, "no column 'tss'", "one of ts", "mean 'ts'"),
    "time is words": ({"time": "note"}, DataError, "of type string", "a timestamp", "try_cast"),
    "time is a number": ({"time": "seq"}, DataError, "of type bigint", "a date", "last(time=100"),
    "ticks of a timestamp": (
        {"window": last(time=60), "slide": None},
        DataError,
        "of type timestamp with a window of ticks",
        "whole numbers",
        "write window='1 hour'",
    ),
    "delay of ticks is a duration": (
        {"window": last(time=60), "slide": None, "time": "seq", "delay": "1 second"},
        QueryError,
        "delay is '1 second'",
        "a whole number",
        "delay=1000",
    ),
    "slide beside a window that has its own": (
        {"window": last(time="1 hour")},
        QueryError,
        "slide is '10 seconds' beside",
        "inside of it",
        "last(..., slide='10 seconds')",
    ),
    "time is a Column": (
        {"time": lambda: F.col("ts")},
        QueryError,
        "time is Column",
        "column names",
        "",
    ),
    "window is a fraction": ({"window": 0.5}, QueryError, "window is 0.5", "a duration", "1 hour"),
    "window is no duration": ({"window": "1 month"}, QueryError, "'1 month'", "a duration", ""),
    "window is empty": ({"window": "0 seconds"}, QueryError, "window is 0", "at least 1", ""),
    "slide beyond the window": (
        {"slide": "2 minutes"},
        QueryError,
        "slide is 2 minutes",
        "at most the window",
        "slide of 1 minute",
    ),
    "slide counts rows": ({"slide": 5}, QueryError, "slide is 5", "both durations", "same way"),
    "slide beyond the count": (
        COUNTED | {"slide": 101},
        QueryError,
        "slide is 101",
        "at most the window",
        "slide of 100",
    ),
    "slide lasts in a count": (
        COUNTED | {"slide": "1 minute"},
        QueryError,
        "'1 minute'",
        "a number of objects",
        "slide=100",
    ),
    "offset of a count": (
        COUNTED | {"offset": "1 second"},
        QueryError,
        "offset is '1 second'",
        "no offset",
        "leave offset out",
    ),
    "full with time": ({"full": True}, QueryError, "full=True", "count window", "leave full out"),
    "sequence with time windows": (
        {"sequence": "seq", "time": None},
        QueryError,
        "a window of time",
        "counts rows",
        "time= instead",
    ),
    "sequence and time": (
        COUNTED | {"sequence": "seq"},
        QueryError,
        "time='ts' and sequence='seq'",
        "one of them",
        "leave time out",
    ),
    "sequence of fractions": (
        COUNTED | {"sequence": "price", "time": None},
        DataError,
        "of type double",
        "whole numbers",
        "",
    ),
    "delay is a number": ({"delay": 10}, QueryError, "delay is 10", "a duration", "10 seconds"),
    "delay is negative": ({"delay": "-1 s"}, QueryError, "'-1 s'", "zero or more", "10 seconds"),
    "delay is no duration": ({"delay": "soon"}, QueryError, "'soon'", "a duration", "a unit"),
    "delay lasts in a sequence": (
        COUNTED | {"sequence": "seq", "time": None, "delay": "1 second"},
        QueryError,
        "'1 second' with a sequence",
        "by how much rows",
        "delay=1000",
    ),
    "skew is a number": ({"skew": 5}, QueryError, "skew is 5", "a duration", "1 hour"),
    "skew is negative": ({"skew": "-1 h"}, QueryError, "'-1 h'", "zero or more", "1 hour"),
    "no such key": ({"partition_by": "sectro"}, DataError, "'sectro'", "one of", "'sector'"),
    "key is a Column": (
        {"partition_by": lambda: F.col("sector")},
        QueryError,
        "Column",
        "names",
        "",
    ),
    "key is a map": ({"partition_by": "tags"}, DataError, "map<string,string>", "plain", "to_json"),
    "key is a list": ({"partition_by": "list"}, DataError, "array<int>", "plain", "to_json"),
    "kept is a map": ({"keep": "tags"}, DataError, "map<string,string>", "plain types", "to_json"),
    "kept is a variant": ({"keep": "loose"}, DataError, "variant", "plain types", "to_json"),
    "key is called rank": ({"partition_by": "rank"}, QueryError, "'rank'", "another name", ""),
    "no such id": ({"id": "seqq"}, DataError, "'seqq'", "one of", "'seq'"),
    "id is a map": ({"id": "tags"}, DataError, "'tags' cannot be sorted", "numbers or texts", ""),
    "no such kept": ({"keep": ["note", "zzz"]}, DataError, "'zzz'", "one of ts", ""),
    "kept is called score": ({"keep": "score"}, QueryError, "'score'", "another name", "rename"),
    "all are kept": ({"keep": None}, QueryError, "'score'", "another name", "keep=["),
    "emit is unknown": ({"emit": "some"}, QueryError, "'some'", "'changes'", "leave emit out"),
    "no such repeats": ({"deduplicate_by": "sq"}, DataError, "'sq'", "one of", "'seq'"),
    "algorithm is unknown": (
        COUNTED | {"algorithm": "magic"},
        QueryError,
        "'magic'",
        "mintopk",
        "'auto'",
    ),
    "algorithm of panes": (
        {"algorithm": "mintopk"},
        QueryError,
        "'mintopk'",
        "only count windows by arrival",
        "leave algorithm out",
    ),
    "algorithm of a sequence": (
        COUNTED | {"sequence": "seq", "time": None, "algorithm": "sap"},
        QueryError,
        "'sap'",
        "only count windows by arrival",
        "leave algorithm out",
    ),
    "a sequence by key is drained": (
        COUNTED | {"sequence": "seq", "time": None, "partition_by": "sector", "drain": "marks"},
        QueryError,
        "a sequence by key",
        "no drain",
        "as a batch",
    ),
    "drain is no directory": ({"drain": 5}, QueryError, "drain is 5", "a directory", "drain="),
}


def evaluated(value: Any) -> Any:
    """A value, or the Column that can be made only once Spark runs."""
    return value() if callable(value) else value


@pytest.fixture(scope="module")
def trades(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], COLUMNS)


@pytest.fixture
def idle(spark: SparkSession) -> Iterator[None]:
    """Nothing may run while a query is planned."""
    context = spark.sparkContext
    context.setJobGroup("planning", "nothing may run")
    yield
    assert not context.statusTracker().getJobIdsForGroup("planning")
    context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_before_anything_runs(trades: DataFrame, mistake: str) -> None:
    differs, kind, found, expected, fix = MISTAKES[mistake]
    with pytest.raises(SkybandError) as raised:
        top_k(trades, **(OPTIONS | {name: evaluated(value) for name, value in differs.items()}))
    error = raised.value
    assert type(error) is kind
    assert found in error.found
    assert expected in error.expected
    assert fix in error.fix


@pytest.mark.parametrize("first", ["claim", "session", "options"])
def test_names_are_functions_whatever_was_imported_first(first: str) -> None:
    program = (
        f"import skyband.spark\nfrom skyband.spark import {first}\n"
        "from skyband.spark import *\nimport skyband.spark.families.top_k\n"
        "assert all(map(callable, [claim, drain, quarantined, session, top_k]))\n"
        "assert all(callable(getattr(skyband.spark, name)) for name in skyband.spark.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("df", [None, [1], "trades"])
def test_only_a_dataframe_is_accepted(df: Any) -> None:
    with pytest.raises(QueryError, match="expected a Spark DataFrame") as raised:
        top_k(df, **OPTIONS)
    assert "createDataFrame" in raised.value.fix


def test_options_are_checked_before_the_dataframe_is_looked_at() -> None:
    with pytest.raises(QueryError, match="slide is 2 minutes"):
        top_k(None, **(OPTIONS | {"slide": "2 minutes"}))
    with pytest.raises(QueryError, match="algorithm is 'magic'"):
        top_k(None, **(OPTIONS | COUNTED | {"algorithm": "magic"}))


@pytest.mark.usefixtures("idle")
def test_columns_that_spark_confuses_are_refused(spark: SparkSession) -> None:
    twice = spark.range(0).selectExpr("timestamp_millis(id) AS ts", "id", "1 AS note", "2 AS Note")
    with pytest.raises(DataError, match=r"2 columns 'note'.*different names"):
        top_k(twice, **(OPTIONS | {"by": "id"}))
    assert top_k(twice, **(OPTIONS | {"by": "id", "keep": "id"})).columns[-1] == "id"


def test_many_rows_per_window_are_a_warning(trades: DataFrame) -> None:
    with pytest.warns(UserWarning, match="k is 10,001: each micro-batch") as caught:
        top_k(trades, **(OPTIONS | {"k": 10_001}))
    with pytest.warns(UserWarning, match="k is 100,000") as curried:
        trades.transform(top_k, **(OPTIONS | {"k": 100_000}))
    assert {warning.filename for warning in [*caught, *curried]} == {__file__}
    assert top_k(trades, **(OPTIONS | {"k": 10_000})).columns


@pytest.mark.parametrize("name", ["auto", *ALGORITHMS])
def test_windows_by_arrival_know_every_algorithm(trades: DataFrame, name: str) -> None:
    leaders = top_k(trades, **(OPTIONS | COUNTED | {"algorithm": name}))
    assert leaders.schema["rank"].metadata["skyband"]["algorithm"] == name


SCORES = {
    "a column": "volume",
    "text with spaces": " price * volume ",
    "other case": "PRICE",
    "a literal": "1",
    "a cast": "try_cast(note AS DOUBLE)",
    "a decimal": "amount + 1",
    "Column": lambda: F.col("price") * F.col("volume"),
    "alias": lambda: (F.col("price") * 2).alias("twice"),
    "alias of a result column": lambda: F.col("price").alias("rank"),
    "a column called score": "score",
    "Column called score": lambda: F.col("score"),
}


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("which", SCORES)
def test_scores_are_columns_or_sql(trades: DataFrame, which: str) -> None:
    leaders = top_k(trades, **(OPTIONS | {"by": evaluated(SCORES[which])}))
    assert leaders.columns == ["window", "rank", "score", "note"]
    assert leaders.schema["score"].dataType.simpleString() == "double"


@pytest.mark.usefixtures("idle")
def test_the_score_column_itself_is_not_kept_twice(trades: DataFrame) -> None:
    rows = trades.drop("rank", "loose", "tags")
    options = {key: value for key, value in OPTIONS.items() if key != "keep"}
    assert top_k(rows, **(options | {"by": "score"})).columns == [
        *("window", "rank", "score", "ts", "day", "clock", "seq"),
        *("sector", "price", "volume", "amount", "list", "note"),
    ]
    with pytest.raises(QueryError, match="'score' has the name of a result column"):
        top_k(rows, **(options | {"by": F.col("score")}))


def test_names_are_found_whatever_their_case(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(5) AS Ts, 1 AS Price, 'x' AS Sector, 7 AS Id")
    leaders = top_k(
        rows,
        k=1,
        by="pRICE",
        time="TS",
        window="10 seconds",
        partition_by=["sECTOR"],
        id="ID",
        keep=("ID", "id"),
        deduplicate_by="iD",
    )
    assert leaders.columns == ["window", "Sector", "rank", "score", "Id"]
    (row,) = leaders.collect()
    assert tuple(row)[1:] == ("x", 1, 1.0, 7)


def test_any_column_name_will_do(spark: SparkSession) -> None:
    odd = ["a.b", "tick`ed", "with space", "größe", "_sky_at", "key_0", "kept_0", "place", "row"]
    values = [F.lit(i).alias(name) for i, name in enumerate(odd)]
    rows = spark.range(1).select(F.timestamp_seconds(F.lit(5)).alias("event.time"), *values)
    leaders = rows.transform(
        top_k,
        k=1,
        by="`a.b` + `tick``ed`",
        time="event.time",
        window="10 seconds",
        partition_by=["a.b", "with space"],
        id=["tick`ed", "_sky_at"],
        deduplicate_by=["größe", "key_0"],
    )
    rest = [name for name in odd if name not in ("a.b", "with space")]
    assert leaders.columns == [
        *("window", "a.b", "with space", "rank", "score", "event.time"),
        *rest,
    ]
    (row,) = leaders.drop("window", "event.time").collect()
    assert tuple(row) == (0, 2, 1, 1.0, *(odd.index(name) for name in rest))


ROWS = """
SELECT timestamp_seconds(n) AS ts, CAST(n AS BIGINT) AS n, n % 2 = 0 AS even, v.* FROM VALUES
  (1, named_struct(
    'byte', -7Y, 'short', 300S, 'int', 5, 'long', 9223372036854775807L, 'float', FLOAT(1.1),
    'double', DOUBLE('NaN'), 'decimal', 12345678901234567.891BD, 'text', 'größer',
    'bytes', X'00FF', 'truth', true, 'day', DATE'2024-02-29', 'at', TIMESTAMP'2024-02-29 12:00:01',
    'local', TIMESTAMP_NTZ'2024-02-29 12:00:01.000001', 'list', array(1, NULL, 3),
    'deep', array(array('a', NULL), NULL), 'part', named_struct('a', 1, 'b', array(1.5D)),
    'pair', named_struct('a', 1, 'b', 'x'))),
  (2, named_struct(
    'byte', 0Y, 'short', 0S, 'int', 0, 'long', 0L, 'float', FLOAT('-inf'), 'double', 0.25D,
    'decimal', -0.001BD, 'text', '', 'bytes', X'', 'truth', false, 'day', DATE'0001-01-01',
    'at', TIMESTAMP'0001-01-01 00:00:00.000001', 'local', TIMESTAMP_NTZ'1883-11-18 12:03:58',
    'list', array(), 'deep', array(), 'part', named_struct('a', NULL, 'b', NULL),
    'pair', named_struct('a', NULL, 'b', NULL))),
  (3, named_struct(
    'byte', 1Y, 'short', 1S, 'int', 1, 'long', -9223372036854775808L, 'float', FLOAT('NaN'),
    'double', DOUBLE('inf'), 'decimal', 99999999999999999.999BD, 'text', 'a\\u0000\\n"',
    'bytes', X'80', 'truth', false, 'day', DATE'+10000-01-01',
    'at', TIMESTAMP'+12000-01-01 00:00:00', 'local', TIMESTAMP_NTZ'+12000-01-01 00:00:00.1',
    'list', array(NULL), 'deep', array(array()), 'part', named_struct('a', 0, 'b', array()),
    'pair', NULL)),
  (4, NULL)
AS (n, v)
"""
KEPT = ["byte", "short", "int", "long", "float", "double", "decimal", "text", "bytes", "truth"]
KEPT += ["day", "at", "local", "list", "deep", "part", "pair"]
KEYS = [name for name in KEPT if name not in ("list", "deep", "part")]


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A row of each kind of value, and one of none, in a directory."""
    path = str(tmp_path_factory.mktemp("typed") / "rows")
    spark.sql(ROWS).coalesce(1).write.parquet(path)
    return path


def texts(rows: DataFrame, *columns: str) -> list[str]:
    """Rows as texts, since Python knows fewer years than Spark."""
    micros = "yyyy-MM-dd HH:mm:ss.SSSSSS"
    text = F.to_json(F.struct(*columns), {"timestampFormat": micros, "timestampNTZFormat": micros})
    return sorted(row[0] for row in rows.select(text).collect())


@pytest.mark.parametrize("arrival", [False, True])
def test_kept_values_and_keys_of_every_type_come_back_as_they_were(
    spark: SparkSession, tmp_path: Path, typed: str, arrival: bool
) -> None:
    source = spark.read.parquet(typed)
    keys = ["even"] if arrival else KEYS
    options: dict[str, Any] = {
        "k": 2,
        "by": "n",
        "time": "ts",
        "window": 2 if arrival else "1 minute",
        "partition_by": keys,
        "keep": ["n", *KEPT] if arrival else ["n", "list", "deep", "part"],
        "delay": "1 minute",
        "drain": str(tmp_path / "marks"),
    }
    batch = top_k(source, **options)
    assert not (tmp_path / "marks").exists()  # a batch has nothing to drain
    reader = spark.readStream.schema(source.schema)
    drain(spark, options["drain"])
    stream = top_k(reader.parquet(typed), **options)
    assert stream.schema == batch.schema
    samples.run(stream, tmp_path)
    stored = spark.read.schema(batch.schema).parquet(str(tmp_path / "out"))
    expected = texts(source, "n", *KEPT)
    assert texts(batch, "n", *KEPT) == expected
    assert texts(stored, "n", *KEPT) == expected


@pytest.mark.parametrize("key", ["d", "part"])
@pytest.mark.parametrize("windows", [{"window": "1 minute"}, {"window": 3, "slide": 2}])
def test_keys_are_equal_as_in_sql(spark: SparkSession, windows: dict[str, Any], key: str) -> None:
    rows = spark.sql(
        "SELECT timestamp_seconds(n) AS ts, n, d, named_struct('d', abs(d)) AS part FROM VALUES "
        "(1, 0D), (2, -0D), (3, DOUBLE('NaN')), (4, DOUBLE('NaN')), (5, NULL), (6, NULL) AS (n, d)"
    )
    leaders = top_k(rows, k=3, by="n", time="ts", partition_by=key, keep="n", **windows).collect()
    assert sorted((row["rank"], row.n) for row in leaders) == [
        *((1, 2), (1, 4), (1, 6)),
        *((2, 1), (2, 3), (2, 5)),
    ]
    assert len({str(row[key]) for row in leaders}) == 3


RESULTS = {
    "time": (
        {},
        "struct<window:struct<start:timestamp,end:timestamp>,sector:string,day:date,rank:int,"
        "score:double,note:string,ts:timestamp>",
    ),
    "local time": (
        {"time": "clock"},
        "struct<window:struct<start:timestamp_ntz,end:timestamp_ntz>,sector:string,day:date,"
        "rank:int,score:double,note:string,ts:timestamp>",
    ),
    "changes": (
        {"emit": "changes"},
        "struct<window:struct<start:timestamp,end:timestamp>,sector:string,day:date,rank:int,"
        "score:double,change:string,previous_rank:int,note:string,ts:timestamp>",
    ),
    "arrival": (
        COUNTED,
        "struct<window:struct<start:bigint,end:bigint>,sector:string,day:date,rank:int,"
        "score:double,note:string,ts:timestamp>",
    ),
    "sequence": (
        COUNTED | {"sequence": "seq", "time": None, "full": True},
        "struct<window:struct<start:bigint,end:bigint>,sector:string,day:date,rank:int,"
        "score:double,note:string,ts:timestamp>",
    ),
}


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("which", RESULTS)
def test_results_look_as_documented(
    spark: SparkSession, trades: DataFrame, tmp_path: Path, which: str
) -> None:
    differs, schema = RESULTS[which]
    options = OPTIONS | {"partition_by": ["sector", "day"], "keep": ["note", "ts"]} | differs
    batch = top_k(trades, **options)
    stream = top_k(spark.readStream.schema(trades.schema).parquet(str(tmp_path)), **options)
    assert batch.schema.simpleString() == schema
    assert stream.schema == batch.schema
    assert stream.isStreaming
    assert trades.transform(top_k, **options).schema == batch.schema


def test_a_time_without_zone_is_read_in_utc(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP_NTZ'2024-01-01 10:00:05' AS clock, 1 AS n")
    options: dict[str, Any] = {"k": 1, "by": "n", "time": "clock", "window": timedelta(seconds=10)}
    (row,) = top_k(rows, **options).collect()
    assert [str(at) for at in row.window] == ["2024-01-01 10:00:00", "2024-01-01 10:00:10"]
    assert row.clock == row.window.start + timedelta(seconds=5)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pytest.raises(DataError, match="the session's is Europe/Berlin"):
            top_k(rows, **options)
        moments = rows.select("n", F.current_timestamp().alias("ts"), "clock")
        with pytest.raises(DataError, match="column 'clock' has no time zone"):
            top_k(moments, **(options | {"time": "ts"}))
        assert top_k(moments, **(options | {"time": "ts", "keep": "n"})).columns[-1] == "n"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
