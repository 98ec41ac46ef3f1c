"""In how many windows an object is expected to be an answer, learnt from the stream itself.

What is learnt, all of it in constant space, and what it is for:
  - a sample of objects, by their hash, followed through all streams: where an object that came in
    some streams comes next, how likely, and after how long;
  - a histogram of the values of each stream, apart for objects whose values were low or high so
    far;
  - the hashes of objects that were dropped: if one comes again, what it had is lost, and it is not
    taken for a new one;
  - the score of the last answer of the windows so far: its mean and its deviation.
From these follows how likely an object reaches the score of an answer: a sum over the streams it
may come in next, what it may be worth there, and so on until it has come in all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skyband.incomplete.combine import WIDTH, Rule
from skyband.incomplete.objects import Store
from skyband.kernels.jit import lean
from skyband.order import Floats, Ints

GRID = 96  # steps of a gap between two scores
BINS = 16  # of values
SORTS = 4  # of objects, by the values they have had
FINE = 8  # ages per octave
_GONE = 1 << 14  # slots for objects that were dropped

MEAN, VARIANCE, WEIGHT, EPSILON, LOST, SPENT, DELAY, NOW = range(8)
COUNT, LEVEL, SPAN, REFRESHED, SETTLED, K = range(6)


class Foresight(NamedTuple):
    """Statistics, and the tables made of them; sets of streams are bits."""

    id: Ints  # the sample: who,
    seen: Ints  # in which streams,
    last: Ints  # and until when the newest row lives
    gone: Ints  # hashes of objects that were dropped, each in its own slot,
    gone_until: Ints  # and until when they would have lived
    came: Floats  # per set: how often an object had come in exactly these
    next: Floats  # set * streams + stream: and came there next
    delay: Floats  # per age: returns after so long
    values: Floats  # ((sort or all) * streams + stream) * BINS + bin
    reach: Floats  # (sort * sets + set) * (GRID + 1) + gap: how likely it is overcome
    again: Floats  # per set: how likely an object comes again
    late: Floats  # per age: the share of returns after so long or longer
    marks: Floats  # MEAN and so on
    numbers: Ints  # COUNT and so on


def foresight(by: Rule, k: int, span: int, error: float, sample: int) -> Foresight:
    """Nothing learnt yet; ``error`` is the share of answers that may be missed."""
    width = len(by.high)
    sets, ages = 1 << width, int(FINE * math.log2(span + 1.0)) + 2  # as _age tells them
    marks = np.zeros(8)
    marks[EPSILON] = 0.05 * error
    numbers = np.zeros(6, np.int64)
    numbers[SPAN], numbers[K] = span, k
    return Foresight(
        np.zeros(sample, np.int64),
        np.zeros(sample, np.int64),
        np.zeros(sample, np.int64),
        np.zeros(_GONE, np.int64),
        np.full(_GONE, -1, np.int64),
        np.zeros(sets),
        np.zeros(sets * width),
        np.zeros(ages),
        np.zeros((SORTS + 1) * width * BINS),
        np.ones(SORTS * sets * (GRID + 1)),
        np.ones(sets),
        np.ones(ages),
        marks,
        numbers,
    )


def nothing_foreseen() -> Foresight:
    """No room for statistics, where none are needed."""
    empty = [np.zeros(0, np.int64)] * 5 + [np.zeros(0)] * 7
    return Foresight._make([*empty, np.zeros(8), np.zeros(6, np.int64)])


@lean
def age_of(windows: int) -> int:
    """The number of an age: finer for the young."""
    return int(FINE * np.log2(max(windows, 0) + 1.0))


@lean
def streams_seen(held: Store, one: int) -> int:
    """The streams in which an object came, as bits."""
    width = held.by.numbers[WIDTH]
    found = 0
    for at in range(width):
        if held.objects.seen[one * width + at] > 0:
            found |= 1 << at
    return found


@lean
def sort_of(by: Rule, values: Floats, base: int) -> int:
    """The sort of an object by the mean of its values within their bounds; NaN is no value."""
    total, count = 0.0, 0
    for at in range(by.numbers[WIDTH]):
        value = values[base + at]
        if value == value and by.high[at] > by.low[at]:
            total += (value - by.low[at]) / (by.high[at] - by.low[at])
            count += 1
    if count == 0:
        return SORTS - 1
    return max(min(int(total / count * SORTS), SORTS - 1), 0)
