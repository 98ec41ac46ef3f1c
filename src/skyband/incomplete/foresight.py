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

from skyband.kernels.combine import (
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
from skyband.kernels.jit import entry, lean
from skyband.kernels.objects import NONE, Store
from skyband.kernels.sketch import mixed
from skyband.order import Floats, Ints

GRID = 96  # steps of a gap between two scores
BINS = 16  # of values
SORTS = 4  # of objects, by the values they have had
_FINE = 8  # ages per octave
_POINTS = 11  # at which the score of an answer is tried
_REACH = 2.5  # standard deviations on both sides
_PRIOR = 8.0  # rows after which objects of one sort are told from all others
_GONE = 1 << 14  # slots for objects that were dropped
_HALF_LIFE = 8  # windows
_STEADY = 12  # windows over which the score of an answer is averaged

_TURNS = np.linspace(-_REACH, _REACH, _POINTS)
_WEIGHTS = np.exp(-0.5 * _TURNS**2) / np.exp(-0.5 * _TURNS**2).sum()

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
    sets, ages = 1 << width, int(_FINE * math.log2(span + 1.0)) + 2  # as _age tells them
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
def _age(windows: int) -> int:
    """The number of an age: finer for the young."""
    return int(_FINE * np.log2(max(windows, 0) + 1.0))


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
def _sort(by: Rule, values: Floats, base: int) -> int:
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


@lean
def _bin(by: Rule, stream: int, value: float) -> int:
    low, high = by.low[stream], by.high[stream]
    share = (value - low) / (high - low) if high > low else 0.0
    return max(min(int(share * BINS), BINS - 1), 0)


@lean
def watch(ahead: Foresight, held: Store, one: int, stream: int, value: float) -> None:
    """A row is about to be added to an object: learn what comes after what it has. O(streams)."""
    by = held.by
    bin = _bin(by, stream, value)
    width = by.numbers[WIDTH]
    ahead.values[(SORTS * width + stream) * BINS + bin] += 1.0
    if held.objects.newest[one] == NONE:
        return
    values = held.values
    for at in range(width):
        values[at] = np.nan
    row = held.objects.oldest[one]
    while row != NONE:
        values[held.rows.stream[row]] = held.rows.value[row]
        row = held.rows.after[row]
    sort = _sort(by, values, 0)
    ahead.values[(sort * width + stream) * BINS + bin] += 1.0


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
        ahead.delay[_age(until - ahead.last[at])] += 1.0
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
        age_sum += ahead.delay[at] * (2.0 ** ((at + 0.5) / _FINE) - 1.0)
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
    first, widest = span_of(by)
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
def span_of(by: Rule) -> tuple[float, float]:
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
    row = (_sort(by, values, base) * len(ahead.came) + seen) * (GRID + 1)
    last = len(ahead.late) - 1
    now = ahead.late[min(_age(age), last)]
    then = ahead.late[min(_age(age + until - window + 1) + 1, last)]
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
    first, widest = span_of(by)
    if by.numbers[HOW] == SUM:
        return _at(ahead.reach, row, (goal - score) / widest, 1)
    if by.numbers[HOW] == LEAST:
        for at in range(by.numbers[WIDTH]):
            if values[base + at] < goal:  # not so for NaN
                return 0.0
    return _at(ahead.reach, row, (goal - first) / widest, 1)


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
