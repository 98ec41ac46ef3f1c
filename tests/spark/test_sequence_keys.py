"""Windows that count the rows of all keys, ranked per key."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from skyband.spark import top_k
from tests.oracle import time_windows

pytestmark = pytest.mark.spark


def test_a_key_is_ranked_as_long_as_its_rows_are_among_the_last(spark: SparkSession) -> None:
    """Rows of other keys complete the windows of a key that has fallen silent."""
    keys = ["a"] * 5 + ["b"] * 40 + ["c", "b"] * 4 + ["b"] * 9
    scores = [float(i * 7 % 11) for i in range(len(keys))]
    rows = [(i, i, score, key) for i, (score, key) in enumerate(zip(scores, keys, strict=True))]
    df = spark.createDataFrame(rows, "seq bigint, id bigint, price double, key string")
    leaders = top_k(
        df, k=2, by="price", window=25, slide=10, sequence="seq", partition_by="key", keep="id"
    )
    answers = sorted((r.key, r.window.end, r["rank"], r.score, r.id) for r in leaders.collect())
    expected = []
    for key in "abc":
        positions = [i for i, other in enumerate(keys) if other == key]
        for window in time_windows(
            [scores[i] for i in positions], positions, 25, 10, 2, -5, positions, len(keys)
        ):
            expected += [
                (key, window.end, rank, score, id)
                for rank, (score, id) in enumerate(window.rows, start=1)
            ]
    assert {(key, end) for key, end, *_ in expected} >= {("a", 10), ("a", 20), ("c", 60)}
    assert answers == sorted(expected)
