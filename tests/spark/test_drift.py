"""What one family of queries does, the others do as well, and each names its own options."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import TopK, Workload, last
from skyband.errors import DataError, QueryError, SkybandError
from skyband.spark import claim, top_k, top_k_dominating, top_k_incomplete, top_k_workload
from tests.command_line import Runner
from tests.spark import samples

pytestmark = pytest.mark.spark

COLUMNS = f"{samples.DDL}, list array<int>, tags map<string,string>, loose variant"
TIMES = {"time": "ts", "window": "20 seconds", "slide": "10 seconds"}
STREAMS = {"streams": ["a", "b"], "stream": "sector", "bounds": (-9, 9), "outside": "clip"}
FAMILIES = ("top_k", "workload", "dominating", "incomplete", "totals")
QUERIES: dict[str, dict[str, Any]] = {
    "top_k": {"by": "price", "keep": "id", "k": 2, **TIMES},
    "workload": {
        "workload": [{"name": "a", "k": 2, "window": "20 seconds", "by": "price"}],
        "keep": "id",
        "time": "ts",
    },
    "dominating": {"dominating": {"price": "min", "seq": "max"}, "keep": "id", "k": 2, **TIMES},
    "incomplete": {
        "incomplete": {**STREAMS, "bounds": [-9, 9], "id": "id", "value": "price"},
        "k": 2,
        **TIMES,
    },
    "totals": {"by": "sum(price)", "key": "sector", "k": 2, **TIMES},
}


def scored(by: str) -> dict[str, dict[str, Any]]:
    """The options of each family if rows are ranked by an expression."""
    return {
        "top_k": {"by": by},
        "workload": {"workload": workload(first=by, second="price")},
        "dominating": {"dimensions": [(by, "min"), ("id", "max")]},
        "incomplete": {"value": by},
        "totals": {"by": f"sum({by})"},
    }


def workload(**by: str) -> Workload:
    return Workload(dict.fromkeys(by, TopK(k=2, window=last(time="20 seconds"))), by)


def family_leaders(family: str, df: Any, **more: Any) -> DataFrame:
    """A family's answer to the query that all are tested with, with other options in ``more``."""
    if family == "workload":
        queries = more.pop("workload", workload(a="price"))
        return top_k_workload(df, queries, **{"time": "ts", "keep": "id", **more})
    if family == "dominating":
        dimensions = [("price", "min"), ("seq", "max")]
        options = {"dimensions": dimensions, "keep": "id", "k": 2, **TIMES, **more}
        return top_k_dominating(df, **options)
    if family == "incomplete":
        return top_k_incomplete(
            df, **{"id": "id", "value": "price", "k": 2, **STREAMS, **TIMES, **more}
        )
    return top_k(df, **{**QUERIES[family], **more})


@pytest.fixture
def run(capsys: Any, monkeypatch: Any, spark: SparkSession) -> Runner:
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], COLUMNS)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return samples.stream(spark, samples.write(tmp_path / "rows", [samples.rows(1, 5)]))


@pytest.fixture
def other_store(spark: SparkSession) -> Iterator[None]:
    """A running session whose state store no processor can use."""
    name = "spark.sql.streaming.stateStore.providerClass"
    ours = spark.conf.get(name)
    spark.conf.set(name, "some.MemoryProvider")
    yield
    spark.conf.set(name, ours)


def job(folder: Path, query: dict[str, Any], **more: Any) -> str:
    """A job file over rows that are there, which differs from a usual one in ``more``."""
    if not (folder / "rows").exists():
        samples.write(folder / "rows", [samples.rows(1, 20)])
    content = {
        "source": {"format": "parquet", "path": "rows"},
        "query": query,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        **more,
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(file)


@pytest.mark.usefixtures("other_store")
@pytest.mark.parametrize("family", FAMILIES)
def test_another_state_store_is_refused(stream: DataFrame, family: str) -> None:
    with pytest.raises(QueryError, match=r"some.MemoryProvider.*RocksDB"):
        family_leaders(family, stream)


# totals jobs did not look at the store, and failed once the stream had started
@pytest.mark.usefixtures("other_store")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_job_on_another_state_store_is_refused(tmp_path: Path, run: Runner, family: str) -> None:
    for command in ("explain", "run"):
        ran = run(command, job(tmp_path, QUERIES[family]))
        assert ran.code == 2
        assert "some.MemoryProvider; expected Spark's RocksDB store" in " ".join(ran.err.split())
        assert not (tmp_path / "checkpoint").exists()


# an unknown key was reported as an id, a key that cannot be one as a column to drop with keep=
@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("sectro", DataError, "key: there is no column 'sectro'"),
        (["sector", "sectro"], DataError, "key: there is no column 'sectro'"),
        (["sector", 5], QueryError, "key is 5"),
        ("list", DataError, "key 'list' is of type array<int>"),
        ("tags", DataError, "key 'tags' is of type map<string,string>"),
        ("loose", DataError, "key 'loose' is of type variant"),
    ],
)
def test_a_wrong_key_is_reported_as_key(
    rows: DataFrame, key: Any, kind: type[SkybandError], message: str
) -> None:
    with pytest.raises(kind) as raised:
        family_leaders("totals", rows, key=key)
    assert raised.value.found == message
    assert "id=" not in raised.value.fix
    assert "keep" not in f"{raised.value.expected} {raised.value.fix}"


