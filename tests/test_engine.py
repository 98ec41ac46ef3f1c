"""Single parts of the engine: rows that wait, pruning, steps, ids, and plain answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import (
    DominatingMonitor,
    Monitor,
    TopK,
    TopKDominating,
    Workload,
    WorkloadMonitor,
    last,
)
from skyband.engine import pruning
from skyband.engine.ids import Ids
from skyband.engine.rows import Rows
from skyband.engine.steps import TimeSteps, count_steps
from skyband.engine.waiting import Waiting, by_arrival, by_id
from skyband.order import rises, sequence
from skyband.topk import plain
from skyband.windows import Panes
from tests.oracle import ranking

WINDOWS = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5)).map(
    lambda parts: Panes(max(parts[:2]), min(parts[:2]), parts[2])
)
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-20, 40), st.integers(0, 6)), min_size=1, max_size=60
)


def rows_of(triples):
    score, time, ids = (np.array(column) for column in zip(*triples, strict=True))
    return Rows(score.astype(float), ids, time)


def triples_of(rows):
    return list(zip(rows.score.tolist(), rows.time.tolist(), rows.id.tolist(), strict=True))


def best(triples, panes, k, oldest_first=False):
    """The k best of each pane, by sorting it."""
    groups = {}
    for row in triples:
        pane = panes.first_window(row[1]), panes.last_window(row[1])
        groups.setdefault(pane, []).append(row)
    ties = "oldest" if oldest_first else "newest"
    return [row for group in groups.values() for row in ranking(group, ties)[0][:k]]


@given(ROWS, WINDOWS, st.integers(1, 4), st.booleans(), st.booleans())
def test_pruning_keeps_the_best_of_each_pane(triples, panes, k, in_sequence, oldest_first):
    if in_sequence:
        triples = sorted(triples, key=lambda row: row[1:])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_LEAST", "_CROWDED", "_TO_SORT"):
            patch.setattr(pruning, name, 0)
        kept = pruning.best_of_panes(rows_of(triples), panes, k, in_sequence, oldest_first)
    assert sorted(triples_of(kept)) == sorted(best(triples, panes, k, oldest_first))
    if in_sequence:
        assert rises(kept.time)


def test_pruning_leaves_small_panes_alone():
    rng = np.random.default_rng(0)
    rows = Rows(rng.random(100_000), np.arange(100_000), np.arange(100_000))
    assert pruning.best_of_panes(rows, Panes(100, 10), 5, True) is rows
    assert pruning.best_of_panes(rows, Panes(10**6, 10**5), 5, True).size == 5


@given(
    st.lists(st.tuples(ROWS, st.integers(-25, 45), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([by_id, by_arrival]),
)
def test_rows_leave_in_sequence_however_they_came(pushes, ties):
    waiting = Waiting(Panes(5, 5), None, ties)
    model, arrived = [], 0
    for triples, before, sort in pushes:
        if sort:
            triples = sorted(triples, key=lambda row: row[1])
        rows = rows_of(triples)
        waiting.add(rows, rises(rows.time))
        for score, time, number in triples:
            model.append((time, number if ties is by_id else arrived, arrived, score))
            arrived += 1
        released = waiting.release(before)
        due = sorted(row for row in model if row[0] < before)
        model = [row for row in model if row[0] >= before]
        pairs = [] if released is None else list(zip(released.time, released.score, strict=True))
        if ties is by_id:  # rows that are equal in time and id may come in any order
            key = [] if released is None else list(zip(released.time, released.id, strict=True))
            assert key == [(row[0], row[1]) for row in due]
            assert sorted(pairs) == sorted((row[0], row[3]) for row in due)
        else:
            assert pairs == [(row[0], row[3]) for row in due]
        waiting.settle()
        rows.score[:], rows.time[:] = -1, 99  # the caller's memory is the caller's again
        assert len(waiting) == len(model)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40))
def test_sequence_is_a_stable_sort_by_time_and_ties(pairs):
    times = np.array([time for time, _ in pairs], np.int64)
    ids = np.array([number for _, number in pairs], np.int64)
    wanted = sorted(range(len(pairs)), key=lambda at: (times[at], ids[at], at))
    assert sequence(times, (ids,)).tolist() == wanted
    many = np.concatenate([times + 10 * block for block in range(200)])[::-1].copy()
    assert sequence(many, ()).tolist() == np.argsort(many, kind="stable").tolist()


@given(
    WINDOWS,
    st.lists(st.lists(st.integers(0, 60), max_size=30), min_size=1, max_size=5),
    st.booleans(),
)
def test_steps_answer_windows_in_which_anything_is_alive(panes, batches, farewell):
    steps = TimeSteps(panes, farewell)
    times, seen, closed = [], [], panes.first_window(-30)
    for batch in batches:
        closed += 4
        batch = sorted(t for t in batch if t < panes.end(closed) and t >= panes.end(closed - 4))
        cut = steps.cut(np.array(batch, np.int64), closed)
        times += batch
        base = len(times) - len(batch)
        assert cut.base.tolist() == [base]
        for at, window in enumerate(cut.window.tolist()):
            start, end = panes.start(window), panes.end(window)
            seen.append(window)
            assert base + cut.stop[at] == sum(time < end for time in times)
            assert cut.first[at] == sum(time < start for time in times)
            rest = panes.size % panes.slide
            if rest:  # from there on, objects live one window longer
                assert base + cut.split[at] == sum(time < end - rest for time in times)
            else:
                assert cut.split[at] == cut.stop[at]
    alive = {
        window
        for time in times
        for window in range(panes.first_window(time), panes.last_window(time) + 1)
    }
    if farewell:
        alive |= {window + 1 for window in alive}
    first = min((panes.first_window(time) for time in times), default=0)
    assert seen == [window for window in range(first, closed + 1) if window in alive]


@pytest.mark.parametrize("full", [False, True])
def test_steps_of_small_batches_are_those_of_large_ones(full):
    for panes in (Panes(12, 4), Panes(13, 5), Panes(7, 7)):
        whole = count_steps(panes, 0, 60, full)
        at = 0
        for rows in (1, 3, 2, 7, 4, 1, 1, 20, 21):
            part = count_steps(panes, at, rows, full)
            for step, window in enumerate(part.window.tolist()):
                if part.emit[step]:
                    assert whole.emit[window - 1]
                    assert whole.stop[window - 1] == at + part.stop[step]
                assert whole.first[window - 1] == part.first[step]
                split = at + part.split[step]
                assert split == min(max(whole.split[window - 1], at), at + part.stop[step])
            at += rows


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_ids_are_known_as_long_as_they_may_be_reported(batches, timed, dense, random):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skyband.engine.ids._MANY", 16)
        ids = Ids(timed)
        known, last_number = {}, 0
        for size in batches:
            rows = Rows(
                np.zeros(size),
                np.array([random.randrange(1000) for _ in range(size)], np.int64),
                np.array([random.randrange(1000) for _ in range(size)], np.int64),
            )
            ids.admit(rows)
            for at in range(size):
                known[last_number + at] = int(rows.id[at]), int(rows.time[at])
            last_number += size
            _check(ids, known, timed)
            if dense:
                first = random.randrange(last_number + 1)
                first = max(first, min(known, default=0))
                ids.settle(first, None)
                known = {number: pair for number, pair in known.items() if number >= first}
            else:
                kept = sorted(number for number in known if random.random() < 0.5)
                ids.settle(0, lambda kept=kept: np.array(kept, np.int64))
                if len(ids) == len(kept):
                    known = {number: known[number] for number in kept}
            rows.id[:] = -1
            _check(ids, known, timed)
            ids = Ids.restored(*ids.saved())
            _check(ids, known, timed)


def _check(ids, known, timed):
    numbers = np.array(sorted(known), np.int64)[::-1].copy()
    known_ids, times = ids.lookup(numbers)
    assert known_ids.tolist() == [known[number][0] for number in numbers.tolist()]
    if timed:
        assert times.tolist() == [known[number][1] for number in numbers.tolist()]
    else:
        assert times is None


def streams(seed, rows):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 30, rows).astype(float)
    scores[rng.random(rows) < 0.05] = np.nan
    return scores, rng.integers(0, 10**6, rows), np.sort(rng.integers(0, rows, rows))


def pushed(monitor, columns, pieces, restore=False):
    scores, ids, times = columns
    tables, low = [], 0
    for size in pieces:
        part = slice(low, low + size)
        named = {}
        if times is not None:
            named = {"times": times[part], "watermark": int(times[part][-1])}
        tables.append(monitor.push(scores[part], ids=ids[part], **named).to_arrow())
        low += size
        if restore:
            monitor = Monitor.restore(monitor.snapshot())
    tables.append(monitor.finish().to_arrow())
    return pa.concat_tables(tables), monitor


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["all", "changes"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 3e5, 1e9]),
)
def test_numpy_answers_small_streams_as_the_kernels_do(seed, emit, timed, restore, budget):
    window = last(time=50, slide=7) if timed else last(count=50, slide=7)
    query = TopK(k=4, window=window, emit=emit)
    scores, ids, times = streams(seed, 200)
    columns = (scores, ids, times if timed else None)
    pieces = (3, 40, 1, 56, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_NANOSECONDS", budget)
        answered, monitor = pushed(Monitor(query), columns, pieces, restore)
    wanted, named = pushed(Monitor(query, monitor.plan.algorithm), columns, pieces)
    assert answered.equals(wanted)
    assert monitor.dropped == named.dropped
    assert monitor.algorithm.name == monitor.plan.algorithm
    assert monitor.counters() == named.counters()  # as if it had been there from the start


def test_numpy_answers_by_weights_and_hands_attributes_over():
    rng = np.random.default_rng(1)
    query = TopK(k=20, window=last(count=200, slide=10), weights=(1.0, -2.0))
    table = rng.random((600, 2))
    chosen = Monitor(query)
    tables = [chosen.push(attributes=table[low : low + 60]).to_arrow() for low in range(0, 600, 60)]
    named = Monitor(query, chosen.algorithm.name)
    assert chosen.algorithm.attributes
    wanted = [named.push(attributes=table[low : low + 60]).to_arrow() for low in range(0, 600, 60)]
    assert pa.concat_tables(tables).equals(pa.concat_tables(wanted))
    again = rng.random((50, 2))
    assert chosen.push(attributes=again).to_arrow().equals(named.push(attributes=again).to_arrow())


@pytest.mark.compiled
def test_large_work_is_not_left_to_numpy():
    monitor = Monitor(TopK(k=10, window=last(count=100_000, slide=10)))
    monitor.push(np.random.default_rng(0).random(100_000))
    assert monitor._algorithm.name == "sap"


def test_many_scores_wait_in_their_order_across_a_snapshot():
    names = [f"s{number}" for number in range(12)]
    query = TopK(k=1, window=last(time=10))
    workload = Workload(dict.fromkeys(names, query), by={name: name for name in names})
    monitor = WorkloadMonitor(workload)
    monitor.push({name: [float(at)] for at, name in enumerate(names)}, times=[3])
    again = WorkloadMonitor.restore(monitor.snapshot())
    assert {name: window.score.tolist() for name, window in again.finish()} == {
        name: [float(at)] for at, name in enumerate(names)
    }


def test_many_small_parts_are_joined_while_they_wait():
    waiting = Waiting(Panes(10, 10), 5)
    for at in range(3_000):
        one = np.array([at])
        waiting.add(Rows(one.astype(float), one, one), True)
        waiting.settle()
    assert len(waiting) == 3_000
    assert len(waiting._parts) < 20
    assert waiting.release(2_000).time.tolist() == list(range(2_000))


def test_what_numpy_remembers_is_bounded():
    monitor = Monitor(TopK(k=1, window=last(count=100, slide=50)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_ROWS", 1_000)
        for _ in range(20):
            monitor.push(np.arange(100.0))
    assert monitor._algorithm.name != "plain"
    assert monitor.state_bytes() < 100_000


def test_no_window_has_the_columns_that_windows_have():
    query = TopKDominating(2, [("x", "min")], last(count=4))
    monitor = DominatingMonitor(query, "ahba")
    tables = [monitor.push(np.arange(8.0).reshape(-1, 1)).to_arrow(), monitor.finish().to_arrow()]
    assert tables[0].schema == tables[1].schema
