"""Shards of incomplete streams under everything that Spark may do to them."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import astuple, replace

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from skyband import TopKIncomplete
from skyband.errors import SnapshotError
from skyband.spark.axis import PaneGrid, SequenceAxis
from skyband.spark.families.incomplete.engine import IncompleteEngine
from skyband.spark.state import batch, shard
from skyband.spark.state.id_encoder import IdEncoder
from skyband.spark.state.processor import WindowProcessor
from skyband.spark.state.shard import ShardSpec, synthetic_times
from skyband.spark.state.shards import Order, best, changed
from tests.oracle import Answer, changes, numbered, ranks
from tests.oracle_incomplete import best_objects, time_incomplete
from tests.spark.fake_handle import Store, run_task
from tests.spark.fake_stream import (
    Aggregation,
    any_stream,
    of_window_kind,
    order_of,
    play_batches,
    report,
)

STREAMS = ("a", "b", "c")
BOUNDS = (-1.0, 3.0)
KEYS = (None, math.nan, 1.5)


def row_of(score, id, s):
    """The object, stream and value of a row: few objects, many ties."""
    value = score if not ranks(score) else min(max(score, 0.0 if s.seed % 3 else -1.0), 3.0)
    return id % 5, id // 5 % len(STREAMS), value


class ShardedAggregation(Aggregation):
    """Spark's part: the rows of closed panes by key and shard, sorted; hashes that collide."""

    def __init__(self, stream, shards, whole):
        super().__init__(stream)
        self.shards, self.whole = shards, whole

    def name(self, number):
        return number if self.whole else f"object {number}"

    def closed(self):
        s, by_shard = self.stream, defaultdict(list)
        for key, label, pane in list(self.groups):
            if label > self.watermark * s.per_ms:
                continue
            parts = defaultdict(list)
            for score, at, id in self.groups.pop((key, label, pane)):
                number, stream, value = row_of(score, id, s)
                rows = parts[number % self.shards]
                if ranks(value):
                    rows.append((at, self.name(number), stream, value, number % 2))
            for part, rows in parts.items():
                columns = [list(column) for column in zip(*sorted(rows), strict=True)]
                at, name, stream, value, hashed = columns or [[], [], [], [], []]
                more = [] if self.whole else [hashed]
                row = Row(key, part, label, pane, at, *more, name, stream, value)
                by_shard[key, part].append(row)
        return by_shard


def random_query(s):
    """The query of a stream, its shards, and whether ids are whole numbers."""
    chance = random.Random(s.seed)
    shards = 1 if s.kind == "all_time" else chance.choice((1, 2, 3))
    least = 0.0 if s.seed % 3 else BOUNDS[0]
    order = order_of(s.seed)
    special = order != {"ties": "newest", "rank_by": "row_number"}
    query = TopKIncomplete(
        s.k,
        STREAMS,
        synthetic_times(s.size, s.slide, type(s.window)),
        chance.choice(("sum", "min", "max", (0.5, 0.1, 2.0))),
        (least, BOUNDS[1]),
        repeats=chance.choice(("max", ("sum", 20))) if least == 0.0 else "max",
        emit="changes" if s.changes and shards == 1 else "all",
        **order,
    )
    whole = chance.random() < 0.4
    algorithms = ("auto", "recompute", "sla", "likely" if s.kind == "time" else "eaa")
    return query, shards, whole, chance.choice(algorithms[:2] if special else algorithms)


def spec_of(s, query, algorithm, whole, shards):
    """What a processor needs to know of a query."""
    options = {"error": 0} if algorithm == "likely" else None  # which makes it exact
    return ShardSpec(
        ("key_0", "shard"),
        s.axis,
        s.grid,
        IncompleteEngine(query, algorithm, options),
        (LongType(),) if whole else (StringType(),),
        ("stream", "value"),
        shards > 1,
        s.first_full_window,
        s.changes and shards > 1,
    )


