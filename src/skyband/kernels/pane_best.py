"""The k best rows of each pane, in one pass with a rising threshold per pane."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints


class Candidates(NamedTuple):
    """Rows to choose from: score, then time, then id decide, the larger being better."""

    score: Floats
    time: Ints
    id: Ints


class Chosen(NamedTuple):
    """What was chosen so far: up to 2k places of rows per pane, in no order.

    ``threshold`` is the score below which no row of the pane can be among its k best.
    """

    place: Ints  # pane * 2k and following
    score: Floats  # the scores of these rows
    size: Ints  # per pane
    threshold: Floats  # per pane


def chosen(panes: int, k: int) -> Chosen:
    """Room for the best of some panes."""
    return Chosen(
        np.empty(panes * 2 * k, np.int64),
        np.empty(panes * 2 * k),
        np.zeros(panes, np.int64),
        np.full(panes, -np.inf),
    )


@entry
def choose_in_order(rows: Candidates, bounds: Ints, k: int, best: Chosen) -> None:
    """Choose among rows that stand pane by pane: pane p is ``bounds[p]:bounds[p + 1]``.

    O(1) per row below the threshold, O(1) amortised per other.
    """
    for pane in range(len(bounds) - 1):
        threshold = -np.inf
        for place in range(bounds[pane], bounds[pane + 1]):
            score = rows.score[place]
            if score >= threshold:
                _add(rows, best, pane, place, score, k)
                threshold = best.threshold[pane]
        _cut(rows, best, pane, k)


@entry
def choose(rows: Candidates, first: int, slide: int, split: int, k: int, best: Chosen) -> None:
    """Choose among rows in any order.

    Panes are numbered from the time ``first`` on; a slide has two of them if ``split`` is above
    zero: one of that length and one of the rest.
    """
    begin, end = first, first  # of the slide that the row before was in
    number = 0
    for place in range(len(rows.score)):
        time = rows.time[place]
        if time < begin or time >= end:
            number = (time - first) // slide
            begin = first + number * slide
            end = begin + slide
        pane = number
        if split > 0:
            pane = 2 * number + (1 if time - begin >= split else 0)
        score = rows.score[place]
        if score >= best.threshold[pane]:
            _add(rows, best, pane, place, score, k)
    for pane in range(len(best.size)):
        _cut(rows, best, pane, k)


@lean
def _add(rows: Candidates, best: Chosen, pane: int, place: int, score: float, k: int) -> None:
    size = best.size[pane]
    best.place[pane * 2 * k + size] = place
    best.score[pane * 2 * k + size] = score
    best.size[pane] = size + 1
    if size + 1 == 2 * k:
        _cut(rows, best, pane, k)


@lean
def _cut(rows: Candidates, best: Chosen, pane: int, k: int) -> None:
    """Keep the k best of a pane; the worst of them gives the threshold. O(k) on average."""
    size = best.size[pane]
    if size <= k:
        return
    place = best.place[pane * 2 * k : pane * 2 * k + size]
    score = best.score[pane * 2 * k : pane * 2 * k + size]
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        pivot_score, pivot_place = score[middle], place[middle]
        i, j = low, high
        while i <= j:
            while _better(rows, score[i], place[i], pivot_score, pivot_place):
                i += 1
            while _better(rows, pivot_score, pivot_place, score[j], place[j]):
                j -= 1
            if i <= j:
                score[i], score[j] = score[j], score[i]
                place[i], place[j] = place[j], place[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    best.size[pane] = k
    lowest = score[0]
    for at in range(1, k):
        lowest = min(lowest, score[at])
    best.threshold[pane] = lowest


@lean
def _better(
    rows: Candidates, score: float, place: int, other_score: float, other_place: int
) -> bool:
    if score != other_score:
        return score > other_score
    if rows.time[place] != rows.time[other_place]:
        return rows.time[place] > rows.time[other_place]
    return rows.id[place] > rows.id[other_place]
