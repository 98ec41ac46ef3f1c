"""Panes and answers in blocks: the same answers and the same state as without, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, BinaryType, DecimalType, LongType, StringType, StructType

from skyband.spark.axis import GRIDS, SequenceAxis, TimeAxis, WatermarkProgress
from skyband.spark.columns import ALL
from skyband.spark.state import packed
from skyband.spark.state.candidates import CandidateSpec
from skyband.windows import AllTimeWindow, CumulativeWindow, TimeWindow

TYPES = (StringType(), DecimalType(5, 2), BinaryType())
KINDS = {"sliding": TimeWindow, "cumulative": CumulativeWindow, "all time": AllTimeWindow}


def carried(pane, place):
    """Values of each type, and none at times."""
    return [
        f"{pane}/{place}" if place % 3 else None,
        Decimal(pane * 10 + place) / 100,
        bytes([place, pane % 256]),
    ]


def blocks(spec, panes):
    """Panes (number, scores, reached) as the tasks that pack them hand them over, two blocks."""
    rows = []
    for number, scores, reached in panes:
        values = [carried(number, place) for place in range(len(scores))]
        columns = [[row[i] for row in values] for i in range(len(TYPES))]
        rows.append((number, scores, *columns, *([reached] if spec.axis.counts_rows else [])))
    parts = []
    for some in (rows[::2], rows[1::2]):
        if some:
            arrays = [
                pa.array([row[i] for row in some], field.type) for i, field in enumerate(spec.panes)
            ]
            parts.append(pa.RecordBatch.from_arrays(arrays, schema=spec.panes))
    return [packed.arrow_bytes(part) for part in parts], rows


def rows_of(parts):
    """The rows of record batches."""
    return [row for part in parts for row in zip(*part.to_pydict().values(), strict=True)]


@given(
    kind=st.sampled_from(list(KINDS)),
    size=st.integers(1, 9),
    slide=st.integers(1, 4),
    k=st.integers(1, 4),
    oldest_first=st.booleans(),
    whole=st.booleans(),
    counted=st.booleans(),
    first_full=st.sampled_from([-(1 << 62), 5]),
    steps=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(0, 3), st.lists(st.integers(-2, 3), max_size=4)), max_size=4
            ),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=5,
    ),
    ends=st.booleans(),
    by_kernel=st.lists(st.booleans(), min_size=5, max_size=5),
    room=st.sampled_from([1 << 18, 5, 1]),
)
def test_blocks_are_answered_and_kept_as_panes_are(
    kind, size, slide, k, oldest_first, whole, counted, first_full, steps, ends, by_kernel, room
):
    if kind != "sliding":
        size = size * slide
    counted = counted and kind == "sliding"
    grid = GRIDS[KINDS[kind]](max(size, slide), slide)
    axis = SequenceAxis("at", 0) if counted else TimeAxis("at", 0)
    score = LongType() if whole else None
    more = {} if score is None else {"score": score}
    plain = CandidateSpec(
        ("key",), axis, grid, k, TYPES, False, first_full, oldest_first=oldest_first, **more
    )
    spec = plain.packed()
    assert isinstance(spec, packed.PackedSpec)
    assert spec.layout == plain.layout

    fields, step, closed = None, 1, 0
    for place, (gaps, behind) in enumerate(steps):
        panes = []
        for gap, scores in gaps:
            step += gap
            longer = int(grid.split and gap % 2)
            ranked = sorted((s if whole else float(s) for s in scores), reverse=True)
            number = 2 * step + longer
            if all(number != other for other, _, _ in panes):
                panes.append((number, ranked[:k], step))
            step += 1
        last = ends and place == len(steps) - 1
        closed = max(closed, step + behind - 1)
        step = closed + 1
        progress = WatermarkProgress(closed + (1_000 if last else 0), last)
        panes.reverse()
        data, rows = blocks(spec, panes)
        expected = plain.open(None, fields)
        answers = list(expected.run([plain.pane((None, *row)) for row in rows], progress))
        state = spec.open(None, fields)
        packed.PackedState._rows_met = packed._WORTH_LOADING if by_kernel[place] else -(1 << 40)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed, "_ROWS_AT_ONCE", room)  # of which a kernel may need more
            blocks_of_answers = list(state.run(data, progress))
        parts = [
            pa.ipc.read_record_batch(pa.py_buffer(block), spec.answers)
            for (block,) in blocks_of_answers
        ]
        assert rows_of(parts) == answers
        assert state.alarm == expected.alarm
        assert state.finished == expected.finished
        fields = None if expected.finished else expected.save()
        assert fields is None or state.save() == fields


def test_a_pane_that_comes_after_its_window_is_a_mistake():
    plain = CandidateSpec(("key",), TimeAxis("at", 0), GRIDS[TimeWindow](2, 1), 2, TYPES, False)
    spec = plain.packed()
    packed.PackedState._rows_met = packed._WORTH_LOADING
    first = spec.open(None, None)
    list(first.run(blocks(spec, [(20, [3.0], 0), (22, [1.0], 0)])[0], WatermarkProgress(11, False)))
    late = spec.open(None, first.save())
    with pytest.raises(AssertionError, match="pane of window 10 after window 11 was answered"):
        list(late.run(blocks(spec, [(20, [3.0], 0)])[0], WatermarkProgress(12, False)))


def test_more_windows_than_a_kernel_has_room_for_come_in_pieces(monkeypatch):
    plain = CandidateSpec(("key",), TimeAxis("at", 0), GRIDS[TimeWindow](50, 1), 2, TYPES, False)
    spec = plain.packed()
    packed.PackedState._rows_met = packed._WORTH_LOADING
    monkeypatch.setattr(packed, "_ROWS_AT_ONCE", 20)
    data, rows = blocks(spec, [(20, [3.0, 2.0], 0), (22, [1.0], 0)])
    answers = spec.open(None, None).run(data, WatermarkProgress(100, False))
    parts = [pa.ipc.read_record_batch(pa.py_buffer(block), spec.answers) for (block,) in answers]
    panes = [plain.pane((None, *row)) for row in rows]
    expected = list(plain.open(None, None).run(panes, WatermarkProgress(100, False)))
    assert rows_of(parts) == expected


def test_tasks_pack_panes_by_key_and_take_answers_apart(monkeypatch):
    plain = CandidateSpec(
        ("key_0", "key_1"), TimeAxis("at", 0), GRIDS[TimeWindow](2, 1), 2, TYPES, False
    )
    spec = plain.packed()
    monkeypatch.setattr(packed, "_BYTES_AT_ONCE", 1)
    keys = [("a", None), ("b", 1.0), ("a", None), (None, float("nan")), (None, float("nan"))]
    batches = []
    for low, high in ((0, 3), (3, 3), (3, 5)):
        data, _ = blocks(spec, [(2 * at, [float(at)], 0) for at in range(low, high)])
        parts = [pa.ipc.read_record_batch(pa.py_buffer(block), spec.panes) for block in data]
        panes = pa.Table.from_batches(parts, spec.panes).sort_by("pane").combine_chunks()
        names = pa.array([key[0] for key in keys[low:high]], pa.string())
        numbers = pa.array([key[1] for key in keys[low:high]], pa.float64())
        columns = [names, numbers, *(c.combine_chunks() for c in panes.columns)]
        names = ["key_0", "key_1", *spec.panes.names]
        batches.append(pa.RecordBatch.from_arrays(columns, names))
    packs = [part.to_pydict() for part in spec._packed(iter(batches))]
    assert [part["key_0"] for part in packs] == [["a", "b"], [None]]
    numbers = [
        pa.ipc.read_record_batch(pa.py_buffer(block), spec.panes)["pane"].to_pylist()
        for part in packs
        for block in part["block"]
    ]
    assert numbers == [[0, 4], [2], [6, 8]]

    answers = [
        spec.open(None, None).run([block], WatermarkProgress(9, False))
        for part in packs
        for block in part["block"]
    ]
    rows = [block for some in answers for (block,) in some]
    handed = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b", None]), pa.array([None, 1.0, 2.0]), pa.array(rows)],
        ["key_0", "key_1", "block"],
    )
    names = StructType().add("key_0", "string").add("key_1", "double")
    for field in plain.output:
        names.add(field)
    together = list(spec._unpacked(names, iter([handed])))
    monkeypatch.setattr(packed, "_ROWS_AT_ONCE", 1)
    apart = list(spec._unpacked(names, iter([handed])))
    assert len(together) == 1
    assert len(apart) == 3
    assert together[0].to_pydict() == pa.Table.from_batches(apart).to_pydict()
    assert together[0]["key_0"].to_pylist() == ["a"] * 4 + ["b"] * 2 + [None] * 3
    assert together[0]["window"].to_pylist() == [0, 1, 2, 3, 1, 2, 3, 4, 5]


def test_keys_may_be_null_where_they_might_before(spark):
    """A state store refuses keys that may be NULL where none might when it was made."""
    keys = ("key_0", "key_1")
    plain = CandidateSpec(keys, TimeAxis("at", 0), GRIDS[TimeWindow](2, 1), 2, (), False)
    layout = "key_0 string NOT NULL, key_1 string, pane bigint, scores array<double>"
    schema = plain.packed().pack(spark.createDataFrame([], layout)).schema
    assert [schema[name].nullable for name in keys] == [False, True]


@pytest.mark.parametrize(
    "different",
    [
        {"groups": (ALL,)},
        {"changes": True},
        {"rank_by": "rank"},
        {"types": (ArrayType(LongType()),)},
    ],
)
def test_what_is_not_packed(different):
    plain = CandidateSpec(("key",), TimeAxis("at", 0), GRIDS[TimeWindow](2, 1), 2, TYPES, False)
    assert plain.packed() is not None
    assert replace(plain, **different).packed() is None


def test_long_rankings_are_packed_without_keys():
    plain = CandidateSpec((ALL,), TimeAxis("at", 0), GRIDS[TimeWindow](2, 1), 2, TYPES, False)
    assert plain.packed() is None
    assert replace(plain, k=1_000).packed() is not None
