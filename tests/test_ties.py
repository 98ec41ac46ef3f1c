"""Of equal scores the oldest ranks first, where a query says so."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband import Monitor, TopK, all_time, cumulative, last
from skyband.errors import QueryError, SnapshotError
from skyband.partitioned import Partitioned
from skyband.windows import AllTimeWindow
from tests.command_line import Runner
from tests.oracle import changes, count_windows, oldest_first, time_windows
from tests.streams import answers, batches, reports, same


def some_scores(chance, rows):
    """Few different scores, so that many are equal, and some that are not ranked."""
    return [chance.choice([0.0, 1.0, 2.0, -1.0, float("nan"), float("inf")]) for _ in range(rows)]


ALGORITHMS = ["auto", "recompute", "mintopk"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(10))
def test_time_windows_in_any_order(algorithm, emit, seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = some_scores(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 0, 1, 1, 3, 40]) for _ in scores])
    ids = np.array(chance.sample(range(1000), 120))
    order = np.array(chance.sample(range(120), 120))
    query = TopK(k, last(time=size, slide=slide), emit, ties="oldest")
    monitor, windows = Monitor(query, algorithm), []
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


@pytest.mark.parametrize("seed", range(5))
def test_mintopk_keeps_what_may_win(seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = np.array(some_scores(chance, 200))
    monitor = Monitor(TopK(k, last(count=size, slide=slide), ties="oldest"), "mintopk")
    for end in range(slide, 201, slide):
        monitor.push(scores[end - slide : end])
        alive = {
            at: scores[at] for at in range(max(end - size, 0), end) if scores[at] == scores[at]
        }
        monitor.algorithm.check_invariants(alive)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("window", [last(time=1_000_000), last(time=250_000, slide=100_000)])
def test_crowded_panes_are_cut_to_the_oldest(window, shuffled):
    times = np.arange(200_000) // 2
    order = np.random.default_rng(1).permutation(200_000) if shuffled else np.arange(200_000)
    monitor = Monitor(TopK(3, window, ties="oldest"))
    windows = list(monitor.push(np.ones(200_000), ids=order, times=times[order]))
    assert len(monitor.reportable()[0]) < 1_000
    windows += monitor.finish()
    for answer in windows:
        first = 2 * max(answer.start, 0)
        assert answer.id.tolist() == [first, first + 1, first + 2][: 200_000 - first]


@pytest.mark.parametrize("window", [cumulative(2_000_000, every=5_000), all_time(every=5_000)])
@pytest.mark.parametrize("equal", [False, True])
def test_k_rows_are_kept_of_a_million(window, equal):
    rows, batch, k = 1_000_000, 100_000, 10
    rng = np.random.default_rng(1)
    scores = np.ones(rows) if equal else rng.integers(0, 1000, rows).astype(float)
    monitor = Monitor(TopK(k, window, ties="oldest"), delay=0)
    for low in range(0, rows, batch):
        monitor.push(scores[low : low + batch], times=np.arange(low, low + batch))
        assert len(monitor.kept()) <= k
    assert len(monitor.snapshot()) < 1_000_000
    last_window = list(monitor.finish())[-1 if isinstance(window, AllTimeWindow) else 0]
    best = np.argsort(-scores, kind="stable")[:k]
    assert last_window.id.tolist() == best.tolist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("window", [cumulative(20, every=5), all_time(every=5)])
def test_windows_whose_rows_leave_together(window, algorithm):
    monitor = Monitor(TopK(2, window, ties="oldest"), algorithm)
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
    assert Monitor(query).plan.algorithm == "mintopk"
    with pytest.raises(QueryError, match=r"algorithm is 'sap' with ties='oldest'"):
        Monitor(query, "sap")
    # a record per open window would be too much to keep
    assert (
        Monitor(TopK(2, last(count=1 << 40, slide=1), ties="oldest")).plan.algorithm == "recompute"
    )
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
