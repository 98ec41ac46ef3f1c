from __future__ import annotations

import numpy as np
import pytest

from skyband import Monitor, TopK, last
from skyband.planner import plan, trend
from skyband.topk import ALGORITHMS

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
    ],
)
def test_choices(shape, observed, expected):
    found = plan(query(*shape), observed)
    assert found.algorithm == expected
    assert found.algorithm in ALGORITHMS
    assert len(found.reasons) >= 2
    assert str(found).startswith(expected)


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


def test_a_restored_monitor_that_saw_nothing_still_decides():
    again = Monitor.restore(Monitor(query(1000, 10, 5)).snapshot())
    again.push(SMOOTH)
    assert again.algorithm.name == "sap-dynamic"


def test_time_windows_use_partitions():
    assert plan(TopK(k=3, window=last(time="1 hour", slide="1 minute")), RANDOM).algorithm == "sap"
