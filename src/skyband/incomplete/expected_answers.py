"""What foresight makes of its statistics: how likely objects reach a score, and their worth."""

from __future__ import annotations

import numpy as np

from skyband.incomplete.appearance_model import (
    BINS,
    COUNT,
    DELAY,
    FINE,
    GRID,
    LEVEL,
    MEAN,
    NOW,
    REFRESHED,
    SORTS,
    SPAN,
    VARIANCE,
    Foresight,
    age_of,
    sort_of,
    streams_seen,
)
from skyband.incomplete.combine import (
    ADD,
    HOW,
    LARGEST,
    LEAST,
    MOST,
    REPEATS,
    SUM,
    WIDTH,
    Rule,
    score_at,
)
from skyband.incomplete.objects import Store
from skyband.kernels.jit import entry, lean
from skyband.order import Floats

_POINTS = 11  # at which the score of an answer is tried
_REACH = 2.5  # standard deviations on both sides
_TURNS = np.linspace(-_REACH, _REACH, _POINTS)
_WEIGHTS = np.exp(-0.5 * _TURNS**2) / np.exp(-0.5 * _TURNS**2).sum()
_PRIOR = 8.0  # rows after which objects of one sort are told from all others
_HALF_LIFE = 8  # windows


@entry
def look_ahead(ahead: Foresight, by: Rule, window: int) -> None:
    """Make the tables of the statistics, and let these grow old. O(2**streams * streams)."""
    numbers = ahead.numbers
    passed = float(window - numbers[REFRESHED])
    fade = 0.5 ** (passed / (_HALF_LIFE * numbers[SPAN]))
    _fade(ahead.came, fade)
    _fade(ahead.next, fade)
    _fade(ahead.delay, fade)
    _fade(ahead.values, fade)
    numbers[REFRESHED] = window
    if numbers[LEVEL] > 0 and numbers[COUNT] < len(ahead.id) // 4:
        numbers[LEVEL] -= 1
    _tell_ages(ahead)
    for seen in range(len(ahead.came) - 1, 0, -1):
        _tell_reach(ahead, by, seen)


@lean
def _fade(array: Floats, fade: float) -> None:
    for at in range(len(array)):
        array[at] *= fade


@lean
def _tell_ages(ahead: Foresight) -> None:
    total, age_sum = 0.0, 0.0
    for at in range(len(ahead.delay)):
        total += ahead.delay[at]
        age_sum += ahead.delay[at] * (2.0 ** ((at + 0.5) / FINE) - 1.0)
    ahead.marks[DELAY] = age_sum / total if total > 0 else 0.0
    left = total
    last = len(ahead.late) - 1
    for at in range(len(ahead.late)):
        if total > 0:
            ahead.late[at] = max(left, 0.0) / total
            left -= ahead.delay[at]
        else:
            ahead.late[at] = 0.0 if at == last else 1.0


@lean
def _chance(ahead: Foresight, width: int, seen: int, stream: int) -> float:
    """How likely an object that came in these streams comes in another one next."""
    return (ahead.next[seen * width + stream] + 0.5 / width) / (ahead.came[seen] + 1.0)


@lean
def _tell_reach(ahead: Foresight, by: Rule, seen: int) -> None:
    """How likely an object that came in these streams overcomes each gap."""
    width, sets = by.numbers[WIDTH], len(ahead.came)
    again, same = 0.0, 0.0
    for stream in range(width):
        chance = _chance(ahead, width, seen, stream)
        if (seen >> stream) & 1:
            same += chance if ahead.next[seen * width + stream] > 0 else 0.0
        else:
            again += chance
    more = by.numbers[REPEATS] == ADD
    ahead.again[seen] = min(again + (same if more else 0.0), 1.0)
    share = 1.0 if more else 1.0 / max(1.0 - same, 0.05)
    for sort in range(SORTS):
        row = (sort * sets + seen) * (GRID + 1)
        for at in range(GRID + 1):
            ahead.reach[row + at] = 0.0
        for stream in range(width):
            if (seen >> stream) & 1 == 0:
                part = _chance(ahead, width, seen, stream) * share
                _add_reach(ahead, by, row, sort, seen | (1 << stream), stream, part)
            elif more and ahead.next[seen * width + stream] > 0:
                part = _chance(ahead, width, seen, stream)
                _add_reach(ahead, by, row, sort, 0, stream, part * min(by.numbers[MOST], 4))
        for at in range(GRID + 1):
            ahead.reach[row + at] = min(ahead.reach[row + at], 1.0)


