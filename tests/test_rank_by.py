"""Rows of equal score share a rank, as SQL's rank() and dense_rank() count, where a query says."""

from __future__ import annotations

import random
from itertools import pairwise, product

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import Monitor, TopK, Workload, WorkloadMonitor, all_time, cumulative, last
from skyband.errors import QueryError, SnapshotError
from skyband.order import shared_ranks
from skyband.partitioned import Partitioned
from skyband.topk import ALGORITHMS
from tests.command_line import Runner
from tests.oracle import (
    all_time_windows,
    changes,
    count_windows,
    cumulative_windows,
    numbered,
    time_windows,
)
from tests.streams import answers, batches, reports, same
from tests.test_conformance import KINDS, SHAPES, TIME_SHAPES, clock, stream
from tests.test_ties import some_scores

RANK_BYS = ["row_number", "rank", "dense_rank"]
ORDERS = list(product(RANK_BYS, ["newest", "oldest"]))


def check(windows, expected, rank_by):
    """Hold windows to the oracle, and their ranks to its ranks."""
    same(answers(windows), expected)
    for window in windows:
        rows = list(zip(window.score.tolist(), window.id.tolist(), strict=True))
        assert window.rank.tolist() == numbered(rows, rank_by)


@pytest.mark.parametrize("algorithm", ["auto", "recompute"])
@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_count_windows(algorithm, rank_by, ties, kind):
    scores = stream(kind, 300)
    for n, s, k in SHAPES:
        query = TopK(k, last(count=n, slide=s), ties=ties, rank_by=rank_by)
        monitor, windows = Monitor(query, algorithm), []
        for low, high in pairwise([*range(0, 300, max(s, 37)), 300]):
            windows += monitor.push(scores[low:high])
        order = {"ties": ties, "rank_by": rank_by}
        check(windows, count_windows(scores.tolist(), n, s, k, **order), rank_by)


@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
@pytest.mark.parametrize("kind", ["bursts", "gaps", "shuffled", "ancient"])
def test_time_windows(rank_by, ties, kind):
    times = clock(kind, 250)
    for scores in (stream("ties", 250), stream("infinite", 250), stream("missing", 250)):
        for size, slide, offset, k in TIME_SHAPES:
            window = last(time=size, slide=slide, offset=offset)
            monitor, windows = Monitor(TopK(k, window, ties=ties, rank_by=rank_by)), []
            for low, high in batches(250, range(0, 250, 37)):
                rest = times[high:]
                watermark = int(rest.min()) if len(rest) else None
                windows += monitor.push(
                    scores[low:high],
                    ids=np.arange(low, high),
                    times=times[low:high],
                    watermark=watermark,
                )
            windows += monitor.finish()
            shape = (size, slide, k, offset)
            order = {"ties": ties, "rank_by": rank_by}
            check(windows, time_windows(scores.tolist(), times.tolist(), *shape, **order), rank_by)


@pytest.mark.parametrize("algorithm", ["auto", "recompute"])
@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(6))
def test_restored_after_each_push(algorithm, rank_by, ties, emit, seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = some_scores(chance, 150)
    query = TopK(k, last(count=size, slide=slide), emit, ties=ties, rank_by=rank_by)
    monitor, windows = Monitor(query, algorithm), []
    for low, high in batches(150, [chance.randrange(150) for _ in range(4)]):
        windows += monitor.push(np.array(scores[low:high]))
        monitor = Monitor.restore(monitor.snapshot(), query)
    wanted = count_windows(scores, size, slide, k, ties=ties, rank_by=rank_by)
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide, rank_by=rank_by)
        for window in windows:
            # one ranking, with those that left where they stood, and equal scores by age
            age = window.id if ties == "oldest" else -window.id
            order = list(zip((-window.score).tolist(), age.tolist(), strict=True))
            assert order == sorted(order)
    else:
        check(windows, wanted, rank_by)


