"""What a task does with a file, without Spark: the rows that may win, the counts, the memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import FileSystem, SubTreeFileSystem

from skyband.errors import DataError
from skyband.kernels.group_best import best_of_groups, best_of_panes
from skyband.spark.columns import ALL, COUNTS, POSITION, SCORE
from skyband.spark.scan import file_systems, pieces
from skyband.spark.scan.arithmetic import ColumnValue
from skyband.spark.scan.columns_of_files import (
    arrow_type,
    as_spark_reads,
    has_other_calendar,
    micros,
)
from skyband.spark.scan.file_systems import located, needs_trial, tried, why_not_opened
from skyband.spark.scan.pieces import COUNTED, Scan
from skyband.spark.scan.reduction import BestRows, Ranking
from skyband.spark.scan.values import ScanAxis, ScanColumn, ScanScore
from skyband.spark.warm_up import _load_scan

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
    stretches = [{"path": f"file:{file}", "low": 0, "high": 1 << 40, "now": now} for file in files]
    return reader(iter([pa.RecordBatch.from_pylist(stretches)]))


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


@pytest.mark.compiled
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


def test_a_piece_has_the_row_groups_that_begin_in_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    wide(file, 1000, 100)
    for size in (1000, 7777, 1 << 20):
        stretches = [
            {"path": f"file:{file}", "low": low, "high": low + size, "now": BASE}
            for low in range(0, file.stat().st_size, size)
        ]
        read = list(scan(TYPES)(iter([pa.RecordBatch.from_pylist(stretches)])))
        counts = [row[COUNTS] for batch in read for row in batch.to_pylist() if row[COUNTS]]
        assert sum(count["rows"] for count in counts) == 1000
        assert len(counts) == len(stretches)


@pytest.mark.parametrize(
    ("stored", "type", "expected"),
    [
        (pa.array([2**64 - 1, None], pa.uint64()), "decimal(20,0)", [2**64 - 1, None]),
        (pa.array([255], pa.uint8()), "smallint", [255]),
        (pa.array([65535], pa.uint16()), "int", [65535]),
        (pa.array([2**32 - 1], pa.uint32()), "bigint", [2**32 - 1]),
        (pa.array([7], pa.int32()), "double", [7.0]),
        (pa.array([7], pa.int32()), "decimal(12,2)", [7]),
        (pa.array([7]).cast(pa.decimal256(30, 2)), "decimal(32,3)", [7]),
        (pa.array(["ä", None], pa.string_view()), "string", ["ä", None]),
        (pa.array([b"b", None], pa.binary_view()), "binary", [b"b", None]),
        (pa.array([b"b"], pa.binary(1)), "binary", [b"b"]),
        (pa.array([b"enum"]), "string", ["enum"]),
        (pa.array(["text"]), "binary", [b"text"]),
        (pa.array(["text"]).dictionary_encode(), "string", ["text"]),
        (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])), "string", ["{}"]),
        (pa.nulls(2), "double", [None, None]),
        (pa.array([3], pa.timestamp("us")), "timestamp", [3]),
        (pa.array([3], pa.timestamp("ms")), "timestamp", [3000]),
        (pa.array([3], pa.timestamp("us", "Europe/Berlin")), "timestamp_ntz", [3]),
    ],
)
def test_types_that_spark_reads(stored: Any, type: str, expected: list[Any]) -> None:
    column = as_spark_reads(stored, type, "n", "x.parquet")
    assert column.type == arrow_type(type)
    column.validate(full=True)
    assert micros(column).to_pylist() == expected


@pytest.mark.parametrize(
    ("stored", "type"),
    [
        (pa.array([1]), "double"),
        (pa.array([1]), "int"),
        (pa.array([1.0]), "float"),
        (pa.array(["1"]), "bigint"),
        (pa.array([1], pa.timestamp("ns")), "timestamp"),
        (pa.array([1], pa.date32()), "timestamp_ntz"),
        (pa.array([1]).cast(pa.decimal128(22, 2)), "decimal(22,3)"),
    ],
)
def test_types_that_are_left_to_spark(stored: Any, type: str) -> None:
    with pytest.raises(DataError, match=r"x.parquet holds n as .*; .* source.scan: false in a job"):
        as_spark_reads(stored, type, "n", "x.parquet")


@pytest.mark.parametrize(
    ("version", "int96", "old"),
    [
        (b"2.4.8", False, True), (b"2.4.8", True, True), (b"3.0.3", False, False),
        (b"3.0.3", True, True), (b"3.1.0", True, False), (b"4.2.0-SNAPSHOT", True, False),
    ],
)  # fmt: skip
def test_calendars(version: bytes, int96: bool, old: bool) -> None:
    assert has_other_calendar({b"org.apache.spark.version": version}, int96) == old
    assert not has_other_calendar({}, int96)
    assert has_other_calendar({b"org.apache.spark.legacyINT96": b""}, int96)


def test_damaged_pages_are_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    wide(file, 1000, 1000)
    content = bytearray(file.read_bytes())
    content[10:2000] = b"x" * 1990
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"\[FAILED_READ_FILE\] file:.*rows.parquet cannot be read"):
        rows_of(scan(TYPES), file)


def test_paths_are_quoted_for_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uris: list[str] = []

    def from_uri(uri: str) -> tuple[str, str]:
        uris.append(uri)
        return "a file system", "a place"

    class Remote:
        pass

    remote = Remote()
    remote.from_uri = from_uri  # type: ignore[attr-defined]
    monkeypatch.setattr(file_systems, "FileSystem", remote)
    places = "a file system", "a place"
    assert located("s3a://bucket/in 100%/a=b/part.parquet") == places
    located("hdfs://host:8020/x#y?z/ä")
    located("hdfs:///x")
    assert uris == [
        "s3://bucket/in%20100%25/a%3Db/part.parquet",
        "hdfs://host:8020/x%23y%3Fz/%C3%A4",
        "hdfs:///x",
    ]
    assert located("file:/in 100%/x") == located("file:///in 100%/x") == (None, "/in 100%/x")


def test_file_systems_are_tried_when_a_query_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    assert why_not_opened("in/*", "file:///") is None
    assert why_not_opened("file:/x", "hdfs://host") is None
    assert why_not_opened("abfs://x@y/z", "file:///") == "Arrow does not open abfs: files"
    assert why_not_opened("in", "hdfs://host") == "in is relative to a folder of hdfs://host"
    local = SubTreeFileSystem(str(tmp_path), FileSystem.from_uri("file:///")[0])
    places = {"s3://bucket/in": "in", "s3://bucket/out": "out", "hdfs://host/in": "in"}

    class Remote:
        @staticmethod
        def from_uri(uri: str) -> tuple[FileSystem, str]:
            if uri.startswith("gs"):
                raise OSError("no library\nat all")
            return local, places[uri.removesuffix("/%2A.parquet")]

    monkeypatch.setattr(file_systems, "FileSystem", Remote)
    assert why_not_opened("s3a://bucket/in", "file:///") is None
    assert why_not_opened("s3a://bucket/in/*.parquet", "file:///") is None
    assert why_not_opened("/in", "hdfs://host/") is None
    reason = why_not_opened("s3a://bucket/out", "file:///")
    assert reason == "Arrow finds nothing at s3a://bucket/out"
    reason = why_not_opened("gs://bucket/in", "file:///")
    assert reason == "Arrow does not open gs: files here: no library"
    task = pa.RecordBatch.from_pydict({"id": [0]})
    (answer,) = tried("gs://bucket/in", "file:///", iter([task]))
    assert answer.to_pydict() == {"reason": ["Arrow does not open gs: files here: no library"]}
    remote = [("s3a://bucket/in", "file:///"), ("/in", "hdfs://host"), ("hdfs://host/in", "x")]
    assert all(needs_trial(*paths) for paths in remote)
    others = [("in", "file:///"), ("file:/in", "hdfs://host"), ("abfs://x@y/z", "file:///")]
    assert not any(needs_trial(*paths) for paths in others)


DAY = 86_400 * SECOND
COLUMNS = {
    "double": pa.float64(),
    "float": pa.float32(),
    "bigint": pa.int64(),
    "decimal(9,2)": pa.decimal128(9, 2),
}
VALUES: dict[str, Any] = {
    "double": st.sampled_from([None, np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1.5, 2.0, 1e300]),
    "float": st.sampled_from([None, np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.0]),
    "bigint": st.sampled_from([None, -(2**63), 2**63 - 1, 2**53 + 1, 0, 1, 2, 3]),
    "decimal(9,2)": st.sampled_from([None, Decimal("0.01"), Decimal("-0.50"), Decimal(7)]),
}
USUAL: dict[str, Any] = {  # times that fall into few panes
    "timestamp": st.integers(BASE - 9 * SECOND, BASE),
    "date": st.integers(19_670, 19_675),
    "bigint": st.integers(-9, 9),
}
ODD: dict[str, Any] = {  # of long ago, from ahead, far away from each other
    "timestamp": st.sampled_from([None, 0, -1, BASE + SKEW, BASE + SKEW + 1, 2**62]),
    "date": st.sampled_from([None, -1, 0, 19_600, 19_700]),
    "bigint": st.sampled_from([None, 2**62 - 1, 2**62]),
}
SLIDES = {"timestamp": 7 * SECOND, "date": 5 * DAY, "bigint": 7}


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    """Rows of some types in files of some row groups, and what is asked of them."""
    by, time = draw(st.sampled_from(sorted(COLUMNS))), draw(st.sampled_from(sorted(USUAL)))
    slide = SLIDES[time]
    times, values = USUAL[time], st.integers(0, draw(st.sampled_from([1, 9])))
    if draw(st.booleans()):
        times, values = st.one_of(times, times, ODD[time]), VALUES[by]
    row = st.tuples(times, values, st.sampled_from(["a", "ä", None]))
    return {
        "by": by,
        "time": time,
        "rows": draw(st.lists(row, min_size=1, max_size=90)),
        "group": draw(st.integers(1, 25)),
        "files": draw(st.integers(1, 3)),
        "k": draw(st.integers(1, 3)),
        "slide": slide,
        "split": draw(st.sampled_from([0, slide // 2])),
        "sign": draw(st.sampled_from([1, -1])),
        "keyed": draw(st.booleans()),
        "code": draw(st.sampled_from([0, 1 << 20])),  # whether keys are read as dictionaries
        "batch": draw(st.sampled_from([64, 300, 1 << 20])),
    }


@settings(max_examples=150)
@given(queries())
def test_rows_that_may_win_are_handed_on(query: dict[str, Any]) -> None:
    time, rows, sign = query["time"], query["rows"], query["sign"]
    stored = {"timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(), "bigint": pa.int64()}
    table = pa.table(
        {
            "ts": pa.array([row[0] for row in rows], pa.int64()).cast(
                pa.int32() if time == "date" else pa.int64()
            ).cast(stored[time]),
            "n": pa.array([row[1] for row in rows], COLUMNS[query["by"]]),
            "key": pa.array([row[2] for row in rows], pa.string()),
            "id": pa.array(range(len(rows)), pa.int64()),
        }
    )  # fmt: skip
    types = {"ts": time, "n": query["by"], "key": "string", "id": "bigint"}
    reader = scan(
        types, query["k"], "n", "ts", query["slide"], query["split"], sign,
        ["key"] if query["keyed"] else [], ["id", "key"],
    )  # fmt: skip
    size = -(-len(rows) // query["files"])
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_BATCH", query["batch"])
        patch.setattr(pieces, "_CODE", query["code"])
        files = [Path(folder) / f"{low}.parquet" for low in range(0, len(rows), size)]
        for number, file in enumerate(files):
            part = table.slice(number * size, size)
            pq.write_table(part, file, row_group_size=query["group"])
        handed_on, counts = rows_of(reader, *files)

    furthest = BASE + SKEW if time != "bigint" else (1 << 62) - 1
    expected: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    panes: dict[Any, list[tuple[Any, int, int]]] = defaultdict(list)
    newest = None
    for id, (at, value, key) in enumerate(rows):
        at = at * DAY if time == "date" and at is not None else at
        ahead = at is not None and at > furthest
        expected.update(rows=1, no_time=at is None, future=ahead)
        expected.update(null_score=value is None, nan_score=value is not None and value != value)
        if at is None or ahead:
            continue
        newest = at if newest is None else max(at, newest)
        if value is not None and value == value:
            pane, inside = divmod(at, query["slide"])
            late = bool(query["split"]) and inside >= query["split"]
            group = pane, late, key if query["keyed"] else None
            panes[group].append((value, sign * at, id))
    assert {name: sum(row[COUNTS][name] for row in counts) for name in COUNTED} == expected
    assert max((r[POSITION] for r in counts if r[POSITION] is not None), default=None) == newest
    ids = [row["kept_0"] for row in handed_on]
    assert len(set(ids)) == len(ids)
    for row in handed_on:
        at, value, key = rows[row["kept_0"]]
        assert row[POSITION] == (at * DAY if time == "date" else at)
        assert row["kept_1"] == key
        units = value
        if query["by"].startswith("decimal") and value is not None:
            units = Decimal(value).scaleb(2)
        assert row[SCORE] == (None if value != value else units)
    for members in panes.values():
        kth = sorted(members, reverse=True)[: query["k"]][-1]
        assert {id for value, at, id in members if (value, at) >= kth[:2]} <= set(ids)


def test_one_kernel_serves_all_batches(tmp_path: Path) -> None:
    batch = pa.record_batch({"id": [1]})
    assert list(_load_scan(iter([batch]))) == [batch]
    kernels = best_of_panes, best_of_groups
    before = [len(getattr(kernel, "signatures", [])) for kernel in kernels]
    chance = np.random.default_rng(1)
    times = [None, 0, BASE + 2 * SKEW, *(BASE + np.arange(3000) * 1000).tolist()]
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "price": pa.array(chance.random(3003), mask=chance.random(3003) < 0.1),
            "id": pa.array(np.arange(3003), mask=chance.random(3003) < 0.1),
        }
    )
    file = tmp_path / "rows.parquet"
    pq.write_table(table, file, row_group_size=1000)
    for by in ("price", "id"):
        for keys in ([], ["price"]):
            assert rows_of(scan(TYPES, by=by, keys=keys), file)[0]
    assert [len(getattr(kernel, "signatures", [])) for kernel in kernels] == before
