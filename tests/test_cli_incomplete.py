"""``skyband incomplete`` against the oracle, with the options and messages of ``top``."""

from __future__ import annotations

import json

import pytest

from skyband.incomplete import ALGORITHMS
from tests.command_line import Runner, by_key
from tests.oracle import changes
from tests.oracle_incomplete import count_incomplete, time_incomplete

CARS = [  # ts, road, plate, camera, speed; a blank is NULL
    (1, "a", "K-7", "north", 90),
    (2, "b", "B-1", "south", 70),
    (3, "a", "K-7", "south", 40),
    (3, "a", "Z-9", "north", 90),
    (3, "a", "A-2", "north", 90),
    (5, "b", "B-1", "north", 100),
    (6, "", "B-1", "east", 60),
    (8, "a", "Z-9", "south", None),
    (9, "b", "", "south", 120),
    (11, "a", "Z-9", "east", "nan"),
    (11, "a", "K-7", "north", 80),
    (12, "a", "A-2", "", 120),
    (13, "b", "C-3", "east", 130),
    (14, "b", "C-3", "east", 20),
    (16, "a", "Z-9", "south", 30),
    (24, "b", "B-1", "south", 55),
]
STREAMS = ["east", "north", "south"]
ROADS = [road or None for _, road, *_ in CARS]
TIMES = [ts for ts, *_ in CARS]
ROWS = [
    (plate, STREAMS.index(camera) if camera else 0, speed if speed != "nan" and speed else None)
    for _, _, plate, camera, speed in CARS
]
ROWS = [
    (plate, stream, value if plate and car[3] else None)
    for (plate, stream, value), car in zip(ROWS, CARS, strict=True)
]
ON = ["--id", "plate", "--stream", "camera", "--value", "speed", "--bounds", "0:130"]
LOW = [0.0, 0.0, 0.0]


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture
def cars(tmp_path):
    lines = [",".join("" if value is None else str(value) for value in row) for row in CARS]
    path = tmp_path / "cars.csv"
    path.write_text("\n".join(["ts,road,plate,camera,speed", *lines]) + "\n")
    return path


def windows(rows, *window, timed=False, combine="sum", low=LOW, repeats="max", **more):
    part = [ROWS[row] for row in rows]
    *span, k = window
    if timed:
        times = [TIMES[row] for row in rows]
        return time_incomplete(part, times, *span, k, combine, low, repeats, **more)
    return count_incomplete(part, *span, k, combine, low, repeats, **more)


def expected(*window, keys=None, **options):
    """(start, end, rank, score, plate) of each line, in the order of printing."""
    lines = []
    for key, rows in by_key(keys, len(ROWS)):
        for a in windows(rows, *window, **options):
            lines += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return [
        (start, end, rank, score, plate)
        for end, _, rank, start, score, plate in sorted(lines, key=lambda line: line[:3])
    ]


def printed(ran):
    return [
        (
            int(row["window_start"]),
            int(row["window_end"]),
            int(row["rank"]),
            float(row["score"]),
            row["plate"],
        )
        for row in ran.rows
    ]


@pytest.mark.parametrize("algorithm", ["auto", "recompute", "sla", "eaa"])
def test_count_windows_are_those_of_the_oracle(run, cars, algorithm):
    window = ["--k", 3, "--last", 6, "--slide", 2, "--algorithm", algorithm]
    ran = run("incomplete", cars, *ON, *window, "--format", "csv")
    assert ran.code == 0
    assert ran.err == (
        "skyband: not ranked: 1 with a NULL value, 1 with a NaN value\n"
        "skyband: not ranked: 2 with a NULL id or stream\n"
    )
    assert ran.out.startswith("window_start,window_end,rank,score,plate\n")
    assert printed(ran) == expected(6, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--combine", "max"], {"combine": "max"}),
        (["--combine", "min"], {"combine": "min"}),
        (["--combine", "0.5,2,1"], {"combine": [0.5, 2.0, 1.0]}),
        (["--repeats", "sum:3"], {"repeats": "sum"}),
        (["--bounds", "south=-10:200"], {"low": [0.0, 0.0, -10.0]}),
    ],
)
def test_time_windows_are_those_of_the_oracle(run, cars, arguments, options):
    window = ["--k", 3, "--time", "ts", "--window", 10, "--slide", 4, "--offset", 1]
    ran = run("incomplete", cars, *ON, *window, *arguments, "--format", "csv")
    assert printed(ran) == expected(10, 4, 3, timed=True, offset=1, **options)


def test_each_key_is_ranked_by_itself(run, cars):
    options = ["--partition-by", "road", "--format", "csv", "--k", 2]
    ran = run("incomplete", cars, *ON, *options, "--last", 4, "--slide", 1)
    assert printed(ran) == expected(4, 1, 2, keys=ROADS)
    assert ran.out.startswith("window_start,window_end,rank,score,road,plate\n")
    assert ran.err.endswith("skyband: not ranked: 2 with a NULL id or stream\n")
    ran = run("incomplete", cars, *ON, *options, "--time", "ts", "--window", 10, "--slide", 5)
    assert printed(ran) == expected(10, 5, 2, keys=ROADS, timed=True)


