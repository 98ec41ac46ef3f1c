"""Writing ranked windows, whole or as changes, into flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, copy_best, copy_run, ranked, roomier
from skyband.order import Ints


class Out(NamedTuple):
    """Answers of one push: the rows of all windows, one after the other.

    ``rows``      scores and sequence numbers
    ``rank``      rank now, 0 for an object that left (changes only)
    ``previous``  rank in the window before, 0 for an object that entered (changes only)
    ``upto``      per step: rows written up to its end
    """

    rows: Ranked
    rank: Ints
    previous: Ints
    upto: Ints


class Emission(NamedTuple):
    """The ranking reported last, and whether to report ``changes`` (one element, 0 or 1)."""

    reported: Ranked
    changes: Ints


def emission(k: int, changes: bool) -> Emission:
    """Memory for windows of ``k`` objects."""
    return Emission(ranked(k if changes else 1), np.array([int(changes)], np.int64))


def out(steps: int, emitted: int, k: int, changes: bool) -> Out:
    """Room for the answers of a push with ``steps`` steps of which ``emitted`` are answered."""
    capacity = 4 * k + emitted if changes else emitted * k
    ranks = capacity if changes else 0
    capacity = max(capacity, 1)
    return Out(
        Ranked(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64)),
        np.empty(ranks, np.int64),
        np.empty(ranks, np.int64),
        np.zeros(steps, np.int64),
    )


@lean
def lacks_room(target: Out, k: int, memory: Emission) -> bool:
    """Whether one more report of changes might not fit."""
    return memory.changes[0] == 1 and target.rows.size[0] + 2 * k > len(target.rows.score)


def short_of_room(target: Out, k: int, changes: bool) -> bool:
    """:func:`lacks_room` for Python, to tell why a kernel stopped."""
    return changes and int(target.rows.size[0]) + 2 * k > len(target.rows.score)


def roomier_out(target: Out, k: int) -> Out:
    """The same answers with room for more reports of changes."""
    room = len(target.rows.score)
    more = room + 2 * k

    def longer(array: Ints) -> Ints:
        return np.concatenate([array, np.empty(more, array.dtype)])

    return Out(
        roomier(target.rows, room + more), longer(target.rank), longer(target.previous), target.upto
    )


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
