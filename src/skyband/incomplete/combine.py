"""How the attributes of an object, one per stream, make its score."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields
from skyband.order import Floats

SUM, LEAST, LARGEST = 0, 1, 2  # how attributes make a score
ONCE, MAX, ADD = 0, 1, 2  # how several values of one attribute count
ROUNDING = 1e-9  # sums of repeated values are exact up to this share

FORM = fields("combine", "repeats", "most", "streams")
"""``combine`` and ``repeats`` are the constants above; ``most`` values of an attribute count."""


class Rule(NamedTuple):
    """How scores are made: weights and bounds per stream, and one record of :data:`FORM`."""

    weight: Floats
    low: Floats
    high: Floats
    form: Record


@lean
def score_at(rule: Rule, values: Floats, base: int) -> float:
    """Compute the score of the values from ``base`` on; NaN stands for no value. O(streams).

    Sums are added from left to right: rounding is monotone, so a larger value never gives a
    smaller score, and every engine gives the same.
    """
    form = rule.form[0]
    combine, score = form.combine, 0.0
    for stream in range(form.streams):
        value = values[base + stream]
        if value != value:
            value = rule.low[stream]
        if combine == SUM:
            value *= rule.weight[stream]
            score = value if stream == 0 else score + value
        elif stream == 0 or (value < score) == (combine == LEAST):
            score = value
    return score


@lean
def join(rule: Rule, before: float, value: float) -> float:
    """Join a value with the earlier ones of its attribute; NaN stands for none."""
    if before != before:
        return value
    if rule.form[0].repeats == ADD:
        return before + value
    return value if value > before else before
