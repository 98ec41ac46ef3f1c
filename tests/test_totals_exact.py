"""Exact sums: limbs added, subtracted, laid out anew and rounded, against fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skyband.totals.exact import (
    NO_PLACES,
    SPARE,
    add,
    add_sum,
    fits,
    is_surely_below,
    layout,
    places,
    relaid,
    rounded,
    scaled,
)
from tests.kernels import callable_kernel
from tests.oracle_totals import exact_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = st.sampled_from([1.0, 2.0**53, 2.0**-53, 2.0**-54, 2.0**-1074, 1e308, 1.5 * 2.0**-52])
NEAR = st.floats(-1e4, 1e4).map(lambda value: round(value, 2))
VALUES = st.one_of(
    st.lists(st.one_of(FINITE, HARD, HARD.map(lambda value: -value)), max_size=30),
    st.lists(NEAR, max_size=30),
)


def bits_of(values):
    return np.array(values, dtype=np.float64).view(np.int64)


def places_of(values):
    lowest, highest = callable_kernel(places)(bits_of(values), *NO_PLACES)
    return int(lowest), int(highest)


def added(values, origin, size):
    limbs = np.zeros(size, np.int64)
    for bits in bits_of(values):
        callable_kernel(add)(limbs, 0, size, origin, bits)
    return limbs


def limbs_of(values):
    origin, size = layout(*places_of(values))
    return added(values, origin, size), origin


def value_of(limbs, origin, count=1, unit=1):
    scratch = np.zeros(len(limbs) + SPARE, np.int64)
    return callable_kernel(rounded)(limbs, 0, len(limbs), origin, count, unit, scratch)


def whole_of(limbs):
    return sum(limb << (62 * at) for at, limb in enumerate(limbs.tolist()))


def are_carried(limbs):
    return bool((limbs[:-1] >= 0).all() and (limbs[:-1] < 1 << 62).all())


@given(values=VALUES)
def test_a_sum_is_rounded_once(values):
    limbs, origin = limbs_of(values)
    assert value_of(limbs, origin) == exact_sum(values)
    assert whole_of(limbs) * Fraction(2) ** (origin - 1074) == sum(map(Fraction, values))


@given(values=VALUES, count=st.one_of(st.integers(2, 9), st.integers(2, 2**53)))
@example(values=[0.1, 0.1, 0.1], count=3)
@example(values=[2.0**-1074], count=2)
@example(values=[2.0**-1074, 2.0**-1073], count=2)
@example(values=[2.0**-1022], count=3)
@example(values=[1.7e308] * 3, count=3)
def test_a_mean_is_rounded_once(values, count):
    limbs, origin = limbs_of(values)
    assert value_of(limbs, origin, count) == exact_sum(values, count)
    for unit in (10, 10**18):
        assert value_of(limbs, origin, count, unit) == exact_sum(values, count * unit)


@given(values=VALUES)
def test_every_limb_but_the_highest_is_carried(values):
    limbs, origin = limbs_of(values)
    assert are_carried(limbs)
    assert value_of(limbs, origin) == exact_sum(values)


@given(values=VALUES, others=VALUES)
def test_sums_add_up_and_are_taken_away_again(values, others):
    origin, size = layout(*places_of([*values, *others]))
    one, other = added(values, origin, size), added(others, origin, size)
    both = one.copy()
    callable_kernel(add_sum)(both, 0, other, 0, size, 1)
    assert both.tolist() == added([*values, *others], origin, size).tolist()
    callable_kernel(add_sum)(both, 0, other, 0, size, -1)
    assert both.tolist() == one.tolist()


@given(values=VALUES, others=VALUES)
def test_sums_stay_the_same_when_others_need_more_room(values, others):
    old_origin, old_size = layout(*places_of(values))
    origin, size = layout(*places_of([*values, *others]))
    old = added(values, old_origin, old_size)
    new = relaid(old.reshape(1, -1), old_origin - origin, size)[0]
    assert new.tolist() == added(values, origin, size).tolist()


@given(values=VALUES, threshold=st.one_of(FINITE, HARD, NEAR), rows=st.integers(1, 9))
def test_what_is_surely_below_a_threshold_is_below_it_rounded(values, threshold, rows):
    limbs, origin = limbs_of(values)
    limit = callable_kernel(scaled)(threshold, origin, len(limbs))
    total = exact_sum(values)
    if callable_kernel(is_surely_below)(limbs, 0, len(limbs), limit):
        assert total < threshold
    elif 1e-290 < abs(threshold) < 1e290 and len(limbs) == 2:
        assert total > threshold - (abs(threshold) + 1.0) * 1e-6
    if callable_kernel(is_surely_below)(limbs, 0, len(limbs), limit * rows):
        assert exact_sum(values, rows) < threshold


@pytest.mark.parametrize("seed", range(20))
def test_sums_near_halves_are_rounded_to_even(seed):
    chance = random.Random(seed)
    base = chance.getrandbits(53) | 1 << 52
    shift = chance.randint(-1000, 900)
    parts = [base, 0.5, *chance.choice([[], [2.0**-70], [-(2.0**-70)]])]
    values = [math.ldexp(float(part), shift) for part in parts]
    assert value_of(*limbs_of(values)) == math.fsum(values)


def test_limbs_cover_what_is_needed_and_no_more():
    assert places_of([0.0, -0.0, np.inf, np.nan]) == NO_PLACES
    assert places_of([5e-324]) == (0, 0)
    assert places_of([1.0, -2.0, 0.25, np.inf, 0.0]) == (1020, 1023)
    lowest, highest = places_of([1.0, 1e6, 0.01])
    origin, size = layout(lowest, highest)
    assert size == 2
    assert callable_kernel(fits)(lowest, highest, origin, size)
    for spread in (0, 29, 30, 91, 92, 2045):
        origin, size = layout(0, spread)
        assert callable_kernel(fits)(0, spread, origin, size)
        assert size == max(2, math.ceil((spread + 95) / 62))
        assert not callable_kernel(fits)(origin - 1, spread, origin, size)
        assert not callable_kernel(fits)(0, origin + 62 * size - 94, origin, size)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_many_large_numbers_of_one_sign_fit(sign):
    for small in ([], [2.0**-30], [2.0**-100]):
        value = sign * (1.0 - 2.0**-53)
        lowest, highest = places_of([value, *small])
        origin, size = layout(lowest, highest)
        limbs = added([value], origin, size)
        for _ in range(42):  # as if it had been added so often
            callable_kernel(add_sum)(limbs, 0, limbs.copy(), 0, size, 1)
        assert value_of(limbs, origin) == value * 2.0**42
        assert are_carried(limbs)
