"""The same answers over Spark Connect, and in a Declarative Pipeline.

One process and one server for all of it: starting them is what takes time.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests import oracle
from tests.spark.samples import SECOND
from tests.spark.scripts import run_script
from tests.spark.test_examples import assert_matches

pytestmark = pytest.mark.spark

MISTAKE = '''
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark import top_k

spark = SparkSession.active()


@dp.temporary_view
def mistaken():
    """top_k cannot be called in here, and says so."""
    try:
        top_k(spark.range(1), k=1, by="id", time="ts", window="1 hour")
    except QueryError as error:
        Path("refused").write_text(str(error))
    return spark.range(1)
'''


def test_connect_and_pipelines_give_what_the_oracle_gives(tmp_path: Path) -> None:
    mistaken = tmp_path / "pipeline" / "project" / "transformations" / "mistaken.py"
    mistaken.parent.mkdir(parents=True)
    mistaken.write_text(MISTAKE)
    output = run_script(Path(__file__).with_name("over_connect.py"), tmp_path, str(tmp_path))
    assert output.startswith("all is as it should be\n")
    assert_matches(output, "connect.py")
    check_tables(tmp_path / "tables", tmp_path / "pipeline" / "project", output)


def check_tables(tables: Path, project: Path, output: str) -> None:
    """The tables of the pipeline hold what the oracle says."""
    assert output.count("Run is COMPLETED.") == 2
    assert "return it from the function" in (project / "refused").read_text()

    trades = read(project / "trades")
    newest = max(row["ts"] for row in trades)
    closed = newest // (10 * SECOND) * 10 * SECOND - 5 * SECOND  # the delay
    table = read(tables / "biggest_trades")
    assert ranked(table) == expected(trades, 3, 10 * SECOND, closed)

    table = read(tables / "best_of_sector")
    assert len({row["sector"] for row in table}) > 5
    for sector in {row["sector"] for row in trades}:
        sector_trades = [row for row in trades if row["sector"] == sector]
        leaders = [row for row in table if row["sector"] == sector]
        assert ranked(leaders) == expected(sector_trades, 1, 30 * SECOND, None)


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND + moment.microsecond


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, moments as whole numbers."""
    rows: list[dict[str, Any]] = ds.dataset(path, format="parquet").to_table().to_pylist()
    return [row | {"ts": micros(row["ts"])} for row in rows]


def ranked(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(
        (micros(row["window"]["end"]), row["rank"], row["score"], row["symbol"], row["ts"])
        for row in rows
    )


def expected(
    trades: list[dict[str, Any]], k: int, slide: int, until: int | None
) -> list[tuple[Any, ...]]:
    answers = oracle.time_windows(
        [row["price"] * row["volume"] for row in trades],
        [row["ts"] for row in trades],
        30 * SECOND,
        slide,
        k,
        until=until,
    )
    return [
        (answer.end, rank, score, trades[at]["symbol"], trades[at]["ts"])
        for answer in answers
        for rank, (score, at) in enumerate(answer.rows, start=1)
    ]
