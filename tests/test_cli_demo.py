"""``demo``: what it prints, draws, writes, and keeps in memory."""

from __future__ import annotations

import io
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console

from skyband.datasets import dataset
from skyband.datasets.stock import SECTORS
from skyband.demo import display, local
from skyband.demo.display import DemoScreen, History, Pace, Trade
from skyband.demo.local import Drawn, Plain, Results, Show
from skyband.demo.market import LENGTH, STEP, Market, panes
from tests.command_line import COMPILING, Runner, process

LINE = re.compile(r" +(\d+)  (new|[+-]\d+|) +([A-Z]{4})    (.{22}) +\$([\d.]+) M  ([\d:]{8})")


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Runner(capsys, monkeypatch)


@pytest.fixture(scope="module")
def trades():
    """The first trades of the market."""
    (batch,) = dataset("stock").chunks(60_000, 0, 60_000, "bursty")
    return batch


class Silent:
    """A stage that records its scenes."""

    def __init__(self):
        self.scenes = []

    def show(self, scene, final):
        self.scenes.append(scene)


def repeatable(text):
    """The lines of the output that do not depend on the machine."""
    return [line for line in text.splitlines() if "inside push" not in line]


def test_what_is_printed_off_a_terminal(run):
    ran = run("demo", "--seconds", "0.5")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.isascii()
    assert "top 10 of the last 10 minutes, every 10 seconds, by price * volume" in ran.out
    leaders = LINE.findall(ran.out)
    assert [int(line[0]) for line in leaders] == list(range(1, 11))
    values = [float(line[4]) for line in leaders]
    assert values == sorted(values, reverse=True)
    board, _, summary = ran.out.partition("\n\n")
    for sector in SECTORS:
        assert sector in board
    assert "event time  Mon 2014-01-06 14:30:30 UTC, 3 windows answered" in board
    assert re.search(r"trades +[\d,]+ read, [\d,]+ a second now", board)
    assert re.search(r"candidates +\d+, and \d+ for the sectors: [\d.]+ % of the window's", board)
    assert re.search(r"algorithm +[a-z-]+: \w", board)
    assert re.search(r"rows read +[\d,]+ trades, 14:30:00 to 14:30:30", summary)
    assert "windows     3 answered" in summary
    assert len(re.findall(r"[\d.]+ M rows/s, [\d.]+ s inside push", summary)) == 2
    assert "results" not in summary
    assert summary.endswith("  skyband bench scan\n")


def test_a_seed_makes_a_market(run):
    first, again = (repeatable(run("demo", "--seconds", "0.5", "--seed", 7).out) for _ in range(2))
    assert first == again
    other = repeatable(run("demo", "--seconds", "0.5").out)
    assert LINE.findall("\n".join(other)) != LINE.findall("\n".join(first))


def test_the_results_are_those_of_top_over_the_same_trades(run, tmp_path, monkeypatch):
    """The commands of the summary run, and give the same answers."""
    monkeypatch.chdir(tmp_path)
    ran = run("demo", "--seconds", "0.7", "--out", "answers.parquet")
    assert "results     answers.parquet\n" in ran.out
    generate, top, explain, bench = (
        shlex.split(line)[1:] for line in ran.out.splitlines() if line.startswith("  skyband ")
    )
    assert bench == ["bench", "scan"]
    assert run(*generate).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", generate[-1]]
    assert "k = 10" in run(*explain).out
    answers = parquet.read_table("answers.parquet")
    market = [row for row in answers.to_pylist() if row["leaderboard"] == "market"]
    expected = run(*top, "--format", "csv").rows[: len(market)]
    assert len(market) == 4 * 10
    for row, other in zip(market, expected, strict=True):
        assert str(row["window_end"])[:19] == other["window_end"]
        assert str(row["window_start"])[:19] == other["window_start"]
        for name in ("rank", "score", "row", "symbol", "sector", "price", "volume"):
            assert str(row[name]) == other[name]
    by_sector = [row for row in answers.to_pylist() if row["leaderboard"] == "sector"]
    each = run(*top, "--k", 1, "--partition-by", "sector", "--format", "csv").rows
    ends = {str(row["window_end"])[:19] for row in by_sector}
    each = [row for row in each if row["window_end"] in ends]
    assert [str(row["row"]) for row in by_sector] == [row["row"] for row in each]


def test_a_board_every_few_windows(capsys):
    Show(7, 0).play(Plain(every=3), Results(None))
    out = capsys.readouterr().out
    assert re.findall(r"(\d+) windows answered", out) == ["3", "6", "7"]
    assert out.count("biggest trade of each sector") == 1
    first, second = LINE.findall(out)[:10], LINE.findall(out)[10:20]
    assert {line[1] for line in first} == {"new"}
    before = {line[2:]: int(line[0]) for line in first}
    for rank, change, *trade in second:
        if change == "new":
            assert tuple(trade) not in before
        else:
            assert before[tuple(trade)] - int(rank) == int(change or 0)


