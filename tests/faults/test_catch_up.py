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
    """The same rows at once, in parts, and in other parts with late rows between them."""
    found = rows(seed=11, count=160, jumps=0.2)
    first, after = min(row["ts"] for row in found), later_than(found)
    # better than all others, of a window that was answered, of keys old and new
    late = [{**after, "ts": first, "sector": s, "price": 1e9} for s in ("metals", "later", None)]
    splits = {
        "at once": [found, [after]],
        "in parts": [*cut(found, 4, seed=2), [after]],
        "with late rows": [*cut(found, 2, seed=3), [after], [*late, after]],
    }
    for name, parts in splits.items():
        write(tmp_path / name / "source", parts)
        leaders = timed(spark, tmp_path / name / "source")
        started(leaders, tmp_path / name).awaitTermination()
    expected = expected_answers(found)
    for name in splits:
        assert answers(told(spark, tmp_path / name)) == expected, name
