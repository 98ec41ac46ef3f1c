"""What every shared structure has in common: a state of flat arrays, fed piece by piece."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.algorithm import copied, filled, flatten
from skyband.engine.snapshot import Saved
from skyband.kernels.jit import first_use
from skyband.kernels.records import Record, fields
from skyband.order import Floats, Ints
from skyband.workload.schedule import Piece, Windows

if TYPE_CHECKING:
    from typing import Self


class PlacedRows(NamedTuple):
    """Rows in sequence: scores (NaN is never ranked), arrival numbers, places, ids."""

    score: Floats
    seq: Ints
    at: Ints
    id: Ints


class Answers(NamedTuple):
    """The rankings of a piece's due windows, one after the other; ``upto`` per window.

    Columns that the caller does not need are empty.
    """

    score: Floats
    seq: Ints
    at: Ints
    id: Ints
    upto: Ints


PROGRESS = fields("row", "due", "written")
"""How far a kernel has come in a piece: rows taken in, windows answered, ranked rows written."""

_COMPILED: set[type[Structure]] = set()


class Structure(ABC):
    """Maintains what may still win in any window of a workload, and answers windows from it.

    A subclass keeps its whole state in ``self.state``, a tuple of (tuples of) arrays, so that a
    snapshot is those arrays and nothing else. ``progress``, one record of :data:`PROGRESS`, tells
    its kernel where in a piece to go on after it ran out of room.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.state: Any = self.new_state()

    @abstractmethod
    def new_state(self) -> Any:
        """The state before the first row."""

    @abstractmethod
    def run(self, rows: PlacedRows, piece: Piece, target: Answers, progress: Record) -> bool:
        """Take in rows and answer windows in turn; False if room ran out.

        Kernels do not allocate: they stop, and Python makes room.
        """

    @abstractmethod
    def make_room(self) -> None:
        """Make the room that :meth:`run` found lacking."""

    @abstractmethod
    def kept(self) -> Ints:
        """Ascending arrival numbers of the rows that are kept."""

    @abstractmethod
    def size(self) -> int:
        """How many rows are kept."""

    @abstractmethod
    def forget(self, piece: Piece) -> None:
        """Forget what no open window of a piece can need, now."""

    def size_from(self, starts: Ints) -> Ints:
        """How many rows from each of these places on are kept, at most."""
        return np.full(len(starts), self.size(), np.int64)

    @abstractmethod
    def check_structure(self) -> None:
        """Assert the invariants that concern the structure alone."""

    def check_invariants(self, windows: Windows, alive: Mapping[int, tuple[float, int]]) -> None:
        """Assert that the rows kept are the union of predicted results, and no others.

        ``windows`` are open; ``alive`` has score and place of the ranked rows in any of them.
        """
        self.check_structure()
        predicted: set[int] = set()
        for start, k in zip(windows.start.tolist(), windows.k.tolist(), strict=True):
            seqs = [seq for seq, (_, at) in alive.items() if at >= start]
            seqs.sort(key=lambda seq: (alive[seq][0], seq), reverse=True)
            predicted.update(seqs[:k])
        assert self.kept().tolist() == sorted(predicted), "not the union of predicted results"

    def push(self, rows: PlacedRows, piece: Piece, places: bool, numbers: bool) -> Answers:
        """Take in a piece of the stream; returns the rankings of its due windows.

        ``places`` and ``numbers`` ask for the places and the arrival numbers of ranked rows.
        """
        due = piece.due
        arriving = np.maximum(piece.upto - np.searchsorted(rows.at, due.start), 0)
        room = max(int(np.minimum(due.k, arriving + self.size_from(due.start)).sum()), 1)
        target = Answers(
            np.empty(room),
            np.empty(room if numbers else 0, np.int64),
            np.empty(room if places else 0, np.int64),
            np.empty(room, np.int64),
            np.zeros(len(piece.upto), np.int64),
        )
        if type(self) in _COMPILED:
            return self._push(rows, piece, target)
        with first_use(self.name):
            target = self._push(rows, piece, target)
        _COMPILED.add(type(self))
        return target

    def _push(self, rows: PlacedRows, piece: Piece, target: Answers) -> Answers:
        progress = np.zeros(1, PROGRESS)
        while not self.run(rows, piece, target, progress):
            self.make_room()
        written = int(progress["written"][0])
        return Answers._make([*(column[:written] for column in target[:-1]), target.upto])

    def fork(self) -> Self:
        """A copy whose state is its own, to run ahead on. O(state)."""
        fork = copy.copy(self)
        fork.state = copied(self.state)
        return fork

    def state_bytes(self) -> int:
        """Bytes of memory that the state occupies."""
        return sum(array.nbytes for _, array in flatten(self.state))

    def saved(self) -> Saved:
        """The state as named arrays."""
        return {}, dict(flatten(self.state))

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`saved` gave."""
        del header
        self.state = filled(self.state, "", arrays)
