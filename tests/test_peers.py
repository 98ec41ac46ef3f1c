"""``skyband bench peers``: every peer answers as the oracle does, and who is slow is stopped."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import benchmarks
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.peers import flink, frames, local, sql
from benchmarks.peers.child import ANSWERING
from benchmarks.peers.peer import PEERS, Failed, Peer, Running, Stopped, child
from benchmarks.peers.question import Question, answered, difference, expected
from benchmarks.peers.study import STYLES, Peers
from benchmarks.peers.timing import Stream, beginnings, timed
from benchmarks.spark import stream
from benchmarks.study import perform
from rich.console import Console

QUESTIONS = [
    Question(kind, ratio, k) for kind in ("rows", "totals") for ratio, k in ((1, 3), (7, 40))
]


@pytest.fixture(scope="module")
def trades(tmp_path_factory):
    return stream.write(tmp_path_factory.mktemp("peers") / "rows", 2_000, 40 * stream.SLIDES, 2, 50)


# ---------------------------------------------------------------- the question


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_oracle_ranks_every_window_that_holds_a_row(trades, question):
    rows = pq.read_table(trades).to_pylist()
    right = expected(question, trades)
    last = max(int(row["ts"].timestamp()) for row in rows)
    assert max(right) == (last // 10 + question.ratio) * 10_000_000
    for end in (min(right), sorted(right)[len(right) // 2], max(right)):
        low = end / 1e6 - question.seconds
        inside = [row for row in rows if low <= row["ts"].timestamp() < end / 1e6]
        if question.kind == "rows":
            scores = [row["price"] * row["volume"] for row in inside]
        else:
            totals = {}
            for row in inside:
                totals[row["sector"]] = totals.get(row["sector"], 0) + row["volume"]
            scores = list(totals.values())
        assert right[end] == sorted(scores, reverse=True)[: question.k]


def test_answers_are_read_whatever_their_order_and_type(tmp_path):
    ends = pa.array([20_000_000, 10_000_000, 20_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"window_end": ends, "score": [1, 2, 3]}), tmp_path / "a.parquet")
    more = pa.table({"window_end": [30_000_000], "score": [4.0]})
    pq.write_table(more, tmp_path / "part-without-a-suffix")
    (tmp_path / "_SUCCESS").touch()
    assert answered(tmp_path) == {10_000_000: [2.0], 20_000_000: [3.0, 1.0], 30_000_000: [4.0]}


def test_no_answers_are_a_difference(trades, tmp_path):
    assert answered(tmp_path) == {}
    assert "0 answered" in difference(QUESTIONS[0], trades, tmp_path)


# ---------------------------------------------------------------- the peers


@pytest.mark.parametrize(
    "answer", [sql.direct, sql.by_panes, frames.direct, frames.by_panes, local.answer]
)
@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_peer_answers_as_the_oracle_does(trades, tmp_path, answer, question):
    answer(question, trades, tmp_path / "out")
    assert difference(question, trades, tmp_path / "out") is None


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_kernels_are_compiled_before_the_clock_starts(trades, tmp_path, question):
    local.prepare(question)
    local.answer(question, trades, tmp_path / "out")
    assert difference(question, trades, tmp_path / "out") is None


def test_local_totals_name_sectors_that_come_later(tmp_path):
    first = stream.write(tmp_path / "rows", 300, 300, 3, 20)
    local.answer(Question("totals", 3, 5), first, tmp_path / "out")
    names = set(pq.read_table(tmp_path / "out")["sector"].to_pylist())
    assert names <= set(stream.SECTORS.to_pylist())
    assert difference(Question("totals", 3, 5), first, tmp_path / "out") is None


@pytest.mark.parametrize("system", ["native", "frame", "files"])
def test_spark_answers_as_the_oracle_does(spark, trades, tmp_path, system):
    from benchmarks.peers.spark import best_of_window, files, ranked

    source = files(spark, trades)
    for question in QUESTIONS:
        if system == "native":
            answers = best_of_window(source.frame, question)
        else:
            answers = ranked(source if system == "files" else source.frame, question)
        target = tmp_path / f"{question.kind}-{question.ratio}"
        answers.write.parquet(str(target))
        assert difference(question, trades, target) is None


def test_every_peer_can_be_started_and_drawn():
    assert {peer.name for peer in PEERS} == {*ANSWERING, "flink"} == set(STYLES)
    for module, function in ANSWERING.values():
        assert callable(getattr(import_module(f"benchmarks.peers.{module}"), function))


# ---------------------------------------------------------------- processes


def test_a_process_answers_one_question_after_the_other(trades, tmp_path):
    with Running(child("duckdb"), tmp_path / "home") as running:
        for question in QUESTIONS:
            assert running.ask(question, trades, tmp_path / "out", 600) > 0
            assert difference(question, trades, tmp_path / "out") is None
        with pytest.raises(Failed, match="IOException"):
            running.ask(QUESTIONS[0], tmp_path / "nothing", tmp_path / "out", 600)
        process = running.process
    assert process.poll() is not None


def scripted(body):
    """A peer that is ready, and then does something else."""
    ready = "import sys, json\nprint('{}', flush=True)\nfor line in sys.stdin:\n    "
    return Peer("scripted", lambda: [sys.executable, "-c", ready + body])


def test_a_process_that_is_too_slow_is_ended_and_started_again(trades, tmp_path):
    with Running(scripted("pass"), tmp_path / "home") as running:
        for _ in range(2):
            with pytest.raises(Stopped):
                running.ask(QUESTIONS[0], trades, tmp_path / "out", 0.01)
            assert running.process is None
    assert not (tmp_path / "home" / "spill").exists()


def test_a_process_that_says_it_took_longer_was_too_slow_as_well(trades, tmp_path):
    slow = scripted("print(json.dumps({'seconds': 601}), flush=True)")
    with Running(slow, tmp_path / "home") as running, pytest.raises(Stopped):
        running.ask(QUESTIONS[0], trades, tmp_path / "out", 600)


def test_a_process_that_ends_is_told_with_its_last_words(trades, tmp_path):
    ended = scripted("sys.exit('no room left')")
    with (
        Running(ended, tmp_path / "home") as running,
        pytest.raises(Failed, match="no room left"),
    ):
        running.ask(QUESTIONS[0], trades, tmp_path / "out", 600)


# ---------------------------------------------------------------- timing


class Fake:
    """Answers as DuckDB does, but only so many rows, and in as many seconds as there are rows."""

    def __init__(self, most=None, wrong=False, fails=False):
        self.most, self.wrong, self.fails = most, wrong, fails
        self.asked = []

    def ask(self, question, source, target, limit):
        if self.fails:
            raise Failed("no memory")
        rows = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
        self.asked.append(rows)
        if self.most is not None and rows > self.most:
            raise Stopped
        sql.direct(
            Question(question.kind, question.ratio, 1) if self.wrong else question, source, target
        )
        return float(rows)


@pytest.fixture
def rows(tmp_path):
    few = stream.write(tmp_path / "few", 50, 10 * stream.SLIDES, 1)
    write = lambda rows: stream.write(tmp_path / f"first-{rows}", rows, 1_600, 2)  # noqa: E731
    return Stream(few, beginnings(1_600, 50), write)


def test_a_peer_gets_ever_more_rows(rows, tmp_path):
    assert rows.sizes == [100, 400, 1_600]
    assert beginnings(20_000_000, 20_000)[0] == 20_000_000 // 4**4
    peer = Fake()
    how = timed(peer, QUESTIONS[1], rows, tmp_path / "out", 1_601)
    assert (how.outcome, how.rows, how.seconds, how.rows_per_s) == ("answered", 1_600, 1_600, 1)
    assert peer.asked == [50, 100, 400, 1_600]
    peer = Fake()
    timed(peer, QUESTIONS[1], rows, tmp_path / "out", 6_401)
    assert peer.asked == [50, 100, 400, 1_600, 1_600]  # so short that it is repeated


def test_a_slow_peer_is_shown_with_the_rows_that_it_managed(rows, tmp_path):
    peer = Fake(most=400)
    how = timed(peer, QUESTIONS[1], rows, tmp_path / "out", 1_500)
    assert (how.outcome, how.rows, how.seconds) == ("stopped", 400, 400)
    assert peer.asked[-1] == 1_600
    peer = Fake(most=400)
    how = timed(peer, QUESTIONS[1], rows, tmp_path / "out", 1_000)
    assert (how.outcome, how.rows, how.seconds) == ("stopped", 400, 400)
    assert peer.asked[-1] == 400  # 1,600 rows would take 1.6 limits
    how = timed(Fake(most=50), QUESTIONS[1], rows, tmp_path / "out", 60)
    assert (how.outcome, how.rows, how.seconds, how.rows_per_s) == ("stopped", 0, None, None)
    how = timed(Fake(most=10), QUESTIONS[1], rows, tmp_path / "out", 60)
    assert (how.outcome, how.rows, how.note) == ("stopped", 0, "while answers were compared")


def test_who_answers_otherwise_or_not_at_all_is_not_timed(rows, tmp_path):
    peer = Fake(wrong=True)
    how = timed(peer, QUESTIONS[1], rows, tmp_path / "out", 60)
    assert (how.outcome, how.seconds) == ("differs", None)
    assert "windows" in how.note
    assert peer.asked == [50]
    how = timed(Fake(fails=True), QUESTIONS[1], rows, tmp_path / "out", 60)
    assert (how.outcome, how.note) == ("failed", "no memory")


# ---------------------------------------------------------------- the study


def test_the_rows_that_answers_are_compared_on_are_more_than_k_in_each_slide(tmp_path):
    study = Peers(rows=4_000, few=3_000, ks=(10, 500), totals_ks=(100,))
    for ratio in (1, 60):
        windows = expected(Question("rows", ratio, 10_000), study.written(tmp_path).few)
        assert max(map(len, windows.values())) >= min(3_000, 900 * ratio)


def test_peers_are_measured_and_flink_may_be_missing(tmp_path, capsys):
    away = Peer("flink", flink.command, flink.request, lambda: flink.MISSING)
    study = Peers(
        rows=4_000, few=1_000, sectors=30, ratios=(1, 6), ks=(5,), totals_ks=(4,), limit=600,
        peers=(child("polars"), away),
    )  # fmt: skip
    perform([study], as_json=True, results=tmp_path)
    output = capsys.readouterr()
    assert output.err.count("run make flink") == 1
    records = json.loads(output.out)
    assert [r["outcome"] for r in records] == ["answered"] * 4 + ["missing"] * 4
    assert all(r["rows"] == 4_000 and r["rows_per_s"] > 0 for r in records[:4])
    assert not any(isinstance(value, (list, dict)) for r in records for value in r.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peers.png", "peers.svg"]
    study.show(records, benchmarks.report.console())
    shown = capsys.readouterr().out
    assert "not installed" in shown
    assert "flink: Flink is not installed: run make flink" in shown


def test_what_stopped_and_what_differs_stand_in_the_table(tmp_path):
    study = Peers(rows=1_000, ratios=(1,), ks=(10,), totals_ks=())
    outcomes = {
        "spark": ("stopped", 250, 50.0, ""),
        "flink": ("stopped", 0, None, ""),
        "duckdb": ("differs", 0, None, "3 of 4 windows"),
        "polars": ("failed", 0, None, "no memory"),
        "skyband": ("answered", 1_000, 0.01, ""),
    }
    records = [
        {"system": system, "question": "rows", "window_over_slide": 1, "k": 10, "outcome": outcome,
         "rows": rows, "seconds": seconds, "note": note,
         "rows_per_s": None if seconds is None else rows / seconds}
        for system, (outcome, rows, seconds, note) in outcomes.items()
    ]  # fmt: skip
    console = Console(record=True, width=160, file=io.StringIO())
    study.show(records, console)
    text = console.export_text()
    for words in ("5 (250)", "stopped (0)", "differs", "failed (0)", "100,000",
                  "duckdb: 3 of 4 windows", "polars: no memory"):  # fmt: skip
        assert words in text, text
    assert all(path.exists() for path in study.draw(records, tmp_path))


@pytest.mark.parametrize("quick", [True, False])
def test_questions_by_size(quick):
    study = Peers.sized(quick, 100_000)
    assert study.rows == 100_000
    ratios, ks = ((1, 60), (100,)) if quick else ((1, 10, 60, 360), (10, 100, 1_000))
    asked = {(q.ratio, q.k) for q in study.questions if q.kind == "rows"}
    assert asked == {(ratio, k) for ratio in ratios for k in ks}
    assert {q.ratio for q in study.questions if q.kind == "totals"} == set(ratios)
    assert benchmarks._studies(["peers"], quick, rows=100_000)[0].rows == 100_000


# ---------------------------------------------------------------- Flink, without Flink


def test_flink_is_asked_for_a_window_top_n():
    *_, trades, answers, query = flink.statements(
        Question("rows", 60, 100), Path("/data/in"), Path("/data/out")
    )
    assert "'path' = 'file:///data/in', 'format' = 'parquet'" in trades
    assert "id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'file:///data/out'" in answers
    assert "HOP(TABLE trades, DESCRIPTOR(moment), INTERVAL '10' SECOND, INTERVAL '600' SEC" in query
    assert "PARTITION BY window_start, window_end ORDER BY score DESC" in query
    assert query.startswith("INSERT INTO answers SELECT")
    assert query.endswith("WHERE place <= 100")
    *_, totals = flink.statements(Question("totals", 1, 10), Path("/data/in"), Path("/data/out"))
    assert "SUM(volume)" in totals
    assert "GROUP BY window_start, window_end, sector" in totals


def test_flink_is_missing_until_it_was_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYBAND_FLINK", str(tmp_path))
    assert flink.missing() == "Flink is not installed: run make flink"
    for name in ("bin/python", f"jars/flink-sql-parquet-{flink.VERSION}.jar"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert flink.missing() is None
    flink.fetch()  # has nothing to do
    python, script, jar, *hadoop = flink.command()
    assert Path(python) == tmp_path / "bin/python"
    assert Path(jar).name == f"flink-sql-parquet-{flink.VERSION}.jar"
    assert Path(script).is_file()
    assert [Path(path).name.rpartition("-")[0] for path in hadoop] == [
        "hadoop-client-api", "hadoop-client-runtime"
    ]  # fmt: skip
    makefile = (flink.ROOT / "Makefile").read_text()
    assert "flink-requirements.txt" in makefile


PYFLINK = """
class EnvironmentSettings:
    in_batch_mode = staticmethod(lambda: None)

