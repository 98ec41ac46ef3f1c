"""Checkpoints that the release before has left: their streams go on exactly where they were."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skyband.spark import drain
from tests import oracle, oracle_incomplete, oracle_totals
from tests.spark.checkpoints import make
from tests.spark.checkpoints.make import SECOND

pytestmark = pytest.mark.spark

SLIDE = 4 * SECOND
FOREVER = 1 << 62
Told = tuple[Any, ...]


@pytest.mark.parametrize("kind", make.KINDS)
def test_a_stream_goes_on_from_an_old_checkpoint(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """What was answered is not answered again, and everything else from the state that is there."""
    before = make.unpack(kind, tmp_path)
    after: list[Any] = []
    make.write(tmp_path / "rows", 2, make.parts()[-1])
    drain(spark, tmp_path / "marks")
    make.start(spark, kind, tmp_path, after).awaitTermination()
    assert before
    assert after
    assert sorted(told(before + after), key=repr) == sorted(WANTED[kind](), key=repr)


def told(answers: list[dict[str, Any]]) -> list[Told]:
    """Result rows as (query, key, end, rank, previous rank, score, who); changes have no score.

    Of rows that carry more than their id, all of it is told.
    """
    return [
        (
            row.get("query"),
            row.get("sector"),
            row["end"],
            row["rank"],
            row.get("previous_rank"),
            None if "change" in row else row["score"],
            (row["id"], row["name"], row["ts"])
            if "ts" in row
            else row.get("plate", row.get("name", row.get("id"))),
        )
        for row in answers
    ]


def ranked(windows: list[Any], query: str | None = None, key: str | None = None) -> list[Told]:
    """Whole rankings of the oracle as :func:`told` has them; ids become all that rows carry."""
    return [
        (query, key, window.end, rank, None, score, carried(id))
        for window in windows
        for rank, (score, id) in enumerate(window.rows, start=1)
    ]


def changed(windows: list[Any]) -> list[Told]:
    """Changes between the windows of the oracle."""
    return [
        (None, None, end, rank or None, was or None, None, carried(id))
        for end, ranks in oracle.changes(windows, SLIDE, FOREVER)
        for id, (rank, was) in ranks.items()
    ]


def carried(id: Any) -> Any:
    row = BY_ID.get(id)
    return id if row is None else (id, row["name"], row["ts"])


ROWS = make.rows()
BY_ID = {row["id"]: row for row in ROWS}


def column(name: str, rows: make.Rows = ROWS) -> list[Any]:
    return [row[name] for row in rows]


def by_key() -> list[tuple[Any, make.Rows]]:
    """The rows of each sector, in the order of time."""
    return [(key, [row for row in ROWS if row["sector"] == key]) for key in ("a", "b", "c", None)]


def windows(rows: make.Rows, size: int) -> list[Any]:
    return oracle.time_windows(
        column("price", rows), column("ts", rows), size, SLIDE, 3, 0, column("id", rows)
    )


def top_k() -> list[Told]:
    return [one for key, rows in by_key() for one in ranked(windows(rows, 3 * SLIDE), key=key)]


def sequence() -> list[Told]:
    return ranked(oracle.count_windows(column("price"), 17, 5, 3, column("id")))


def arrival() -> list[Told]:
    """Rows of a key arrive by time, and by id where times are equal."""
    return [
        one
        for key, rows in by_key()
        for one in ranked(
            oracle.count_windows(column("price", rows), 8, 3, 2, column("id", rows)), key=key
        )
    ]


def workload() -> list[Told]:
    scores = {"wide": column("price"), "uneven": [a and -a for a in column("amount")]}
    found = []
    for name, query in make.WORKLOAD.queries.items():
        window: Any = query.window
        shape = (window.size, window.slide, query.k, window.offset)
        answers = oracle.time_windows(scores[name], column("ts"), *shape, column("id"))
        found += ranked(answers, query=name)
    return found


def dominating(rows: make.Rows, size: int, key: str | None = None) -> list[Told]:
    points = [
        None
        if row["price"] is None or math.isnan(row["price"]) or row["amount"] is None
        else (row["price"], -row["amount"])
        for row in rows
    ]
    answers = oracle.time_dominating(points, column("ts", rows), size, SLIDE, 3)
    ids = column("id", rows)  # which ascend, as places do
    named = [
        oracle.Answer(one.start, one.end, tuple((score, ids[at]) for score, at in one.rows))
        for one in answers
    ]
    return ranked(named, key=key)


def dominating_by_key() -> list[Told]:
    return [one for key, rows in by_key() for one in dominating(rows, 3 * SLIDE, key)]


def objects(id: str) -> list[Any]:
    rows = [(row[id], make.CAMERAS.index(row["camera"]), row["speed"]) for row in ROWS]
    times = column("ts")
    return oracle_incomplete.time_incomplete(rows, times, 3 * SLIDE, SLIDE, 3, "sum", [0.0, 0.0])


def totals(by: str, values: list[Any]) -> list[Any]:
    shape = (3 * SLIDE, SLIDE, by, 3)
    return oracle_totals.time_totals(column("name"), values, column("ts"), *shape)


WANTED = {
    "top_k": top_k,
    "changes": lambda: changed(windows(ROWS, 11 * SECOND)),
    "sequence": sequence,
    "arrival": arrival,
    "workload": workload,
    "dominating": lambda: dominating(ROWS, 11 * SECOND),
    "dominating_by_key": dominating_by_key,
    "incomplete": lambda: ranked(objects("plate")),
    "incomplete_changes": lambda: [(*one[:-1], one[-1][0]) for one in changed(objects("id"))],
    "totals": lambda: ranked(totals("sum", column("amount"))),
    "totals_changes": lambda: changed(totals("count", [1.0] * len(ROWS))),
}
"""What all rows come to, by the kind of state."""
