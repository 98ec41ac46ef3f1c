"""The one total order: higher score, then newer, then larger id.

Everything that ranks in Skyband ranks by this order. Objects are handed to the kernels sorted by
(ordinate, id) and numbered in that sequence, so inside the kernels the order is simply *(score,
sequence number)*, both descending: of two equal scores the newer wins, because it lives at least
as long, so fewer candidates are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Scores = NDArray[Any]
"""Numbers that are ranked: float64, or int64 where whole numbers must not be rounded."""


def shared_ranks(score: Scores, offsets: Ints, dense: bool) -> Ints:
    """Ranks, from 1, that rows of equal score share; the rows of each window stand best first.

    Window i has the rows ``offsets[i]:offsets[i + 1]``. A rank is 1 more than there are better rows
    in the window or, if ``dense``, better scores. O(rows).
    """
    at = np.arange(len(score), dtype=np.int64)
    first = np.repeat(offsets[:-1], np.diff(offsets))  # where the window of each row begins
    below = at == first  # whether no row before it in the window scores the same
    below[1:] |= score[1:] != score[:-1]
    number = np.cumsum(below) if dense else np.maximum.accumulate(np.where(below, at, 0))
    ranks: Ints = number - number[first] + 1
    return ranks


def ranks_of_best(score: Scores, k: int, rank_by: str) -> Ints:
    """The ranks of scores that stand best first, as far as they are k or less.

    ``rank_by`` is that of a query. O(scores).
    """
    if rank_by == "row_number":
        return np.arange(1, min(k, len(score)) + 1)
    ranks = shared_ranks(score, np.array([0, len(score)]), rank_by == "dense_rank")
    return ranks[: np.searchsorted(ranks, k, side="right")]


def as_good_as_kth(score: Scores, groups: Ints, k: int, dense: bool) -> Ints:
    """Places of the rows of each group that score at least as much as its k-th best.

    That is its k-th best row or, if ``dense``, score. They stand group after group, the best first;
    groups fall. O(n log n).
    """
    by_score = np.lexsort((score, groups))[::-1]
    ranks = shared_ranks(score[by_score], group_offsets(groups[by_score]), dense)
    good: Ints = by_score[ranks <= k]
    return good


def group_offsets(groups: Ints) -> Ints:
    """Where each group begins, of rows that stand group after group, and where the last ends."""
    begins = np.append(True, groups[1:] != groups[:-1])[: len(groups)]
    return np.append(np.flatnonzero(begins), len(groups))


def place_in_group(groups: Ints) -> Ints:
    """The place of each row in its group, from 0, of rows that stand group after group."""
    offsets = group_offsets(groups)
    return np.arange(len(groups)) - np.repeat(offsets[:-1], np.diff(offsets))


def rises(times: Ints) -> bool:
    """Whether no time is before the one that precedes it. O(rows); O(1) for most that fall."""
    head = times[:1024]
    if bool(np.any(head[1:] < head[:-1])):
        return False
    return not bool(np.any(times[1:] < times[:-1]))


def sequence(times: Ints, ties: tuple[NDArray[Any], ...]) -> Ints:
    """Positions that put rows in sequence: older first, rows of equal times by ``ties``.

    The first of ``ties`` decides first; rows that are equal in all of them keep their order. Only
    rows that share their time with others are sorted by more than their time. O(rows log rows).
    """
    order = np.argsort(times, kind="stable" if len(times) < 1024 or not ties else None)
    sorted_times = times[order]
    shared = sorted_times[1:] == sorted_times[:-1]
    if ties and bool(shared.any()):
        tied = np.flatnonzero(np.append(shared, False) | np.append(False, shared))
        among = np.sort(order[tied])  # as they arrived, so that the sort below is stable
        keys = [key[among] for key in reversed(ties)]
        by_time = np.lexsort((*keys, times[among]))
        order[tied] = among[by_time]
    return order.astype(np.int64, copy=False)
