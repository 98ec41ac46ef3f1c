"""What is read, and which rows of it: conditions, expressions, folders, patterns, Arrow files."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from tests.command_line import Runner

TRADES = """ts,sector,price,volume,note
2024-01-01 00:00:10,tech,10.5,100,a
2024-01-01 00:01:10,energy,11.5,,b
2024-01-01 00:02:10,Tech,12.5,300,
2024-01-01 00:03:10,,13.5,400,d
2024-01-01 00:04:10,tech,14.5,500,e
"""
HOUR = ["--time", "ts", "--window", "1 hour"]
TABLE = pa.table({"v": [3, 1, 2, 5, 4], "name": ["c", "a", "b", "e", "d"]})


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def trades(tmp_path):
    path = tmp_path / "trades.csv"
    path.write_text(TRADES)
    return path


def kept(text, *keep):
    """A CSV file of these rows alone."""
    header, *rows = text.splitlines()
    return "\n".join([header, *(rows[at] for at in keep)]) + "\n"


# ---------------------------------------------------------------- conditions


COMMANDS = {
    "top": ["--by", "price", "--last", 2, "--slide", 1],
    "top by time": ["--by", "price", "--time", "ts", "--window", "2 minutes"],
    "top by key": ["--by", "price", "--last", 2, "--partition-by", "sector"],
    "totals": ["--by", "sum(price)", "--key", "sector", "--last", 2],
    "dominating": ["--on", "price:min", "--on", "volume:max", "--last", 3],
    "incomplete": [
        "--id", "note", "--stream", "sector", "--value", "price", "--bounds", "0:99", "--last", 3,
    ],
}  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_rows_that_are_not_asked_for_are_not_there(run, trades, arguments, request):
    """Also those for which the condition is NULL."""
    command = request.node.callspec.id.split()[0]
    expected = run(command, "-", *arguments, "--format", "csv", stdin=kept(TRADES, 2, 3, 4))
    ran = run(command, trades, *arguments, "--where", "volume > 200", "--format", "csv")
    assert ran == expected
    assert ran.code == 0


def test_a_workload_of_some_rows(run, trades, tmp_path):
    queries = tmp_path / "queries.txt"
    queries.write_text("name,k,window,slide\na,1,2,1\nb,2,3,1\n")
    arguments = ["--queries", queries, "--by", "price", "--format", "csv"]
    expected = run("workload", "-", *arguments, stdin=kept(TRADES, 0, 4))
    assert run("workload", trades, *arguments, "--where", "sector = 'tech'") == expected


def test_explain_tells_the_condition_and_counts_what_satisfies_it(run, trades):
    arguments = ["explain", trades, "--by", "price", "--last", 2, "--where", "volume > 200"]
    assert "where volume > 200" in run(*arguments).out
    (record,) = json.loads(run(*arguments, "--json").out)
    assert (record["where"], record["rows"]) == ("volume > 200", 3)


def test_a_condition_that_no_row_satisfies(run, trades):
    ran = run("top", trades, *COMMANDS["top"], "--where", "false", "--format", "csv")
    assert (ran.code, ran.rows) == (0, [])


def test_a_condition_over_no_rows(run):
    arguments = ["--by", "v", "--last", 2, "--where", "v > 1", "--format", "csv"]
    assert run("top", "-", *arguments, stdin="v\n").code == 0


def test_types_that_were_misjudged_are_judged_again_for_conditions(run, tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("v,w\n" + "1,1\n" * 30_000 + "2,x\n")
    arguments = ["--by", "v", "--last", 1, "--slide", 1, "--format", "csv"]
    ran = run("top", path, *arguments, "--where", "w = 'x'")
    assert [row["score"] for row in ran.rows] == ["2"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("volum > 1", "--where: "),
        ("volum > 1", "did you mean 'volume'?"),
        ("zzz > 1", "one of ts, sector, price, volume, note"),
        ("volume", "of type BIGINT; expected a condition"),
        ("volume", "fix: compare it, as in --where 'volume > 0'"),
        ("sector", "--where 'sector IS NOT NULL'"),
        ("volume >", "--where 'volume >' is not an expression"),
        ("sum(volume) > 1", "has an aggregate"),
        ("price > 1, volume > 1", "is 2 columns"),
        ("price > (SELECT 1)", "has a subquery"),
        ("", "is not an expression"),
    ],
)
def test_wrong_conditions(run, trades, where, message):
    assert message in run.fails("top", trades, *COMMANDS["top"], "--where", where)


# ---------------------------------------------------------------- expressions for columns


def test_keys_that_are_expressions(run, trades):
    arguments = ["top", trades, "--by", "price", "--k", 1, *HOUR, "--format", "csv"]
    ran = run(*arguments, "--partition-by", "upper(sector)")
    best = {row["upper(sector)"]: row["price"] for row in ran.rows}
    assert best == {"TECH": "14.5", "ENERGY": "11.5", "": "13.5"}
    again = run(*arguments, "--partition-by", "upper(sector) AS Industry")
    assert {row["Industry"]: row["price"] for row in again.rows} == best
    told = run("explain", *COMMANDS["top"], "--partition-by", "upper(sector)").out
    assert "for each upper(sector)" in " ".join(told.split())


def test_keys_that_are_expressions_head_tables(run, trades):
    arguments = ["top", trades, "--by", "price", *HOUR, "--partition-by"]
    for key in ("upper(sector)", "upper(sector) AS industry"):
        assert "TECH" in run(*arguments, key).out


def test_totals_of_expressions(run, trades):
    arguments = ["totals", trades, "--by", "sum(price)", *HOUR, "--format", "csv"]
    ran = run(*arguments, "--key", "lower(sector) || ':' || volume % 200 AS at")
    assert [(row["at"], row["score"]) for row in ran.rows] == [
        ("tech:100", "37.5"),
        ("", "25.0"),
    ]
    assert "different" in run("explain", *arguments[1:8], "--key", "lower(sector)").out


def test_objects_of_expressions(run, trades):
    arguments = ["incomplete", trades, *COMMANDS["incomplete"][2:], "--format", "csv", "--id"]
    plain = run(*arguments, "note").rows
    upper = run(*arguments, "upper(note)").rows
    assert [row["upper(note)"] for row in upper] == [row["note"].upper() for row in plain]


def test_the_name_of_a_column_wins(run):
    text = "v,a+b,x as y,a,b\n1,p,k,7,8\n2,q,k,7,8\n"
    arguments = ["top", "-", "--by", "v", "--last", 1, "--format", "csv", "--partition-by"]
    assert len(run(*arguments, "a+b", stdin=text).rows) == 2
    header, *_ = csv.reader(io.StringIO(run(*arguments, "x as y", stdin=text).out))
    assert header[5:] == ["v", "a+b", "x as y", "a", "b"]
    assert run(*arguments, "a+b AS sum", stdin=text).rows[0]["sum"] == "p"
    assert run(*arguments, "a + b AS sum", stdin=text).rows[0]["sum"] == "15"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("sectr", "--partition-by: "),
        ("sectr", "did you mean 'sector'?"),
        ("sectr AS s", "has no column 'sectr'"),
        ("the sector", "has no column 'the sector'"),
        ("upper(sectr)", "did you mean 'sector'?"),
        ("upper(sector) AS note", "has the name of a column"),
        ("max(price)", "has an aggregate"),
        ("sector, note", "is 2 columns"),
        ("upper(sector", "--partition-by 'upper(sector' is not an expression"),
        ("nosuch(sector)", "nosuch does not exist"),
    ],
)
def test_wrong_keys(run, trades, key, message):
    assert message in run.fails("top", trades, *COMMANDS["top"], "--partition-by", key)


def test_two_keys_of_one_name(run, trades):
    err = run.fails(
        "totals", trades, *COMMANDS["totals"][:2], "--last", 3,
        "--key", "upper(note) AS x", "--partition-by", "upper(sector) AS x",
    )  # fmt: skip
    assert "two columns are called 'x'" in err


# ---------------------------------------------------------------- several files


def write(table, path):
    if path.suffix == ".csv":
        rows = [",".join(map(str, row.values())) for row in table.to_pylist()]
        path.write_text("\n".join([",".join(table.column_names), *rows]) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, path)
    else:
        new = ipc.new_stream if path.suffix == ".ipc" else ipc.new_file
        with new(path, table.schema) as writer:
            writer.write_table(table, 2)


def ranked(ran):
    """The last window."""
    assert ran.code == 0, ran
    return [
        (row["rank"], row["score"], row["row"], row["name"])
        for row in ran.rows
        if row["window_end"] == ran.rows[-1]["window_end"]
    ]


WHOLE = [
    ("1", "5", "3", "e"),
    ("2", "4", "4", "d"),
    ("3", "3", "0", "c"),
    ("4", "2", "2", "b"),
    ("5", "1", "1", "a"),
]
ASK = ["--by", "v", "--last", 9, "--slide", 1, "--format", "csv"]
SUFFIXES = ["csv", "jsonl", "parquet", "arrow", "feather", "ipc"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_files_are_one(run, tmp_path, suffix):
    (tmp_path / "b" / "c").mkdir(parents=True)
    parts = [tmp_path / f"{name}.{suffix}" for name in ("a", "b/b", "b/c/c")]
    for part, (first, count) in zip(parts, [(0, 1), (1, 3), (4, 1)], strict=True):
        write(TABLE.slice(first, count), part)
    (tmp_path / "b" / "_SUCCESS").write_text("")
    (tmp_path / "b" / ".hidden.csv").write_text("x\n")
    (tmp_path / "b" / "readme.txt").write_text("see c")
    whole = tmp_path / f"whole.{suffix}"
    write(TABLE, whole)
    assert ranked(run("top", whole, *ASK)) == WHOLE
    whole.unlink()
    assert ranked(run("top", *parts, *ASK)) == WHOLE
    assert ranked(run("top", tmp_path, *ASK)) == WHOLE
    assert ranked(run("top", f"{tmp_path}/**/*.{suffix}", *ASK)) == WHOLE
    assert ranked(run("top", parts[0], tmp_path / "b", *ASK)) == WHOLE
    told = run("explain", parts[0], tmp_path / "b", *ASK[:6]).out
    assert "and 2 more: 5 rows" in told.replace("\n", " ")


@pytest.mark.parametrize("suffix", ["arrow", "ipc", "parquet"])
def test_standard_input_of_any_kind(run, tmp_path, suffix):
    write(TABLE, tmp_path / f"whole.{suffix}")
    content = (tmp_path / f"whole.{suffix}").read_bytes()
    assert ranked(run("top", "-", *ASK, stdin=content)) == WHOLE


def test_arrow_columns_of_many_types(run, tmp_path):
    table = pa.table(
        {
            "v": [1.5, None, 2.5],
            "name": pa.array(["a", "b", "a"]).dictionary_encode(),
            "at": pa.array([0, 1, 2], pa.timestamp("ms", "UTC")),
            "day": pa.array([0, 1, None], pa.date32()),
        }
    )
    write(table, tmp_path / "typed.arrow")
    ran = run(
        "top", tmp_path / "typed.arrow", "--by", "v", "--time", "at", "--window", "1 hour",
        "--partition-by", "name", "--where", "day IS NULL OR v > 1", "--format", "csv",
    )  # fmt: skip
    assert [(row["score"], row["name"], row["day"]) for row in ran.rows] == [
        ("2.5", "a", ""), ("1.5", "a", "1970-01-01"),
    ]  # fmt: skip


def test_types_fit_all_files(run, tmp_path):
    (tmp_path / "1.csv").write_text("v,name\n1,x\n")
    (tmp_path / "2.csv").write_text("v,name\n2.5,7\n")
    (tmp_path / "3.csv").write_text("v,name\n")
    rows = ranked(run("top", tmp_path, *ASK))
    assert rows == [("1", "2.5", "1", "7"), ("2", "1.0", "0", "x")]


def test_objects_of_json_need_not_have_all_columns(run, tmp_path):
    (tmp_path / "1.jsonl").write_text('{"v": 1}\n')
    (tmp_path / "2.jsonl").write_text('{"v": 2, "name": "x"}\n')
    assert ranked(run("top", tmp_path, *ASK)) == [("1", "2", "1", "x"), ("2", "1", "0", "")]


def test_files_that_do_not_go_together(run, tmp_path):
    names = [tmp_path / name for name in ("1.csv", "2.csv", "3.parquet", "4.parquet", "5.arrow")]
    names[0].write_text("v,name\n1,x\n")
    names[1].write_text("v,nom\n1,x\n")
    write(TABLE, names[2])
    write(TABLE.set_column(0, "v", TABLE["v"].cast(pa.float64())), names[3])
    write(TABLE, names[4])
    write(TABLE.select(["v"]), tmp_path / "6.arrow")
    assert "files of one kind" in run.fails("top", tmp_path, *ASK)
    assert "'1.csv' is csv and '3.parquet' is parquet" in run.fails("top", tmp_path, *ASK)
    assert "has the columns v, nom; expected those of '1.csv': v, name" in run.fails(
        "top", f"{tmp_path}/*.csv", *ASK
    )
    assert "has the columns v DOUBLE, name VARCHAR" in run.fails("top", *names[2:4], *ASK)
    assert "has the columns v int64" in run.fails("top", f"{tmp_path}/*.arrow", *ASK)
    assert "no file matches" in run.fails("top", f"{tmp_path}/*.json", *ASK)
    assert "- beside other files" in run.fails("top", "-", names[0], *ASK, stdin="v\n1\n")
    assert "there is no file" in run.fails("top", names[0], tmp_path / "7.csv", *ASK)
    (tmp_path / "7.arrow").write_text("ARROW1, not")
    assert "cannot be read as arrow" in run.fails("top", tmp_path / "7.arrow", *ASK)
    (tmp_path / "8.arrow").write_text("neither")
    assert "cannot be read as arrow" in run.fails("top", tmp_path / "8.arrow", *ASK)


def test_answers_do_not_replace_what_is_read(run, trades, tmp_path):
    arguments = ["--by", "price", "--last", 2, "--out", trades]
    assert "the file that is read" in run.fails("top", tmp_path, *arguments)
    assert trades.read_text() == TRADES