@lean
def _add_reach(
    ahead: Foresight, by: Rule, row: int, sort: int, after: int, stream: int, chance: float
) -> None:
    """Add what coming in a stream does, after which the streams seen are ``after``, 0 for none."""
    width, sets = by.numbers[WIDTH], len(ahead.came)
    base, all = (sort * width + stream) * BINS, (SORTS * width + stream) * BINS
    own, total = 0.0, 0.0
    for at in range(BINS):
        own += ahead.values[base + at]
        total += ahead.values[all + at] + 1.0 / BINS
    then = (sort * sets + after) * (GRID + 1)
    first, widest = _span_of(by)
    for bin in range(BINS):
        common = (ahead.values[all + bin] + 1.0 / BINS) / total
        part = chance * (ahead.values[base + bin] + _PRIOR * common) / (own + _PRIOR)
        gain = (bin + 0.5) / BINS * (by.high[stream] - by.low[stream]) * by.weight[stream]
        value = by.low[stream] + (bin + 0.5) / BINS * (by.high[stream] - by.low[stream])
        for at in range(GRID + 1):
            goal = first + widest * at / GRID
            if by.numbers[HOW] == SUM:
                rest = goal - gain
                overcome = 1.0 if rest <= 0.0 else _at(ahead.reach, then, rest / widest, after)
            elif by.numbers[HOW] == LARGEST:
                overcome = 1.0 if value >= goal else _at(ahead.reach, then, at / GRID, after)
            else:
                full = after == sets - 1
                further = 1.0 if full else _at(ahead.reach, then, at / GRID, after)
                overcome = further if value >= goal else 0.0
            ahead.reach[row + at] += part * overcome


@lean
def _span_of(by: Rule) -> tuple[float, float]:
    """The first goal of a table, and how far the others go: gaps of sums, scores otherwise."""
    low, high, total = np.inf, -np.inf, 0.0
    for at in range(by.numbers[WIDTH]):
        total += by.weight[at] * (by.high[at] - by.low[at])
        low, high = min(low, by.low[at]), max(high, by.high[at])
    if by.numbers[HOW] == SUM:
        return 0.0, total if total > 0.0 else 1.0
    return low, high - low if high > low else 1.0


@lean
def _at(table: Floats, row: int, share: float, seen: int) -> float:
    """A table between two of its steps; nothing is known of no streams."""
    if seen == 0 or share > 1.0:
        return 0.0
    place = max(share, 0.0) * GRID
    at = min(int(place), GRID - 1)
    part = place - at
    return table[row + at] * (1.0 - part) + table[row + at + 1] * part


@lean
def expected(
    ahead: Foresight, held: Store, one: int, values: Floats, threshold: float, until: int,
    newest: int, window: int,
) -> tuple[float, float]:  # fmt: skip
    """In how many windows an instance is expected to be an answer until it expires.

    Also tells for how many windows it has to be kept, either to be one or to know better.

    ``values`` are those of the instance, ``threshold`` is what k objects that outlive it have,
    ``newest`` until when its object's newest row lives. O(streams).
    """
    by, marks, span = held.by, ahead.marks, ahead.numbers[SPAN]
    base = one * by.numbers[WIDTH]
    score, seen = score_at(by, values, base), streams_seen(held, one)
    left, age = float(until - window + 1), window - 1 + span - newest
    row = (sort_of(by, values, base) * len(ahead.came) + seen) * (GRID + 1)
    last = len(ahead.late) - 1
    now = ahead.late[min(age_of(age), last)]
    then = ahead.late[min(age_of(age + until - window + 1) + 1, last)]
    again = ahead.again[seen]
    in_time = (now - then) / max(1.0 - again * (1.0 - now), 1e-9)
    found = 0.0
    alike = max(1.0 - 0.5 * left / span, 0.0)  # windows share rows, and so do their answers
    mean = marks[MEAN] + alike * (marks[NOW] - marks[MEAN])
    deviation = np.sqrt(max(marks[VARIANCE] * (1.0 - alike * alike), 0.0))
    for at in range(_POINTS):
        goal = max(mean + _TURNS[at] * deviation, threshold)
        if score >= goal:
            found += _WEIGHTS[at]
        else:
            found += _WEIGHTS[at] * in_time * _overcome(ahead, by, row, goal, score, values, base)
    missing = 0
    for at in range(by.numbers[WIDTH]):
        missing += 1 - ((seen >> at) & 1)
    delay = marks[DELAY]
    stay = max(left - 0.5 * missing * delay, 0.1 * left)
    wait = left if missing == 0 else min(left, max(2.0 * delay - age, 0.2 * delay, 1.0))
    return stay * found, wait


@lean
def _overcome(
    ahead: Foresight, by: Rule, row: int, goal: float, score: float, values: Floats, base: int
) -> float:
    first, widest = _span_of(by)
    if by.numbers[HOW] == SUM:
        return _at(ahead.reach, row, (goal - score) / widest, 1)
    if by.numbers[HOW] == LEAST:
        for at in range(by.numbers[WIDTH]):
            if values[base + at] < goal:  # not so for NaN
                return 0.0
    return _at(ahead.reach, row, (goal - first) / widest, 1)
