"""Objects of incomplete streams in staged files, ranked on Spark as by the local engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from skyband import IncompleteMonitor, TopKIncomplete, last
from skyband.spark.families.incomplete.file import IncompleteFile
from skyband.spark.files import Staged, rank_staged

pytestmark = pytest.mark.spark

QUERY = TopKIncomplete(4, ["a", "b"], last(time=50, slide=20), (1.0, 0.25), (0, 2), repeats="max")


@pytest.mark.parametrize(
    ("query", "keys", "later"),
    [
        (QUERY, 1, 0),
        (QUERY, 1, 1 << 59),  # ticks that are no moments
        (replace(QUERY, emit="changes"), 3, 0),
        (replace(QUERY, window=last(count=33, slide=10)), 1, 0),
        (replace(QUERY, window=last(count=33, slide=10, full=True)), 3, 0),
    ],
)
def test_files_are_ranked_as_by_the_local_engine(
    spark: SparkSession, tmp_path: Path, query: Any, keys: int, later: int
) -> None:
    chance = np.random.default_rng(4)
    count, timed = 300, query.window != QUERY.window
    key = np.sort(chance.integers(0, keys, count))
    place = np.concatenate(
        [
            later + np.sort(chance.integers(0, 500, n)) if not timed else np.arange(n)
            for n in np.bincount(key).tolist()
        ]
    )
    object, stream = chance.integers(0, 12, count), chance.integers(0, 2, count)
    value = chance.integers(0, 9, count) / 4
    columns = {"key": key, "place": place, "row": np.arange(count), "object": object}
    columns |= {"value": value, "stream": stream}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    last_rows = np.append(np.flatnonzero(np.diff(key)), count - 1)
    ends = {name: column[last_rows] for name, column in columns.items()}
    ends |= {"row": np.full(len(last_rows), 1 << 62), "value": np.full(len(last_rows), np.nan)}
    pq.write_table(pa.table(ends), tmp_path / "ends.parquet")
    staged = Staged(tmp_path / "rows.parquet", tmp_path / "ends.parquet" if timed else None, False)
    on_spark: dict[tuple[int, int], Any] = {}
    ranking = IncompleteFile(query, "auto", keys > 1)
    answers = rank_staged(spark, staged, ranking, tmp_path / "out")
    for owner, ranked in answers:
        for number, window in zip(owner.tolist(), ranked, strict=True):
            if len(window.id):
                rows = zip(window.rank, window.score, window.id, strict=True)
                on_spark[number, window.end] = sorted(tuple(map(float, row)) for row in rows)
    locally: dict[tuple[int, int], Any] = {}
    for number in range(keys):
        of_key = key == number
        monitor = IncompleteMonitor(query)
        times = {} if timed else {"times": place[of_key]}
        parts = [
            monitor.push(object[of_key], stream[of_key], value[of_key], **times),
            *([] if timed else [monitor.finish()]),
        ]
        for ranked in parts:
            for window in ranked:
                if len(window.id):
                    rows = zip(window.rank, window.score, window.id, strict=True)
                    locally[number, window.end] = sorted(tuple(map(float, row)) for row in rows)
    assert on_spark == locally
