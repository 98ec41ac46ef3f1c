"""Which rows no answer can need any more: one sweep from the newest to the oldest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.appearance_model import EPSILON, LOST, Foresight, streams_seen
from skyband.incomplete.best_score import CERTAIN, FORESIGHT, KIND, Hopes, hoped
from skyband.incomplete.combine import ADD, MAX, MOST, REPEATS, ROUNDING, WIDTH, join, score_at
from skyband.incomplete.expected_answers import expected
from skyband.incomplete.model_update import is_ready
from skyband.incomplete.objects import FIRST, LAST, NONE, OBJECTS, Store
from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints

_NEVER = 1 << 62


class Sweep(NamedTuple):
    """Room for a sweep: the k best current scores met so far, and what is known per object."""

    values: Floats  # object * streams + stream: of the rows met so far; NaN if none
    since: Ints  # per object: the earliest last window of an instance that is kept
    place: Ints  # per object: where it stands in the heap
    worth: Floats  # per object: in how many windows it is expected to be an answer,
    rate: Floats  # and in which share of the windows for which it would have to be kept
    score: Floats  # a heap, its least score first
    owner: Ints


def sweeping(k: int, room: int, width: int) -> Sweep:
    """Room for so many objects."""
    since, place = np.zeros(room, np.int64), np.zeros(room, np.int64)
    worth, rate = np.zeros(room), np.zeros(room)
    heap = np.zeros(k), np.zeros(k, np.int64)
    return Sweep(np.zeros(room * width), since, place, worth, rate, *heap)


def roomier_sweep(old: Sweep, room: int, width: int) -> Sweep:
    """Room for more objects; nothing outlives a sweep."""
    return sweeping(len(old.score), room, width)


class Outlook(NamedTuple):
    """What is hoped for, what is foreseen, and the window that is answered next."""

    hopes: Hopes
    ahead: Foresight
    window: int


@lean
def sweep(held: Store, room: Sweep, outlook: Outlook, k: int, work: Ints) -> int:
    """Mark the rows that are dominated; returns how many instances are not.

    O(rows * (streams + log k)).
    """
    rows, numbers = held.rows, held.numbers
    kind = outlook.hopes.numbers[KIND]
    apart = kind == CERTAIN and held.by.numbers[REPEATS] == MAX
    _begin(held, room)
    size, kept = 0, 0
    high = numbers[LAST]
    while high > numbers[FIRST]:
        until = rows.until[high - 1]
        low = high
        while low > numbers[FIRST] and rows.until[low - 1] == until:
            low -= 1
            size = _meet(held, room, low, size, k, work)
        threshold = room.score[0] if size == k else -np.inf
        if apart:
            kept += _keep_rows(held, room, low, high, threshold)
        else:
            kept += _keep_instances(held, room, outlook, low, high, threshold)
        high = low
    if apart:
        _mark_lonely(held, room)
        return kept
    if kind == FORESIGHT:
        _drop_unlikely(held, room, outlook.ahead, room.score[0] if size == k else -np.inf)
    for row in range(numbers[FIRST], numbers[LAST]):
        one = rows.owner[row]
        if one != NONE and rows.until[row] < room.since[one]:
            rows.owner[row] = NONE
    return kept


@lean
def _begin(held: Store, room: Sweep) -> None:
    for one in range(held.numbers[OBJECTS]):
        room.since[one] = _NEVER
        room.place[one] = NONE
        room.worth[one] = 0.0
        room.rate[one] = 0.0
    for at in range(held.numbers[OBJECTS] * held.by.numbers[WIDTH]):
        room.values[at] = np.nan


@lean
def _meet(held: Store, room: Sweep, row: int, size: int, k: int, work: Ints) -> int:
    """Take a row into the current score of its object; returns the size of the heap.

    With ``repeats="max"`` a row that newer ones outdo is marked: it never matters.
    """
    rows, by = held.rows, held.by
    one = rows.owner[row]
    base = one * by.numbers[WIDTH]
    at = base + rows.stream[row]
    if by.numbers[REPEATS] == MAX and room.values[at] >= rows.value[row]:
        rows.owner[row] = NONE
        return size
    room.values[at] = join(by, room.values[at], rows.value[row])
    score = score_at(by, room.values, base)
    if room.place[one] != NONE:
        _sink(room, room.place[one], size, score, one)
        work[COMPARISONS] += 1
    elif size < k:
        _rise(room, size, score, one)
        work[COMPARISONS] += 1
        size += 1
    elif score > room.score[0]:
        room.place[room.owner[0]] = NONE
        _sink(room, 0, size, score, one)
        work[COMPARISONS] += 1
    return size


@lean
def _sink(room: Sweep, hole: int, size: int, score: float, one: int) -> None:
    """Put an object at a place of the heap whose score was no higher. O(log k)."""
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and room.score[child + 1] < room.score[child]:
            child += 1
        if score <= room.score[child]:
            break
        room.score[hole] = room.score[child]
        room.owner[hole] = room.owner[child]
        room.place[room.owner[hole]] = hole
        hole = child
    room.score[hole] = score
    room.owner[hole] = one
    room.place[one] = hole


@lean
def _rise(room: Sweep, hole: int, score: float, one: int) -> None:
    """Put an object at the end of the heap, or above. O(log k)."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if room.score[parent] <= score:
            break
        room.score[hole] = room.score[parent]
        room.owner[hole] = room.owner[parent]
        room.place[room.owner[hole]] = hole
        hole = parent
    room.score[hole] = score
    room.owner[hole] = one
    room.place[one] = hole


