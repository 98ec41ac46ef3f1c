"""TMA and SMA on attributes: their grid in several dimensions, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import Monitor, TopK, last
from skyband.errors import QueryError
from skyband.topk.grid import laid_out
from tests.oracle import changes, count_windows, time_windows
from tests.streams import answers, batches, check_counted, check_timed, reports, same

NAMES = ["tma", "sma"]


def scored(rows, weights):
    """The scores of rows of attributes, added from left to right."""
    scores = []
    for row in rows:
        total = float(row[0]) * weights[0]
        for value, weight in zip(row[1:], weights[1:], strict=True):
            total = total + float(value) * weight
        scores.append(total)
    return scores


def lay_out(monitor):
    algorithm = monitor.algorithm
    cells = laid_out(algorithm.state.cells, algorithm.work)
    algorithm.state = algorithm.state._replace(cells=cells)


def run(rows, weights, n, s, k, algorithm, *, cuts=(), options=None, eager=False):
    """All answers over attributes, with the invariants checked after each batch.

    With ``eager`` the grid is laid out anew after each batch, whatever the scans have read.
    """
    monitor = Monitor(
        TopK(k=k, window=last(count=n, slide=s), weights=weights), algorithm, options=options
    )
    scores = scored(rows, weights)
    windows = []
    for low, high in batches(len(rows), cuts):
        with np.errstate(all="ignore"):
            windows += answers(monitor.push(attributes=rows[low:high]))
        start = max(0, -(-high // s) * s - n)
        alive = {seq: scores[seq] for seq in range(start, high) if scores[seq] == scores[seq]}
        monitor.algorithm.check_invariants(alive)
        if eager:
            lay_out(monitor)
            monitor.algorithm.check_invariants(alive)
    same(windows, count_windows(scores, n, s, k))
    return monitor


def cells(monitor):
    return len(monitor.algorithm.state.cells.newest)


def attributes(kind, rows, width, seed=4):
    rng = np.random.default_rng(seed)
    drift = np.arange(rows)[:, None] / 100
    plain = rng.random((rows, width))
    return {
        "random": plain,
        "ties": rng.integers(0, 4, (rows, width)).astype(float),
        "equal": np.ones((rows, width)),
        "falling": plain - drift,
        "rising": plain + drift,
        "apart": np.where(np.arange(width) % 2, plain - drift, plain + drift),
        "outliers": np.where(rng.random((rows, width)) < 0.01, plain * 1e9, plain) - drift,
        "infinite": rng.choice([-np.inf, np.inf, 0.0, -0.0, 1.0], (rows, width)),
        "missing": np.where(rng.random((rows, width)) < 0.1, np.nan, plain - drift),
        "narrow": 1e16 - 2.0 * rng.integers(0, 9, (rows, width)) - np.floor(drift),
        "vast": rng.choice([-1.7e308, -1e307, 0.0, 1e300, 1.7e308], (rows, width)) * plain,
        "tiny": plain * 5e-324 - drift * 5e-324,
    }[kind]


KINDS = [
    "random", "ties", "equal", "falling", "rising", "apart", "outliers", "infinite", "missing",
    "narrow", "vast", "tiny",
]  # fmt: skip
WEIGHTS = [(1.0, 1.0), (1.0, -0.5), (-1.0, -3.0), (0.0, 2.0), (1.0, 2.0, 0.25), (2.0, 0.0, -1.0)]


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_weighted_attributes(algorithm, kind):
    for weights in WEIGHTS:
        rows = attributes(kind, 700, len(weights))
        run(rows, weights, 200, 20, 6, algorithm, cuts=range(0, 700, 60))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_single_attribute(algorithm, kind):
    for weights in [(1.0,), (-2.0,), (0.0,)]:
        rows = attributes(kind, 700, 1)
        run(rows, weights, 150, 7, 4, algorithm, cuts=range(0, 700, 41))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_layout(algorithm, kind):
    for weights in [(1.0,), (1.0, -0.5), (1.0, 2.0, 0.25)]:
        for k, seed in [(4, 5), (30, 6)]:
            rows = attributes(kind, 500, len(weights), seed)
            cuts = range(0, 500, 45)
            run(rows, weights, 180, 9, k, algorithm, cuts=cuts, options={"k_max": k}, eager=True)


@pytest.mark.parametrize("algorithm", NAMES)
def test_many_attributes(algorithm):
    weights = tuple((-1.0) ** i * (i + 1) for i in range(18))
    rows = attributes("random", 600, 18) - np.array(weights) * np.arange(600)[:, None]
    monitor = run(rows, weights, 200, 10, 3, algorithm, cuts=range(0, 600, 100))
    assert cells(monitor) > 1


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_falling_scores_lay_out_a_grid_and_scan_little_of_it(algorithm, width):
    n, s, k = 800, 20, 5
    rows = attributes("falling", 6 * n, width)
    monitor = run(rows, (1.0,) * width, n, s, k, algorithm, cuts=range(0, 6 * n, 500))
    work = monitor.counters()
    assert cells(monitor) > 4
    assert work["rescans"] > 0
    assert work["events"] >= work["rescans"]
    assert work["rescanned"] / work["rescans"] < n / 2


@pytest.mark.parametrize("algorithm", NAMES)
def test_rising_scores_need_no_scan(algorithm):
    monitor = check_counted(np.arange(600.0), 100, 5, 5, algorithm, cuts=range(0, 600, 25))
    work = monitor.counters()
    assert cells(monitor) > 1  # laid out when the window was full
    assert work["rescans"] == work["rescanned"] == work["events"] == 0
    assert work["insertions"] == 600


def test_falling_scores_make_tma_compute_whenever_k_max_runs_out():
    scores = -np.arange(400.0)
    for k_max, period in [(5, 1), (9, 1), (10, 2), (25, 5)]:
        monitor = check_counted(scores, 100, 5, 5, "tma", options={"k_max": k_max})
        # the first 20 slides fill the window; the view holds its oldest k_max objects
        assert monitor.counters()["rescans"] == 60 // period


def test_falling_scores_make_sma_compute_whenever_k_max_runs_out():
    scores = -np.arange(400.0)
    for k_max, period in [(5, 1), (10, 2), (25, 5)]:
        monitor = check_counted(scores, 100, 5, 5, "sma", options={"k_max": k_max})
        # as long as the window fills, the band is cut down to k_max whenever it is crowded
        assert monitor.counters()["rescans"] == pytest.approx(60 / period, abs=1)


@pytest.mark.parametrize("algorithm", NAMES)
def test_larger_views_compute_less_often(algorithm):
    scores = np.random.default_rng(8).random(3000)
    monitors = [
        check_counted(scores, 300, 30, 8, algorithm, options={"k_max": k_max}, check=False)
        for k_max in (8, 16, 64)
    ]
    small, medium, large = (monitor.counters() for monitor in monitors)
    assert small["rescans"] > medium["rescans"] >= large["rescans"]
    assert small["candidates"] < medium["candidates"] < large["candidates"]


@pytest.mark.parametrize("algorithm", NAMES)
def test_band_stays_small_after_a_rise(algorithm):
    rng = np.random.default_rng(9)
    scores = np.concatenate([rng.random(400), 5 + rng.random(1600)])
    monitor = check_counted(scores, 400, 10, 5, algorithm, cuts=range(0, 2000, 40))
    assert monitor.counters()["candidates"] <= 4 * 5


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["random", "falling", "rising", "ties"])
def test_large_slides(algorithm, kind):
    for n, s, k in [(500, 250, 3), (400, 150, 70)]:
        run(attributes(kind, 1500, 1), (1.0,), n, s, k, algorithm, cuts=range(0, 1500, 330))


@pytest.mark.parametrize("algorithm", NAMES)
def test_a_window_that_runs_dry_is_scanned_once(algorithm):
    scores = -np.arange(160.0)
    times = np.concatenate([np.arange(100), 100 + 30 * np.arange(60)])
    monitor = check_timed(scores, times, 90, 10, 5, algorithm, cuts=[100])
    # the dense stretch leaves within ten slides; then three objects are alive, all of them known
    assert monitor.counters()["rescans"] <= 10
    assert monitor.counters()["slides"] > 180


@pytest.mark.parametrize("base", [1e16, -1.7624793424273594e16, 1e300, 3.0])
def test_bounds_hold_where_slices_are_narrower_than_rounding(base):
    steps = np.random.default_rng(1).integers(0, 8, 1000)
    scores = base + steps * np.spacing(abs(base))
    monitor = check_counted(scores, 1000, 1000, 5, "tma")
    lay_out(monitor)
    assert cells(monitor) > 60
    monitor.algorithm.check_invariants(dict(enumerate(scores.tolist())))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("k_max", [4, 0, -1, True, 7.0, "7", None])
def test_k_max_must_be_at_least_k(algorithm, k_max):
    query = TopK(k=5, window=last(count=100, slide=10))
    with pytest.raises(QueryError, match="k_max"):
        Monitor(query, algorithm, options={"k_max": k_max})


@pytest.mark.parametrize("algorithm", NAMES)
def test_k_max_above_the_window(algorithm):
    scores = np.random.default_rng(2).random(300)
    for k, k_max in [(3, 1000), (1000, 10**6)]:
        monitor = check_counted(
            scores, 40, 8, k, algorithm, options={"k_max": k_max}, cuts=range(0, 300, 16)
        )
        assert monitor.counters()["rescans"] == 0


def test_far_outliers_do_not_stretch_an_axis():
    scores = np.random.default_rng(5).random(1000)
    scores[::200] = 1e12
    scores[100::200] = -np.inf
    monitor = check_counted(scores, 1000, 1000, 5, "tma")
    grid = laid_out(monitor.algorithm.state.cells, monitor.algorithm.work)
    assert -1 <= grid.low[0] < grid.high[0] <= 2
    assert np.count_nonzero(grid.newest >= 0) > 20
    assert grid.top[0, -1] == 1e12


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("weights", [(1.0, -2.0), (0.5, 1.0, 1.0)])
def test_time_windows(algorithm, weights):
    rng = np.random.default_rng(6)
    rows = attributes("missing", 900, len(weights)) + np.sign(weights) * 100
    times = np.cumsum(np.where(rng.random(900) < 0.01, rng.integers(50, 900, 900), 1))
    times[450:] = times[450] + np.arange(450) // 9  # a burst: the window outgrows its ring
    monitor = Monitor(TopK(k=4, window=last(time=60, slide=7), weights=weights), algorithm)
    windows = []
    for low, high in batches(900, range(0, 900, 70)):
        until = int(times[high]) if high < 900 else None
        windows += answers(
            monitor.push(attributes=rows[low:high], times=times[low:high], watermark=until)
        )
        lay_out(monitor)
    windows += answers(monitor.finish())
    same(windows, time_windows(scored(rows, weights), times.tolist(), 60, 7, 4))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("kind", ["falling", "ties"])
def test_changes(algorithm, kind):
    weights = (1.0, 0.5)
    rows = attributes(kind, 900, 2)
    query = TopK(k=5, window=last(count=150, slide=10), emit="changes", weights=weights)
    monitor = Monitor(query, algorithm)
    windows = []
    for low, high in batches(900, range(0, 900, 130)):
        windows += reports(monitor.push(attributes=rows[low:high]))
    assert windows == changes(count_windows(scored(rows, weights), 150, 10, 5), 10)


@pytest.mark.parametrize("algorithm", NAMES)
def test_snapshot_goes_on_in_the_same_layout(algorithm):
    rows = attributes("falling", 3000, 2)
    query = TopK(k=5, window=last(count=400, slide=20), weights=(1.0, 2.0))
    monitor = Monitor(query, algorithm, options={"k_max": 7})
    monitor.push(attributes=rows[:2110])
    assert cells(monitor) > 4
    again = Monitor.restore(monitor.snapshot(), query=query)
    one, two = monitor.push(attributes=rows[2110:]), again.push(attributes=rows[2110:])
    assert one.to_arrow().equals(two.to_arrow())
    assert monitor.snapshot() == again.snapshot()


@pytest.mark.parametrize("algorithm", NAMES)
def test_the_whole_window_is_kept(algorithm):
    monitor = check_counted(np.random.default_rng(7).random(95), 30, 5, 3, algorithm)
    assert monitor.algorithm.kept().tolist() == list(range(65, 95))


values = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1, 1),
    st.floats(allow_nan=True, allow_infinity=True),
)


@pytest.mark.parametrize("algorithm", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_random_streams(algorithm, data):
    width = data.draw(st.integers(1, 3), "attributes")
    weights = data.draw(
        st.tuples(*[st.sampled_from([1.0, -1.0, 0.0, 0.1, -7.5]) for _ in range(width)]), "weights"
    )
    rows = data.draw(st.lists(st.tuples(*[values] * width), min_size=1, max_size=60), "rows")
    copies = data.draw(st.integers(1, 4), "copies")
    drift = data.draw(st.sampled_from([0.0, 0.01, -0.01, 1.0, -1.0]), "drift")
    n = data.draw(st.integers(1, 90), "n")
    s = data.draw(st.integers(1, n), "s")
    k = data.draw(st.integers(1, 12), "k")
    k_max = data.draw(st.sampled_from([k, k + 1, 2 * k, 5 * k]), "k_max")
    cuts = data.draw(st.lists(st.integers(0, 240), max_size=4), "cuts")
    with np.errstate(all="ignore"):
        stream = np.array(rows * copies, np.float64)
        stream = stream + drift * np.arange(len(stream))[:, None]
    run(stream, weights, n, s, k, algorithm, cuts=cuts, options={"k_max": k_max})
