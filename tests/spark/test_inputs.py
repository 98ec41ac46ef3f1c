"""Which rows a query sees, and by which columns: conditions, expressions, dates as times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import TopK, Workload, last
from skyband.errors import DataError, QueryError
from skyband.spark import (
    claim,
    quarantined,
    top_k,
    top_k_dominating,
    top_k_incomplete,
    top_k_workload,
)
from skyband.spark.jobs.file import load, words
from skyband.spark.jobs.run import Run, explained, job_lines
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

WHERE = "sector = 'b' AND id % 3 > 0"
OPTIONS: dict[str, Any] = {
    "k": 3,
    "by": "price",
    "time": "ts",
    "window": "25 seconds",
    "slide": "10 seconds",
    "id": "id",
    "keep": ["id"],
}
TIMED = {"time": "ts", "window": "25 seconds", "slide": "10 seconds"}
COUNTED = {"window": 20, "slide": 7}
POINTS = {"k": 2, "dimensions": [("price", "max"), ("id", "min")], "id": "id", "keep": ["id"]}
OBJECTS: dict[str, Any] = {
    "k": 3, "id": "id", "stream": "sector", "value": "price", "streams": ["a", "b"],
    "bounds": (0, 9), "outside": "clip", **TIMED,
}  # fmt: skip
QUERIES = Workload({"a": TopK(2, last(time="30 seconds", slide="10 seconds"))}, {"a": "price"})


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    parts = samples.split(samples.rows(11, 150), 3, 11)
    return samples.write(tmp_path_factory.mktemp("inputs"), parts)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, source: str) -> DataFrame:
    return spark.read.schema(samples.DDL).parquet(source).cache()


def collected(leaders: DataFrame) -> list[str]:
    return sorted(map(str, leaders.collect()))


# ---------------------------------------------------------------- conditions


FAMILIES: dict[str, Any] = {
    "panes": lambda df, **more: top_k(df, **OPTIONS, **more),
    "by key": lambda df, **more: top_k(df, **OPTIONS, partition_by="sector", **more),
    "arrivals": lambda df, **more: top_k(df, **OPTIONS | COUNTED, **more),
    "sequence": lambda df, **more: top_k(
        df, **OPTIONS | COUNTED | {"time": None}, sequence="seq", **more
    ),
    "totals": lambda df, **more: top_k(df, k=2, by="count(*)", key="id", **TIMED, **more),
    "workload": lambda df, **more: top_k_workload(
        df, QUERIES, time="ts", id="id", keep="id", **more
    ),
    "dominating": lambda df, **more: top_k_dominating(df, **POINTS, **TIMED, **more),
    "incomplete": lambda df, **more: top_k_incomplete(df, **OBJECTS, **more),
}


@pytest.mark.parametrize("ask", FAMILIES.values(), ids=FAMILIES)
def test_other_rows_are_not_there(rows: DataFrame, ask: Any) -> None:
    """Nor are those for which the condition is NULL."""
    expected = collected(ask(rows.filter(WHERE)))
    assert expected
    assert collected(ask(rows, where=WHERE)) == expected
    assert collected(ask(rows, where=F.expr(WHERE))) == expected


def test_a_stream_of_some_rows_is_a_batch_of_them(
    spark: SparkSession, source: str, rows: DataFrame, tmp_path: Path
) -> None:
    answers = samples.run_and_drain(spark, tmp_path, source, **OPTIONS, where=WHERE)
    batch = top_k(rows.filter(WHERE), **OPTIONS).collect()
    assert samples.result_rows(answers) == samples.result_rows(batch)
    some = [
        row
        for row in samples.rows(11, 150)
        if row["sector"] == "b" and row["id"] % 3 and row["price"] == row["price"]
    ]
    assert samples.result_rows(batch) == samples.expected(some, 3, 25 * SECOND, 10 * SECOND)


def test_a_condition_holds_for_each_of_several_streams(rows: DataFrame) -> None:
    frames = {name: rows.filter(F.col("sector") == name) for name in ("a", "b")}
    options = {name: value for name, value in OBJECTS.items() if name not in ("stream", "streams")}
    where = "seq % 2 = 0"
    expected = collected(
        top_k_incomplete(rows.filter("sector IS NOT NULL").filter(where), **OBJECTS)
    )
    assert collected(top_k_incomplete(frames, **options, where=where)) == expected
    keyed = top_k_incomplete(frames, **options, where=where, partition_by="seq % 4 AS quarter")
    assert {row.quarter for row in keyed.collect()} == {0, 2}
    with pytest.raises(QueryError, match="stream 'a': where 'sec = 1'"):
        top_k_incomplete(frames, **options, where="sec = 1")


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("sectr = 'b'", QueryError, ["where \"sectr = 'b'\"", "over ts, seq, id, sector, price"]),
        ("id", DataError, ["of type bigint", "true or false", "where='id > 0'"]),
        ("sector", DataError, ["of type string", "sector = 'tech'"]),
        ("ts", DataError, ["of type timestamp", "where=\"sector = 'tech'\""]),
        (" ", QueryError, ["where is ' '", "SQL text"]),
        (5, QueryError, ["where is 5", "Column or SQL text"]),
        ("id >", QueryError, ["where 'id >'"]),
        ("sum(id) > 1", QueryError, ["cannot be evaluated"]),
        ("explode(array(true))", QueryError, ["cannot be evaluated"]),
    ],
)
def test_wrong_conditions(rows: DataFrame, where: Any, error: Any, words: list[str]) -> None:
    with pytest.raises(error) as caught:
        top_k(rows, **OPTIONS, where=where)
    for word in words:
        assert word in str(caught.value)


def test_a_condition_that_could_stop_a_stream_is_warned_of(rows: DataFrame) -> None:
    with pytest.warns(UserWarning, match="write try_divide"):
        top_k(rows, **OPTIONS, where="price / id > 1")


def test_a_checkpoint_remembers_conditions_and_expressions(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    stream = samples.stream(spark, source)
    plain = top_k(stream, **OPTIONS)
    described = plain.schema["rank"].metadata["skyband"]
    assert not {"where", "expressions"} & set(described)
    options = {**OPTIONS, "where": WHERE, "partition_by": "upper(sector) AS industry"}
    checkpoint = str(tmp_path / "checkpoint")
    claim(top_k(stream, **options), checkpoint)
    claim(top_k(stream, **options), checkpoint)
    for other, message in (
        ({"where": "id > 1"}, "and is now 'id > 1'"),
        ({"where": None}, "is now not there"),
        ({"partition_by": "lower(sector) AS industry"}, "lower\\(sector\\) AS industry"),
    ):
        with pytest.raises(QueryError, match=message):
            claim(top_k(stream, **{**options, **other}), checkpoint)


# ---------------------------------------------------------------- expressions for columns


@pytest.fixture(scope="module")
def derived(rows: DataFrame) -> DataFrame:
    return rows.withColumn("upper(sector)", F.expr("upper(sector)"))


def test_keys_that_are_expressions(rows: DataFrame, derived: DataFrame) -> None:
    options = {**OPTIONS, "partition_by": "upper(sector)"}
    leaders = top_k(rows, **options)
    assert collected(leaders) == collected(top_k(derived, **options))
    assert leaders.columns == ["window", "upper(sector)", "rank", "score", "id"]
    named = top_k(rows, **{**options, "partition_by": ["upper(sector) AS industry", "id % 2"]})
    assert named.columns[1:3] == ["industry", "id % 2"]
    whole = top_k(rows, **{**options, "keep": None})
    assert whole.columns[4:] == rows.columns


def test_keys_that_are_expressions_on_a_stream(
    spark: SparkSession, source: str, rows: DataFrame, tmp_path: Path
) -> None:
    options = {**OPTIONS, "partition_by": "coalesce(sector, 'none') AS industry"}
    answers = samples.run_and_drain(spark, tmp_path, source, **options)
    batch = top_k(rows, **options).collect()
    assert samples.result_rows(answers, "industry") == samples.result_rows(batch, "industry")
    assert {row.industry for row in batch} == {"a", "b", "none"}


def test_totals_of_expressions(rows: DataFrame) -> None:
    options: dict[str, Any] = {"k": 2, "by": "count(*)", **TIMED}
    key = "sector || ':' || id % 2"
    leaders = top_k(rows, **options, key=key)
    assert leaders.columns == ["window", "rank", "score", key]
    assert collected(leaders) == collected(
        top_k(rows.withColumn(key, F.expr(key)), **options, key=key)
    )
    with pytest.raises(QueryError, match="partly in partition_by"):
        top_k(rows, **options, key=key, partition_by=key)


def test_ids_that_are_expressions(rows: DataFrame) -> None:
    backwards = {**OPTIONS, "by": "1", "id": "-id"}
    best = top_k(rows, **backwards)
    assert best.columns == ["window", "rank", "score", "id"]
    negative = top_k(rows.withColumn("n", -F.col("id")), **{**backwards, "id": "n"})
    assert collected(best) == collected(negative)
    objects = top_k_incomplete(
        rows.filter("sector IS NOT NULL"), **{**OBJECTS, "id": "id % 5 AS car"}
    )
    assert objects.columns == ["window", "rank", "score", "car"]


def test_the_name_of_a_column_wins(rows: DataFrame) -> None:
    odd = rows.withColumn("upper(sector)", F.lit("it"))
    leaders = top_k(odd, **OPTIONS, partition_by="UPPER(sector)")
    assert {row["upper(sector)"] for row in leaders.collect()} == {"it"}
    leaders = top_k(odd, **OPTIONS, partition_by="upper(sector) AS industry")
    assert {row.industry for row in leaders.collect()} == {"it"}


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("sectr", DataError, ["partition_by: there is no column 'sectr'", "mean 'sector'"]),
        ("sectr AS s", DataError, ["no column 'sectr'", "mean 'sector'"]),
        ("the sector", DataError, ["no column 'the sector'"]),
        ("upper(sectr)", QueryError, ["partition_by 'upper(sectr)'", "over ts, seq, id"]),
        ("upper(sector) AS id", QueryError, ["has the name of a column", "AS id_key"]),
        ("max(id)", QueryError, ["cannot be evaluated"]),
        ("explode(array(1, 2))", QueryError, ["cannot be evaluated"]),
        ("id +", QueryError, ["cannot be evaluated"]),
        ("map(1, 2)", DataError, ["of type map<int,int>"]),
        ("upper(sector) AS rank", QueryError, ["name of a result column"]),
    ],
)
def test_wrong_keys(rows: DataFrame, name: str, error: Any, words: list[str]) -> None:
    with pytest.raises(error) as caught:
        top_k(rows, **OPTIONS, partition_by=name)
    for word in words:
        assert word in str(caught.value)


# ---------------------------------------------------------------- job files


def job(folder: Path, source: str, **query: Any) -> Path:
    content = {
        "source": {"format": "parquet", "path": source, "schema": samples.DDL},
        "query": {**OPTIONS, **query},
        "sink": {"format": "parquet", "path": "out"},
        "trigger": "batch",
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_a_job_over_some_rows_by_an_expression(
    spark: SparkSession, source: str, rows: DataFrame, tmp_path: Path
) -> None:
    asked = {"where": "sector <> 'a' AND id > 9", "partition_by": "upper(sector) AS industry"}
    loaded = load(job(tmp_path, source, **asked))
    assert words(loaded).endswith("for each upper(sector) AS industry, where " + asked["where"])
    with Run(spark, loaded) as run:
        run.prepare()
        assert collected(run.leaders) == collected(top_k(rows, **OPTIONS, **asked))
    lines = dict(job_lines(loaded, explained(spark, loaded).plan))
    assert lines["rows"] == f"only those for which {asked['where']}"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"where": "rand() > 0.5"}, "where uses 'rand'"),
        ({"where": ""}, "where is empty"),
        ({"where": 5}, "query.where is 5; expected a condition"),
    ],
)
def test_jobs_with_wrong_conditions(
    source: str, tmp_path: Path, query: dict[str, Any], message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        load(job(tmp_path, source, **query))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"where": "sectr = 'b'"}, "where uses 'sectr'"),
        ({"partition_by": "reflect('java.lang.Math', 'random')"}, "partition_by uses 'reflect'"),
        ({"partition_by": "uuid() AS it"}, "partition_by uses 'uuid'"),
        ({"id": ["input_file_name()"]}, "id uses 'input_file_name'"),
        ({"partition_by": "sectr"}, "there is no column 'sectr'"),
    ],
)
def test_jobs_are_checked_with_their_columns(
    spark: SparkSession, source: str, tmp_path: Path, query: dict[str, Any], message: str
) -> None:
    with (
        Run(spark, load(job(tmp_path, source, **query))) as run,
        pytest.raises((QueryError, DataError)) as caught,
    ):
        run.prepare()
    assert message in str(caught.value)


# ---------------------------------------------------------------- dates as times


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


DAYS = "SELECT date_add(DATE '2024-02-25', int(id % 9)) AS day, id, double(id * 7 % 11) AS price"


def test_a_date_is_its_midnight_in_utc(spark: SparkSession, zone: str) -> None:
    days = spark.sql(f"{DAYS} FROM range(40) UNION ALL SELECT NULL, 99, 99.0")
    moments = days.withColumn(
        "day", F.timestamp_micros(F.unix_date("day").cast("bigint") * 86_400_000_000)
    )
    for options in ({"window": "3 days", "slide": "1 day"}, {"window": 12, "slide": 5}):
        asked: dict[str, Any] = {**OPTIONS, "time": "day", **options}
        assert collected(top_k(days, **asked)) == collected(top_k(moments, **asked))
    bad = quarantined(days, time="day").collect()
    assert [(row.id, row.quarantine) for row in bad] == [(99, "no time")]


def test_a_stream_by_date(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "days")
    days = spark.sql(f"{DAYS} FROM range(40)")
    days.coalesce(1).write.parquet(folder)
    asked: dict[str, Any] = {**OPTIONS, "time": "day", "window": "3 days", "slide": "1 day"}
    stream = spark.readStream.schema(days.schema).parquet(folder)
    samples.run(top_k(stream, **asked), tmp_path)
    answers = samples.result_rows(spark.read.parquet(str(tmp_path / "out")).collect())
    whole = samples.result_rows(top_k(days, **asked).collect())
    assert answers
    assert answers == [row for row in whole if row[0] <= max(row[0] for row in answers)]


def test_dates_beyond_all_times_have_none(spark: SparkSession) -> None:
    far = spark.sql("SELECT date_from_unix_date(2000000000) AS day, 1L AS id, 1.0D AS price")
    assert top_k(far, **{**OPTIONS, "time": "day", "skew": None}).count() == 0


# ---------------------------------------------------------------- whole numbers as times


TICKS: dict[str, Any] = {"time": "seq", "window": last(time=25, slide=10, offset=3)}
SECONDS: dict[str, Any] = {
    "time": "at", "window": "25 seconds", "slide": "10 seconds", "offset": "3 seconds",
}  # fmt: skip


def by_end(leaders: DataFrame) -> list[tuple[Any, ...]]:
    """Rows with window bounds as whole numbers."""
    answers = []
    for row in leaders.collect():
        cells = row.asDict()
        ends = [samples.position(at) for at in cells.pop("window")]
        answers.append((*ends, *map(str, cells.values())))
    return sorted(answers)


@pytest.mark.parametrize(
    "ask",
    [
        lambda df, **windows: top_k(df, k=3, by="price", id="id", keep="id", **windows),
        lambda df, **windows: top_k(df, k=3, by="sum(id)", key="sector", **windows),
        lambda df, **windows: top_k_dominating(df, **POINTS, **windows),
        lambda df, **windows: top_k_dominating(df, **POINTS, partition_by="sector", **windows),
        lambda df, **windows: top_k_incomplete(
            df.filter("sector IS NOT NULL"), **{**OBJECTS, "slide": None, **windows}
        ),
    ],
    ids=["panes", "totals", "dominating", "dominating by key", "incomplete"],
)
def test_ticks_are_windows_as_seconds_are(rows: DataFrame, ask: Any) -> None:
    expected = by_end(ask(rows.withColumn("at", F.timestamp_seconds("seq")), **SECONDS))
    expected = [(start // SECOND, end // SECOND, *more) for start, end, *more in expected]
    assert expected
    assert expected[0][0] < 0
    assert by_end(ask(rows, **TICKS)) == expected


def test_a_workload_of_ticks(rows: DataFrame) -> None:
    ticks = Workload({"a": TopK(2, last(time=30, slide=10))}, {"a": "price"})
    answers = top_k_workload(rows, ticks, time="seq", id="id", keep="id")
    one = top_k(
        rows, k=2, by="price", time="seq", window=last(time=30, slide=10), id="id", keep="id"
    )
    assert by_end(answers.drop("query")) == by_end(one)


def test_a_stream_of_ticks(
    spark: SparkSession, source: str, rows: DataFrame, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"k": 3, "by": "price", "id": "id", "keep": "id", "delay": 5, **TICKS}
    answers = samples.run_and_drain(spark, tmp_path, source, **options)
    numbered = [
        {**row, "ts": row["seq"]} for row in samples.rows(11, 150) if row["price"] == row["price"]
    ]
    expected = samples.expected(numbered, 3, 25, 10, 3)
    assert samples.result_rows(answers) == expected
    assert samples.result_rows(top_k(rows, **options).collect()) == expected


def test_windows_as_monitors_are_asked_for_them(rows: DataFrame) -> None:
    options = {name: OPTIONS[name] for name in ("k", "by", "time", "id", "keep")}
    for window, spelled in (
        (
            last(time="25 seconds", slide="10 seconds"),
            {"window": "25 seconds", "slide": "10 seconds"},
        ),
        (last(count=20, slide=7), COUNTED),
    ):
        assert collected(top_k(rows, **options, window=window)) == collected(
            top_k(rows, **options, **spelled)
        )
