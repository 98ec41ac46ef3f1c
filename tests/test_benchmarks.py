from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
import sys
import time
from dataclasses import replace

import benchmarks
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.grid import Grid
from benchmarks.measure import Point, best_of, measure, np_max, part, resident, window_bytes
from benchmarks.memory import Memory, resident_set
from benchmarks.papers import published
from benchmarks.papers.mintopk import claims
from benchmarks.papers.mintopk.curves import QUICK, Curves
from benchmarks.papers.mintopk.response import Response
from benchmarks.papers.mtops import claims as mtops_claims
from benchmarks.papers.mtops import curves as mtops_curves
from benchmarks.papers.mtops import running as mtops_running
from benchmarks.papers.mtops.goals import Goals
from benchmarks.papers.mtops.workloads import ALL_ARBITRARY, ARBITRARY_K, Parameters, workload
from benchmarks.papers.sap import sweep, table2, table6
from benchmarks.scan import Scan, Workload, goals
from benchmarks.spark import cluster, dominating, incomplete, page, scale, shapes, sizes, stream
from benchmarks.spark.study import Sliding
from benchmarks.start import Start
from benchmarks.study import perform
from benchmarks.updates import Updates
from rich.console import Console

from skyband import QueryError, WorkloadMonitor
from skyband.serve.address import Address
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.server import PageServer
from tests.oracle_incomplete import time_incomplete

FEW = ("mintopk", "sap")


def uniform(rows, seed=0):
    return [np.random.default_rng(seed).random(rows)]


# ---------------------------------------------------------------- measuring


def test_a_run_tells_what_it_fed_and_what_that_cost():
    run = measure(Point("mintopk", 500, 50, 10), uniform(3_000))
    assert run.objects == 3_000
    assert run.complete
    assert run.chosen == "mintopk"
    assert run.counters["slides"] == 60
    assert run.ns_per_object > 0
    assert run.state_bytes > 0


def test_candidates_are_averaged_over_full_windows():
    alone = measure(Point("recompute", 500, 50, 10), uniform(3_000))
    assert alone.candidates == 500
    started = measure(Point("recompute", 500, 50, 10), uniform(400))
    assert 200 < started.candidates < 400


def test_objects_that_fill_the_window_can_be_left_out_of_the_time():
    run = measure(Point("mintopk", 500, 50, 10), uniform(3_000), untimed=500)
    assert run.objects == 2_500


def test_a_budget_ends_a_run_and_says_so():
    run = measure(Point("mintopk", 500, 1, 10), uniform(200_000), budget=0.0)
    assert not run.complete
    assert 0 < run.objects < 200_000


def test_pieces_are_cut_at_blocks_and_lose_nothing():
    blocks = [np.arange(700.0), np.empty(0), np.arange(300.0)]
    run = measure(Point("recompute", 100, 10, 3), blocks, untimed=650)
    assert run.objects == 350
    assert run.counters["slides"] == 100


def test_the_best_of_some_runs_is_one_of_them():
    run = best_of(Point("mintopk", 500, 50, 10), uniform(3_000), repeats=3)
    assert run.objects == 3_000


def test_chunks_keep_answers_small():
    assert Point("mintopk", 1_000_000, 1_000, 100).chunk == 1_000_000
    assert Point("mintopk", 10_000, 1, 1_000).chunk * 1_000 * 16 < 32 << 20
    assert Point("mintopk", 100_000, 1, 100, "changes").chunk > 10_000


def test_a_part_of_a_stream():
    blocks = [np.arange(0.0, 10), np.arange(10.0, 20), np.arange(20.0, 25)]
    assert np.concatenate(part(blocks, 7, 22)).tolist() == list(map(float, range(7, 22)))
    assert part(blocks, 5, 5) == []


def test_streams_stay_resident_and_np_max_is_timed_on_them():
    stream = resident("time_u", 5_000)
    assert sum(len(block) for block in stream) == 5_000
    assert np_max(stream, passes=2) > 0


def test_raw_scores_are_told_from_candidates():
    monitor = Point("sap", 1_000, 100, 5).monitor()
    monitor.push(uniform(3_000)[0])
    assert 8 * 1_000 <= window_bytes(monitor) < monitor.state_bytes()
    assert window_bytes(Point("mintopk", 1_000, 100, 5).monitor()) == 0


# ---------------------------------------------------------------- the benchmarks


def tiny_scan(**changes):
    workloads = (
        Workload("time_u", "time_u", 500, 50, 10, algorithms=("kskyband", *FEW, "auto")),
        Workload("time_u_changes", "time_u", 500, 1, 10, "changes", FEW),
    )
    return Scan(objects=4_000, repeats=1, workloads=workloads, **changes)


