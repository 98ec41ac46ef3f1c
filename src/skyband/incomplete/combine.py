"""One score of the attributes of an object, one attribute per stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Floats, Ints

SUM, LEAST, LARGEST = 0, 1, 2  # how attributes make a score
ONCE, MAX, ADD = 0, 1, 2  # what becomes of several values of one attribute
ROUNDING = 1e-9  # sums of repeated values are exact up to this share
HOW, REPEATS, MOST, WIDTH = 0, 1, 2, 3


class Rule(NamedTuple):
    """How scores are made: weights and bounds per stream, and ``numbers`` as named above."""

    weight: Floats
    low: Floats
    high: Floats
    numbers: Ints


def rule(how: int, repeats: int, most: int, weight: Floats, low: Floats, high: Floats) -> Rule:
    """A rule for as many streams as there are weights."""
    return Rule(weight, low, high, np.array([how, repeats, most, len(weight)], np.int64))


@lean
def score_at(by: Rule, values: Floats, base: int) -> float:
    """The score of the values from ``base`` on; NaN stands for what was not seen. O(streams).

    Sums are added from left to right: rounding is monotone, so a larger value never gives a
    smaller score, and every engine gives the same.
    """
    how, width = by.numbers[HOW], by.numbers[WIDTH]
    found = 0.0
    for at in range(width):
        value = values[base + at]
        if value != value:
            value = by.low[at]
        if how == SUM:
            value *= by.weight[at]
            found = value if at == 0 else found + value
        elif at == 0 or (value < found) == (how == LEAST):
            found = value
    return found


@lean
def join(by: Rule, before: float, value: float) -> float:
    """What several values of one attribute count for; NaN stands for none before."""
    if before != before:
        return value
    if by.numbers[REPEATS] == ADD:
        return before + value
    return value if value > before else before
