"""``skyband dominating`` prints the same, byte for byte, on Spark and on the local engine."""

from __future__ import annotations

import random

import pytest

from tests.command_line import Runner

pytestmark = pytest.mark.spark

ON = ["--on", "price:min", "--on", "stars:max", "--on", "beds:max"]


@pytest.fixture
def run(spark, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture
def hotels(tmp_path):
    """Many equal attributes, some missing; times that repeat, go back and leave gaps."""
    chance = random.Random(5)
    lines = ["tick,ts,city,price,stars,beds"]
    for _ in range(300):
        tick = chance.randrange(-40, 160) + 400 * chance.randrange(2)
        ts = f"1970-01-02 00:{tick // 60 % 60:02d}:{tick % 60:02d}"
        price, stars, beds = (chance.choice(["", "nan", *"111223344567"]) for _ in range(3))
        lines.append(f"{tick},{ts},{chance.choice(['rome', 'oslo', ''])},{price},{stars},{beds}")
    file = tmp_path / "hotels.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    "options",
    [
        ["--last", 50, "--slide", 15, "--k", 4],
        ["--time", "tick", "--window", 30, "--slide", 12, "--offset", 5, "--k", 3],
        ["--time", "ts", "--window", "30 s", "--slide", "10 s", "--k", 3],
        ["--last", 20, "--slide", 5, "--k", 3, "--partition-by", "city", "--full"],
        [
            "--time",
            "tick",
            "--window",
            30,
            "--slide",
            10,
            "--emit",
            "changes",
            "--algorithm",
            "bfa",
        ],
        ["--last", 50, "--slide", 15, "--ties", "oldest", "--rank-by", "rank"],
        ["--time", "tick", "--window", 30, "--slide", 12, "--rank-by", "dense_rank", "--k", 3],
        [
            *("--last", 20, "--slide", 5, "--k", 3, "--partition-by", "city"),
            *("--emit", "changes", "--ties", "oldest", "--rank-by", "dense_rank"),
        ],
    ],
    ids=["counts", "ticks", "times", "keys", "changes", "rank", "dense_rank", "by key"],
)
def test_both_engines_print_the_same(run, hotels, options):
    arguments = ["dominating", hotels, *ON, *options, "--format", "csv"]
    local = run(*arguments, "--engine", "local")
    assert local.code == 0
    assert len(local.rows) > 20
    assert "not ranked: " in local.err
    assert run(*arguments, "--engine", "spark") == local