@lean
def _keep_rows(held: Store, room: Sweep, low: int, high: int, threshold: float) -> int:
    """Mark the rows with which no object can reach the threshold; returns how many can.

    The newest row of an object is left: it decides between equal scores while others are kept.
    """
    rows, by, values = held.rows, held.by, held.values
    kept = 0
    for at in range(by.numbers[WIDTH]):
        values[at] = by.high[at]
    for row in range(low, high):
        if rows.owner[row] == NONE:
            continue
        one, stream = rows.owner[row], rows.stream[row]
        values[stream] = rows.value[row]
        if not threshold > score_at(by, values, 0):
            room.since[one] = rows.until[row]
            kept += 1
        elif row != held.objects.newest[one]:
            rows.owner[row] = NONE
        values[stream] = by.high[stream]
    return kept


@lean
def _mark_lonely(held: Store, room: Sweep) -> None:
    """Mark the newest rows of objects of which nothing else is kept."""
    for one in range(held.numbers[OBJECTS]):
        newest = held.objects.newest[one]
        if newest != NONE and room.since[one] == _NEVER:
            held.rows.owner[newest] = NONE


@lean
def _keep_instances(
    held: Store, room: Sweep, outlook: Outlook, low: int, high: int, threshold: float
) -> int:
    """Note the objects whose instance can reach the threshold; returns how many can."""
    rows, by = held.rows, held.by
    foreseen = outlook.hopes.numbers[KIND] == FORESIGHT
    kept = 0
    for row in range(low, high):
        one, until = rows.owner[row], rows.until[row]
        if one == NONE or room.since[one] == until:
            continue
        best = _best(held, room, outlook.hopes, one)
        if by.numbers[REPEATS] == ADD:
            best += ROUNDING * (abs(best) + abs(threshold))
        if not threshold > best:
            room.since[one] = until
            kept += 1
            if foreseen:
                newest = rows.until[held.objects.newest[one]]
                worth, keep = expected(
                    outlook.ahead, held, one, room.values, threshold, until, newest, outlook.window
                )
                room.worth[one] = max(room.worth[one], worth)
                room.rate[one] = max(room.rate[one], worth / keep)
    return kept


@lean
def _best(held: Store, room: Sweep, hopes: Hopes, one: int) -> float:
    """The best score, or that hoped for, of the instance that consists of the rows met so far."""
    by, values, times = held.by, held.values, held.objects.seen
    width = by.numbers[WIDTH]
    base = one * width
    if hopes.numbers[KIND] == CERTAIN or hopes.numbers[KIND] == FORESIGHT:
        for at in range(width):
            value = room.values[base + at]
            left = by.numbers[MOST] - times[base + at]
            if left > 0:
                value = left * by.high[at] if value != value else value + left * by.high[at]
            values[at] = value
        return score_at(by, values, 0)
    seen = streams_seen(held, one)
    for at in range(width):
        values[at] = hoped(hopes, by, seen, at, times[base + at], room.values[base + at])
    return score_at(by, values, 0)


@lean
def _drop_unlikely(held: Store, room: Sweep, ahead: Foresight, answer: float) -> None:
    """Forget objects that are expected to answer too few windows, and are no answers now."""
    by = held.by
    if not is_ready(ahead):
        return
    for one in range(held.numbers[OBJECTS]):
        if room.since[one] == _NEVER or room.rate[one] >= ahead.marks[EPSILON]:
            continue
        if score_at(by, room.values, one * by.numbers[WIDTH]) < answer:
            room.since[one] = _NEVER
            ahead.marks[LOST] += room.worth[one]
