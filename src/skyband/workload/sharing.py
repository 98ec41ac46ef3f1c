"""The queries over one score, on one shared structure: scheduled, fed, answered."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.changes import Changes, Columns
from skyband.engine.results import Ranked
from skyband.engine.snapshot import Saved, join, part
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.windows import FOREVER
from skyband.workload import build
from skyband.workload.schedule import Piece, Schedule
from skyband.workload.structure import Answers, PlacedRows

_PIECE = 1 << 17  # rows that are scheduled at once
_ANSWERS = 1 << 22  # ranked rows that one piece should not exceed
_OPENING = 1 << 22  # windows that one piece should not open

QueryWindows = tuple[Ints, Ranked]
"""The number of each window's query, and the windows."""


class Sharing:
    """Maintains one shared structure for all queries over one score, and its schedule."""

    def __init__(self, algorithm: str, counted: bool, changes: bool, timed: bool) -> None:
        self.schedule = Schedule(counted, farewell=changes)
        self.structure = build(algorithm)
        self.counted = counted
        self.timed = timed
        self.changes = Changes() if changes else None
        self._queries: dict[int, TopK] = {}
        self._piece = _PIECE

    def add(self, number: int, query: TopK, complete_from: int | None) -> None:
        """Take in a query, by number."""
        self.schedule.add(number, query, complete_from)
        self._queries[number] = query
        self._piece = 0  # computed anew before the next rows

    def _rows_at_once(self) -> int:
        """How many rows to schedule at once, so that neither windows nor answers are too many."""
        if not self._piece:
            queries = self._queries.values()
            windows = sum(query.window.size // query.window.slide + 2 for query in queries)
            answers = sum(min(query.k, query.window.size) / query.window.slide for query in queries)
            rows = _ANSWERS / max(answers, 1e-9) if self.counted else _OPENING / max(windows, 1)
            self._piece = int(max(1, min(_PIECE, rows)))
        return self._piece

    def remove(self, number: int) -> None:
        """Forget a query, and the rows that only it needed."""
        self.schedule.remove(number)
        del self._queries[number]
        self._piece = 0
        self._forget()
        if self.changes is not None:
            self.changes.forget(number)

    def first_complete(self, number: int) -> tuple[int, int]:
        """Bounds of the first window of a query that will be answered."""
        return self.schedule.first_complete(number)

    def push(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, closed: int
    ) -> list[QueryWindows]:
        """Take in rows in sequence, before the place ``closed``; answer what ends there or before.

        Rows of count windows that are not ranked (NaN) keep their places; those of time windows
        are not passed in.
        """
        if not self.counted:
            self.schedule.require_few_windows(at, closed)
        answered = []
        at_once = self._rows_at_once()
        for low in range(0, max(len(score), 1), at_once):
            part = slice(low, low + at_once)
            rows = PlacedRows(score[part], seq[part], at[part], ids[part])
            last = low + at_once >= len(score)
            upto = closed if last else int(at[part][-1]) + (1 if self.counted else 0)
            piece = self.schedule.cut(rows.at, upto)
            answers = self.structure.push(
                rows,
                piece,
                places=not self.counted or self.changes is not None,
                numbers=self.changes is not None,
            )
            answered.append(self._ranked(piece, answers))
        return answered

    def run_ahead(
        self, score: Floats, seq: Ints, at: Ints, ids: Ints, newest: int
    ) -> list[QueryWindows]:
        """The rankings so far of all windows that are open, if these rows had come as well.

        A copy takes them in: nothing changes here.
        """
        del newest  # what is open holds a row, and so has begun
        ahead = copy.copy(self)
        ahead.schedule, ahead.structure = copy.copy(self.schedule), self.structure.fork()
        return ahead.push(score, seq, at, ids, FOREVER)

    def _ranked(self, piece: Piece, answers: Answers) -> QueryWindows:
        windows, offsets = piece.due, np.concatenate([[0], answers.upto])
        columns: Columns = (answers.score, answers.seq, answers.at, answers.id)
        ranks = previous = None
        if self.changes is not None:
            changed = self.changes.of_windows(windows.query.tolist(), offsets, columns)
            reported = np.diff(changed.offsets) > 0  # windows without any change are left out
            windows = windows.take(reported)
            offsets = np.append(changed.offsets[:-1][reported], changed.offsets[-1])
            columns, ranks, previous = changed.columns, changed.ranks, changed.previous
        score, _, at, ids = columns
        ranked = Ranked(
            windows.start,
            windows.end,
            offsets,
            score,
            ids,
            None if self.counted else at,
            ranks,
            previous,
            self.timed,
        )
        return windows.query, ranked

    def _forget(self) -> None:
        """Drop the rows that cannot win any more, even if the structure would do so later."""
        self.structure.forget(self.schedule.pause())

    def check_invariants(self, alive: Mapping[int, tuple[float, int]]) -> None:
        """Assert what the structure promises, given score and place of the ranked rows so far."""
        self._forget()
        self.structure.check_invariants(self.schedule.open, alive)

    def kept(self) -> Ints:
        """Ascending arrival numbers of the rows that may still win."""
        self._forget()
        return self.structure.kept()

    def state_bytes(self) -> int:
        """Bytes of memory that the state occupies."""
        return self.structure.state_bytes() + self.schedule.state_bytes()

    def saved(self) -> Saved:
        """The state as plain values and named arrays."""
        parts = {"structure": self.structure.saved(), "schedule": self.schedule.saved()}
        if self.changes is not None:
            parts["changes"] = self.changes.saved()
        return join({}, parts)

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`saved` gave; the queries are there already."""
        self.structure.restored(*part("structure", header, arrays))
        self.schedule.restored(*part("schedule", header, arrays))
        if self.changes is not None:
            self.changes.restored(*part("changes", header, arrays))
