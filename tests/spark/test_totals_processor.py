"""The processor of totals under everything that Spark may do to it."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType

from skyband.errors import DataError, SnapshotError
from skyband.spark.axis import PaneGrid
from skyband.spark.columns import POSITION, SCORE
from skyband.spark.families.totals import state
from skyband.spark.families.totals.blocks import PaneAdder, also_column
from skyband.spark.families.totals.state import TotalsSpec
from skyband.spark.families.totals.sums import (
    EXACT,
    PartialSums,
    cut_doubles,
    double_parts,
    whole_values,
)
from skyband.spark.state.cache import EngineCache
from skyband.spark.state.processor import WindowProcessor
from skyband.spark.state.row_blocks import arrow_bytes
from skyband.spark.state.shards import Order, best, changed
from skyband.totals.query import BYS, TopKTotals
from tests.oracle import changes, numbered, ranks
from tests.oracle_totals import shown, total, totals_in
from tests.spark.fake_handle import Store, run_task
from tests.spark.fake_stream import (
    Aggregation,
    any_stream,
    of_window_kind,
    play_batches,
    report,
)
from tests.test_totals_also import carried
from tests.test_totals_order import NEW_ORDERS

SHARDS = 2
ACCUMULATOR = {
    "sum": "doubles",
    "mean": "doubles",
    "max": "extremes",
    "min": "extremes",
    "count": "rows",
    "first": "ends",
    "last": "ends",
}
TEXTS = [None, "a", "b", "é", "z", "Z", "", "aa"]


def key_of(id, whole):
    """A few keys: whole numbers, or pairs of a number and a text."""
    return (id % 7 - 3,) if whole else (id % 3 or None, TEXTS[id % 8])


def place_of(key):
    """The order of keys as Spark has it: NULL lowest."""
    return tuple((part is not None, part) for part in key)


def spec_of(s, by, whole, shards, also=()):
    types = (LongType(),) if whole else (IntegerType(), StringType())
    emit = "changes" if s.changes and shards == 1 else "all"
    return TotalsSpec(
        ("shard",),
        s.axis,
        s.grid,
        TopKTotals(
            s.k,
            by,
            s.window,
            emit,
            also={kind: kind for kind in also},
            ties=s.ties,
            rank_by=s.rank_by,
        ),
        PartialSums(ACCUMULATOR[by], by, types),
        DoubleType(),
        shards > 1,
        "test",
        s.changes and shards > 1,
        tuple(PartialSums(ACCUMULATOR[kind], kind, types) for kind in also),
        (DoubleType(),) * len(also),
    )


def other_value(value, id, number):
    """What a row has in a total that is carried: as often NULL as not where others are."""
    if (id + number) % 4 == 0 or not ranks(value):
        return None if (id + number) % 2 else float(id % 5)
    return value * (number + 1)


class BlockAggregation(Aggregation):
    """Spark's part: blocks of closed panes, each made of the rows of one or two tasks."""

    def __init__(self, stream, spec, whole):
        super().__init__(stream)
        self.spec, self.whole = spec, whole
        self.adder = PaneAdder(("shard",), spec.sums, spec.grid, spec.also)
        key = [spec.sums.arrow.field(name) for name in spec.sums.key]
        values = [(POSITION, pa.int64()), (SCORE, pa.float64())]
        values += [(also_column(at), pa.float64()) for at in range(len(spec.also))]
        self.schema = pa.schema([("shard", pa.int32()), *key, *values])
        self.choice = random.Random(stream.seed)

    def closed(self):
        s, by_shard = self.stream, defaultdict(list)
        tasks = [], []
        for key, label, pane in list(self.groups):
            if label <= self.watermark * s.per_ms:
                for row in self.groups.pop((key, label, pane)):
                    self.choice.choice(tasks).append(row)
        for rows in tasks:
            for block in self.adder.blocks(iter([self.batch(rows)])):
                for home, pane, data in zip(*block.to_pydict().values(), strict=True):
                    if data is not None:
                        by_shard[home,].append(Row(home, pane, [data]))
        return by_shard

    def batch(self, rows):
        """Rows as Spark hands them to a task; NaN has become NULL."""
        records = []
        for value, at, id in rows:
            key = key_of(id, self.whole)
            home = crc32(str(key).encode()) % SHARDS if self.spec.merged else 0
            also = [other_value(value, id, i) for i in range(len(self.spec.also))]
            records.append((home, *key, at, value if ranks(value) else None, *also))
        columns = list(zip(*records, strict=True)) or [[] for _ in self.schema]
        arrays = [pa.array(c, type) for type, c in zip(self.schema.types, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def expected_answers(s, admitted, by, whole, until, before):
    """The oracle's windows up to a moment; keys by their place in the order of keys."""
    keys = sorted({key_of(row[3], whole) for row in admitted}, key=place_of)
    number = {key: at for at, key in enumerate(keys)}
    key_numbers = [number[key_of(row[3], whole)] for row in admitted]
    values = [math.nan if row[1] is None else row[1] for row in admitted]
    times, ids = [row[2] for row in admitted], [row[3] for row in admitted]
    windows = s.windows(shown(values, by), times, ids, until, before)
    order = {"ties": s.ties, "rank_by": s.rank_by}
    return totals_in(windows, key_numbers, values, times, by, s.k, **order), keys


def with_equal_values(stream, ties, rank_by):
    """The same with few values, whose totals are often equal, and an order of its own."""
    rows = [
        (key, float(round(score) % 2) if ranks(score) and math.isfinite(score) else score, at, id)
        for key, score, at, id in stream.rows
    ]
    return replace(stream, rows=rows, ties=ties, rank_by=rank_by)


def with_other_values(stream):
    """The same query over rows of other values, whose engines a worker may still remember."""
    rows = [(key, score and score / 2 - 1, at, id) for key, score, at, id in stream.rows]
    return replace(stream, rows=rows, drain=False)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("kind", ["time", "cumulative", "all_time"])
def test_shards_answer_any_stream_exactly(by, kind, monkeypatch):
    check_any_stream(range(200), by, kind, monkeypatch)


@pytest.mark.parametrize("by", ["sum", "count", "max", "last"])
@pytest.mark.parametrize("kind", ["time", "cumulative", "all_time"])
@pytest.mark.parametrize(("ties", "rank_by"), NEW_ORDERS)
def test_shards_order_equal_totals_of_any_stream(by, kind, ties, rank_by, monkeypatch):
    check_any_stream(range(60), by, kind, monkeypatch, ties, rank_by)


def check_any_stream(seeds, by, kind, monkeypatch, ties="newest", rank_by="row_number"):
    """Hold the shards of many streams to the oracle."""
    order = Order(ties == "oldest", rank_by)
    for seed in seeds:
        s = any_stream(seed)
        if s.counted:
            continue
        if order != Order():
            s = with_equal_values(s, ties, rank_by)
        if kind != "time":
            s = of_window_kind(s, kind)
            monkeypatch.setattr(state, "_MANY_PANES", seed % 3 + 1)
        chance = random.Random(seed)
        s.fail = [chance.choice([0, 1, 3, 1000]) for _ in range(3)]  # also at their very end
        alone = kind == "all_time" or (s.changes and seed % 5 == 0)
        whole, shards = seed % 3 == 0, 1 if alone else SHARDS
        spec = spec_of(s, by, whole, shards)
        aggregation, answers = BlockAggregation(s, spec, whole), []
        workers = [EngineCache(), EngineCache(1 << 15)]

        def new_processor(workers=workers, chance=chance, spec=spec):
            if chance.random() < 0.1:
                workers[0] = EngineCache()
            monkeypatch.setattr(state, "_engines", chance.choice(workers))
            return WindowProcessor(spec, 1)

        def gathered(new, answers=answers, spec=spec):
            windows = defaultdict(list)
            for row in new:
                windows[row["window"]].append(row[2:])
            for window, rows in sorted(windows.items()):
                columns = [list(column) for column in zip(*rows, strict=True)]
                rank = changed if spec.paired else best
                answer = rank(spec.query.k, columns, order=order) if spec.merged else rows[0]
                if answer is not None:
                    answers.append((window, *answer))

        if seed % 4 == 0:
            earlier = BlockAggregation(with_other_values(s), spec, whole)
            play_batches(earlier.stream, earlier, new_processor, spec.output, lambda new: None)
        marks = play_batches(s, aggregation, new_processor, spec.output, gathered)
        expected, keys = expected_answers(s, aggregation.admitted, by, whole, *marks)
        number = {key: at for at, key in enumerate(keys)}
        if s.changes:
            results = []
            for window, _, scores, rank, previous, *ids in answers:
                assert scores == sorted(scores, reverse=True)
                key_numbers = [number[key] for key in zip(*ids, strict=True)]
                row = Row(
                    window=window, scores=scores, ranks=rank, previous=previous, kept_0=key_numbers
                )
                results.append(report(row, s))
            until = None if kind == "all_time" else marks[0]
            assert results == changes(expected, s.slide, until, rank_by), f"any_stream({seed})"
            continue
        if not order.shared:  # what shares no ranks does not say them
            answers = [(w, c, score, None, *ids) for w, c, score, *ids in answers]
        results = [
            (s.offset + window * s.slide, scores, rank, list(zip(*ids, strict=True)))
            for window, _, scores, rank, *ids in answers
        ]
        expected_results = [
            (
                answer.end,
                [score for score, _ in answer.rows],
                numbered(answer.rows, rank_by) if order.shared else None,
                [keys[at] for _, at in answer.rows],
            )
            for answer in expected
            if answer.rows
        ]
        assert results == expected_results, f"any_stream({seed})"


@pytest.mark.parametrize("by", ["sum", "last"])
@pytest.mark.parametrize("kind", ["time", "cumulative", "all_time"])
def test_shards_carry_totals_of_any_stream_exactly(by, kind, monkeypatch):
    also = ("count", "sum", "mean", "min", "first", "last")
    for seed in range(60):
        s = any_stream(seed)
        if s.counted or s.changes:
            continue
        if kind != "time":
            s = of_window_kind(s, kind)
            monkeypatch.setattr(state, "_MANY_PANES", seed % 3 + 1)
        chance = random.Random(seed)
        whole, shards = seed % 3 == 0, 1 if kind == "all_time" else SHARDS
        spec = spec_of(s, by, whole, shards, also)
        aggregation, answers = BlockAggregation(s, spec, whole), []
        workers = [EngineCache(), EngineCache(1 << 15)]

        def new_processor(workers=workers, chance=chance, spec=spec):
            monkeypatch.setattr(state, "_engines", chance.choice(workers))
            return WindowProcessor(spec, 1)

        def gathered(new, answers=answers, spec=spec):
            windows = defaultdict(list)
            for row in new:
                windows[row["window"]].append(row[2:])
            for window, rows in sorted(windows.items()):
                columns = [list(column) for column in zip(*rows, strict=True)]
                answer = best(spec.query.k, columns) if spec.merged else rows[0]
                answers.append((window, *answer))

        marks = play_batches(s, aggregation, new_processor, spec.output, gathered)
        expected, keys = expected_answers(s, aggregation.admitted, by, whole, *marks)
        results = [
            (s.offset + window * s.slide, scores, list(zip(*columns, strict=True)))
            for window, _, scores, *columns in answers
        ]
        wanted = []
        for answer in expected:
            inside = [r for r in aggregation.admitted if answer.start <= r[2] < answer.end]
            rows = []
            for _, at in answer.rows:
                mine = [r for r in inside if key_of(r[3], whole) == keys[at]]
                columns = (
                    carried([(r[2], other_value(r[1], r[3], i)) for r in mine], kind_of_total)
                    for i, kind_of_total in enumerate(also)
                )
                rows.append((*keys[at], *columns))
            if rows:
                wanted.append((answer.end, [score for score, _ in answer.rows], rows))
        assert results == wanted, f"any_stream({seed})"


def test_state_of_another_release_is_refused():
    s = any_stream(1)
    spec = spec_of(s, "sum", True, 2)
    schema = spec.sums.arrow
    columns = zip(schema.types, zip((0, 1, 0, 5, 0, 0), strict=True), strict=True)
    block = arrow_bytes(
        pa.RecordBatch.from_arrays([pa.array(c, type) for type, c in columns], schema=schema)
    )
    store = Store()
    pane = Row(0, s.pane(0), [block])
    early = (s.label(0) - s.slide) // s.per_ms - 1
    assert list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], early)) == []
    store.values[spec.name, (0,)] = (99, *store.values[spec.name, (0,)][1:])
    with pytest.raises(SnapshotError, match="version 99"):
        list(run_task(WindowProcessor(spec, 1), store, [((0,), [pane])], early))


