"""Windows of a stream while they are open: what each micro-batch shows, and that it ends right."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.spark.updates import Updates
from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console

from skyband import QueryError, TopK, Workload, all_time, cumulative, last
from skyband.spark import drain, top_k, top_k_dominating, top_k_incomplete, top_k_workload
from skyband.spark.jobs.file import load, words
from skyband.spark.jobs.run import Run
from skyband.windows import CumulativeWindow
from tests.spark import samples

Rows = list[dict[str, Any]]
Ask = Callable[..., DataFrame]

ROWS: dict[str, Any] = {"time": "ts", "skew": None, "id": "id", "keep": ["id"]}


def by_score(df: DataFrame, **options: Any) -> DataFrame:
    """The best rows."""
    return top_k(df, k=3, by="price", **ROWS, **options)


def by_total(df: DataFrame, **options: Any) -> DataFrame:
    """The largest totals."""
    options = {"key": "id", "by": "sum(seq)", "time": "ts", "skew": None, **options}
    return top_k(df, k=3, **options)


def dominating(df: DataFrame, **options: Any) -> DataFrame:
    """The rows that dominate the most."""
    dimensions = [("price", "max"), ("seq", "min")]
    return top_k_dominating(df, k=3, dimensions=dimensions, **ROWS, **options)


def incomplete(df: DataFrame, **options: Any) -> DataFrame:
    """The objects of two streams."""
    streams = {"stream": "camera", "streams": ["0", "1"], "bounds": (0, 1000)}
    df = df.selectExpr("*", "id % 40 AS plate", "CAST(seq % 2 AS STRING) AS camera")
    options = {"time": "ts", "skew": None, **streams, **options}
    return top_k_incomplete(df, k=3, id="plate", value="seq", **options)


def workload(
    df: DataFrame, emit: str = "all", open_windows: str = "all", window: Any = None, **options: Any
) -> DataFrame:
    """Two queries by two scores."""
    shown: Any = {"emit": emit, "open_windows": open_windows}
    queries = {
        "long": TopK(k=3, window=last(time="40 seconds", slide="10 seconds"), **shown),
        "short": TopK(k=2, window=last(time="15 seconds", slide="6 seconds"), **shown),
    }
    asked = Workload(queries, {"long": "price", "short": "seq"})
    return top_k_workload(df, asked, **ROWS, **options)


FAMILIES = [by_score, by_total, dominating, incomplete, workload]
SLIDING = last(time="25 seconds", slide="10 seconds")
WINDOWS = [
    SLIDING,
    last(time="20 seconds"),
    cumulative("40 seconds", every="10 seconds", offset="3 seconds"),
    all_time(every="10 seconds"),
]


def play(
    spark: SparkSession, home: Path, source: str, ask: Ask, restarts: int, **options: Any
) -> list[list[Row]]:
    """What each micro-batch reports; the stream begins anew a few times, and is drained at last."""
    batches: list[list[Row]] = []
    marks = str(home / "marks")
    reader = samples.stream(spark, source)
    files = sorted(Path(source).iterdir())
    later = [file.rename(home / file.name) for file in files[2:]] if restarts else []
    for stage in range(restarts + 1):
        for file in later if stage == 1 else []:
            file.rename(Path(source) / file.name)
        if stage == restarts:
            drain(spark, marks)
        leaders = ask(reader, emit="updates", drain=marks, **options)
        writer = leaders.writeStream.foreachBatch(lambda df, _: batches.append(df.collect()))
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    return batches


def place(row: Row) -> tuple[Any, ...]:
    """The query, key and window of a row."""
    names = [name for name in ("query", "sector") if name in row]
    return (*(str(row[name]) for name in names), row.window.start, row.window.end)


def rankings(rows: list[Row]) -> dict[Any, list[Any]]:
    """The ranking of each window, without what only updates say."""
    without = ("revision", "final", "query", "sector", "window")
    by_place: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        values = tuple(value for name, value in row.asDict().items() if name not in without)
        by_place.setdefault(place(row), []).append(values)
    return by_place


def check(batches: list[list[Row]], answered: list[Row]) -> None:
    """Final rows are those of ``emit="all"``; replaying all rows in any order ends with them."""
    rows = [row for batch in batches for row in batch]
    final = [row for row in rows if row.final]
    assert rankings(final) == rankings(answered)
    assert len(final) == len(answered)
    assert any(not row.final for row in rows)
    newest: dict[Any, int] = {}
    for row in rows:
        newest[place(row)] = max(newest.get(place(row), 0), row.revision)
    assert rankings([row for row in rows if row.revision == newest[place(row)]]) == rankings(final)
    for row in rows:
        assert row.final == (row.revision == newest[place(row)])


@pytest.mark.spark
@pytest.mark.parametrize("ask", FAMILIES)
def test_every_family_ends_with_what_it_answers_at_once(
    spark: SparkSession, tmp_path: Path, ask: Ask
) -> None:
    """The stream begins anew in the middle, rows come out of order, some of them late."""
    rows = samples.rows(3, 200)
    source = samples.write(tmp_path / "rows", samples.split(rows, 4, 3))
    options = {"window": SLIDING, "partition_by": "sector"}
    answered = ask(spark.read.parquet(source), **options).collect()
    check(play(spark, tmp_path, source, ask, 2, delay="10 minutes", **options), answered)


def has_begun(row: Row, rows: Rows) -> bool:
    """Whether the slide that completes a row's window has begun with the rows of its key."""
    newest = max(
        each["ts"]
        for each in rows
        if each["sector"] == row.sector and each["price"] is not None
        and not math.isnan(each["price"])
    )  # fmt: skip
    return samples.position(row.window.end) - 10 * samples.SECOND <= newest


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
def test_each_batch_shows_the_rankings_so_far(
    spark: SparkSession, tmp_path: Path, window: Any
) -> None:
    """No window closes before the end: after each file the oracle is a batch over what was read."""
    parts = samples.split(samples.rows(4, 160), 4, 4)
    source = samples.write(tmp_path / "rows", parts)
    options: dict[str, Any] = {"window": window, "partition_by": "sector"}
    batches = play(spark, tmp_path, source, by_score, 2, delay="10 minutes", **options)
    batches = [batch for batch in batches if batch]
    assert len(batches) == len(parts) + 1
    shown: dict[Any, list[Any]] = {}
    for number, batch in enumerate(batches[:-1], start=1):
        assert not any(row.final for row in batch)
        for where, ranking in rankings(batch).items():
            assert shown.get(where) != ranking, "shown again though nothing changed"
            shown[where] = ranking
        seen = samples.write(tmp_path / f"seen-{number}", parts[:number])
        answered = by_score(spark.read.parquet(seen), **options).collect()
        if isinstance(window, CumulativeWindow):  # later windows of a day would show the same
            answered = [row for row in answered if has_begun(row, list(chain(*parts[:number])))]
        assert shown == rankings(answered)
    assert all(row.final for row in batches[-1])


