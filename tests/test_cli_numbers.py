"""Whole numbers and decimals of files are ranked and added up exactly, and printed as they are."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.command_line import Runner

LARGE = 2**53
NUMBERS = [LARGE + 1, LARGE, LARGE + 2, None, LARGE + 1, -LARGE - 1]


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture(params=["parquet", "csv", "json"])
def numbers(request, tmp_path):
    """A file of whole numbers beyond 2**53."""
    path = tmp_path / f"numbers.{request.param}"
    if request.param == "parquet":
        parquet.write_table(pa.table({"n": NUMBERS, "t": range(6)}), path)
    elif request.param == "csv":
        lines = [f"{'' if n is None else n},{t}\n" for t, n in enumerate(NUMBERS)]
        path.write_text("n,t\n" + "".join(lines))
    else:
        path.write_text("".join(json.dumps({"n": n, "t": t}) + "\n" for t, n in enumerate(NUMBERS)))
    return path


@pytest.fixture
def decimals(tmp_path):
    """Key a adds up 0.1 and 0.2, key b, which is older, has 0.3 at once; c has many digits."""
    path = tmp_path / "decimals.parquet"
    rows = [("b", "0.30"), ("a", "0.10"), ("a", "0.20"), ("c", "-9999999999999999.99")]
    columns = {"key": [key for key, _ in rows], "d": [Decimal(text) for _, text in rows]}
    schema = pa.schema([("key", pa.string()), ("d", pa.decimal128(18, 2))])
    parquet.write_table(pa.table(columns, schema), path)
    return path


@pytest.mark.parametrize(
    "window", [["--last", 6], ["--time", "t", "--window", 6]], ids=["count", "time"]
)
def test_whole_numbers_are_told_apart(run, numbers, window):
    ran = run("top", numbers, "--k", 4, "--by", "n", *window, "--format", "csv")
    assert [(row["score"], row["row"]) for row in ran.rows] == [
        (str(LARGE + 2), "2"),
        (str(LARGE + 1), "4"),
        (str(LARGE + 1), "0"),
        (str(LARGE), "1"),
    ]
    assert "1 with a NULL score" in ran.err


def test_whole_numbers_in_json_and_in_tables(run, numbers):
    query = ("top", numbers, "--k", 2, "--by", "n", "--last", 6)
    records = json.loads(run(*query, "--format", "json").out)
    assert [record["score"] for record in records] == [LARGE + 2, LARGE + 1]
    assert "9,007,199,254,740,994" in run(*query).out


def test_decimals_add_up_exactly(run, decimals):
    query = ("totals", decimals, "--key", "key", "--last", 4, "--k", 3, "--format", "csv")
    ran = run(*query, "--by", "sum(d)")
    assert [(row["key"], row["score"]) for row in ran.rows] == [
        ("a", "0.30"),
        ("b", "0.30"),
        ("c", "-9999999999999999.99"),
    ]
    ran = run(*query, "--by", "avg(d)")
    assert [(row["key"], row["score"]) for row in ran.rows] == [
        ("b", "0.3"),
        ("a", "0.15"),
        ("c", "-1e+16"),
    ]
    ran = run("top", decimals, "--by", "d", "--last", 4, "--k", 1, "--format", "csv")
    assert [row["score"] for row in ran.rows] == ["0.30"]


def test_sums_of_whole_numbers_are_told_apart(run, tmp_path):
    path = tmp_path / "sums.csv"
    path.write_text(f"key,n\na,{LARGE}\nb,{LARGE}\na,1\nb,0\n")
    ran = run("totals", path, "--key", "key", "--by", "sum(n)", "--last", 4, "--format", "csv")
    assert [(row["key"], row["score"]) for row in ran.rows] == [
        ("a", str(LARGE + 1)),
        ("b", str(LARGE)),
    ]


def test_wider_numbers_are_refused_with_the_cast_to_write(run, tmp_path):
    path = tmp_path / "wide.parquet"
    wide = pa.array([Decimal("1.5"), Decimal(10**15)], pa.decimal128(30, 4))
    tiny = pa.array([Decimal(0), Decimal(1)], pa.decimal128(30, 20))
    parquet.write_table(pa.table({"d": wide, "n": [1, 2], "tiny": tiny}), path)
    error = run.fails("top", path, "--by", "d", "--last", 1)
    assert "--by 'd' holds a number beyond 99,999,999,999,999 in size" in error
    assert "--by 'CAST(d AS DOUBLE)' rounds them" in error
    error = run.fails("totals", path, "--by", "sum(d)", "--key", "n", "--last", 1)
    assert "--by 'sum(CAST(d AS DOUBLE))'" in error
    error = run.fails("top", path, "--by", "tiny", "--last", 1)
    assert "--by 'tiny' is of type DECIMAL(30,20)" in error
    assert "write --by 'CAST(tiny AS DOUBLE)'" in error
    for narrow in ("least(d, 7)", "CAST(n AS UBIGINT)", "CAST(n AS UHUGEINT)"):
        assert run("top", path, "--by", narrow, "--last", 1).code == 0
    ran = run("top", path, "--by", "n * 0.5", "--last", 2, "--format", "csv")
    assert [row["score"] for row in ran.rows] == ["1.0", "0.5"]
    for large in ("18446744073709551615::UBIGINT", "(1::UHUGEINT << 127)"):
        assert "rounds them" in run.fails("top", path, "--by", large, "--last", 1)
    assert run("top", path, "--by", "n::HUGEINT", "--last", 1).code == 0
    error = run.fails("top", path, "--by", "n::HUGEINT << 80", "--last", 1)
    assert "beyond 9,218,868,437,227,405,311 in size" in error
    assert "--by 'CAST(n::HUGEINT << 80 AS DOUBLE)'" in error


def test_families_that_round_refuse_what_would_be_rounded(run, numbers):
    error = run.fails("dominating", numbers, "--on", "n:min", "--on", "t:max", "--last", 6)
    assert "--on 'n' holds a number beyond 9,007,199,254,740,992 in size" in error
    assert "CAST(n AS DOUBLE):min" in error
    ok = ("--on", "CAST(n AS DOUBLE):min", "--on", "t:max")
    assert run("dominating", numbers, *ok, "--last", 6, "--k", 1).code == 0


def test_derived_columns_with_our_names(run, tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("g,v\nx,1\ny,2\nx,3\n")
    query = ["--last", 3, "--format", "csv"]
    ran = run("totals", path, "--by", "sum(v)", "--key", "upper(g) AS object", *query)
    assert [(row["object"], row["score"]) for row in ran.rows] == [("X", "4"), ("Y", "2")]
    ran = run(
        "top",
        path,
        "--by",
        "v",
        "--partition-by",
        "upper(g) AS row",
        "--last",
        1,
        "--format",
        "csv",
    )
    assert {row["row_1"] for row in ran.rows} == {"X", "Y"}


def test_totals_of_all_time_by_key(run, tmp_path):
    path = tmp_path / "board.csv"
    path.write_text(f"t,g,c,v\n1,x,a,{LARGE}\n2,x,a,1\n3,y,b,5\n14,x,b,7\n")
    ran = run(
        "totals",
        path,
        "--by",
        "sum(v)",
        "--key",
        "c",
        "--partition-by",
        "g",
        "--time",
        "t",
        "--all-time",
        "--every",
        10,
        "--format",
        "csv",
    )
    assert [(row["window_end"], row["g"], row["c"], row["score"]) for row in ran.rows] == [
        ("10", "x", "a", str(LARGE + 1)),
        ("10", "y", "b", "5"),
        ("20", "x", "a", str(LARGE + 1)),
        ("20", "x", "b", "7"),
    ]
