"""``skyband incomplete`` and ``totals`` print the same, byte for byte, on Spark and locally."""

from __future__ import annotations

import random

import pytest

from tests.command_line import Runner

pytestmark = pytest.mark.spark

SEEN = ["--id", "plate", "--stream", "camera", "--value", "speed", "--bounds", "0:9"]


ALSO = [
    *("--also", "orders=count(*)", "--also", "seen=count(speed)", "--also", "ticks=sum(tick)"),
    *("--also", "mean=avg(speed)", "--also", "newest=last(tick)"),
]


@pytest.fixture
def run(spark, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture
def cars(tmp_path):
    """Many equal values, some missing; times that repeat, go back and leave gaps."""
    chance = random.Random(6)
    lines = ["tick,ts,road,plate,camera,speed"]
    for _ in range(400):
        tick = chance.randrange(-40, 160) + 400 * chance.randrange(2)
        ts = f"1970-01-02 00:{tick // 60 % 60:02d}:{tick % 60:02d}"
        road, camera = chance.choice(["a", "b", ""]), chance.choice(["north", "south", "east", ""])
        plate = chance.choice(["", *(f"K-{number}" for number in range(12))])
        lines.append(
            f"{tick},{ts},{road},{plate},{camera},{chance.choice(['', 'nan', *'1123467'])}"
        )
    file = tmp_path / "cars.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    "options",
    [
        ["--last", 50, "--slide", 15, "--k", 4],
        ["--time", "tick", "--window", 30, "--slide", 12, "--offset", 5, "--combine", "1,0.5,2"],
        ["--time", "ts", "--window", "30 s", "--slide", "10 s", "--k", 3, "--repeats", "sum:400"],
        ["--last", 20, "--slide", 5, "--k", 3, "--partition-by", "road", "--full"],
        [
            "--last",
            40,
            "--slide",
            10,
            "--emit",
            "changes",
            "--algorithm",
            "eaa",
            "--option",
            "slack=0",
        ],
        ["--last", 50, "--slide", 15, "--ties", "oldest", "--rank-by", "rank"],
        ["--time", "tick", "--window", 30, "--slide", 12, "--rank-by", "dense_rank", "--k", 3],
        [
            *("--last", 20, "--slide", 5, "--k", 3, "--partition-by", "road"),
            *("--emit", "changes", "--ties", "oldest", "--rank-by", "dense_rank"),
        ],
    ],
    ids=["counts", "ticks", "times", "keys", "changes", "rank", "dense_rank", "by key"],
)
def test_both_engines_rank_the_same_objects(run, cars, options):
    arguments = ["incomplete", cars, *SEEN, *options, "--format", "csv"]
    local = run(*arguments, "--engine", "local")
    assert local.code == 0
    assert len(local.rows) > 20
    assert "with a NULL id or stream" in local.err
    on_spark = run(*arguments, "--engine", "spark")
    assert on_spark.err == local.err
    assert on_spark == local


@pytest.mark.parametrize(
    "options",
    [
        ["--last", 50, "--slide", 15, "--by", "sum(speed)"],
        ["--time", "tick", "--window", 30, "--slide", 12, "--offset", 5, "--by", "mean(speed / 7)"],
        ["--time", "ts", "--window", "30 s", "--slide", "10 s", "--k", 3, "--by", "count(*)"],
        ["--last", 20, "--slide", 5, "--k", 3, "--partition-by", "road", "--by", "max(speed)"],
        ["--last", 40, "--slide", 10, "--emit", "changes", "--k", 3, "--by", "sum(speed / 3)"],
        ["--last", 50, "--slide", 15, "--by", "last(speed)", *ALSO],
        ["--time", "ts", "--window", "30 s", "--slide", "10 s", "--by", "first(tick)", *ALSO],
        ["--last", 20, "--slide", 5, "--partition-by", "road", "--by", "sum(tick)", *ALSO],
        ["--time", "tick", "--all-time", "--every", 20, "--by", "last(speed)", *ALSO],
    ],
    ids=[
        *("counts", "ticks", "times", "keys", "changes"),
        *("last", "first", "also by keys", "board"),
    ],
)
def test_both_engines_rank_the_same_totals(run, cars, options):
    arguments = ["totals", cars, "--key", "plate", "--key", "camera", *options, "--format", "csv"]
    local = run(*arguments, "--engine", "local")
    assert local.code == 0
    assert len(local.rows) > 20
    on_spark = run(*arguments, "--engine", "spark")
    assert on_spark.err == local.err
    assert on_spark == local