@pytest.mark.spark
@pytest.mark.parametrize("ask", FAMILIES)
def test_the_current_window_alone(spark: SparkSession, tmp_path: Path, ask: Ask) -> None:
    parts = samples.split(samples.rows(5, 120), 3, 5)
    source = samples.write(tmp_path / "rows", parts)
    batches = play(spark, tmp_path, source, ask, 2, delay="10 minutes", window=SLIDING,
                   open_windows="current")  # fmt: skip
    answered = ask(spark.read.parquet(source), window=SLIDING).collect()
    check(batches, answered)
    newest = 0
    for part, batch in zip(parts, [batch for batch in batches if batch], strict=False):
        newest = max(newest, *(row["ts"] for row in part))
        ends = {(row.asDict().get("query"), samples.position(row.window.end)) for row in batch}
        slides = {"short": 6, "long": 10, None: 10}
        for query, end in ends:
            assert end - slides[query] * samples.SECOND <= newest < end
        assert len(ends) == (2 if ask is workload else 1)


@pytest.mark.spark
def test_windows_that_count_rows(spark: SparkSession, tmp_path: Path) -> None:
    """By arrival, on the local engine, and over a sequence, from panes."""
    rows = samples.rows(6, 150)
    parts = [rows[low : low + 50] for low in range(0, 150, 50)]
    for name, options in {
        "arrival": {"time": "ts", "partition_by": "sector"},
        "sequence": {"sequence": "seq"},
    }.items():
        home = tmp_path / name
        source = samples.write(home / "rows", parts)
        asked: dict[str, Any] = {
            "k": 3, "by": "price", "window": 20, "slide": 8, "id": "id", "keep": ["id"], **options,
            **({"skew": None, "delay": "1 second"} if name == "arrival" else {}),
        }  # fmt: skip
        batches = play(spark, home, source, top_k, 2, **asked)
        asked.pop("delay", None)
        answered = top_k(spark.read.parquet(source), **asked).collect()
        open_rows = [row for batch in batches for row in batch if not row.final]
        ends = {place(row) for row in answered}
        final = [row for batch in batches for row in batch if row.final]
        assert rankings(final) == rankings(answered)
        assert {place(row) for row in open_rows} - ends, "windows that never fill are shown, too"


