"""Workloads from Python, CSV and YAML, and the estimates of their cost."""

from __future__ import annotations

import numpy as np
import pytest

from skyband import QueryError, TopK, Workload, WorkloadMonitor, all_time, cumulative, last
from skyband.workload.estimates import estimate

CSV = """name,k,window,slide,offset
hot,3,10 minutes,1 minute,
"a, day",10,1 day,1 hour,30 minutes
"""
YAML = """
queries:
  - {name: hot, k: 3, window: 10 minutes, slide: 1 minute}
  - {name: "a, day", k: 10, window: 1 day, slide: 1 hour, offset: 30 minutes}
"""


def test_csv_and_yaml_say_the_same(tmp_path):
    (tmp_path / "q.csv").write_text(CSV)
    (tmp_path / "q.yaml").write_text(YAML)
    (tmp_path / "list.yaml").write_text(YAML.replace("queries:", ""))
    workload = Workload.from_csv(tmp_path / "q.csv")
    assert workload == Workload.from_yaml(tmp_path / "q.yaml")
    assert workload == Workload.from_yaml(tmp_path / "list.yaml")
    assert list(workload) == ["hot", "a, day"]
    assert len(workload) == 2
    assert not workload.counted
    assert str(workload.queries["a, day"].window) == (
        "the last 1 day, every 1 hour, shifted by 30 minutes"
    )