@pytest.mark.parametrize("keys", [None, ROADS])
def test_changes_are_those_of_the_oracle(run, cars, keys):
    options = ["--emit", "changes", "--format", "json", "--k", 2, "--last", 4, "--slide", 2]
    options += [] if keys is None else ["--partition-by", "road"]
    records = json.loads(run("incomplete", cars, *ON, *options).out)
    expected_changes = []
    for key, rows in by_key(keys, len(ROWS)):
        for end, report in changes(windows(rows, 4, 2, 2), 2):
            expected_changes += [
                (end, key, rank or 99, previous, plate)
                for plate, (rank, previous) in report.items()
            ]
    assert [
        (row["window_end"], row["rank"] or 99, row["previous_rank"] or 0, row["plate"])
        for row in records
    ] == [(end, *rest) for end, _, *rest in sorted(expected_changes)]


def test_streams_that_are_named_are_all_that_count(run, cars):
    window = ["--last", 20, "--slide", 2, "--k", 3, "--format", "csv"]
    ran = run("incomplete", cars, *ON, *window, "--streams", "south,north,west")
    rows = [
        (plate, {1: 1, 2: 0}[stream], value) if car[3] else (plate, 0, None)
        for (plate, stream, value), car in zip(ROWS, CARS, strict=True)
        if car[3] != "east"
    ]
    answers = count_incomplete(rows, 20, 2, 3, "sum", LOW)
    assert printed(ran) == [
        (a.start, a.end, rank, *row) for a in answers for rank, row in enumerate(a.rows, 1)
    ]
    assert "skyband: left out: 4 rows of other streams\n" in ran.err
    assert "skyband: no rows: stream 'west'\n" in ran.err


def test_values_outside_of_the_bounds_are_refused_or_clipped_and_counted(run, cars):
    window = ["--last", 6, "--slide", 2, "--format", "csv"]
    narrow = [*ON[:-1], "10:100", "--bounds", "east=-20:130"]
    error = run.fails("incomplete", cars, *narrow, *window, "--value", "speed - 40")
    assert error == (
        "skyband: a value of -10 in stream 'south'; expected values from 10 to 100; "
        "fix: write --bounds -10:100, or --outside clip\n"
    )
    ran = run("incomplete", cars, *narrow, *window, "--outside", "clip", "--k", 9)
    clipped = [
        (plate, stream, value if value is None or stream == 0 else min(max(value, 10), 100))
        for plate, stream, value in ROWS
    ]
    answers = count_incomplete(clipped, 6, 2, 9, "sum", [-20.0, 10.0, 10.0])
    assert printed(ran) == [
        (a.start, a.end, rank, *row) for a in answers for rank, row in enumerate(a.rows, 1)
    ]
    assert "clipped" not in ran.err
    ran = run("incomplete", cars, *ON[:-1], "50:100", *window, "--outside", "clip")
    assert ran.err.endswith("skyband: clipped: 4 values outside of the bounds\n")


@pytest.mark.parametrize("keys", [[], ["--partition-by", "road"]])
def test_algorithms_have_options(run, cars, keys):
    arguments = ["incomplete", cars, *ON, *keys, "--last", 6, "--slide", 2, "--format", "csv"]
    plain = run(*arguments)
    named = [*arguments, "--algorithm", "eaa"]
    assert run(*named, "--option", "slack=0", "--option", "slack = 0.25") == plain
    assert "option 'slak'" in run.fails(*named, "--option", "slak=1")
    assert "slack is 'wide'" in run.fails(*named, "--option", "slack=wide")
    assert "option 'slack' for auto" in run.fails(*arguments, "--option", "slack=0")


def test_approximate_answers_are_reported(run, cars):
    arguments = ["incomplete", cars, *ON, "--last", 6, "--slide", 2, "--format", "csv"]
    plain = run(*arguments)
    likely = run(*arguments, "--algorithm", "likely", "--option", "error=0")  # misses nothing
    warning = "skyband: approximate: likely may miss some of the best objects\n"
    assert (likely.out, likely.err) == (plain.out, plain.err + warning)
    assert "error is 1" in run.fails(*arguments, "--algorithm", "likely", "--option", "error=1")


def test_ids_may_be_of_any_type_and_several(run, tmp_path):
    path = tmp_path / "seen.jsonl"
    rows = [("x", 10, "s1", 0.5), ("x", 9, "s1", 0.5), ("a", 10, "s2", 0.5), ("x", 10, "s2", 0.25)]
    lines = [dict(zip(("net", "host", "s", "v"), row, strict=True)) for row in rows]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    options = ["--id", "net", "--id", "host", "--stream", "s", "--value", "v", "--last", 4]
    ran = run("incomplete", path, *options, "--format", "json")
    assert [(row["net"], row["host"], row["score"]) for row in json.loads(ran.out)] == [
        ("x", 10, 0.75),
        ("a", 10, 0.5),
        ("x", 9, 0.5),
    ]
    by_host = run("incomplete", path, *options[2:], "--format", "csv").out.splitlines()
    assert by_host[1:] == ["0,4,1,1.0,10", "0,4,2,0.5,9"]  # of several values the largest counts


