"""Every mistake: one clear line, exit code 2, no traceback."""

from __future__ import annotations

import pytest

from tests.command_line import OF_FAMILIES, Runner

TRADES = """ts,sector,price,volume,note,unit price
2024-01-01 00:00:10,tech,10.5,100,a,1
2024-01-01 00:01:10,energy,11.5,200,b,2
"""


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def trades(tmp_path):
    path = tmp_path / "trades.csv"
    path.write_text(TRADES)
    return path


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("price * volumee", "did you mean 'volume'?"),
        ("PRICEE", "did you mean 'price'?"),
        ("zzz", "one of ts, sector, price, volume, note, unit price"),
        ("price * note", "cannot be evaluated: No function matches"),
        ("nosuch(price)", "nosuch does not exist"),
        ("note", "of type VARCHAR; expected a number"),
        ("price > 1", "of type BOOLEAN; expected a number"),
        ("ts", "of type TIMESTAMP; expected a number"),
        ("[price]", "of type DOUBLE[]; expected a number"),
        ("(price, volume)", "expected a number"),
        ("sum(price)", "has an aggregate"),
        ("max(price) - price", "has an aggregate"),
        ("price, volume", "is 2 columns"),
        ("price AS p", "has a column with an alias"),
        (
            "unit prise",
            """did you mean 'unit price'? a name with blanks stands in double quotes: \
'"unit price"'""",
        ),
        ("unti price x", "has no column 'unti price x'"),
        ('"unit prise" * 2', "in double quotes: '\"unit price\"'"),
        ("volume twice", "has no column 'volume twice'"),
        ("unit price * 2", """fix: write names with blanks in double quotes: '"unit price" * 2'"""),
        ("price - note", "fix: cast what is no number: TRY_CAST(note AS DOUBLE)"),
        ("(SELECT 1)", "has a subquery"),
        ("price IN (SELECT 1)", "has a subquery"),
        ("*", "has a star"),
        ("COLUMNS('p.*')", "has a star"),
        ("row_number() OVER ()", "has a window function"),
        ("$1", "has a parameter"),
        ("price >", "is not an expression: syntax error"),
        ("price) + (volume", "is not an expression: syntax error"),
        ("", "is not an expression"),
        ("-- comment", "is not an expression"),
        ("price; SELECT 1", "has a statement"),
        ("price FROM elsewhere", "has a statement"),
        ("CAST(note AS DOUBLE)", "fix: use TRY_CAST"),
        ("9223372036854775807 * volume", "fix: cast the columns of the expression to DOUBLE"),
    ],
)
def test_scores(run, trades, by, message):
    assert message in run.fails("top", trades, "--by", by, "--last", 2)


def test_comments_and_quotes_in_scores_are_fine(run, trades):
    for by in (
        "price -- of a share",
        '"unit price" * 2',
        "price /* ) */",
        "length('it''s') * price",
    ):
        ran = run("top", trades, "--by", by, "--last", 2, "--format", "csv")
        assert (ran.code, ran.err) == (0, "")


