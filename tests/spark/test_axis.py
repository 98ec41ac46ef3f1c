"""Axes and grids: what SQL says of rows is what Python says of them, and watermarks fit both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from skyband import all_time, cumulative, last
from skyband.spark.axis import ArrivalAxis, PaneGrid, SequenceAxis, TickAxis, TimeAxis
from skyband.windows import FOREVER

AXES = [TimeAxis("at", 0), SequenceAxis("at", 0), TickAxis("at", 0), ArrivalAxis("at", 0)]

grids = st.integers(1, 10**13).flatmap(
    lambda slide: st.builds(
        PaneGrid,
        st.integers(slide, 50 * slide),
        st.just(slide),
        st.integers(-3 * slide, 3 * slide),
    )
)


kinds = st.tuples(st.integers(1, 10**12), st.integers(1, 50), st.integers(-99, 99)).flatmap(
    lambda t: st.sampled_from(
        [
            cumulative(t[0] * t[1], every=t[0], offset=t[2] * t[0] // 7),
            all_time(every=t[0]),
            last(time=t[0] * t[1], slide=t[0]),
        ]
    )
)


@given(kinds, st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=30))
def test_grids_lie_as_the_panes_of_the_local_engine(window, positions):
    grid, panes = PaneGrid.of(window), window.panes
    for position, pane in zip(positions, grid.pane(np.array(positions)).tolist(), strict=True):
        first = panes.first_window(position)
        assert (grid.step(pane), grid.last(pane)) == (first, panes.last_window(position))
        assert grid.window_end(first) == panes.end(first)
        assert grid.window_start(first) == panes.start(first) == panes.starts(np.array([first]))[0]
        assert panes.start(first) <= position < panes.end(first)


@given(grids, st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=30))
def test_panes_hold_rows_that_live_in_the_same_windows(grid, positions):
    at = np.array(positions, np.int64)
    for position, pane in zip(positions, grid.pane(at).tolist(), strict=True):
        first = -(-(position + 1 - grid.offset) // grid.slide)  # the first end after it
        last = (position + grid.size - grid.offset) // grid.slide
        assert grid.step(pane) == first
        assert grid.last(pane) == last
        assert grid.label(position) == grid.window_end(first)


@pytest.mark.parametrize("axis", AXES[:3], ids=lambda axis: axis.kind)
@given(grids, st.integers(-1000, 10**6))
def test_an_alarm_rings_when_its_window_has_ended_and_not_before(axis, grid, window):
    ring = axis.alarm(grid.window_end(window))
    assert axis.progress(ring, grid).closed >= window
    assert axis.progress(ring - 1, grid).closed < window


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.kind)
def test_only_a_drained_stream_has_ended(axis):
    assert axis.ended(axis.end // axis.per_ms)
    assert not axis.ended(4_102_444_800_000)  # the year 2100


@settings(max_examples=6, phases=[Phase.explicit, Phase.generate])  # each example is a query
@given(
    st.lists(grids, min_size=8, max_size=12),
    st.lists(st.integers(-(10**15), 10**16), min_size=20, max_size=60),
)
@example(
    [
        *(PaneGrid(25, 10, 3), PaneGrid(30, 10), PaneGrid(1, 1)),
        PaneGrid(3_600_000_000, 60_000_000, 7),
        PaneGrid.of(cumulative(30, every=10, offset=7)),
        PaneGrid.of(all_time(every=10)),
    ],
    list(range(-40, 40)),
)
def test_sql_and_python_agree(spark, all_grids, positions):
    at = F.col("at")
    columns = []
    for i, grid in enumerate(all_grids):
        label, longer = grid.label_sql(at), grid.in_longer_pane_sql(at)
        pane = grid.pane_sql(label, longer)
        step = F.shiftright(pane, 1)
        columns += [label.alias(f"label_{i}"), longer.alias(f"longer_{i}"), pane.alias(f"pane_{i}")]
        columns.append(grid.label_of_pane_sql(pane).alias(f"again_{i}"))
        columns.append(grid.window_start_sql(step).alias(f"start_{i}"))
        columns.append(grid.window_end_sql(step).alias(f"end_{i}"))
    rows = spark.createDataFrame([(p,) for p in positions], "at bigint").select("at", *columns)
    table = rows.toArrow().to_pydict()
    array = np.array(table["at"], np.int64)
    for i, grid in enumerate(all_grids):
        assert table[f"label_{i}"] == grid.label(array).tolist()
        assert table[f"longer_{i}"] == grid.in_longer_pane(array).tolist()
        assert table[f"pane_{i}"] == grid.pane(array).tolist()
        assert table[f"again_{i}"] == table[f"label_{i}"] == table[f"end_{i}"]
        steps = [grid.step(pane) for pane in table[f"pane_{i}"]]
        starts = [grid.window_start(step) for step in steps]
        assert table[f"start_{i}"] == [None if start == -FOREVER else start for start in starts]
        assert table[f"end_{i}"] == [grid.window_end(step) for step in steps]


def test_labels_survive_as_moments(spark):
    labels = [-(10**12), -1000, 0, 1000, 1_767_623_400_000_000]
    rows = spark.createDataFrame([(label,) for label in labels], "label bigint")
    for axis in AXES:
        unit = 1000 // axis.per_ms  # a label of a sequence is a whole number of milliseconds
        back = axis.label_sql(axis.moment_sql(F.expr(f"label div {unit}")))
        assert [row[0] for row in rows.select(back).collect()] == [
            int(label / unit) for label in labels
        ]