def test_moves():
    def trades_(*rows):
        return [Trade(row, 0, "ABCD", "Energy", 1.0, 1, 1.0) for row in rows]

    history = History(2)
    assert history.moves(trades_(5, 6)) == [None, None]
    assert history.moves(trades_(7, 5, 6)) == [None, None, None]
    assert history.moves(trades_(6, 7, 5)) == [1, None, -2]
    assert history.moves(trades_(7)) == [0]


def test_pace():
    clock, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        clock[0] += seconds

    pace = Pace(0.25, lambda: clock[0], sleep)
    assert [pace.wait() for _ in range(4)] == [True] * 4
    assert slept == [0.25] * 3
    clock[0] += 0.875  # three windows and a half late
    assert [pace.wait() for _ in range(4)] == [False, False, True, True]
    assert slept[3:] == [0.125]
    clock[0] += 1000  # halted: goes on from there
    assert [pace.wait() for _ in range(2)] == [True, True]
    assert slept[4:] == [0.25]


@pytest.mark.parametrize(("width", "sectors"), [(100, 2), (80, 1), (60, 0)])
def test_what_is_drawn_on_a_terminal(width, sectors):
    out, slept = io.StringIO(), []
    console = Console(file=out, force_terminal=True, width=width, height=30, legacy_windows=False)
    with DemoScreen(console) as screen:
        pace = Pace(0.25, lambda: sum(slept), slept.append)
        Show(3, 0).play(Drawn(screen, pace), Results(None))
    assert slept == [0.25] * 2
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    frames = plain.split("Skyband  ")[1:]
    assert len(frames) == 4
    for frame in frames[:-1]:
        assert all(len(line) <= width for line in frame.splitlines()[1:])
        assert "event time" in frame
        assert "candidates" in frame
        assert re.search("[▁▂▃▄▅▆▇█]", frame)
        assert len(re.findall(r"\d\d:\d\d:\d\d", frame)) == 11
    assert "event time" not in frames[-1]
    assert ("biggest of each sector" in frames[0]) == bool(sectors)
    assert min(frames[0].count("Energy"), 2) == sectors  # among the leaders, and as a sector
    assert width < 80 or len(frames[0].splitlines()) <= 24


def test_a_late_window_is_not_drawn_but_the_last_one_is():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=30)
    now = itertools.count(0, 0.5)
    with DemoScreen(console) as screen:
        Show(3, 0).play(Drawn(screen, Pace(0.1, lambda: next(now))), Results(None))
    assert [f"{n} windows" in out.getvalue() for n in (1, 2, 3)] == [True, False, True]


def test_a_terminal_without_unicode():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "ascii", write_through=True)
    console = Console(file=out, force_terminal=True, width=100, height=30)
    with DemoScreen(console) as screen:
        Show(2, 0).play(Drawn(screen, Pace(0)), Results(None))
    assert b"new" in raw.getvalue()


def test_an_interrupt_keeps_what_was_answered(run, tmp_path, monkeypatch):
    def show(self, scene, final):
        if scene.answered == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Plain, "show", show)
    out = tmp_path / "answers.parquet"
    ran = run("demo", "--out", out)
    assert ran.code == 130
    assert "windows     3 answered" in ran.out
    assert "skyband bench scan" in ran.out
    assert len(set(parquet.read_table(out)["window_end"].to_pylist())) == 3
    assert list(tmp_path.iterdir()) == [out]


def test_an_interrupt_before_the_first_window(run, tmp_path, monkeypatch):
    def push(self, pane):
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "load_kernels", lambda seed: None)
    monkeypatch.setattr(Market, "push", push)
    ran = run("demo", "--out", tmp_path / "answers.parquet")
    assert (ran.code, ran.out) == (130, "Nothing was answered yet.\n")
    assert parquet.read_table(tmp_path / "answers.parquet").num_rows == 0


def test_a_failure_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def show(self, scene, final):
        raise RuntimeError("no")

    monkeypatch.setattr(Plain, "show", show)
    with pytest.raises(RuntimeError):
        run("demo", "--out", tmp_path / "answers.parquet")
    assert list(tmp_path.iterdir()) == []


