"""Batch = stream = oracle, on the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from skyband.spark import drain, top_k
from skyband.spark.state import candidates
from skyband.spark.state.packed import PackedSpec
from tests import oracle
from tests.spark import samples
from tests.spark.samples import SECOND

pytestmark = pytest.mark.spark

QUERIES = [
    pytest.param(3, 20, 10, 0, "", id="two panes"),
    pytest.param(4, 25, 10, 0, "sector", id="slide does not divide the window, keys"),
    pytest.param(50, 12, 5, 3, "", id="k beyond the window, offset"),
    pytest.param(1, 60, 1, 0, "sector", id="sixty panes"),
    pytest.param(5, 7, 7, 2, "sector", id="tumbling"),
]


def _options(k: int, size: int, slide: int, offset: int, key: str) -> dict[str, object]:
    return {
        "k": k,
        "by": "price",
        "time": "ts",
        "window": f"{size} seconds",
        "slide": f"{slide} seconds",
        "offset": f"{offset} seconds",
        "id": "id",
        "keep": ["id", "ts"],
        "partition_by": key or None,
    }


@pytest.mark.parametrize(("k", "size", "slide", "offset", "key"), QUERIES)
def test_a_batch_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, k: int, size: int, slide: int, offset: int, key: str
) -> None:
    rows = samples.rows(k, 300)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, k))
    leaders = top_k(spark.read.parquet(source), **_options(k, size, slide, offset, key)).collect()
    expected = samples.expected(rows, k, size * SECOND, slide * SECOND, offset * SECOND, key)
    assert samples.result_rows(leaders, *([key] if key else [])) == expected


@pytest.mark.parametrize(("k", "size", "slide", "offset", "key"), QUERIES)
def test_a_stream_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, k: int, size: int, slide: int, offset: int, key: str
) -> None:
    rows = samples.rows(k + 100, 200)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, k))
    options = _options(k, size, slide, offset, key) | {"delay": "10 minutes"}
    leaders = samples.run_and_drain(spark, tmp_path, source, **options)
    expected = samples.expected(rows, k, size * SECOND, slide * SECOND, offset * SECOND, key)
    assert samples.result_rows(leaders, *([key] if key else [])) == expected


@pytest.mark.parametrize("blocks_first", [False, True])
def test_a_long_ranking_goes_on_in_blocks_and_pane_by_pane(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks_first: bool
) -> None:
    rows, marks = samples.rows(7, 200), str(tmp_path / "marks")
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 7))
    options = _options(300, 25, 10, 0, "") | {"delay": "10 seconds"}
    in_blocks: list[int] = []
    pack = PackedSpec.pack

    def noted(spec: PackedSpec, panes: DataFrame) -> DataFrame:
        in_blocks.append(spec.plain.k)
        return pack(spec, panes)

    monkeypatch.setattr(PackedSpec, "pack", noted)
    for ended in (False, True):
        least = candidates._MANY if ended != blocks_first else 301
        with monkeypatch.context() as patch:
            patch.setattr(candidates, "_MANY", least)
            if ended:
                drain(spark, marks)
            query = samples.run(
                top_k(samples.stream(spark, source), drain=marks, **options), tmp_path
            )
        if not ended:  # candidates go on
            assert query.lastProgress["stateOperators"][0]["numRowsTotal"] > 0
        assert len(in_blocks) == (ended or blocks_first)
    leaders = spark.read.parquet(str(tmp_path / "out")).collect()
    expected = samples.expected(rows, 300, 25 * SECOND, 10 * SECOND, 0, "")
    assert samples.result_rows(leaders) == expected


@pytest.mark.parametrize("streaming", [False, True])
def test_a_sequence_column_makes_count_windows(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    rows = samples.rows(5, 157)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    options = {"k": 4, "by": "price", "sequence": "seq", "window": 25, "slide": 10, "keep": "id"}
    if streaming:
        leaders = samples.run_and_drain(spark, tmp_path, source, delay=200, **options)
    else:
        leaders = top_k(spark.read.parquet(source), **options).collect()
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    windows = oracle.count_windows(scores, 25, 10, 4, [row["id"] for row in rows])
    assert samples.result_rows(leaders) == sorted(samples.oracle_rows(windows))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_count_windows_by_arrival_follow_time(
    spark: SparkSession, tmp_path: Path, streaming: bool, emit: str
) -> None:
    rows = samples.rows(9, 157)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    options = {
        "k": 3,
        "by": "price",
        "time": "ts",
        "window": 12,
        "slide": 5,
        "id": "id",
        "keep": "id",
        "partition_by": "sector",
        "emit": emit,
    }
    if streaming:
        leaders = samples.run_and_drain(spark, tmp_path, source, delay="10 minutes", **options)
    else:
        leaders = top_k(spark.read.parquet(source), **options).collect()
    expected: list[tuple[object, ...]] = []
    for key in ("None", "a", "b"):
        key_rows = [row for row in rows if str(row["sector"]) == key]
        key_rows.sort(key=lambda row: (row["ts"], row["id"]))
        scores = [None if row["price"] is None else row["price"] + 0.0 for row in key_rows]
        windows = oracle.count_windows(scores, 12, 5, 3, [row["id"] for row in key_rows])
        if emit == "all":
            expected += samples.oracle_rows(windows, key)
            continue
        expected += [
            (key, end, rank or None, previous or None, id)
            for end, changes in oracle.changes(windows, 5)
            for id, (rank, previous) in changes.items()
        ]
    if emit == "all":
        assert samples.result_rows(leaders, "sector") == sorted(expected)
        return
    reports = [
        (str(row.sector), row.window.end, row["rank"], row.previous_rank, row.id) for row in leaders
    ]
    assert sorted(reports, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("streaming", [False, True])
def test_changes_say_what_entered_left_and_moved(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    rows = samples.rows(3, 150)
    source = samples.write(tmp_path / "rows", samples.split(rows, 3, 5))
    options = _options(3, 25, 10, 0, "") | {"emit": "changes"}
    if streaming:
        leaders = samples.run_and_drain(spark, tmp_path, source, delay="10 minutes", **options)
    else:
        leaders = top_k(spark.read.parquet(source), **options).collect()
    scores = [None if row["price"] is None else row["price"] + 0.0 for row in rows]
    windows = oracle.time_windows(
        scores,
        [row["ts"] for row in rows],
        25 * SECOND,
        10 * SECOND,
        3,
        ids=[row["id"] for row in rows],
    )
    answers = [*windows, oracle.Answer(0, windows[-1].end + 10 * SECOND, ())]
    expected = {
        (end, id, rank or None, previous or None)
        for end, changes in oracle.changes(answers, 10 * SECOND)
        for id, (rank, previous) in changes.items()
    }
    reports = [
        (
            int(row.window.end.timestamp()) * SECOND,
            row.id,
            row["rank"],
            row.previous_rank,
        )
        for row in leaders
    ]
    assert len(reports) == len(expected)
    assert set(reports) == expected
    for row in leaders:
        kind = "left" if row["rank"] is None else "moved" if row.previous_rank else "entered"
        assert row.change == kind
