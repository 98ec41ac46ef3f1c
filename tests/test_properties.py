"""Properties by Hypothesis: any stream, window and batches, all algorithms and invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import Monitor, TopK, last
from skyband.topk import ALGORITHMS
from tests.oracle import changes, count_windows
from tests.streams import check_counted, check_timed, reports

SCORES = st.lists(
    st.one_of(
        st.integers(-3, 3).map(float),
        st.floats(allow_nan=False, width=16),
        st.sampled_from([float("inf"), float("-inf"), float("nan"), -0.0]),
    ),
    max_size=120,
)
SLOPES = st.lists(st.integers(-3, 3), min_size=1, max_size=6).map(
    lambda slopes: np.cumsum(np.repeat(slopes, 20)).astype(float).tolist()
)
STREAMS = st.one_of(SCORES, SLOPES)
SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12)).map(
    lambda t: (max(t[0], t[1]), min(t[0], t[1]), t[2])
)
CUTS = st.lists(st.integers(0, 200), max_size=6)
SAP_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "partitions": st.integers(1, 12),
        "delay": st.booleans(),
        "savl": st.booleans(),
        "amortise": st.booleans(),
    },
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60)
@given(scores=STREAMS, shape=SHAPES, cuts=CUTS)
def test_count_windows(algorithm, scores, shape, cuts):
    n, s, k = shape
    check_counted(scores, n, s, k, algorithm, cuts=[*cuts, *range(0, len(scores), s)])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=40)
@given(data=st.data(), scores=STREAMS, shape=SHAPES, cuts=CUTS, offset=st.integers(-20, 20))
def test_time_windows(algorithm, data, scores, shape, cuts, offset):
    size, slide, k = shape
    times = data.draw(st.lists(st.integers(-60, 300), min_size=len(scores), max_size=len(scores)))
    check_timed(scores, times, size, slide, k, algorithm, offset=offset, cuts=cuts)


@pytest.mark.parametrize("algorithm", ["sap-equal", "sap-dynamic", "sap"])
@settings(max_examples=120)
@given(scores=STREAMS, shape=SHAPES, options=SAP_OPTIONS)
def test_sap_in_all_its_variants(algorithm, scores, shape, options):
    n, s, k = shape
    check_counted(scores, n, s, k, algorithm, options=options, cuts=range(0, len(scores), s))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=30)
@given(scores=STREAMS, shape=SHAPES, cut=st.integers(0, 120))
def test_snapshots_and_changes(algorithm, scores, shape, cut):
    n, s, k = shape
    values = np.array(scores, dtype=float)
    monitor = Monitor(TopK(k=k, window=last(count=n, slide=s), emit="changes"), algorithm)
    results = reports(monitor.push(values[:cut]))
    monitor = Monitor.restore(monitor.snapshot())
    results += reports(monitor.push(values[cut:]))
    assert results == changes(count_windows(scores, n, s, k), s)
