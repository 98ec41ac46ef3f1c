"""However rows fall into micro-batches, and however far the watermark jumps: the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.trades import (
    answers,
    cut,
    expected_answers,
    later_than,
    make_trades,
    sink_rows,
    start,
    timed,
    write,
)

pytestmark = pytest.mark.spark


def test_splits_jumps_and_late_rows_never_change_an_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same rows at once, in parts, and in other parts with late rows between them."""
    trades = make_trades(seed=11, count=160, jumps=0.2)
    first, after = min(row["ts"] for row in trades), later_than(trades)
    # better than all others, of a window that was answered, of keys old and new
    late = [{**after, "ts": first, "sector": s, "price": 1e9} for s in ("metals", "later", None)]
    splits = {
        "at once": [trades, [after]],
        "in parts": [*cut(trades, 4, seed=2), [after]],
        "with late rows": [*cut(trades, 2, seed=3), [after], [*late, after]],
    }
    for name, parts in splits.items():
        write(tmp_path / name / "source", parts)
        leaders = timed(spark, tmp_path / name / "source")
        start(leaders, tmp_path / name).awaitTermination()
    expected = expected_answers(trades)
    for name in splits:
        assert answers(sink_rows(spark, tmp_path / name)) == expected, name
