"""The processor of workloads under what Spark may do to it, and under changing queries."""

from __future__ import annotations

import math
import pickle
import random
from collections import defaultdict
from datetime import timedelta

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import LongType

from skyband import TopK, Workload, all_time, cumulative, last
from skyband.errors import SnapshotError
from skyband.query import RANK_BYS, TIES
from skyband.spark.axis import PaneGrid, SequenceAxis, TimeAxis
from skyband.spark.families.workload import candidates
from skyband.spark.families.workload.boundaries import Boundaries, Era, label_and_pane, step_of
from skyband.spark.families.workload.candidates import BestRows
from skyband.spark.families.workload.last_rankings import WorkerQuery
from skyband.spark.families.workload.restart import EarlierRuns, plain_query
from skyband.spark.families.workload.state import WorkloadPane, WorkloadSpec
from skyband.spark.state.processor import WindowProcessor
from skyband.windows import CountWindow, TimeWindow
from tests import oracle
from tests.spark.fake_handle import FakeHandle, Store, check_layout, run_task

USUAL = [("newest", "row_number")]
OLDEST = [("oldest", "row_number")]
ANY = [(ties, rank_by) for ties in TIES for rank_by in RANK_BYS]
SCORES = [None, math.nan, -math.inf, math.inf, 0.0, 1.0, 1.0, 2.0, 3.0]
BLOCK = 200


class Job:
    """Spark's part, in plain Python: panes of several runs of one job, with their watermark."""

    def __init__(self, counted, unit, delay, changes=False, orders=USUAL):
        self.counted, self.unit, self.delay, self.changes = counted, unit, delay, changes
        self.orders = orders
        self.axis = SequenceAxis("seq", delay) if counted else TimeAxis("ts", delay)
        self.per_ms = self.axis.per_ms
        self.watermark = self.committed = 0
        self.newest = None
        self.groups = defaultdict(list)
        self.admitted = []
        self.store = Store()
        self.answers = []
        self.since, self.eras = {}, None
        self.spread = 0

    def begin(self, queries, by):
        """A run with these queries, from what the run before left."""
        boundaries = Boundaries.of(query.window for query in queries.values())
        workload = Workload(queries, {name: str(score) for name, score in by.items()})
        if self.eras is None:
            self.eras, self.largest = (Era(None, boundaries),), [1, 1]
        else:
            known = {
                "queries": {
                    name: [*plain_query(query, ""), self.since.get(name)]
                    for name, query in self.queries.items()
                },
                "eras": [era.plain() for era in self.eras],
                "largest": self.largest,
            }
            fresh_from = (self.coming + self.spread + 1) * self.per_ms
            earlier = EarlierRuns(known, ("0", "1"), 1, fresh_from, self.coming * self.per_ms)
            earlier.check_scores(workload)
            self.since = earlier.complete_from(workload)
            self.eras = earlier.eras(boundaries)
        self.committed = self.coming  # Spark remembers the watermark, not the newest row
        self.newest = None
        self.queries, self.by = queries, by
        for name, query in queries.items():
            self.largest[by[name]] = max(self.largest[by[name]], query.k)
        self.behind = self.axis.watermark_delay(step_of(self.eras))
        self.spread = max(self.spread, self.behind)
        worker_queries = tuple(
            WorkerQuery(name, query, by[name], self.since.get(name))
            for name, query in queries.items()
        )
        self.spec = WorkloadSpec(
            ("key_0",),
            self.axis,
            PaneGrid(1, 1),
            worker_queries,
            2,
            (LongType(),),
            self.changes,
            self.orders == OLDEST,
        )

    def batch(self, rows, chance):
        """One micro-batch: rows are (key, two scores, place, id)."""
        late = self.watermark
        self.watermark = self.coming
        for key, scores, at, id in rows:
            label, pane = label_and_pane(self.eras, at)
            if label <= late * self.per_ms:
                continue
            self.admitted.append((key, scores, at, id))
            self.groups[key, label, pane].append((scores, at, id))
            self.newest = max(label, self.newest or label)
        self.process_closed(chance)

    @property
    def coming(self):
        """The watermark of the next batch."""
        if self.newest is None:
            return max(self.watermark, self.committed)
        newest = self.newest // self.per_ms - self.behind
        return max(self.watermark, self.committed, newest)

    def drain(self, chance):
        self.watermark_of_rows = self.watermark
        self.watermark = self.axis.end // self.per_ms
        self.process_closed(chance)

    def process_closed(self, chance):
        """Give the processor the panes that are closed, in any order; it may fail at first."""
        groups = defaultdict(list)
        closed = self.watermark * self.per_ms
        for key, label, pane in [g for g in self.groups if g[1] <= closed]:
            groups[key].append(self.pane(key, pane, self.groups.pop((key, label, pane))))
        for panes in groups.values():
            chance.shuffle(panes)
        while chance.random() < 0.2:  # a task that fails leaves nothing
            attempt = run_task(self.processor(), self.store.copy(), groups.items(), self.watermark)
            for _ in zip(range(chance.randint(0, 3)), attempt, strict=False):
                pass
        for _, row in run_task(self.processor(), self.store, groups.items(), self.watermark):
            nested = ("rows", "ranks", "previous")
            fields = [field for field in self.spec.output if field.name not in nested]
            check_layout([row[field.name] for field in fields], fields)
            self.collect(row)

    def processor(self):
        return WindowProcessor(pickle.loads(cloudpickle.dumps(self.spec)), 1)

    def pane(self, key, pane, rows):
        fields = [*key, pane]
        for score, k in enumerate(self.largest):
            ranked = [(s[score], at, id) for s, at, id in rows if oracle.ranks(s[score])]
            best = self.best(ranked, k)
            fields += [[s for s, _, _ in best], [id for _, _, id in best]]
        return [*fields, *([max(at for _, at, _ in rows) + 1] if self.counted else [])]

    def best(self, ranked, k):
        """What is handed over of a pane: enough for every query."""
        if self.orders == OLDEST:
            return sorted(ranked, key=oracle.oldest_first)[:k]
        best = sorted(ranked, reverse=True)
        if self.orders == USUAL:
            return best[:k]
        ranks = oracle.numbered([(score, id) for score, _, id in best], "dense_rank")
        return [row for row, rank in zip(best, ranks, strict=True) if rank <= k]

    def collect(self, row):
        key, _, names, starts, ends, rankings, *ranks, scores, ids = row
        for name, start, end, slots, *reported in zip(
            names, starts, ends, rankings, *ranks, strict=True
        ):
            ranking = tuple((scores[slot], ids[slot]) for slot in slots)
            if reported and not self.changes:
                rank_by = self.queries[name].rank_by
                assert reported == [oracle.numbered(ranking, rank_by)]
            if self.changes:
                assert all(scores[slot] == self.score_of[name, ids[slot]] for slot in slots)
                pairs = zip(*reported, strict=True)
                ranking = dict(zip((id for _, id in ranking), pairs, strict=True))
                assert len(ranking) == len(slots)
            self.answers.append((name, key, start, end, ranking))

    @property
    def score_of(self):
        """The score of each row by each query."""
        return {
            (name, id): scores[by]
            for name, by in self.by.items()
            for _, scores, _, id in self.admitted
        }


