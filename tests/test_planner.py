from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband import DataError, Monitor, TopK, last
from skyband.topk import ALGORITHMS
from skyband.topk.planner import plan, trend

RANDOM = np.random.default_rng(0).random(5000)
SMOOTH = np.sin(np.arange(5000) / 500)


def query(n, s, k):
    return TopK(k=k, window=last(count=n, slide=s))


def test_trend_is_seen():
    assert trend(RANDOM) is False
    assert trend(SMOOTH) is True
    assert trend(RANDOM[:20]) is None
    assert trend(np.zeros(5000)) is None
    assert trend(np.full(100, np.nan)) is None


@pytest.mark.parametrize(
    ("shape", "observed", "expected"),
    [
        ((10**6, 10**3, 100), RANDOM, "sap"),
        ((10**6, 10**3, 100), None, "sap"),
        ((10**4, 100, 1000), RANDOM, "tma"),
        ((10**4, 100, 1000), None, "sap"),
        ((10**5, 100, 100), SMOOTH, "sap-dynamic"),
        ((10**4, 10, 10), RANDOM, "tma"),
        ((10**4, 100, 10), RANDOM, "sap"),
        ((10**5, 10**4, 1000), SMOOTH, "tma"),
    ],
)
def test_choices(shape, observed, expected):
    choice = plan(query(*shape), observed)
    assert choice.algorithm == expected
    assert choice.algorithm in ALGORITHMS
    assert len(choice.reasons) >= 2
    assert str(choice).startswith(expected)


def test_auto_decides_on_the_first_scores_and_stays():
    monitor = Monitor(query(1000, 10, 100))
    assert monitor.plan.algorithm == "sap"
    monitor.push(np.empty(0))
    monitor.push(RANDOM)
    assert monitor.plan.algorithm == monitor.algorithm.name == "tma"
    monitor.push(SMOOTH)
    assert monitor.algorithm.name == "tma"
    again = Monitor.restore(monitor.snapshot())
    assert again.algorithm.name == "tma"
    assert again.plan == monitor.plan
    assert again.explain() == monitor.explain()


def test_small_batches_are_kept_until_they_tell():
    scores = RANDOM[:3000]
    one = Monitor(query(1000, 10, 100))
    whole = one.push(scores).to_arrow()
    many = Monitor(query(1000, 10, 100))
    tables = [many.push(scores[at : at + 7]).to_arrow() for at in range(0, 35, 7)]
    assert many.plan.algorithm == "sap"
    many = Monitor.restore(many.snapshot())
    tables += [many.push(scores[at : at + 7]).to_arrow() for at in range(35, 3000, 7)]
    assert many.algorithm.name == one.algorithm.name == "tma"
    assert pa.concat_tables(tables).equals(whole)


def test_options_mean_sap():
    monitor = Monitor(query(1000, 10, 100), options={"savl": False})
    monitor.push(RANDOM)
    assert monitor.algorithm.name == "sap"


def test_a_refused_batch_decides_nothing():
    monitor = Monitor(query(1000, 10, 5))
    with pytest.raises(DataError):
        monitor.push(SMOOTH, ids=[1])
    assert monitor.plan.algorithm == "sap"


def test_huge_steps_do_not_warn():
    assert trend(np.array([1e308, -1e308] * 50)) is False


def test_a_restored_monitor_that_saw_nothing_still_decides():
    again = Monitor.restore(Monitor(query(1000, 10, 5)).snapshot())
    again.push(SMOOTH)
    assert again.algorithm.name == "sap-dynamic"


def test_time_windows_use_partitions():
    assert plan(TopK(k=3, window=last(time="1 hour", slide="1 minute")), RANDOM).algorithm == "sap"
