"""SAP on windows large enough for its partitions to merge, split and be formed unit by unit."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.kernels import work
from tests.streams import check_counted, check_timed

ROWS = 9_000
SHAPES = [(2_000, 10, 10), (3_000, 20, 20), (2_400, 300, 4)]  # n, s, k
VARIANTS = [
    ("sap-equal", {}),
    ("sap-dynamic", {}),
    ("sap-dynamic", {"savl": False}),
    ("sap", {}),
    ("sap", {"amortise": True}),
    ("sap", {"partitions": 40}),
    ("sap", {"delay": False}),
]


def stream(kind):
    rng = np.random.default_rng(4)
    at = np.arange(ROWS)
    noise = rng.random(ROWS)
    return {
        "random": noise,
        "wave": np.sin(np.pi * at / 1500),
        "noisy wave": np.sin(np.pi * at / 2500) + 0.2 * noise,
        "saw": (at % 1700) / 1700 + 0.01 * noise,
        "falling": -at / 100 + noise,
        "regimes": noise + np.where((at // 1300) % 2 == 0, 0.0, 0.7),
        "plateaus": np.floor(4 * np.sin(at / 700)) + np.floor(3 * noise) / 10,
        "burst": np.where(at % 2100 < 40, 5.0 + noise, noise),
    }[kind]


KINDS = ["random", "wave", "noisy wave", "saw", "falling", "regimes", "plateaus", "burst"]


@pytest.mark.parametrize(("algorithm", "options"), VARIANTS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_partitions_of_all_kinds(algorithm, options, kind):
    shape = SHAPES[KINDS.index(kind) % len(SHAPES)]
    check_counted(
        stream(kind), *shape, algorithm, options=options, cuts=[1, 777, 4_000], check=False
    )


@pytest.mark.parametrize("algorithm", ["sap-dynamic", "sap"])
def test_units_merge_on_random_scores_and_stay_apart_on_rising_ones(algorithm):
    def partitions(scores):
        monitor = check_counted(scores, 2_000, 10, 10, algorithm, check=False)
        return int(monitor.algorithm.work[work.EVENTS])

    units = ROWS // 130
    assert partitions(stream("random")) < units / 2
    assert partitions(np.arange(ROWS, dtype=float)) > units / 2


@pytest.mark.parametrize("algorithm", ["sap-dynamic", "sap"])
@pytest.mark.parametrize("kind", ["random", "noisy wave", "falling"])
def test_partitions_follow_the_rate_of_a_time_window(algorithm, kind):
    rng = np.random.default_rng(1)
    rate = np.where(np.arange(ROWS) % 3000 < 1500, 1, 4)
    times = np.cumsum(rng.integers(0, 3, ROWS) * rate)
    check_timed(stream(kind), times, 4_000, 100, 8, algorithm, cuts=range(0, ROWS, 900))


@pytest.mark.parametrize("kind", ["noisy wave", "random"])
def test_invariants_between_batches(kind):
    for algorithm, options in VARIANTS:
        check_counted(
            stream(kind)[:4000], 1_000, 10, 5, algorithm, options=options, cuts=range(0, 4000, 190)
        )
