"""The benchmarks of the paper on incomplete streams, on tiny windows."""

from __future__ import annotations

import json
from dataclasses import replace

import benchmarks
import numpy as np
import pytest
from benchmarks.papers.incomplete import STUDIES, figure4, running, sweep
from benchmarks.papers.incomplete.goals import Goals
from benchmarks.papers.incomplete.running import Effort, Point
from benchmarks.study import perform

TINY = Effort(2, 2, 1)


def tiny():
    points = tuple(Point(name, window=100, k=k) for k in (3, 5) for name in sweep.ALGORITHMS)
    return sweep.Sweep("table2", "a table", "k", points, effort=TINY)


def test_every_figure_and_table_is_there():
    names = ["figure4", "figure5", "table1", "table2", "table3", "table4", "goals"]
    assert list(STUDIES) == names
    assert "paper incomplete" in benchmarks.NAMES
    for name, study in STUDIES.items():
        assert study(False).name == study(True).name == f"incomplete_{name}"


def test_what_the_paper_prints_is_transcribed_and_looked_for():
    counts = {name: len(sweep.printed(name)) for name in STUDIES}
    assert [counts[f"table{n}"] for n in range(1, 5)] == [12, 16, 12, 12]
    assert sweep.printed("table2")[Point("eaa", k=100), "items"] == 481.7
    for name in ("table1", "table2", "table3", "table4"):
        study = STUDIES[name](False)
        assert {point for point, _ in sweep.printed(name)} <= set(study.points)
    figure = STUDIES["figure5"](False)
    points = {*figure.windows.points, *figure.correlation.points}
    assert {point for point, _ in sweep.printed("figure5")} <= points


@pytest.mark.compiled
def test_one_array_of_flat_records(tmp_path, capsys):
    assert perform([tiny()], as_json=True, results=tmp_path) == 0
    records = json.loads(capsys.readouterr().out)
    assert len(records) == 2 * 4
    for record in records:
        assert {"table", "streams", "window", "k", "xi", "algorithm", "items", "precision",
                "relative_error", "tuples_per_s"} <= set(record)  # fmt: skip
        assert not any(isinstance(value, (list, dict)) for value in record.values())
        assert 0 < record["items"] <= 100
    exact = [r for r in records if r["algorithm"] in ("sla", "eaa")]
    assert {(r["precision"], r["relative_error"]) for r in exact} == {(1.0, 0.0)}
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["incomplete_table2.png", "incomplete_table2.svg"]


@pytest.mark.compiled
def test_tables_are_shown_with_the_papers_numbers_beside(tmp_path, capsys):
    study = replace(tiny(), points=(Point("eaa"),), effort=TINY)
    assert perform([study], results=tmp_path) == 0
    output = capsys.readouterr().out
    assert "Table 2" in output
    assert "345" in output


def test_undominated_objects_are_counted():
    scores = np.array([0.5, 0.9, 0.3, 0.35])
    assert figure4.undominated(scores, 0.0) == 2
    assert figure4.undominated(scores, 0.1) == 3
    assert figure4.undominated(scores, 1.0) == 4


def test_skylines_of_scores_grow_with_the_logarithm(tmp_path, capsys):
    assert perform([figure4.Skylines(30)], results=tmp_path) == 0
    output = capsys.readouterr().out
    assert "Figure 4 (a)" in output
    assert "Figure 4 (b)" in output
    for record in figure4.Skylines(30).collect():
        if record["expected"]:
            assert abs(record["items"] / record["expected"] - 1) < 0.25


def test_goals_tell_what_was_wanted(monkeypatch, capsys, tmp_path):
    def cost(point, effort):
        del effort
        return running.Cost(69.0 if point.algorithm == "likely" else 345.0, 1.0, 0.96, 0.0, 1.0)

    monkeypatch.setattr("benchmarks.papers.incomplete.goals.run", cost)
    monkeypatch.setattr("benchmarks.papers.incomplete.goals._tuples_per_s", lambda *_: 2e6)
    goals = replace(Goals(), rows=1_000)
    records = goals.collect()
    met = {(r["goal"], r["algorithm"], r["k"], r["wanted"]): r["met"] for r in records}
    assert met["table1: items", "eaa", 10, "345 within 10 %"]
    assert not met["table2: items", "eaa", 100, "481.7 within 10 %"]
    assert met["items", "likely", 10, "at most 69.26, published"]
    assert perform([goals], results=tmp_path) == 0
    assert "tuples/s" in capsys.readouterr().out