class TableEnvironment:
    create = staticmethod(lambda settings: TableEnvironment())
    set = lambda self, name, value: print("set", name, value)
    get_config = get_job_client = get_job_execution_result = result = lambda self: self
    get_net_runtime = lambda self: 1500

    def execute_sql(self, statement):
        print("SQL", statement)
        if "wrong" in statement:
            raise ValueError("Error\\n\\tat Java\\nCaused by: Outer\\nCaused by: Inner")
        return self
"""


def test_the_child_of_flink_reports_what_its_job_took(tmp_path):
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").touch()
    (tmp_path / "pyflink" / "table.py").write_text(PYFLINK)
    requests = [
        {"settings": {"parallelism.default": "2"}, "statements": ["CREATE", "INSERT"]},
        {"settings": {}, "statements": ["wrong"]},
    ]
    script = Path(flink.__file__).with_name("flink_child.py")
    ran = subprocess.run(
        [sys.executable, str(script), "/jars/a.jar", "/jars/b.jar"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    replies = [json.loads(line) for line in ran.stdout.splitlines()]
    assert replies == [{"ready": True}, {"seconds": 1.5}, {"error": "Caused by: Inner"}]
    assert "set pipeline.jars file:///jars/a.jar;file:///jars/b.jar" in ran.stderr
    assert "set parallelism.default 2" in ran.stderr
    assert "SQL INSERT" in ran.stderr
