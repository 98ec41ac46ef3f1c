"""Open windows under everything that Spark may do to a stream, against the oracle."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from skyband.spark.columns import LABEL, POSITION, SCORE
from skyband.spark.state.processor import WindowProcessor
from skyband.spark.state.row_blocks import BESIDE, CLOSES, PANE, Best, RowBlocks
from skyband.spark.state.updates import with_open_panes
from tests.oracle import best, numbered, ranks
from tests.oracle_updates import open_all_time, open_cumulative, open_sliding
from tests.spark.fake_stream import (
    TYPES,
    Aggregation,
    WatchedSpec,
    answer,
    any_stream,
    names,
    of_window_kind,
    play_batches,
)

BLOCK = 400
ROW = StructType(
    [
        StructField(SCORE, DoubleType()),
        StructField(POSITION, LongType()),
        StructField("tie_0", LongType()),
        *(StructField(f"kept_{i}", type) for i, type in enumerate(TYPES)),
    ]
)
TASK_ROW = pa.schema(
    [
        *((name, pa.int64()) for name in ("key", LABEL, CLOSES, PANE)),
        (SCORE, pa.float64()),
        *((name, pa.int64()) for name in (POSITION, "tie_0", "kept_0")),
        ("kept_1", pa.string()),
    ]
)


def row_blocks(stream):
    """What the tasks of a stream do to its rows."""
    ties = (POSITION, "tie_0")
    rising = ties if stream.ties == "oldest" else ()
    best = Best(stream.k, (SCORE, *ties), rising, stream.rank_by)
    return RowBlocks(("key",), ROW, (best,))


class Tasks(Aggregation):
    """Spark's part: late rows dropped, those of a micro-batch reduced by two tasks."""

    def __init__(self, stream):
        super().__init__(stream)
        self._choice = random.Random(stream.seed)
        self._blocks = row_blocks(stream)
        self.new = []

    def take(self, rows):
        before = len(self.admitted)
        super().take(rows)
        self.new = self.admitted[before:]

    def closed(self):
        """The blocks of the rows that came, by key."""
        s, blocks = self.stream, defaultdict(list)
        tasks = [[], []]
        for key, score, at, id in self.new:
            pane = s.pane(at)
            score = score if ranks(score) else None
            row = (key, s.label(at), pane >> 1, pane, score, at, id, id, names([id])[0])
            self._choice.choice(tasks).append(dict(zip(TASK_ROW.names, row, strict=True)))
        for task in tasks:
            batch = pa.RecordBatch.from_pylist(task, TASK_ROW)
            for made in self._blocks.blocks(iter([batch])):
                assert made.schema.names == ["key", *BESIDE]
                for row in made.to_pylist():
                    blocks[row["key"],].append(Row(*row.values()))
        return blocks


def open_windows(stream, places, watermark):
    """The windows of a key that are open and have begun, as the oracle has them."""
    s = stream
    if s.kind == "cumulative":
        return open_cumulative(places, s.size, s.slide, s.offset, watermark)
    if s.kind == "all_time":
        return open_all_time(places, s.slide, watermark)
    return open_sliding(places, s.size, s.slide, s.start_offset, watermark)


