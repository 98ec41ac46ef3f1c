"""What ``skyband top`` prints: exact CSV, valid JSON, tables for people."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skyband.cli import options
from skyband.cli.output import cells, leaderboard, tables
from skyband.engine.results import Ranked
from tests.command_line import Runner


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


ODD = {
    "text": ['say "hi"', "a,b", "line\nbreak", "", None, "ünïcode ☃", " space ", "cr\r"],
    "float": [0.1, 1e300, -0.0, float("inf"), float("-inf"), None, 5e-324, 1 / 3],
    "single": pa.array([0.1, 1, 2, 3, None, 5, 6, 7], pa.float32()),
    "whole": [-(2**63), 2**63 - 1, 0, None, 4, 5, 6, 7],
    "truth": [True, False, None, True, False, True, False, True],
    "decimal": [None, *(Decimal(f"{at}.50") for at in range(7))],
    "day": [date(2024, 2, 29), None, date(1, 1, 1), *[date(1999, 12, 31)] * 5],
    "clock": [time(1, 2, 3), time(1, 2, 3, 4), None, *[time(0)] * 5],
    "moment": [datetime(2024, 2, 29, 12, 30), datetime(1969, 12, 31, 23, 59, 59, 1), *[None] * 6],
    "list": [[1, 2], [], None, *[[3]] * 5],
    "record": [{"a": 1, "b": None}, *[{"a": 2, "b": "x"}] * 7],
    "bytes": [b"\x00a", *[b"b"] * 7],
}
WRITTEN = {  # of the first row but where noted
    "text": '"say ""hi"""',
    "float": "0.1",
    "single": "0.10000000149011612",
    "whole": "-9223372036854775808",
    "truth": "true",
    "decimal": "",
    "day": "2024-02-29",
    "clock": "01:02:03",
    "moment": "2024-02-29 12:30:00",
    "list": '"[1,2]"',
    "record": '"{""a"":1,""b"":null}"',
    "bytes": "\\x00a",
}


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd.parquet"
    parquet.write_table(pa.table({"score": list(range(8, 0, -1)), **ODD}), path)
    return path


def test_every_type_as_csv(run, odd):
    out = run("top", odd, "--k", 8, "--by", "score", "--last", 8, "--format", "csv").out
    header = "window_start,window_end,rank,score,row,score_1," + ",".join(ODD)
    first = "0,8,1,8,0,8," + ",".join(WRITTEN.values())
    assert out.startswith(f"{header}\n{first}\n")
    assert out.endswith("\n")
    rows = list(csv.reader(io.StringIO(out, newline="")))
    columns = dict(zip(rows[0][6:], zip(*(row[6:] for row in rows[1:]), strict=True), strict=True))
    assert list(columns["text"]) == [text or "" for text in ODD["text"]]
    assert columns["float"] == (
        "0.1", "1e+300", "-0.0", "inf", "-inf", "", "5e-324", "0.3333333333333333",
    )  # fmt: skip
    assert columns["single"][4:6] == ("", "5.0")
    assert columns["truth"][:3] == ("true", "false", "")
    assert columns["decimal"][:3] == ("", "0.50", "1.50")
    assert columns["day"][:3] == ("2024-02-29", "", "0001-01-01")
    assert columns["clock"][1] == "01:02:03.000004"
    assert columns["moment"][1] == "1969-12-31 23:59:59.000001"


def test_null_is_nothing_and_an_empty_text_is_quoted(run, odd):
    out = run("top", odd, "--k", 8, "--by", "score", "--last", 8, "--format", "csv").out
    assert '\n0,8,4,5,3,5,"",inf,' in out
    assert "\n0,8,5,4,4,4,,-inf,," in out


