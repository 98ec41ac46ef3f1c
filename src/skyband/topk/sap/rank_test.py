"""The Mann-Whitney rank-sum test: does one sample tend to be larger than another?"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Ints

UPPER = 1.959963984540054  # the 0.975 quantile of the normal distribution: alpha = 0.05, two sided
EXACT = 10  # samples of at most this size are tested exactly


@lru_cache(maxsize=64)
def critical_values(first: int, second: int, alpha: float = 0.05) -> Ints:
    """``values[m]``: the largest rank sum of ``first`` objects among ``first + m`` still accepted.

    Exact: the subsets with each rank sum are counted, one rank more at a time. For m = 0 ..
    ``second``. O((first + second) * first**2 * (first + second)).
    """
    most = first * (first + 2 * second + 1) // 2
    ways = np.zeros((first + 1, most + 1))
    ways[0, 0] = 1.0
    values = np.zeros(second + 1, np.int64)
    for rank in range(1, first + second + 1):
        for taken in range(min(rank, first), 0, -1):
            ways[taken, rank:] += ways[taken - 1, : most + 1 - rank]
        if rank >= first:
            above = np.cumsum(ways[first, ::-1])[::-1] / math.comb(rank, first)
            values[rank - first] = int(np.flatnonzero(above > alpha / 2)[-1])
    return values


@lean
def tends_larger(rank_sum: int, first: int, second: int, critical: Ints) -> bool:
    """Whether a rank sum (ascending ranks) of ``first`` objects among both samples is too high.

    Small samples by the exact table (``critical``, empty for large ones), others by the normal
    approximation with n1 = first, n2 = second. O(1).
    """
    if first == 0 or second == 0:
        return False
    if len(critical) > second:
        return rank_sum > critical[second]
    mean = first * (first + second + 1) / 2.0
    deviation = math.sqrt(first * second * (first + second + 1) / 12.0)
    return (rank_sum - mean) / deviation > UPPER