@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(6))
def test_time_windows_in_any_order(rank_by, ties, emit, seed):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    slide, k = chance.randint(1, size), chance.randint(1, 6)
    scores = some_scores(chance, 120)
    times = np.cumsum([chance.choice([0, 0, 0, 1, 1, 3, 40]) for _ in scores])
    ids = np.array(chance.sample(range(1000), 120))
    order = np.array(chance.sample(range(120), 120))
    query = TopK(k, last(time=size, slide=slide), emit, ties=ties, rank_by=rank_by)
    monitor, windows = Monitor(query), []
    for low, high in batches(120, [chance.randrange(121) for _ in range(4)]):
        rows, rest = order[low:high], times[order[high:]]
        watermark = int(rest.min()) if len(rest) else None
        pushed = np.array(scores)[rows]
        windows += monitor.push(pushed, ids=ids[rows], times=times[rows], watermark=watermark)
    windows += monitor.finish()
    wanted = time_windows(
        scores, times.tolist(), size, slide, k, ids=ids.tolist(), ties=ties, rank_by=rank_by
    )
    if emit == "changes":
        assert reports(windows) == changes(wanted, slide, 1 << 60, rank_by)
    else:
        check(windows, wanted, rank_by)


@pytest.mark.parametrize(("rank_by", "ties"), ORDERS)
def test_windows_whose_rows_leave_together(rank_by, ties):
    chance = random.Random(1)
    scores, times = some_scores(chance, 80), list(range(80))
    order = {"ties": ties, "rank_by": rank_by}
    for window, expected in [
        (cumulative(20, every=5), cumulative_windows(scores, times, 20, 5, 2, **order)),
        (all_time(every=5), all_time_windows(scores, times, 5, 2, **order)),
    ]:
        monitor = Monitor(TopK(2, window, **order))
        windows = [*monitor.push(np.array(scores), times=np.array(times)), *monitor.finish()]
        check(windows, expected, rank_by)


DUCKDB = """
    SELECT score, id, {function}() OVER (ORDER BY score DESC) AS rank FROM objects
    WHERE score IS NOT NULL AND NOT isnan(score) QUALIFY rank <= {k} ORDER BY score DESC, id DESC
"""


@settings(max_examples=60)
@given(
    scores=st.lists(
        st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan"), float("inf"), float("-inf")])
        | st.floats(-3, 3, width=16),
        min_size=1,
        max_size=40,
    ),
    size=st.integers(1, 30),
    k=st.integers(1, 5),
    rank_by=st.sampled_from(RANK_BYS[1:]),
    algorithm=st.sampled_from(["auto", "recompute"]),
)
def test_as_duckdb_ranks(scores, size, k, rank_by, algorithm):
    """Against functions of the same names; equal scores are many."""
    monitor = Monitor(TopK(k, last(count=size, slide=1), rank_by=rank_by), algorithm)
    values = np.array(scores)
    for window in monitor.push(values):
        objects = {"score": values[window.start : window.end] + 0.0}
        objects["id"] = np.arange(window.start, window.end)
        rows = zip(window.score.tolist(), window.id.tolist(), window.rank.tolist(), strict=True)
        query = DUCKDB.format(function=rank_by, k=k)
        assert list(rows) == duckdb.sql(query).fetchall(), objects


@settings(max_examples=200)
@given(st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5]), max_size=9), max_size=6))
def test_shared_ranks(windows):
    rankings = [sorted(window, reverse=True) for window in windows]
    offsets = np.cumsum([0, *map(len, rankings)])
    score = np.array([score for ranking in rankings for score in ranking])
    for rank_by in RANK_BYS[1:]:
        expected = [numbered([(score, 0) for score in ranking], rank_by) for ranking in rankings]
        ranks = shared_ranks(score, offsets, rank_by == "dense_rank")
        assert ranks.tolist() == [rank for ranking in expected for rank in ranking]


