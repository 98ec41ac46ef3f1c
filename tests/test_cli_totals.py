"""``skyband totals`` against the oracle, with the options and messages of ``top``."""

from __future__ import annotations

import json

import pytest

from skyband.totals.query import ENDS
from tests.command_line import Runner, by_key
from tests.oracle import changes, numbered
from tests.oracle_totals import count_totals, time_totals
from tests.test_totals_order import NEW_ORDERS

LOG = [  # ts, site, client, bytes; a blank is NULL
    (1, "x", "ann", 10),
    (2, "y", "bob", 0.1),
    (3, "x", "ann", 0.2),
    (3, "x", "cid", 10.2),
    (3, "x", "bob", 0.3),
    (5, "y", "bob", 1e17),
    (6, "", "dan", 7),
    (8, "x", "cid", None),
    (9, "y", "", 12),
    (11, "x", "cid", "nan"),
    (11, "x", "ann", -3),
    (12, "y", "bob", -1e17),
    (13, "y", "", 4),
    (14, "y", "dan", "inf"),
    (16, "x", "cid", 5),
    (24, "y", "bob", 2),
]
CLIENTS = [client for _, _, client, _ in LOG]  # "" stands for NULL, and is the smallest
SITES = [site or None for _, site, *_ in LOG]
TIMES = [ts for ts, *_ in LOG]
BYTES = [None if size is None else float(size) for *_, size in LOG]
ON = ["--key", "client"]
KINDS = {
    "sum(bytes)": "sum",
    "MAX (bytes)": "max",
    "min(bytes)": "min",
    "avg(bytes)": "mean",
    "mean(bytes)": "mean",
    "count(bytes)": "count",
    "first(bytes)": "first",
    "LAST(bytes)": "last",
}


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def log(tmp_path):
    lines = [",".join("" if value is None else str(value) for value in row) for row in LOG]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["ts,site,client,bytes", *lines]) + "\n")
    return path


def windows(rows, by, *window, values=BYTES, timed=False, **more):
    keys, amounts = [CLIENTS[row] for row in rows], [values[row] for row in rows]
    *span, k = window
    if timed:
        return time_totals(keys, amounts, [TIMES[row] for row in rows], *span, by, k, **more)
    return count_totals(keys, amounts, *span, by, k, **more)


def expected(by, *window, keys=None, **options):
    """(start, end, rank, total, client) of each line, in the order of printing."""
    lines = []
    for key, rows in by_key(keys, len(LOG)):
        for a in windows(rows, by, *window, **options):
            ranks = numbered(a.rows, options.get("rank_by", "row_number"))
            ranked = zip(ranks, a.rows, strict=True)
            lines += [(a.end, key, rank, a.start, *row) for rank, row in ranked]
    return [
        (start, end, rank, total, client)
        for end, _, rank, start, total, client in sorted(lines, key=lambda line: line[:3])
    ]


def printed(ran):
    return [
        (
            int(row["window_start"]),
            int(row["window_end"]),
            int(row["rank"]),
            float(row["score"]),
            row["client"],
        )
        for row in ran.rows
    ]


@pytest.mark.parametrize("by", KINDS)
def test_count_windows_are_those_of_the_oracle(run, log, by):
    window = ["--k", 3, "--last", 6, "--slide", 2]
    ran = run("totals", log, *ON, "--by", by, *window, "--format", "csv")
    assert ran.code == 0
    left_out = "skyband: not ranked: 1 with a NULL value, 1 with a NaN value\n"
    assert ran.err == ("" if KINDS[by] in ENDS else left_out)
    assert ran.out.startswith("window_start,window_end,rank,score,client\n")
    assert printed(ran) == expected(KINDS[by], 6, 2, 3)


@pytest.mark.parametrize("by", KINDS)
def test_time_windows_are_those_of_the_oracle(run, log, by):
    window = ["--k", 3, "--time", "ts", "--window", 10, "--slide", 4, "--offset", 1]
    ran = run("totals", log, *ON, "--by", by, *window, "--format", "csv")
    assert printed(ran) == expected(KINDS[by], 10, 4, 3, timed=True, offset=1)


def test_rows_are_counted_whatever_they_hold(run, log):
    window = ["--k", 3, "--last", 6, "--slide", 2, "--format", "csv"]
    ran = run("totals", log, *ON, "--by", "count(*)", *window)
    assert (ran.err, printed(ran)) == ("", expected("count", 6, 2, 3, values=[1.0] * len(LOG)))
    named = run("totals", log, *ON, "--by", "count(site)", *window)
    ones = [1.0 if site else None for site in SITES]
    assert printed(named) == expected("count", 6, 2, 3, values=ones)
    assert named.err == "skyband: not ranked: 1 with a NULL value\n"


