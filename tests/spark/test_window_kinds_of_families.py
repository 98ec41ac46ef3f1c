"""A period so far and all time, of dominating points and of objects of several streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skyband import QueryError, all_time, cumulative
from skyband.spark import drain, top_k_dominating, top_k_incomplete
from skyband.windows import AllTimeWindow, TimeWindow
from tests import oracle, oracle_incomplete
from tests.spark import samples, test_dominating, test_incomplete, test_updates

pytestmark = pytest.mark.spark

DAY = cumulative("40 seconds", every="10 seconds", offset="3 seconds")
ALWAYS = all_time(every="10 seconds")
WINDOWS = [pytest.param(DAY, id="cumulative"), pytest.param(ALWAYS, id="all time")]
UNSAID = dict.fromkeys(("slide", "offset"))
POINTS: dict[str, Any] = {**test_dominating.OPTIONS, **UNSAID, "skew": None}
OBJECTS: dict[str, Any] = {**test_incomplete.OPTIONS, **UNSAID, "skew": None, "shards": None}

Rows = list[dict[str, Any]]
Ranked = list[tuple[Any, ...]]


def bounds(window: TimeWindow, times: list[int], until: int | None) -> list[tuple[int, int]]:
    """Where the windows start and end that hold a row; of all time, ``until`` the last end."""
    scores, every = [0.0] * len(times), window.slide
    if isinstance(window, AllTimeWindow):
        answers = oracle.all_time_windows(scores, times, every, 1, until=until)
    else:
        answers = oracle.cumulative_windows(scores, times, window.size, every, 1, window.offset)
    return [(answer.start, answer.end) for answer in answers]


def points_of(window: TimeWindow, rows: Rows, until: int | None = None) -> list[oracle.Answer]:
    """The rows that dominate the most, by id."""
    rows = sorted(rows, key=lambda row: (row["ts"], row["id"]))
    places = enumerate(zip(test_dominating.points(rows), rows, strict=True))
    known = [(point, row["ts"], at) for at, (point, row) in places if point is not None]
    answers = []
    for start, end in bounds(window, [time for _, time, _ in known], until):
        best = oracle.dominating([row for row in known if start <= row[1] < end], 3)
        ranked = tuple((score, rows[at]["id"]) for score, at in best)
        answers.append(oracle.Answer(start, end, ranked))
    return answers


def objects_of(window: TimeWindow, rows: Rows, until: int | None = None) -> list[oracle.Answer]:
    """The best objects, by plate."""
    values = zip(test_incomplete.values(rows), rows, strict=True)
    known = [(*value, row["ts"]) for value, row in values if oracle.ranks(value[2])]
    known = [row for row in known if row[0] is not None]
    known.sort(key=lambda row: (row[3], *row[:3]))
    answers = []
    for start, end in bounds(window, [row[3] for row in known], until):
        alive = [row for row in known if start <= row[3] < end]
        best = oracle_incomplete.best_objects(alive, 3, "sum", test_incomplete.LOW, "max")
        answers.append(oracle.Answer(start, end, best))
    return answers


def check(windows: Any, window: TimeWindow, rows: Rows, answers: Ranked, streaming: bool) -> None:
    """Compare answers (key, end, rank, score, id) with the oracle, key by key.

    A key of all time that is silent goes on with the watermark of a stream, which is somewhere in
    the step of the newest row of all.
    """
    newest = max(end for _, end, *_ in answers)
    own_ends = set()
    for key in {str(row["key"]) for row in rows}:
        key_rows = [row for row in rows if str(row["key"]) == key]
        shown = sorted(answer for answer in answers if answer[0] == key)
        expected = windows(window, key_rows)
        if streaming and isinstance(window, AllTimeWindow):
            last_end = expected[-1].end
            assert last_end <= shown[-1][1] <= newest
            own_ends.add(last_end)
            expected = windows(window, key_rows, shown[-1][1])
        assert shown == sorted(samples.oracle_rows(expected, key))
    assert not own_ends or max(own_ends) == newest, "no window after the last row"


def in_order(rows: Rows, parts: int) -> list[Rows]:
    """Rows in parts that do not overlap in time, so that a watermark may follow closely."""
    size = -(-len(rows) // parts)
    return [rows[low : low + size] for low in range(0, len(rows), size)]


def points_run(spark: SparkSession, home: Path, rows: Rows, **options: Any) -> list[Any]:
    """Run a stream, stop and go on, and drain it."""
    parts = in_order(rows, 4)
    for stage in range(3):
        source = samples.write(home / "source", parts if stage else parts[:2])
        if stage == 2:
            drain(spark, str(home / "marks"))
        answers = test_dominating.run(spark, home, source, **{**POINTS, **options})
    return answers


def objects_run(spark: SparkSession, home: Path, rows: Rows, **options: Any) -> list[Any]:
    """Run a stream, stop and go on, and drain it."""
    parts = in_order(rows, 4)
    for stage in range(3):
        source = test_incomplete.write(home / "source", parts if stage else parts[:2])
        if stage == 2:
            drain(spark, str(home / "marks"))
        answers = test_incomplete.run(spark, home, source, **{**OBJECTS, **options})
    return answers


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("key", ["", "sector"])
@pytest.mark.parametrize("streaming", [False, True])
def test_dominating_points(
    spark: SparkSession, tmp_path: Path, window: TimeWindow, key: str, streaming: bool
) -> None:
    rows = samples.rows(7, 240)
    options: dict[str, Any] = {"window": window, "partition_by": key or None}
    if streaming:
        answers = points_run(spark, tmp_path, rows, delay="1 second", **options)
    else:
        df = test_dominating.frame(spark, rows, tmp_path)
        answers = top_k_dominating(df, **{**POINTS, **options}).collect()
    keyed = [{**row, "key": row[key] if key else ""} for row in rows]
    ranked = samples.result_rows(answers, *([key] if key else []))
    ranked = ranked if key else [("", *row) for row in ranked]
    check(points_of, window, keyed, ranked, streaming)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("key", ["", "road"])
@pytest.mark.parametrize("streaming", [False, True])
def test_objects_of_several_streams(
    spark: SparkSession, tmp_path: Path, window: TimeWindow, key: str, streaming: bool
) -> None:
    rows = test_incomplete.passages(7, 240)
    shards = None if key or isinstance(window, AllTimeWindow) else 3
    options = {"window": window, "partition_by": key or None, "shards": shards}
    if streaming:
        answers = objects_run(spark, tmp_path, rows, delay="1 second", **options)
    else:
        df = test_incomplete.frame(spark, rows, tmp_path)
        answers = top_k_incomplete(df, **{**OBJECTS, **options}).collect()
    keyed = [{**row, "key": row[key] if key else ""} for row in rows]
    ranked = test_incomplete.result_rows(answers, *([key] if key else []))
    ranked = ranked if key else [("", *row) for row in ranked]
    check(objects_of, window, keyed, ranked, streaming)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("streaming", [False, True])
def test_changes(spark: SparkSession, tmp_path: Path, window: TimeWindow, streaming: bool) -> None:
    """Of one key; nothing ever leaves a window of all time because of its age."""
    until = None if isinstance(window, AllTimeWindow) else oracle.FOREVER
    options: dict[str, Any] = {"window": window, "emit": "changes"}
    rows = [{**row, "sector": "a"} for row in samples.rows(9, 160)]
    by_sector = {**options, "partition_by": "sector"}
    passages = test_incomplete.passages(9, 160)
    if streaming:
        points = points_run(spark, tmp_path / "p", rows, delay="1 second", **by_sector)
        objects = objects_run(spark, tmp_path / "o", passages, delay="1 second", **options)
    else:
        df = test_dominating.frame(spark, rows, tmp_path / "p")
        points = top_k_dominating(df, **{**POINTS, **by_sector}).collect()
        df = test_incomplete.frame(spark, passages, tmp_path / "o")
        objects = top_k_incomplete(df, **{**OBJECTS, **options}).collect()
    expected = oracle.changes(points_of(window, rows), window.slide, until)
    assert samples.reports(points) == expected
    expected = oracle.changes(objects_of(window, passages), window.slide, until)
    assert samples.reports(objects, "plate") == expected


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("ask", [test_updates.dominating, test_updates.incomplete])
def test_updates_end_with_the_answers(
    spark: SparkSession, tmp_path: Path, window: TimeWindow, ask: test_updates.Ask
) -> None:
    source = samples.write(tmp_path / "rows", samples.split(samples.rows(3, 160), 4, 3))
    options = {"window": window, "partition_by": "sector"}
    answered = ask(spark.read.parquet(source), **options).collect()
    batches = test_updates.play(spark, tmp_path, source, ask, 2, delay="10 minutes", **options)
    test_updates.check(batches, answered)


def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([], samples.DDL)
    for window in (DAY, ALWAYS):
        with pytest.raises(QueryError, match="for dominating points that are estimated"):
            top_k_dominating(df, **{**POINTS, "window": window}, algorithm="ahba",
                             partition_by="sector")  # fmt: skip
    df = spark.createDataFrame([], test_incomplete.COLUMNS)
    with pytest.raises(QueryError, match="for likely, which estimates"):
        top_k_incomplete(df, **{**OBJECTS, "window": DAY}, algorithm="likely")
    with pytest.raises(QueryError, match="shards is 3 for windows of all time"):
        top_k_incomplete(df, **{**OBJECTS, "window": ALWAYS, "shards": 3})