def test_whole_numbers():
    large = (1 << 62) + 1
    scores = np.array([large, large - 1, large, large + 1, large - 1])
    monitor = Monitor(TopK(2, last(count=5), numbers="int64", rank_by="dense_rank"))
    (window,) = monitor.push(scores)
    assert window.score.tolist() == [large + 1, large, large]
    assert window.rank.tolist() == [1, 2, 2]


@pytest.mark.compiled
@pytest.mark.parametrize("rank_by", ["rank", "dense_rank"])
def test_many_rows_that_tie(rank_by):
    """Answers find room, and rows that wait are not cut to k."""
    rows = 200_000
    for monitor in (
        Monitor(TopK(3, last(time=rows, slide=rows // 4), rank_by=rank_by)),
        Monitor(TopK(3, last(time=rows, slide=rows // 4), rank_by=rank_by), "recompute"),
    ):
        windows = [*monitor.push(np.ones(rows), times=np.arange(rows)), *monitor.finish()]
        counts = [len(window) for window in windows]
        assert counts == [50_000, 100_000, 150_000, 200_000, 150_000, 100_000, 50_000]
        assert all((window.rank == 1).all() for window in windows)


@pytest.mark.parametrize("emit", ["all", "changes"])
def test_keys(emit):
    engine = Partitioned(TopK(1, last(count=3, slide=3), emit, rank_by="rank"))
    keys = np.array([0, 0, 0, 7, 7, 7])
    parts = engine.push(np.array([1.0, 1, 0, 2, 3, 3]), keys=keys, ids=np.arange(6))
    parts = [*parts, *engine.finish()]
    ranked = [window for part in parts for window in part.ranked]
    assert [window.id.tolist() for window in ranked] == [[1, 0], [5, 4]]
    assert [window.rank.tolist() for window in ranked] == [[1, 1], [1, 1]]
    ranks = [rank for part in parts for rank in part.ranked.to_arrow()["rank"].to_pylist()]
    assert ranks == [1, 1, 1, 1]


def test_what_is_refused():
    query = TopK(2, last(count=3), rank_by="dense_rank")
    assert str(query).endswith("ranked by dense_rank")
    for algorithm in ALGORITHMS:
        if algorithm != "recompute":
            with pytest.raises(QueryError, match=r"with rank_by='dense_rank'"):
                Monitor(query, algorithm)
    with pytest.raises(QueryError, match="rank_by is 'any'"):
        TopK(2, last(count=3), rank_by="any")
    with pytest.raises(SnapshotError, match="rank_by = 'dense_rank'"):
        Monitor.restore(Monitor(query).snapshot(), TopK(2, last(count=3)))
    for each in (query, TopK(2, last(count=3), ties="oldest")):
        with pytest.raises(QueryError, match="algorithm is 'mtoplist' with a query for the top 2"):
            WorkloadMonitor(Workload({"a": each}), "mtoplist")


def test_files(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    path = tmp_path / "equal.csv"
    path.write_text("t,v\n1,5\n2,5\n2,4\n3,4\n4,3\n")
    window = ["--time", "t", "--window", 10]
    query = ["top", path, "--by", "v", "--k", 2, *window, "--format", "csv"]
    rows = run(*query, "--rank-by", "rank").rows
    assert [(row["rank"], row["row"]) for row in rows] == [("1", "1"), ("1", "0")]
    rows = run(*query, "--rank-by", "dense_rank", "--ties", "oldest").rows
    assert [(row["rank"], row["row"]) for row in rows] == list(zip("1122", "0123", strict=True))
    assert len(run(*query).rows) == 2
    assert "--rank-by" in run.fails(*query, "--rank-by", "any")
    shared = ["--rank-by", "dense_rank"]
    assert "dense_rank" in run("explain", path, "--by", "v", *window, *shared).out
    totals = ["explain", path, "--key", "t", "--by", "sum(v)", *window]
    oldest = run(*totals, *shared, "--ties", "oldest").out
    assert "of equal totals the oldest first, ranked by dense_rank" in " ".join(oldest.split())
