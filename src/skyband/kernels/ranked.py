"""Ranked lists: parallel arrays of scores and sequence numbers, best first.

A list is ``(score, seq, size)``; ``size`` has one element, so that kernels can change it. A kernel
that may need more room returns the list it leaves behind, which may be a larger copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import jit
from skyband.order import Floats, Ints


class Ranked(NamedTuple):
    """Objects in rank order: scores descending, and of equal scores the newer first."""

    score: Floats
    seq: Ints
    size: Ints


def ranked(capacity: int) -> Ranked:
    """An empty list with room for ``capacity`` objects."""
    return Ranked(
        np.zeros(max(capacity, 1)), np.zeros(max(capacity, 1), np.int64), np.zeros(1, np.int64)
    )


@jit
def better(score: float, seq: int, other_score: float, other_seq: int) -> bool:
    """Whether an object ranks before another. O(1)."""
    return score > other_score or (score == other_score and seq > other_seq)


@jit
def grown(items: Ranked, need: int) -> Ranked:
    """The list with room for ``need`` objects in all. Amortised O(1) per object."""
    if need <= len(items.score):
        return items
    capacity = max(need, 2 * len(items.score))
    score = np.zeros(capacity)
    seq = np.zeros(capacity, np.int64)
    size = items.size[0]
    score[:size] = items.score[:size]
    seq[:size] = items.seq[:size]
    return Ranked(score, seq, items.size)


@jit
def place_of(items: Ranked, score: float, seq: int) -> int:
    """How many objects of the list rank before this one. O(log size)."""
    low, high = 0, items.size[0]
    while low < high:
        middle = (low + high) >> 1
        if better(items.score[middle], items.seq[middle], score, seq):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def drop_older(items: Ranked, first: int) -> int:
    """Remove objects numbered below ``first``; return how many. O(size)."""
    size = items.size[0]
    kept = 0
    for at in range(size):
        if items.seq[at] >= first:
            if kept != at:
                items.score[kept] = items.score[at]
                items.seq[kept] = items.seq[at]
            kept += 1
    items.size[0] = kept
    return size - kept


@jit
def copy_best(source: Ranked, limit: int, target: Ranked) -> None:
    """Make ``target`` the first ``limit`` objects of ``source``. O(limit)."""
    size = min(limit, source.size[0])
    target.score[:size] = source.score[:size]
    target.seq[:size] = source.seq[:size]
    target.size[0] = size


@jit
def merge_best(one: Ranked, two: Ranked, limit: int, target: Ranked) -> None:
    """Make ``target`` the best ``limit`` objects of two lists. O(limit), a copy if they part."""
    size_one, size_two = one.size[0], two.size[0]
    i, j, at = 0, 0, 0
    while at < limit and i < size_one and j < size_two:
        if better(one.score[i], one.seq[i], two.score[j], two.seq[j]):
            target.score[at] = one.score[i]
            target.seq[at] = one.seq[i]
            i += 1
        else:
            target.score[at] = two.score[j]
            target.seq[at] = two.seq[j]
            j += 1
        at += 1
    if at < limit and i < size_one:
        take = min(limit - at, size_one - i)
        target.score[at : at + take] = one.score[i : i + take]
        target.seq[at : at + take] = one.seq[i : i + take]
        at += take
    if at < limit and j < size_two:
        take = min(limit - at, size_two - j)
        target.score[at : at + take] = two.score[j : j + take]
        target.seq[at : at + take] = two.seq[j : j + take]
        at += take
    target.size[0] = at


@jit
def absorb(items: Ranked, extra: Ranked, limit: int) -> int:
    """Merge the sorted ``extra`` into the list in place, keep the best ``limit``.

    The list needs room for ``limit`` objects. Returns how many of ``extra`` stayed. Works from the
    back, so each kept object moves once: O(objects of the list ranked behind the best of
    ``extra``, plus ``extra``).
    """
    size, more = items.size[0], extra.size[0]
    # how many of each side are among the best `limit`
    i, j = size, more
    surplus = size + more - limit
    while surplus > 0:
        if i > 0 and (
            j == 0
            or better(extra.score[j - 1], extra.seq[j - 1], items.score[i - 1], items.seq[i - 1])
        ):
            i -= 1
        else:
            j -= 1
        surplus -= 1
    taken = j
    at = i + j
    items.size[0] = at
    while j > 0:
        at -= 1
        if i > 0 and better(
            extra.score[j - 1], extra.seq[j - 1], items.score[i - 1], items.seq[i - 1]
        ):
            items.score[at] = items.score[i - 1]
            items.seq[at] = items.seq[i - 1]
            i -= 1
        else:
            items.score[at] = extra.score[j - 1]
            items.seq[at] = extra.seq[j - 1]
            j -= 1
    return taken


@jit
def append(items: Ranked, score: float, seq: int) -> Ranked:
    """Add an object at the end, in no order yet: :func:`rank` comes later. Amortised O(1)."""
    size = items.size[0]
    items = grown(items, size + 1)
    items.score[size] = score
    items.seq[size] = seq
    items.size[0] = size + 1
    return items


@jit
def rank(items: Ranked) -> None:
    """Put the list in rank order. O(size log size); O(size) if it is one run, up or down."""
    size = items.size[0]
    score, seq = items.score, items.seq
    down = True
    up = True
    for at in range(1, size):
        if better(score[at], seq[at], score[at - 1], seq[at - 1]):
            down = False
        else:
            up = False
        if not (up or down):
            break
    if down:
        return
    if up:
        left, right = 0, size - 1
        while left < right:
            score[left], score[right] = score[right], score[left]
            seq[left], seq[right] = seq[right], seq[left]
            left += 1
            right -= 1
        return
    _quicksort(score, seq, 0, size - 1)


@jit
def _quicksort(score: Floats, seq: Ints, low: int, high: int) -> None:
    stack = np.empty(128, np.int64)
    depth = 0
    while True:
        while high - low > 16:
            middle = (low + high) >> 1
            if better(score[middle], seq[middle], score[low], seq[low]):
                _swap(score, seq, low, middle)
            if better(score[high], seq[high], score[low], seq[low]):
                _swap(score, seq, low, high)
            if better(score[high], seq[high], score[middle], seq[middle]):
                _swap(score, seq, middle, high)
            pivot_score, pivot_seq = score[middle], seq[middle]
            i, j = low, high
            while i <= j:
                while better(score[i], seq[i], pivot_score, pivot_seq):
                    i += 1
                while better(pivot_score, pivot_seq, score[j], seq[j]):
                    j -= 1
                if i <= j:
                    _swap(score, seq, i, j)
                    i += 1
                    j -= 1
            if j - low < high - i:  # the smaller side first: the stack stays logarithmic
                stack[depth], stack[depth + 1] = i, high
                high = j
            else:
                stack[depth], stack[depth + 1] = low, j
                low = i
            depth += 2
        for at in range(low + 1, high + 1):
            one_score, one_seq = score[at], seq[at]
            to = at
            while to > low and better(one_score, one_seq, score[to - 1], seq[to - 1]):
                score[to] = score[to - 1]
                seq[to] = seq[to - 1]
                to -= 1
            score[to] = one_score
            seq[to] = one_seq
        if depth == 0:
            return
        depth -= 2
        low, high = stack[depth], stack[depth + 1]


@jit
def _swap(score: Floats, seq: Ints, i: int, j: int) -> None:
    score[i], score[j] = score[j], score[i]
    seq[i], seq[j] = seq[j], seq[i]
