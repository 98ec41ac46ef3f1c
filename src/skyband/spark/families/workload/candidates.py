"""What may still win in any window of a workload, of one key and score; knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skyband.order import Floats, Ints
from skyband.spark.state.candidates import Column, Pool
from skyband.workload import build
from skyband.workload.schedule import NO_WINDOWS, Piece, Schedule, Windows
from skyband.workload.structure import PlacedRows

ANSWERS = 50_000
"""Ranked rows that are handed over at once, about."""

_ALGORITHM = "mtopmerge"


class SharedPane(NamedTuple):
    """The best rows of a pane by one score, best first; ``kept`` holds one list per column."""

    place: int
    score: Column
    kept: list[Column]


class Found(NamedTuple):
    """Windows with their rankings: slots of the pool, best first, one window after the other."""

    windows: Windows
    slots: Ints
    upto: Ints


class SharedCandidates:
    """Maintains the rows of one key that can still be in an answer of any query.

    Rows of a pane stand at the place where the pane begins, and in the order of the panes; of one
    pane the best comes last, since of equal scores the structure ranks the later first. Nothing
    else is kept between calls: neither windows nor queries, so that the queries may change.

    Complexity: that of MTopMerge, plus O(w log w) per call for w open windows.
    """

    def __init__(self, schedule: Schedule, rate: float, width: int, done: int) -> None:
        self.schedule = schedule.after(done)
        self.pool = Pool(width)
        self.place: Ints = np.empty(0, np.int64)
        self.score: Floats = np.empty(0)
        self.left: Ints = np.empty(0, np.int64)  # slots of the rows that may win later
        self._structure = build(_ALGORITHM)
        # places whose windows are answered at once
        self._reach = max(1, int(ANSWERS / rate)) if rate else 1 << 61

    def __len__(self) -> int:
        return len(self.left)

    @property
    def due(self) -> int | None:
        """Where the next window ends that holds anything; None if nothing is left."""
        return int(self.schedule.open.end.min()) if len(self.schedule.open.end) else None

    def load(self, place: Column, score: Column, kept: list[Column]) -> None:
        """Take in the rows that an earlier call left."""
        self.place, self.score = np.array(place, np.int64), np.array(score, np.float64)
        self.pool.add(kept, len(place))

    def run(self, panes: list[SharedPane], closed: int) -> Iterator[Found]:
        """Take in panes, in any order, and answer every window that ends at ``closed`` or before.

        Afterwards only the rows are left that may win in a later window.
        """
        self._join(sorted(panes, key=lambda pane: pane.place))
        slot = np.arange(len(self.place), dtype=np.int64)
        low = 0
        while True:
            begin = [int(self.place[low])] if low < len(slot) else []
            begin += [] if self.due is None else [self.due]
            answered = self.schedule.closed
            upto = min(closed, max(answered, min(begin)) + self._reach) if begin else closed
            high = int(np.searchsorted(self.place, upto))
            part = slice(low, high)
            rows = PlacedRows(self.score[part], slot[part], self.place[part], slot[part])
            piece = self.schedule.cut(rows.at, upto)
            answers = self._structure.push(rows, piece, places=False, numbers=False)
            if len(piece.due.end):
                yield Found(piece.due, answers.id, answers.upto)
            low = high
            if upto == closed:
                break
        self._forget(closed)

    def _join(self, panes: list[SharedPane]) -> None:
        places, scores = [self.place], [self.score]
        newest = int(self.place[-1]) if len(self.place) else None
        for pane in panes:
            if newest is not None and pane.place <= newest:
                raise AssertionError(f"a pane at {pane.place} after one at {newest}")
            newest = pane.place
            places.append(np.full(len(pane.score), pane.place, np.int64))
            scores.append(np.array(pane.score[::-1], np.float64))
            self.pool.add([column[::-1] for column in pane.kept], len(pane.score))
        self.place, self.score = np.concatenate(places), np.concatenate(scores)

    def _forget(self, closed: int) -> None:
        none = np.empty(0, np.int64)
        self._structure.forget(Piece(self.schedule.open, NO_WINDOWS, none, closed))
        self.left = self._structure.kept()

    def columns(self) -> list[Column]:
        """The rows that are left, in order: places, scores, kept columns."""
        left = self.left.tolist()
        kept = [[column[i] for i in left] for column in self.pool.columns]
        return [self.place[self.left].tolist(), self.score[self.left].tolist(), *kept]
