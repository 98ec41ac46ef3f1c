"""``explain``, ``generate``, ``bench``, ``--version``, and runs in separate processes."""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import skyband
from skyband import Monitor, TopK, cli, last
from skyband.cli.commands import tools
from tests.command_line import COMPILING, Runner, counted, process


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


def test_version_and_help(run):
    assert run("--version").out == f"skyband {skyband.__version__}\n"
    assert "top" in run("--help").out
    assert "--partition-by" in run("top", "--help").out
    ran = run()
    assert ran.code == 2
    assert "Usage" in ran.out


def test_explain_in_words(run):
    ran = run("explain", "--last", 1000, "--slide", 300, "--by", "price")
    assert "200 objects and 100 objects in turn, 7 in a window" in ran.out
    assert "top 10 of the last 1,000 objects, every 300 by price" in ran.out
    assert "k-skyband: about 57" in ran.out
    ran = run("explain", "--time", "ts", "--window", "1 hour", "--slide", "1 minute")
    assert "1 minute each, 60 in a window" in ran.out
    assert "name a FILE" in ran.out
    ran = run("explain", "--last", 10, "--algorithm", "kskyband")
    assert "asked for by name" in ran.out


def test_explain_with_a_file(run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("t,key,v\n" + "".join(f"{at},k{at % 4},{at}\n" for at in range(1000)))
    arguments = ["--k", 5, "--time", "t", "--window", 100, "--slide", 10, "--partition-by", "key"]
    ran = run("explain", path, "--by", "v", *arguments)
    assert "1,000 rows, 4 keys" in " ".join(ran.out.split())
    assert "25 objects per window, 2.5 per slide" in ran.out
    assert "t BIGINT, key VARCHAR, v BIGINT" in ran.out
    assert "did you mean" in run.fails("explain", path, "--by", "vv", *arguments)
    assert "did you mean" in run.fails("explain", path, "--time", "tt", "--window", 10)
    assert "no window" in run.fails("explain", path)


def test_explain_as_json(run):
    arguments = ["explain", "--last", "1e5", "--slide", 1000, "--k", 100, "--json"]
    (record,) = json.loads(run(*arguments).out)
    assert record["panes_per_window"] == 100
    assert record["pane"] == 1000
    assert record["second_pane"] is None
    assert record["candidates_mintopk_most"] == 10_000
    assert all(not isinstance(value, (list, dict)) for value in record.values())
    (record,) = json.loads(run("explain", "--time", "t", "--window", 10, "--json").out)
    assert record["candidates_kskyband"] is None


def test_expected_candidates_come_true(run):
    """The candidates that explain predicts for scores in random order are those counted."""
    n, s, k = 4000, 100, 20
    scores = np.random.default_rng(1).random(5 * n)
    (estimate,) = json.loads(run("explain", "--last", n, "--slide", s, "--k", k, "--json").out)
    for algorithm in ("kskyband", "mintopk"):
        monitor = Monitor(TopK(k, last(count=n, slide=s)), algorithm)
        monitor.push(scores[:n])
        before = monitor.counters()
        monitor.push(scores[n:])
        after = monitor.counters()
        total = after["candidates"] * after["slides"] - before["candidates"] * before["slides"]
        kept = total / (after["slides"] - before["slides"])
        assert math.isclose(kept, estimate[f"candidates_{algorithm}"], rel_tol=0.15)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_generate(run, tmp_path, suffix):
    out = tmp_path / f"stock.{suffix}"
    ran = run("generate", "stock", "--rows", "2_000", "--seed", 3, "--out", out)
    assert ran.code == 0
    assert "2,000 rows" in ran.err
    arguments = ["--k", 2, "--by", "price * volume", "--last", 500, "--format", "csv"]
    ran = run("top", out, *arguments)
    assert [int(row["window_end"]) for row in ran.rows] == [
        500, 500, 1000, 1000, 1500, 1500, 2000, 2000,
    ]  # fmt: skip
    again = tmp_path / f"again.{suffix}"
    run("generate", "stock", "--rows", "2e3", "--seed", 3, "--out", again)
    assert again.read_bytes() == out.read_bytes()


def test_generate_at_another_rate(run, tmp_path):
    times = []
    for rate in ("even", "bursty"):
        out = tmp_path / f"{rate}.parquet"
        assert run("generate", "STOCK", "--rows", 500, "--rate", rate, "--out", out).code == 0
        table = parquet.read_table(out)
        times.append([table[name].to_pylist() for name in table.column_names])
    assert times[0] != times[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--rows", 5, "--out", "x.csv"], "data set is 'nothing'"),
        (["stock", "--rows", 0, "--out", "x.csv"], "--rows is '0'"),
        (["stock", "--rows", 5, "--seed", -1, "--out", "x.csv"], "--seed is '-1'"),
        (["stock", "--rows", 5, "--rate", "odd", "--out", "x.csv"], "--rate is 'odd'"),
        (["stock", "--rows", 5, "--out", "x.doc"], ".doc"),
        (["stock", "--rows", 5, "--out", "no/where/x.csv"], "no"),
        (["stock", "--rows", 5], "missing option '--out'"),
    ],
)
def test_what_generate_refuses(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run.fails("generate", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_bench_calls_the_benchmarks(run, tmp_path, monkeypatch):
    calls = []
    module = types.ModuleType("benchmarks")
    module.run = lambda arguments, **options: calls.append((arguments, options)) or 3
    monkeypatch.setitem(sys.modules, "benchmarks", module)
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    package = tmp_path / "src" / "skyband" / "__init__.py"
    monkeypatch.setattr(tools.skyband, "__file__", str(package))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run("bench", "paper", "sap", "--quick").code == 3
    assert run("bench", "spark", "--json", "--rows", 1000).code == 3
    assert calls == [
        (["paper", "sap"], {"quick": True, "as_json": False, "rows": None, "server": None}),
        (["spark"], {"quick": False, "as_json": True, "rows": 1000, "server": None}),
    ]


def test_bench_without_the_repository(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tools.skyband, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert "clone the repository" in run.fails("bench", "scan")
    assert "NAME" in run.fails("bench")


@pytest.mark.cli
def test_a_process_of_its_own(tmp_path):
    scores = [float(at * 7 % 31) for at in range(200)]
    text = "v,name\n" + "".join(f"{score},ü{at}\n" for at, score in enumerate(scores))
    arguments = ["top", "-", "--k", 3, "--by", "v", "--last", 20, "--slide", 7, "--format", "csv"]
    done = process(*arguments, input=text.encode())
    assert done.returncode == 0
    assert not COMPILING.sub("", done.stderr.decode()).startswith("skyband: not")
    expected = [
        f"{start},{end},{rank},{score!r},{row},{score!r},ü{row}"
        for start, end, rank, score, row in counted(scores, 20, 7, 3)
    ]
    header = "window_start,window_end,rank,score,row,v,name"
    assert done.stdout.decode() == "\n".join([header, *expected, ""])


@pytest.mark.cli
def test_an_error_of_a_process(tmp_path):
    done = process("top", tmp_path / "none.csv", "--by", "v", "--last", 2)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1


@pytest.mark.cli
def test_a_reader_that_goes_away(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("v\n" + "".join(f"{at}\n" for at in range(50_000)))
    command = [sys.executable, "-m", "skyband.cli", "top", str(path), "--by", "v", "--last", "10"]
    command += ["--slide", "1", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline().startswith(b"window_start")
        running.stdout.close()
        errors = running.stderr.read().decode()
        running.stderr.close()
        assert running.wait(60) == 1
    assert not [line for line in errors.splitlines() if not COMPILING.match(line)]


@pytest.mark.cli
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt(tmp_path):
    """An interrupt while it waits for more standard input."""
    command = [sys.executable, "-m", "skyband.cli", "top", "-", "--by", "v", "--last", "10"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, **pipes) as running:
        running.stdin.write(b"v\n" * 10)
        running.stdin.flush()
        while running.poll() is None and not list(tmp_path.glob("skyband-*/input")):
            pass
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cli
def test_nothing_heavy_before_a_command_runs():
    code = "import sys, skyband.cli.app; print([m for m in sys.modules if m in {heavy}])"
    heavy = ["numba", "pyarrow", "duckdb", "pandas", "rich.console"]
    done = subprocess.run(
        [sys.executable, "-c", code.format(heavy=heavy)], capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[]"


def test_main_is_what_the_script_calls():
    assert cli.__all__ == ["main"]
    assert cli.main(["--version"]) == 0


def test_kernels_says_where_they_are_and_forgets_them(run, tmp_path, monkeypatch):
    from skyband.kernels import jit

    folder = tmp_path / "compiled" / jit.cache_folder().name
    monkeypatch.setattr(jit, "cache_folder", lambda: folder)
    monkeypatch.setattr(jit, "_caches", lambda: folder.parent)
    for place in (folder, folder.parent / "older"):
        place.mkdir(parents=True)
        (place / "kernel.nbc").write_bytes(b"x" * 2_000_000)
    ran = run("kernels")
    assert str(folder) in ran.out
    assert "2.0 MB" in ran.out
    assert "other versions" in ran.out
    assert jit.forget_compiled(False) == 2_000_000
    assert [place.name for place in folder.parent.iterdir()] == [folder.name]
    assert "deleted 2.0 MB" in run("kernels", "--forget").out
    assert not list(folder.parent.iterdir())


def test_compiled_kernels_are_kept_by_their_sources(tmp_path, monkeypatch):
    from skyband.kernels import jit

    before = jit.cache_folder.__wrapped__()
    assert before == jit.cache_folder.__wrapped__()
    for name in (*jit._FOLDERS, "engine"):
        (tmp_path / name).mkdir()
    for name in jit._BESIDE:
        (tmp_path / name).touch()
    (tmp_path / "kernels" / "one.py").write_text("x = 1")
    monkeypatch.setattr(jit, "_PACKAGE", tmp_path)
    first = jit.cache_folder.__wrapped__()
    (tmp_path / "kernels" / "one.py").write_text("x = 2")
    assert before.name != first.name != jit.cache_folder.__wrapped__().name


def test_copies_of_the_sources_share_compiled_kernels(tmp_path, monkeypatch):
    from skyband.kernels import jit
    from skyband.topk import mintopk

    kernel = next(value for value in vars(mintopk).values() if hasattr(value, "py_func"))
    module = inspect.getfile(kernel.py_func)
    place = jit.KernelLocator.get_suitable_cache_subpath(module)
    assert Path(kernel._cache.cache_path) == jit.cache_folder() / place
    within = Path(module).relative_to(jit._PACKAGE)
    monkeypatch.setattr(jit, "_PACKAGE", tmp_path)
    assert jit.KernelLocator.get_suitable_cache_subpath(str(tmp_path / within)) == place
    assert jit.KernelLocator.get_suitable_cache_subpath(module) != place  # not of this copy
