"""The appearance model: in which streams objects come next, when, and with which values.

What is learnt from the stream, all of it in constant space, and what it is for:
  - a sample of objects, by their hash, followed through all streams: where an object that came in
    some streams comes next, how likely, and after how long;
  - a histogram of the values of each stream, apart for objects whose values were low or high so
    far: their grade;
  - the hashes of objects that were dropped: if one comes again, its earlier rows are lost, and it
    is not taken for a new one;
  - the score of the last answer of the windows so far: its mean and its deviation.
From these follows how likely an object reaches the score of an answer: a sum over the streams it
may come in next, what it may be worth there, and so on until it has come in all of them.

How the model learns is in :mod:`skyband.incomplete.model_update`, what is expected from it in
:mod:`skyband.incomplete.expected_answers`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skyband.incomplete.combine import Rule
from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints

GRID = 96  # steps of a gap between two scores
BINS = 16  # of values
GRADES = 4  # of objects, by the values they have had
FINE = 8  # ages per octave
_DROPPED = 1 << 14  # slots for objects that were dropped

MODEL = fields(
    "sampled",
    "level",
    "refreshed",
    "accounted",
    real=(
        "error",
        "average",
        "variance",
        "weight",
        "last_answer",
        "least_rate",
        "lost",
        "loss",
        "mean_delay",
    ),
)
"""The numbers of a model.

``sampled, level``  objects in the sample: those whose hashes end with ``level`` zeros
``refreshed``       the window for which the tables were made
``accounted``       the window of the last sweep
``error``           the share of answers that may be missed
``mean, variance``  of the score of the last answer, over windows of a total ``weight``
``last_answer``     that score in the newest window
``least_rate``      objects expected to answer a smaller share of windows are dropped
``lost``            answers that windows are expected to miss, of objects dropped in this sweep
``loss``            the same a window, averaged over the sweeps of a window
``mean_delay``      windows between two appearances of an object
"""


class AppearanceModel(NamedTuple):
    """Statistics, and the tables made of them; sets of streams are bits."""

    sample_id: Ints  # the sample: objects,
    sample_streams: Ints  # the streams in which they came,
    sample_until: Ints  # and until when their newest rows live
    dropped: Ints  # hashes of objects that were dropped, each in its own slot,
    dropped_until: Ints  # and until when they would have lived
    came: Floats  # per set: how often an object had come in exactly these streams
    next: Floats  # set * streams + stream: how often it came there next
    delay: Floats  # per age: returns after so long
    values: Floats  # ((grade, or GRADES for all) * streams + stream) * BINS + bin
    gain: Floats  # (grade * sets + set) * (GRID + 1) + gap: how likely the gap is closed
    again: Floats  # per set: how likely an object comes again
    late: Floats  # per age: the share of returns after so long or longer
    now: Record  # of MODEL


def new_model(rule: Rule, span: int, error: float, sample: int) -> AppearanceModel:
    """A model that has learnt nothing; ``error`` is the share of answers that may be missed."""
    width = len(rule.high)
    sets, ages = 1 << width, int(FINE * math.log2(span + 1.0)) + 2  # as age_of numbers them
    return AppearanceModel(
        np.zeros(sample, np.int64),
        np.zeros(sample, np.int64),
        np.zeros(sample, np.int64),
        np.zeros(_DROPPED, np.int64),
        np.full(_DROPPED, -1, np.int64),
        np.zeros(sets),
        np.zeros(sets * width),
        np.zeros(ages),
        np.zeros((GRADES + 1) * width * BINS),
        np.ones(GRADES * sets * (GRID + 1)),
        np.ones(sets),
        np.ones(ages),
        record(MODEL, error=error, least_rate=0.05 * error),
    )


@lean
def age_of(windows: int) -> int:
    """The number of an age: finer for the young."""
    return int(FINE * np.log2(max(windows, 0) + 1.0))


@lean
def grade_of(rule: Rule, values: Floats, base: int) -> int:
    """The grade of an object by the mean of its values within their bounds; NaN is no value."""
    total, count = 0.0, 0
    for stream in range(rule.form[0].streams):
        value = values[base + stream]
        if value == value and rule.high[stream] > rule.low[stream]:
            total += (value - rule.low[stream]) / (rule.high[stream] - rule.low[stream])
            count += 1
    if count == 0:
        return GRADES - 1
    return max(min(int(total / count * GRADES), GRADES - 1), 0)
