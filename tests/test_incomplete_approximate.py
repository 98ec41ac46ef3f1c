"""Approximate answers over incomplete streams: what holds always, and what holds on average."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband import IncompleteMonitor, QueryError, TopKIncomplete, last
from skyband.datasets.incomplete import Sightings, sightings
from skyband.incomplete.approximate import count_row, new_chances, refresh
from skyband.incomplete.self_join import note_repeats, repeats, self_join
from skyband.incomplete.store import rule_of
from skyband.kernels.jit import entry
from tests.streams import batches, same
from tests.test_incomplete import answers, columns, so_far, some_query, some_rows, wanted_counted

SEEDS = [1, 2, *(pytest.param(at, marks=pytest.mark.compiled) for at in (0, *range(3, 20)))]
APPROXIMATE = {"approximate": {}, "likely": {"error": 0.2, "sample": 8}}


@pytest.mark.parametrize("algorithm", APPROXIMATE)
@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_never_too_high_and_objects_are_alive(algorithm, seed):
    chance = random.Random(seed)
    width = chance.randint(1, 4)
    query = some_query(chance, width, False)
    rows = some_rows(chance, 300, width, query.repeats, float(query.low[0]))
    ids, streams, values = columns(rows)
    options = {"slack": chance.choice([0, 0.5]), **APPROXIMATE[algorithm]}
    monitor, windows = IncompleteMonitor(query, algorithm, options=options), []
    for low, high in batches(len(rows), [chance.randrange(300) for _ in range(6)]):
        windows += monitor.push(ids[low:high], streams[low:high], values[low:high])
        if high and high % query.window.slide == 0:
            monitor.algorithm.check_invariants(so_far(rows, high))
    everybody = wanted_counted(
        TopKIncomplete(
            10_000, query.streams, query.window, query.combine, query.bounds, "error", query.repeats
        ),
        rows,
    )
    truth = {answer.end: {obj: score for score, obj in answer.rows} for answer in everybody}
    for answer in answers(windows):
        assert len(answer.rows) <= query.k
        for score, obj in answer.rows:
            assert score <= truth[answer.end][obj] + 1e-9
        assert list(answer.rows) == sorted(answer.rows, key=lambda row: -row[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_without_error_nothing_is_missed(seed):
    chance = random.Random(seed)
    width = chance.randint(1, 4)
    query = some_query(chance, width, False)
    rows = some_rows(chance, 200, width, query.repeats, float(query.low[0]))
    windows = IncompleteMonitor(query, "likely", options={"error": 0}).push(*columns(rows))
    same(answers(windows), wanted_counted(query, rows))


@pytest.mark.parametrize("algorithm", APPROXIMATE)
@pytest.mark.parametrize("repeats", ["none", "max", ("sum", 3)])
def test_snapshots_go_on_bit_for_bit(algorithm, repeats):
    rows = sightings(400, 2, 0.5, 20, 3)
    query = TopKIncomplete(5, ["a", "b"], last(count=100, slide=10), repeats=repeats)
    monitor = IncompleteMonitor(query, algorithm, options=APPROXIMATE[algorithm])
    monitor.push(*(column[:200] for column in rows))
    other = IncompleteMonitor.restore(monitor.snapshot(), query)
    one = monitor.push(*(column[200:] for column in rows))
    two = other.push(*(column[200:] for column in rows))
    assert one.id.tolist() == two.id.tolist()
    assert one.score.tolist() == two.score.tolist()
    assert monitor.counters() == other.counters()


def followed(rows: Sightings, query, algorithm, **options):
    """The recall of the answers, and the mean number of objects kept, after a warm-up."""
    start = 4 * query.window.size
    exact = IncompleteMonitor(query, "sla")
    monitor = IncompleteMonitor(query, algorithm, options=options)
    for each in (exact, monitor):
        each.push(*(column[:start] for column in rows))
    before = monitor.counters()
    truth = exact.push(*(column[start:] for column in rows))
    windows = monitor.push(*(column[start:] for column in rows))
    after = monitor.counters()
    kept = after["objects"] * after["slides"] - before["objects"] * before["slides"]
    wanted = [set(one.id.tolist()) for one in truth]
    given = [set(one.id.tolist()) for one in windows]
    share = np.mean([len(a & b) / len(a) for a, b in zip(wanted, given, strict=True)])
    return share, kept / (after["slides"] - before["slides"])


def of_width(width, k=10, size=1000, combine="sum", slide=10):
    names = [f"s{at}" for at in range(width)]
    return TopKIncomplete(k, names, last(count=size, slide=slide), combine, repeats="none")


@pytest.mark.compiled
@pytest.mark.parametrize("error", [0.02, 0.1])
@pytest.mark.parametrize("memory", [20, 80])
def test_no_more_is_missed_than_was_allowed(error, memory):
    shares = [
        followed(sightings(16_000, 3, 0.5, memory, seed), of_width(3), "likely", error=error)[0]
        for seed in range(3)
    ]
    assert np.mean(shares) >= 1 - error


@pytest.mark.compiled
@pytest.mark.parametrize("combine", ["sum", "min", "max", (1.0, 0.5)])
def test_all_ways_to_combine_keep_the_error(combine):
    query = of_width(2, combine=combine)
    share, _ = followed(sightings(16_000, 2, 0.5, 40, 1), query, "likely", error=0.1)
    assert share >= 0.9


@pytest.mark.compiled
def test_values_that_go_together_keep_the_error():
    rows = sightings(20_000, 3, 0.5, 80, 1)
    fast = np.random.default_rng(1).random(int(rows.id.max()) + 1)[rows.id]
    rows = rows._replace(value=np.clip(0.9 * fast + 0.1 * rows.value, 0, 1))
    share, _ = followed(rows, of_width(3), "likely", error=0.1)
    assert share >= 0.9


@pytest.mark.compiled
def test_ours_finds_most_with_fewer_objects_than_the_papers():
    rows = sightings(20_000, 3, 0.5, 80, 1)
    share, ours = followed(rows, of_width(3), "likely", error=0.05, slack=0)
    papers, theirs = followed(rows, of_width(3), "approximate", slack=0)
    _, exact = followed(rows, of_width(3), "eaa", slack=0)
    assert share >= 0.95
    assert papers >= 0.95
    assert ours < 0.5 * theirs < theirs < exact


@pytest.mark.compiled
@pytest.mark.parametrize("width", [2, 3])
def test_chances_are_those_of_the_window(width):
    """Conditional frequencies by sketches with many bitmaps, against those of all objects."""
    size = 4000
    rows = sightings(12_000, width, 0.5, 200, 2)
    rule = rule_of(of_width(width))
    chances = new_chances(rule, size, 1 << 12)
    count_rows(chances, rule, rows.stream, rows.id)
    since = len(rows.id) - size
    refresh(chances, rule, since)
    seen: dict[int, int] = {}
    for obj, stream in zip(rows.id[since:].tolist(), rows.stream[since:].tolist(), strict=True):
        seen[obj] = seen.get(obj, 0) | 1 << stream
    for some in range(1, 1 << width):
        base = sum(mine & some == some for mine in seen.values())
        for stream in range(width):
            wanted = some | 1 << stream
            both = sum(mine & wanted == wanted for mine in seen.values())
            assert abs(chances.value[some * width + stream] - both / base) < 0.03


@entry
def count_rows(chances, rule, stream, object_id):
    for at in range(len(object_id)):
        count_row(chances, rule, stream[at], object_id[at], at)


@pytest.mark.compiled
@pytest.mark.parametrize("often", [1, 3, 10])
def test_repeats_are_estimated_without_bias(often):
    """The self-join size of rows that each come so often, in the window only."""
    estimates, rows = [], 3000
    for run in range(100):
        joins = self_join(2, rows)
        ids = np.tile(np.arange(rows // often, dtype=np.int64) + 10_007 * run, often)
        old = np.full(rows, 7, np.int64)  # expired, and repeated as often as can be
        places = np.arange(2 * rows, dtype=np.int64)
        stream = np.ones(rows, np.int64)
        note_repeats(joins, stream, old, places[:rows])
        note_repeats(joins, stream, ids, places[rows : rows + len(ids)])
        estimates.append(repeats(joins, 1, rows))
        assert repeats(joins, 0, rows) == 1.0
    error = (2 / 64) ** 0.5
    assert abs(np.mean(estimates) / often - 1) < (0.1 if often == 1 else 4 * error / 10)
    assert np.std(estimates) < 1.3 * error * often


def test_more_repeats_are_never_expected_than_were_promised():
    rows = sightings(400, 2, 0.5, 20, 1)
    query = TopKIncomplete(3, ["a", "b"], last(count=80, slide=4), repeats=("sum", 2))
    monitor = IncompleteMonitor(query, "approximate")
    for _ in range(3):
        monitor.push(*rows)
    times = monitor.algorithm.state.chances.times
    assert ((times >= 1) & (times <= 2)).all()


@pytest.mark.parametrize("algorithm", APPROXIMATE)
def test_too_many_streams_are_refused(algorithm):
    query = TopKIncomplete(3, [f"s{i}" for i in range(9)], last(count=80))
    with pytest.raises(QueryError, match="9 streams"):
        IncompleteMonitor(query, algorithm)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("likely", {"error": 1}),
        ("likely", {"error": "few"}),
        ("likely", {"sample": 0}),
        ("approximate", {"maps": 100}),
        ("approximate", {"maps": True}),
        ("approximate", {"slack": -1}),
    ],
)
def test_options_that_mean_nothing_are_refused(algorithm, options):
    with pytest.raises(QueryError, match=next(iter(options))):
        IncompleteMonitor(of_width(2), algorithm, options=options)


def test_an_expected_error_is_told():
    rows = sightings(1200, 2, 0.5, 20, 1)
    query = of_width(2, k=5, size=200)
    monitor = IncompleteMonitor(query, "likely", options={"error": 0.3})
    monitor.push(*rows)
    assert 0 < monitor.counters()["expected_error"] < 0.6
