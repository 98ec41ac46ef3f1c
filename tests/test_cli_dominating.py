"""``skyband dominating`` against the oracle, with the options and messages of ``top``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from skyband.cli.output.leaderboard import Leaderboard
from skyband.dominating import ALGORITHMS, EXACT
from tests.command_line import Runner, by_key, in_order
from tests.oracle import changes, count_dominating, time_dominating

HOTELS = [  # ts, city, price, stars; a blank is NULL
    (1, "rome", 90, 3),
    (2, "oslo", 80, 3),
    (3, "rome", 70, 4),
    (3, "rome", 70, 4),
    (5, "oslo", 200, 5),
    (6, "", 60, 2),
    (8, "oslo", None, 5),
    (9, "rome", 100, 1),
    (12, "oslo", 75, "nan"),
    (13, "oslo", 80, 4),
    (14, "rome", 95, 2),
    (21, "rome", 85, 3),
]
POINTS = [
    None if price is None or stars == "nan" else (float(price), -float(stars))
    for _, _, price, stars in HOTELS
]
TIMES = [ts for ts, *_ in HOTELS]
CITIES = [city or None for _, city, *_ in HOTELS]
ON = ["--on", "price:min", "--on", "stars : max"]


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def hotels(tmp_path):
    lines = [",".join("" if value is None else str(value) for value in row) for row in HOTELS]
    path = tmp_path / "hotels.csv"
    path.write_text("\n".join(["ts,city,price,stars", *lines]) + "\n")
    return path


def windows(rows, *window, timed=False):
    """The oracle's windows over some rows of the file, with their numbers in the file."""
    points = [POINTS[row] for row in rows]
    answers = (
        time_dominating(points, [TIMES[row] for row in rows], *window)
        if timed
        else count_dominating(points, *window)
    )
    return [replace(a, rows=tuple((score, rows[at]) for score, at in a.rows)) for a in answers]


def expected(*window, keys=None, timed=False):
    lines = []
    for key, rows in by_key(keys, len(POINTS)):
        for a in windows(rows, *window, timed=timed):
            lines += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(lines)


@pytest.mark.parametrize("algorithm", ["auto", *EXACT])
def test_count_windows_are_those_of_the_oracle(run, hotels, algorithm):
    window = ["--k", 3, "--last", 6, "--slide", 2]
    ran = run("dominating", hotels, *ON, *window, "--format", "csv", "--algorithm", algorithm)
    assert ran.code == 0
    assert ran.err == ("skyband: not ranked: 1 with a NULL attribute, 1 with a NaN attribute\n")
    assert ran.out.startswith("window_start,window_end,rank,score,row,ts,city,price,stars\n")
    assert ran.ranked == expected(6, 2, 3)


def test_time_windows_are_those_of_the_oracle(run, hotels):
    window = ["--k", 2, "--time", "ts", "--window", 10, "--slide", 4, "--offset", 1]
    ran = run("dominating", hotels, *ON, *window, "--format", "csv")
    assert ran.ranked == expected(10, 4, 2, 1, timed=True)


def test_each_key_is_ranked_by_itself(run, hotels):
    by_count = ["--k", 2, "--last", 3, "--slide", 1]
    by_time = ["--k", 2, "--time", "ts", "--window", 10, "--slide", 5]
    options = ["--partition-by", "city", "--format", "csv"]
    ran = run("dominating", hotels, *ON, *by_count, *options)
    assert ran.ranked == expected(3, 1, 2, keys=CITIES)
    ran = run("dominating", hotels, *ON, *by_time, *options)
    assert ran.ranked == expected(10, 5, 2, keys=CITIES, timed=True)


@pytest.mark.parametrize("keys", [None, CITIES])
def test_changes_report_the_score_of_their_window(run, hotels, keys):
    options = ["--emit", "changes", "--format", "json", "--k", 2, "--last", 4, "--slide", 2]
    options += [] if keys is None else ["--partition-by", "city"]
    records = json.loads(run("dominating", hotels, *ON, *options).out)
    expected_changes = []
    for key, rows in by_key(keys, len(POINTS)):
        answers = windows(rows, 4, 2, 2)
        scores = {(a.end, row): score for a in answers for score, row in a.rows}
        for end, report in changes(answers, 2):
            for row, (rank, previous) in report.items():
                score = scores[end if rank else end - 2, row]
                expected_changes.append((end, key, rank or 99, previous, row, score))
    assert [
        (row["window_end"], row["rank"] or 99, row["previous_rank"] or 0, row["row"], row["score"])
        for row in records
    ] == [(end, *rest) for end, _, *rest in sorted(expected_changes)]


