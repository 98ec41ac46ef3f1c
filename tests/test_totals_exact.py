"""Exact sums: limbs added, taken away, carried and rounded, against fractions."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.totals.exact import add, carry, limbs_for, rounded
from tests.kernels import callable_kernel
from tests.oracle_totals import exact_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = st.sampled_from([1.0, 2.0**53, 2.0**-53, 2.0**-54, 2.0**-1074, 1e308, 1.5 * 2.0**-52])
VALUES = st.lists(st.one_of(FINITE, HARD, HARD.map(lambda value: -value)), max_size=30)


def bits_of(values):
    return np.array(values, dtype=np.float64).view(np.int64)


def limbs_of(values):
    lowest, beyond = limbs_for(bits_of(values))
    limbs = np.zeros(max(beyond - lowest, 3), np.int64)
    for bits in bits_of(values):
        callable_kernel(add)(limbs, 0, lowest, bits)
    return limbs, lowest


def value_of(limbs, lowest):
    scratch = np.zeros(len(limbs) + 2, np.int64)
    return callable_kernel(rounded)(limbs, 0, len(limbs), lowest, scratch)


@given(values=VALUES)
def test_a_sum_is_rounded_once(values):
    assert value_of(*limbs_of(values)) == exact_sum(values)


@given(values=VALUES)
def test_carrying_does_not_change_a_sum(values):
    limbs, lowest = limbs_of(values)
    callable_kernel(carry)(limbs, 0, len(limbs))
    assert (limbs[:-1] >= 0).all()
    assert (limbs[:-1] < 1 << 32).all()
    assert value_of(limbs, lowest) == exact_sum(values)


@pytest.mark.parametrize("seed", range(20))
def test_sums_near_halves_are_rounded_to_even(seed):
    chance = random.Random(seed)
    base = chance.getrandbits(53) | 1 << 52
    shift = chance.randint(-1000, 900)
    parts = [base, 0.5, *chance.choice([[], [2.0**-70], [-(2.0**-70)]])]
    values = [math.ldexp(float(part), shift) for part in parts]
    assert value_of(*limbs_of(values)) == math.fsum(values)


def test_limbs_cover_what_is_needed_and_no_more():
    assert limbs_for(bits_of([0.0, -0.0, np.inf, np.nan])) == (0, 0)
    assert limbs_for(bits_of([5e-324])) == (0, 3)
    lowest, beyond = limbs_for(bits_of([1.0, 1e6, 0.01]))
    assert beyond - lowest <= 4


def test_many_large_numbers_of_one_sign_fit():
    limbs, lowest = limbs_of([1.0 - 2.0**-53])
    limbs *= 1 << 30  # as if it had been added so often
    assert value_of(limbs, lowest) == (1.0 - 2.0**-53) * 2.0**30
    callable_kernel(carry)(limbs, 0, len(limbs))
    assert value_of(limbs, lowest) == (1.0 - 2.0**-53) * 2.0**30
