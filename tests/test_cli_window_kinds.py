"""``--cumulative`` and ``--all-time`` on the command line, against the oracle."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.command_line import Runner, by_key, in_order
from tests.oracle import (
    FOREVER,
    all_time_windows,
    cumulative_windows,
    dominating,
    numbered,
)
from tests.oracle_incomplete import best_objects
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
        "side": [[None, "l", "r", "r"][at] for at in rng.integers(0, 4, 150)],
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


def points_of(stream, rows):
    """(point, time, row) of the rows that have both attributes; less is better."""
    attributes = zip(stream["price"], stream["client"], stream["tick"], strict=True)
    points = [(None if p is None else (p, -float(c)), t) for p, c, t in attributes]
    return [(points[row][0], points[row][1], row) for row in rows if points[row][0] is not None]


def best_points(stream, every, period, keys, order):
    """What the oracle says of dominating points, as ``ranked`` gives it."""
    lines = []
    for key, rows in by_key(keys, len(stream["tick"])):
        known = points_of(stream, rows)
        columns = [0.0] * len(known), [time for _, time, _ in known]
        bounds = (
            all_time_windows(*columns, every, 1)
            if period is None
            else cumulative_windows(*columns, period, every, 1, 3)
        )
        for a in bounds:
            best = dominating([o for o in known if a.start <= o[1] < a.end], 3, **order)
            ranks = numbered(best, order.get("rank_by", "row_number"))
            pairs = zip(ranks, best, strict=True)
            lines += [(a.end, key, rank, a.start, *row) for rank, row in pairs]
    return in_order(lines)


SO_FAR = {
    "cumulative": (["--cumulative", 40, "--every", 8, "--offset", 3], 8, 40),
    "all time": (["--all-time", "--every", 7], 7, None),
}


@pytest.fixture
def started(request, engine):
    """The engine; tests that rank on Spark share a session."""
    if engine == "spark":
        request.getfixturevalue("spark")
    return engine


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("kind", SO_FAR)
def test_dominating(run, file, stream, started, keyed, kind):
    options, every, period = SO_FAR[kind]
    on = ("--on", "price:min", "--on", "client:max", "--k", 3, "--time", "tick")
    asked = ("dominating", file, *on, *options, "--format", "csv", "--engine", started)
    asked += ("--partition-by", "sector") if keyed else ()
    keys = stream["sector"] if keyed else None
    assert ranked(run(*asked)) == best_points(stream, every, period, keys, {})
    order = {"ties": "oldest", "rank_by": "dense_rank"}
    ran = run(*asked, "--ties", "oldest", "--rank-by", "dense_rank")
    assert ranked(ran) == best_points(stream, every, period, keys, order)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", SO_FAR)
@pytest.mark.parametrize("order", [{}, {"ties": "oldest", "rank_by": "rank"}], ids=str)
def test_incomplete(run, file, stream, started, kind, order):
    options, every, period = SO_FAR[kind]
    asked = ("incomplete", file, "--id", "client", "--stream", "side", "--value", "floor(price)")
    asked += ("--bounds", "0:100", "--k", 2, "--time", "tick", *options, "--format", "csv")
    for name, value in order.items():
        asked += (f"--{name.replace('_', '-')}", value)
    columns = (stream[name] for name in ("client", "side", "price", "tick"))
    rows = [(client, "lr".index(side), float(price // 1), tick)
            for client, side, price, tick in zip(*columns, strict=True)
            if price is not None and side is not None]  # fmt: skip
    rows.sort(key=lambda row: row[3])
    place = [0.0] * len(rows), [row[3] for row in rows]
    windows = (
        all_time_windows(*place, every, 1)
        if period is None
        else cumulative_windows(*place, period, every, 1, 3)
    )
    expected = []
    for a in windows:
        alive = [row for row in rows if a.start <= row[3] < a.end]
        best = best_objects(alive, 2, "sum", [0.0, 0.0], "max", **order)
        ranks = numbered(best, order.get("rank_by", "row_number"))
        expected += [(a.end, rank, *row) for rank, row in zip(ranks, best, strict=True)]
    ran = run(*asked, "--engine", started)
    assert ran.code == 0, ran.err
    types = {"window_end": int, "rank": int, "score": float, "client": int}
    assert [tuple(read(row[n]) for n, read in types.items()) for row in ran.rows] == expected
    asked += ("--emit", "changes", "--partition-by", "sector", "--engine")
    changed = run(*asked, started)
    assert changed.code == 0, changed.err
    assert changed == run(*asked, "local")


def test_rows_that_cannot_be_ranked_do_not_lengthen_all_time(run, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("t,s,o,v\n5,a,x,1\n12,a,y,2\n95,a,x,\n")
    window = ("--time", "t", "--all-time", "--every", 10, "--format", "csv", "--engine", "local")
    for asked in (
        ("top", path, "--by", "v"),
        ("dominating", path, "--on", "v:min"),
        ("incomplete", path, "--id", "o", "--stream", "s", "--value", "v", "--bounds", "0:9"),
        ("totals", path, "--key", "o", "--by", "sum(v)"),
    ):
        for more in ((), ("--partition-by", "s")):
            assert {row["window_end"] for row in run(*asked, *window, *more).rows} == {"10", "20"}
    queries = tmp_path / "queries.csv"
    queries.write_text("name,k,window,slide,all_time,every\na,1,5,5,,\nb,1,,,true,10\n")
    asked = ("workload", path, "--queries", queries, "--by", "v", "--time", "t")
    rows = run(*asked, "--format", "csv", "--engine", "local").rows
    assert {row["window_end"] for row in rows if row["query"] == "b"} == {"10", "20"}


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
        (["--all-time"], "--all-time without --every; expected both; fix: add --every '1 minute'"),
        (["--all-time", "--every", "1 s", "--window", "1 h"], "--window with --all-time"),
        (["--all-time", "--every", "1 s", "--offset", "1 s"], "--offset with --all-time"),
        (["--cumulative", "1 day", "--every", "1 s", "--slide", "1 s"], "leave --slide out"),
        (["--cumulative", "1 day", "--every", "7 h"], "write --cumulative '1 day' --every"),
        (["--cumulative", "1 day", "--every", "1 h"], "--time tick is whole numbers"),
    ],
)
def test_what_makes_no_sense(run, file, options, message):
    assert message in run.fails("top", file, "--by", "price", "--time", "tick", *options)