def test_the_table_shows_objects_and_no_rows(run, cars, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran = run("incomplete", cars, *ON, "--k", 2, "--last", 6, "--slide", 6)
    assert "0 to 6" in ran.out
    assert "row" not in ran.out
    best = next(line for line in ran.out.splitlines() if line.startswith("│    1 "))
    assert [cell.strip() for cell in best.split("│")[1:4]] == ["1", "170", "B-1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bounds", "1"], "--bounds is '1'; expected the lowest and the highest value"),
        (["--bounds", "9:1"], "--bounds is '9:1'"),
        (["--bounds", "0:1", "--bounds", "0:2"], "--bounds '0:2' comes after others of the same"),
        (["--bounds", "nort=0:1"], "--bounds of 'nort'; expected one of east, north, south"),
        (["--combine", "avg"], "--combine is 'avg'; expected sum, min, max, or a weight per"),
        (["--combine", "1,2"], "expected 'sum', 'min', 'max', 3 weights of zero or more"),
        (["--streams", "a,b", "--combine", "1"], "fix: write --combine sum, or a weight per stre"),
        (["--streams", "a,,b"], "--streams is 'a,,b'; expected names with commas between them"),
        (["--streams", "a,a"], "stream 'a' is given twice"),
        (["--outside", "drop"], "--outside is 'drop'; expected one of error, clip"),
        (["--repeats", "sum"], "there are at most; fix: write --repeats sum:3"),
        (["--repeats", "avg"], "--repeats is 'avg'; expected max, none, or sum and how many"),
        (["--repeats", "sum:2", "--bounds", "-1:130"], "fix: shift the values, or write --repeats"),
        (["--algorithm", "sap"], "--algorithm is 'sap'; expected one of auto, recompute, sla, eaa"),
        (["--id", "plat"], "--id: {file} has no column 'plat'"),
        (["--stream", "cam"], "--stream: {file} has no column 'cam'"),
        (["--value", "plate"], "fix: turn it into a number: --value 'TRY_CAST(plate AS DOUBLE)'"),
        (["--value", "sum(speed)"], "--value 'sum(speed)' has an aggregate"),
        (["--k", "0"], "--k is '0'"),
        (["--option", "slack"], "--option is 'slack'; expected a name and a value"),
        (["--stream", "nothing"], "--stream: {file} names no stream in 'nothing'"),
    ],
)
def test_what_is_wrong_is_reported_before_any_work(run, cars, arguments, message):
    text = cars.read_text().splitlines()
    cars.write_text("\n".join([f"{text[0]},nothing", *(f"{line}," for line in text[1:])]) + "\n")
    plain = [
        argument
        for argument in ON
        if "--bounds" not in arguments or argument not in ("--bounds", "0:130")
    ]
    error = run.fails("incomplete", cars, *plain, "--last", 5, *arguments)
    assert message.format(file=cars) in error
    assert set(ALGORITHMS) >= {"recompute", "sla", "eaa"}


def test_explain_says_how_it_would_be_answered(run, cars):
    window = ["--k", 3, "--last", 6, "--slide", 2]
    text = " ".join(run("explain", cars, *ON, *window).out.split())
    assert "top 3 objects of the last 6 objects, every 2, by the sum of east, north and sou" in text
    assert "algorithm eaa" in text
    assert "streams all: values from 0 to 130" in text
    assert "6 rows per window, 2 per slide; kept are at most all of them: about 3.0 kB" in text
    (record,) = json.loads(run("explain", cars, *ON, *window, "--json").out)
    assert (record["id"], record["stream"], record["value"]) == ("plate", "camera", "speed")
    assert (record["streams"], record["rows"]) == ("east, north, south", 16)
    assert (record["algorithm"], record["repeats"]) == ("eaa", "max")
    named = ["--streams", "a,b", "--bounds", "0:1", "--bounds", "b=-1:1", "--repeats", "none"]
    text = " ".join(run("explain", *named, "--time", "t", "--window", 9).out.split())
    assert "a: values from 0 to 1 b: values from -1 to 1" in text
    assert "name a FILE to find out" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "speed"], "--by with --id"),
        (["--key", "plate"], "--key with --id"),
        (["--on", "speed:max"], "--id with --on"),
        (["--algorithm", "sap"], "--algorithm is 'sap'"),
        (["--value", "spede"], "--value: {file} has no column 'spede'"),
    ],
)
def test_explain_refuses_what_does_not_fit(run, cars, arguments, message):
    error = run.fails("explain", cars, *ON, "--last", 5, *arguments)
    assert message.format(file=cars) in error


def test_explain_asks_for_what_it_must_know(run, cars):
    assert "neither FILE nor --streams" in run.fails("explain", "--id", "plate", "--last", 5)
    assert "add --id, --stream and --value" in run.fails(
        "explain", cars, "--id", "road", "--last", 5
    )