def test_the_table_shows_what_top_shows(run, hotels, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran = run("dominating", hotels, *ON, "--k", 2, "--last", 6)
    assert "0 to 6" in ran.out
    assert "6 to 12" in ran.out
    for column in ("rank", "score", "row", "price", "stars"):
        assert column in ran.out
    best = next(line for line in ran.out.splitlines() if line.startswith("│    1 "))
    assert [cell.strip() for cell in best.split("│")[1:4]] == ["1", "2", "3"]  # row 3, ties: newer


def test_approximate_windows_are_reported(run, hotels, monkeypatch):
    add = Leaderboard.add

    def doubtful(self, ranked, key=None):
        exact = np.arange(len(ranked)) % 2 == 0
        add(self, replace(ranked, exact=exact, accuracy=np.where(exact, 1.0, 0.9)), key)

    monkeypatch.setattr(Leaderboard, "add", doubtful)
    ran = run("dominating", hotels, *ON, "--last", 6, "--slide", 3, "--format", "csv")
    warning = "skyband: 2 of 4 windows are approximate; about 90.0 % of their rows are right\n"
    assert ran.err.endswith(warning)


def test_dimensions_may_be_expressions(run, hotels):
    plain = run("dominating", hotels, *ON, "--last", 6, "--slide", 3, "--format", "csv")
    same = ["--on", "-price * 2:max", "--on", "CAST(stars AS DOUBLE)::DOUBLE:max"]
    ran = run("dominating", hotels, *same, "--last", 6, "--slide", 3, "--format", "csv")
    assert ran.out == plain.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "price"], "--on is 'price'; expected an attribute and min or max"),
        (["--on", "price:less"], "fix: write --on price:min, or :max where more is better"),
        (["--on", ":min"], "expected an attribute and min or max"),
        (["--on", "prise:min"], "--on: {file} has no column 'prise'"),
        (["--on", "city:min"], "fix: turn it into a number: --on 'TRY_CAST(city AS DOUBLE):min'"),
        (["--on", "price >:min"], "fix: write --on price:min"),
        (["--on", "price:min", "--on", "price:max"], "dimension 'price' is given twice"),
        (["--on", "price:min", "--algorithm", "sap"], "--algorithm is 'sap'; expected one of auto"),
        (["--on", "price:min", "--k", "0"], "--k is '0'"),
        (["--on", "price:min", "--emit", "some"], "--emit is 'some'"),
        ([], "missing option '--on'"),
    ],
)
def test_what_is_wrong_is_reported_before_any_work(run, hotels, arguments, message):
    error = run.fails("dominating", hotels, "--last", 5, *arguments)
    assert message.format(file=hotels) in error


def test_explain_says_how_it_would_be_answered(run, hotels):
    window = ["--k", 3, "--last", 6, "--slide", 2]
    text = " ".join(run("explain", hotels, *ON, *window).out.split())
    assert "top 3 dominating of the last 6 objects, every 2, by least price and most stars" in text
    assert "12 rows" in text
    assert "6 points per window, 2 per slide" in text
    (record,) = json.loads(run("explain", hotels, *ON, *window, "--json").out)
    assert record["on"] == "price:min, stars:max"
    assert record["algorithm"] in ALGORITHMS
    assert (record["window"], record["slide"], record["rows"]) == (6, 2, 12)
    timed = run("explain", *ON, "--time", "ts", "--window", 10)
    assert "name a FILE to find out" in " ".join(timed.out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "price"], "--by with --on"),
        (["--queries", "queries.csv"], "--queries with --on"),
        (["--algorithm", "sap"], "--algorithm is 'sap'"),
    ],
)
def test_explain_refuses_what_does_not_fit(run, hotels, arguments, message):
    assert message in run.fails("explain", hotels, *ON, "--last", 5, *arguments)
