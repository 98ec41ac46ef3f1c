"""Which rows of a pane can be answers: the k best, where a family ranks rows by their own score."""

from __future__ import annotations

import numpy as np

from skyband.engine.rows import Rows
from skyband.order import Ints
from skyband.windows import Panes

_LEAST = 32_768  # rows from which on pruning may pay
_CROWDED = 32  # times k: rows of a pane from which on pruning pays though nothing is to be sorted
_TO_SORT = 4  # times k: the same where the rows have to be sorted


def best_of_panes(
    rows: Rows, panes: Panes, k: int, in_sequence: bool, oldest_first: bool = False
) -> Rows:
    """The rows without those that are not among the k best of their pane.

    All rows come back if panes hold too few to make it pay. Rows keep their order. One pass. Of
    equal scores the newest are best, or the ``oldest_first``: then time runs backwards, and ids do,
    for the kernels.
    """
    time, ids = rows.time, rows.id
    assert time is not None
    assert ids is not None
    if rows.size < _LEAST:
        return rows
    oldest, newest = (time[0], time[-1]) if in_sequence else (time.min(), time.max())
    first, last = panes.first_window(int(oldest)), panes.first_window(int(newest))
    kinds = len(panes.lengths)
    crowded = _CROWDED if in_sequence else _TO_SORT
    if (last - first + 1) * kinds * crowded * k > rows.size:
        return rows
    from skyband.kernels.jit import first_use
    from skyband.kernels.pane_best import Candidates, choose, choose_in_order, chosen

    count = (last - first + 1) * kinds
    best = chosen(count, k)
    # kernels are compiled for contiguous, writable arrays only: others are copied
    candidates = Candidates(
        np.require(rows.score, requirements=["C", "W"]),
        np.require(~time if oldest_first else time, requirements=["C", "W"]),
        np.require(~ids if oldest_first else ids, requirements=["C", "W"]),
    )
    with first_use("pane"):
        if in_sequence:
            choose_in_order(candidates, _bounds(time, panes, first, last), k, best)
        else:
            # backwards, a slide ends where it began, and its second pane comes first
            begin = -panes.end(last) if oldest_first else panes.end(first - 1)
            split = panes.lengths[1 if oldest_first else 0] if kinds == 2 else 0
            choose(candidates, begin, panes.slide, split, k, best)
    slot = np.arange(2 * k, dtype=np.int64)
    return rows.take(np.sort(best.place[(slot < best.size[:, None]).ravel()]))


def _bounds(time: Ints, panes: Panes, first: int, last: int) -> Ints:
    """Where each pane from window ``first`` to ``last`` begins in sorted times, and the end."""
    begins = panes.end(first - 1) + np.arange(last - first + 2, dtype=np.int64) * panes.slide
    if len(panes.lengths) == 2:
        begins = np.stack([begins, begins + panes.lengths[0]], axis=1).ravel()[:-1]
    return np.searchsorted(time, begins).astype(np.int64, copy=False)