def test_answers_are_written_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_FLUSH", 40)
    out = tmp_path / "answers.parquet"
    with Results(out) as results:
        Show(5, 0).play(Silent(), results)
    assert parquet.ParquetFile(out).num_row_groups == 3
    table = parquet.read_table(out)
    assert table.schema.equals(Results.schema)
    assert table.num_rows == 5 * (10 + len(SECTORS))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--seconds", "0"], "--seconds is '0'"),
        (["--seconds", "nan"], "a number above zero"),
        (["--seconds", "inf"], "a number above zero"),
        (["--seconds", "long"], "write --seconds 20"),
        (["--seed", "-1"], "--seed is '-1'"),
        (["--out", "answers.csv"], "write --out answers.parquet"),
        (["--out", ""], "ends in .parquet"),
        (["--out", "no/where.parquet"], "mkdir -p no"),
        (["--out", "folder.parquet"], "is a directory"),
        (["--more"], "see 'skyband demo --help'"),
    ],
)
def test_what_it_refuses(run, arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.parquet").mkdir()
    assert expected in run.fails("demo", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.parquet"]


@pytest.mark.parametrize("chunk", [60_000, 7_001])
def test_panes_cut_at_the_ends_of_windows(trades, chunk):
    batches = [trades.slice(low, chunk) for low in range(0, trades.num_rows, chunk)]
    cut = list(panes(batches))
    assert [pane.end for pane in cut] == list(range(cut[0].end, cut[0].end + len(cut) * STEP, STEP))
    row = 0
    for pane in cut:
        assert pane.first == row
        assert np.all((pane.times >= pane.end - STEP) & (pane.times < pane.end))
        row += len(pane.times)
        assert pane.trade(0).symbol == trades.column("symbol")[pane.first].as_py()
        assert pane.trade(0).value == pane.values[0]
    assert np.concatenate([pane.values for pane in cut]).tolist() == [
        price * volume
        for price, volume in zip(
            trades.column("price")[:row].to_pylist(),
            trades.column("volume")[:row].to_pylist(),
            strict=True,
        )
    ]


def test_what_is_kept_of_the_window_and_a_night(trades):
    """Some trades in the evening, then some in the morning: windows empty out in between."""
    evening, morning = trades.slice(0, 20_000), trades.slice(20_000, 30_000)
    ts = pa.array(
        [at.as_py() + timedelta(hours=15) for at in morning.column("ts")], trades.schema[0].type
    )
    morning = morning.set_column(0, "ts", ts)
    market, scenes = Market(), []
    for pane in panes([evening, morning]):
        scenes += market.push(pane)
        boards = [market.top, *market.best]
        for board in boards:
            k = board.monitor.query.k
            assert len(board.reportable) <= k * LENGTH // STEP
            assert all(
                trade.time >= pane.end + STEP - LENGTH for trade in board.reportable.values()
            )
        assert sum(market._sizes.values()) <= market.read
        assert min(market._sizes) > pane.end - LENGTH
    ends = [scene.end for scene in scenes]
    steps = np.diff(ends)
    assert np.count_nonzero(steps != STEP) == 1
    (night,) = np.flatnonzero(steps != STEP).tolist()
    assert scenes[night].in_window < 20_000
    assert len(scenes[night + 1].leaders) == 10
    assert [scene.answered for scene in scenes] == list(range(1, len(scenes) + 1))
    for scene in scenes:
        assert all(scene.end - LENGTH <= trade.time < scene.end for trade in scene.leaders)
        assert scene.in_window == pytest.approx(sum(scene.rates) * STEP / 1e6)
        assert 0 < scene.share <= 100
    assert scenes[night + 1].candidates[0] < 300


def test_the_words_for_amounts_and_moments():
    at = int(datetime.fromisoformat("2014-01-06T14:30:05.900+00:00").timestamp() * 1e6)
    assert display.time_of_day(at) == "14:30:05"
    assert display.day_and_time(at) == "Mon 2014-01-06 14:30:05 UTC"
    assert display.dollars(1_234_567_890.0) == "$1,234.57 M"


@pytest.mark.cli
def test_a_process_of_its_own(tmp_path):
    done = process("demo", "--seconds", "0.4", cwd=tmp_path)
    assert done.returncode == 0
    assert not [line for line in done.stderr.decode().splitlines() if not COMPILING.match(line)]
    assert len(LINE.findall(done.stdout.decode())) == 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cli
@pytest.mark.skipif(os.name == "nt", reason="terminals")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_real_terminal(tmp_path, interrupted):
    """Draws in place, restores the cursor, and ends with the summary, also after Ctrl-C."""
    ours, theirs = os.openpty()
    seconds = "600" if interrupted else "0.4"
    command = [sys.executable, "-m", "skyband.cli", "demo", "--seconds", seconds]
    environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm-256color"}
    pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    output = b""
    with subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes) as running:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # how Linux tells that the other side is closed
                part = b""
            if not part:
                break
            output += part
            if interrupted and b"2 windows answered" in output:
                running.send_signal(signal.SIGINT)
                interrupted = False
        code = running.wait(60)
    os.close(ours)
    text = output.decode()
    assert code == (130 if seconds == "600" else 0)
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "Traceback" not in text
    assert text.rstrip().endswith("skyband bench scan")
    assert list(tmp_path.iterdir()) == []
