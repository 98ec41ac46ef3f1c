"""Of equal scores the oldest ranks first, where a query says so."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband import Monitor, TopK, all_time, cumulative, last
from skyband.errors import QueryError, SnapshotError
from skyband.partitioned import Partitioned
from tests.command_line import Runner
from tests.oracle import changes, count_windows, oldest_first, time_windows
from tests.streams import answers, batches, reports, same


def some_scores(chance, rows):
    """Few different scores, so that many are equal, and some that are not ranked."""
    return [chance.choice([0.0, 1.0, 2.0, -1.0, float("nan"), float("inf")]) for _ in range(rows)]


@pytest.mark.parametrize("algorithm", ["auto", "recompute"])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(10))
def test_count_windows(algorithm, emit, seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = some_scores(chance, 150)
    query = TopK(k, last(count=size, slide=slide), emit, ties="oldest")
    monitor, windows = Monitor(query, algorithm), []
    for low, high in batches(150, [chance.randrange(150) for _ in range(4)]):
        windows += monitor.push(np.array(scores[low:high]))
        monitor = Monitor.restore(monitor.snapshot(), query)
    wanted = count_windows(scores, size, slide, k, ties="oldest")
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide)
    else:
        same(answers(windows), wanted)


@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(10))
def test_time_windows_in_any_order(emit, seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = some_scores(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 0, 1, 1, 3, 40]) for _ in scores])
    ids = np.array(chance.sample(range(1000), 120))
    order = np.array(chance.sample(range(120), 120))
    monitor = Monitor(TopK(k, last(time=size, slide=slide), emit, ties="oldest"))
    windows = []
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        rows, rest = order[low:high], times[order[high:]]
        windows += monitor.push(
            np.array(scores)[rows],
            ids=ids[rows],
            times=times[rows],
            watermark=int(rest.min()) if len(rest) else None,
        )
    windows += monitor.finish()
    wanted = time_windows(scores, times.tolist(), size, slide, k, ids=ids.tolist(), ties="oldest")
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide, until=1 << 60)
    else:
        same(answers(windows), wanted)


def test_many_rows_of_a_pane_are_not_cut_to_the_newest():
    scores = np.ones(200_000)
    monitor = Monitor(TopK(3, last(time=1_000_000), ties="oldest"))
    times = np.arange(200_000)
    windows = [*monitor.push(scores, times=times), *monitor.finish()]
    assert [window.id.tolist() for window in windows] == [[0, 1, 2]]


@pytest.mark.parametrize("window", [cumulative(20, every=5), all_time(every=5)])
def test_windows_whose_rows_leave_together(window):
    monitor = Monitor(TopK(2, window, ties="oldest"))
    times = np.arange(40)
    windows = [*monitor.push(np.ones(40), times=times), *monitor.finish()]
    for ranked in windows:
        alive = [(1.0, at, at) for at in range(40) if ranked.start <= at < ranked.end]
        assert ranked.id.tolist() == [o[2] for o in sorted(alive, key=oldest_first)[:2]]


def test_keys():
    engine = Partitioned(TopK(1, last(count=3), ties="oldest"))
    parts = engine.push(np.ones(6), keys=np.array([0, 0, 0, 7, 7, 7]), ids=np.arange(6))
    ranked = [window for part in [*parts, *engine.finish()] for window in part.ranked]
    assert [window.id.tolist() for window in ranked] == [[0], [3]]


def test_what_is_refused():
    query = TopK(2, last(count=3), ties="oldest")
    assert str(query).endswith("of equal scores the oldest first")
    with pytest.raises(QueryError, match=r"algorithm is 'sap' with ties='oldest'"):
        Monitor(query, "sap")
    with pytest.raises(QueryError, match="ties is 'any'"):
        TopK(2, last(count=3), ties="any")
    with pytest.raises(SnapshotError, match="ties = 'oldest'"):
        Monitor.restore(Monitor(query).snapshot(), TopK(2, last(count=3)))


def test_files(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    path = tmp_path / "equal.csv"
    path.write_text("t,v\n1,5\n2,5\n2,5\n3,4\n")
    window = ["--time", "t", "--window", 10, "--format", "csv"]
    ran = run("top", path, "--by", "v", *window, "--ties", "oldest")
    assert [row["row"] for row in ran.rows] == ["0", "1", "2", "3"]
    assert [row["row"] for row in run("top", path, "--by", "v", *window).rows] == list("2103")
    assert "--ties" in run.fails("top", path, "--by", "v", *window, "--ties", "any")
    assert "oldest first" in run("explain", path, "--by", "v", *window[:4], "--ties", "oldest").out