def test_a_job_reports_a_wrong_key(tmp_path: Path, run: Runner) -> None:
    ran = run("run", job(tmp_path, {**QUERIES["totals"], "key": "sectro"}))
    assert ran.code == 2
    assert "key: there is no column 'sectro'" in ran.err


# errors advised to leave ids out with keep=, which top_k_incomplete does not have
@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("tags", "id 'tags' is of type map<string,string>"),
        ("loose", "id 'loose' is of type variant"),
        (None, "id was not given"),
    ],
)
def test_a_wrong_id_of_objects_is_reported_as_id(rows: DataFrame, id: Any, message: str) -> None:
    with pytest.raises((DataError, QueryError)) as raised:
        family_leaders("incomplete", rows, id=id)
    assert raised.value.found == message
    assert "keep" not in f"{raised.value.expected} {raised.value.fix}"


# a variant as id was reported as a kept column, though it was not kept; a map as an id
@pytest.mark.parametrize("family", ["top_k", "workload", "dominating"])
@pytest.mark.parametrize("id", ["tags", "loose"])
def test_an_id_that_does_not_sort_is_reported_as_id(rows: DataFrame, family: str, id: str) -> None:
    with pytest.raises(DataError) as raised:
        family_leaders(family, rows, id=id)
    assert raised.value.found == f"id {id!r} cannot be sorted"


# columns of keys were checked for whether Spark can compare them, those of deduplicate_by were not
@pytest.mark.parametrize("family", FAMILIES)
def test_columns_that_cannot_be_compared_do_not_deduplicate(rows: DataFrame, family: str) -> None:
    with pytest.raises(DataError, match=r"deduplicate_by 'tags' .*map<string,string>"):
        family_leaders(family, rows, deduplicate_by="tags")


# attributes were reported as by=, which top_k_dominating does not have
@pytest.mark.parametrize(
    ("name", "kind"), [("prise", QueryError), ("sector", DataError), (" ", QueryError)]
)
@pytest.mark.parametrize("first", [False, True])
def test_a_wrong_attribute_is_reported_as_a_dimension(
    rows: DataFrame, name: str, kind: type[SkybandError], first: bool
) -> None:
    dimensions = [("price", "min"), (name, "max")]
    with pytest.raises(kind) as raised:
        family_leaders("dominating", rows, dimensions=dimensions[::-1] if first else dimensions)
    assert raised.value.found.startswith("dimension")
    assert "by=" not in raised.value.fix


# a wrong k was reported with the name of its query, a wrong score was not
def test_a_wrong_score_of_a_workload_is_reported_with_its_query(
    rows: DataFrame, tmp_path: Path, run: Runner
) -> None:
    for wrong, kind in (("prise", QueryError), ("sector", DataError)):
        with pytest.raises(kind, match=f"'second'.*'{wrong}'"):
            family_leaders("workload", rows, workload=workload(first="price", second=wrong))
    queries = [
        {"name": name, "k": 1, "window": "20 seconds", "by": by}
        for name, by in (("first", "price"), ("second", "price + now()"))
    ]
    ran = run("run", job(tmp_path, {**QUERIES["workload"], "workload": queries}))
    assert ran.code == 2
    assert "'second'" in ran.err
    assert "by uses 'now'" in ran.err


