from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from skyband.spark import top_k

pytestmark = pytest.mark.spark


def test_a_batch_is_ranked(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id, double(id % 7) AS price FROM range(100)"
    )
    found = top_k(
        rows, k=2, by="price", time="ts", window="20 seconds", slide="10 seconds", keep="id"
    )
    first = found.orderBy("window", "rank").first()
    assert first is not None
    assert (first["rank"], first["score"], first["id"]) == (1, 6.0, 6)