def test_counts_scores_and_full_windows(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("name,k,window,slide,by,full\n7,2,100,10,price,true\nb,3,50,,,\n")
    workload = Workload.from_csv(path)
    assert workload.by == {"7": "price", "b": "score"}
    assert workload.scores == ("price", "score")
    assert workload.queries["7"] == TopK(k=2, window=last(count=100, slide=10, full=True))
    assert workload.queries["b"].window.slide == 50
    assert (
        str(workload) == "2 queries: windows of 50 to 100 objects, slides of 10 to 50, k of 2 to 3"
    )
    one = Workload({"a": TopK(k=2, window=last(time=9))})
    assert str(one) == "1 query: windows of 9 ticks, slides of 9 ticks, k of 2"


def test_orders_and_kinds_of_windows(tmp_path):
    """A file says them as a job and the command line do."""
    (tmp_path / "q.csv").write_text(
        "name,k,window,slide,offset,cumulative,all_time,every,ties,rank_by,full\n"
        "old,3,1 hour,5 minutes,,,,,oldest,rank,no\n"
        "day,3,,,6 hours,1 day,no,1 hour,,dense_rank,no\n"
        "ever,3,,,0,,true,1 hour,,,no\n"
    )
    (tmp_path / "q.yaml").write_text("""
- {name: old, k: 3, window: 1 hour, slide: 5 minutes, ties: oldest, rank_by: rank}
- {name: day, k: 3, cumulative: 1 day, every: 1 hour, offset: 6 hours, rank_by: dense_rank}
- {name: ever, k: 3, window: {all_time: true, every: 1 hour}}
""")
    workload = Workload.from_csv(tmp_path / "q.csv")
    assert workload == Workload.from_yaml(tmp_path / "q.yaml")
    assert workload.queries == {
        "old": TopK(3, last(time="1 hour", slide="5 minutes"), ties="oldest", rank_by="rank"),
        "day": TopK(3, cumulative("1 day", every="1 hour", offset="6 hours"), rank_by="dense_rank"),
        "ever": TopK(3, all_time(every="1 hour")),
    }
    assert str(workload) == (
        "3 queries: windows of 1 hour, slides of 5 minutes, each 1 day so far, all time, "
        "steps of 1 hour, k of 3, of equal scores each ranks in its own way"
    )
    (tmp_path / "ticks.csv").write_text("name,k,cumulative,every,ties\na,1,60,5,oldest\n")
    ticks = Workload.from_csv(tmp_path / "ticks.csv", ticks=True)
    assert ticks.queries["a"] == TopK(1, cumulative(60, every=5), ties="oldest")
    assert str(ticks) == (
        "1 query: each 60 ticks so far, steps of 5 ticks, k of 1, of equal scores the oldest first"
    )


def test_estimates_of_queries_that_share_nothing():
    workload = Workload(
        {
            "ever": TopK(3, all_time(every=10)),
            "day": TopK(4, cumulative(100, every=10)),
            "usual": TopK(2, last(time=40, slide=10)),
        }
    )
    guess = estimate(workload, 0.1)
    assert (guess.windows, guess.largest_k) == (6, 4)
    assert guess.shared == guess.independent == 3 + 4 + 4


WRONG = {
    "name,k,window,ties\na,1,5,first\n": "query 'a': ties is 'first'",
    "name,k,window,rank_by\na,1,5,dense\n": "query 'a': rank_by is 'dense'",
    "name,k,cumulative\na,1,1 day\n": "query 'a': window is {cumulative: 1 day}",
    "name,k,all_time,every\na,1,no,1 day\n": "query 1 has no window",
    "name,k,window,every\na,1,5,9\n": "query 'a': window is {window: 5, every: 9}",
    "name,k,cumulative,slide,every\na,1,1 day,1 hour,1 hour\n": "slide: 1 hour",
    "name,k,cumulative,every\na,1,60,5\nb,1,1 day,1 hour\n": "'a' has windows of ticks, 'b' of",
    "name,k\na,1\n": "has the columns name, k; expected name,k,window,slide",
    "": "has the columns none",
    "name,k,window\na,1,5\na,1,5\n": "query 2 is called 'a', as one before",
    "name,k,window\na,ten,5\n": "query 'a': k is 'ten'",
    "name,k,window\na,0,5\n": "query 'a': k is 0",
    "name,k,window,slide\na,1,5,9\n": "query 'a': slide is 9, the window is 5",
    "name,k,window\na,1,soon\n": "query 'a': window is 'soon'",
    "name,k,window\na,1,5\nb,1,5 s\n": "query 'a' has windows of counts, 'b' of time",
    "name,k,window,colour\na,1,5,red\n": "leave out colour",
    "name,k,window\n,1,5\n": "query 1 has no name",
    "name,k,window\na,1,5,6\n": "behind its last column",
    "name,k,window\n": "at least one named query",
    "name,k,k,window\na,1,2,5\n": "fix: leave out k",
    "name,k,window\na,²,5\n": "k is '²'",
    "name,k,window\na,--5,5\n": "k is '--5'",
    "name,k,window,full\na,1,5,maybe\n": "full is 'maybe'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_the_file(text, tmp_path):
    path = tmp_path / "q.csv"
    path.write_text(text)
    with pytest.raises(QueryError) as caught:
        Workload.from_csv(path)
    assert WRONG[text] in str(caught.value)


def test_other_mistakes_are_told(tmp_path):
    with pytest.raises(QueryError, match="there is no file"):
        Workload.from_csv(tmp_path / "none.csv")
    for text, message in {
        "{": "is not YAML",
        "7": "no list of queries",
        "[7]": "query 1 is 7",
        "[{name: a, k: 1, window: {all_time: true, every: 1 hour}, slide: 1 hour}]": (
            "slide beside a window that is described by fields; expected all of it in window"
        ),
    }.items():
        (tmp_path / "q.yaml").write_text(text)
        with pytest.raises(QueryError, match=message):
            Workload.from_yaml(tmp_path / "q.yaml")
    query = TopK(k=1, window=last(count=5))
    with pytest.raises(QueryError, match="records are 5"):
        Workload.of(5)
    for queries, by, message in [
        ({"a": query}, None, "by is None"),
        ({"a": query}, {"a": 5}, "ranks by 5"),
        ({}, {}, "at least one"),
        ({"": query}, {}, "is called ''"),
        ({"a": 5}, {}, "query 'a' is 5"),
        ({"a": TopK(k=1, window=last(count=5), weights=(1.0, 2.0))}, {}, "has weights"),
        ({"a": query, "b": TopK(1, last(count=5), "changes")}, {}, "emits 'all', 'b' 'changes'"),
        ({"a": query}, {"z": "price"}, "by names a score for 'z'"),
    ]:
        with pytest.raises(QueryError, match=message):
            Workload(queries, by)


def test_estimates_are_near_what_is_kept():
    rng = np.random.default_rng(2)
    queries = {
        f"q{number}": TopK(
            k=int(rng.integers(1, 40)),
            window=last(count=int(rng.integers(500, 3_000)), slide=int(rng.integers(5, 50))),
        )
        for number in range(20)
    }
    workload = Workload(queries)
    guess = estimate(workload)
    monitor = WorkloadMonitor(workload, "mtopmerge")
    kept = []
    for _ in range(20):
        monitor.push(rng.random(700))
        kept.append(len(monitor.kept()["score"]))
    assert np.mean(kept[6:]) == pytest.approx(guess.shared, rel=0.15)
    open_now = len(monitor._engines["score"].schedule.open.start)
    assert open_now == pytest.approx(guess.windows, rel=0.05)
    assert guess.shared < guess.independent
    assert guess.views <= guess.windows
    assert estimate(Workload({"a": TopK(k=9, window=last(count=4))})).shared == 4