def test_scan_prints_one_array_of_flat_records(tmp_path, capsys):
    assert perform([tiny_scan()], as_json=True, results=tmp_path) == 0
    records = json.loads(capsys.readouterr().out)
    wanted = {"workload", "algorithm", "n", "s", "k", "objects", "ns_per_object", "vs_np_max",
              "candidates", "insertions", "rescans", "state_bytes", "objects_per_s"}  # fmt: skip
    for record in records:
        assert wanted <= set(record)
        assert not any(isinstance(value, (list, dict)) for value in record.values())
        assert record["objects"] == 4_000
    scan = [r for r in records if r["algorithm"] == "np.max"]
    assert [r["vs_np_max"] for r in scan] == [1.0, 1.0]
    assert [r["candidates"] for r in scan] == [0, 0]
    names = [r["algorithm"] for r in records if r["workload"] == "time_u"]
    assert names == ["np.max", "kskyband", "mintopk", "sap", "auto"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scan.png", "scan.svg"]


def test_scan_shows_tables_and_goals(tmp_path, capsys):
    perform([tiny_scan()], results=tmp_path)
    shown = capsys.readouterr().out
    assert "ns/object" in shown
    assert "Goals" in shown
    assert "time_u: sap / mintopk" in shown


def test_goals_say_whether_they_are_met():
    def record(algorithm, ns, over, candidates):
        return {"workload": "time_u", "algorithm": algorithm, "n": 1000, "k": 10,
                "ns_per_object": ns, "vs_np_max": over, "candidates": candidates,
                "objects_per_s": 1e9 / ns}  # fmt: skip

    rows = goals([record("sap", 4.0, 8.0, 30), record("mintopk", 8.0, 16.0, 50)])
    assert [(goal[2], goal[3]) for goal in rows] == [(8.0, "yes"), (0.5, "NO")]


def test_grid_compares_auto_with_the_best(tmp_path, capsys):
    grid = Grid(
        ("time_u", "time_r"), (1_000,), (0.01, 0.1), (10,), (*FEW, "recompute", "auto"),
        timed=4_000, rounds=2,
    )  # fmt: skip
    records = grid.collect()
    assert len(records) == 4 * 4
    for record in records:
        assert {"workload", "n", "s", "k", "algorithm", "ns_per_object", "best",
                "ratio_to_best"} <= set(record)  # fmt: skip
        if record["algorithm"] == record["best"]:
            assert record["ratio_to_best"] == 1.0
    grid.show(records, benchmarks.report.console())
    assert "auto is within 15 %" in capsys.readouterr().out
    assert [path.suffix for path in grid.draw(records, tmp_path)] == [".png", ".svg"]


def test_memory_is_sampled_along_the_run(tmp_path, capsys):
    memory = Memory(objects=20_000, n=1_000, s=100, k=10, samples=5)
    perform([memory], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    assert [r["algorithm"] for r in records[::5]] == ["sap", "mintopk"]
    assert all(r["rss_bytes"] > r["state_bytes"] > 0 for r in records)
    assert (tmp_path / "memory.png").stat().st_size > 0
    memory.show(records, benchmarks.report.console())
    assert "RSS at the end" in capsys.readouterr().out
    assert resident_set() > 1 << 20


def test_start_is_measured_in_fresh_processes(tmp_path, capsys):
    perform([Start(("mintopk",), 1)], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    assert [r["algorithm"] for r in records] == ["import", "mintopk"]
    assert records[0]["first_answer_s"] is None
    assert 0 < records[1]["first_answer_s"] < records[1]["process_s"]


def test_updates_are_measured_beside_final_rankings(tmp_path, capsys):
    study = Updates(("top-k", "totals"), ("count", "time"), (1, 2), (2,), (1,), pushes=2)
    perform([study], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    assert len(records) == 8
    assert all(r["updates_us"] > 0 < r["all_us"] for r in records)
    assert (tmp_path / "updates.png").stat().st_size > 0
    study.show(records, benchmarks.report.console())
    assert "Rankings so far" in capsys.readouterr().out


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_every_name_leads_to_studies(name, quick):
    studies = benchmarks._studies(name.split(), quick)
    names = [study.name for study in studies]
    assert len(set(names)) == len(names) >= 1


def test_tables_of_a_paper_can_be_asked_for_alone():
    assert [s.name for s in benchmarks._studies(["paper", "sap", "table6"], True)] == ["sap_table6"]


@pytest.mark.parametrize(
    "words",
    [[], ["speed"], ["paper"], ["paper", "lost"], ["scan", "more"], ["paper", "sap", "table4"]],
)
def test_an_unknown_name_is_a_clear_error(words):
    with pytest.raises(QueryError, match="one of") as error:
        benchmarks.run(words)
    assert "fix:" in str(error.value)


# ---------------------------------------------------------------- SAP's tables

SPOTS = {
    ("2", "stock", "m", "5", "non-delay"): 53.6,
    ("2", "time_r", "m", "37", "algorithm-1+s-avl"): 41.3,
    ("3", "stock", "k", "10", "sap"): 9.58,
    ("3", "time_u", "s", "1%", "sap"): 11.27,
    ("5", "time_r", "s", "2%", "mintopk"): 26.8,
    ("5", "time_r", "s", "2%", "sap"): 16.6,
    ("6", "time_u", "n", "0.1%", "sap"): 286,
    ("6", "time_r", "k", "1000", "kskyband"): 98403,
    ("7", "stock", "k", "50000", "mintopk"): 355.0,
    ("8", "planet", "k", "1000", "sap"): 178,
    ("9", "stock", "k", "50000", "mintopk"): 12070,
}


def test_the_tables_are_transcribed_in_full():
    printed = sweep.printed()
    assert {key: printed[key] for key in SPOTS} == SPOTS
    cells = {2: 17 * 3, 3: 16 * 3, 5: 16 * 2, 6: 16 * 3, 7: 16 * 2, 8: 16 * 3, 9: 16 * 2}
    for table, number in cells.items():
        assert sum(key[0] == str(table) for key in printed) == 5 * number
    assert len(printed) == len(published.rows(sweep.FOLDER))


def test_the_default_query_is_printed_alike_but_for_known_slips():
    printed = sweep.printed()
    slips = set()
    for regime, tables in ((sweep.REGULAR, "368"), (sweep.HIGH_SPEED, "579")):
        for table, dataset in itertools.product(tables, sweep.DATASETS):
            for algorithm in {key[4] for key in printed if key[0] == table}:
                numbers = {
                    printed[table, dataset, p, v, algorithm] for p, v in regime.defaults.items()
                }
                if len(numbers) > 1:
                    slips.add((table, dataset, algorithm))
    assert slips == {
        ("6", "stock", "kskyband"),
        ("6", "time_r", "mintopk"),
        ("7", "trip", "mintopk"),
        ("8", "trip", "kskyband"),
        ("8", "time_u", "kskyband"),
        ("9", "time_u", "sap"),
    }


def test_windows_are_percentages_of_the_papers_stream():
    assert sweep.REGULAR.numbers("time_u", "k", "100") == (100_000, 100, 100)
    assert sweep.REGULAR.numbers("planet", "n", "0.1%") == (11_000, 11, 100)
    assert sweep.HIGH_SPEED.numbers("stock", "s", "0.01%") == (10_000_000, 1_000, 1_000)


def small(study, settings, **changes):
    regime = replace(
        sweep.REGULAR_QUICK,
        settings=settings,
        total=dict.fromkeys(sweep.DATASETS, 1_000_000),
        objects=dict.fromkeys(sweep.DATASETS, 5_000),
        start={},
    )
    return replace(study, regime=regime, datasets=("time_u",), **changes)


def test_a_table_shows_ours_beside_the_papers(tmp_path, capsys):
    study = small(table6.TABLE, {"n": ("0.05%", "0.1%"), "k": ("10", "50", "100")})
    perform([study], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    assert len(records) == 5 * 3
    mine = {(r["parameter"], r["value"], r["algorithm"]): r for r in records}
    record = mine["k", "50", "sap"]
    assert (record["n"], record["s"], record["k"]) == (1_000, 1, 50)
    assert (record["published"], record["unit"]) == (130, "candidates")
    assert record["published_ratio"] == pytest.approx(130 / 647, rel=1e-4)
    assert record["measured"] == record["candidates"] > 0
    assert record["measured_ratio"] < 1
    assert (tmp_path / "sap_table6.png").stat().st_size > 0
    study.show(records, benchmarks.report.console())
    shown = capsys.readouterr().out
    assert "Table 6: agreement" in shown
    assert "sap / kskyband" in shown


def test_equal_partitions_run_in_their_three_variants():
    study = small(table2.TABLE, {"m": ("5", "7", "9")})
    records = study.collect()
    assert {r["algorithm"] for r in records} == set(table2.TABLE.algorithms)
    options = dict(study.point("time_u", "m", "7", "non-delay").options)
    assert options == {"partitions": 7, "delay": False, "savl": False, "amortise": False}
    answers = []
    for algorithm in study.algorithms:
        monitor = study.point("time_u", "m", "5", algorithm).monitor()
        answers.append(monitor.push(uniform(4_000)[0]).id)
    assert all(np.array_equal(answers[0], other) for other in answers)


def test_agreement_is_a_rank_correlation():
    assert published.agreement([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert published.agreement([3, 2, 1], [10, 20, 90]) == pytest.approx(-1)
    assert published.agreement([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)
    assert published.agreement([1, 2, 3, None], [1, 2, 3, 4]) == pytest.approx(1)
    assert published.agreement([1, 2], [1, 2]) is None
    assert published.agreement([5, 5, 5], [1, 2, 3]) is None
    assert published.amount("0.05%") == pytest.approx(0.0005)


# ---------------------------------------------------------------- MinTopk's figures


def test_what_the_text_states_is_transcribed():
    by_name = {(c.figure, c.value, c.algorithm, c.metric): c for c in claims.claims()}
    assert by_name["11", "100000", "mintopk", "ms_per_object"].number == 0.097
    assert by_name["11", "100000", "sma", "ms_per_object"].number == 0.172
    assert by_name["7", "10", "sma", "recomputation_rate"].number == 0.23
    assert by_name["7", "10000", "sma", "recomputation_rate"].number == 0.56
    assert by_name["8", "mean", "mintopk", "candidates_over_k"].number == 2.4
    assert by_name["8", "all", "mintopk", "candidates_over_k"].bound == "most"
    assert by_name["8", "mean", "mintopk", "memory_saved_against_pretopk"].number == 0.33


def test_claims_are_computed_from_the_figures_records():
    def record(value, algorithm, ns, rate=0.0):
        return {"value": value, "algorithm": algorithm, "ns_per_object": ns, "s": 100_000,
                "k": int(value), "candidates": 3 * int(value), "state_bytes": ns,
                "recomputation_rate": rate}  # fmt: skip

    records = [
        record("10", "sma", 100.0, 0.2),
        record("10", "pretopk", 20.0),
        record("10", "mintopk", 10.0),
        record("10000", "sma", 100.0, 0.5),
        record("10000", "mintopk", 5.0),
    ]
    by_name = {(r["metric"], r["algorithm"], r["value"]): r for r in claims.claimed("7", records)}
    assert by_name["cpu_saved_against_sma", "mintopk", "all"]["measured"] == pytest.approx(0.9)
    assert by_name["cpu_saved_against_sma", "pretopk", "all"]["measured"] == pytest.approx(0.8)
    assert by_name["cpu_saved_against_pretopk", "mintopk", "mean"]["measured"] == pytest.approx(0.5)
    assert by_name["recomputation_rate", "sma", "10000"]["measured"] == 0.5
    assert claims.spoken(by_name["cpu_saved_against_sma", "mintopk", "all"]) == "at least 0.85"
    eight = {(r["metric"], r["value"]): r for r in claims.claimed("8", records)}
    assert eight["candidates_over_k", "all"]["measured"] == 3


def test_a_figure_skips_what_is_absurd_and_says_so(tmp_path, capsys):
    figure = Curves(
        "11", "CPU time for different slides", "cpu", "stock", "s", (10, 100),
        n=1_000, k=20, algorithms=("pretopk", *FEW),
        sizes=replace(QUICK, least=3_000, most=5_000, references=1_000),
    )  # fmt: skip
    records = figure.collect()
    points = [(r["value"], r["algorithm"]) for r in records if r["metric"] == "ns_per_object"]
    assert points == [("10", "mintopk"), ("10", "sap"), ("100", "pretopk"), ("100", "mintopk"),
                      ("100", "sap")]  # fmt: skip
    figure.show(records, benchmarks.report.console())
    shown = capsys.readouterr().out
    assert "skipped" in shown
    assert "what the text states" in shown
    drawn = figure.draw(records, tmp_path)
    assert [path.name for path in drawn] == ["mintopk_figure11.png", "mintopk_figure11.svg"]


def test_response_times_are_per_window(tmp_path, capsys):
    study = Response(rows=30_000, slides=(1, 2), size=4, k=20, algorithms=FEW)
    perform([study], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    measured = {(r["value"], r["algorithm"], r["metric"]): r["measured"] for r in records}
    for slide, algorithm in itertools.product(("1s", "2s"), FEW):
        least, mean, most = (
            measured[slide, algorithm, metric] for metric in ("min_ms", "mean_ms", "max_ms")
        )
        assert 0 < least <= mean <= most
    assert measured["1s", "all", "least_arrivals_per_slide"] >= 0
    assert (tmp_path / "mintopk_figure13.svg").stat().st_size > 0
    study.show(records, benchmarks.report.console())
    assert "deviation" in capsys.readouterr().out


# ---------------------------------------------------------------- MTopS's figures

SMALL = Parameters((100, 500), (10, 50), (3, 9))
BRIEF = mtops_running.Effort(1_000, budget=1.0, sample=4, repeats=1, most_lists=5)


def few_workloads(figure, title, metric):
    return mtops_curves.Curves(figure, title, metric, SMALL, (2, 5, 10), effort=BRIEF)


def test_workloads_are_drawn_alike_and_nested():
    hundred, ten = ALL_ARBITRARY.queries(100), ALL_ARBITRARY.queries(10)
    assert hundred[:10] == ten
    sizes = [query.window.size for query in hundred]
    assert 100_000 <= min(sizes) < 200_000 < 900_000 < max(sizes) <= 1_000_000
    assert len(set(hundred)) == 100
    assert {query.window.slide for query in ARBITRARY_K.queries(10)} == {100_000}
    assert ARBITRARY_K.spoken == "win 1,000,000, slide 100,000, k 10 to 1,000"


def test_what_the_text_of_mtops_states_is_transcribed():
    by_name = {(c.figures, c.queries, c.algorithm, c.metric): c for c in mtops_claims.claims()}
    assert by_name[("9",), "10 to 1000", "mtopband", "memory_growth"].number == 6
    assert by_name[("9",), "10 to 1000", "mtoplist", "memory_growth"].number == 2.5
    assert by_name[("10",), "100", "mtoplist", "s_per_object"].number == 0.0066
    assert by_name[("10",), "100", "independent", "s_per_object"].number == 0.712
    assert by_name[("12",), "10 to 100", "mtoplist", "cpu_growth"].number == 4.1
    assert by_name[("14",), "1000", "mtoplist", "cpu_less_than_independent"].number == 330
    assert all(claim.where.startswith("section") for claim in mtops_claims.claims())
    figures = {figure for claim in mtops_claims.claims() for figure in claim.figures}
    assert figures == {str(figure) for figure in range(8, 16)}


def test_claims_of_mtops_are_computed_from_the_figures_records():
    def record(queries, algorithm, ns):
        return {"dataset": "stock", "queries": queries, "algorithm": algorithm,
                "ns_per_object": ns, "state_bytes": 10 * ns}  # fmt: skip

    records = [
        record(10, "mtoplist", 2.0),
        record(100, "mtoplist", 6.0),
        record(1000, "mtoplist", 9.0),
        record(1000, "independent", 4500.0),
    ]
    measured = {
        (r["queries"], r["algorithm"], r["metric"], r["bound"]): r["measured"]
        for figure in ("12", "13", "14", "15", "10")
        for r in mtops_claims.claimed(figure, records)
    }
    assert measured["10 to 100", "mtoplist", "cpu_growth", ""] == 3
    assert measured["100 to 1000", "mtoplist", "cpu_growth", ""] == 1.5
    assert measured["10 to 1000", "independent", "memory_growth", ""] is None
    assert measured["1000", "mtoplist", "cpu_less_than_independent", ""] == 500
    assert measured["1000", "mtoplist", "cpu_less_than_mtopband", "least"] is None
    assert measured["1000", "mtoplist", "memory_less_than_independent", "least"] == 500
    assert measured["100", "mtoplist", "s_per_object", ""] == pytest.approx(6e-9)
    assert measured["1000", "mtoplist", "ms_per_object", "most"] == pytest.approx(9e-6)


def test_windows_filled_with_what_may_win_go_on_as_others_do():
    rows, fill, queries = 2_000, 500, SMALL.queries(6)
    scores = np.concatenate(resident("gmti", rows))
    for algorithm in mtops_curves.ALGORITHMS:
        whole, short = (WorkloadMonitor(workload(queries), algorithm) for _ in range(2))
        whole.push(scores[:fill])
        short.push(mtops_running._filling("gmti", rows, fill, queries))
        assert np.array_equal(whole.kept()["score"], short.kept()["score"])
        wanted, answered = (monitor.push(scores[fill:]).ranked for monitor in (whole, short))
        assert wanted.rows > 0
        assert np.array_equal(wanted.id, answered.id)
        assert np.array_equal(wanted.window_end, answered.window_end)


def test_a_figure_of_workloads_says_what_was_sampled_and_skipped(tmp_path, capsys):
    figure = few_workloads("12", "CPU time for different windows and slides", "cpu")
    perform([figure], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    points = {
        (r["dataset"], r["queries"], r["algorithm"]): r
        for r in records
        if r["metric"] == "ns_per_object"
    }
    assert len(points) == 2 * (3 * 4 - 1)
    assert ("stock", 10, "mtopband") not in points
    for record in points.values():
        assert {"figure", "dataset", "queries", "algorithm", "ns_per_object",
                "state_bytes"} <= set(record)  # fmt: skip
        assert record["ns_per_object"] > 0
        assert record["state_bytes"] > 0
    assert points["gmti", 10, "independent"]["queries_measured"] == 4
    assert "scaled up from 4 queries" in points["gmti", 10, "independent"]["note"]
    assert "scaled up" not in points["gmti", 10, "mtopmerge"]["note"]
    figure.show(figure.collect(), benchmarks.report.console())
    shown = capsys.readouterr().out
    assert "skipped" in shown
    assert "what the text states" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mtops_figure12.png",
        "mtops_figure12.svg",
    ]


def test_cpu_time_and_memory_are_two_figures_of_the_same_runs():
    cpu = few_workloads("14", "CPU time", "cpu").points()
    memory = few_workloads("15", "memory", "memory").points()
    assert [r["ns_per_object"] for r in cpu] == [r["ns_per_object"] for r in memory]
    assert [r["measured"] for r in memory] == [r["state_bytes"] for r in cpu]


def test_goals_of_sharing_say_whether_they_are_met(tmp_path, capsys):
    goals = Goals(
        few_workloads("14", "CPU time", "cpu"), objects=2_000, rounds=1, alone=SMALL.queries(1)
    )
    perform([goals], as_json=True, results=tmp_path)
    records = json.loads(capsys.readouterr().out)
    assert [(r["dataset"], r["queries"], r["algorithm"]) for r in records[:9]] == [
        *[("stock", 10, "mtoplist")] * 4,
        *[("stock", 10, "mtopmerge")] * 4,
        ("stock", 1, "auto"),
    ]
    for record in records:
        assert {"wanted", "measured", "met", "ns_per_object", "state_bytes"} <= set(record)
        reached = record["measured"] >= record["wanted"]
        assert record["met"] == (reached if record["bound"] == "least" else not reached)
    goals.show(records, benchmarks.report.console())
    shown = capsys.readouterr().out
    assert "Goals" in shown
    assert "at least 300" in shown
    assert "at most 1.2" in shown


def test_readers_of_a_page_are_counted_and_cost_little():
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3")], "top-k")
    with PageServer(feed, Address.parsed(0)) as server:
        with page._readers(server.address.port, 20) as cost:
            server_thread = page._processor_time(server.thread_id)
            feed.describe([ServedQuery("top 4")], "top-k")
        assert server_thread >= 0
        assert cost["lost"] == 0
        assert cost["bytes"] >= 0
        assert cost["cpu_seconds"] >= 0
        with page._readers(server.address.port, 0) as nothing:
            assert nothing == {}
    assert page._processor_time(0) == 0.0


def test_what_readers_cost_is_shown(tmp_path):
    bench = page.Page.sized(quick=True)
    assert (bench.seconds, page.Page.sized(quick=False, rows=100_000).rows) == (10.0, 100_000)
    records = [
        {"turn": 0, "readers": readers, "batches": 1, "seconds": seconds, "looked": 2.0,
         "server_cpu": readers / 5_000, "connected": readers, "readers_cpu_share": readers / 1e4,
         "bytes": 10, "lost": 0, "stop_seconds": 0.25}
        for readers, seconds in ((0, 1.0), (0, 1.2), (0, 1.4), (500, 1.2), (500, 1.26), (500, 2.0))
    ]  # fmt: skip
    console = Console(record=True, width=140, file=io.StringIO())
    bench.show(records, console)
    text = console.export_text()
    assert re.search(r"500 . +3 . +1\.26 . +1\.05 . +2 . +5 . +5 . +0", text), text
    assert "500 of them follow stops in 0.25 s" in " ".join(text.split())
    assert all(path.exists() for path in bench.draw(records, tmp_path))


# ---------------------------------------------------------------- on Spark


def test_the_oracle_of_keys_is_that_of_windows(tmp_path):
    folder = stream.write(tmp_path / "trades", 3_000, 3_000, 2, 3)
    until = stream.START + 400 * stream.SLIDE * 1_000_000
    whole = stream.ranked(folder, 6, 4, until, by_sector=False)
    expected = stream.windows(folder, 6 * stream.SLIDE, 4, until)
    scores = {end: [] for end in expected}
    for end, score in zip(whole["end"].to_pylist(), whole["score"].to_pylist(), strict=True):
        scores[end].append(score)
    assert scores == expected
    by_key = stream.ranked(folder, 6, 4, until, by_sector=True)
    best = {
        end: max(by_key.filter(pc.equal(by_key["end"], end))["score"].to_pylist())
        for end in list(expected)[::50]
    }
    assert best == {end: expected[end][0] for end in best}
    assert set(by_key["sector"].to_pylist()) == {"sector 00", "sector 01", "sector 02"}
    assert max(by_key["rank"].to_pylist()) == 4


def test_keys_and_columns_stand_beside_their_floor(tmp_path):
    bench = Sliding.sized(quick=True)
    assert Sliding.sized(quick=False).shapes == shapes.SHAPES
    assert [shape.slides(360_000) for shape in shapes.SHAPES] == [720, 720, 18, 720, 720]
    same = {"rows": 1_000, "state_bytes": 10}
    records = [
        {"part": "windows", "system": system, "window_over_slide": ratio, "k": 100, "keys": 0,
         "columns": "id and time", "seconds": 1.0, "rows_per_s": 1_000.0, **same}
        for ratio in bench.ratios
        for system in ("floor", "skyband", "skyband-scan", "native")
    ] + [
        {"part": shape.part, "system": system, "window_over_slide": 60, "k": shape.k,
         "keys": shape.keys, "columns": shape.columns, "seconds": seconds,
         "rows_per_s": 1_000 / seconds, **same}
        for shape in bench.shapes
        for system, seconds in (("floor", 1.0), ("skyband", 3.0), ("skyband-scan", 2.0))
    ]  # fmt: skip
    console = Console(record=True, width=160, file=io.StringIO())
    bench.show(records, console)
    text = console.export_text()
    assert re.search(r"500 . +10 . two numbers . skyband +. +1,000 . +3 . +333 . +3 ", text), text
    assert re.search(r"none . +100 . five mixed +. floor", text), text
    assert re.search(r"500 keys: skyband, time / floor's +. at most 2\.5 +. +3 . NO", text), text
    assert re.search(r"skyband-scan, time / floor's +. at most 2\.5 +. +2 . yes", text), text
    assert all(path.exists() for path in bench.draw(records, tmp_path))


def test_the_oracle_of_incomplete_streams_is_that_of_the_tests(tmp_path):
    folder = incomplete.write(tmp_path / "cars", 600, 600, 2, 40)
    table = pq.read_table(folder)
    times = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64).tolist()
    cameras = [incomplete.CAMERAS.index(name) for name in table["camera"].to_pylist()]
    columns = (table["car"].to_pylist(), cameras, table["speed"].to_pylist())
    slide, low = incomplete.SLIDE * 1_000_000, [0.0] * len(incomplete.CAMERAS)
    rows = list(zip(*columns, strict=True))
    expected = time_incomplete(rows, times, 4 * slide, slide, incomplete.K, "sum", low)
    until = max(times)
    assert incomplete.windows(folder, 4, until) == {
        answer.end: [(row[0], row[-1]) for row in answer.rows]
        for answer in expected
        if answer.end <= until
    }


def test_incomplete_streams_are_shown_beside_sparks_own(tmp_path):
    bench = incomplete.Incomplete.sized(quick=True)
    assert incomplete.Incomplete.sized(quick=False, rows=300_000).rows == 300_000
    records = [
        {"system": system, "window_over_slide": ratio, "cars": 9, "rows": 1_000, "seconds": seconds,
         "rows_per_s": 1_000 / seconds, "state_bytes": 10, "candidates": 7}
        for ratio in bench.ratios
        for system, seconds in (("floor", 1.0), ("skyband", 2.0), ("native", 8.0))
        if system != "floor" or ratio == bench.ratios[0]
    ]  # fmt: skip
    console = Console(record=True, width=160, file=io.StringIO())
    bench.show(records, console)
    text = console.export_text()
    assert re.search(r"10 . skyband . 1,000 . +2 . +500 . +2 . +4 . +7 ", text), text
    assert all(path.exists() for path in bench.draw(records, tmp_path))


def test_what_another_row_costs_leaves_out_what_a_query_costs_once(tmp_path):
    bench = sizes.Sizes.sized(quick=True)
    assert sizes.Sizes.sized(quick=False, rows=9).small == 9
    memory = {
        "part": "memory", "system": "skyband-scan", "k": 100, "rows": 5_000, "seconds": 2.0,
        "rows_per_s": 2_500, "file_bytes": 10 << 30, "row_group_bytes": 1 << 30, "workers": 3,
        "worker_bytes": 3 << 29,
    }  # fmt: skip
    records = [memory] + [
        {"part": "speed", "system": system, "k": 100, "rows": rows, "seconds": seconds,
         "rows_per_s": rows / seconds}
        for rows, floor, scan in ((1_000, 11.0, 4.0), (3_000, 31.0, 7.0))
        for system, seconds in (("floor", floor), ("skyband-scan", scan))
    ]  # fmt: skip
    assert sizes.further(records) == {100: {"floor": 100.0, "skyband-scan": 2_000 / 3}}
    console = Console(record=True, width=160, file=io.StringIO())
    bench.show(records, console)
    text = console.export_text()
    assert re.search(r"1,000 rows, k = 100: x floor's speed . at least 3 . +2\.75 . NO", text), text
    assert re.search(r"another row, k = 100: x floor's speed . at least 5 . +6\.67 . yes", text), (
        text
    )
    assert re.search(r"row groups of 1 GB . at most 1 +. +1\.5 . NO", text), text
    assert all(path.exists() for path in bench.draw(records, tmp_path))


def test_a_large_file_has_the_row_groups_that_are_asked_for(tmp_path):
    rows = sizes.write_large(tmp_path / "one", 3 << 20, 1 << 20)
    [file] = (tmp_path / "one").iterdir()
    metadata = pq.ParquetFile(file).metadata
    assert metadata.num_rows == rows
    for group in range(metadata.num_row_groups):
        assert metadata.row_group(group).total_byte_size == pytest.approx(1 << 20, rel=0.2)
    assert 3 << 20 <= file.stat().st_size < 6 << 20
    assert pq.read_table(file)["id"].to_pylist() == list(range(rows))


def test_workers_are_told_from_other_processes():
    lines = ["import time; time.sleep(600)  # pyspark.daemon", "import time; time.sleep(600)"]
    started = [subprocess.Popen([sys.executable, "-c", line]) for line in lines]
    try:
        with sizes.watched() as peak:
            while not peak.get(started[0].pid):
                time.sleep(0.01)
        assert started[1].pid not in peak  # those of other tests' Spark may be there
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert sizes.peak_of(started[0].pid) == 0


@pytest.mark.parametrize("bench", [scale.Scale.sized(True), cluster.Cluster.sized(True)])
def test_cores_and_workers_are_shown_for_each_system(bench, tmp_path):
    records = [
        {"cores": count, "workers": count, "load": 1.0, "keys": 0, "system": system, "rows": 9,
         "seconds": 1 / speed, "rows_per_s": speed, "candidates": 5, "state_bytes": 10}
        for count in (1, 2)
        for system, speed in (("floor", 1.0), ("skyband", 2.0 * count), ("skyband-scan", 9.0))
    ] + [
        {"cores": 2, "workers": 2, "load": 1.0, "keys": 7, "system": "skyband", "rows": 9,
         "seconds": 1.0, "rows_per_s": 9.0, "candidates": 5, "state_bytes": 70}
    ] * isinstance(bench, scale.Scale)  # fmt: skip
    console = Console(record=True, width=160, file=io.StringIO())
    bench.show(records, console)
    text = console.export_text()
    assert re.search(r"one ranking +. +2 . +9 . +0?\.25 . +4 . +2 ", text), text
    assert re.search(r"one ranking, tasks read files +. +2 .* +1 ", text), text
    assert all(path.exists() for path in bench.draw(records, tmp_path))


def test_dominating_points_are_shown_for_both_ways_of_reading():
    bench = dominating.Dominating.sized(quick=True)
    same = {"rows": 9, "seconds": 1.0, "candidates": 5, "state_bytes": 10}
    cores = [
        {"part": "cores", "system": system, "cores": count, "bound": bound, "rows_per_s": speed,
         **same}
        for count, bound, speed in ((1, True, 1.0), (1, False, 2.0), (2, False, 3.5))
        for system in dominating.SYSTEMS
    ]  # fmt: skip
    slides = [
        {"part": part, "panes": panes, "pane": 10, "seconds_per_slide": 1.0, "pairs_per_slide": 5,
         "first_pairs_per_slide": 5, "cpu_ms_per_slide": 1.0, "candidates": 1, "counted": 1}
        for part in ("slide", "shard")
        for panes in (10, 1_000)
    ]  # fmt: skip
    console = Console(record=True, width=160, file=io.StringIO())
    bench.show(cores + slides, console)
    text = console.export_text()
    for system in dominating.SYSTEMS:
        assert re.search(rf"{system}: 2 cores / one +. at least 1.6 +. +1\.75 . yes", text), text
