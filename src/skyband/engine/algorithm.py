"""What every top-k algorithm has in common: a state of flat arrays, and one loop over steps."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved
from skyband.engine.steps import Steps
from skyband.errors import QueryError, SnapshotError
from skyband.kernels import work
from skyband.kernels.answers import Out, out, roomier_out, short_of_room
from skyband.order import Ints

if TYPE_CHECKING:
    from typing import Self

_COMPILED: set[type[Algorithm]] = set()


class Algorithm(ABC):
    """Maintains the objects that can still be answers, and answers windows from them.

    A subclass keeps its whole state in ``self.state``, a tuple of (tuples of) arrays, so that a
    snapshot is those arrays and nothing else. Objects are numbered in sequence; ranks follow
    (score, sequence number), both descending. A NaN score is never ranked but holds its place.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    attributes: ClassVar[bool] = False  # whether it indexes attribute columns
    counts_unranked: ClassVar[bool] = False  # whether its kernel counts NaN scores in passing
    keeps_window: ClassVar[bool] = False  # whether any object of the window may be reported later

    def __init__(self, setting: Setting) -> None:
        unknown = sorted(set(setting.options) - set(self.options))
        if unknown:
            raise QueryError(
                f"option {unknown[0]!r} for {self.name}",
                f"one of {', '.join(self.options)}" if self.options else "no options",
                "leave it out",
            )
        self.setting = setting
        self.state: Any = self.new_state()
        self._most = 0  # objects alive at most so far: bounds the size of an answer

    @classmethod
    def is_loaded(cls) -> bool:
        """Whether this process has compiled its kernels, or loaded them."""
        return cls in _COMPILED

    @abstractmethod
    def new_state(self) -> Any:
        """The state before the first object."""

    @abstractmethod
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        """Take in a batch from a step on, each time: expire, insert, answer.

        Kernels do not allocate: before a step they check for room. Returns the step before which
        room ran out, or the number of steps.
        """

    def reserve(self, rows: Rows, steps: Steps) -> None:
        """Make the room that a batch is known to need."""
        del rows, steps

    def make_room(self, arriving: int) -> None:
        """Make the room that :meth:`run` found lacking before a step with so many objects."""
        raise AssertionError(f"{self.name} ran out of room for {arriving} objects")

    def lacking(self, target: Out) -> int:
        """How many rows of an answer, if any, :meth:`run` found no room for."""
        setting = self.setting
        return setting.k if short_of_room(target, setting.k, setting.changes) else 0

    @abstractmethod
    def kept(self) -> Ints:
        """Ascending sequence numbers of the objects that may still be reported."""

    def reported(self) -> Ints:
        """Sequence numbers of the objects reported last, if it tells changes itself."""
        if not self.setting.changes:
            return np.empty(0, np.int64)
        ranking = self.state.memory.reported
        return np.asarray(ranking.seq[: ranking.size[0]])

    @abstractmethod
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        """Assert what the algorithm promises, given the ranked objects alive now."""

    @property
    @abstractmethod
    def work(self) -> Ints:
        """The work counters, see :mod:`skyband.kernels.work`."""

    @property
    def unranked(self) -> int:
        """NaN scores met so far, if it counts them in passing."""
        return int(self.work[work.UNRANKED])

    def push(self, rows: Rows, steps: Steps) -> Out:
        """Take in a batch and return its answers. Complexity: the algorithm's own."""
        setting = self.setting
        if setting.counted:
            bound = setting.size
        else:
            first = int(steps.first[0]) if len(steps.first) else int(steps.base[0])
            self._most = max(self._most, int(steps.base[0]) + rows.size - first)
            bound = self._most
        most = setting.k if setting.changes else min(setting.k, max(bound, 1))
        target = out(len(steps.stop), int(np.count_nonzero(steps.emit)), most, setting.changes)
        if type(self) in _COMPILED:
            return self._advance(rows, steps, target)
        from skyband.kernels.jit import first_use

        with first_use(self.name):
            target = self._advance(rows, steps, target)
        _COMPILED.add(type(self))
        return target

    def _advance(self, rows: Rows, steps: Steps, target: Out) -> Out:
        self.reserve(rows, steps)
        step = self.run(rows, steps, target, 0)
        while step < len(steps.stop):
            lacking = self.lacking(target)
            if lacking:
                target = roomier_out(target, lacking)
            else:
                self.make_room(int(steps.stop[step] - (steps.stop[step - 1] if step else 0)))
            step = self.run(rows, steps, target, step)
        return target

    def fork(self) -> Self:
        """A copy whose state is its own, to run ahead on. O(state)."""
        fork = copy.copy(self)
        fork.state = copied(self.state)
        return fork

    def counters(self) -> dict[str, float]:
        """Work counters by name; sums over slides are given as averages."""
        counts = dict(zip(work.NAMES, self.work.tolist(), strict=True))
        slides = max(counts["slides"], 1)
        return {
            name: value / slides if name in ("candidates", "meaningful") else value
            for name, value in counts.items()
        }

    def state_bytes(self) -> int:
        """Bytes of memory that the state occupies."""
        return sum(array.nbytes for _, array in flatten(self.state))

    def saved(self) -> Saved:
        """The state as plain values and named arrays."""
        return {"most": self._most}, dict(flatten(self.state))

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the state by one that :meth:`saved` gave."""
        self.state = filled(self.state, "", arrays)
        self._most = header["most"]


def flatten(state: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Name every array of a state: ``field.field``; records give an array per field."""
    for name, value in zip(state._fields, state, strict=True):
        if not isinstance(value, np.ndarray):
            yield from flatten(value, f"{prefix}{name}.")
        elif value.dtype.names is None:
            yield prefix + name, value
        else:
            yield from ((f"{prefix}{name}.{field}", value[field]) for field in value.dtype.names)


def copied(state: Any) -> Any:
    """The state in memory of its own."""
    return type(state)(
        *(value.copy() if isinstance(value, np.ndarray) else copied(value) for value in state)
    )


def filled(state: Any, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The state that arrays, named as :func:`flatten` does, belong to."""
    values = []
    for name, value in zip(state._fields, state, strict=True):
        if not isinstance(value, np.ndarray):
            values.append(filled(value, f"{prefix}{name}.", arrays))
        elif value.dtype.names is None:
            values.append(_array_of(value, prefix + name, arrays).copy())
        else:
            columns = {
                field: _array_of(value[field], f"{prefix}{name}.{field}", arrays)
                for field in value.dtype.names
            }
            records = np.zeros(columns[value.dtype.names[0]].shape, value.dtype)
            for field, column in columns.items():
                records[field] = column
            values.append(records)
    return type(state)(*values)


def _array_of(like: NDArray[Any], name: str, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The array of this name, which must have the type and dimensions of ``like``."""
    array = arrays.get(name)
    if array is None or array.dtype != like.dtype or array.ndim != like.ndim:
        raise SnapshotError(
            f"array {name!r} is {'missing' if array is None else array.dtype}",
            f"an array of {like.dtype}",
            "take a new snapshot with this version",
        )
    return array


def best_of(alive: Mapping[int, float], k: int, oldest_first: bool = False) -> list[int]:
    """The k best sequence numbers of a set of objects: for invariant checks."""
    sign = -1 if oldest_first else 1
    return sorted(alive, key=lambda seq: (alive[seq], sign * seq), reverse=True)[:k]