def test_every_type_as_json(run, odd):
    out = run("top", odd, "--k", 8, "--by", "score", "--last", 8, "--format", "json").out
    records = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert len(records) == 8
    first = records[0]
    assert list(first) == [
        "window_start", "window_end", "rank", "score", "row", "score_1", *ODD,
    ]  # fmt: skip
    assert first["text"] == 'say "hi"'
    assert first["whole"] == -(2**63)
    assert first["truth"] is True
    assert first["moment"] == "2024-02-29 12:30:00"
    assert first["list"] == "[1,2]"
    assert first["decimal"] is None
    assert records[1]["decimal"] == 0.5
    assert [record["float"] for record in records[3:6]] == [None, None, None]
    assert [record["text"] for record in records[3:6]] == ["", None, "ünïcode ☃"]


def test_columns_that_are_called_as_ours_get_a_number(run):
    """In every format, and in any case, so that each name stands once."""
    text = "Rank,score,row,rank_1,change\n7,8,9,10,11\n"
    arguments = ["top", "-", "--by", "score", "--last", 1]
    names = ["window_start", "window_end", "rank", "score", "row"]
    theirs = ["Rank_2", "score_1", "row_1", "rank_1", "change"]
    ran = run(*arguments, "--format", "csv", stdin=text)
    assert ran.out.splitlines()[0].split(",") == [*names, *theirs]
    (record,) = json.loads(run(*arguments, "--format", "json", stdin=text).out)
    assert list(record) == [*names, *theirs]
    assert [record[name] for name in theirs] == [7, 8, 9, 10, 11]
    out = run(*arguments, "--partition-by", "Rank", stdin=text).out
    assert [word for word in out.split() if word in theirs] == theirs
    changes = run(*arguments, "--emit", "changes", "--format", "csv", stdin=text)
    assert changes.rows[0]["change"] == "entered"
    assert changes.rows[0]["change_1"] == "11"


def test_infinite_scores(run):
    text = "v\n1\ninf\n-inf\n"
    arguments = ["--by", "v", "--last", 3, "--format"]
    ran = run("top", "-", *arguments, "csv", stdin=text)
    assert [row["score"] for row in ran.rows] == ["inf", "1.0", "-inf"]
    records = json.loads(run("top", "-", *arguments, "json", stdin=text).out)
    assert [record["score"] for record in records] == [None, 1.0, None]


def test_changes_as_json(run):
    text = "v\n1\n3\n2\n"
    arguments = ["--k", 1, "--by", "v", "--last", 2, "--slide", 1, "--emit", "changes"]
    records = json.loads(run("top", "-", *arguments, "--format", "json", stdin=text).out)
    assert [(r["rank"], r["change"], r["previous_rank"], r["v"]) for r in records] == [
        (1, "entered", None, 1), (1, "entered", None, 3), (None, "left", 1, 1),
    ]  # fmt: skip


def test_timestamps_as_json(run):
    text = "t,v\n2024-01-01 10:00:00.25,1\n"
    arguments = ["--by", "v", "--time", "t", "--window", "500 ms", "--format", "json"]
    (record,) = json.loads(run("top", "-", *arguments, stdin=text).out)
    assert record["window_start"] == "2024-01-01 10:00:00"
    assert record["window_end"] == "2024-01-01 10:00:00.500000"
    assert record["t"] == "2024-01-01 10:00:00.250000"


def test_many_records_are_the_same_in_blocks(run, monkeypatch):
    text = "v\n" + "".join(f"{at * 7 % 31}\n" for at in range(120))
    arguments = ["top", "-", "--k", 3, "--by", "v", "--last", 10, "--slide", 2, "--format"]
    whole = [run(*arguments, name, stdin=text).out for name in ("csv", "json")]
    monkeypatch.setattr("skyband.cli.output.leaderboard._AT_ONCE", 7)
    assert [run(*arguments, name, stdin=text).out for name in ("csv", "json")] == whole


