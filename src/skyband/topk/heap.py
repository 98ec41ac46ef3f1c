"""A heap over a stretch of parallel arrays, worst object at its root."""

from __future__ import annotations

from skyband.kernels.jit import lean
from skyband.kernels.ranked import better
from skyband.order import Floats, Ints


@lean
def sift_up(score: Floats, seq: Ints, base: int, hole: int, new_score: float, new_seq: int) -> None:
    """Put an object in place ``hole`` (the first free one) of the heap at ``base``. O(log size)."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if not better(score[base + parent], seq[base + parent], new_score, new_seq):
            break
        score[base + hole] = score[base + parent]
        seq[base + hole] = seq[base + parent]
        hole = parent
    score[base + hole] = new_score
    seq[base + hole] = new_seq


@lean
def replace_worst(
    score: Floats, seq: Ints, base: int, size: int, new_score: float, new_seq: int
) -> None:
    """Put an object in the place of the worst one of the heap at ``base``. O(log size)."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and better(
            score[base + child], seq[base + child], score[base + child + 1], seq[base + child + 1]
        ):
            child += 1
        if not better(new_score, new_seq, score[base + child], seq[base + child]):
            break
        score[base + hole] = score[base + child]
        seq[base + hole] = seq[base + child]
        hole = child
    score[base + hole] = new_score
    seq[base + hole] = new_seq
