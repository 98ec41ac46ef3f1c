"""Writing ranked windows, whole or as changes, into flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, copy_best, copy_run
from skyband.order import Ints


class Emission(NamedTuple):
    """The ranking reported last, and whether to report ``changes`` (one element, 0 or 1)."""

    reported: Ranked
    changes: Ints


def emission(k: int, changes: bool) -> Emission:
    """Memory for windows of ``k`` objects."""
    return Emission(ranked(k if changes else 1), np.array([int(changes)], np.int64))


@lean
def lacks_room(target: Out, k: int, memory: Emission) -> bool:
    """Whether one more report of changes might not fit."""
    return memory.changes[0] == 1 and target.rows.size[0] + 2 * k > len(target.rows.score)


@lean
def report(target: Out, step: int, best: Ranked, k: int, memory: Emission, dirty: bool) -> None:
    """Report the first ``k`` of ``best`` as the window of this step.

    ``dirty`` says whether the ranking may differ from the one reported before. The caller has
    checked for room, see :func:`lacks_room`. O(k); O(1) for changes when nothing changed.
    """
    if memory.changes[0] == 0:
        report_whole(target, step, best, k)
        return
    if dirty:
        size = min(k, best.size[0])
        _write_changes(target, best, size, memory.reported)
        copy_best(best, size, memory.reported)
    skip(target, step)


@lean
def report_whole(target: Out, step: int, best: Ranked, k: int) -> None:
    """Report the first ``k`` of ``best`` as the window of this step, never as changes. O(k)."""
    size, at = min(k, best.size[0]), target.rows.size[0]
    copy_run(best, 0, target.rows, at, size)
    target.rows.size[0] = at + size
    skip(target, step)


@lean
def skip(target: Out, step: int) -> None:
    """Report nothing for this step."""
    target.upto[step] = target.rows.size[0]


@lean
def _write_changes(target: Out, best: Ranked, size: int, reported: Ranked) -> None:
    old_size = reported.size[0]
    old, new = 0, 0
    while old < old_size or new < size:
        if old < old_size and new < size and reported.seq[old] == best.seq[new]:
            if old != new:
                _row(target, best.score[new], best.seq[new], new + 1, old + 1)
            old += 1
            new += 1
        elif new == size or (
            old < old_size
            and better(reported.score[old], reported.seq[old], best.score[new], best.seq[new])
        ):
            _row(target, reported.score[old], reported.seq[old], 0, old + 1)
            old += 1
        else:
            _row(target, best.score[new], best.seq[new], new + 1, 0)
            new += 1


@lean
def _row(target: Out, score: float, seq: int, rank: int, previous: int) -> None:
    at = target.rows.size[0]
    target.rows.score[at] = score
    target.rows.seq[at] = seq
    target.rank[at] = rank
    target.previous[at] = previous
    target.rows.size[0] = at + 1
