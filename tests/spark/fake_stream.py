"""Plays a stream through a stateful processor as Spark would, and holds it to the oracle.

The native half is played in plain Python: the watermark follows the labels of all rows read so
far, with one batch of delay; panes at or before the watermark of the batch before are late and
dropped; the k best rows of a pane are handed on once its label is at or before the watermark.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType

from skyband.spark.axis import PaneGrid, SequenceAxis, TimeAxis
from skyband.spark.state.candidates import Candidates, CandidateSpec
from skyband.spark.state.processor import WindowProcessor
from skyband.windows import KINDS
from tests.oracle import (
    FOREVER,
    Answer,
    all_time_windows,
    changes,
    cumulative_windows,
    numbered,
    ranking,
    ranks,
    time_windows,
)
from tests.spark.fake_handle import Store, check_layout, run_task

STATE = CandidateSpec.name
TYPES = (LongType(), StringType())
DOMINATOR_COUNTS = 4  # where the state holds the dominator count of each candidate


@dataclass
class Stream:
    """A query, rows (key, score, at, id) as they arrive, and what happens to each batch.

    Windows end at ``offset`` plus multiples of the slide, and are of a ``kind``. ``cuts`` are where
    batches begin. ``idle``, ``restart`` and ``fail`` hold a choice per batch, in turn: wait until
    nothing is left to do, begin with a new processor, try in vain first.
    """

    size: int
    slide: int
    k: int
    rows: list[tuple[int, float | None, int, int]]
    offset: int = 0
    delay: int = 0
    per_ms: int = 1000
    changes: bool = False
    full: bool = False
    cuts: list[int] = field(default_factory=list)
    idle: list[bool] = field(default_factory=lambda: [True])
    restart: list[bool] = field(default_factory=lambda: [True])
    fail: list[int] = field(default_factory=lambda: [0])
    drain: bool = True
    seed: int = 0
    kind: str = "time"
    ties: str = "newest"
    rank_by: str = "row_number"

    @property
    def counted(self):
        return self.per_ms == 1

    @property
    def start_offset(self):
        """Where windows start, from a multiple of the slide."""
        return self.offset - self.size % self.slide

    def label(self, at):
        return at - (at - self.offset) % self.slide + self.slide

    def pane(self, at):
        inside = (at - self.offset) % self.slide
        rest = self.size % self.slide
        in_longer_pane = int(rest > 0 and inside >= self.slide - rest)
        return (self.label(at) - self.offset) // self.slide * 2 + in_longer_pane

    @property
    def first_full_window(self):
        return -(-self.size // self.slide) if self.full else -(1 << 62)

    @property
    def axis(self):
        return (SequenceAxis if self.counted else TimeAxis)("at", self.delay)

    @property
    def window(self):
        return KINDS[self.kind](self.size, self.slide, self.start_offset, "tick")

    @property
    def grid(self):
        return PaneGrid.of(self.window)

    def start(self, end):
        """Where the window starts that ends here."""
        if self.kind == "all_time":
            return -FOREVER
        if self.kind == "cumulative":
            return end - 1 - (end - 1 - self.offset) % self.size
        return end - self.size

    def windows(self, scores, times, ids, until, before):
        """What the oracle says of one key, up to a watermark; ``before`` the stream was drained."""
        order = {"ties": self.ties, "rank_by": self.rank_by}
        if self.kind == "cumulative":
            shape = (self.size, self.slide, self.k, self.offset)
            return cumulative_windows(scores, times, *shape, ids, until, **order)
        if self.kind == "all_time":
            ranked = [at for score, at in zip(scores, times, strict=True) if ranks(score)]
            if self.drain and ranked:
                until = max(before, self.label(max(ranked)))
            return all_time_windows(scores, times, self.slide, self.k, ids, until, **order)
        # a drained stream answers all windows of time, but of rows only those that are complete
        if self.counted and self.drain:
            until = max(before, max(times) + 1)
        shape = (self.size, self.slide, self.k, self.start_offset)
        return time_windows(scores, times, *shape, ids, until, **order)

    def spec(self, kind):
        return kind(
            ("key",), self.axis, self.grid, self.k, TYPES, self.changes, self.first_full_window
        )


class Aggregation:
    """Spark's part: late panes dropped, the k best of each pane, handed on when it closes."""

    def __init__(self, stream):
        self.stream = stream
        self.groups = defaultdict(list)
        self.newest = None
        self.late_watermark = self.watermark = 0
        self.admitted = []
        self.seen = -math.inf

    def advance(self):
        """Begin a batch: its watermark comes from the batches before."""
        self.late_watermark = self.watermark
        if self.newest is not None:
            s = self.stream
            behind = -(-(s.slide + s.delay) // s.per_ms)
            self.watermark = max(self.watermark, self.newest // s.per_ms - behind)

    @property
    def stale(self):
        """Whether a batch without data would have a newer watermark."""
        before = self.late_watermark, self.watermark
        self.advance()
        newer = self.watermark > before[1]
        self.late_watermark, self.watermark = before
        return newer

    def take(self, rows):
        s = self.stream
        for key, score, at, id in rows:
            label = s.label(at)
            if label <= self.late_watermark * s.per_ms:
                assert at < self.seen - s.delay, "a row within the delay is always counted"
                continue
            self.admitted.append((key, score, at, id))
            self.groups[key, label, s.pane(at)].append((score, at, id))
        for _, _, at, _ in rows:
            self.seen = max(self.seen, at)
            label = s.label(at)
            self.newest = label if self.newest is None else max(self.newest, label)

    def closed(self):
        """Panes that the watermark has passed, by key, in any order."""
        s, panes = self.stream, defaultdict(list)
        for key, label, pane in [
            group for group in self.groups if group[1] <= self.watermark * s.per_ms
        ]:
            group = self.groups.pop((key, label, pane))
            newest = max(at for _, at, _ in group)
            rows = ranking(group, s.ties)[0]
            scores = sorted({row[0] for row in rows}, reverse=True)[: s.k]
            rows = rows[: s.k] if s.rank_by == "row_number" else [r for r in rows if r[0] in scores]
            ids = [row[2] for row in rows]
            row = [key, label, pane, [row[0] for row in rows], ids, names(ids)]
            panes[key,].append(Row(*row, *([(newest + 1) // s.slide] if s.counted else [])))
        return panes


def names(ids):
    """A second kept column, with gaps."""
    return [None if id % 3 == 0 else f"row {id}" for id in ids]


class Watched(Candidates):
    """Candidates that check their invariants at each step."""

    def insert(self, pane):
        super().insert(pane)
        self.check_invariants()

    def answer_before(self, step):
        for answer in super().answer_before(step):
            self.check_invariants()
            yield answer
        self.check_invariants()


class WatchedSpec(CandidateSpec):
    """A query whose candidates are watched."""

    kind = Watched

    def open(self, key, fields, store=None):
        state = super().open(key, fields, store)
        state.candidates.__class__ = self.kind
        return state


def play(stream, spec=WatchedSpec, processor=WindowProcessor, rules=True):
    """Play a stream to its end: the answers of each key, the rows that counted, the watermarks.

    The watermarks are the last one, and the last before the end was drained. ``rules`` says whether
    state and timers are checked after each batch.
    """
    s, choice = stream, random.Random(stream.seed)
    aggregation, store, answers = Aggregation(s), Store(), defaultdict(list)
    query = s.spec(spec)
    layout = query.output
    instance = processor(query, 1)

    def batch(number, rows):
        nonlocal store, instance
        aggregation.advance()
        aggregation.take(rows)
        groups = list(aggregation.closed().items())
        choice.shuffle(groups)
        for _, panes in groups:
            choice.shuffle(panes)
        if s.restart[number % len(s.restart)]:
            instance = processor(query, 1)
        vain = s.fail[number % len(s.fail)]
        if vain:  # a task that dies after some rows: its state is thrown away
            lost = run_task(instance, store.copy(), groups, aggregation.watermark)
            for _ in zip(range(vain), lost, strict=False):
                pass
            lost.close()
        after, new = store.copy(), defaultdict(list)
        for key, row in run_task(instance, after, groups, aggregation.watermark):
            assert row[0] == key[0]
            check_layout(row[1:], layout)
            new[key].append(row)
        store = after
        if rules:
            check_counts(new, store)
            check_timers(store, aggregation.watermark)
        for (key,), key_rows in new.items():
            answers[key] += key_rows

    edges = [0, *sorted(cut % (len(s.rows) + 1) for cut in s.cuts), len(s.rows)]
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        batch(number, s.rows[low:high])
        while s.idle[number % len(s.idle)] and aggregation.stale:
            batch(number, [])
    before = aggregation.watermark
    if s.drain:
        aggregation.newest = s.label(s.axis.end)
    while aggregation.stale:
        batch(0, [])
    if s.drain:
        assert not (rules and store.values), "nothing is left at the end"
    else:
        before = aggregation.watermark
    return answers, aggregation.admitted, aggregation.watermark * s.per_ms, before * s.per_ms


def play_batches(s, aggregation, processor, layout, answered):
    """Play a stream to its end; ``answered`` gets the rows of each batch. Returns watermarks.

    ``processor`` makes a new one, ``layout`` is that of its rows behind the key.
    """
    choice, store, instance = random.Random(s.seed), Store(), processor()

    def batch(number, rows):
        nonlocal store, instance
        aggregation.advance()
        aggregation.take(rows)
        groups = list(aggregation.closed().items())
        choice.shuffle(groups)
        for _, panes in groups:
            choice.shuffle(panes)
        if s.restart[number % len(s.restart)]:
            instance = processor()
        vain = s.fail[number % len(s.fail)]
        lost = run_task(instance, store.copy(), groups, aggregation.watermark)
        for _ in zip(range(vain), lost, strict=False):
            pass
        lost.close()
        after = store.copy()
        new = list(run_task(instance, after, groups, aggregation.watermark))
        for key, row in new:
            check_layout(row[len(key) :], layout)
        store = after
        assert all(at > aggregation.watermark for at, _ in store.timers)
        assert {key for _, key in store.timers} == {key for _, key in store.values}
        answered([row for _, row in new])

    edges = [0, *sorted(cut % (len(s.rows) + 1) for cut in s.cuts), len(s.rows)]
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        batch(number, s.rows[low:high])
        while s.idle[number % len(s.idle)] and aggregation.stale:
            batch(number, [])
    before = aggregation.watermark
    if s.drain:
        aggregation.newest = s.label(s.axis.end)
    while aggregation.stale:
        batch(0, [])
    assert not (s.drain and store.values), "nothing is left at the end"
    before = before if s.drain else aggregation.watermark
    return aggregation.watermark * s.per_ms, before * s.per_ms


def check_timers(store, watermark):
    """A key with state has one timer, beyond the watermark; one without has none."""
    live = sorted(key for _, key in store.values)
    assert sorted(key for _, key in store.timers) == live, "one timer per live key"
    assert all(at > watermark for at, _ in store.timers), "timers lie beyond the watermark"


def check_counts(new, store):
    """The last answer of a key in a batch says how many candidates are left, the others none."""
    for key, rows in new.items():
        value = store.values.get((STATE, key))
        left = 0 if value is None else len(value[DOMINATOR_COUNTS])
        assert [row["candidates"] for row in rows] == [None] * (len(rows) - 1) + [left]


def check(stream, spec=WatchedSpec, processor=WindowProcessor):
    """Each key is answered as by the oracle, each window once; returns the number of windows."""
    s = stream
    answers, admitted, watermark, before = play(s, spec, processor)
    count = 0
    for key in {row[0] for row in admitted}:
        key_rows = [row[1:] for row in admitted if row[0] == key]
        scores, times, ids = zip(*key_rows, strict=True)
        expected = s.windows(scores, times, ids, watermark, before)
        expected = [a for a in expected if (a.end - s.offset) // s.slide >= s.first_full_window]
        if s.changes:
            leave = max(before, max(times) + 1) if s.counted and s.drain else watermark
            until = None if s.kind == "all_time" else leave
            reports = changes(expected, s.slide, until, s.rank_by)
            assert [report(row, s) for row in answers[key]] == reports
            scores_of = {id: score for score, _, id in key_rows}
            for row in answers[key]:
                assert row["scores"] == [scores_of[id] for id in row["kept_0"]]
        else:
            assert [answer(row, s) for row in answers[key]] == expected
            if s.rank_by != "row_number":
                ranks = [numbered(window.rows, s.rank_by) for window in expected]
                assert [row["ranks"] for row in answers[key]] == ranks
        assert all(row["kept_1"] == names(row["kept_0"]) for row in answers[key])
        count += len(answers.pop(key))
    assert not any(answers.values()), "only keys that have rows are answered"
    return count


def answer(row, stream):
    """A whole ranking, as the oracle has it."""
    end = stream.offset + row["window"] * stream.slide
    rows = tuple(zip(row["scores"], row["kept_0"], strict=True))
    return Answer(stream.start(end), end, rows)


def report(row, stream):
    """Changes, as the oracle has them."""
    ids = row["kept_0"]
    assert len(set(ids)) == len(ids)
    entries = zip(ids, row["ranks"], row["previous"], strict=True)
    end = stream.offset + row["window"] * stream.slide
    return end, {id: (rank, previous) for id, rank, previous in entries}


SCORES = (-math.inf, -1.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0, math.inf)


def any_stream(seed):
    """A random query on random rows, mostly small, with every oddity that Spark allows."""
    r = random.Random(seed)
    counted = r.random() < 0.2
    unit = 1 if counted else r.choice((1, 7, 500, 1000, 1500, 60_000))
    slide = r.randint(1, 6) * unit
    ratio = r.choice((1, 1, 2, 3, 5, 12))
    size = slide * ratio + (r.randrange(slide) if r.random() < 0.5 else 0)
    delay = r.choice((0, 0, slide, 3 * slide, r.randint(0, 5 * slide)))
    rows, at = [], r.randrange(1, 100) * unit
    for id in range(r.randint(1, 14)):
        if r.random() < 0.1:
            at += r.randint(0, 60) * slide
        elif r.random() < 0.7:
            at += r.randint(0, slide)
        when = at
        if r.random() < 0.3:
            when = at - r.randint(0, delay)
        elif r.random() < 0.05:
            when = at - r.randint(0, 3 * (size + delay))  # late: counted or not
        score = r.choice(SCORES) if r.random() < 0.7 else r.random()
        if r.random() < 0.08:
            score = r.choice((None, math.nan))
        rows.append((r.choice((0, 0, 0, 1, 2)), score, max(when, 0), id))
    if r.random() < 0.5:  # ids say nothing about arrival
        ids = r.sample(range(1000), len(rows))
        rows = [(key, score, at, id) for (key, score, at, _), id in zip(rows, ids, strict=True)]
    return Stream(
        size=size,
        slide=slide,
        k=r.choice((1, 1, 2, 3, 5, 100)),
        rows=rows,
        offset=0 if counted or r.random() < 0.5 else r.randrange(slide),
        delay=delay,
        per_ms=1 if counted else 1000,
        changes=r.random() < 0.4,
        full=counted and r.random() < 0.5,
        cuts=[r.randint(0, len(rows)) for _ in range(r.choice((0, 1, 2, 4, 8)))],
        idle=[r.random() < 0.5 for _ in range(3)],
        restart=[r.random() < 0.5 for _ in range(3)],
        fail=[r.choice((0, 0, 0, 1, 3)) for _ in range(3)],
        drain=r.random() < 0.7,
        seed=seed,
    )


def order_of(seed):
    """How equal scores rank: half of the streams as usual."""
    chance = random.Random(f"order {seed}")
    if chance.random() < 0.5:
        return {"ties": "newest", "rank_by": "row_number"}
    ties, ranks = ("newest", "oldest"), ("row_number", "rank", "dense_rank")
    return {"ties": chance.choice(ties), "rank_by": chance.choice(ranks)}


def of_window_kind(stream, kind):
    """The same rows in windows of another kind."""
    slide = stream.slide
    if kind == "all_time":
        return replace(stream, size=slide << 20, offset=0, kind=kind)
    size = slide * (stream.size // slide)
    return replace(stream, size=size, offset=stream.offset * 3 % size, kind=kind)