WINDOW = ["--time", "ts", "--window", "1 hour"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no window was given"),
        (["--last", "0"], "--last is '0'; expected a whole number of at least 1"),
        (["--last", "ten"], "--last is 'ten'"),
        (["--last", "2", "--slide", "3"], "expected a slide of at most the window"),
        (["--last", "2", "--slide", "1 minute"], "--slide is '1 minute'"),
        (["--last", "2", "--offset", "1"], "--offset with --last"),
        (["--last", "2", "--k", "0"], "--k is '0'"),
        (["--last", "2", "--k", "-1"], "--k is '-1'"),
        (
            ["--last", "2", "--k", "4611686018427387904"],
            "--k is '4611686018427387904'; expected a whole number below 2**62; fix: write --k 10",
        ),
        (["--last", "1e99"], "--last is '1e99'; expected a whole number below 2**62"),
        (["--last", "2", "--algorithm", "mintop"], "fix: write --algorithm mintopk"),
        (["--last", "2", "--emit", "change"], "fix: write --emit changes"),
        (["--last", "2", "--format", "cvs"], "fix: write --format csv"),
        (
            ["--last", "2", "--engine", "flink"],
            "--engine is 'flink'; expected one of auto, spark, local",
        ),
        (["--last", "2", "--partition-by", "sectr"], "did you mean 'sector'?"),
        (["--last", "2", *WINDOW], "both --last and --window"),
        (["--last", "2", "--time", "ts"], "both --last and --time"),
        (["--time", "ts"], "--time without --window"),
        (["--window", "1 hour"], "--window without --time"),
        ([*WINDOW, "--slide", "2 hours"], "slide is 2 hours, the window is 1 hour"),
        ([*WINDOW, "--slide", "5"], "both durations, or both plain integers"),
        ([*WINDOW, "--full"], "--full with a time window"),
        (["--time", "ts", "--window", "1 fortnight"], "window is '1 fortnight'"),
        (["--time", "ts", "--window", "0 hours"], "fix: write --window '1 hour'"),
        (["--time", "ts", "--window", "-1 hour"], "window is -1 hours; expected a duration of at"),
        (
            [*WINDOW, "--slide", "-90 s"],
            "slide is -90 seconds; expected a duration of at least 1 m",
        ),
        (["--time", "ts", "--window", "999999999 weeks"], "window is 999999999 weeks; expected a"),
        (
            [*WINDOW, "--slide", "1 microsecond"],
            "the last 1 hour, every 1 microsecond: each row is in 3,600,000,000 windows; "
            "expected 100,000,000 at most; fix: use a larger slide",
        ),
        (["--time", "ts", "--window", "60"], "fix: write --window '60 seconds'"),
        (["--time", "volume", "--window", "1 hour"], "to_timestamp(volume)"),
        (["--time", "price", "--window", "1 hour"], "to_timestamp(price)"),
        (["--time", "note", "--window", "1 hour"], "CAST(note AS TIMESTAMP)"),
        (["--time", "when", "--window", "1 hour"], "--time"),
        (["--time", "tss", "--window", "1 hour"], "did you mean 'ts'?"),
        (["--time", "max(ts)", "--window", "1 hour"], "has an aggregate"),
        (["--last", "2", "--colour", "red"], "no such option: --colour"),
        (["--last"], "requires an argument"),
        (["--last", "2", "extra"], "extra"),
    ],
)
def test_options(run, trades, arguments, message):
    assert message in run.fails("top", trades, "--by", "price", *arguments)


def test_missing_arguments(run, trades):
    assert "missing option '--by'" in run.fails("top", trades, "--last", 2)
    assert "missing argument 'FILE'" in run.fails("top", "--by", "price", "--last", 2)
    assert "fix: see 'skyband top --help'" in run.fails("top")
    assert "'tpo'" in run.fails("tpo")


def test_files(run, trades, tmp_path):
    arguments = ["--by", "price", "--last", 2]
    assert "did you mean" in run.fails("top", tmp_path / "trade.csv", *arguments)
    assert "there is no file" in run.fails("top", tmp_path / "no" / "where.csv", *arguments)
    (tmp_path / "folder").mkdir()
    assert "without data files" in run.fails("top", tmp_path / "folder", *arguments)
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in run.fails("top", tmp_path / "empty.csv", *arguments)
    assert "standard input is empty" in run.fails("top", "-", *arguments, stdin="")
    (tmp_path / "broken.jsonl").write_text('{"price": 1\n')
    assert "cannot be read as json" in run.fails("top", tmp_path / "broken.jsonl", *arguments)
    (tmp_path / "broken.parquet").write_text("price\n1\n")
    assert "cannot be read as parquet" in run.fails("top", tmp_path / "broken.parquet", *arguments)
    (tmp_path / "latin.csv").write_bytes(b"price,name\n1,\xe9\n")
    assert "not utf-8" in run.fails("top", tmp_path / "latin.csv", *arguments)
    (tmp_path / "ragged.csv").write_text("price,volume\n1,2\n3\n4,5,6\n")
    err = run.fails("top", tmp_path / "ragged.csv", *arguments)
    assert "do not all have the same number of fields" in err


def test_names_that_look_like_patterns(run, tmp_path):
    """DuckDB would read other files, or several."""
    (tmp_path / "a1.csv").write_text("price\n7\n")
    odd = tmp_path / "a[1]*'?.csv"
    odd.write_text("price\n8\n")
    ran = run("top", odd, "--by", "price", "--last", 1, "--format", "csv")
    assert [row["score"] for row in ran.rows] == ["8"]


def test_nothing_is_guessed_about_lines(run):
    """Lines that look like comments or titles are rows like all others."""
    text = "name,v\n#a,1\n#b,2\nc,3\n"
    ran = run("top", "-", "--by", "v", "--last", 3, "--format", "csv", stdin=text)
    assert [row["name"] for row in ran.rows] == ["c", "#b", "#a"]