def some_query(chance, counted, unit, orders=USUAL, joins=False):
    size = chance.randint(1, 30)
    slide = chance.randint(1, size) * unit
    k = chance.choice([1, 2, 3, 8])
    window = CountWindow(size * unit, slide, chance.random() < 0.3)
    if not counted:
        window = TimeWindow(size * unit, slide, chance.randint(-9, 9) * unit)
    if orders == USUAL:
        return TopK(k, window)
    kind = "sliding" if counted else chance.choice(["sliding", "cumulative", "all_time"])
    if kind == "cumulative":
        offset = timedelta(microseconds=chance.randint(-9, 9) * unit)
        step = timedelta(microseconds=slide)
        window = cumulative(step * chance.randint(1, 6), every=step, offset=offset)
    if kind == "all_time" and not joins:
        window = all_time(every=timedelta(microseconds=slide))
    ties, rank_by = chance.choice(orders)
    return TopK(k, window, ties=ties, rank_by=rank_by)


def play(seed, changes=False, orders=USUAL):
    """A random job of one to four runs, and what the oracle says of it."""
    chance = random.Random(seed)
    counted = chance.random() < 0.3
    unit = 1 if counted else chance.choice([1, 300, 1000])
    keys = 1 if counted else chance.randint(1, 3)
    job = Job(counted, unit, chance.choice([0, 0, 3, 20]) * unit, changes, orders)
    at, id, number, queries, by = chance.randint(0, 50), 0, 0, {}, {}
    histories = {}  # query -> [definition, score, since, watermark when it was removed]
    for _ in range(chance.randint(1, 4)):
        for name in list(queries):
            if chance.random() < 0.3:
                histories[name][3] = job.watermark
                del queries[name], by[name]
        while not queries or chance.random() < 0.6:
            name = f"q{number}"
            number += 1
            queries[name] = some_query(chance, counted, unit, orders, job.eras is not None)
            by[name] = chance.randint(0, 1)
            histories[name] = [queries[name], by[name], None, None]
        job.begin(dict(queries), dict(by))
        for name in queries:
            histories[name][2] = job.since.get(name)
        for _ in range(chance.randint(0, 4)):
            rows = []
            for _ in range(chance.randint(0, 12)):
                at += 1 if counted else chance.choice([0, 0, 1, 2, 5, 90])
                when = at - (0 if counted else chance.randint(0, min(at, job.delay // unit)))
                scores = [chance.choice(SCORES) for _ in range(2)]
                rows.append(((chance.randrange(keys),), scores, when * unit, id))
                id += 1
            chance.shuffle(rows)
            job.batch(rows, chance)
            if chance.random() < 0.5:
                job.batch([], chance)
    drained = chance.random() < 0.7
    if drained:
        job.drain(chance)
        assert not job.store.values
        assert not job.store.timers
    return job, histories, drained


def expected_answers(job, histories, drained):
    answers = []
    end_position = max((at for _, _, at, _ in job.admitted), default=-1) + 1
    for name, (query, score, since, removed) in histories.items():
        window = query.window
        until = removed if removed is not None else job.watermark
        until *= job.per_ms
        if job.counted and drained and removed is None:
            until = end_position
        for key in {row[0] for row in job.admitted}:
            key_rows = [row for row in job.admitted if row[0] == key]
            scores = [scores[score] for _, scores, _, _ in key_rows]
            times = [at for _, _, at, _ in key_rows]
            order = {
                "ids": [id for _, _, _, id in key_rows],
                "until": until,
                "ties": query.ties,
                "rank_by": query.rank_by,
            }
            if window.kind == "all_time":
                if drained and removed is None:  # with the last row, or where the watermark was
                    ranked = [t for s, t in zip(scores, times, strict=True) if oracle.ranks(s)]
                    last = max(ranked, default=0) // window.slide * window.slide + window.slide
                    order["until"] = max(last, job.watermark_of_rows * job.per_ms)
                windows = oracle.all_time_windows(scores, times, window.slide, query.k, **order)
            else:
                of_kind = oracle.time_windows
                if window.kind == "cumulative":
                    of_kind = oracle.cumulative_windows
                offset = window.end_offset - window.size % window.slide
                lengths = (window.size, window.slide, query.k, offset)
                windows = of_kind(scores, times, *lengths, **order)
            first = -math.inf if since is None else since
            if getattr(window, "full", False):
                first = max(first, 0)
            windows = [answer for answer in windows if answer.start >= first]
            if job.changes:
                leaves = None if window.kind == "all_time" else until
                reports = oracle.changes(windows, window.slide, leaves, query.rank_by)
                start = WorkerQuery(name, query, score, None).start
                answers += [(name, key[0], start(end), end, reported) for end, reported in reports]
            else:
                answers += [(name, key[0], each.start, each.end, each.rows) for each in windows]
    return in_order(answers)


def in_order(answers):
    return sorted(answers, key=lambda answer: answer[:4])


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_any_job_is_answered_exactly(block, changes, monkeypatch):
    """800 random jobs whose queries come and go; a failure names its seed."""
    monkeypatch.setattr(candidates, "ANSWERS", (5, 50_000)[block % 2])  # handed over at once
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            job, histories, drained = play(seed, changes)
            assert in_order(job.answers) == expected_answers(job, histories, drained)
        except BaseException as error:
            error.add_note(f"play({seed})")
            raise


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("orders", ["OLDEST", "ANY"])
def test_any_order_and_kind_of_window_is_answered_exactly(orders, changes, monkeypatch):
    """The same where queries cannot share; a failure names its seed."""
    monkeypatch.setattr(candidates, "ANSWERS", 50)
    for seed in range(BLOCK):
        try:
            job, histories, drained = play(seed, changes, OLDEST if orders == "OLDEST" else ANY)
            assert in_order(job.answers) == expected_answers(job, histories, drained)
        except BaseException as error:
            error.add_note(f"play({seed})")
            raise


def test_all_time_ends_with_the_last_row_though_it_cannot_win():
    queries = (
        WorkerQuery("ever", TopK(1, all_time(every="10 milliseconds")), 0, None),
        WorkerQuery("often", TopK(1, TimeWindow(1000, 1000)), 0, None),
    )
    spec = WorkloadSpec(("key_0",), TimeAxis("ts", 0), PaneGrid(1, 1), queries, 1, (LongType(),))
    store, ends = Store(), []

    def run(panes, watermark):
        for _, row in run_task(WindowProcessor(spec, 1), store, panes, watermark):
            ends.extend(zip(row.queries, row.ends, strict=True))

    run([((0,), [(0, 0, [9.0], [1]), (0, 32_000, [1.0], [2])])], 34)
    run([], spec.axis.end // 1000)
    of_ever = [end for name, end in ends if name == "ever"]
    assert of_ever == [10_000, 20_000, 30_000, 40_000]
    assert not store.values
    assert not store.timers


@pytest.mark.parametrize("rank_by", RANK_BYS)
def test_candidates_that_are_loaded_are_those_that_were_kept(rank_by):
    """Loaded from more rows than they were, as the candidates of other queries lie beside them."""
    chance = random.Random(5)
    for _ in range(100):
        lasts = np.array([chance.randrange(6) for _ in range(chance.randint(0, 20))])
        score = np.sort([chance.choice([1.0, 2.0, 3.0, math.inf]) for _ in lasts])[::-1]
        k = chance.randint(1, 4)
        counts = candidates.dominator_counts(score, lasts, k, rank_by)
        for at, count in enumerate(counts.tolist()):
            above = [i for i in range(at) if lasts[i] >= lasts[at]]
            if rank_by != "row_number":
                above = [i for i in above if score[i] > score[at]]
            better = {score[i] for i in above} if rank_by == "dense_rank" else above
            assert min(count, k) == min(len(better), k)


def ahead(queries, panes, newest):
    """The windows that are answered ahead of a stream, by end and query, and those shown."""
    known = tuple(WorkerQuery(name, query, score, None) for name, query, score in queries)
    scores = len(panes[0].best)
    spec = WorkloadSpec(("key_0",), TimeAxis("ts", 0), PaneGrid(1, 1), known, scores, (LongType(),))
    rows = spec.open((0,), None).run(panes, spec.ahead(newest, True))
    windows = [window for row in rows for window in spec.each_window(row)]
    return len(windows), [name for name, row in windows if spec.is_current(row, newest)]


def test_windows_that_are_not_shown_are_not_answered_ahead():
    """A long window beside a short step: only what is shown costs anything."""
    year = {"time": "365 days", "slide": "365 days"}
    queries = [
        ("year", TopK(1, last(**year), "updates"), 0),
        ("so far", TopK(1, cumulative("365 days", every="1 second"), "updates"), 0),
    ]
    pane = WorkloadPane([BestRows(0, [1.0], [[7]])], -(1 << 62))
    answered, shown = ahead(queries, [pane], 0)
    assert answered == len(shown) == 2


@pytest.mark.parametrize("open_windows", ["all", "current"])
def test_all_time_is_shown_up_to_the_last_row_of_its_score(open_windows):
    query = TopK(1, all_time(every="10 seconds"), "updates", open_windows=open_windows)
    second = 1_000_000
    first, newest = BestRows(0, [1.0], [[7]]), BestRows(90 * second, [2.0], [[8]])
    none = BestRows(90 * second, [], [[]])
    panes = [WorkloadPane([first, first], -(1 << 62)), WorkloadPane([newest, none], -(1 << 62))]
    _, shown = ahead([("a", query, 0), ("b", query, 1)], panes, 90 * second)
    every = [f"{end * second} a" for end in range(10, 101, 10)]
    assert shown == [*(every if open_windows == "all" else every[-1:]), f"{10 * second} b"]


def test_a_query_that_left_and_came_back_begins_anew():
    """A key that nothing happened to meanwhile still has what the query reported before it left."""
    window = TimeWindow(1000, 1000)
    rows = [(2.0, 1), (1.0, 2)]
    reported = []
    store = Store()

    def run(panes, watermark, complete_from=None, name="a"):
        query = WorkerQuery(name, TopK(2, window), 0, complete_from)
        spec = WorkloadSpec(
            ("key_0",), TimeAxis("ts", 0), PaneGrid(1, 1), (query,), 1, (LongType(),), True
        )
        for _, row in run_task(WindowProcessor(spec, 1), store, panes, watermark):
            ids = [[row.kept_0[slot] for slot in slots] for slots in row.rows]
            reported.append((row.ends, ids, row.ranks, row.previous))

    columns = [list(column) for column in zip(*rows, strict=True)]
    run([((0,), [(0, 0, *columns)])], 1)
    assert reported.pop() == ([1000], [[1, 2]], [[1, 2]], [[0, 0]])
    run([], 1, 2000, "b")  # the job goes on without it, and this key is not touched
    run([((0,), [(0, 9000, *columns)])], 10, 9000)
    assert reported.pop() == ([10_000], [[1, 2]], [[1, 2]], [[0, 0]])
    assert not reported
    run([], 11, 9000)
    assert reported == [([11_000], [[1, 2]], [[0, 0]], [[1, 2]])]
    assert not store.values
    assert not store.timers


def test_state_of_another_release_is_refused():
    query = WorkerQuery("a", TopK(1, TimeWindow(1000, 1000)), 0, None)
    spec = WorkloadSpec(("key_0",), TimeAxis("ts", 0), PaneGrid(1, 1), (query,), 1, ())
    store = Store({(spec.name, (1,)): (99, 0, 0, 0, (), ())})
    processor = WindowProcessor(spec, 1)
    handle = FakeHandle(store)
    handle.key = (1,)
    processor.init(handle)
    with pytest.raises(SnapshotError, match="state of version 99"):
        list(processor.handleInputRows((1,), iter([]), TimerValues(-1, 5)))
