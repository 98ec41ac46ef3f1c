"""The benchmarks of the paper on top-k dominating queries, on tiny windows."""

from __future__ import annotations

import json
from dataclasses import replace

import benchmarks
import numpy as np
import pytest
from benchmarks.papers.dominating import STUDIES, running, sweep
from benchmarks.papers.dominating.goals import Goals
from benchmarks.papers.dominating.running import Effort, Point
from benchmarks.study import perform

TINY = Effort(60, budget=30.0, every=20, scale=10_000)


def tiny(**changes):
    points = sweep.grid(("ind", "ant"), ("bfa", "contenders", "nobody"), k=(2, 4, 8))
    return sweep.Sweep("table9", "a table", "k", points, effort=TINY, **changes)


def test_every_figure_and_table_is_there():
    names = [f"figure{n}" for n in range(7, 12)] + ["table2", "table3", "table4", "goals"]
    assert list(STUDIES) == names
    assert "paper dominating" in benchmarks.NAMES
    for name, study in STUDIES.items():
        whole, quick = study(False), study(True)
        assert whole.name == quick.name == f"dominating_{name}"
        if isinstance(whole, sweep.Sweep):
            assert len(quick.points) <= len(whole.points)
            assert {p.dataset for p in whole.points} == {p.dataset for p in quick.points}


def test_what_the_paper_prints_is_transcribed_and_looked_for():
    counts = {name: len(sweep.printed(name)) for name in STUDIES}
    assert (counts["table2"], counts["table3"], counts["table4"]) == (30, 32, 48)
    assert sweep.printed("table2")["cover", 256, 0.05, 0.9, "ahba", "accuracy"] == 97.4
    assert sweep.printed("table3")["cover", 16, None, None, "amsa", "accuracy"] == 79.6
    assert sweep.printed("table4")["ant", 512, None, None, "eva", "events"] == 802_160.8
    for name in ("table2", "table3", "table4"):
        study = STUDIES[name](False)
        looked_for = {
            (p.dataset, p.k, p.epsilon, p.delta, p.algorithm, metric)
            for p in study.points
            for metric in study.metrics
        }
        assert set(sweep.printed(name)) <= looked_for


def test_one_array_of_flat_records(tmp_path, capsys):
    assert perform([tiny()], as_json=True, results=tmp_path) == 0
    output = capsys.readouterr()
    records = json.loads(output.out)
    assert "skipped, not there yet: nobody" in output.err
    assert len(records) == 2 * 3 * 2
    for record in records:
        assert {"figure", "dataset", "n", "d", "k", "algorithm", "updates_per_s", "events",
                "exact_computations", "comparisons", "accuracy"} <= set(record)  # fmt: skip
        assert not any(isinstance(value, (list, dict)) for value in record.values())
        assert (record["n"], record["d"], record["updates"]) == (200, 4, 60)
        assert record["updates_per_s"] > 0
        assert record["accuracy"] is None
    bfa = [record for record in records if record["algorithm"] == "bfa"]
    assert {record["events"] for record in bfa} == {3 * 199 * 1000}  # each pair, both ways once
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["dominating_table9.png", "dominating_table9.svg"]


def test_tables_show_the_paper_beside_ours(tmp_path, capsys, monkeypatch):
    known = {("ant", 4, None, None, "contenders", "exact_computations"): 12.5}
    monkeypatch.setattr(sweep, "printed", lambda figure: known)
    metrics = ("events", "exact_computations")
    alone = tuple(p for p in tiny().points if p.dataset == "ant")
    perform([replace(tiny(metrics=metrics), points=alone)], results=tmp_path)
    shown = capsys.readouterr().out
    assert "Table 9: a table" in shown
    assert "12.5" in shown
    assert "paper" in shown


def test_accuracy_is_the_share_of_the_true_answer(monkeypatch):
    monkeypatch.setattr(running, "APPROXIMATE", ("contenders",))
    running.run.cache_clear()
    point = Point("ant", "contenders", n=3_000_000, d=3, k=5)
    assert running.run(point, TINY).accuracy == 1.0
    exact = running._truth
    monkeypatch.setattr(
        running,
        "_truth",
        lambda point, effort: {
            at: frozenset([*sorted(ids)[:4], -1]) for at, ids in exact(point, effort).items()
        },
    )
    running.run.cache_clear()
    assert running.run(point, TINY).accuracy == pytest.approx(0.8)
    running.run.cache_clear()


def test_a_slow_algorithm_gets_fewer_updates():
    cost = running.run(Point("ind", "bfa", k=4), Effort(50_000, 1e-3, 10, 10_000))
    assert 0 < cost.updates < 50_000


def test_bfa_goes_on_from_estimated_scores_as_if_it_had_counted():
    point = Point("ind", "bfa", n=50, d=2, k=3)
    points = np.random.default_rng(1).random((200, 2))
    short, whole = point.monitor(), point.monitor()
    running._fill_bfa(short, points[:50])
    whole.push(points[:50])
    for part in (points[50:120], points[120:]):
        answered, wanted = short.push(part), whole.push(part)
        assert answered.window_end.tolist() == wanted.window_end.tolist()
    assert answered.id.tolist() == wanted.id.tolist()  # none of the first points is left
    assert answered.score.tolist() == wanted.score.tolist()


def test_goals_say_whether_they_are_met(capsys, tmp_path, monkeypatch):
    def cost(point, effort):
        speed = {"bfa": 10.0, "eva": 400.0, "ada": 900.0, "contenders": 30_000.0}
        return running.Cost(speed.get(point.algorithm, 1.0), 0.0, 20.0, 0.0, 1, 60, 0.993)

    monkeypatch.setattr("benchmarks.papers.dominating.goals.run", cost)
    monkeypatch.setattr("benchmarks.papers.dominating.goals.there", lambda name: True)
    records = Goals().collect()
    met = {(r["goal"], r["dataset"], r["algorithm"]): r["met"] for r in records}
    assert met["speed: ada / bfa", "ind", "ada"] is False
    assert met["speed: ada / eva", "ant", "ada"] is True
    assert met["updates/s, best exact", "ind", "contenders"] is True
    exact = "exact computations per 1,000 updates"
    assert [met[exact, "ant", a] for a in ("eva", "ada", "ahba", "amsa")] == [
        True,
        True,
        False,
        False,
    ]
    assert met["accuracy, %", "ind", "ahba"] is False
    assert met["accuracy, %", "ind", "amsa"] is True
    assert met["accuracy, %", "cover", "ahba"] is True
    Goals().show(records, benchmarks.study.report.console())
    assert "NO" in capsys.readouterr().out
    assert Goals().draw(records, tmp_path) == []