def test_a_worker_forgets_the_engine_that_it_used_least_recently():
    engine = spec_of(any_stream(1), "sum", True, 2).new()
    engines = EngineCache(2 * engine.nbytes)
    for name in ("a", "b", "c"):
        engines.keep(name, engine, engine.nbytes)
    assert engines.take("b") is engine
    assert engines.take("b") is None
    for name in ("b", "d"):
        engines.keep(name, engine, engine.nbytes)
    assert list(engines) == ["b", "d"]
    assert engines.get("b") is engine
    engines.keep("e", engine, engine.nbytes)
    assert list(engines) == ["b", "e"]


def test_sums_of_many_huge_values_are_as_exact_as_others():
    chance = random.Random(4)
    for _ in range(300):
        values = [
            chance.choice([-1, 1]) * math.ldexp(chance.random(), chance.choice([1024, 1020, 40]))
            for _ in range(chance.randint(1, 50))
        ]
        sums_by_bucket = defaultdict(lambda: [0, 0, 0])
        buckets, cuts = cut_doubles(np.array(values))
        for bucket, *parts in zip(buckets.tolist(), *(part.tolist() for part in cuts), strict=True):
            sums_by_bucket[bucket] = [
                a + b for a, b in zip(sums_by_bucket[bucket], parts, strict=True)
            ]
        columns = zip(*sums_by_bucket.values(), strict=True)
        exact_parts = double_parts(
            np.array(list(sums_by_bucket)), [np.array(c, np.int64) for c in columns]
        )
        assert np.isfinite(exact_parts.value).all()
        assert exact_parts.first.sum() == len(sums_by_bucket)
        assert total("sum", exact_parts.value.tolist()) == total("sum", values)
    large = np.array([2**62, -(2**62) + 1, 3], np.int64)
    for parts in ([large], [large >> 32, large & 0xFFFFFFFF]):
        assert whole_values(parts).tolist() == large.tolist()
    with pytest.raises(DataError, match="a sum beyond 9,218,868,437,227,405,311"):
        whole_values([large >> 7, large])


