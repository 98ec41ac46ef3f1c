"""``skyband top`` prints the same, byte for byte, whether Spark or the local engine computed it."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import signal
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from skyband import TopK
from skyband.cli import options
from skyband.cli.commands import rank
from skyband.cli.commands.top import TopFileOptions
from skyband.cli.input import stage_parquet
from skyband.spark.sessions import _interrupts_later
from tests.command_line import COMPILING, OF_FAMILIES, OF_WINDOWS, Runner, few_rows, process

pytestmark = pytest.mark.spark


@pytest.fixture
def run(spark, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture(params=[False, True], ids=["whole", "pruned"])
def pruned(request, monkeypatch):
    """Whether Spark finds the best of each pane first; either way answers are the same."""
    monkeypatch.setattr(stage_parquet.Stage, "prune", request.param)


def both(run, *arguments, stdin=None):
    """What both engines print."""
    local = run("top", *arguments, "--engine", "local", stdin=stdin)
    spark = run("top", *arguments, "--engine", "spark", stdin=stdin)
    assert spark == local
    assert local.code == 0
    return local


@pytest.mark.usefixtures("pruned")
@pytest.mark.parametrize(
    ("queries", "time"),
    [
        ("name,k,window,slide\na,2,40,15\nb,5,100,30\nc,1,7,7\n", []),
        ("name,k,window,slide\na,2,8 s,3 s\nb,4,30 s,10 s\n", ["--time", "ts"]),
        ("name,k,window,slide\na,2,8,3\nb,4,30,10\n", ["--time", "tick"]),
        ("name,k,window,slide,full\na,2,40,15,yes\nb,5,9,3,no\n", ["--emit", "changes"]),
        ("name,k,window,slide\na,2,8 s,3 s\n", ["--time", "ts", "--emit", "changes"]),
    ],
    ids=["counts", "times", "ticks", "changes of counts", "changes of times"],
)
def test_workloads(run, files, tmp_path, queries, time):
    file = tmp_path / "queries.csv"
    file.write_text(queries)
    arguments = ["workload", files / "stream.parquet", "--queries", file, "--by", "price", *time]
    local = run(*arguments, "--format", "csv", "--engine", "local")
    assert local.code == 0
    assert len(local.rows) > 50
    assert run(*arguments, "--format", "csv", "--engine", "spark") == local


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """300 rows with ties, NULL and NaN scores, NULL keys and times, and times in any order."""
    rng = np.random.default_rng(6)
    rows = 300
    price = [None if rng.random() < 0.05 else float(rng.integers(0, 9)) / 4 for _ in range(rows)]
    tick = [
        None if at % 50 == 3 else int(value) for at, value in enumerate(rng.integers(-90, 90, rows))
    ]
    start = datetime(1969, 12, 31, 23, 59, tzinfo=UTC)
    moments = [
        None if t is None else start + timedelta(seconds=t, microseconds=t % 3) for t in tick
    ]
    table = pa.table(
        {
            "price": [math.nan if at % 40 == 7 else value for at, value in enumerate(price)],
            "volume": rng.integers(-3, 5, rows),
            "sector": [[None, "tech", "", "Öl", "energy"][at] for at in rng.integers(0, 5, rows)],
            "tick": pa.array(tick, pa.int64()),
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": [date(2024, 2, 20) + timedelta(days=int(d)) for d in rng.integers(0, 20, rows)],
        }
    )
    folder = tmp_path_factory.mktemp("files")
    parquet.write_table(table, folder / "stream.parquet", row_group_size=17)
    csv.write_csv(table, folder / "stream.csv")
    with (folder / "stream.jsonl").open("w") as file:
        for row in table.to_pylist():
            known = {name: value for name, value in row.items() if value == value}
            file.write(json.dumps(known, default=str) + "\n")
    return folder


COUNTED = ["--last", 20, "--slide", 5]
UNEVEN = ["--last", 23, "--slide", 7]
TICKS = ["--time", "tick", "--window", 30, "--slide", 10]
ODD_TICKS = ["--time", "tick", "--window", 25, "--slide", 7, "--offset", -3]
TIMED = ["--time", "ts", "--window", "1 minute", "--slide", "25 s", "--offset", "-7 seconds"]
KEYED = ["--partition-by", "sector"]
CHANGES = ["--emit", "changes"]


@pytest.mark.usefixtures("pruned")
@pytest.mark.parametrize(
    "arguments",
    [
        UNEVEN,
        [*COUNTED, *KEYED, "--full", *CHANGES],
        [*TIMED, *CHANGES],
        [*ODD_TICKS, *KEYED, "--partition-by", "volume"],
    ],
    ids=["count", "changes of keys, once full", "changes in time", "ticks of two keys"],
)
def test_windows(run, files, arguments):
    arguments = [files / "stream.parquet", "--k", 3, "--by", "price * volume", *arguments]
    ran = both(run, *arguments, "--format", "csv")
    assert len(ran.rows) >= 40
    assert "with a NaN score" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream.csv", *COUNTED, *CHANGES, "--format", "csv"],
        ["stream.jsonl", *UNEVEN, *KEYED, "--format", "json"],
        ["stream.parquet", *COUNTED, "--full", "--format", "table"],
        ["stream.csv", *TIMED, *KEYED, *CHANGES, "--format", "json"],
        ["stream.jsonl", *ODD_TICKS, *CHANGES, "--format", "csv"],
        ["stream.parquet", "--time", "day", "--window", "3 days", "--format", "csv"],
        ["stream.parquet", *TICKS, *KEYED, *CHANGES, "--format", "table"],
        ["stream.parquet", "--last", 300, "--slide", 299, "--format", "csv"],
        ["stream.parquet", "--last", 9, "--slide", 1, "--algorithm", "mintopk", "--format", "csv"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2] + arguments[-1:])),
)
def test_files_and_formats(run, files, arguments):
    file, *arguments = arguments
    assert both(run, files / file, "--k", 4, "--by", "price * volume", *arguments).out


def test_standard_input(run, files):
    data = (files / "stream.csv").read_bytes()
    both(run, "-", "--k", 2, "--by", "price", *COUNTED, "--format", "csv", stdin=data)


@pytest.mark.usefixtures("pruned")
def test_more_than_there_is(run, files):
    arguments = ["--k", 5_000, "--by", "price", *UNEVEN, *KEYED, "--format", "csv"]
    assert len(both(run, files / "stream.parquet", *arguments).rows) > 500


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("v,t\n", ["--last", 3]),
        ("v,t\n", ["--time", "t", "--window", "1 hour"]),
        ("v,t\n1,2\n2,3\n", ["--last", 3]),
        ("v,t\n,2\nnan,3\n", ["--last", 1]),
    ],
    ids=["no rows", "no times", "no whole window", "no scores"],
)
def test_nothing_to_rank(run, text, arguments):
    ran = both(run, "-", "--by", "v", *arguments, "--format", "csv", stdin=text)
    assert ran.rows == []


def test_a_type_that_only_the_last_row_shows(run):
    text = "v,w\n" + "1,2\n" * 30_000 + "2.5,x\n"
    arguments = ["--k", 1, "--by", "v", "--last", 30_001, "--format", "csv"]
    assert both(run, "-", *arguments, stdin=text).out.splitlines()[1] == "0,30001,1,2.5,30000,2.5,x"


def test_many_rows_are_pruned(run, tmp_path, monkeypatch):
    """Enough of them that Spark looks for the best of each pane, in several tasks."""
    rows = 250_000
    rng = np.random.default_rng(3)
    columns = {"v": rng.integers(0, 99, rows), "t": rng.permutation(rows), "p": np.arange(rows) % 3}
    parquet.write_table(pa.table(columns), tmp_path / "many.parquet")
    pruned = []
    monkeypatch.setattr("skyband.cli.input.stage_parquet.stage", _noting(pruned))
    for arguments in (["--last", 20_000, "--slide", 3_000], ["--time", "t", "--window", 50_000]):
        both(run, tmp_path / "many.parquet", "--k", 9, "--by", "v", *arguments, "--format", "csv")
    both(run, tmp_path / "many.parquet", "--by", "v", "--last", 9, *CHANGES, "--format", "csv")
    assert pruned == [True, True, False]


def _noting(pruned, stage=stage_parquet.stage):
    def noting(*arguments):
        staged = stage(*arguments)
        pruned.append(staged.prune)
        return staged

    return noting


SCORES = st.sampled_from([None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 2.0, 2.5])
ROWS = st.tuples(
    SCORES, st.one_of(st.none(), st.integers(-40, 40)), st.sampled_from([None, "a", "b"])
)


@st.composite
def any_options(draw):
    size = draw(st.integers(1, 25))
    slide = draw(st.integers(1, size))
    given = dict.fromkeys(("last", "time", "window", "slide", "offset"))
    if draw(st.booleans()):
        offset = str(draw(st.integers(-9, 9)))
        given |= {"time": "t", "window": str(size), "offset": offset, "full": False}
    else:
        given |= {"last": str(size), "full": draw(st.booleans())}
    window = options.window_of(given | {"slide": str(slide)})
    time = given["time"]
    query = TopK(draw(st.integers(1, 6)), window, draw(st.sampled_from(["all", "changes"])))
    keys = ["p"] if draw(st.booleans()) else []
    return TopFileOptions("v", time, keys, "auto", query)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, max_size=60), any_options(), st.booleans())
def test_any_query_over_any_rows(spark, tmp_path, rows, top_options, prune):
    types = {"v": pa.float64(), "t": pa.int64(), "p": pa.string()}
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, type) for column, type in zip(columns, types.values(), strict=True)]
    parquet.write_table(pa.table(dict(zip(types, arrays, strict=True))), tmp_path / "in.parquet")
    outputs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_parquet.Stage, "prune", prune)
        for engine in ("local", "spark"):
            out, stderr = tmp_path / f"{engine}.csv", io.StringIO()
            with contextlib.redirect_stderr(stderr):
                rank.rank_file(
                    [str(tmp_path / "in.parquet")],
                    top_options,
                    rank.EngineChoice(engine),
                    None,
                    str(out),
                )
            outputs.append((out.read_bytes(), COMPILING.sub("", stderr.getvalue())))
    assert outputs[0] == outputs[1]


# ---------------------------------------------------------------- what can go wrong


def test_what_workers_refuse_is_reported_in_their_words(run, monkeypatch):
    monkeypatch.setattr(stage_parquet, "require_few_windows", lambda count: None)
    arguments = ["--by", "v", "--time", "t", "--window", 10**8, "--slide", 1]
    text = f"v,t\n1,2\n3,{6 * 10**7}\n2,{10**9}\n"
    messages = [
        run.fails("top", "-", *arguments, "--engine", engine, stdin=text)
        for engine in ("local", "spark")
    ]
    assert messages[0] == messages[1]
    assert "a batch that completes 159,999,998 windows" in messages[0]


@pytest.mark.parametrize("window", OF_WINDOWS.values(), ids=OF_WINDOWS)
@pytest.mark.parametrize("family", OF_FAMILIES)
def test_a_k_beyond_all_rows_asks_for_all(run, tmp_path, family, window):
    arguments = [
        family,
        few_rows(tmp_path),
        *OF_FAMILIES[family],
        *window,
        "--format",
        "csv",
        "--k",
    ]
    ran = run(*arguments, 1_000_000_000, "--engine", "spark")
    assert ran.code == 0, ran
    assert ran == run(*arguments, 12, "--engine", "local")


def test_a_workload_with_a_k_beyond_all_rows(run, tmp_path):
    few, queries = few_rows(tmp_path), tmp_path / "queries.csv"
    queries.write_text("name,k,window,slide\na,1000000000,6,2\nb,2,4,4\n")
    for time in ([], ["--time", "t"]):
        arguments = ["workload", few, "--queries", queries, "--by", "v", *time, "--format", "csv"]
        spark = run(*arguments, "--engine", "spark")
        assert spark.code == 0, spark
        assert spark == run(*arguments, "--engine", "local")


def test_texts_among_numbers_and_infinite_times(run):
    """What Skyband advises for texts works, and infinite times are told from missing ones."""
    text = "t,v\n2024-01-01 10:00:00,1\ninfinity,2\n,4\n2024-01-01 11:00:00,x\n"
    arguments = ["-", "--by", "TRY_CAST(v AS DOUBLE)", "--format", "csv"]
    both(run, *arguments, "--last", 2, "--slide", 1, stdin=text)
    ran = both(run, *arguments, "--time", "t", "--window", "1 hour", stdin=text)
    assert "1 with an infinite time" in ran.err


def test_an_interrupt_waits_until_spark_has_started():
    """Java that starts while nobody waits for it would run for ever."""
    before, done = signal.getsignal(signal.SIGINT), []

    def start():
        with _interrupts_later():
            signal.raise_signal(signal.SIGINT)
            done.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.cli
def test_a_process_of_its_own_runs_spark(files, tmp_path, monkeypatch):
    """Spark is the default; it says nothing, and leaves nothing."""
    monkeypatch.delenv("SKYBAND_ENGINE", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    arguments = ["top", "-", "--k", 3, "--by", "price", *TIMED, *KEYED, "--format", "csv"]
    data = (files / "stream.csv").read_bytes()
    spark = process(*arguments, "--master", "local[1]", input=data)
    local = process(*arguments, "--engine", "local", input=data)
    assert (spark.returncode, spark.stdout) == (0, local.stdout)
    assert COMPILING.sub("", spark.stderr.decode()) == COMPILING.sub("", local.stderr.decode())
    assert os.listdir(tmp_path) == []


@pytest.mark.cli
def test_a_spark_that_does_not_start(files, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    arguments = ["--by", "price", "--last", 5, "--engine", "spark", "--master", "local[none]"]
    done = process("top", files / "stream.csv", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"skyband: Spark did not start on local[none]")
    assert done.stderr.count(b"\n") == 1
    (log,) = tmp_path.iterdir()  # it holds what Spark had to say
    assert str(log).encode() in done.stderr