def check(stream, current=False, spec=WatchedSpec):
    """Each key is shown as the oracle says, batch by batch, and its last revisions are final."""
    s = replace(stream, changes=False)
    tasks = Tasks(s)
    query = with_open_panes(s.spec(spec), row_blocks(s), current)
    reported = defaultdict(dict)  # by key and window: the ranking
    last = {}  # by key and window: the last revision, and whether it is final
    final = defaultdict(list)

    def answered(rows):
        watermark = tasks.watermark * s.per_ms
        shown = defaultdict(dict)
        for row in rows:
            window, key = answer(row, s), row[0]
            assert row["kept_1"] == names(row["kept_0"])
            if s.rank_by != "row_number":
                assert row["ranks"] == numbered(window.rows, s.rank_by)
            revision, done = last.get((key, window.end), (0, False))
            assert row["revision"] > revision
            assert not done
            last[key, window.end] = row["revision"], row["final"]
            if row["final"]:
                final[key].append(window)
            else:
                shown[key][window.start, window.end] = window.rows
        for key in {row[0] for row in tasks.new if ranks(row[1]) or s.counted}:
            expected = so_far(key, watermark)
            before = {window: rows for window, rows in reported[key].items() if window in expected}
            reported[key] = {**before, **shown.pop(key, {})}
            assert reported[key] == expected
        assert not any(shown.values()), "only keys that rows came for are shown"

    def so_far(key, watermark):
        """The rankings of a key's open windows."""
        key_rows = [row[1:] for row in tasks.admitted if row[0] == key]
        newest = max(at for score, at, _ in key_rows if ranks(score) or s.counted)
        key_rows = [row for row in key_rows if ranks(row[0])]
        rankings = {}
        for start, end in open_windows(s, [at for _, at, _ in key_rows], watermark):
            if current and not end - s.slide <= newest < end:
                continue
            if (end - s.offset) // s.slide >= s.first_full_window:
                inside = [row for row in key_rows if start <= row[1] < end]
                rankings[start, end] = best(inside, s.k, s.ties, s.rank_by)
        return rankings

    watermark, before = play_batches(
        s, tasks, lambda: WindowProcessor(query, 1), query.output, answered
    )
    for key in {row[0] for row in tasks.admitted}:
        key_rows = [row[1:] for row in tasks.admitted if row[0] == key]
        expected = s.windows(*zip(*key_rows, strict=True), watermark, before)
        expected = [a for a in expected if (a.end - s.offset) // s.slide >= s.first_full_window]
        assert final[key] == expected
    return sum(map(len, final.values()))


def checked(stream, **options):
    try:
        return check(stream, **options)
    except BaseException as error:
        error.add_note(f"{stream}")
        raise


@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("block", range(2))
def test_any_stream_is_shown_exactly(block, current):
    seeds = range(block * BLOCK, (block + 1) * BLOCK)
    assert sum(checked(any_stream(seed), current=current) for seed in seeds) > BLOCK


@pytest.mark.parametrize("kind", ["cumulative", "all_time"])
def test_windows_whose_rows_leave_together(kind):
    for seed in range(BLOCK):
        if not (stream := any_stream(seed)).counted:
            checked(of_window_kind(stream, kind))


@pytest.mark.parametrize("rank_by", ["row_number", "rank", "dense_rank"])
def test_the_oldest_of_equal_scores_first(rank_by):
    for seed in range(BLOCK):
        stream = replace(any_stream(seed), ties="oldest", rank_by=rank_by)
        checked(stream, spec=partial(WatchedSpec, oldest_first=True, rank_by=rank_by))


def test_rows_of_a_task_are_reduced_to_the_best():
    """By each of two scores, whatever there is of NULL and of equal rows."""
    types = {"a": DoubleType(), "b": LongType(), POSITION: LongType(), "tie": StringType()}
    orders = [("a", POSITION, "tie"), ("b", POSITION, "tie")]
    row_type = StructType([StructField(name, type) for name, type in types.items()])
    blocks = RowBlocks(("key",), row_type, tuple(Best(2, order) for order in orders))
    beside = [(name, pa.int64()) for name in ("key", LABEL, CLOSES, PANE)]
    chance = random.Random(1)

    def places(rows, score):
        """What orders rows by a score, where they have it."""
        return [
            (row[score], row[POSITION], row["tie"] is not None, row["tie"] or "")
            for row in rows
            if row[score] is not None
        ]

    for _ in range(200):
        rows = [
            {
                "key": chance.choice([None, 1]),
                LABEL: 1,
                CLOSES: 1,
                PANE: chance.choice([2, 3]),
                "a": chance.choice([None, 0.0, 1.0, 2.0]),
                "b": chance.choice([None, 1, 2, 1 << 62]),
                POSITION: chance.randrange(3),
                "tie": chance.choice([None, "x", "y"]),
            }
            for _ in range(chance.randrange(1, 12))
        ]
        batch = pa.RecordBatch.from_pylist(rows, pa.schema([*beside, *blocks.arrow]))
        (made,) = blocks.blocks(iter([batch]))
        for block in made.to_pylist():
            same = [row for row in rows if all(row[name] == block[name] for name in ("key", PANE))]
            assert block["newest"] == max(row[POSITION] for row in same)
            best_by_score = blocks.read(block["block"] or b"")
            for (score, *_), best_rows in zip(orders, best_by_score, strict=True):
                expected = sorted(places(same, score), reverse=True)[:2]
                assert places(best_rows.to_pylist(), score) == expected
