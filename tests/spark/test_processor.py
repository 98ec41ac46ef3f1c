"""The stateful processor under everything that Spark may do to it, against the oracle."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import LongType

from skyband.errors import SnapshotError
from skyband.spark.state.candidates import CandidateSpec
from skyband.spark.state.processor import WindowProcessor
from tests.spark.fake_handle import FakeHandle, Store, run_task
from tests.spark.fake_stream import (
    STATE,
    Stream,
    Watched,
    WatchedSpec,
    any_stream,
    check,
    of_window_kind,
    play,
)

BLOCK = 1000


@pytest.mark.parametrize("block", range(20))
def test_any_stream_is_answered_exactly(block):
    """20,000 random streams; a failure names its seed."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            check(any_stream(seed))
        except BaseException as error:
            error.add_note(f"any_stream({seed}) = {any_stream(seed)}")
            raise


@pytest.mark.parametrize("block", range(3))
def test_any_stream_with_the_oldest_of_equal_scores_first(block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        stream = replace(any_stream(seed), ties="oldest")
        try:
            check(stream, partial(WatchedSpec, oldest_first=True))
        except BaseException as error:
            error.add_note(f"{stream}")
            raise


@pytest.mark.parametrize("ties", ["newest", "oldest"])
@pytest.mark.parametrize("rank_by", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("kind", ["time", "cumulative", "all_time"])
@pytest.mark.parametrize("block", range(1))
def test_any_stream_with_ranks_of_each_kind(block, kind, rank_by, ties):
    """Rows of equal score, which share ranks, are many; and so are windows of each kind."""
    spec = partial(WatchedSpec, oldest_first=ties == "oldest", rank_by=rank_by)
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        stream = replace(any_stream(seed), ties=ties, rank_by=rank_by)
        if kind != "time" and stream.counted:
            continue
        stream = stream if kind == "time" else of_window_kind(stream, kind)
        if seed % 2:
            rows = [(key, few(score), at, id) for key, score, at, id in stream.rows]
            stream = replace(stream, rows=rows)
        try:
            check(stream, spec)
        except BaseException as error:
            error.add_note(f"{stream}")
            raise


def few(score):
    """One of few scores."""
    return score if score is None or math.isnan(score) else float(score > 0.5)


@pytest.mark.parametrize("block", range(2))
def test_whole_numbers_are_ranked_exactly(block):
    """The same with scores that doubles would not tell apart; they have no NaN."""

    def whole(score):
        if score is None or math.isnan(score):
            return None
        return int(max(-9.0, min(9.0, score))) + (1 << 62)

    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        stream = any_stream(seed)
        rows = [(key, whole(score), at, id) for key, score, at, id in stream.rows]
        check(replace(stream, rows=rows), partial(WatchedSpec, score=LongType()))


@pytest.mark.parametrize("kind", ["cumulative", "all_time"])
@pytest.mark.parametrize("block", range(3))
def test_any_stream_in_windows_whose_rows_leave_together(block, kind):
    """State holds k rows at most, and the same rules hold for it and its timers."""

    class Few(Watched):
        def check_invariants(self):
            super().check_invariants()
            ends = self.lifetimes.last(self.rows.pane)
            assert all((ends == end).sum() <= self.k for end in ends)

    class FewSpec(WatchedSpec):
        kind = Few

    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        stream = any_stream(seed)
        if stream.counted:
            continue
        try:
            check(of_window_kind(stream, kind), FewSpec)
        except BaseException as error:
            error.add_note(f"{of_window_kind(stream, kind)}")
            raise


@st.composite
def streams(draw):
    """Like any_stream, for Hypothesis to shrink."""
    slide = draw(st.integers(1, 5))
    size = slide + draw(st.integers(0, 25))
    delay = draw(st.integers(0, 3 * slide))
    unit, per_ms = draw(st.sampled_from([(1, 1), (1, 1000), (300, 1000), (1000, 1000)]))
    rows, at = [], draw(st.integers(0, 50))
    for id in range(draw(st.integers(1, 12))):
        at += draw(st.integers(0, 2) | st.integers(0, 60 * slide))
        when = max(0, at - draw(st.integers(0, delay) | st.integers(0, 60)))
        score = draw(st.sampled_from([0.0, 1.0, 2.0, None, math.nan, math.inf, -math.inf]))
        rows.append((draw(st.integers(0, 2)), score, when * unit, id))
    flags = st.lists(st.booleans(), min_size=1, max_size=3)
    return Stream(
        size=size * unit,
        slide=slide * unit,
        k=draw(st.integers(1, 4) | st.just(100)),
        rows=rows,
        offset=0 if per_ms == 1 else draw(st.integers(0, slide * unit)),
        delay=delay * unit,
        per_ms=per_ms,
        changes=draw(st.booleans()),
        full=per_ms == 1 and draw(st.booleans()),
        cuts=draw(st.lists(st.integers(0, len(rows)), max_size=5)),
        idle=draw(flags),
        restart=draw(flags),
        fail=draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)),
        drain=draw(st.booleans()),
    )


