"""Workloads against the oracle: every algorithm, every query, every way to cut the stream."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import Monitor, QueryError, SnapshotError, TopK, Workload, WorkloadMonitor, last
from skyband.workload import ALGORITHMS as NAMES
from skyband.workload.mtopmerge import MTopMerge
from skyband.workload.schedule import Schedule
from tests.oracle import changes, count_windows, ranks, time_windows
from tests.streams import answers, batches, reports, same

ALGORITHMS = [*NAMES, "mtopmerge by 3"]  # merges after every third row
SHARED = [name for name in ALGORITHMS if name != "independent"]
SCORES = [0.0, 1.0, 1.0, 2.0, 3.0, 5.0, float("inf"), float("-inf"), float("nan")]


def chance_scores(chance, rows):
    """Random scores, many of them equal, some not ranked."""
    return [
        chance.choice(SCORES) if chance.random() < 0.4 else chance.random() * 6 for _ in range(rows)
    ]


def some_queries(chance, counted, emit="all", largest=40):
    """Queries with arbitrary windows, slides and k; some of them twice."""
    queries = {}
    for number in range(chance.randint(1, 12)):
        if queries and chance.random() < 0.2:
            queries[f"q{number}"] = chance.choice(list(queries.values()))
            continue
        size = chance.randint(1, largest)
        slide = chance.randint(1, size)
        if counted:
            window = last(count=size, slide=slide, full=chance.random() < 0.2)
        else:
            window = last(time=size, slide=slide, offset=chance.randint(-5, 5))
        queries[f"q{number}"] = TopK(k=chance.randint(1, 8), window=window, emit=emit)
    return queries


def expected(query, scores, times, until=None):
    window = query.window
    if times is None:
        return count_windows(scores, window.size, window.slide, query.k, full=window.full)
    return time_windows(
        scores, times, window.size, window.slide, query.k, window.offset, until=until
    )


def by_query(parts):
    """The windows of each query, in order."""
    windows = {}
    for part in parts:
        ends = [window.end for _, window in part]
        assert ends == sorted(ends)
        for name, window in part:
            windows.setdefault(name, []).append(window)
    return windows


def monitor_of(queries, algorithm, **options):
    """A monitor; its name may say after how many rows to merge."""
    name, _, rows = algorithm.partition(" by ")
    before = MTopMerge.waiting
    MTopMerge.waiting = int(rows or before)
    try:
        return WorkloadMonitor(Workload(queries), name, **options)
    finally:
        MTopMerge.waiting = before


def check(queries, scores, times, algorithm, cuts):
    """Push in pieces, and compare each query with the oracle."""
    monitor = monitor_of(queries, algorithm)
    parts = []
    values = np.array(scores, dtype=np.float64)
    for low, high in batches(len(scores), cuts):
        if times is None:
            parts.append(monitor.push(values[low:high]))
        else:
            at = np.array(times[low:high], dtype=np.int64)
            watermark = times[high] if high < len(times) else None
            parts.append(
                monitor.push(
                    values[low:high], times=at, ids=np.arange(low, high), watermark=watermark
                )
            )
    parts.append(monitor.finish())
    windows = by_query(parts)
    changed = next(iter(queries.values())).emit == "changes"
    for name, query in queries.items():
        wanted = expected(query, scores, times)
        if changed:
            until = (max(times) + 10**6) if times else None
            assert reports(windows.get(name, [])) == changes(wanted, query.window.slide, until)
        else:
            same(answers(windows.get(name, [])), wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(7))
def test_count_windows(algorithm, seed):
    chance = random.Random(seed)
    rows = chance.randint(0, 300)
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    check(some_queries(chance, True), chance_scores(chance, rows), None, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(7))
def test_time_windows(algorithm, seed):
    chance = random.Random(seed)
    rows = chance.randint(0, 200)
    gap = [0, 0, 1, 1, 2, 7, 300]
    times = np.cumsum([chance.choice(gap) for _ in range(rows)]).tolist()
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    check(some_queries(chance, False), chance_scores(chance, rows), times, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_changes(algorithm, timed, seed):
    chance = random.Random(seed)
    rows = chance.randint(1, 150)
    times = np.cumsum([chance.choice([0, 1, 1, 9, 60]) for _ in range(rows)]).tolist()
    cuts = [chance.randrange(400) for _ in range(chance.randint(0, 6))]
    queries = some_queries(chance, not timed, "changes")
    check(queries, chance_scores(chance, rows), times if timed else None, algorithm, cuts)


def check_kept(monitor, scores, places):
    """The structures keep the union of predicted results and nothing else, by each score."""
    for engine in monitor._engines.values():
        alive = {
            seq: (score + 0.0, place)
            for seq, (score, place) in enumerate(zip(scores, places, strict=True))
            if ranks(score)
        }
        engine.check_invariants(alive)


@pytest.mark.parametrize("algorithm", SHARED)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_the_union_of_predicted_results_and_nothing_else(algorithm, timed, seed):
    """After every push, with queries that come and go, and after a restart."""
    chance = random.Random(seed)
    monitor = monitor_of(some_queries(chance, not timed), algorithm)
    scores = chance_scores(chance, 90)
    if timed:  # rows that are not ranked get no number there
        scores = [0.5 if score != score else score for score in scores]
    times = np.cumsum([chance.choice([0, 1, 1, 2, 15]) for _ in scores]).tolist()
    for low in range(0, len(scores), 7):
        high = min(low + 7, len(scores))
        if low % 3 == 2 and len(monitor.queries) > 1:
            monitor.remove(chance.choice(list(monitor.queries)))
        if low % 4 == 1:
            name, query = next(iter(some_queries(chance, not timed).items()))
            monitor.add(f"{name} at {low}", query)
        extra = {}
        if timed:
            until = times[high] if high < len(times) else times[-1] + 1
            extra = {"times": np.array(times[low:high]), "watermark": until}
        monitor.push(np.array(scores[low:high]), **extra)
        fed = monitor._fed
        check_kept(monitor, scores[:fed], times[:fed] if timed else range(fed))
        if low % 5 == 0:
            monitor = WorkloadMonitor.restore(monitor.snapshot())


SIZES = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 9)).map(
    lambda t: (max(t[:2]), min(t[:2]), t[2])
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=25)
@given(
    shapes=st.lists(SIZES, min_size=1, max_size=50),
    scores=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.5, 7.0, float("nan")]), max_size=80),
    cuts=st.lists(st.integers(0, 90), max_size=4),
)
def test_any_count_windows(algorithm, shapes, scores, cuts):
    queries = {
        f"q{number}": TopK(k=k, window=last(count=size, slide=slide))
        for number, (size, slide, k) in enumerate(shapes)
    }
    check(queries, scores, None, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=25)
@given(
    shapes=st.lists(st.tuples(SIZES, st.integers(-9, 9)), min_size=1, max_size=20),
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4)), max_size=40),
    cuts=st.lists(st.integers(0, 90), max_size=4),
)
def test_any_time_windows(algorithm, shapes, rows, cuts):
    queries = {
        f"q{number}": TopK(k=k, window=last(time=size, slide=slide, offset=offset))
        for number, ((size, slide, k), offset) in enumerate(shapes)
    }
    times = np.cumsum([gap for gap, _ in rows]).tolist()
    check(queries, [float(score) for _, score in rows], times, algorithm, cuts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("emit", ["all", "changes"])
@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go(algorithm, timed, emit, seed):
    chance = random.Random(seed)
    first, second = (some_queries(chance, not timed, emit) for _ in range(2))
    second = {f"late {name}": query for name, query in second.items()}
    rows = 160
    scores = chance_scores(chance, rows)
    times = np.cumsum([chance.choice([0, 1, 1, 2, 30]) for _ in range(rows)]).tolist()
    came, went = sorted(chance.sample(range(1, rows), 2))
    gone = chance.choice(list(first))
    monitor = monitor_of(first, algorithm)
    parts, begins, until = [], {}, None
    for low, high in [(0, came), (came, went), (went, rows)]:
        if low == came:
            for name, query in second.items():
                begins[name] = monitor.add(name, query)
        if low == went:
            monitor.remove(gone)
            until = times[low] if timed else low
        extra = {}
        if timed:
            watermark = times[high] if high < rows else None
            extra = {"times": np.array(times[low:high]), "watermark": watermark}
        parts.append(monitor.push(np.array(scores[low:high]), **extra))
    parts.append(monitor.finish())
    windows = by_query(parts)
    forever = (times[-1] if timed else rows) + 10**6
    for name, query in {**first, **second}.items():
        wanted = expected(query, scores, times if timed else None)
        if name in second:
            place = times[came] if timed else came
            assert begins[name][0] >= place
            wanted = [window for window in wanted if window.start >= place]
            assert all(window.end >= begins[name][1] for window in wanted)
        if name == gone:
            wanted = [window for window in wanted if window.end <= until]
        if emit == "changes":
            last_told = until if name == gone else forever if timed else None
            wanted = changes(wanted, query.window.slide, last_told)
            assert reports(windows.get(name, [])) == wanted
        else:
            same(answers(windows.get(name, [])), wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("emit", ["all", "changes"])
def test_snapshots_go_on_bit_for_bit(algorithm, timed, emit):
    chance = random.Random(5)
    queries = some_queries(chance, not timed, emit)
    scores = np.array(chance_scores(chance, 200))
    times = np.cumsum([chance.choice([0, 1, 2, 9]) for _ in range(200)])
    monitor = monitor_of(queries, algorithm, **({"delay": 3} if timed else {}))
    for low in range(0, 200, 20):
        part = slice(low, low + 20)
        extra = {"times": times[part]} if timed else {}
        if low == 100:
            monitor.add("late", TopK(k=2, window=next(iter(queries.values())).window, emit=emit))
            monitor.remove(next(iter(queries)))
        copy = WorkloadMonitor.restore(monitor.snapshot())
        one, two = (each.push(scores[part], **extra) for each in (monitor, copy))
        assert one.to_arrow().to_pylist() == two.to_arrow().to_pylist()
        assert copy.snapshot() == monitor.snapshot()
        assert (copy.dropped, copy.arrived, copy.watermark) == (
            monitor.dropped,
            monitor.arrived,
            monitor.watermark,
        )
        monitor = copy
    assert monitor.finish().to_arrow().to_pylist() is not None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_several_scores_share_one_pass(algorithm):
    chance = random.Random(3)
    names = ["price", "volume"]
    columns = {name: chance_scores(chance, 150) for name in names}
    queries = some_queries(chance, True)
    by = {name: chance.choice(names) for name in queries}
    by |= dict(zip(queries, names, strict=False))  # both scores are used
    name, _, _ = algorithm.partition(" by ")
    monitor = WorkloadMonitor(Workload(queries, by), name)
    parts = [
        monitor.push({name: np.array(column[low : low + 40]) for name, column in columns.items()})
        for low in range(0, 150, 40)
    ]
    windows = by_query(parts)
    for name, query in queries.items():
        same(answers(windows.get(name, [])), expected(query, columns[by[name]], None))
    unranked = sum(score != score for column in columns.values() for score in column)
    assert monitor.dropped.nan_score == unranked


@pytest.mark.compiled
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_rows_and_merges(algorithm):
    """Enough rows to fill every buffer more than once, in one push and in many."""
    rng = np.random.default_rng(11)
    scores = np.round(rng.random(9_000), 3)
    queries = {
        f"q{number}": TopK(k=int(k), window=last(count=int(size), slide=int(slide)))
        for number, (k, size, slide) in enumerate(
            zip(
                rng.integers(1, 200, 8),
                rng.integers(900, 6_000, 8),
                rng.integers(50, 900, 8),
                strict=True,
            )
        )
    }
    for cuts in ([], [10, 2_500, 2_501, 7_777]):
        check(queries, scores.tolist(), None, algorithm, cuts)


def test_late_rows_and_rows_without_a_time_are_counted():
    monitor = monitor_of({"a": TopK(k=2, window=last(time=10, slide=5))}, "mtopmerge", delay=2)
    monitor.push([1.0, 2.0, 3.0], times=[10, 20, 4])
    masked = np.ma.masked_array([30, 31], [True, False])
    monitor.push([float("nan"), 5.0], times=masked)
    assert (monitor.dropped.late, monitor.dropped.null_time) == (1, 1)
    assert monitor.dropped.nan_score == 0
    assert monitor.watermark == 29


def test_ids_are_reported():
    monitor = monitor_of({"a": TopK(k=1, window=last(count=2))}, "mtopmerge")
    ((_, window),) = monitor.push([1.0, 2.0], ids=[70, 71])
    assert window.id.tolist() == [71]
    table = monitor.push([5.0, 2.0], ids=[72, 73]).to_arrow()
    assert table.column_names[0] == "query"
    assert table.to_pylist()[0]["id"] == 72


WRONG = {
    "not a workload": (lambda m: WorkloadMonitor({"a": 1}), "workload is"),
    "unknown algorithm": (lambda m: WorkloadMonitor(Workload(m.queries), "x"), "algorithm is 'x'"),
    "delay of counts": (lambda m: WorkloadMonitor(Workload(m.queries), delay=3), "delay with"),
    "times of counts": (lambda m: m.push([1.0], times=[1]), "times or a watermark"),
    "one score for two": (
        lambda m: WorkloadMonitor(Workload(m.queries, {"a": "x"})).push([1.0]),
        "one column of scores",
    ),
    "no such score": (
        lambda m: WorkloadMonitor(Workload(m.queries, {"a": "x"})).push({"x": [1.0]}),
        "no scores called 'score'",
    ),
    "uneven scores": (
        lambda m: WorkloadMonitor(Workload(m.queries, {"a": "x"})).push(
            {"x": [1.0], "score": [1.0, 2.0]}
        ),
        "different lengths",
    ),
    "ids now and then": (lambda m: m.push([1.0], ids=[1]), "ids in some batches"),
    "added twice": (lambda m: m.add("a", m.queries["a"]), "there is a query 'a'"),
    "added without a name": (lambda m: m.add("", m.queries["a"]), "a query is called ''"),
    "added of another kind": (
        lambda m: m.add("c", TopK(k=1, window=last(time=5))),
        "windows of counts, 'c' of ticks",
    ),
    "added by another score": (lambda m: m.add("c", m.queries["a"], "z"), "ranks by 'z'"),
    "removed twice": (lambda m: m.remove("z"), "there is no query 'z'"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_told(mistake):
    queries = {"a": TopK(k=1, window=last(count=2)), "b": TopK(k=1, window=last(count=3))}
    monitor = monitor_of(queries, "mtopmerge")
    monitor.push([1.0])
    do, message = WRONG[mistake]
    with pytest.raises(ValueError, match=message):
        do(monitor)
    timed = monitor_of({"a": TopK(k=1, window=last(time=5))}, "mtopmerge", delay=1)
    with pytest.raises(ValueError, match="no times"):
        timed.push([1.0])
    with pytest.raises(ValueError, match="a watermark for a monitor with a delay"):
        timed.push([1.0], times=[1], watermark=3)
    single = Monitor(queries["a"]).snapshot()
    with pytest.raises(SnapshotError, match="family 'topk'"):
        WorkloadMonitor.restore(single)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_k_may_be_larger_than_anything(algorithm):
    for k in (2**31, 2**40):
        windows = by_query(
            [monitor_of({"a": TopK(k=k, window=last(count=5))}, algorithm).push([3.0] * 10)]
        )
        assert [len(window) for window in windows["a"]] == [5, 5]
    if algorithm != "independent":  # MinTopk makes room for k rows
        monitor = monitor_of({"a": TopK(k=2**20, window=last(time=5))}, algorithm)
        monitor.push([1.0, 2.0, 3.0], times=[0, 1, 9])
        assert [len(window) for _, window in monitor.finish()] == [2, 1]


@pytest.mark.compiled
def test_long_sparse_streams_take_no_more_room_than_their_answers():
    rows = 4_000
    queries = {f"q{i}": TopK(k=1000, window=last(time=3600 * (i + 1), slide=60)) for i in range(6)}
    monitor = monitor_of(queries, "mtopmerge")
    times = np.arange(rows) * 788
    windows = monitor.push(np.random.default_rng(0).random(rows), times=times, watermark=788 * rows)
    assert 6 * rows * 788 / 60 * 0.99 < len(windows) < 6 * rows * 788 / 60 * 1.01


@pytest.mark.parametrize("counted", [True, False])
def test_a_schedule_saves_and_restores_itself(counted):
    chance = random.Random(21)
    queries = list(some_queries(chance, counted).values())
    places = np.arange(120) if counted else np.cumsum(np.arange(120) % 7)
    schedules = [Schedule(counted, farewell=True) for _ in range(2)]
    for schedule in schedules:
        for number, query in enumerate(queries):
            schedule.add(number, query)
    first, second = schedules
    first.cut(places[:70], int(places[70]))
    header, arrays = first.saved()
    second.restored(header, {name: array.copy() for name, array in arrays.items()})
    assert second.state_bytes() == first.state_bytes() > 0
    for pieces in [
        [schedule.pause() for schedule in schedules],
        [schedule.cut(places[70:], int(places[-1]) + 1) for schedule in schedules],
    ]:
        one, other = pieces
        assert one.closed == other.closed
        for column, same_column in zip(
            (*one.open, *one.due, one.upto), (*other.open, *other.due, other.upto), strict=True
        ):
            assert column.tolist() == same_column.tolist()


def test_pieces_do_not_show(monkeypatch):
    """Answers do not depend on how many rows are scheduled at once."""
    from skyband.workload import sharing

    chance = random.Random(8)
    monkeypatch.setattr(sharing, "_PIECE", 11)
    for timed in (False, True):
        scores = chance_scores(chance, 150)
        times = np.cumsum([chance.choice([0, 0, 1, 5, 90]) for _ in scores]).tolist()
        queries = some_queries(chance, not timed)
        check(queries, scores, times if timed else None, "mtopmerge", [40, 41])


def test_too_many_open_windows_are_refused_before_anything_is_taken_in():
    many = {f"q{i}": TopK(k=1, window=last(time=10**9, slide=1)) for i in range(5)}
    with pytest.raises(QueryError, match="5,000,000,005 windows open at a time"):
        monitor_of(many, "mtopmerge")
    monitor = monitor_of({"ok": TopK(k=1, window=last(time=10))}, "mtopmerge")
    with pytest.raises(QueryError, match="use larger slides, or algorithm='independent'"):
        monitor.add("long", many["q0"])
    monitor.push([1.0, 2.0], times=[1, 2], watermark=10)
    assert list(monitor.queries) == ["ok"]


def test_few_queries_are_alone_and_many_are_shared():
    query = TopK(k=1, window=last(count=100, slide=10))
    long = TopK(k=1, window=last(count=10**4, slide=1))
    for queries, algorithm in [
        ([query] * 4, "independent"),
        ([query] * 5, "mtopmerge"),
        ([long] * 5, "independent"),
        ([long] * 50, "mtopmerge"),
    ]:
        workload = Workload({f"q{i}": query for i, query in enumerate(queries)})
        assert WorkloadMonitor(workload).algorithm == algorithm


@pytest.mark.compiled
def test_waiting_rows_are_pruned_and_late_queries_know_it():
    monitor = monitor_of({"a": TopK(k=2, window=last(time=60, slide=30))}, "mtopmerge")
    rng = np.random.default_rng(4)
    times, scores = rng.integers(0, 600, 200_000), rng.random(200_000)
    monitor.push(scores, times=times)
    assert len(monitor._inlet.waiting) < 100
    assert monitor.add("b", TopK(k=9, window=last(time=50, slide=50))) == (600, 650)
    monitor.push([0.5], times=[620])
    windows = by_query([monitor.finish()])
    wanted = time_windows([*scores.tolist(), 0.5], [*times.tolist(), 620], 60, 30, 2)
    same(answers(windows["a"]), wanted)
    assert [(w.start, w.id.tolist()) for w in windows["b"]] == [(600, [200_000])]


def test_numbers_of_queries_that_are_gone_are_used_again():
    query = TopK(k=1, window=last(count=2))
    monitor = monitor_of({"a": query}, "mtopmerge")
    for number in range(50):
        monitor.push([float(number)])
        monitor.add(f"b{number}", query)
        monitor.remove(f"b{number}")
    assert len(monitor.names) == 2


def test_offsets_far_beyond_a_slide():
    for offset in (2**61 + 5, -(2**61) - 3):
        monitor = monitor_of(
            {"a": TopK(k=1, window=last(time=7, slide=3, offset=offset))}, "mtopmerge"
        )
        monitor.push([1.0, 2.0], times=[0, 9])
        near = offset % 3
        same(
            answers(by_query([monitor.finish()])["a"]),
            time_windows([1.0, 2.0], [0, 9], 7, 3, 1, near),
        )
