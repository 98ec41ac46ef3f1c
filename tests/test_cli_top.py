"""``skyband top`` against the oracle: every kind of file and window."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tests.command_line import (
    OF_FAMILIES,
    OF_WINDOWS,
    Runner,
    counted,
    counted_changes,
    few_rows,
    timed,
    timed_changes,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def stream():
    """200 rows with ties, NULL and NaN scores, keys with NULL, and times in any order."""
    rng = np.random.default_rng(5)
    rows = 200
    price = [None if rng.random() < 0.05 else float(rng.integers(1, 9)) / 4 for _ in range(rows)]
    price = [math.nan if at % 40 == 7 else value for at, value in enumerate(price)]
    return {
        "price": price,
        "volume": rng.integers(1, 5, rows).tolist(),
        "sector": [[None, "tech", "", "Öl", "energy"][at] for at in rng.integers(0, 5, rows)],
        "tick": rng.integers(-50, 150, rows).tolist(),
    }


@pytest.fixture(scope="module")
def scores(stream):
    return [
        None if price is None else price * volume
        for price, volume in zip(stream["price"], stream["volume"], strict=True)
    ]


@pytest.fixture(scope="module")
def files(stream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    start = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)
    moments = [start + timedelta(seconds=tick, microseconds=tick % 3) for tick in stream["tick"]]
    table = pa.table({**stream, "ts": pa.array(moments, pa.timestamp("us", "UTC"))})
    parquet.write_table(table, folder / "stream.parquet", row_group_size=17)
    plain = table.set_column(4, "ts", table["ts"].cast(pa.timestamp("us")))
    parquet.write_table(plain, folder / "plain.parquet")
    with (folder / "stream.jsonl").open("w") as out:
        for row in table.to_pylist():
            row["ts"] = row["ts"].isoformat()
            # JSON has no NaN: leave it out, as NULL
            out.write(json.dumps({k: v for k, v in row.items() if v is not None and v == v}) + "\n")
    with (folder / "stream.csv").open("w") as out:
        out.write("price,volume,sector,tick,ts\n")
        for row in table.to_pylist():
            cells = ["" if row[name] is None else str(row[name]) for name in stream]
            out.write(",".join([*cells, row["ts"].isoformat(sep=" ")]) + "\n")
    return folder


def micro(moment):
    return (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(("n", "s", "k"), [(20, 5, 3), (7, 3, 2), (30, 30, 4), (5, 1, 9)])
def test_count_windows(run, files, scores, kind, n, s, k):
    ran = run(
        "top", files / f"stream.{kind}", "--k", k, "--by", "price * volume",
        "--last", n, "--slide", s, "--format", "csv",
    )  # fmt: skip
    assert ran.code == 0
    assert ran.ranked == counted(scores, n, s, k)
    nulls = sum(score is None for score in scores)
    left_out = (
        f"{nulls} with a NULL score, 5 with a NaN score"
        if kind != "jsonl"
        else f"{nulls + 5} with a NULL score"
    )
    assert ran.err == f"skyband: not ranked: {left_out}\n"


def test_slide_defaults_to_the_window(run, files, scores):
    ran = run("top", files / "stream.csv", "--by", "price*volume", "--last", 40, "--format", "csv")
    assert ran.ranked == counted(scores, 40, 40, 10)


def test_wait_until_full(run, files, scores):
    ran = run(
        "top", files / "stream.csv", "--k", 2, "--by", "price*volume", "--last", 50,
        "--slide", 20, "--full", "--format", "csv",
    )  # fmt: skip
    assert ran.ranked == counted(scores, 50, 20, 2, full=True)


@pytest.mark.parametrize("algorithm", ["auto", "mintopk", "kskyband", "recompute"])
def test_algorithms_agree(run, files, scores, algorithm):
    ran = run(
        "top", files / "stream.parquet", "--k", 3, "--by", "price*volume", "--last", 20,
        "--slide", 10, "--algorithm", algorithm, "--format", "csv",
    )  # fmt: skip
    assert ran.ranked == counted(scores, 20, 10, 3)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    ("size", "slide", "offset", "k"), [(30, 10, 0, 3), (21, 4, 1, 2), (50, 50, -7, 5)]
)
def test_ticks_in_any_order(run, files, stream, scores, size, slide, offset, k, keyed):
    ran = run(
        "top", files / "stream.parquet", "--k", k, "--by", "price * volume", "--time", "tick",
        "--window", size, "--slide", slide, "--offset", offset, "--format", "csv",
        *(["--partition-by", "sector"] if keyed else []),
    )  # fmt: skip
    keys = stream["sector"] if keyed else None
    assert ran.ranked == timed(scores, stream["tick"], size, slide, k, offset=offset, keys=keys)


@pytest.mark.parametrize("name", ["stream.parquet", "plain.parquet", "stream.csv", "stream.jsonl"])
@pytest.mark.parametrize("keyed", [False, True])
def test_timestamps(run, files, scores, name, keyed, stream):
    ran = run(
        "top", files / name, "--k", 3, "--by", "price * volume", "--time", "ts",
        "--window", "1 minute", "--slide", "25 s", "--offset", "3 seconds", "--format", "csv",
        *(["--partition-by", "sector"] if keyed else []),
    )  # fmt: skip
    moments = [micro(m) for m in parquet.read_table(files / "stream.parquet")["ts"].to_pylist()]
    keys = stream["sector"] if keyed else None
    if keyed and name == "stream.csv":  # where an empty text is NULL
        keys = [key or None for key in keys]
    expected = timed(scores, moments, 60_000_000, 25_000_000, 3, offset=3_000_000, keys=keys)
    lines = [
        (
            micro(datetime.fromisoformat(row["window_start"] + "+00:00")),
            micro(datetime.fromisoformat(row["window_end"] + "+00:00")),
            int(row["rank"]),
            float(row["score"]),
            int(row["row"]),
        )
        for row in ran.rows
    ]
    assert lines == expected


@pytest.mark.parametrize("full", [False, True])
def test_partitions_in_count_windows(run, files, stream, scores, full):
    ran = run(
        "top", files / "stream.parquet", "--k", 2, "--by", "price * volume", "--last", 8,
        "--slide", 3, "--partition-by", "sector", "--format", "csv", *(["--full"] if full else []),
    )  # fmt: skip
    assert ran.ranked == counted(scores, 8, 3, 2, keys=stream["sector"], full=full)


def test_several_partition_columns(run, files, stream, scores):
    ran = run(
        "top", files / "stream.parquet", "--k", 2, "--by", "price * volume", "--last", 4,
        "--partition-by", "SECTOR", "--partition-by", "volume", "--format", "csv",
    )  # fmt: skip
    pairs = [
        (sector is not None, sector or "", volume)
        for sector, volume in zip(stream["sector"], stream["volume"], strict=True)
    ]
    assert ran.ranked == counted(scores, 4, 4, 2, keys=pairs)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("kind", ["count", "full", "time"])
def test_changes(run, files, stream, scores, kind, keyed):
    keys = stream["sector"] if keyed else None
    if kind == "time":
        window = ["--time", "tick", "--window", 30, "--slide", 10]
        expected = timed_changes(scores, stream["tick"], 30, 10, 3, keys=keys)
    else:
        full = kind == "full"
        window = ["--last", 20, "--slide", 6, *(["--full"] if full else [])]
        expected = counted_changes(scores, 20, 6, 3, keys=keys, full=full)
    ran = run(
        "top", files / "stream.parquet", "--k", 3, "--by", "price * volume", *window,
        "--emit", "changes", "--format", "csv", *(["--partition-by", "sector"] if keyed else []),
    )  # fmt: skip
    lines = [
        (
            int(row["window_end"]),
            int(row["rank"]) if row["rank"] else None,
            int(row["previous_rank"]) if row["previous_rank"] else None,
            int(row["row"]),
        )
        for row in ran.rows
    ]
    assert lines == expected
    changes = {(False, True): "left", (True, False): "entered", (True, True): "moved"}
    for row in ran.rows:
        assert row["change"] == changes[bool(row["rank"]), bool(row["previous_rank"])]


def test_standard_input(run, files, scores):
    expected = counted(scores, 20, 5, 3)
    arguments = ["--k", 3, "--by", "price * volume", "--last", 20, "--slide", 5, "--format", "csv"]
    for name in ("stream.csv", "stream.jsonl", "stream.parquet"):
        ran = run("top", "-", *arguments, stdin=(files / name).read_bytes())
        assert ran.ranked == expected


@pytest.mark.parametrize(
    "window",
    [
        ["--last", 100_000, "--slide", 30_000],
        ["--time", "time", "--window", 10_000],
        ["--last", 10_000, "--partition-by", "part"],
    ],
)
def test_row_numbers_of_a_long_file(run, long_files, window):
    """Many row groups, read by several threads: row is the number in the file, always."""
    outputs = []
    for path in long_files:
        ran = run("top", path, "--k", 5, "--by", "value", *window, "--format", "csv")
        assert ran.code == 0
        assert len(ran.rows) > 50
        for row in ran.rows:
            assert row["row"] == row["number"]
            assert row["score"] == row["value"]
        outputs.append(ran.out)
    assert outputs[0] == outputs[1]


@pytest.fixture(scope="module")
def long_files(tmp_path_factory):
    rows = 1_200_000
    rng = np.random.default_rng(2)
    number = np.arange(rows)
    time = rng.permutation(rows) // 7
    table = pa.table({"number": number, "value": rng.random(rows), "time": time, "part": time % 9})
    folder = tmp_path_factory.mktemp("long")
    parquet.write_table(table, folder / "long.parquet", row_group_size=9_973)
    csv.write_csv(table, folder / "long.csv")
    return folder / "long.parquet", folder / "long.csv"


def test_types_are_concluded_from_all_rows_if_need_be(run, tmp_path):
    """The first 30,000 rows look like whole numbers, the last one is not."""
    path = tmp_path / "late.csv"
    path.write_text("v,w\n" + "1,2\n" * 30_000 + "2.5,x\n")
    ran = run("top", path, "--k", 1, "--by", "v", "--last", 30_001, "--format", "csv")
    assert ran.code == 0
    assert ran.out.splitlines()[1] == "0,30001,1,2.5,30000,2.5,x"


def test_scores_follow_sql(run):
    text = "a,b\n1,0\n-1,0\n0,0\n3,2\n,1\n"
    ran = run("top", "-", "--by", "a / b", "--last", 5, "--format", "csv", stdin=text)
    assert [row["score"] for row in ran.rows] == ["inf", "1.5", "-inf"]
    assert ran.err == "skyband: not ranked: 1 with a NULL score, 1 with a NaN score\n"


def test_column_names_that_are_no_identifiers(run):
    text = 'unit price,"group"\n3,a\n5,b\n4,a\n'
    arguments = ["--k", 1, "--by", "unit price", "--last", 1, "--format", "csv"]
    ran = run("top", "-", *arguments, "--partition-by", "group", stdin=text)
    assert [row["row"] for row in ran.rows] == ["0", "1", "2"]


def test_output_to_a_file_sets_the_format(run, files, tmp_path):
    arguments = ["top", files / "stream.csv", "--by", "price", "--last", 50]
    printed = run(*arguments, "--format", "csv").out
    run(*arguments, "--out", tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_bytes().decode() == printed
    run(*arguments, "--out", tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())[0]["rank"] == 1
    run(*arguments, "--out", tmp_path / "found.txt")
    assert "rank" in (tmp_path / "found.txt").read_text()


def test_no_rows_still_have_a_header(run):
    header = "window_start,window_end,rank,score,row,price,volume\n"
    arguments = ["--by", "price * volume", "--last", 10, "--format"]
    assert run("top", "-", *arguments, "csv", stdin="price,volume\n").out == header
    assert run("top", "-", *arguments, "csv", stdin="price,volume\n1,2\n").out == header
    assert json.loads(run("top", "-", *arguments, "json", stdin="price,volume\n").out) == []
    timed = ["--by", "v", "--time", "t", "--window", "1 hour", "--format", "csv"]
    assert run("top", "-", *timed, stdin="t,v\n").out.count("\n") == 1


def test_null_times_are_counted(run):
    text = "t,v\n2024-01-01 00:00:01,1\n,2\n2024-01-01 00:00:02,3\n"
    arguments = ["--k", 1, "--by", "v", "--time", "t", "--window", "1 minute", "--format", "csv"]
    ran = run("top", "-", *arguments, stdin=text)
    assert [row["row"] for row in ran.rows] == ["2"]
    assert ran.err == "skyband: not ranked: 1 with a NULL time\n"


def test_time_may_be_an_expression(run):
    text = "day,v\nFeb 1 2024,1\nFeb 2 2024,2\n"
    ran = run(
        "top", "-", "--by", "v", "--time", "strptime(day, '%b %-d %Y')", "--window", "1 day",
        "--format", "csv", stdin=text,
    )  # fmt: skip
    assert [row["window_start"] for row in ran.rows] == [
        "2024-02-01 00:00:00",
        "2024-02-02 00:00:00",
    ]


def test_the_temporary_directory_is_removed(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run("top", "-", "--by", "v", "--last", 1, "--format", "csv", stdin="v\n1\n")
    run("top", "-", "--by", "nothing", "--last", 1, stdin="v\n1\n")
    run("top", "-", "--by", "v", "--last", 1, stdin="")
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_all_that_can_be_read(run, files, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("x\n1\n")
    err = run.fails(
        "top", files / "stream.csv", "--last", 5,
        "--by", f"list_sum((SELECT list(x) FROM read_csv('{secret}')))",
    )  # fmt: skip
    assert "a subquery" in err


def test_stdin_is_untouched_for_files(run, files, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("top", files / "stream.csv", "--by", "price", "--last", 5).code == 0


def test_small_files_are_left_to_this_process(monkeypatch):
    from skyband.cli.commands import rank

    small, large, piped = (
        SimpleNamespace(bytes=bytes, piped=piped)
        for bytes, piped in ((10, False), (11, False), (11, True))
    )
    monkeypatch.setattr(rank, "SMALL", 10)
    assert not rank.EngineChoice("auto").runs_spark(small)
    assert rank.EngineChoice("auto").runs_spark(large)
    assert not rank.EngineChoice("auto").runs_spark(piped)
    assert rank.EngineChoice("auto", "local[1]").runs_spark(small)
    assert rank.EngineChoice("spark").runs_spark(small)
    assert not rank.EngineChoice("local").runs_spark(large)


# ---------------------------------------------------------------- what Skyband advises

DIRTY = ["x", "", "3", "7.5", "-1", "nan", "1e3", "2"]
WINDOWS = {
    "counts": ["--last", 3, "--slide", 2],
    "counts by key": ["--last", 3, "--slide", 2, "--partition-by", "p"],
    "times": ["--time", "ts", "--window", "4 seconds", "--slide", "2 seconds"],
    "ticks by key": ["--time", "t", "--window", 4, "--slide", 2, "--partition-by", "p"],
}


@pytest.fixture(params=["csv", "tsv", "jsonl"])
def dirty(request, tmp_path):
    """The same rows with a clean column ``c``, and with texts among the numbers of ``v``."""
    path = tmp_path / f"dirty.{request.param}"
    clean = {"x": None, "": None, "nan": "nan"}
    rows = [
        {"t": at, "ts": f"2024-01-01 00:00:0{at}", "p": "ab"[at % 2], "v": v, "c": clean.get(v, v)}
        for at, v in enumerate(DIRTY)
    ]
    if request.param == "jsonl":
        for row in rows:
            row["v"] = float(row["v"]) if row["v"] in ("3", "7.5", "-1", "1e3", "2") else row["v"]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path
    sign = "," if request.param == "csv" else "\t"
    lines = [sign.join("" if v is None else str(v) for v in row.values()) for row in rows]
    path.write_text("\n".join([sign.join(rows[0]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_texts_among_numbers_count_as_null(run, dirty, window):
    """DuckDB would push the cast into the reader of CSV files, which then fails."""
    wanted = run("top", dirty, "--by", "TRY_CAST(c AS DOUBLE)", *window, "--format", "csv")
    ran = run("top", dirty, "--by", "TRY_CAST(v AS DOUBLE)", *window, "--format", "csv")
    assert ran == wanted
    assert ran.code == 0
    assert "2 with a NULL score, 1 with a NaN score" in ran.err
    assert max(float(row["score"]) for row in ran.rows) == 1000.0
    for by in ("TRY_CAST(v AS DOUBLE) * 1", "coalesce(TRY_CAST(v AS DOUBLE), NULL)"):
        assert run("top", dirty, "--by", by, *window, "--format", "csv") == wanted


def test_infinite_times_are_told_from_missing_ones(run):
    text = "t,v\n2024-01-01 10:00:00,1\ninfinity,2\n-infinity,3\n,4\n"
    arguments = ["--by", "v", "--time", "t", "--window", "1 hour", "--format", "csv"]
    for more in ([], ["--partition-by", "v"]):
        ran = run("top", "-", *arguments, *more, stdin=text)
        assert [row["score"] for row in ran.rows] == ["1"]
        assert "skyband: not ranked: 1 with a NULL time\n" in ran.err
        assert "skyband: not ranked: 2 with an infinite time\n" in ran.err
    dates = "t,v\n2024-01-01,1\ninfinity,2\n"
    assert run("top", "-", *arguments, stdin=dates).err == (
        "skyband: not ranked: 1 with an infinite time\n"
    )


# ---------------------------------------------------------------- a k beyond all rows


@pytest.fixture
def few(tmp_path):
    return few_rows(tmp_path)


@pytest.mark.parametrize("window", OF_WINDOWS.values(), ids=OF_WINDOWS)
@pytest.mark.parametrize("family", OF_FAMILIES)
def test_a_k_beyond_all_rows_asks_for_all(run, few, family, window):
    arguments = [family, few, *OF_FAMILIES[family], *window, "--format", "csv", "--k"]
    ran = run(*arguments, 1_000_000_000)
    assert ran.code == 0, ran
    assert ran == run(*arguments, 12)
    assert ran == run(*arguments, (1 << 62) - 1)


def test_a_workload_with_a_k_beyond_all_rows(run, few, tmp_path):
    outputs = []
    for k in (12, 1_000_000_000):
        queries = tmp_path / f"{k}.csv"
        queries.write_text(f"name,k,window,slide\na,{k},6,2\nb,2,4,4\n")
        for time in ([], ["--time", "t"]):
            arguments = ["--queries", queries, "--by", "v", *time, "--format", "csv"]
            outputs.append(run("workload", few, *arguments))
    assert outputs[:2] == outputs[2:]
    assert outputs[0].code == 0
