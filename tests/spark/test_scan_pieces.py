"""What a task does with a file, without Spark: the rows that may win, the counts, the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.spark.columns import ALL, COUNTS, POSITION, SCORE
from skyband.spark.scan import pieces
from skyband.spark.scan.arithmetic import ColumnValue
from skyband.spark.scan.columns_of_files import arrow_type, micros
from skyband.spark.scan.pieces import COUNTED, Scan
from skyband.spark.scan.reduction import BestRows, Ranking
from skyband.spark.scan.values import ScanAxis, ScanColumn, ScanScore

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
SKEW = 3600 * SECOND


def scan(
    types: dict[str, str],
    k: int = 3,
    by: str = "price",
    time: str = "ts",
    slide: int = 10 * SECOND,
    split: int = 0,
    sign: int = 1,
    keys: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Scan:
    """What a task would do for a query by a column, as its plan would say it."""
    node = ColumnValue(by, types[by])
    exact = types[by] == "bigint" or types[by].startswith("decimal(")
    scale = int(types[by][:-1].split(",")[1]) if types[by].startswith("decimal(") else None
    handed_on = [
        *(ScanColumn(f"key_{i}", ColumnValue(n, types[n]), True) for i, n in enumerate(keys)),
        *(ScanColumn(f"kept_{i}", ColumnValue(n, types[n])) for i, n in enumerate(keep)),
    ]
    fields = [
        *((column.name, _transported(column.node.type)) for column in handed_on),
        (SCORE, pa.int64() if exact else pa.float64()),
        (POSITION, pa.int64()),
        (COUNTS, pa.struct([(name, pa.int64()) for name in COUNTED])),
        *([] if keys else [(ALL, pa.int32())]),
    ]
    skew = SKEW if types[time].startswith("timestamp") or types[time] == "date" else None
    return Scan(
        types,
        None,
        (ScanScore(SCORE, node, exact, scale),),
        ScanAxis(time, types[time] == "date", skew, None if skew else 1 << 62),
        tuple(handed_on),
        BestRows((Ranking(k),), 0, slide, split, sign),
        pa.schema(fields),
        tuple(dict.fromkeys([time, by, *keys])),
    )


def _transported(type: str) -> pa.DataType:
    """The type in which a column passes through Python."""
    return micros(pa.array([], arrow_type(type))).type


def batches(reader: Scan, *files: Path, now: int = BASE) -> Iterator[pa.RecordBatch]:
    """What a task hands on that reads files."""
    asked = [{"path": f"file:{file}", "low": 0, "high": 1 << 40, "now": now} for file in files]
    return reader(iter([pa.RecordBatch.from_pylist(asked)]))


def rows_of(reader: Scan, *files: Path, now: int = BASE) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows that are handed on, and what was counted of each file."""
    rows = [row for batch in batches(reader, *files, now=now) for row in batch.to_pylist()]
    counts = [row for row in rows if row[COUNTS] is not None]
    return [row for row in rows if row[COUNTS] is None], counts


TYPES = {"ts": "timestamp", "price": "double", "id": "bigint"}


def wide(file: Path, rows: int, group: int, width: int = 100) -> None:
    """A file of rows in the order of their times, with a text of some width."""
    chance = np.random.default_rng(rows)
    table = pa.table(
        {
            "ts": pa.array(BASE + np.arange(rows) * 1000, pa.timestamp("us", "UTC")),
            "price": chance.random(rows),
            "id": np.arange(rows),
            "text": [f"{number:0{width}d}" for number in range(rows)],
        }
    )
    pq.write_table(table, file, row_group_size=group, use_dictionary=False, compression="none")


def peak(reader: Scan, file: Path) -> int:
    """The most memory that Arrow had while a task handed on the rows of a file."""
    pool, before = pa.default_memory_pool(), pa.total_allocated_bytes()
    most = 0
    for batch in batches(reader, file):
        most = max(most, pa.total_allocated_bytes())
        del batch
    assert pool.bytes_allocated() <= before + (1 << 20)
    return most - before


def test_a_row_group_is_not_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_STREAMED", 1 << 20)
    monkeypatch.setattr(pieces, "_BATCH", 1 << 17)
    monkeypatch.setattr(pieces, "_BUFFER", 1 << 16)
    file = tmp_path / "rows.parquet"
    wide(file, 120_000, 120_000)
    read = pa.total_allocated_bytes
    types = {**TYPES, "text": "string"}
    seen: list[int] = []
    admitted = Scan._admitted

    def watched(*arguments: Any) -> Any:
        seen.append(read())
        return admitted(*arguments)

    monkeypatch.setattr(Scan, "_admitted", watched)
    before = read()
    for by_text in (False, True):
        keys = ["text"] if by_text else []
        seen.clear()
        assert peak(scan(types, keys=keys, keep=["text"]), file) < 4 << 20
        assert max(seen) - before < 4 << 20  # the file has 15 MB
        assert len(seen) > 10


def test_an_old_row_among_new_ones_changes_little(tmp_path: Path) -> None:
    times = BASE + np.arange(20_000) * 1000
    table = pa.table(
        {
            "ts": pa.array([0, *times.tolist()], pa.timestamp("us", "UTC")),
            "price": np.random.default_rng(1).random(20_001),
            "id": np.arange(20_001),
        }
    )
    file = tmp_path / "rows.parquet"
    pq.write_table(table, file)
    rows, _ = rows_of(scan(TYPES, keep=["id"]), file)
    assert len(rows) <= 3 * 3 + 1
