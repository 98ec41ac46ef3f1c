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
ResultRow = tuple[Any, ...]


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
    assert sorted(result_rows(before + after), key=repr) == sorted(EXPECTED[kind](), key=repr)


def result_rows(answers: list[dict[str, Any]]) -> list[ResultRow]:
    """Result rows as (query, key, end, rank, previous rank, score, who); changes have no score.

    Rows that keep more columns than their id have all of them in its place.
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


def oracle_rows(
    windows: list[Any], query: str | None = None, key: str | None = None
) -> list[ResultRow]:
    """Whole rankings of the oracle as :func:`result_rows` has them; ids become the kept columns."""
    return [
        (query, key, window.end, rank, None, score, kept_columns(id))
        for window in windows
        for rank, (score, id) in enumerate(window.rows, start=1)
    ]


def oracle_changes(windows: list[Any]) -> list[ResultRow]:
    """Changes between the windows of the oracle."""
    return [
        (None, None, end, rank or None, previous or None, None, kept_columns(id))
        for end, ranks in oracle.changes(windows, SLIDE, FOREVER)
        for id, (rank, previous) in ranks.items()
    ]


def kept_columns(id: Any) -> Any:
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
        column("price", rows),
        column("ts", rows),
        size,
        SLIDE,
        3,
        -(size % SLIDE),
        column("id", rows),
    )


def top_k() -> list[ResultRow]:
    return [row for key, rows in by_key() for row in oracle_rows(windows(rows, 3 * SLIDE), key=key)]


def sequence() -> list[ResultRow]:
    return oracle_rows(oracle.count_windows(column("price"), 17, 5, 3, column("id")))


def arrival() -> list[ResultRow]:
    """Rows of a key arrive by time, and by id where times are equal."""
    return [
        row
        for key, rows in by_key()
        for row in oracle_rows(
            oracle.count_windows(column("price", rows), 8, 3, 2, column("id", rows)), key=key
        )
    ]


def workload() -> list[ResultRow]:
    scores = {"wide": column("price"), "uneven": [a and -a for a in column("amount")]}
    rows = []
    for name, query in make.WORKLOAD.queries.items():
        window: Any = query.window
        shape = (window.size, window.slide, query.k, window.offset)
        answers = oracle.time_windows(scores[name], column("ts"), *shape, column("id"))
        rows += oracle_rows(answers, query=name)
    return rows


def dominating(rows: make.Rows, size: int, key: str | None = None) -> list[ResultRow]:
    points = [
        None
        if row["price"] is None or math.isnan(row["price"]) or row["amount"] is None
        else (row["price"], -row["amount"])
        for row in rows
    ]
    answers = oracle.time_dominating(points, column("ts", rows), size, SLIDE, 3, -(size % SLIDE))
    ids = column("id", rows)  # which ascend, as places do
    named = [
        oracle.Answer(
            window.start, window.end, tuple((score, ids[at]) for score, at in window.rows)
        )
        for window in answers
    ]
    return oracle_rows(named, key=key)


def dominating_by_key() -> list[ResultRow]:
    return [row for key, rows in by_key() for row in dominating(rows, 3 * SLIDE, key)]


def objects(id: str) -> list[Any]:
    rows = [(row[id], make.CAMERAS.index(row["camera"]), row["speed"]) for row in ROWS]
    times = column("ts")
    return oracle_incomplete.time_incomplete(rows, times, 3 * SLIDE, SLIDE, 3, "sum", [0.0, 0.0])


def totals(by: str, values: list[Any]) -> list[Any]:
    shape = (3 * SLIDE, SLIDE, by, 3)
    return oracle_totals.time_totals(column("name"), values, column("ts"), *shape)


EXPECTED = {
    "top_k": top_k,
    "changes": lambda: oracle_changes(windows(ROWS, 11 * SECOND)),
    "sequence": sequence,
    "arrival": arrival,
    "workload": workload,
    "dominating": lambda: dominating(ROWS, 11 * SECOND),
    "dominating_by_key": dominating_by_key,
    "incomplete": lambda: oracle_rows(objects("plate")),
    "incomplete_changes": lambda: [
        (*row[:-1], row[-1][0]) for row in oracle_changes(objects("id"))
    ],
    "totals": lambda: oracle_rows(totals("sum", column("amount"))),
    "totals_changes": lambda: oracle_changes(totals("count", [1.0] * len(ROWS))),
}
"""The answers over all rows, by the kind of state."""
