"""The processors of top-k dominating under everything that Spark may do to them."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import astuple

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType

from skyband import TopKDominating
from skyband.dominating.panes import possible_answers
from skyband.errors import SnapshotError
from skyband.spark.axis import FOREVER, PaneGrid, SequenceAxis
from skyband.spark.families.dominating.by_key import PointsSpec
from skyband.spark.families.dominating.shard_counts import CountSums, ShardCountsSpec, indexed_panes
from skyband.spark.state.cache import EngineCache
from skyband.spark.state.processor import WindowProcessor
from skyband.spark.state.shards import shard_keys, spark_hash
from tests.oracle import Answer, changes, dominating, numbered, ranks, time_dominating
from tests.spark.fake_handle import Store, run_task
from tests.spark.fake_stream import (
    Aggregation,
    any_stream,
    names,
    of_window_kind,
    order_of,
    play_batches,
    report,
)

TYPES = (LongType(), StringType())
WIDTH = 3


def point_of(score, id):
    """A point on a coarse grid; less is better."""
    chance = random.Random(id * 31 + int(max(-9, min(9, score)) * 8))
    return tuple(float(chance.randrange(4)) for _ in range(WIDTH))


class ShardedAggregation(Aggregation):
    """Spark's part for shards: whole panes, their points spread, the rows that matter for all."""

    count = 2
    dense = False

    def closed(self):
        s, by_shard = self.stream, defaultdict(list)
        panes = defaultdict(list)
        for key, label, pane in list(self.groups):
            if label <= self.watermark * s.per_ms:
                panes[label, pane] += self.groups.pop((key, label, pane))
        for (label, pane), group in panes.items():
            rows = sorted((row for row in group if ranks(row[0])), key=lambda row: row[1:])
            points = np.array([point_of(row[0], row[2]) for row in rows]).reshape(-1, WIDTH)
            home = np.array([row[2] % self.count for row in rows])
            mask = possible_answers(points, s.k, self.dense)
            ids = [row[2] for row, stays in zip(rows, mask, strict=True) if stays]
            newest = max(row[1] for row in group)
            more = [(newest + 1) // s.slide] if s.counted else []
            for shard in range(self.count):
                shard_points = [points[home == shard].tobytes(), b""]
                columns = [column.tolist() for column in points[mask].T]
                kept = [ids, names(ids)] if shard == 0 else [None, None]
                by_shard[shard,].append(
                    Row(shard, label, pane, shard_points, *columns, *kept, *more)
                )
        return by_shard


class KeyedAggregation(Aggregation):
    """Spark's part by key: all rows of a pane, in the order of time."""

    def closed(self):
        s, by_key = self.stream, defaultdict(list)
        panes = defaultdict(list)
        for key, label, pane in list(self.groups):
            if label <= self.watermark * s.per_ms:
                panes[key, label, pane & ~1] += self.groups.pop((key, label, pane))
        for (key, label, pane), group in panes.items():
            rows = sorted((row for row in group if ranks(row[0])), key=lambda row: row[1:])
            points = [point_of(row[0], row[2]) for row in rows]
            columns = [[point[at] for point in points] for at in range(WIDTH)]
            ids = [row[2] for row in rows]
            at = [row[1] for row in rows]
            by_key[key,].append(Row(key, label, pane, at, *columns, ids, names(ids)))
        return by_key


def play(s, aggregation, spec, answered):
    """Play a stream to its end; ``answered`` gets the rows of each batch. Returns watermarks."""

    def new():
        indexed_panes.clear()  # another worker
        return WindowProcessor(spec, 1)

    return play_batches(s, aggregation, new, spec.output, answered)


def expected_answers(s, rows, watermark, before, order):
    """What the oracle says of rows (key, score, at, id) up to a watermark."""
    ordered = sorted((row[1:] for row in rows), key=lambda row: row[1:])
    points = [point_of(score, id) if ranks(score) else None for score, _, id in ordered]
    times = [at for _, at, _ in ordered]
    until = max(before, max(times) + 1) if s.counted and s.drain else watermark
    if s.kind == "time":
        windows = time_dominating(points, times, s.size, s.slide, s.k, s.start_offset, **order)
    else:
        scores = [score if point is None else 0.0 for (score, _, _), point in
                  zip(ordered, points, strict=True)]  # fmt: skip
        known = list(zip(points, times, range(len(points)), strict=True))
        windows = [
            Answer(start, end, dominating(alive, s.k, **order))
            for start, end, _ in map(astuple, s.windows(scores, times, times, watermark, before))
            for alive in [[row for row in known if start <= row[1] < end]]
        ]
        until = None if s.kind == "all_time" else watermark
    return [
        Answer(
            window.start, window.end, tuple((score, ordered[at][2]) for score, at in window.rows)
        )
        for window in windows
        if (until is None or window.end <= until)
        and (window.end - s.offset) // s.slide >= s.first_full_window
    ], until


def answer(row, s, rank_by):
    """A window of the oracle, of an output row without its key; its ranks must be right."""
    window, _, scores, *columns = row
    rows = tuple(zip(scores, columns[rank_by != "row_number"], strict=True))
    if rank_by != "row_number":
        assert columns[0] == numbered(rows, rank_by)
    end = s.offset + window * s.slide
    return Answer(s.start(end), end, rows)


def stream_of(seed, kind):
    """Any stream of windows of a kind; those that count rows are of the first one."""
    s = any_stream(seed)
    return s if kind == "time" or s.counted else of_window_kind(s, kind)


KINDS = [*(("time", block) for block in range(4)), ("cumulative", 0), ("all_time", 1)]


@pytest.mark.parametrize(("kind", "block"), KINDS)
def test_shards_answer_any_stream_exactly(kind, block):
    for seed in range(block * 400, block * 400 + 400):
        s = stream_of(seed, kind)
        s.changes = False
        order = order_of(seed)
        rank_by, dense = order["rank_by"], order["rank_by"] == "dense_rank"
        spec = ShardCountsSpec(
            ("shard",),
            s.axis,
            s.grid,
            s.k,
            WIDTH,
            ShardedAggregation.count,
            TYPES,
            s.first_full_window,
            dense,
        )
        aggregation, answers = ShardedAggregation(s), []
        aggregation.dense = dense
        how = (s.k, order["ties"] == "oldest", rank_by)

        def summed(new, answers=answers, how=how):
            rows = sorted((row[1:] for row in new), key=lambda row: row[0])
            answers += CountSums(*how).answers(iter(rows))

        watermark, before = play(s, aggregation, spec, summed)
        expected, _ = (
            expected_answers(s, aggregation.admitted, watermark, before, order)
            if aggregation.admitted
            else ([], 0)
        )
        assert [answer(row, s, rank_by) for row in answers] == expected, f"any_stream({seed})"
        assert all(row[-1] == names(row[-2]) for row in answers)


@pytest.mark.parametrize(
    ("kind", "block"), [("time", 0), ("time", 1), ("cumulative", 0), ("all_time", 1)]
)
def test_keys_answer_any_stream_exactly(kind, block):
    for seed in range(block * 400, block * 400 + 400):
        s = stream_of(seed, kind)
        if s.counted:
            continue
        dimensions = [(f"x_{i}", "min") for i in range(WIDTH)]
        order, emit = order_of(seed), "changes" if s.changes else "all"
        query = TopKDominating(s.k, dimensions, s.window, emit, **order)
        spec = PointsSpec(("key",), s.axis, s.grid, query, "auto", TYPES)
        aggregation, answers = KeyedAggregation(s), defaultdict(list)

        def sorted_out(new, answers=answers):
            for row in new:
                answers[row[0]].append(row)

        watermark, before = play(s, aggregation, spec, sorted_out)
        for key in {row[0] for row in aggregation.admitted}:
            key_rows = [row for row in aggregation.admitted if row[0] == key]
            expected, until = expected_answers(s, key_rows, watermark, before, order)
            rank_by = query.rank_by
            if s.changes:
                reports = [report(row, s) for row in answers[key]]
                wanted = changes(expected, s.slide, until, rank_by)
                assert reports == wanted, f"any_stream({seed})"
            else:
                rankings = [answer(row[1:], s, rank_by) for row in answers[key]]
                assert rankings == expected, f"any_stream({seed})"


def test_state_of_another_release_is_refused():
    axis, grid = SequenceAxis("at", 0), PaneGrid(10, 5)
    spec = ShardCountsSpec(("shard",), axis, grid, 1, 1, 1, (), -FOREVER)
    store = Store()
    pane = Row(0, 5, 2, [np.zeros(3).tobytes()], [0.0])
    assert list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], 4)) == []
    store.values[spec.name, (0,)] = (99, *store.values[spec.name, (0,)][1:])
    with pytest.raises(SnapshotError, match="version 99"):
        list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], 4))


def test_a_worker_forgets_what_it_used_least_recently():
    from skyband.dominating.dominance_counts import index

    indexed = index(np.zeros((8, 2)))
    cache = EngineCache(2 * indexed.bytes, least=1)
    for name in (b"a", b"b", b"c"):
        cache.keep(name, indexed, indexed.bytes)
    assert list(cache) == [b"b", b"c"]


def test_shards_have_keys_that_spark_puts_into_different_tasks():
    for shard_count, partitions in ((1, 1), (2, 2), (8, 8), (5, 2), (3, 200)):
        keys = shard_keys(shard_count, partitions)
        at = [spark_hash(key) % partitions for key in keys]
        assert len(set(keys)) == shard_count
        assert len(set(at)) == min(shard_count, partitions)
