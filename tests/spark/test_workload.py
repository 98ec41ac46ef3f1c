"""Workloads on Spark: batch = stream = oracle, also when queries come and go."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import TopK, Workload, WorkloadMonitor, last
from skyband.errors import DataError, QueryError
from skyband.spark import claim, drain, top_k_workload
from skyband.spark.families.workload.boundaries import (
    Boundaries,
    Era,
    label_and_pane,
    label_and_pane_sql,
)
from skyband.spark.jobs import checkpoint as manifest
from skyband.windows import TimeWindow
from tests import oracle
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
SCORES = {"price": 1.0, "-price": -1.0}
MIXED = Workload.of(
    [
        {"name": "wide", "k": 4, "window": "60 seconds", "slide": "10 seconds", "by": "price"},
        {"name": "uneven", "k": 2, "window": "25 seconds", "slide": "10 seconds", "by": "price"},
        {"name": "often", "k": 9, "window": "7 seconds", "slide": "1 second", "by": "price"},
        {"name": "lowest", "k": 3, "window": "30 seconds", "slide": "15 seconds", "by": "-price"},
        {
            "name": "shifted",
            "k": 1,
            "window": "20 seconds",
            "slide": "7 seconds",
            "offset": "3 seconds",
            "by": "-price",
        },
    ]
)


def random_workload(seed: int, queries: int) -> Workload:
    """Queries with any windows, by either score."""
    chance = random.Random(seed)
    records = []
    for number in range(queries):
        size = chance.randint(1, 60)
        records.append(
            {
                "name": f"q{number}",
                "k": chance.choice([1, 2, 5, 50]),
                "window": f"{size} seconds",
                "slide": f"{chance.randint(1, size)} seconds",
                "offset": f"{chance.randint(0, 9)} seconds",
                "by": chance.choice(list(SCORES)),
            }
        )
    return Workload.of(records)


def expected_windows(
    rows: Rows, workload: Workload, key: str = "", since: dict[str, int] | None = None
) -> Iterator[tuple[str, str, list[oracle.Answer]]]:
    """What the oracle says of each query and key."""
    for name, query in workload.queries.items():
        window, sign = query.window, SCORES[workload.by[name]]
        for value in sorted({str(row[key]) for row in rows} if key else {""}):
            key_rows = [row for row in rows if not key or str(row[key]) == value]
            scores = [
                None if row["price"] is None else sign * row["price"] + 0.0 for row in key_rows
            ]
            ids = [row["id"] for row in key_rows]
            if workload.counted:
                windows = oracle.count_windows(scores, window.size, window.slide, query.k, ids)
            else:
                times = [row["ts"] for row in key_rows]
                windows = oracle.time_windows(
                    scores, times, window.size, window.slide, query.k, window.offset, ids
                )
            begin = (since or {}).get(name, 0)
            yield name, value, [answer for answer in windows if answer.start >= begin]


def expected_rows(
    rows: Rows, workload: Workload, key: str = "", since: dict[str, int] | None = None
) -> list[tuple[Any, ...]]:
    """The same as rows: (query, key, end, rank, score, id)."""
    return sorted(
        (name, *row)
        for name, value, windows in expected_windows(rows, workload, key, since)
        for row in samples.oracle_rows(windows, *([value] if key else []))
    )


def expected_changes(rows: Rows, workload: Workload, **more: Any) -> dict[tuple[str, str], Any]:
    """What the oracle says has changed, by query and sector."""
    reports = {
        (name, sector): oracle.changes(windows, workload.queries[name].window.slide, 1 << 62)
        for name, sector, windows in expected_windows(rows, workload, "sector", **more)
    }
    return {place: told for place, told in reports.items() if told}


def result_changes(rows: list[Any]) -> dict[tuple[str, str], Any]:
    """Result rows of changes in the layout of :func:`expected_changes`."""
    places = {(row.query, str(row.sector)) for row in rows}
    return {
        place: samples.reports([row for row in rows if (row.query, str(row.sector)) == place])
        for place in places
    }


def changing(workload: Workload) -> Workload:
    """The same queries, which tell changes."""
    queries = {name: replace(query, emit="changes") for name, query in workload.queries.items()}
    return Workload(queries, workload.by)


def result_rows(rows: list[Any], *keys: str) -> list[tuple[Any, ...]]:
    """Result rows in the layout of :func:`expected`."""
    names = sorted({row.query for row in rows})
    return sorted(
        (name, *row)
        for name in names
        for row in samples.result_rows([r for r in rows if r.query == name], *keys)
    )


def options_with(**more: Any) -> dict[str, Any]:
    return {"time": "ts", "id": "id", "keep": ["id", "ts"], "delay": "10 minutes", **more}


def run_and_drain(
    spark: SparkSession, home: Path, source: str, workload: Workload, **more: Any
) -> Any:
    """Run a stream to its end, drain it, and return what the sink holds."""
    marks = str(home / "marks")
    for ended in (False, True):
        if ended:
            drain(spark, marks)
        leaders = top_k_workload(samples.stream(spark, source), workload, drain=marks, **more)
        samples.run(leaders, home)
    return spark.read.parquet(str(home / "out")).collect()


@pytest.mark.parametrize(
    ("workload", "key"),
    [
        pytest.param(MIXED, "sector", id="keys"),
        pytest.param(random_workload(1, 12), "", id="random"),
        pytest.param(random_workload(2, 90), "sector", id="many, by keys"),
    ],
)
def test_a_batch_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, workload: Workload, key: str
) -> None:
    rows = samples.rows(len(workload), 250)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 1))
    leaders = top_k_workload(
        spark.read.parquet(source), workload, **options_with(partition_by=key or None)
    )
    assert leaders.columns == ["query", "window", *([key] if key else []), "rank", "score",
                               "id", "ts"]  # fmt: skip
    assert result_rows(leaders.collect(), *([key] if key else [])) == expected_rows(
        rows, workload, key
    )


def test_a_stream_gives_what_the_oracle_gives(spark: SparkSession, tmp_path: Path) -> None:
    workload = random_workload(3, 30)
    rows = samples.rows(37, 180)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 2))
    leaders = run_and_drain(
        spark, tmp_path, source, workload, **options_with(partition_by="sector")
    )
    assert result_rows(leaders, "sector") == expected_rows(rows, workload, "sector")


def test_changes_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(5, 250)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 1))
    workload = changing(MIXED)
    leaders = top_k_workload(
        spark.read.parquet(source), workload, **options_with(partition_by="sector")
    )
    assert leaders.columns == ["query", "window", "sector", "rank", "score", "change",
                               "previous_rank", "id", "ts"]  # fmt: skip
    assert result_changes(leaders.collect()) == expected_changes(rows, workload)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_sequence_column_makes_count_windows(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    workload = Workload(
        {
            "short": TopK(k=4, window=last(count=25, slide=10)),
            "long": TopK(k=2, window=last(count=60, slide=7)),
        },
        dict.fromkeys(("short", "long"), "price"),
    )
    rows = samples.rows(5, 157)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    options = {"sequence": "seq", "keep": "id"}
    if streaming:
        leaders = run_and_drain(spark, tmp_path, source, workload, delay=200, **options)
    else:
        leaders = top_k_workload(spark.read.parquet(source), workload, **options).collect()
    assert result_rows(leaders) == expected_rows(rows, workload)


def test_a_batch_gives_what_the_local_engine_gives(spark: SparkSession, tmp_path: Path) -> None:
    records = [
        {"name": f"{size} by {slide}", "k": k, "window": f"{size} seconds",
         "slide": f"{slide} seconds"}
        for size, slide, k in [(60, 1, 3), (45, 7, 10), (30, 30, 1)]
    ]  # fmt: skip
    workload = Workload.of(records)
    rows = samples.rows(11, 200)
    source = samples.write(tmp_path / "rows", [rows])
    df = spark.read.parquet(source).withColumnRenamed("price", "score")
    leaders = top_k_workload(df, workload, **options_with()).collect()
    monitor = WorkloadMonitor(workload)
    monitor.push(
        [math.nan if row["price"] is None else row["price"] for row in rows],
        ids=[row["id"] for row in rows],
        times=np.array([row["ts"] for row in rows], "datetime64[us]"),
    )
    local = [
        (name, window.end, rank, score, id)
        for name, window in monitor.finish()
        for rank, (score, id) in enumerate(
            zip(window.score.tolist(), window.id.tolist(), strict=True), start=1
        )
    ]
    assert result_rows(leaders) == sorted(local)
    told = WorkloadMonitor(changing(workload))
    told.push(
        [math.nan if row["price"] is None else row["price"] for row in rows],
        ids=[row["id"] for row in rows],
        times=np.array([row["ts"] for row in rows], "datetime64[us]"),
    )
    local = [
        (name, window.end, *row)
        for name, window in told.finish()
        for row in zip(
            *(column.tolist() for column in (window.rank, window.previous_rank, window.id)),
            window.score.tolist(),
            strict=True,
        )
    ]
    changed = top_k_workload(df, changing(workload), **options_with()).collect()
    assert sorted(local) == sorted(
        (row.query, samples.position(row.window.end), row["rank"] or 0, row.previous_rank or 0,
         row.id, row.score)
        for row in changed
    )  # fmt: skip


def test_late_rows_are_dropped_and_never_answered_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [{"ts": samples.BASE + i * SECOND, "seq": i, "id": i, "sector": "a",
             "price": float(i % 7)} for i in range(120)]  # fmt: skip
    late = [{**row, "price": 99.0, "id": 1000 + row["id"]} for row in rows[:20]]
    source = samples.write(tmp_path / "rows", [rows[:60], rows[60:], late])
    leaders = run_and_drain(spark, tmp_path, source, MIXED, **options_with(delay="2 seconds"))
    assert result_rows(leaders) == expected_rows(rows, MIXED)


def random_eras(seed: int) -> list[Era]:
    """Panes of one to three runs, each with other windows."""
    chance = random.Random(seed)
    start = chance.choice([None, -30, 0, 70])
    eras = []
    for _ in range(chance.randint(1, 3)):
        windows = [
            TimeWindow(size, chance.randint(1, size), chance.randint(-9, 9))
            for size in (chance.randint(1, 60) for _ in range(chance.randint(1, 6)))
        ]
        eras.append(Era(start, Boundaries.of(windows)))
        start = chance.randint(1, 90) + (start or 0)
    return eras


def test_panes_are_the_same_in_sql_and_in_python(spark: SparkSession) -> None:
    cases = [random_eras(seed) for seed in range(25)]
    columns = [F.struct(*label_and_pane_sql(eras, F.col("id"))) for eras in cases]
    for position, *placed in spark.range(-200, 300).select("id", *columns).collect():
        assert [tuple(each) for each in placed] == [
            label_and_pane(eras, position) for eras in cases
        ]


class GrowingJob:
    """A job over a directory that grows; its queries may change from run to run."""

    def __init__(self, spark: SparkSession, home: Path, **more: Any) -> None:
        self.spark, self.home, self.more = spark, home, more
        self.files = 0
        self.checkpoint = str(home / "checkpoint")

    def leaders(self, workload: Workload, **more: Any) -> DataFrame:
        rows = samples.stream(self.spark, str(self.home / "rows"))
        options = {"checkpoint": self.checkpoint, "drain": str(self.home / "marks"), **self.more}
        return top_k_workload(rows, workload, **{**options, **more})

    def run(self, workload: Workload, rows: Rows) -> None:
        """One run over some more rows."""
        parts = [[] for _ in range(self.files)]
        samples.write(self.home / "rows", [*parts, rows])
        self.files += 1
        self.go(workload)

    def go(self, workload: Workload) -> None:
        leaders = self.leaders(workload)
        claim(leaders, self.checkpoint)
        samples.run(leaders, self.home)

    def drained(self, workload: Workload) -> list[Any]:
        drain(self.spark, str(self.home / "marks"))
        self.go(workload)
        return self.spark.read.parquet(str(self.home / "out")).collect()

    def since(self) -> dict[str, int]:
        stored = manifest.read(self.spark, self.checkpoint)
        assert stored is not None
        return {name: query[-1] for name, query in stored["query"]["workload"]["queries"].items()}


def test_queries_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """Old queries go on exactly, with other panes and a larger k; new ones are complete."""
    rows = samples.rows(21, 240)
    job = GrowingJob(spark, tmp_path, **options_with(delay="1 second", partition_by="sector"))
    first = Workload({n: MIXED.queries[n] for n in ("wide", "uneven", "lowest")},
                     {n: MIXED.by[n] for n in ("wide", "uneven", "lowest")})  # fmt: skip
    job.run(first, rows[:80])
    added = {"more": TopK(k=20, window=last(time="17 seconds", slide="3 seconds"))}
    second = Workload({**{n: first.queries[n] for n in ("wide", "lowest")}, **added},
                      {"wide": "price", "lowest": "-price", "more": "price"})  # fmt: skip
    job.run(second, rows[80:160])
    assert job.since()["wide"] is None
    begun = job.since()["more"]
    third = Workload({**added, "wide": first.queries["wide"], "fresh": MIXED.queries["often"]},
                     {"more": "price", "wide": "price", "fresh": "-price"})  # fmt: skip
    job.run(third, rows[160:])
    since = {"more": begun, "fresh": job.since()["fresh"]}
    assert job.since() == {"wide": None, **since}
    newest = max(row["ts"] for row in rows)
    assert rows[79]["ts"] < begun < rows[159]["ts"] < since["fresh"] < newest
    answers = result_rows(job.drained(third), "sector")
    assert answers
    for name in third:
        query_rows = [row for row in answers if row[0] == name]
        expected = expected_rows(rows, third, "sector", since)
        assert query_rows == [row for row in expected if row[0] == name]
    for name in ("uneven", "lowest"):  # what was answered before they left
        query_rows = [row for row in answers if row[0] == name]
        ends = {row[2] for row in query_rows}
        expected = expected_rows(rows, first, "sector")
        assert query_rows == [row for row in expected if row[0] == name and row[2] <= max(ends)]


def test_changes_go_on_while_queries_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(21, 240)
    job = GrowingJob(spark, tmp_path, **options_with(delay="1 second", partition_by="sector"))
    names = ("wide", "lowest", "often")
    first = changing(
        Workload({n: MIXED.queries[n] for n in names}, {n: MIXED.by[n] for n in names})
    )
    job.run(first, rows[:120])
    names = ("wide", "lowest", "uneven")
    second = changing(
        Workload({n: MIXED.queries[n] for n in names}, {n: MIXED.by[n] for n in names})
    )
    job.run(second, rows[120:])
    since = {"uneven": job.since()["uneven"]}
    told = result_changes(job.drained(second))
    expected = expected_changes(rows, second, since=since)
    assert {place: each for place, each in told.items() if place[0] != "often"} == expected
    stopped = expected_changes(rows, first)
    for place, each in told.items():
        if place[0] == "often":
            assert each == stopped[place][: len(each)]
    with pytest.raises(QueryError, match="emit was 'changes' and is now 'all'"):
        claim(job.leaders(Workload(MIXED.queries, MIXED.by)), job.checkpoint)


def test_what_may_not_change(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(21, 30)
    job = GrowingJob(spark, tmp_path, **options_with())
    job.run(MIXED, rows)
    claim(job.leaders(MIXED, checkpoint=None), job.checkpoint)  # the same: nothing to know
    more = Workload({**MIXED.queries, "new": MIXED.queries["often"]}, {**MIXED.by, "new": "price"})
    with pytest.raises(QueryError, match=r"checkpoint=\.\.\."):
        claim(job.leaders(more, checkpoint=None), job.checkpoint)
    other = Workload({**MIXED.queries, "wide": MIXED.queries["often"]}, MIXED.by)
    with pytest.raises(QueryError, match=r"query 'wide'.*a name of its own"):
        claim(job.leaders(other), job.checkpoint)
    with pytest.raises(QueryError, match="delay was 10 minutes and is now 1 second"):
        claim(job.leaders(more, delay="1 second"), job.checkpoint)
    with pytest.raises(QueryError, match="which the job does not compute"):
        job.leaders(Workload(MIXED.queries, {**MIXED.by, "wide": "price * 2"}))


def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([], "ts timestamp, seq bigint, id bigint, price double")
    counted = Workload({"a": TopK(k=1, window=last(count=5))}, {"a": "price"})
    with pytest.raises(QueryError, match="sequence="):
        top_k_workload(df, counted, time="ts")
    ticks = Workload({"a": TopK(k=1, window=last(time=5))}, {"a": "price"})
    with pytest.raises(DataError, match="window of ticks"):
        top_k_workload(df, ticks, time="ts")
    with pytest.raises(QueryError, match="workload is None"):
        top_k_workload(df, None, time="ts")
    with pytest.raises(QueryError, match="score"):
        top_k_workload(df, Workload({"a": TopK(k=1, window=last(time="5 seconds"))}), time="ts")
    with pytest.raises(DataError, match="there is no column"):
        top_k_workload(df, MIXED, time="when")
    with pytest.raises(QueryError, match="name of a result column"):
        top_k_workload(df.withColumnRenamed("id", "query"), MIXED, time="ts")
    assert df.transform(top_k_workload, MIXED, time="ts").columns[0] == "query"
