"""``--cumulative`` and ``--all-time`` on the command line, against the oracle."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.command_line import Runner, by_key, in_order
from tests.oracle import FOREVER, all_time_windows, cumulative_windows
from tests.oracle_totals import all_time_totals, cumulative_totals

ENGINES = ["local", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def run(capsys, monkeypatch):
    return Runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(6)
    return {
        "price": [None if at % 17 == 3 else float(rng.integers(1, 99)) / 4 for at in range(150)],
        "sector": [[None, "tech", "oil"][at] for at in rng.integers(0, 3, 150)],
        "tick": rng.integers(-50, 150, 150).tolist(),
        "client": rng.integers(0, 9, 150).tolist(),
    }


@pytest.fixture(scope="module")
def file(stream, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "stream.parquet"
    parquet.write_table(pa.table(stream), path)
    return path


def expected(stream, every, period=None, offset=0, keys=None):
    lines = []
    for key, rows in by_key(keys, len(stream["tick"])):
        columns = [stream["price"][r] for r in rows], [stream["tick"][r] for r in rows]
        if period is None:
            answers = all_time_windows(*columns, every, 3, rows)
        else:
            answers = cumulative_windows(*columns, period, every, 3, offset, rows)
        for a in answers:
            lines += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(lines)


def ranked(ran):
    assert ran.code == 0, ran.err
    return [
        (
            int(row["window_start"] or -FOREVER),
            int(row["window_end"]),
            int(row["rank"]),
            float(row["score"]),
            int(row["row"]),
        )
        for row in ran.rows
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keyed", [False, True])
def test_top(run, file, stream, engine, keyed):
    top = ("top", file, "--by", "price", "--k", 3, "--time", "tick", "--format", "csv")
    top += ("--engine", engine, *(["--partition-by", "sector"] if keyed else []))
    keys = stream["sector"] if keyed else None
    cumulative = ("--cumulative", 40, "--every", 8, "--offset", 3)
    assert ranked(run(*top, *cumulative)) == expected(stream, 8, 40, 3, keys)
    assert ranked(run(*top, "--all-time", "--every", 7)) == expected(stream, 7, keys=keys)


@pytest.mark.parametrize("engine", ENGINES)
def test_totals(run, file, stream, engine):
    totals = ("totals", file, "--key", "client", "--by", "sum(price)", "--k", 3, "--time", "tick")
    totals += ("--format", "csv", "--engine", engine)
    values = [math.nan if price is None else price for price in stream["price"]]
    columns = stream["client"], values, stream["tick"]
    for options, answers in (
        (("--cumulative", 40, "--every", 8), cumulative_totals(*columns, 40, 8, "sum", 3)),
        (("--all-time", "--every", 7), all_time_totals(*columns, 7, "sum", 3)),
    ):
        ran = run(*totals, *options)
        rows = [
            (int(row["window_end"]), float(row["score"]), int(row["client"])) for row in ran.rows
        ]
        assert rows == [(a.end, *row) for a in answers for row in a.rows]


def test_a_window_without_a_start(run, file):
    top = ("top", file, "--by", "price", "--k", 1, "--time", "tick", "--all-time", "--every", 400)
    *_, record = json.loads(run(*top, "--format", "json").out)
    assert (record["window_start"], record["window_end"]) == (None, 400)
    assert "all before 400" in run(*top, "--format", "table").out


def test_changes(run, file):
    top = ("top", file, "--by", "price", "--k", 2, "--time", "tick", "--emit", "changes")
    ran = run(*top, "--all-time", "--every", 20, "--partition-by", "sector", "--format", "csv")
    best = {}
    for row in ran.rows:
        best.setdefault(row["sector"], []).append(row["change"])
    assert set(best) == {"", "tech", "oil"}
    assert all(changes[0] == "entered" for changes in best.values())


def test_explain(run, file):
    ran = run("explain", file, "--by", "price", "--time", "tick", "--all-time", "--every", 20)
    assert "all time, every 20 ticks" in ran.out
    assert "mintopk" in ran.out
    ran = run("explain", "--by", "price", "--time", "ts", "--cumulative", "1 day", "--every", "1 h",
              "--json")  # fmt: skip
    (metrics,) = json.loads(ran.out)
    assert (metrics["window_kind"], metrics["panes_per_window"]) == ("cumulative", 24)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--every", "1 s"], "--every alone; expected one of --cumulative, --all-time"),
        (["--cumulative", "1 day", "--all-time", "--every", "1 s"], "both --cumulative and"),
        (["--cumulative", "1 day"], "--cumulative without --every"),
        (["--all-time"], "--all-time without --every"),
        (["--all-time", "--every", "1 s", "--window", "1 h"], "--window with --all-time"),
        (["--all-time", "--every", "1 s", "--offset", "1 s"], "--offset with --all-time"),
        (["--cumulative", "1 day", "--every", "1 s", "--slide", "1 s"], "leave --slide out"),
        (["--cumulative", "1 day", "--every", "7 h"], "write --cumulative '1 day' --every"),
        (["--cumulative", "1 day", "--every", "1 h"], "--time tick is whole numbers"),
    ],
)
def test_what_makes_no_sense(run, file, options, message):
    assert message in run.fails("top", file, "--by", "price", "--time", "tick", *options)
