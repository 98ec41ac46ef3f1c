"""The queries over one score, on one shared structure: scheduled, fed, answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.changes import Changes
from skyband.engine.results import Ranked
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.workload import build
from skyband.workload.schedule import NO_WINDOWS, Piece, Schedule, Windows
from skyband.workload.structure import Answers, PlacedRows

_PIECE = 1 << 17  # rows that are scheduled at once
_ANSWERS = 1 << 22  # ranked rows that one piece should not exceed
_OPENING = 1 << 22  # windows that one piece should not open

Found = tuple[Ints, Ranked]
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
        self._piece = 0  # to be told again

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

    def push(self, score: Floats, seq: Ints, at: Ints, id: Ints, closed: int) -> list[Found]:
        """Take in rows in sequence, before the place ``closed``; answer what ends there or before.

        Counted rows keep their place even if they are not ranked; timed ones do not come here.
        """
        found = []
        at_once = self._rows_at_once()
        for low in range(0, max(len(score), 1), at_once):
            part = slice(low, low + at_once)
            rows = PlacedRows(score[part], seq[part], at[part], id[part])
            last = low + at_once >= len(score)
            upto = closed if last else int(at[part][-1]) + (1 if self.counted else 0)
            piece = self.schedule.cut(rows.at, upto)
            answers = self.structure.push(
                rows,
                piece,
                places=not self.counted or self.changes is not None,
                numbers=self.changes is not None,
            )
            found.append(self._ranked(piece, answers))
        return found

    def _ranked(self, piece: Piece, answers: Answers) -> Found:
        windows, offsets = piece.due, np.concatenate([[0], answers.upto])
        columns = (answers.score, answers.seq, answers.at, answers.id)
        ranks = previous = None
        if self.changes is not None:
            told = self.changes.of_windows(windows.query.tolist(), offsets, columns)
            some = np.diff(told.offsets) > 0  # windows without any change are left out
            windows, offsets = (
                windows.take(some),
                np.append(told.offsets[:-1][some], told.offsets[-1]),
            )
            columns, ranks, previous = told.columns, told.ranks, told.previous
        score, _, at, id = columns
        ranked = Ranked(
            windows.start,
            windows.end,
            offsets,
            score,
            id,
            None if self.counted else at,
            ranks,
            previous,
            self.timed,
        )
        return windows.query, ranked

    def _forget(self) -> None:
        """Forget now what cannot win any more, whatever the structure would wait for."""
        none = np.empty(0, np.int64)
        schedule = self.schedule
        self.structure.forget(Piece(schedule.open, NO_WINDOWS, none, schedule.closed))

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
        schedule = sum(column.nbytes for column in self.schedule.open)
        return self.structure.state_bytes() + schedule

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state as plain values and named arrays."""
        arrays = {f"structure.{name}": v for name, v in self.structure.snapshot().items()}
        arrays |= {f"open.{name}": v for name, v in self.schedule.open._asdict().items()}
        self.schedule.settle()
        arrays["opened"] = self.schedule.opened
        if self.changes is not None:
            arrays |= {f"changes.{name}": v for name, v in self.changes.saved()[1].items()}
        return {"closed": self.schedule.closed}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`snapshot` gave; the queries are there already."""
        prefix = "structure."
        self.structure.restore(
            {name[len(prefix) :]: v for name, v in arrays.items() if name.startswith(prefix)}
        )
        self.schedule.settle()
        self.schedule.open = Windows(*(arrays[f"open.{name}"] for name in Windows._fields))
        self.schedule.opened = arrays["opened"]
        self.schedule.closed = header["closed"]
        if self.changes is not None:
            mine = {n[8:]: v for n, v in arrays.items() if n.startswith("changes.")}
            self.changes.restored({}, mine)
