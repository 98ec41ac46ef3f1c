"""What the paper on incomplete streams says: its generator, instances, properties of dominance."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import last
from skyband.datasets.incomplete import sightings
from skyband.errors import QueryError
from skyband.incomplete.invariants import instances, lives
from skyband.incomplete.monitor import IncompleteMonitor
from skyband.incomplete.query import TopKIncomplete


def one_by_one(size):
    """The last window of a row, when windows slide by one row."""
    return lambda seq: seq + size


def now(query, rows, end):
    """The instances after so many rows."""
    size = query.window.size
    past = dict(enumerate(rows[:end]))
    alive = {seq: row for seq, row in past.items() if seq >= end - size}
    seen = lives(query, one_by_one(size), past)
    return instances(query, one_by_one(size), alive, seen)


def test_figure_1_scores_rise_with_arrivals_and_fall_with_expiries():
    query = TopKIncomplete(2, ["r1", "r2", "r3"], last(time=100, slide=10), bounds=(0, 50))
    monitor = IncompleteMonitor(query, "eaa")
    rows = [(1, "r1", 30, 5), (2, "r2", 40, 12), (1, "r3", 25, 61), (2, "r1", 5, 95)]
    ids, streams, values, times = zip(*rows, strict=True)
    monitor.push(ids, streams, values, times=times)
    scores = {
        w.end: dict(zip(w.id.tolist(), w.score.tolist(), strict=True)) for w in monitor.finish()
    }
    assert scores[10] == {1: 30.0}
    assert scores[20] == {1: 30.0, 2: 40.0}
    assert scores[70] == {1: 55.0, 2: 40.0}
    assert scores[100] == {1: 55.0, 2: 45.0}
    assert scores[110] == {1: 25.0, 2: 45.0}  # what came at 5 has expired
    assert scores[120] == {1: 25.0, 2: 5.0}
    assert scores[160] == {1: 25.0, 2: 5.0}
    assert scores[170] == {2: 5.0}


def test_figure_2_an_instance_for_each_attribute_and_intervals_that_shrink():
    query = TopKIncomplete(1, ["s1", "s2", "s3"], last(count=100, slide=1), repeats="none")
    p, other = 7, 8
    rows = [(other, 0, 0.0), (p, 1, 0.5), (other, 1, 0.0), (p, 2, 0.25), (p, 0, 0.75)]
    expiry = {at: at + 100 for at in range(5)}

    def intervals(end):
        now_alive = now(query, rows, end)
        return {
            until: (one.current, one.best) for (obj, until), one in now_alive.items() if obj == p
        }

    assert intervals(2) == {expiry[1]: (0.5, 2.5)}
    assert intervals(4) == {expiry[1]: (0.75, 1.75), expiry[3]: (0.25, 1.25)}
    assert intervals(5) == {
        expiry[1]: (1.5, 1.5),
        expiry[3]: (1.0, 1.0),
        expiry[4]: (0.75, 0.75),
    }


def dominates(one, other):
    return one.id != other.id and one.until >= other.until and one.current > other.best


@given(data=st.data())
def test_dominance_persists_and_is_transitive(data):
    width, size = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 8))
    query = TopKIncomplete(
        1, [f"s{at}" for at in range(width)], last(count=size, slide=1), repeats="none"
    )
    value = st.integers(0, 4).map(lambda level: level / 4)
    row = st.tuples(st.integers(0, 4), st.integers(0, width - 1), value)
    rows = list({row[:2]: row for row in data.draw(st.lists(row, max_size=14))}.values())
    before = {}
    for end in range(1, len(rows) + 1):
        current = now(query, rows, end)
        for one, other in product(before.values(), repeat=2):
            keys = [(each.id, each.until) for each in (one, other)]
            if dominates(one, other) and keys[1] in current:
                assert dominates(current[keys[0]], current[keys[1]])
        for one, two, three in product(current.values(), repeat=3):
            if dominates(one, two) and dominates(two, three) and one.id != three.id:
                assert dominates(one, three)
        before = current


def test_the_generator_sends_no_object_twice_in_a_stream():
    for xi in (0.0, 0.5, 1.0):
        rows = sightings(3000, streams=4, xi=xi, memory=30, seed=1)
        pairs = list(zip(rows.id.tolist(), rows.stream.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
    assert len(np.unique(sightings(300, xi=0.0).id)) == 300
    again = sightings(100, seed=5)
    assert np.array_equal(again.id, sightings(200, seed=5).id[:100])
    with pytest.raises(QueryError, match="xi is 2"):
        sightings(5, xi=2)
    with pytest.raises(QueryError, match="memory of 0"):
        sightings(5, memory=0)


@pytest.mark.compiled
def test_correlated_streams_need_fewer_items():
    kept = []
    for xi in (0.0, 0.5, 1.0):
        rows = sightings(4000, streams=2, xi=xi, seed=2)
        query = TopKIncomplete(10, ["s1", "s2"], last(count=500, slide=10), repeats="none")
        monitor = IncompleteMonitor(query, "eaa", options={"slack": 0})
        monitor.push(rows.id, rows.stream, rows.value)
        counted = monitor.counters()
        assert counted["objects"] <= counted["candidates"]
        kept.append(counted["candidates"])
    assert kept[0] > kept[1] > kept[2]
    assert kept[0] < 500
