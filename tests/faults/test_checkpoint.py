"""A checkpoint that was damaged, or taken for another query: an error, never a wrong answer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skyband.errors import QueryError, SnapshotError
from skyband.spark import claim
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


class Begun(NamedTuple):
    """A stream that has read some of its files, and what it will have answered at the end."""

    source: Path
    home: Path
    expected: list[Any]


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    trades = make_trades(seed=13, count=120)
    *parts, rest = cut(trades, parts=3, seed=13)
    home = tmp_path_factory.mktemp("begun")
    source = home / "source"
    write(source, parts)
    leaders = timed(spark, source)
    claim(leaders, str(home / "checkpoint"))
    start(leaders, home).awaitTermination()
    write(source, [rest, [later_than(trades)]], first=len(parts))
    return Begun(source, home, expected_answers(trades))


def copy_of(begun: Begun, to: Path) -> Path:
    for name in ("checkpoint", "out"):
        shutil.copytree(begun.home / name, to / name)
    return to


def newest(checkpoint: Path, log: str) -> Path:
    """The newest file of a log, by its number; without the checksum beside it."""
    file = max(checkpoint.glob(log), key=lambda file: int(file.name.partition(".")[0]))
    (file.parent / f".{file.name}.crc").unlink()
    return file


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garbled(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x55
    file.write_bytes(data)


OFFSETS, COMMITS = "offsets/[0-9]*", "commits/[0-9]*"
CANDIDATES, PANES = "state/0/0/*.changelog", "state/1/0/*.changelog"
DAMAGES = [
    (OFFSETS, emptied),
    (OFFSETS, halved),
    (COMMITS, emptied),
    (CANDIDATES, halved),
    (CANDIDATES, garbled),
    (PANES, Path.unlink),
]


def test_damage_is_an_error(spark: SparkSession, begun: Begun, tmp_path: Path) -> None:
    for number, (log, damage) in enumerate(DAMAGES):
        here = copy_of(begun, tmp_path / str(number))
        damage(newest(here / "checkpoint", log))
        query = start(timed(spark, begun.source), here)
        with pytest.raises(PySparkException):
            query.awaitTermination()
        rows = answers(sink_rows(spark, here))
        assert len(rows) == len(set(rows)), (log, damage)
        assert set(rows) < set(begun.expected), (log, damage)


def test_a_log_that_was_altered_is_refused(
    spark: SparkSession, begun: Begun, tmp_path: Path
) -> None:
    """A wrong watermark would end windows too soon, and Spark would believe it."""
    here = copy_of(begun, tmp_path)
    file = max((here / "checkpoint/offsets").glob("[0-9]*"))
    text = file.read_text()
    file.write_text(text.replace('"batchWatermarkMs":17', '"batchWatermarkMs":18'))
    assert file.read_text() != text
    with pytest.raises(SnapshotError, match=r"log of checkpoint .* is damaged"):
        claim(timed(spark, begun.source), str(here / "checkpoint"))


def test_another_query_is_refused_and_the_first_goes_on(
    spark: SparkSession, begun: Begun, tmp_path: Path
) -> None:
    """Also after the last commit was lost: Spark repeats that batch, and the sink overwrites it."""
    here = copy_of(begun, tmp_path)
    checkpoint = str(here / "checkpoint")
    changes = {"k": 4, "slide": "5 seconds", "by": "price * 2", "delay": "0 seconds"}
    for name, value in changes.items():
        other = timed(spark, begun.source, **{name: value})
        with pytest.raises(QueryError, match="belongs to another query") as refused:
            claim(other, checkpoint)
        assert ("score" if name == "by" else name) + " was" in str(refused.value)
    newest(here / "checkpoint", COMMITS).unlink()
    leaders = timed(spark, begun.source)
    claim(leaders, checkpoint)
    start(leaders, here).awaitTermination()
    assert answers(sink_rows(spark, here)) == begun.expected