def test_nanoseconds(run, tmp_path):
    path = tmp_path / "ns.parquet"
    moments = np.array([1_000_000_000, 1_500_000_001, -1], "datetime64[ns]")
    parquet.write_table(pa.table({"t": moments, "v": [3, 2, 1]}), path)
    arguments = ["--by", "v", "--time", "t", "--window", "1 hour", "--format", "csv"]
    assert [row["t"] for row in run("top", path, *arguments).rows] == [
        "1969-12-31 23:59:59.999999999", "1970-01-01 00:00:01", "1970-01-01 00:00:01.500000001",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("microseconds", "written"),
    [
        (0, "1970-01-01 00:00:00"),
        (-1, "1969-12-31 23:59:59.999999"),
        (253_402_300_800_000_000, "10000-01-01 00:00:00"),
        (-62_135_596_800_000_001, "0000-12-31 23:59:59.999999"),
        ((1 << 63) - 1, "infinity"),
        (-(1 << 63) + 1, "-infinity"),
    ],
)
def test_moments(microseconds, written):
    assert cells.moment(microseconds) == written


def test_tables(run):
    text = "name,v\n" + "".join(f"n{at},{at * 7 % 31}\n" for at in range(120))
    ran = run("top", "-", "--k", 2, "--by", "v * 100000", "--last", 20, "--slide", 4, stdin=text)
    assert "100 to 120" in ran.out
    assert "3,000,000" in ran.out
    assert "of 30 windows; --format csv prints all of them." in ran.out
    assert "\x1b" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100


def test_tables_of_changes_and_keys(run):
    text = "kind,v\n" + "".join(f"k{at % 3},{at * 7 % 31}\n" for at in range(60))
    arguments = ["--k", 2, "--by", "v", "--last", 5, "--slide", 2, "--partition-by", "kind"]
    ran = run("top", "-", *arguments, "--emit", "changes", stdin=text)
    header = next(line for line in ran.out.splitlines() if "rank" in line)
    assert header.split("┃")[1:-1] == [
        " rank ", " was ", " change  ", " score ", " row ", " kind ", "  v ",
    ]  # fmt: skip
    assert "entered" in ran.out


def test_tables_leave_out_what_has_no_room(run, tmp_path):
    columns = {f"column_{at:02d}": ["x" * 40, "y\nz"] for at in range(12)}
    parquet.write_table(pa.table({"v": [1.0, None], **columns}), tmp_path / "wide.parquet")
    ran = run("top", tmp_path / "wide.parquet", "--by", "v", "--last", 2)
    assert "Not shown for want of room: column_02" in ran.out
    assert "…" in ran.out


def test_tables_of_large_k(run, monkeypatch):
    monkeypatch.setenv("LINES", "30")
    text = "v\n" + "".join(f"{at}\n" for at in range(100))
    ran = run("top", "-", "--k", 80, "--by", "v", "--last", 100, stdin=text)
    assert "more" in ran.out
    assert len(ran.out.splitlines()) < 40


def test_tables_without_windows(run):
    assert "No window" in run("top", "-", "--by", "v", "--last", 9, stdin="v\n1\n").out


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (7.0, "7"), (9.25, "9.25"), (0.1 + 0.2, "0.3000000"), (1e20, "1e+20"), (1e6, "1,000,000"),
        (8_739_855.36, "8,739,855"), (float("inf"), "inf"), (1 / 3e9, "3.33333e-10"),
        (-12_345.678, "-12,345.68"), (0.0, "0"),
    ],
)  # fmt: skip
def test_rounded_numbers(value, written):
    assert tables._rounded(value) == written


@pytest.mark.parametrize(
    ("text", "value"),
    [("1000", 1000), ("1_000", 1000), ("1e3", 1000), ("1.5e6", 1_500_000), (" 7 ", 7)],
)
def test_whole_numbers(text, value):
    assert options.whole(text, "--rows") == value


@pytest.mark.parametrize("text", ["1.5", "1.25e1", "e3", "ten", "", "0", "-5", "1__0", "1e400"])
def test_no_whole_numbers(text):
    with pytest.raises(ValueError, match="whole number"):
        options.whole(text, "--rows")


def test_a_leaderboard_of_nothing():
    board = leaderboard.Leaderboard(timed=False)
    none = np.empty(0, np.int64)
    board.add(Ranked(none, none, np.zeros(1, np.int64), np.empty(0), none))
    board.close()
    assert list(board.blocks(board.order())) == []