@pytest.mark.parametrize(("accumulator", "largest"), [("ints", 2**31), ("longs", 2**57 + 1)])
def test_whole_numbers_are_added_up_by_key_and_pane(accumulator, largest):
    chance = random.Random(largest)
    rows = [
        (
            chance.choice("ab"),
            chance.randrange(40),
            chance.choice([None, largest, -largest, 7, 1 - largest]),
        )
        for _ in range(500)
    ]
    expected = defaultdict(int)
    for key, at, value in rows:
        if value is not None:
            expected[key, 2 * (at // 10 + 1)] += value
    key, at, value = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_pydict(
        {"shard": pa.array([0] * 500, pa.int32()), "kept_0": key, POSITION: at, EXACT: value}
    )
    sums = PartialSums(accumulator, "sum", (StringType(),))
    adder = PaneAdder(("shard",), sums, PaneGrid(10, 10))
    empty, block = adder.blocks(iter([batch]))
    assert empty["block"].null_count == len(empty) == 1
    schema = pa.schema([(POSITION, pa.int64()), ("kept_0", pa.string())])
    parts = [f"part_{i}" for i in range(2 if accumulator == "longs" else 1)]
    for name in parts:
        schema = schema.append(pa.field(name, pa.int64()))
    sums_by_key = {}
    for pane, data in zip(block["pane"].to_pylist(), block["block"].to_pylist(), strict=True):
        records = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        sums_of_pane = whole_values([records[name].to_numpy() for name in parts])
        for row, whole in enumerate(sums_of_pane.tolist()):
            sums_by_key[records["kept_0"][row].as_py(), pane] = whole
    assert sums_by_key == expected
