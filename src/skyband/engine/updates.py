"""Rankings so far of windows that are open: which of them changed since they were reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.results import Ranked
from skyband.engine.snapshot import Saved
from skyband.order import Bools, Ints, Scores
from skyband.windows import FOREVER


class _Reported(NamedTuple):
    """Open windows, by end and then by query, and their rankings, one after the other."""

    query: Ints
    end: Ints
    offsets: Ints
    score: Scores
    id: Ints
    carried: Ints  # bits of what is carried beside the score, a row for each column


_NONE: Ints = np.empty(0, np.int64)
_NOTHING = _Reported(
    _NONE, _NONE, np.zeros(1, np.int64), np.empty(0), _NONE, np.empty((0, 0), np.int64)
)


class Updates:
    """Maintains the ranking that was reported last of each open window, and numbers the reports.

    Every push is a report: ``revision`` counts them from 1, so that of two rankings of a window the
    later one has the larger revision. ``newest`` is the newest place of a row.

    Complexity: O(rows) per push for the rows of all open rankings; space as much.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.newest = -FOREVER
        self._reported = _NOTHING

    def changed(self, ranked: Ranked, query: Ints | None = None) -> Bools:
        """Which open windows rank otherwise than they were reported last, and are reported now.

        ``ranked`` has all windows that are open, by end, and of equal ends by their query's number.
        A window that has never ranked anything is not reported.
        """
        number = np.zeros(len(ranked), np.int64) if query is None else query
        columns = (ranked.score, ranked.id, _carried_bits(ranked))
        now = _Reported(number, ranked.window_end, ranked.offsets, *columns)
        before, self._reported = self._reported, now
        sizes, sizes_before = np.diff(now.offsets), np.diff(before.offsets)
        if not len(before.end):
            return sizes > 0
        at, known = _places(now, before)
        same_size = known & (sizes == sizes_before[at])
        # of windows with as many rows as before, row by row
        rows = np.flatnonzero(np.repeat(same_size, sizes))
        rows_before = rows + np.repeat(before.offsets[at] - now.offsets[:-1], sizes)[rows]
        differs = now.score[rows] != before.score[rows_before]
        differs |= now.id[rows] != before.id[rows_before]
        for carried, carried_before in zip(now.carried, before.carried, strict=True):
            differs |= carried[rows] != carried_before[rows_before]
        window = np.repeat(np.arange(len(ranked)), sizes)[rows]
        unlike = ~same_size
        unlike[window[differs]] = True
        return unlike & ((sizes > 0) | known)

    def joined(self, final: Ranked, so_far: Ranked) -> Ranked:
        """The windows of a push: those that are final, then rankings so far."""
        self.revision += 1
        return self._marked(final, True).followed_by(self._marked(so_far, False))

    def _marked(self, ranked: Ranked, final: bool) -> Ranked:
        return replace(
            ranked,
            final=np.full(len(ranked), final),
            revision=np.full(len(ranked), self.revision, np.int64),
        )

    def forget(self, query: int) -> None:
        """A query is gone."""
        before = self._reported
        stays = before.query != query
        sizes = np.diff(before.offsets)
        rows = np.repeat(stays, sizes)
        self._reported = _Reported(
            before.query[stays],
            before.end[stays],
            np.append(0, np.cumsum(sizes[stays])),
            before.score[rows],
            before.id[rows],
            before.carried[:, rows],
        )

    def saved(self) -> Saved:
        """What was reported, as plain values and arrays."""
        header = {"revision": self.revision, "newest": self.newest}
        return header, self._reported._asdict()

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        self.revision, self.newest = header["revision"], header["newest"]
        self._reported = _Reported(**arrays)


def _carried_bits(ranked: Ranked) -> Ints:
    """What is carried beside the score as whole numbers that are equal where it is."""
    bits = []
    for column in (ranked.also or {}).values():
        is_whole = column.dtype == np.int64
        bits.append(np.ma.filled(column, 0) if is_whole else column.astype(float).view(np.int64))
        bits.append(np.ma.getmaskarray(column).astype(np.int64))
    return np.array(bits, np.int64).reshape(len(bits), ranked.rows)


def _places(now: _Reported, before: _Reported) -> tuple[Ints, Bools]:
    """Where each window stands among those reported before, and whether it does. O(n log n)."""
    _, code = np.unique(np.concatenate([before.end, now.end]), return_inverse=True)
    queries = 1 + max(int(before.query.max(initial=0)), int(now.query.max(initial=0)))
    key = code * queries + np.concatenate([before.query, now.query])
    key_before, key_now = key[: len(before.end)], key[len(before.end) :]
    at = np.minimum(np.searchsorted(key_before, key_now), len(key_before) - 1)
    return at, key_before[at] == key_now