def answer_of(spec, parts):
    """What is told of a window, of the answers of shards; None if nothing has changed."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    if not spec.merged:
        return parts[0]
    query = spec.engine.query
    order = Order(query.ties == "oldest", query.rank_by)
    return (changed if spec.paired else best)(query.k, columns, order=order)


def ranking_of(row, rank_by):
    """The (score, id) of an answer of shards, whose ranks must be right."""
    _, scores, *columns = row
    shared = rank_by != "row_number"
    rows = tuple(zip(scores, columns[shared], strict=True))
    assert not shared or columns[0] == numbered(rows, rank_by)
    return rows


def expected_answers(s, query, aggregation, key, watermark, before=0):
    key_rows = [row[1:] for row in aggregation.admitted if row[0] == key]
    rows, times = [], []
    for score, at, id in key_rows:
        number, stream, value = row_of(score, id, s)
        rows.append((aggregation.name(number), stream, value))
        times.append(at)
    repeats = "sum" if query.most > 1 else "max"
    low = query.low.tolist()
    order = {"ties": query.ties, "rank_by": query.rank_by}
    if s.kind != "time":
        known = [(*row, at) for row, at in zip(rows, times, strict=True) if ranks(row[2])]
        known.sort(key=lambda row: (row[3], *row[:3]))
        windows = s.windows([row[2] for row in rows], times, times, watermark, before)
        return [
            Answer(start, end, best_objects([row for row in known if start <= row[3] < end],
                                            query.k, query.combine, low, repeats, **order))
            for start, end, _ in map(astuple, windows)
        ]  # fmt: skip
    shape = (s.size, s.slide, query.k, query.combine, low, repeats, s.start_offset)
    answers = time_incomplete(rows, times, *shape, **order)
    return [
        answer
        for answer in answers
        if answer.end <= watermark and (answer.end - s.offset) // s.slide >= s.first_full_window
    ]


KINDS = [*(("time", block) for block in range(4)), ("cumulative", 0), ("all_time", 1)]


@pytest.mark.parametrize(("kind", "block"), KINDS)
def test_shards_answer_any_stream_exactly(kind, block, monkeypatch):
    for seed in range(block * 200, block * 200 + 200):
        s = any_stream(seed)
        s = s if kind == "time" or s.counted else of_window_kind(s, kind)
        s.drain = s.drain and not s.counted  # a shard does not know which rows others have
        s.full = s.full and not s.changes  # changes are reported from the first window on
        query, shards, whole, algorithm = random_query(s)
        monkeypatch.setattr(shard, "_PUSHED_ROWS", random.Random(seed).choice((1, 10, 1000)))
        monkeypatch.setattr(shard, "_FAR", random.Random(seed).choice((0, 9, 1 << 30)))
        spec = spec_of(s, query, algorithm, whole, shards)
        aggregation, answers_by_key = ShardedAggregation(s, shards, whole), defaultdict(dict)

        def merged(new, answers_by_key=answers_by_key, spec=spec):
            windows = defaultdict(list)
            for row in new:
                windows[row[0], row[2]].append(row[3:])
            for (key, window), parts in windows.items():
                assert window not in answers_by_key[key], "each window is answered in one batch"
                answers_by_key[key][window] = answer_of(spec, parts)

        def new(spec=spec):
            return WindowProcessor(spec, 2)

        watermark, before = play_batches(s, aggregation, new, spec.output, merged)
        for key in {row[0] for row in aggregation.admitted}:
            expected = expected_answers(s, query, aggregation, key, watermark, before)
            ordered = sorted(item for item in answers_by_key[key].items() if item[1] is not None)
            if s.changes:
                reports = [
                    report(
                        {
                            "kept_0": row[4],
                            "ranks": row[2],
                            "previous": row[3],
                            "window": window,
                        },
                        s,
                    )
                    for window, row in ordered
                ]
                until = None if s.kind == "all_time" else watermark
                wanted = changes(expected, s.slide, until, query.rank_by)
                assert reports == wanted, f"any_stream({seed})"
                continue
            answers = [
                (s.offset + window * s.slide, ranking_of(row, query.rank_by))
                for window, row in ordered
            ]
            assert answers == [(answer.end, answer.rows) for answer in expected], (
                f"any_stream({seed})"
            )


def test_approximate_answers_are_never_too_high():
    for seed in range(60):
        s = any_stream(seed)
        s.drain, s.changes, s.full = s.drain and not s.counted, False, False
        query, shards, whole, _ = random_query(s)
        query = replace(query, ties="newest", rank_by="row_number")
        spec = spec_of(s, query, "approximate", whole, shards)
        aggregation, rows = ShardedAggregation(s, shards, whole), []

        def new(spec=spec):
            return WindowProcessor(spec, 2)

        watermark, _ = play_batches(s, aggregation, new, spec.output, rows.extend)
        scores = {}
        for key in {row[0] for row in aggregation.admitted}:
            all_ranks = replace(query, k=1 << 20)
            for answer in expected_answers(s, all_ranks, aggregation, key, watermark):
                scores |= {(key, answer.end, id): score for score, id in answer.rows}
        for key, _, window, _, row_scores, ids, *_ in rows:
            end = s.offset + window * s.slide
            for score, id in zip(row_scores, ids, strict=True):
                assert score <= scores[key, end, id], f"any_stream({seed})"


def test_ids_whose_hashes_are_equal_get_different_numbers():
    encoder = IdEncoder(False, 2)
    ids = [["a", "b", "a", "c"], [1, 1, 1, 2]]
    first = encoder.encode(ids, [7, 7, 7, 8]).tolist()
    assert first[0] == first[2]
    assert len(set(first)) == 3
    encoder.retain(encoder.encode([["b"], [1]], [7]))
    again = IdEncoder(False, 2)
    again.restore(encoder.save())
    assert len(again) == 1
    assert again.encode([["b", "a"], [1, 1]], [7, 7]).tolist() == [first[1], 7]
    assert again.decode(again.encode([["a"], [1]], [7])) == [["a"], [1]]


def test_state_of_another_release_is_refused():
    query = TopKIncomplete(1, STREAMS, synthetic_times(10, 5))
    engine = IncompleteEngine(query, "recompute")
    types, axis, grid = (LongType(),), SequenceAxis("seq", 0), PaneGrid(10, 5)
    spec = ShardSpec(("shard",), axis, grid, engine, types, ("stream", "value"), False)
    store = Store()
    pane = Row(0, 5, 2, [3], [7], [0], [0.5])
    assert list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], 4)) == []
    store.values[spec.name, (0,)] = (99, *store.values[spec.name, (0,)][1:])
    with pytest.raises(SnapshotError, match="version 99"):
        list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], 4))


def test_batches_are_answered_pane_after_pane(monkeypatch):
    for seed in range(200):
        chance, s = random.Random(seed), any_stream(seed)
        query, shards, whole, algorithm = random_query(s)
        s.full = s.full and not s.changes
        spec = spec_of(s, query, algorithm, whole, shards)
        monkeypatch.setattr(shard, "_PUSHED_ROWS", chance.choice((0, 3, 1000)))
        monkeypatch.setattr(shard, "_FAR", chance.choice((0, 9, 1 << 30)))
        aggregation = ShardedAggregation(s, shards, whole)
        aggregation.admitted, rows = s.rows, []
        last_complete_window = (max(at for _, _, at, _ in s.rows) + 1) // s.slide
        for key, score, at, id in s.rows:
            number, stream, value = row_of(score, id, s)
            if ranks(value):
                fields = [
                    at,
                    *([] if whole else [number % 2]),
                    aggregation.name(number),
                    stream,
                    value,
                ]
                more = [last_complete_window] if s.counted else []
                rows.append([KEYS[key], number % shards, s.pane(at), *fields, *more])
        first = 4 if whole else 5
        rows.sort(key=lambda row: (repr(row[0]), *row[1:4], *row[first:]))
        if not rows:
            continue
        names = [f"c{i}" for i in range(len(rows[0]))]
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        keys = [StructField("key_0", DoubleType()), StructField("key_1", LongType())]
        schema = StructType([*keys, *spec.output])
        batches = table.to_batches(chance.choice((1, 3, 100)))
        answers_by_key = defaultdict(lambda: defaultdict(list))
        for answers in batch._answered(spec, schema, iter(batches)):
            for key, _, window, *row in zip(*(c.to_pylist() for c in answers.columns), strict=True):
                answers_by_key[repr(key)][window].append(row)
        until = last_complete_window * s.slide if s.counted else 1 << 62
        for key in range(3):
            expected = expected_answers(s, query, aggregation, key, until)
            ordered = []
            for window, parts in sorted(answers_by_key[repr(KEYS[key])].items()):
                row = answer_of(spec, parts)
                if row is not None:
                    ordered.append((s.offset + window * s.slide, row))
            if s.changes:
                reports = [
                    (end, dict(zip(row[4], zip(row[2], row[3], strict=True), strict=True)))
                    for end, row in ordered
                ]
                wanted = changes(expected, s.slide, until, query.rank_by)
                assert reports == wanted, f"any_stream({seed})"
            else:
                answers = [(end, ranking_of(row, query.rank_by)) for end, row in ordered]
                assert answers == [(answer.end, answer.rows) for answer in expected], (
                    f"any_stream({seed})"
                )