@settings(max_examples=250)
@given(streams())
def test_any_stream_is_answered_exactly_and_shrinks(stream):
    check(stream)


@pytest.mark.parametrize("jump", [0, 1, 2, 7, 29, 60])
@pytest.mark.parametrize("emit_changes", [False, True])
def test_catching_up_over_any_jump(jump, emit_changes):
    """The watermark jumps over windows that hold rows, that lose them, and that hold none."""
    rows = [(0, float(i * 7 % 5), (i + jump * (i // 10)) * 1000, i) for i in range(40)]
    for cuts in ([], [10], [10, 20, 30], list(range(40))):
        stream = Stream(
            size=7000, slide=2000, k=2, rows=rows, cuts=cuts, changes=emit_changes, drain=True
        )
        assert check(stream) >= 10


# The engine's rules, as the fake has them: without them the mutations below would pass.


class Scripted:
    """A processor that sets the timers it is given, and notes what it was called with."""

    def __init__(self, at_rows=(), at_timer=()):
        self.at_rows, self.at_timer, self.calls = at_rows, at_timer, []

    def init(self, handle):
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802
        self.calls.append(("rows", key, list(rows)))
        for at in self.at_rows:
            self.handle.registerTimer(at)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802
        self.calls.append(("timer", key, expiredTimerInfo.getExpiryTimeInMs()))
        for at in self.at_timer:
            self.handle.registerTimer(at)
        return iter(())

    def close(self):
        pass


def test_rows_come_before_timers_and_timers_in_order():
    store, scripted = Store(timers=[(7, "b"), (5, "b"), (9, "b")]), Scripted(at_rows=[6])
    list(run_task(scripted, store, [("a", [1, 2])], watermark=8))
    assert scripted.calls == [
        ("rows", "a", [1, 2]),
        ("timer", "b", 5),
        ("timer", "a", 6),
        ("timer", "b", 7),
    ]
    assert store.timers == {(9, "b")}


def test_an_overdue_timer_set_by_a_timer_waits_for_the_next_batch():
    store, scripted = Store(timers=[(5, "a")]), Scripted(at_timer=[6])
    list(run_task(scripted, store, [], watermark=8))
    assert scripted.calls == [("timer", "a", 5)]
    assert store.timers == {(6, "a")}


def test_setting_the_timer_that_fired_is_lost():
    store = Store(timers=[(5, "a")])
    list(run_task(Scripted(at_timer=[5]), store, [], watermark=8))
    assert not store.timers


@pytest.mark.parametrize(
    "value",
    [
        ("1", 0, 0, 0, [], [], [], [], [], []),
        (1, 0, 0, 0, [None], [], [], [], [], []),
        (1, 0, 0, 0, [], [], [], [1], [], []),
        (1, 0, 0, 0, None, [], [], [], [], []),
        (1, 0, 0, 1 << 63, [], [], [], [], [], []),
        (1, 0, 0, 0, []),
    ],
)
def test_values_must_fit_the_declared_layout(value):
    handle = FakeHandle(Store())
    state = handle.getValueState(STATE, any_stream(1).spec(CandidateSpec).layout)
    with pytest.raises(AssertionError):
        state.update(value)


# Mutations: what a suite must catch to be one.


class InsertsFirst(Watched):
    """Inserts and prunes all panes, and answers then."""

    def run(self, panes, closed, ended=False):
        for pane in sorted(panes, key=lambda pane: pane.number):
            self.insert(pane)
        yield from super().run([], closed, ended)


class TakesPanesAsTheyCome(Watched):
    """Does not sort the panes of a batch."""

    def run(self, panes, closed, ended=False):
        for pane in panes:
            yield from super().run([pane], pane.number // 2 - 1)
        yield from super().run([], closed, ended)


def mutated(kind):
    return type("Mutated", (WatchedSpec,), {"kind": kind})


class OneStepPerBatch(WindowProcessor):
    """Answers only the window whose timer fired, and sets a timer for the next."""

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802
        only = TimerValues(-1, expiredTimerInfo.getExpiryTimeInMs())
        yield from super().handleExpiredTimer(key, only, expiredTimerInfo)


class RemembersItself(WindowProcessor):
    """Keeps state in the object as well, where it outlives a failed task."""

    def init(self, handle):
        super().init(handle)
        self._spec = Remembering(self._spec)


class Remembering:
    """A spec that opens a key once."""

    def __init__(self, spec):
        self._spec, self._states = getattr(spec, "_spec", spec), getattr(spec, "_states", {})

    def __getattr__(self, name):
        return getattr(self._spec, name)

    def open(self, key, fields, store=None):
        if key not in self._states:
            self._states[key] = self._spec.open(key, fields, store)
        return self._states[key]


MUTATIONS = {
    "naive prune on insert": {"spec": mutated(InsertsFirst)},
    "unsorted panes": {"spec": mutated(TakesPanesAsTheyCome)},
    "one step per batch": {"processor": OneStepPerBatch},
    "state outside the store": {"processor": RemembersItself},
}


def caught(streams, **mutation):
    """How many of these streams show that something is wrong."""
    count = 0
    for stream in streams:
        try:
            check(stream, **mutation)
        except (AssertionError, ValueError):
            count += 1
    return count


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutations_are_caught(mutation):
    streams = [any_stream(seed) for seed in range(300)]
    assert caught(streams, **MUTATIONS[mutation]) >= 10


@pytest.mark.parametrize("mutation", ["naive prune on insert", "one step per batch"])
def test_mutations_give_wrong_answers_in_catch_up_only(mutation):
    """It is the answers that are wrong, not just a rule of ours; and only if windows pile up."""
    change = MUTATIONS[mutation]
    rows = [(0, float(i * 7 % 30), i * 1000, i) for i in range(30)]
    steady = Stream(10_000, 1000, k=1, rows=rows, cuts=list(range(30)), drain=False)
    check(steady, **change)
    first = [(0, 1.0, 0, 0), (0, 9.0, 1000, 1), (1, 0.0, 5000, 2)]  # two panes at once
    behind = replace(steady, rows=[*first, (1, 0.0, 90_000, 3)], cuts=[3])  # six windows at once
    expected, *_ = play(behind)
    answers, *_ = play(behind, **change, rules=False)
    assert expected != answers


def test_a_processor_can_be_pickled_for_workers():
    stream = any_stream(5)
    copy = pickle.loads(cloudpickle.dumps(WindowProcessor(stream.spec(CandidateSpec), 1)))
    check(stream, processor=lambda spec, width: copy)


def test_state_of_another_version_is_refused():
    stream = any_stream(5)
    processor = WindowProcessor(stream.spec(CandidateSpec), 1)
    store = Store(values={(STATE, (0,)): (99, *[0] * 9)}, timers=[(1, (0,))])
    with pytest.raises(SnapshotError, match="version 99"):
        list(run_task(processor, store, [], watermark=10))