def test_suggestions_can_be_pasted_into_a_shell(run, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("my time,my note,v,s,k\n01.02.2024 10:00,x,1,a b,7\n")
    fix = 'TRY_CAST("my note" AS DOUBLE)\''
    assert fix in run.fails("top", path, "--by", "my note", "--last", 1)
    err = run.fails("top", path, "--by", "v", "--time", "my time", "--window", "1 hour")
    assert """--time 'CAST("my time" AS TIMESTAMP)'""" in err
    err = run.fails("dominating", path, "--on", "v * 2", "--last", 1)
    assert "fix: write --on 'v * 2:min', or :max" in err
    seen = ["--id", "v", "--stream", "s", "--value", "k", "--bounds", "a b=0:1"]
    assert "write --bounds 'a b=0:7'" in run.fails("incomplete", path, *seen, "--last", 1)
    err = run.fails("top", path, "--by", "v", "--last", 1, "--out", tmp_path / "a b" / "c.csv")
    assert f"mkdir -p '{tmp_path / 'a b'}'" in err


def test_json_values_of_several_types(run, tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text('{"t": "2024-01-01", "v": 1}\n{"t": 5, "v": "x"}\n')
    err = run.fails("top", path, "--by", "v", "--last", 2)
    assert "--by 'v' is of type JSON: its values are of several types; expected a number" in err
    assert "--by 'TRY_CAST(v AS DOUBLE)'" in err
    assert "TRY_CAST(v AS DOUBLE)" in run.fails("top", path, "--by", "v + 1", "--last", 2)
    assert "use TRY_CAST" in run.fails("top", path, "--by", "CAST(v AS DOUBLE)", "--last", 2)
    err = run.fails("top", path, "--by", "1", "--time", "t", "--window", "1 day")
    assert "--time 'TRY_CAST(t AS TIMESTAMP)'" in err
    ran = run("top", path, "--by", "TRY_CAST(v AS DOUBLE)", "--last", 2, "--format", "csv")
    assert [row["score"] for row in ran.rows] == ["1.0"]


def test_outputs(run, trades, tmp_path):
    arguments = ["top", trades, "--by", "price", "--last", 2, "--out"]
    assert "directory that exists" in run.fails(*arguments, tmp_path / "no" / "found.csv")
    assert "is a directory" in run.fails(*arguments, tmp_path)
    assert "the file that is read" in run.fails(*arguments, trades)
    assert trades.read_text() == TRADES


def test_times_beyond_all_bounds(run):
    text = "t,v\n4611686018427387904,1\n"
    arguments = ["--by", "v", "--time", "t", "--window", "10"]
    assert "2**60" in run.fails("top", "-", *arguments, stdin=text)
    assert "2**60" in run.fails("top", "-", *arguments, "--partition-by", "v", stdin=text)


def test_without_java(run, trades, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    arguments = ["top", trades, "--by", "price", "--last", 5]
    assert "rank files with --engine local" in run.fails(*arguments, "--engine", "spark")
    assert run(*arguments, "--engine", "local").code == 0


def test_what_is_wrong_with_the_file_is_reported_before_spark_starts(run):
    arguments = ["--time", "t", "--window", 10, "--engine", "spark"]
    assert "did you mean 'v'" in run.fails("top", "-", "--by", "vv", *arguments, stdin="v,t\n1,2\n")
    for far in (2**60, -(2**60)):
        text = f"v,t\n1,{far}\n2,3\n"
        assert "a time beyond 2**60" in run.fails("top", "-", "--by", "v", *arguments, stdin=text)


@pytest.mark.parametrize("family", OF_FAMILIES)
def test_too_many_windows_are_refused_before_spark_starts(run, family, tmp_path):
    """Each of three distant rows is in as many windows as may be."""
    path = tmp_path / "distant.csv"
    lines = [f"2024-0{month}-01,{month},{month},a" for month in (1, 2, 3)]
    path.write_text("\n".join(["t,v,o,s", *lines]) + "\n")
    options = [value.replace("t:min", "o:min") for value in OF_FAMILIES[family]]
    arguments = [family, path, *options, "--time", "t", "--window", "100 s", "--slide", "1 us"]
    few = "a batch that completes 300,000,000 windows; expected 100,000,000 at most; fix: use a"
    assert few in run.fails(*arguments, "--engine", "spark")


def test_an_engine_for_all_runs(run, trades, monkeypatch):
    monkeypatch.setenv("SKYBAND_ENGINE", "spork")
    assert "fix: write --engine spark" in run.fails("top", trades, "--by", "price", "--last", 2)
    assert "SKYBAND_ENGINE" in run("top", "--help").out


def test_masters(run, trades):
    arguments = ["top", trades, "--by", "price", "--last", 5, "--master"]
    assert "leave --master out" in run.fails(*arguments, "local[1]", "--engine", "local")
    assert "on this machine" in run.fails(*arguments, "spark://host:7077", "--engine", "spark")


def test_unexpected_errors_are_not_hidden(run, monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("skyband.cli.commands.rank._locally", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        run("top", "-", "--by", "v", "--last", 1, stdin="v\n1\n")