@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
def test_equal_totals_are_ordered_as_asked(run, log, ties, rank_by):
    order = {"ties": ties, "rank_by": rank_by}
    asked = ["--ties", ties, "--rank-by", rank_by, "--by", "count(*)", "--k", 2]
    ones = [1.0] * len(LOG)
    totals = ["totals", log, *ON, *asked, "--format"]
    ran = run(*totals, "csv", "--last", 6, "--slide", 2)
    assert printed(ran) == expected("count", 6, 2, 2, values=ones, **order)
    timed = ["--time", "ts", "--window", 10, "--slide", 4]
    ran = run(*totals, "csv", *timed, "--partition-by", "site")
    kept = {"values": ones, "keys": SITES, "timed": True}
    assert printed(ran) == expected("count", 10, 4, 2, **kept, **order)
    records = json.loads(run(*totals, "json", *timed, "--emit", "changes").out)
    wanted = changes(
        windows(range(len(LOG)), "count", 10, 4, 2, values=ones, timed=True, **order),
        4,
        1 << 60,
        rank_by,
    )
    assert sorted(
        (row["window_end"], row["client"] or "", row["rank"] or 0, row["previous_rank"] or 0)
        for row in records
    ) == sorted((end, client, *ranks) for end, report in wanted for client, ranks in report.items())
    explained = run("explain", log, *ON, *asked, *timed).out
    assert ("ranked by" in explained) == (rank_by != "row_number")


def test_totals_of_expressions(run, log):
    window = ["--last", 6, "--slide", 2, "--k", 4, "--format", "csv"]
    ran = run("totals", log, *ON, "--by", "sum(bytes * 2 + length(site))", *window)
    values = [
        None if size is None or not site else size * 2 + len(site)
        for size, site in zip(BYTES, SITES, strict=True)
    ]
    assert printed(ran) == expected("sum", 6, 2, 4, values=values)


def test_each_partition_is_ranked_by_itself(run, log):
    options = ["--by", "sum(bytes)", "--partition-by", "site", "--format", "csv", "--k", 2]
    ran = run("totals", log, *ON, *options, "--last", 4, "--slide", 1)
    assert printed(ran) == expected("sum", 4, 1, 2, keys=SITES)
    assert ran.out.startswith("window_start,window_end,rank,score,site,client\n")
    ran = run("totals", log, *ON, *options, "--time", "ts", "--window", 10, "--slide", 5)
    assert printed(ran) == expected("sum", 10, 5, 2, keys=SITES, timed=True)


@pytest.mark.parametrize("keys", [None, SITES])
def test_changes_are_those_of_the_oracle(run, log, keys):
    options = ["--emit", "changes", "--format", "json", "--k", 2, "--last", 4, "--slide", 2]
    options += [] if keys is None else ["--partition-by", "site"]
    records = json.loads(run("totals", log, *ON, "--by", "max(bytes)", *options).out)
    expected_changes = []
    for key, rows in by_key(keys, len(LOG)):
        for end, report in changes(windows(rows, "max", 4, 2, 2), 2):
            expected_changes += [
                (end, key, rank or 99, previous, client)
                for client, (rank, previous) in report.items()
            ]
    assert [
        (row["window_end"], row["rank"] or 99, row["previous_rank"] or 0, row["client"] or "")
        for row in records
    ] == [(end, *rest) for end, _, *rest in sorted(expected_changes)]


