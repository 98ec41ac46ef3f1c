"""Which rows of a batch may be among the k best of their pane or group: one pass over scores.

A rising threshold per group, the k-th best (score, position) met so far, leaves most rows at one
comparison. Rows that are equal to it in both stay: what else breaks ties is not looked at. So the
rows that stay are the k best and what ties with the last of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.jit import entry, lean
from skyband.order import Ints

BLOCK = 64
"""Rows that are passed over at once if none of them reaches the threshold."""

PANES = 8
"""Panes over which such rows may be spread: of more, one hardly has a threshold yet."""


class Best(NamedTuple):
    """What stays so far: up to ``room`` places of rows per group, in no order.

    ``bar`` and ``bar_position`` are the k-th best score of each group and its position; a group
    with fewer than k rows has the lowest of both.
    """

    place: Ints  # group * room and following
    score: Any  # the scores of these rows
    position: Ints  # their positions, turned round if the oldest are the best
    size: Ints  # per group
    bar: Any  # per group
    bar_position: Ints  # per group


def room_for(k: int) -> int:
    """Rows of a group that are collected before they are cut to the k best."""
    return 2 * k + 8


def best_of(groups: int, k: int, scores: Any) -> Best:
    """Room for the best rows of some groups."""
    size = groups * room_for(k)
    lowest = -np.inf if scores.dtype.kind == "f" else np.iinfo(np.int64).min
    return Best(
        np.empty(size, np.int64),
        np.empty(size, scores.dtype),
        np.empty(size, np.int64),
        np.zeros(groups, np.int64),
        np.full(groups, lowest, scores.dtype),
        np.full(groups, np.iinfo(np.int64).min),
    )


class Grid(NamedTuple):
    """Panes from the position ``first`` on: two in a slide if ``split`` is above zero.

    The first of the two has that length; ``sign`` is -1 if the oldest of equal scores are best.
    """

    first: int
    slide: int
    split: int
    sign: int


@entry
def best_of_panes(scores: Any, positions: Ints, grid: Grid, k: int, best: Best) -> int:
    """Find what may be among the k best of each pane; NaN never is.

    Returns -1, or, if more rows tie than there is room for, the place where that was noticed. O(1)
    per row below the threshold, much less where rows come pane by pane.
    """
    begin, end = grid.first, grid.first  # of the pane that the row before was in
    pane = 0
    place = 0
    rows = len(scores)
    while place < rows:
        until = min(place + BLOCK, rows)
        bounded, bar = True, best.bar[pane]  # none of this block that wins is below the bar
        if not _all_inside(positions, place, until, begin, end):
            first, last = _panes_of(positions, place, until, grid)
            bounded = last - first < PANES
            if bounded:
                bar = _lowest(best.bar, first, last)
        if bounded and _none_reaches(scores, place, until, bar):
            place = until
            continue
        for at in range(place, until):
            if bounded and scores[at] < bar:
                continue
            position = positions[at]
            if position < begin or position >= end:
                number = (position - grid.first) // grid.slide
                begin = grid.first + number * grid.slide
                end = begin + grid.slide
                pane = number
                if grid.split > 0:
                    pane = 2 * number
                    if position - begin >= grid.split:
                        pane += 1
                        begin += grid.split
                    else:
                        end = begin + grid.split
            if scores[at] >= best.bar[pane] and not _add(
                best, pane, at, scores[at], grid.sign * position, k
            ):
                return at
        place = until
    return -1


@entry
def best_of_groups(
    scores: Any, positions: Ints, groups: Ints, sign: int, k: int, best: Best
) -> int:
    """Find what may be among the k best of each group; see :func:`best_of_panes`. O(1) per row."""
    for at in range(len(scores)):
        group = groups[at]
        if scores[at] >= best.bar[group] and not _add(
            best, group, at, scores[at], sign * positions[at], k
        ):
            return at
    return -1


@lean
def _all_inside(positions: Ints, low: int, high: int, begin: int, end: int) -> bool:
    block = positions[low:high]
    outside = 0
    for at in range(len(block)):
        outside |= (block[at] < begin) | (block[at] >= end)
    return outside == 0


@lean
def _panes_of(positions: Ints, low: int, high: int, grid: Grid) -> tuple[int, int]:
    """The first and the last pane that some rows may be in."""
    block = positions[low:high]
    oldest, newest = block[0], block[0]
    for at in range(len(block)):
        oldest = min(oldest, block[at])
        newest = max(newest, block[at])
    halves = 2 if grid.split > 0 else 1
    first = (oldest - grid.first) // grid.slide * halves
    last = (newest - grid.first) // grid.slide * halves + halves - 1
    return first, last


@lean
def _lowest(bars: Any, first: int, last: int) -> Any:
    """The lowest threshold of some panes."""
    bar = bars[first]
    for pane in range(first + 1, last + 1):
        bar = min(bar, bars[pane])
    return bar


@lean
def _none_reaches(scores: Any, low: int, high: int, bar: Any) -> bool:
    block = scores[low:high]  # whose places are no negative ones, so this is done by vectors
    reached = 0
    for at in range(len(block)):
        reached |= block[at] >= bar
    return reached == 0


@lean
def _add(best: Best, group: int, place: int, score: Any, position: int, k: int) -> bool:
    """Let a row stay if it is not below the threshold; False if there is no room left."""
    if score == best.bar[group] and position < best.bar_position[group]:
        return True
    room = len(best.place) // len(best.size)
    size = best.size[group]
    at = group * room + size
    best.place[at] = place
    best.score[at] = score
    best.position[at] = position
    best.size[group] = size + 1
    if size + 1 < room:
        return True
    _cut(best, group, k)
    return best.size[group] < room


@lean
def _cut(best: Best, group: int, k: int) -> None:
    """Keep the k best of a group and what ties with the last of them. O(k) on average."""
    room = len(best.place) // len(best.size)
    low, high = group * room, group * room + best.size[group] - 1
    kth = low + k - 1
    while low < high:  # quickselect: afterwards the k best come first
        middle = (low + high) >> 1
        pivot_score, pivot_position = best.score[middle], best.position[middle]
        i, j = low, high
        while i <= j:
            while _better(best.score[i], best.position[i], pivot_score, pivot_position):
                i += 1
            while _better(pivot_score, pivot_position, best.score[j], best.position[j]):
                j -= 1
            if i <= j:
                _swap(best, i, j)
                i += 1
                j -= 1
        if kth <= j:
            high = j
        elif kth >= i:
            low = i
        else:
            break
    first = group * room
    bar, bar_position = best.score[first], best.position[first]
    for at in range(first + 1, kth + 1):
        if _better(bar, bar_position, best.score[at], best.position[at]):
            bar, bar_position = best.score[at], best.position[at]
    size = k
    for at in range(kth + 1, first + best.size[group]):
        if best.score[at] == bar and best.position[at] == bar_position:
            _swap(best, first + size, at)
            size += 1
    best.size[group] = size
    best.bar[group] = bar
    best.bar_position[group] = bar_position


@lean
def _swap(best: Best, one: int, other: int) -> None:
    best.place[one], best.place[other] = best.place[other], best.place[one]
    best.score[one], best.score[other] = best.score[other], best.score[one]
    best.position[one], best.position[other] = best.position[other], best.position[one]


@lean
def _better(score: Any, position: int, other_score: Any, other_position: int) -> bool:
    if score != other_score:
        return bool(score > other_score)
    return position > other_position


@entry
def cut_all(best: Best, k: int) -> None:
    """Cut every group to its k best and what ties with the last of them."""
    for group in range(len(best.size)):
        if best.size[group] > k:
            _cut(best, group, k)


def places(best: Best, k: int) -> Ints:
    """The rows that stay, ascending."""
    cut_all(best, k)
    room = room_for(k)
    inside = np.arange(room) < best.size[:, None]
    return np.sort(best.place.reshape(-1, room)[inside])
