"""Interval dominance: which instances no answer can need any more, by one sweep over the rows.

A sweep meets rows from the newest to the oldest, so it knows the current scores of all instances
that live at least as long as the rows it has reached. The k-th best of them, over distinct objects,
is the threshold of those rows: an instance whose best score is lower is dominated by k objects.

What the best score is, each algorithm says itself, in a sweep of its own made of these blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.combine import ADD, MAX, ROUNDING, Rule, join, score_at
from skyband.incomplete.objects import NONE, Store
from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS
from skyband.order import Floats, Ints

NEVER = 1 << 62


class Sweep(NamedTuple):
    """Scratch room of a sweep: the current score of each object, and a heap of the k best."""

    values: Floats  # object * streams + stream: of the rows met so far; NaN if none
    since: Ints  # per object: the earliest last window of an instance that is kept, or NEVER
    place: Ints  # per object: where it stands in the heap, or NONE
    score: Floats  # a heap, its least score first
    owner: Ints


def empty_sweep(k: int, room: int, width: int) -> Sweep:
    """Room for so many objects; nothing in it outlives a sweep."""
    return Sweep(
        np.zeros(room * width),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(k),
        np.zeros(k, np.int64),
    )


@lean
def begin(store: Store, sweep: Sweep) -> None:
    """Prepare a sweep in which nothing was met yet."""
    objects, width = store.now[0].objects, store.rule.form[0].streams
    for obj in range(objects):
        sweep.since[obj] = NEVER
        sweep.place[obj] = NONE
    for at in range(objects * width):
        sweep.values[at] = np.nan


@lean
def meet_pane(store: Store, sweep: Sweep, high: int, size: int, work: Ints) -> tuple[int, int]:
    """Take the rows before ``high`` that live equally long into the scores of their objects.

    Returns where these rows begin, and the new ``size`` of the heap. O(streams + log k) a row.
    """
    rows, first = store.rows, store.now[0].first
    until = rows.until[high - 1]
    low = high
    while low > first and rows.until[low - 1] == until:
        low -= 1
        size = _meet(store, sweep, low, size, work)
    return low, size


@lean
def _meet(store: Store, sweep: Sweep, row: int, size: int, work: Ints) -> int:
    """Take a row into the current score of its object; returns the size of the heap.

    With ``repeats="max"`` a row that newer ones outdo is marked: it never matters.
    """
    rows, rule, k = store.rows, store.rule, store.now[0].k
    form = rule.form[0]
    obj = rows.owner[row]
    base = obj * form.streams
    at = base + rows.stream[row]
    if form.repeats == MAX and sweep.values[at] >= rows.value[row]:
        rows.owner[row] = NONE
        return size
    sweep.values[at] = join(rule, sweep.values[at], rows.value[row])
    score = score_at(rule, sweep.values, base)
    if sweep.place[obj] != NONE:
        _sink(sweep, sweep.place[obj], size, score, obj)
        work[COMPARISONS] += 1
    elif size < k:
        _rise(sweep, size, score, obj)
        work[COMPARISONS] += 1
        size += 1
    elif score > sweep.score[0]:
        sweep.place[sweep.owner[0]] = NONE
        _sink(sweep, 0, size, score, obj)
        work[COMPARISONS] += 1
    return size


@lean
def _sink(sweep: Sweep, hole: int, size: int, score: float, obj: int) -> None:
    """Put an object at a place of the heap whose score was no higher. O(log k)."""
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and sweep.score[child + 1] < sweep.score[child]:
            child += 1
        if score <= sweep.score[child]:
            break
        sweep.score[hole] = sweep.score[child]
        sweep.owner[hole] = sweep.owner[child]
        sweep.place[sweep.owner[hole]] = hole
        hole = child
    sweep.score[hole] = score
    sweep.owner[hole] = obj
    sweep.place[obj] = hole


@lean
def _rise(sweep: Sweep, hole: int, score: float, obj: int) -> None:
    """Put an object at the end of the heap, or above. O(log k)."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if sweep.score[parent] <= score:
            break
        sweep.score[hole] = sweep.score[parent]
        sweep.owner[hole] = sweep.owner[parent]
        sweep.place[sweep.owner[hole]] = hole
        hole = parent
    sweep.score[hole] = score
    sweep.owner[hole] = obj
    sweep.place[obj] = hole


@lean
def threshold_of(store: Store, sweep: Sweep, size: int) -> float:
    """The k-th best current score met so far; none if the heap has fewer."""
    return sweep.score[0] if size == store.now[0].k else -np.inf


@lean
def highest_score(store: Store, sweep: Sweep, obj: int) -> float:
    """The best score of the instance made of the rows met so far, if all that can come is highest.

    An attribute that was seen as often as can be is known, or will have expired.
    """
    rule, values = store.rule, store.values
    form = rule.form[0]
    base = obj * form.streams
    for stream in range(form.streams):
        value = sweep.values[base + stream]
        left = form.most - store.objects.seen[base + stream]
        if left > 0:
            more = left * rule.high[stream]
            value = more if value != value else value + more
        values[stream] = value
    return score_at(rule, values, 0)


@lean
def can_reach(rule: Rule, best: float, threshold: float) -> bool:
    """Whether an instance with this best score is not dominated; sums are rounded up."""
    if rule.form[0].repeats == ADD:
        best += ROUNDING * (abs(best) + abs(threshold))
    return not threshold > best


@lean
def drop_dominated(store: Store, sweep: Sweep) -> None:
    """Mark the rows that belong to no instance that is kept."""
    rows, now = store.rows, store.now[0]
    for row in range(now.first, now.end):
        obj = rows.owner[row]
        if obj != NONE and rows.until[row] < sweep.since[obj]:
            rows.owner[row] = NONE