def test_keys_may_be_of_any_type_and_several(run, tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [("a", [1, 2], 5), ("a", [1], 5), ("b", [1, 2], 7), ("a", [1, 2], 1), (None, [9], 6)]
    lines = [dict(zip(("net", "path", "size"), row, strict=True)) for row in rows]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    options = ["--key", "net", "--key", "path", "--by", "sum(size)", "--last", 5]
    records = json.loads(run("totals", path, *options, "--format", "json").out)
    assert [(row["net"], row["path"], row["score"]) for row in records] == [
        ("b", "[1,2]", 7),
        (None, "[9]", 6),
        ("a", "[1,2]", 6),
        ("a", "[1]", 5),
    ]
    assert list(records[0]) == ["window_start", "window_end", "rank", "score", "net", "path"]


def test_the_table_shows_keys_and_no_rows(run, log, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran = run("totals", log, *ON, "--by", "count(*)", "--k", 2, "--last", 16)
    assert "0 to 16" in ran.out
    assert "row" not in ran.out
    best = next(line for line in ran.out.splitlines() if line.startswith("│    1 "))
    assert [cell.strip() for cell in best.split("│")[1:4]] == ["1", "5", "bob"]


def test_a_file_without_rows_has_no_totals(run, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ts,client,bytes\n")
    ran = run("totals", path, *ON, "--by", "sum(bytes)", "--last", 5, "--format", "csv")
    assert (ran.code, ran.out) == (0, "window_start,window_end,rank,score,client\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "bytes"], "--by is 'bytes'; expected sum, count, max, min, avg, first"),
        (["--by", "median(bytes)"], "fix: write --by 'sum(bytes)', or --by 'count(*)'"),
        (["--by", "sum()"], "--by is 'sum()'"),
        (["--by", "sum(*)"], "--by is 'sum(*)'; expected sum, count"),
        (["--by", "count(distinct client)"], "--by is 'count(distinct client)'; expected sum"),
        (["--by", "sum(bytes) + sum(ts)"], "--by is 'sum(bytes) + sum(ts)'; expected sum"),
        (["--by", "sum(byte)"], "--by: {file} has no column 'byte'"),
        (["--by", "sum(client)"], "turn it into a number: --by 'sum(TRY_CAST(client AS DOUBLE))'"),
        (["--by", "sum(max(bytes))"], "--by 'max(bytes)' has an aggregate"),
        (["--by", "sum(bytes)", "--key", "clint"], "--key: {file} has no column 'clint'"),
        (["--by", "sum(bytes)", "--k", "0"], "--k is '0'"),
        (["--by", "sum(bytes)", "--slide", "9"], "slide is 9"),
        ([], "missing option '--by'"),
    ],
)
def test_what_is_wrong_is_reported_before_any_work(run, log, arguments, message):
    error = run.fails("totals", log, *ON, "--last", 5, *arguments)
    assert message.format(file=log) in error


def test_explain_says_how_it_would_be_answered(run, log):
    options = [*ON, "--by", "sum(bytes)", "--k", 3, "--last", 6, "--slide", 2]
    text = " ".join(run("explain", log, *options).out.split())
    assert "top 3 keys by sum of the last 6 objects, every 2 by sum(bytes)" in text
    assert "algorithm pane-totals" in text
    assert "keys 5 different client" in text
    assert "6 rows per window, 2 per slide; kept is a total of each key in each pane" in text
    (record,) = json.loads(run("explain", log, *options, "--json").out)
    assert (record["key"], record["by"], record["distinct"]) == ("client", "sum(bytes)", 5)
    assert (record["partials_most"], record["algorithm"]) == (6, "pane-totals")
    timed = run("explain", *ON, "--by", "count(*)", "--time", "ts", "--window", 10)
    assert "name a FILE to find out" in " ".join(timed.out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "bytes"], "--by is 'bytes'"),
        ([], "--key without --by"),
        (["--by", "sum(bytes)", "--queries", "q.csv"], "--queries with --key"),
        (["--by", "sum(bytes)", "--algorithm", "eaa"], "--algorithm is 'eaa'; expected auto"),
        (["--by", "sum(byte)"], "did you mean 'bytes'?"),
    ],
)
def test_explain_refuses_what_does_not_fit(run, log, arguments, message):
    assert message in run.fails("explain", log, *ON, "--last", 5, *arguments)


def test_totals_beside_the_one_that_ranks(run, log):
    also = [
        "--also",
        "orders=count(*)",
        "--also",
        "largest=max(ts)",
        "--also",
        "sized=count(bytes)",
    ]
    ranked = run("totals", log, *ON, "--by", "last(bytes)", "--last", 16, *also, "--format", "csv")
    assert ranked.code == 0, ranked.err
    assert ranked.out.splitlines() == [
        "window_start,window_end,rank,score,orders,largest,sized,client",
        "0,16,1,inf,2.0,14,2.0,dan",
        "0,16,2,5.0,4.0,16,2.0,cid",
        "0,16,3,4.0,2.0,13,2.0,",
        "0,16,4,2.0,5.0,24,5.0,bob",
        "0,16,5,-3.0,3.0,11,3.0,ann",
    ]
    assert ranked.err == ""
    options = ["--by", "max(bytes)", "--last", 16, "--k", 1, *also]
    record = json.loads(run("totals", log, *ON, *options, "--format", "json").out)[0]
    assert record == {
        "window_start": 0, "window_end": 16, "rank": 1, "score": None, "orders": 2.0,
        "largest": 14, "sized": 2.0, "client": "dan",
    }  # fmt: skip
    assert "orders" in run("totals", log, *ON, *options).out
    explained = run("explain", log, *ON, *options)
    assert "count(*) AS orders" in explained.out


@pytest.mark.parametrize(
    ("also", "message"),
    [
        (["count(*)"], "--also is 'count(*)'; expected a name of its own and a total"),
        (["n=bytes"], "--also is 'n=bytes'"),
        (["n=count(*)", "N=sum(bytes)"], "--also is 'N=sum(bytes)'"),
        (["rank=count(*)"], "also has a total called 'rank'"),
        (["client=count(*)"], "--also has a column called 'client', as a key"),
        (["n=sum(size)"], "size"),
    ],
)
def test_totals_that_cannot_be_carried(run, log, also, message):
    options = [part for text in also for part in ("--also", text)]
    refused = run("totals", log, *ON, "--by", "sum(bytes)", "--last", 4, *options)
    assert refused.code == 2
    assert message in refused.err
