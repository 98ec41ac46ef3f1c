"""``skyband workload`` against ``skyband top``: each query gets what it would get by itself."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Runner

COUNTS = 'name,k,window,slide\nshort,2,40,15\n"long, one",5,300,100\ntwin,2,40,15\n'
TIMES = """
- {name: short, k: 2, window: 8 seconds, slide: 3 seconds}
- {name: long, k: 4, window: 30 seconds, slide: 10 seconds, offset: 2 seconds}
"""


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def files(run, tmp_path):
    trades = tmp_path / "trades.parquet"
    run("generate", "stock", "--rows", 30_000, "--seed", 3, "--out", trades)
    (tmp_path / "counts.csv").write_text(COUNTS)
    (tmp_path / "times.yaml").write_text(TIMES)
    return tmp_path


def of_query(text, name):
    """The lines of one query, without its name."""
    head = f'"{name}",' if "," in name else f"{name},"
    return [line.removeprefix(head) for line in text.splitlines() if line.startswith(head)]


@pytest.mark.parametrize("algorithm", ["auto", "mtoplist"])
def test_counts_are_ranked_as_by_top(run, files, algorithm):
    options = ["--by", "price", "--format", "csv"]
    ran = run(
        "workload", files / "trades.parquet", "--queries", files / "counts.csv", *options,
        "--algorithm", algorithm,
    )  # fmt: skip
    assert ran.code == 0
    assert ran.out.startswith("query,window_start,window_end,rank,score,row,")
    for name, k, last, slide in [("short", 2, 40, 15), ("long, one", 5, 300, 100)]:
        alone = run(
            "top", files / "trades.parquet", "--k", k, "--last", last, "--slide", slide, *options
        )
        assert of_query(ran.out, name) == alone.out.splitlines()[1:]
    assert of_query(ran.out, "twin") == of_query(ran.out, "short")
    ends = [int(row["window_end"]) for row in ran.rows]
    assert ends == sorted(ends)


def test_times_are_ranked_as_by_top(run, files):
    options = ["--by", "price * volume", "--time", "ts"]
    queries = ["--queries", files / "times.yaml"]
    out = files / "found.json"
    ran = run("workload", files / "trades.parquet", *queries, *options, "--out", out)
    assert ran == type(ran)(0, "", "")
    records = json.loads(out.read_text())
    assert list(records[0])[:3] == ["query", "window_start", "window_end"]
    window = ["--window", "30 seconds", "--slide", "10 seconds", "--offset", "2 seconds"]
    alone = run("top", files / "trades.parquet", "--k", 4, *options, *window, "--format", "json")
    of_long = [
        {n: v for n, v in row.items() if n != "query"} for row in records if row["query"] == "long"
    ]
    assert of_long == json.loads(alone.out)


@pytest.mark.parametrize("algorithm", ["auto", "independent"])
def test_changes_are_those_of_top(run, files, algorithm):
    options = ["--by", "price", "--emit", "changes", "--format", "csv"]
    ran = run(
        "workload", files / "trades.parquet", "--queries", files / "counts.csv", *options,
        "--algorithm", algorithm,
    )  # fmt: skip
    assert "change,previous_rank" in ran.out.splitlines()[0]
    window = ["--k", 5, "--last", 300, "--slide", 100]
    alone = run("top", files / "trades.parquet", *window, *options)
    assert of_query(ran.out, "long, one") == alone.out.splitlines()[1:]


def test_other_orders_and_windows_are_those_of_top(run, files):
    """The file says for each query what options say for one."""
    (files / "kinds.csv").write_text(
        "name,k,window,slide,cumulative,all_time,every,ties,rank_by\n"
        "old,2,8 seconds,3 seconds,,,,oldest,\n"
        "day,3,,,20 seconds,,5 seconds,,dense_rank\n"
        "ever,1,,,,yes,10 seconds,oldest,rank\n"
    )
    options = ["--by", "round(price)", "--time", "ts", "--format", "csv"]
    ran = run("workload", files / "trades.parquet", "--queries", files / "kinds.csv", *options)
    assert ran.code == 0
    for name, *alone in [
        ("old", "--k", 2, "--window", "8 seconds", "--slide", "3 seconds", "--ties", "oldest"),
        ("day", "--k", 3, "--cumulative", "20 seconds", "--every", "5 seconds",
         "--rank-by", "dense_rank"),
        ("ever", "--k", 1, "--all-time", "--every", "10 seconds", "--ties", "oldest",
         "--rank-by", "rank"),
    ]:  # fmt: skip
        top = run("top", files / "trades.parquet", *alone, *options)
        assert of_query(ran.out, name) == top.out.splitlines()[1:]
    failed = run.fails(
        "workload", files / "trades.parquet", "--queries", files / "kinds.csv", *options,
        "--algorithm", "mtopmerge",
    )  # fmt: skip
    assert "algorithm is 'mtopmerge' with a query for the top 2" in failed
    explained = run(
        "explain", files / "trades.parquet", "--queries", files / "kinds.csv", *options[:4]
    )
    text = " ".join(explained.out.split())
    assert "each 20 seconds so far, all time, steps of 5 seconds to 10 seconds" in text
    assert "in ways that cannot be shared" in text
    assert "and all rows of windows where rows of equal score share a rank" in text
    assert "--ties with --queries" in run.fails(
        "explain", "--queries", files / "kinds.csv", "--time", "ts", "--ties", "oldest"
    )


def test_the_table_shows_the_last_window_of_each_query(run, files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "60")
    ran = run(
        "workload", files / "trades.parquet", "--queries", files / "counts.csv", "--by", "price"
    )
    for name in ("short", "long, one", "twin"):
        assert name in ran.out
    assert "The last window of each query; --format csv prints all" in ran.out


def test_explain_says_what_is_shared(run, files):
    queries = ["--queries", files / "counts.csv"]
    text = " ".join(run("explain", *queries).out.split())
    assert "3 queries: windows of 40 to 300 objects, slides of 15 to 100, k of 2 to 5" in text
    assert "about 9 open at a time, of 3 queries" in text
    assert "by all queries as one" in text
    assert "times as many" in text
    timed = ["--queries", files / "times.yaml", "--time", "ts"]
    assert "name a FILE to find out" in " ".join(run("explain", *timed).out.split())
    known = run("explain", files / "trades.parquet", *timed, "--by", "price", "--json")
    (record,) = json.loads(known.out)
    assert record["queries"] == 2
    assert record["shared"] < record["independent"]
    assert "30,000 rows" in run("explain", files / "trades.parquet", *timed).out


def test_mistakes_are_reported(run, files):
    trades = files / "trades.parquet"
    counts = ["--queries", files / "counts.csv"]
    command = ["workload", trades, "--by", "price"]
    assert "there is no file" in run.fails(*command, "--queries", files / "none.csv")
    assert "algorithm is 'sap'" in run.fails(*command, *counts, "--algorithm", "sap")
    assert "are numbers but --time ts holds timestamps" in run.fails(
        *command, *counts, "--time", "ts"
    )
    assert "windows of time without --time" in run.fails(
        *command, "--queries", files / "times.yaml"
    )
    assert "no column 'prize'" in run.fails("workload", trades, "--by", "prize", *counts)
    (files / "by.csv").write_text("name,k,window,by\na,1,5,price\n")
    assert "names scores of its own" in run.fails(*command, "--queries", files / "by.csv")
    (files / "odd.csv").write_text("name,k,window\n[/x],1,5\n")
    assert "[/x]" in run(*command, "--queries", files / "odd.csv").out
    (files / "latin.csv").write_bytes(b"name,k,window\n\xe9,1,5\n")
    assert "not text in UTF-8" in run.fails(*command, "--queries", files / "latin.csv")
    assert "--emit is 'some'" in run.fails(*command, *counts, "--emit", "some")
    assert "--k with --queries" in run.fails("explain", *counts, "--k", 3)
    assert "--format is 'xml'" in run.fails(*command, *counts, "--format", "xml")
