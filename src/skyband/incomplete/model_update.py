"""What foresight learns from a stream: statistics in constant space, and what was lost so far."""

from __future__ import annotations

import numpy as np

from skyband.incomplete.appearance_model import (
    BINS,
    COUNT,
    EPSILON,
    LEVEL,
    LOST,
    MEAN,
    NOW,
    SETTLED,
    SORTS,
    SPAN,
    SPENT,
    VARIANCE,
    WEIGHT,
    Foresight,
    K,
    age_of,
    sort_of,
)
from skyband.incomplete.combine import WIDTH, Rule
from skyband.incomplete.objects import NONE, Store
from skyband.incomplete.sketch import mixed
from skyband.kernels.jit import lean

_STEADY = 12  # windows over which the score of an answer is averaged


@lean
def watch(ahead: Foresight, held: Store, one: int, stream: int, value: float) -> None:
    """A row is about to be added to an object: learn what comes after what it has. O(streams)."""
    by = held.by
    bin = _bin(by, stream, value)
    width = by.numbers[WIDTH]
    ahead.values[(SORTS * width + stream) * BINS + bin] += 1.0
    if held.objects.newest[one] == NONE:
        return
    sort = sort_of(by, held.objects.value, one * width)
    ahead.values[(sort * width + stream) * BINS + bin] += 1.0


@lean
def _bin(by: Rule, stream: int, value: float) -> int:
    low, high = by.low[stream], by.high[stream]
    share = (value - low) / (high - low) if high > low else 0.0
    return max(min(int(share * BINS), BINS - 1), 0)


@lean
def follow_sample(ahead: Foresight, width: int, stream: int, id: int, until: int) -> None:
    """A row came that lives until a window: learn where objects come next, and when.

    O(1) for most rows, O(sample) for those of the sample.
    """
    left, _ = mixed(id)
    numbers = ahead.numbers
    if left & ((1 << numbers[LEVEL]) - 1):
        return
    at = 0
    while at < numbers[COUNT] and ahead.id[at] != id:
        at += 1
    if at == numbers[COUNT]:
        if at == len(ahead.id):
            _thin_out(ahead, until)
            if numbers[COUNT] == len(ahead.id) or left & ((1 << numbers[LEVEL]) - 1):
                return
        at = numbers[COUNT]
        numbers[COUNT] = at + 1
        ahead.id[at] = id
        ahead.seen[at] = 0
    seen = ahead.seen[at]
    if seen != 0 and until - ahead.last[at] <= numbers[SPAN]:
        ahead.next[seen * width + stream] += 1.0
        ahead.delay[age_of(until - ahead.last[at])] += 1.0
        seen |= 1 << stream
    else:
        seen = 1 << stream
    ahead.came[seen] += 1.0
    ahead.seen[at] = seen
    ahead.last[at] = until


@lean
def _thin_out(ahead: Foresight, until: int) -> None:
    """Forget objects of the sample that have expired; if there are none, half of all hashes."""
    numbers = ahead.numbers
    for attempt in range(2):
        kept = 0
        for at in range(numbers[COUNT]):
            left, _ = mixed(ahead.id[at])
            alive = until - ahead.last[at] <= numbers[SPAN]
            if alive and left & ((1 << numbers[LEVEL]) - 1) == 0:
                ahead.id[kept] = ahead.id[at]
                ahead.seen[kept] = ahead.seen[at]
                ahead.last[kept] = ahead.last[at]
                kept += 1
        numbers[COUNT] = kept
        if attempt == 1 or kept < len(ahead.id) or numbers[LEVEL] >= 30:
            return
        numbers[LEVEL] += 1


@lean
def remember(ahead: Foresight, id: int, until: int) -> None:
    """An object is dropped whose newest row would have lived until a window. O(1)."""
    left, right = mixed(id)
    slot = right & (len(ahead.gone) - 1)
    ahead.gone[slot] = left
    ahead.gone_until[slot] = until


@lean
def was_dropped(ahead: Foresight, id: int, until: int) -> bool:
    """Whether an object was dropped that would still be alive when a row comes. O(1)."""
    left, right = mixed(id)
    slot = right & (len(ahead.gone) - 1)
    return ahead.gone[slot] == left and until - ahead.gone_until[slot] <= ahead.numbers[SPAN]


@lean
def note_answer(ahead: Foresight, score: float) -> None:
    """A window was answered; this is the score of its last answer."""
    marks = ahead.marks
    marks[NOW] = score
    marks[WEIGHT] = marks[WEIGHT] * (1.0 - 1.0 / (_STEADY * ahead.numbers[SPAN] + 1.0)) + 1.0
    marks[MEAN] += (score - marks[MEAN]) / marks[WEIGHT]
    marks[VARIANCE] += ((score - marks[MEAN]) ** 2 - marks[VARIANCE]) / marks[WEIGHT]


@lean
def is_ready(ahead: Foresight) -> bool:
    """Whether enough windows were answered to know what it takes."""
    return ahead.marks[WEIGHT] >= min(0.5 * ahead.numbers[SPAN], 100.0) and ahead.marks[EPSILON] > 0


@lean
def account(ahead: Foresight, window: int, error: float) -> None:
    """Expected losses since the last sweep are known: ask for more of an object, or for less."""
    numbers, marks = ahead.numbers, ahead.marks
    passed = float(max(window - numbers[SETTLED], 1))
    numbers[SETTLED] = window
    part = min(passed / max(numbers[SPAN], 1), 1.0)
    marks[SPENT] += (marks[LOST] / passed - marks[SPENT]) * part
    marks[LOST] = 0.0
    target = error * numbers[K]
    if target > 0:
        change = max(min((target - marks[SPENT]) / target, 1.0), -1.0)
        marks[EPSILON] *= np.exp(min(2.0 * part, 0.5) * change)