# values of incomplete streams and scores of workloads were evaluated, and warned of, twice
@pytest.mark.parametrize("family", FAMILIES)
def test_what_could_stop_a_stream_is_reported_once(rows: DataFrame, family: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        family_leaders(family, rows, **scored("price / seq")[family])
    hint = "price / seq stops the stream when seq is 0: write try_divide(price, seq)"
    assert [str(warning.message) for warning in caught] == [hint]


# a count evaluates its value as well as a sum does
def test_what_could_stop_a_count_is_reported(rows: DataFrame) -> None:
    with pytest.warns(UserWarning, match=r"write try_divide\(price, seq\)"):
        family_leaders("totals", rows, by="count(price / seq)")


# top_k reported an aggregate without a key; a job answered "did you mean 'sin'?"
def test_a_job_with_an_aggregate_is_pointed_to_key(tmp_path: Path, run: Runner) -> None:
    ran = run("run", job(tmp_path, {**QUERIES["top_k"], "by": "sum(price)"}))
    assert ran.code == 2
    assert "by is sum(price), an aggregate, without key" in " ".join(ran.err.split())


# the column of the streams was not looked at, and failed in Spark
def test_columns_that_spark_confuses_are_refused_as_stream(spark: SparkSession) -> None:
    twice = spark.createDataFrame([], f"{samples.DDL}, SECTOR string")
    with pytest.raises(DataError, match=r"2 columns 'sector'.*different names"):
        family_leaders("incomplete", twice)


# the manifest did not hold what value= was if there is a DataFrame per stream
def test_a_checkpoint_knows_the_value_of_united_streams(stream: DataFrame, tmp_path: Path) -> None:
    def leaders(value: str) -> DataFrame:
        return family_leaders("incomplete", {"a": stream, "b": stream}, stream=None, value=value)

    checkpoint = tmp_path / "checkpoint"
    claim(leaders("price"), checkpoint)
    claim(leaders("price"), checkpoint)
    with pytest.raises(QueryError, match=r"score was 'price' and is now 'price \* 2'"):
        claim(leaders("price * 2"), checkpoint)


# in batches by key a row that was set aside still completed windows; incomplete left it out
@pytest.mark.parametrize("family", ["top_k", "workload", "incomplete"])
def test_rows_set_aside_complete_no_windows(spark: SparkSession, family: str) -> None:
    counted = {"time": None, "sequence": "seq"}
    more: dict[str, Any] = {**counted, "window": 4, "slide": 3, "partition_by": "sector"}
    if family == "workload":
        queries = Workload({"a": TopK(k=2, window=last(count=4, slide=3))}, {"a": "price"})
        more = {**counted, "workload": queries, "partition_by": "sector"}
    if family == "incomplete":
        del more["partition_by"]
    sound = [(None, seq, seq, "ab"[seq % 2], float(seq)) for seq in range(10)]
    beyond = (None, 1 << 50, 99, "a", 1.0)
    leaders = family_leaders(family, spark.createDataFrame([*sound, beyond], samples.DDL), **more)
    assert leaders.agg(F.max("window.end")).collect() == [(9,)]


# the error advised to change query.by, also in jobs that have none
@pytest.mark.parametrize("family", ["top_k", "dominating", "incomplete", "totals"])
def test_a_score_that_fails_is_reported_where_it_is_written(
    tmp_path: Path, run: Runner, family: str
) -> None:
    by = "1 / (seq - seq)"
    query, option = {
        "top_k": ({"by": by}, "query.by"),
        "dominating": ({"dominating": {by: "min"}}, "query.dominating"),
        "incomplete": (
            {"incomplete": {**QUERIES["incomplete"]["incomplete"], "value": by}},
            "query.incomplete.value",
        ),
        "totals": ({"by": f"sum({by})"}, "query.by"),
    }[family]
    batch = {"trigger": "batch", "checkpoint": None}
    ran = run("run", job(tmp_path, {**QUERIES[family], **query}, **batch))
    assert ran.code == 2
    message = " ".join(ran.err.split())
    assert "the score divides by zero" in message
    assert f"instead of a / b in {option}" in message


# where Spark refuses to name columns, only top_k and dominating reported it
@pytest.mark.parametrize("family", [*FAMILIES, "count"])
def test_a_pipeline_s_function_is_reported(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    def refuse(df: DataFrame) -> None:
        condition = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
        raise AnalysisException(f"[{condition}]", errorClass=condition, messageParameters={})

    for name in ("schema", "columns", "isStreaming"):
        monkeypatch.setattr(type(rows), name, property(refuse))
    more = {"by": "count(price)"} if family == "count" else {}
    with pytest.raises(QueryError, match="in a pipeline's query function"):
        family_leaders("totals" if family == "count" else family, rows, **more)