@pytest.mark.spark
def test_rows_that_repeat_count_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = samples.rows(7, 80)
    source = samples.write(tmp_path / "rows", [rows[:50], rows[30:], rows[:10]])
    options: dict[str, Any] = {"window": SLIDING, "deduplicate_by": ["seq"]}
    for ask in (by_score, by_total):
        answered = ask(spark.read.parquet(source), **options).collect()
        home = tmp_path / ask.__name__
        home.mkdir()
        check(play(spark, home, source, ask, 0, delay="10 minutes", **options), answered)


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        {"rank_by": "rank", "ties": "oldest"},
        {"rank_by": "dense_rank"},
        {"by": "last(price)", "key": "id", "also": {"rows": "count(*)", "sum": "sum(seq)"}},
        {"by": "count(*)", "key": "id", "rank_by": "dense_rank", "ties": "oldest"},
    ],
    ids=["rank", "dense rank", "also", "dense rank of totals"],
)
def test_shared_ranks_and_further_totals(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    source = samples.write(tmp_path / "rows", samples.split(samples.rows(9, 120), 3, 9))
    asked = {"k": 3, "by": "price", "time": "ts", "skew": None, "window": SLIDING, **options}
    if "key" not in options:
        asked |= {"id": "id", "keep": ["id"]}
    answered = top_k(spark.read.parquet(source), **asked).collect()
    batches = play(spark, tmp_path, source, top_k, 2, delay="10 minutes", **asked)
    check(batches, answered)


@pytest.mark.spark
@pytest.mark.parametrize("open_windows", ["all", "current"])
def test_a_window_that_ranks_nothing_any_more(
    spark: SparkSession, tmp_path: Path, open_windows: str
) -> None:
    """A NULL takes the only key off the board: rows without a rank say so, also at the end."""
    row = {"seq": 0, "id": 1, "sector": None}
    parts = [
        [{**row, "ts": samples.BASE + second * samples.SECOND, "price": price}]
        for second, price in [(1, 5.0), (2, None)]
    ]
    source = samples.write(tmp_path / "rows", parts)
    board = {"k": 2, "by": "last(price)", "key": "id", "time": "ts", "skew": None,
             "window": "1 minute", "delay": "10 minutes", "open_windows": open_windows}  # fmt: skip
    batches = play(spark, tmp_path, source, top_k, 2, **board)
    reports = [(r["rank"], r.score, r.id, r.revision, r.final) for batch in batches for r in batch]
    nothing = (None, None, None)
    assert reports == [(1, 5.0, 1, 1, False), (*nothing, 2, False), (*nothing, 3, True)]


@pytest.mark.spark
def test_keys_that_spark_takes_for_equal(spark: SparkSession, tmp_path: Path) -> None:
    """Zeros of either sign are one key, in structs, too, whatever batch they come in."""

    def ask(df: DataFrame, **options: Any) -> DataFrame:
        zero = "IF(seq % 2 = 0, 0.0D, -0.0D)"
        return by_score(
            df.selectExpr("*", f"named_struct('x', {zero}) AS pair", f"{zero} AS plain"),
            partition_by=["pair", "plain"],
            window=SLIDING,
            **options,
        )

    source = samples.write(tmp_path / "rows", [[row] for row in samples.rows(12, 6)])
    answered = ask(spark.read.parquet(source)).collect()
    check(play(spark, tmp_path, source, ask, 2, delay="10 minutes"), answered)


@pytest.mark.spark
def test_queries_of_a_workload_say_which_windows(spark: SparkSession, tmp_path: Path) -> None:
    """One shows all that are open, the other its current one."""
    window = last(time="20 seconds", slide="10 seconds")
    every = TopK(k=1, window=window, emit="updates")
    asked = Workload(
        {"current": replace(every, open_windows="current"), "all": every},
        {"current": "price", "all": "price"},
    )

    def ask(df: DataFrame, emit: str, **options: Any) -> DataFrame:
        assert emit == "updates"
        return top_k_workload(df, asked, **ROWS, **options)

    source = samples.write(tmp_path / "rows", [[{**samples.rows(13, 1)[0], "price": 1.0}]])
    batches = play(spark, tmp_path, source, ask, 0, delay="10 minutes")
    shown = [row.query for batch in batches for row in batch if not row.final]
    assert sorted(shown) == ["all", "all", "current"]


@pytest.mark.spark
def test_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """It shows the last revision of the newest window while it runs, and drains in the end."""
    source = samples.write(tmp_path / "in", samples.split(samples.rows(10, 90), 3, 10))
    query = {"k": 3, "by": "price", "time": "ts", "window": "25 seconds", "slide": "10 seconds",
             "id": "id", "keep": "id", "skew": None, "emit": "updates", "open_windows": "current",
             "delay": "10 minutes"}  # fmt: skip
    job = {
        "source": {"format": "parquet", "path": "in", "schema": samples.DDL},
        "query": query,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    loaded = load(tmp_path / "job.yaml")
    assert "updates as rows come to the current window" in words(loaded)
    with Run(spark, loaded) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
        assert run.progress.leaders[0]["final"]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    df = spark.read.parquet(source)
    whole = {name: value for name, value in query.items() if name not in ("emit", "open_windows")}
    check([rows], top_k(df, **whole).collect())


@pytest.mark.spark
def test_a_batch_is_final(spark: SparkSession, tmp_path: Path) -> None:
    source = samples.write(tmp_path / "rows", [samples.rows(8, 60)])
    df = spark.read.parquet(source)
    for ask in FAMILIES:
        rows = ask(df, window=SLIDING, emit="updates").collect()
        assert {(row.revision, row.final) for row in rows} == {(1, True)}
        assert rankings(rows) == rankings(ask(df, window=SLIDING).collect())


@pytest.mark.spark
def test_what_updates_cost_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    """The benchmark of it, over few rows: updates report more rows, the current window's fewer."""
    bench = Updates(rows=2_000, keys=2, batches=2, ratios=(4,), turns=1)
    records = bench.measure(spark, tmp_path)
    whole, current, every = (record["reported"] for record in records)
    assert whole < current < every
    bench.show(records, console := Console(record=True, width=120, file=io.StringIO()))
    assert "updates, current open windows" in console.export_text()
    assert all(path.exists() for path in bench.draw(records, tmp_path))


@pytest.mark.spark
def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([], samples.DDL)
    with pytest.raises(QueryError, match="shards is 4 with emit='updates'"):
        by_total(df, window=SLIDING, emit="updates", shards=4)
    with pytest.raises(QueryError, match="open_windows is 'current' with emit='all'"):
        by_score(df, window=SLIDING, open_windows="current")
    with pytest.raises(QueryError, match="'final' has the name of a result column"):
        by_score(df.withColumnRenamed("sector", "final"), window=SLIDING, emit="updates",
                 partition_by="final")  # fmt: skip
    with pytest.raises(QueryError, match="sequence='seq' with emit='updates'"):
        top_k_dominating(df, k=1, dimensions=[("price", "max")], window=10, sequence="seq",
                         emit="updates")  # fmt: skip
