"""However rows fall into micro-batches, and however far the watermark jumps: the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.market import (
    answers,
    cut,
    expected_answers,
    later_than,
    rows,
    started,
    timed,
    told,
    write,
)

pytestmark = pytest.mark.spark


def test_splits_jumps_and_late_rows_never_change_an_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same rows at once, in few parts, in many; and once more with late rows in between."""
    found = rows(seed=11, count=160, jumps=0.2)
    first, after = min(row["ts"] for row in found), later_than(found)
    # better than all others, of a window that was answered, of keys old and new
    late = [{**after, "ts": first, "sector": s, "price": 1e9} for s in ("metals", "later", None)]
    splits = {
        "at once": [found, [after]],
        "in few parts": [*cut(found, 3, seed=1), [after]],
        "in many parts": [*cut(found, 7, seed=2), [after]],
        "with late rows": [*cut(found, 3, seed=3), [after], late, [after, *late]],
    }
    for name, parts in splits.items():
        write(tmp_path / name / "source", parts)
    queries = [
        started(timed(spark, tmp_path / name / "source"), tmp_path / name) for name in splits
    ]
    for query in queries:
        query.awaitTermination()
    expected = expected_answers(found)
    for name in splits:
        assert answers(told(spark, tmp_path / name)) == expected, name
